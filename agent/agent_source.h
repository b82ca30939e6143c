/* Which live source this system has (agent_source_linux.c and its siblings, chosen by the build).
 * Threads: as source.h. */
#ifndef PROCFLEET_AGENT_AGENT_SOURCE_H
#define PROCFLEET_AGENT_AGENT_SOURCE_H

#include "agent/source.h"

struct agent_source_conf {
    const char *name; /* as configured: "auto", "proc", "snapshot" */
    int64_t period_ns;
    size_t processes_max;
};

/* Errors: ERR_UNSUPPORTED (no such source here), those of the source's open */
NODISCARD enum err agent_source_open_live(struct source **out, const struct agent_source_conf *conf,
                                          struct source_sink sink, struct errmsg *why);

#endif
