/* What the processes of one image and user did together in one window of a host: made while
 * sealing, beside the summaries, for those who ask how groups went over many windows. They say what
 * adding up the summaries says, so they are made only where nothing hangs on single processes: all
 * had a sample in the window before or began in this one, none changed its name, its user or which
 * metrics it has, and no counter stepped back. The window before is named by its stamps: where it
 * is another one, or something lies between, the sums do not hold. The idle process is left out.
 * Bytes: docs/formats.md. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_STORE_ROLLUP_GROUP_SUMS_H
#define PROCFLEET_COLLECTOR_STORE_ROLLUP_GROUP_SUMS_H

#include "collector/store/rollup/tier_shape.h"
#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"

/* The metrics that are plotted; of others there are no sums. */
#define GROUP_SUMS_METRICS                                                                         \
    (METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_CONTEXT_SWITCHES) | METRIC_BIT(M_WORKING_SET_SIZE) |    \
     METRIC_BIT(M_PRIVATE_BYTES) | METRIC_BIT(M_HARD_FAULTS) | METRIC_BIT(M_THREAD_COUNT) |        \
     METRIC_BIT(M_READ_BYTES) | METRIC_BIT(M_WRITE_BYTES) | METRIC_BIT(M_HANDLE_COUNT) |           \
     METRIC_BIT(M_TCP_SEND_BYTES) | METRIC_BIT(M_TCP_RECV_BYTES) | METRIC_BIT(M_DISK_READ_BYTES) | \
     METRIC_BIT(M_DISK_WRITE_BYTES))

struct group_sums_part {
    uint64_t count; /* gauges: samples; counters: processes whose growth is in `sum`; 0: nothing */
    int64_t sum;    /* gauges: of the values; counters: growth since the window before */
    uint64_t n_new; /* processes without a sample in the window before */
};

struct group_sums_group {
    struct str name, user;
};

struct group_sums {
    int64_t t0_ns, t1_ns;               /* of the first and the last tick */
    int64_t before_t0_ns, before_t1_ns; /* oldest and newest stamp of the window before */
    size_t n;
    const struct group_sums_group *groups; /* by name, then user */
    metric_mask metrics;
    uint64_t ticks[METRIC_COLS];                      /* the most samples that a process had, */
    struct proc_id most[METRIC_COLS];                 /* and the first that had them */
    const struct group_sums_part *parts[METRIC_COLS]; /* n of each metric */
};

/* now        the window's summary with names
 * before     that of the window before, with names and GROUP_SUMS_METRICS
 * before_ns  oldest and newest stamp of that window
 * Everything is in `memory` or borrowed from `now`.
 * Errors: ERR_NOTFOUND (there are no sums of this window), ERR_FULL */
NODISCARD enum err group_sums_make(struct group_sums *out, struct arena *memory,
                                   const struct tier *now, const struct tier *before,
                                   const int64_t before_ns[2]);

void group_sums_put(struct buf *out, const struct group_sums *s); /* latches in out */

/* With the metrics asked for that are there; texts stay in p.
 * Errors: ERR_CORRUPT, ERR_VERSION, ERR_FULL (the arena's limit) */
NODISCARD enum err group_sums_get(struct group_sums *out, struct arena *memory, metric_mask metrics,
                                  const void *p, size_t n);

#endif
