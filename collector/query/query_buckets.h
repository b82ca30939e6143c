/* The time axis of a plot: buckets on whole steps since 1970, and what of each arrived.
 * Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_BUCKETS_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_BUCKETS_H

#include "collector/query/query_impl.h"
#include "collector/query/query_ledger.h"
#include "collector/query/query_quiet.h"

struct query_buckets {
    int64_t t0_ns;                /* start of the first, UTC */
    int64_t step_ns;              /* 0: there is no window */
    uint32_t n;                   /* up to WIRE_BUCKETS_MAX */
    uint32_t *present;            /* of each, delivered in ppm: after query_buckets_end */
    uint32_t *hosts_in;           /* of each: hosts that were measured in it */
    uint32_t *reaches;            /* of each, before it: buckets that its growth reaches back */
    double *wanted_ns, *there_ns; /* of all hosts */
};

/* The axis of a planned question. Windows that hang on each host's newest data become one; spans
 * are extended to whole buckets where the question set their ends, but not beyond now.
 * Errors: ERR_INVALID (why says what), ERR_FULL */
NODISCARD enum err query_buckets_plan(struct query_buckets *x, struct query *q);

/* The part of bucket b that lies in [since, until), ns. */
int64_t query_buckets_overlap(const struct query_buckets *x, uint32_t b, int64_t since_ns,
                              int64_t until_ns);

/* Stretches without a tick that are shorter than this do not show in the buckets. */
int64_t query_buckets_quiet_least(const struct query_buckets *x);

/* Adds what of each bucket a host delivered, and where it was not measured.
 * ticks     of the host in each bucket; NULL: not known
 * measured  becomes a bit for each bucket, lowest first: it was measured in it; may be NULL */
void query_buckets_cover(struct query_buckets *x, const struct query_span *s,
                         const struct query_ledger *l, const struct query_quiet *quiet,
                         const uint64_t *ticks, uint8_t *measured);
void query_buckets_end(struct query_buckets *x);

#endif
