/* Source: this Linux machine, through procfs; starts and exits through the netlink process
 * connector and exact exit totals through taskstats where the agent may use them, else by
 * comparison of two tables. */
#ifndef PROCFLEET_AGENT_SOURCE_PROC_LINUX_H
#define PROCFLEET_AGENT_SOURCE_PROC_LINUX_H

#include "agent/source.h"

struct proc_linux_conf {
    int64_t period_ns;    /* distance of tables, 1 ms to 10 s */
    size_t processes_max; /* rows of a table; more are counted */
    bool events;          /* use the process connector and taskstats where possible */
};

NODISCARD enum err proc_linux_open(struct source **out, const struct proc_linux_conf *conf,
                                   struct source_sink sink, struct errmsg *why);

#endif
