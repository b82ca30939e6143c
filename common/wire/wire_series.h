/* The series of an answer: how metrics of groups went over time, and what of each bucket arrived;
 * to and from its messages for wire_answer.c. Plain data. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_SERIES_H
#define PROCFLEET_COMMON_WIRE_WIRE_SERIES_H

#include "common/wire/wire_query.h"

#define WIRE_BUCKETS_MAX 4096u
#define WIRE_SERIES_VALUES_MAX \
    350000u /* groups x metrics x buckets, x 3 with envelopes: what fits a
                                          reply in any case */

#define WIRE_SERIES_NONE UINT32_MAX

/* One metric of one group; an index of an array is a bucket. */
struct wire_series_column {
    uint8_t *have;      /* bit b % 8 of byte b / 8: the bucket has values */
    int64_t *avg;       /* counters: growth in the bucket; cpu_percent: permille of one processor;
                          gauges: mean */
    int64_t *min, *max; /* gauges of one process; NULL: not asked for, or a counter */
};

/* How a gauge went over 32 parts of the window. */
struct wire_trend {
    int64_t per_hour;         /* median slope of all pairs of parts */
    uint32_t steady_permille; /* parts that rose */
};

struct wire_series {
    int64_t t0_ns; /* start of the first bucket, UTC */
    int64_t step_ns;
    uint32_t n_buckets;
    uint32_t hosts_asked;
    const uint32_t *present;  /* delivered of the hosts of which data is expected, ppm */
    const uint32_t *hosts_in; /* hosts with samples */
    const uint32_t *reaches;  /* buckets before it that its growth reaches back, since a host was
                                 not measured there; NULL: not told */
    size_t n_groups; /* of the answer's rows, in order; one more: what is in none of them */
    const struct wire_series_column *columns; /* n_groups times the answer's n_metrics */
    /* Pulse, n_groups times n_buckets, or NULL; WIRE_SERIES_NONE: not known. */
    const uint32_t *group_present;   /* delivered of the group's host, ppm */
    const uint32_t *group_processes; /* alive */
};

static inline bool wire_series_has(const struct wire_series_column *c, uint32_t bucket)
{
    return c->have[bucket / 8] >> bucket % 8 & 1;
}

struct wire_arena;
struct Procfleet__V1__Answer;

/* Errors: ERR_INVALID (over a limit), ERR_NOMEM */
NODISCARD enum err wire_series_put(struct Procfleet__V1__Answer *m, const struct wire_answer *in,
                                   struct wire_arena *a);
/* After the answer's rows and metrics. Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err wire_series_get(struct wire_answer *out, const struct Procfleet__V1__Answer *m,
                                   struct wire_arena *a);

#endif
