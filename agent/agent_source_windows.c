#include <string.h>

#include "agent/agent_source.h"
#include "agent/source/windows/etw_live.h"
#include "agent/source/windows/live.h"
#include "agent/source/windows/right_win32.h"
#include "agent/source/windows/snap_win32.h"

/* auto: what is refused is tried again for as long as the agent runs. */
static enum err open_events(void *ctx, struct live_events **out, struct source_sink sink,
                            struct errmsg *why)
{
    const struct agent_source_conf *conf = ctx;
    struct etw_live_conf events;

    etw_live_conf_make(&events, conf->etw, strcmp(conf->name, "attach") == 0);
    events.patient = strcmp(conf->name, "auto") == 0;
    return etw_live_open(out, &events, sink, why);
}

static enum err open_tables(void *ctx, struct live_tables **out, struct errmsg *why)
{
    const struct agent_source_conf *conf = ctx;
    struct snap_win32_conf tables = {.processes_max = conf->processes_max,
                                     .slow = {.top = conf->slow_top,
                                              .period_ns = conf->slow_period_ns,
                                              .users = conf->users,
                                              .command_lines = conf->command_lines}};

    return snap_win32_open(out, &tables, why);
}

enum err agent_source_open_live(struct source **out, const struct agent_source_conf *conf,
                                struct source_sink sink, struct errmsg *why)
{
    static const char *const names[] = {"auto", "live", "attach", "snapshot"};
    struct agent_source_conf with = *conf;
    struct live_conf live = {
        .open_tables = open_tables, .ctx = &with, .period_ns = conf->period_ns};
    bool known = false;
    enum err e;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        known = known || strcmp(conf->name, names[i]) == 0;
    }
    if (!known) {
        return errmsg_set(why, ERR_INVALID, "source: %s does not exist on Windows; use auto",
                          conf->name);
    }
    if (conf->beside && strcmp(conf->name, "auto") == 0) {
        with.name = "snapshot";
    }
    live.open_events = strcmp(with.name, "snapshot") == 0 ? NULL : open_events;
    live.events_needed = strcmp(with.name, "auto") != 0;
    err_ignore(right_win32_profile()); /* who lacks it is told by whatever is refused then */
    e = snap_win32_about(&live.about);
    if (e) {
        return errmsg_set(why, e, "the system does not say when it started");
    }
    return live_open(out, &live, sink, why);
}
