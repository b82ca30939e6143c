/* How the last run of the agent ended. A file beside the spool's segments says that a run is under
 * way and since when; an orderly end takes it away. Found at a start, it tells of a kill, a crash
 * or a loss of power: what the agent had in memory is gone, and the ledger says so (stage
 * "agent"), in ticks, by the time from the newest batch on disk to now.
 *
 * Until that has become durable itself the file goes on telling of it: a second kill at once
 * changes nothing. Format: docs/formats.md. Threads: one owner; counts never change after begin. */
#ifndef PROCFLEET_AGENT_AGENT_RUN_H
#define PROCFLEET_AGENT_AGENT_RUN_H

#include "common/base/err.h"
#include "common/model/model.h"

#define AGENT_RUN_FILE "run"

struct agent_run {
    char *path;          /* NULL: nothing is kept */
    bool untold;         /* it began with a loss */
    uint64_t killed;     /* ticks */
    uint64_t power_lost; /* ticks, at least one */
};

/* What the run begins with. */
struct agent_run_start {
    struct uuid boot;
    int64_t wall_ns, mono_ns; /* now */
    int64_t newest_ns;        /* UTC, when the newest batch on disk was put; 0: none is there */
    int64_t period_ns;        /* of ticks */
    int64_t memory_ns;        /* so much of the past may have been in memory */
};

/* Fills a zeroed one and marks the run as begun. Errors, which cost that a kill can be told:
 * ERR_NOMEM, those of os_write_file */
NODISCARD enum err agent_run_begin(struct agent_run *r, const char *dir,
                                   const struct agent_run_start *start);

/* told: everything that was made, the loss at the beginning included, is durable or delivered. */
void agent_run_end(struct agent_run *r, bool told);

size_t agent_run_ledger(const struct agent_run *r, struct ledger_row *rows, size_t max);

#endif
