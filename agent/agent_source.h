/* Which live source this system has (agent_source_linux.c and its siblings, chosen by the build).
 * Threads: as source.h. */
#ifndef PROCFLEET_AGENT_AGENT_SOURCE_H
#define PROCFLEET_AGENT_AGENT_SOURCE_H

#include "agent/conf/etw_conf.h"
#include "agent/source/source.h"

struct agent_source_conf {
    const char *name; /* as configured: "auto", "live", "attach", "snapshot", "proc" */
    int64_t period_ns;
    size_t processes_max;
    size_t slow_top; /* Windows: processes opened in slow_period_ns for what tables do not tell */
    int64_t slow_period_ns;
    bool users, command_lines; /* Windows: of whom no record tells them */
    bool beside; /* for a look, an agent may run here too: auto leaves event sessions to it */
    const struct etw_conf *etw; /* borrowed until close; Windows */
};

/* Errors: ERR_UNSUPPORTED (no such source here), those of the source's open */
NODISCARD enum err agent_source_open_live(struct source **out, const struct agent_source_conf *conf,
                                          struct source_sink sink, struct errmsg *why);

#endif
