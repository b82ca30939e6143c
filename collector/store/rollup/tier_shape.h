/* What a tier is (tier.h): parts, buckets, rows and cells; and what follows for a cell from its row
 * and the ticks. Plain data. */
#ifndef PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_SHAPE_H
#define PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_SHAPE_H

#include "collector/store/rollup/cell.h"
#include "common/model/metric.h"
#include "common/model/model.h"

#define TIER_WINDOW_NS 0 /* bucket of a summary: the whole window */
#define TIER_10S_NS    (10 * INT64_C(1000000000))
#define TIER_1MIN_NS   (60 * INT64_C(1000000000))
#define TIER_1H_NS     (3600 * INT64_C(1000000000))

/* The host's ticks in one bucket. In the order of `part`, then of time; those without ticks are
 * left out. */
struct tier_bucket {
    uint32_t part; /* in tier.parts */
    uint32_t ticks;
    int64_t begin_ns; /* multiple of the bucket; summary: of the first tick */
    int64_t first_wall_ns, last_wall_ns;
    int64_t last_mono_ns;
    int64_t span_mono_ns; /* to it from the tick before the bucket, in the part's first bucket from
                             its first tick */
};

/* Ticks of one boot whose stamps rise. */
struct tier_part {
    struct uuid boot;
    uint32_t first_bucket, n_buckets;
};

struct tier_row {
    struct proc_id id; /* of a folded row: 0, 0 */
    uint32_t part;
    uint32_t first_bucket, n_buckets; /* in tier.buckets; folded: one */
    int64_t first_ns, last_ns;        /* its first and its last sample */
    uint32_t first_count, last_count; /* samples in its first and its last bucket */
    uint32_t instances;               /* 0 = one, exactly; else folded, seen in this bucket */
    metric_mask mask;                 /* metrics */
    bool fresh;                       /* began here: its counters began at zero */
    bool ended;
    struct str name, user; /* image name and account as far as the window knows */
};

/* Folded cells: `sum` of a counter is the growth of all instances, from zero for what began in
 * the bucket, min and max are of those growths; first and last are 0. */
struct tier {
    int64_t bucket_ns;
    bool whole; /* no batch is missing inside: may fold */
    size_t n_parts, n_buckets, n_rows;
    const struct tier_part *parts;
    const struct tier_bucket *buckets;
    const struct tier_row *rows; /* by part, pid, start, time; folded ones last, by name */
    metric_mask metrics;         /* which columns are there */
    size_t n_cells[METRIC_COLS];
    const struct cell *columns[METRIC_COLS]; /* n_buckets of each row that has the metric */
};

static inline bool tier_is_counter(unsigned metric)
{
    const struct metric *m = metric_by_id(metric);

    return m && m->kind == METRIC_COUNTER;
}

/* Count and stamps of the i-th cell of an exact row. A counter's begins with the sample before the
 * bucket. */
static inline void tier_shape(struct cell *c, const struct tier *t, const struct tier_row *row,
                              uint32_t i, bool counter)
{
    const struct tier_bucket *b = &t->buckets[row->first_bucket + i];
    bool last = i + 1 == row->n_buckets;

    c->count = i == 0 ? row->first_count : last ? row->last_count : b->ticks;
    c->first_ns = i == 0 ? row->first_ns : counter ? b[-1].last_wall_ns : b->first_wall_ns;
    c->last_ns = last ? row->last_ns : b->last_wall_ns;
}

#endif
