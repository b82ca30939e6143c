/* How gauges of processes went over the window: from its first part to its last, how fast, and how
 * steadily. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_GROWTH_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_GROWTH_H

#include "collector/query/query_table.h"
#include "common/wire/wire_series.h"

#define QUERY_GROWTH_PARTS 32

struct query_growth {
    size_t span;
    struct proc_key who;
    int64_t seen_ns; /* start of its last part */
    int64_t grew;    /* mean of its last part minus mean of its first */
    struct wire_trend trend;
    const struct proc_info *info; /* NULL: nothing is known; valid during the call */
};

/* Calls `each` with every process asked for that was measured in two parts at least, by the
 * answer's first metric. Errors: ERR_TIMEOUT, ERR_FULL, ERR_NOMEM, what `each` returns */
NODISCARD enum err query_growth_scan(struct query *q,
                                     enum err (*each)(void *ctx, const struct query_growth *g),
                                     void *ctx);

#endif
