/* What several processes of one host did together: sums over a table's instances, metric by metric.
 * Private to collector/query.
 *
 * Counters add up what they grew. Of gauges only those that live at the window's end have a value
 * now; their mean is that of all of them together over the host's ticks; the maximum is that of a
 * single one, since what they were at once is not kept. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_SUM_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_SUM_H

#include "collector/query/query_table.h"

struct query_sum {
    int64_t total; /* growth; of gauges all samples */
    uint64_t steps;
    int64_t now; /* gauges: of the living */
    int64_t most;
    bool has_total, has_now, has_most;
};

/* Adds the instance's i-th metric of the table. */
void query_sum_add(struct query_sum *s, const struct query_table *t, const struct query_inst *inst,
                   unsigned i);

/* The value of the i-th metric for all that was added, taken as `by` says. */
bool query_sum_value(const struct query_sum *s, const struct query_table *t, unsigned i,
                     unsigned by, int64_t *value);

#endif
