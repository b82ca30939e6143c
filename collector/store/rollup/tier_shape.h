/* What follows for a cell from its row and the ticks. Private to tier*.c. */
#ifndef PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_SHAPE_H
#define PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_SHAPE_H

#include "collector/store/rollup/tier.h"

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
