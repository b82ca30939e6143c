#include "agent/control/control_agent.h"

#include <stdio.h>
#include <string.h>

#include "agent/control/control.h"
#include "common/base/mem.h"

struct control_agent {
    struct control *control;
    struct monitor *monitor;
    uint32_t flags; /* asked for last */
};

static void control_agent_tell(const struct control_agent *c, struct buf *text)
{
    struct monitor_stats stats;
    struct errmsg detail = {""};
    const char *source = monitor_source(c->monitor, &detail);

    monitor_stats(c->monitor, &stats);
    buf_printf(text, "level     L%u\nsource    %s%s%s", stats.level, source,
               detail.text[0] ? ": " : "", detail.text);
    if (strcmp(source, "live") == 0) {
        buf_put_str(text, "\nflags     ");
        control_flags_text(text, c->flags);
        buf_put_str(text, " (permitted; the level decides which of them are on)");
    }
}

static enum err control_agent_flags(struct control_agent *c, const struct control_wish *w,
                                    struct buf *text, struct errmsg *why)
{
    uint32_t wanted = (c->flags | w->flags_on) & ~w->flags_off;
    enum err e = monitor_set_flags(c->monitor, wanted, why);

    if (!e) {
        c->flags = wanted;
        buf_put_str(text, "permitted flags: ");
        control_flags_text(text, wanted);
    }
    return e;
}

static enum err control_agent_provider(struct control_agent *c, const struct control_wish *w,
                                       struct buf *text, struct errmsg *why)
{
    bool add = w->what == CONTROL_ADD;
    struct source_provider p;
    enum err e = etw_provider_parse(&p, w->provider, why);

    if (!e) {
        e = add ? monitor_add_provider(c->monitor, &p, why)
                : monitor_remove_provider(c->monitor, p.guid, why);
    }
    if (!e) {
        buf_printf(text, "provider %s: %s", w->provider, add ? "added" : "removed");
    }
    return e;
}

static enum err control_agent_level(struct control_agent *c, const struct control_wish *w,
                                    struct buf *text, struct errmsg *why)
{
    enum err e = monitor_set_level(c->monitor, w->level, w->span_ns, why);

    if (!e) {
        buf_printf(text, "level L%u for %llds", w->level, (long long)(w->span_ns / 1000000000));
    }
    return e;
}

static enum err control_agent_do(void *ctx, const struct control_wish *w, struct buf *text,
                                 struct errmsg *why)
{
    struct control_agent *c = ctx;
    char note[CONTROL_LINE];
    enum err e = ERR_UNSUPPORTED;

    switch (w->what) {
    case CONTROL_STATE:
        control_agent_tell(c, text);
        return ERR_OK;
    case CONTROL_FLAGS:
        e = control_agent_flags(c, w, text, why);
        break;
    case CONTROL_STACKS:
        e = monitor_set_stacks(c->monitor, w->on, why);
        buf_put_str(text, w->on ? "stacks: on" : "stacks: off");
        break;
    case CONTROL_ADD:
    case CONTROL_REMOVE:
        e = control_agent_provider(c, w, text, why);
        break;
    case CONTROL_LEVEL:
        e = control_agent_level(c, w, text, why);
        break;
    case CONTROL_WHATS:
        break;
    }
    if (!e) {
        (void)snprintf(note, sizeof note, "asked for on this host: %s", buf_cstr(text));
        err_ignore(monitor_note(c->monitor, note)); /* it ends */
    }
    return e;
}

enum err control_agent_start(struct control_agent **out, const struct agent_conf *conf,
                             struct monitor *m, struct errmsg *why)
{
    struct control_agent *c = mem_zalloc(sizeof *c);
    enum err e = c ? ERR_OK : errmsg_set(why, ERR_NOMEM, "out of memory");

    if (!e) {
        c->monitor = m;
        c->flags = conf->etw.flags;
        e = control_open(&c->control, conf->state_dir, control_agent_do, c, why);
    }
    if (e) {
        mem_free(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void control_agent_stop(struct control_agent *c)
{
    if (c) {
        control_close(c->control);
        mem_free(c);
    }
}
