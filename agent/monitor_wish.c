/* What is collected, changed while it runs. */
#include "agent/monitor.h"

#include <string.h>

#include "agent/forward/meant.h"
#include "common/base/clk.h"

enum { FLAG_THREAD = 0x2, FLAG_CSWITCH = 0x10 }; /* EVENT_TRACE_FLAG_… */

enum err monitor_conf_check(const struct monitor_conf *conf, struct errmsg *why)
{
    if (conf->period_ns < CLK_MS || conf->period_ns > 10 * CLK_S) {
        return errmsg_set(why, ERR_RANGE, "samples are made every 1 ms to 10 s");
    }
    if (conf->processes_max == 0 || !conf->tick || !conf->life) {
        return errmsg_set(why, ERR_INVALID, "the monitor needs room and somebody who listens");
    }
    return ERR_OK;
}

struct source_name {
    const char *name;
    struct errmsg *why;
};

static void monitor_do_source(struct monitor *m, void *arg)
{
    const struct source *source = monitor_opened(m);
    struct source_name *s = arg;

    s->name = source ? source->about.name : "";
    err_ignore(errmsg_set(s->why, ERR_OK, "%s", source ? source->about.detail : ""));
}

const char *monitor_source(struct monitor *m, struct errmsg *why)
{
    struct source_name s = {.why = why};

    monitor_call(m, monitor_do_source, &s);
    return s.name;
}

static void monitor_do_mean(struct monitor *m, void *arg)
{
    meant_put(monitor_meant(m), arg);
}

static enum err monitor_ask(struct monitor *m, const struct source_ask *wish, const char *what,
                            struct errmsg *why)
{
    struct source *s = monitor_opened(m);

    if (!s) {
        return errmsg_set(why, ERR_UNSUPPORTED, "the monitor has no source yet");
    }
    if (!s->ask) {
        return errmsg_set(why, ERR_UNSUPPORTED,
                          "the source %s has no %s; a live one on Windows has (source: live)",
                          s->about.name, what);
    }
    return s->ask(s, wish, why);
}

enum err monitor_set_flags(struct monitor *m, uint32_t flags, struct errmsg *why)
{
    struct source_ask wish = {.what = SOURCE_ASK_FLAGS, .flags = flags};

    if (flags & FLAG_CSWITCH) {
        wish.flags |= FLAG_THREAD;
    }
    return monitor_ask(m, &wish, "flags of the kernel", why);
}

enum err monitor_set_stacks(struct monitor *m, bool on, struct errmsg *why)
{
    struct source_ask wish = {.what = SOURCE_ASK_STACKS, .on = on};

    return monitor_ask(m, &wish, "stacks", why);
}

enum err monitor_add_provider(struct monitor *m, const struct source_provider *provider,
                              struct errmsg *why)
{
    struct source_ask wish = {.what = SOURCE_ASK_PROVIDER, .provider = *provider};
    enum err e;

    e = monitor_ask(m, &wish, "providers", why);
    if (!e) {
        monitor_call(m, monitor_do_mean, &wish.provider);
    }
    return e;
}

enum err monitor_remove_provider(struct monitor *m, const uint8_t guid[16], struct errmsg *why)
{
    struct source_ask wish = {.what = SOURCE_ASK_NO_PROVIDER};
    enum err e;

    memcpy(wish.provider.guid, guid, sizeof wish.provider.guid);
    e = monitor_ask(m, &wish, "providers", why);
    if (!e) {
        monitor_call(m, monitor_do_mean, &wish.provider);
    }
    return e;
}
