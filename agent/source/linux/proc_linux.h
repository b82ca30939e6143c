/* Source: this Linux machine, through procfs; starts and exits through the netlink process
 * connector and exact exit totals through taskstats where the agent may use them, else by
 * comparison of two tables. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_LINUX_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_LINUX_H

#include "agent/source/source.h"

#define PROC_LINUX_PROCESSES_MAX 65536

struct proc_linux_conf {
    int64_t period_ns;    /* distance of tables, 1 ms to 10 s */
    size_t processes_max; /* rows of a table, 1 to PROC_LINUX_PROCESSES_MAX; more are counted */
    bool events;          /* use the process connector and taskstats where possible */
    bool every_file; /* read all of every process each time, also if it has not run: to compare */
};

/* Opens the source; without privilege it works by comparison, which is no error:
 * (*out)->about.polled and .detail tell. Descriptors of the program: the soft limit is raised to
 * the hard one, three quarters are used at most.
 * Facts: EV_PROC_START once or, after exec, again for the same instance; EV_PROC_STOP with exact
 * totals where the kernel reported them. exit_code is the exit code, or 128 + signal.
 * Errors: ERR_RANGE, ERR_NOMEM, ERR_NOTFOUND or ERR_ACCESS (no procfs), ERR_IO. run: ERR_IO */
NODISCARD enum err proc_linux_open(struct source **out, const struct proc_linux_conf *conf,
                                   struct source_sink sink, struct errmsg *why);

#endif
