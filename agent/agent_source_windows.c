#include <string.h>

#include "agent/agent_source.h"
#include "agent/source/snap_win32.h"

enum err agent_source_open_live(struct source **out, const struct agent_source_conf *conf,
                                struct source_sink sink, struct errmsg *why)
{
    struct snap_win32_conf snap = {.period_ns = conf->period_ns,
                                   .processes_max = conf->processes_max};

    if (strcmp(conf->name, "auto") != 0 && strcmp(conf->name, "snapshot") != 0) {
        return errmsg_set(why, ERR_UNSUPPORTED, "source: %s does not exist on Windows; use auto",
                          conf->name);
    }
    return snap_win32_open(out, &snap, sink, why);
}
