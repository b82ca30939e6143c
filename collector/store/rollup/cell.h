/* What one metric of one process did in a span of time: the one shape in which summaries, tiers and
 * queries hold values. Plain data. Threads: any.
 *
 * A counter's growth from cell a to a later cell b is b.last - a.last, so cells add up exactly
 * whatever their spans. Its cell may begin with the sample just before the span: `first` and
 * `first_ns` are that sample's, which is not counted. Two cells that meet in one sample
 * (b.first_ns == a.last_ns) have nothing between them; otherwise what the counter grew from a.last
 * to b.first is a growth of its own. min and max are the smallest and largest growth from one
 * sample to the next, so a cell has them when cell_grew says so.
 *
 * Cells of one process and metric are joined in any order; the stamps inside decide. Only min and
 * max of counters want them in the order of time, and without overlap. */
#ifndef PROCFLEET_COLLECTOR_STORE_ROLLUP_CELL_H
#define PROCFLEET_COLLECTOR_STORE_ROLLUP_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cell {
    uint64_t count;            /* samples; 0 = empty, and nothing else holds */
    int64_t first_ns, last_ns; /* the host's stamps of the first and the last sample */
    int64_t first, last;       /* first: counters only, 0 of a gauge */
    int64_t sum;               /* gauges; stops at INT64_MAX or INT64_MIN instead of wrapping */
    int64_t min, max;          /* gauges: of the values */
};

/* Whether there is growth inside: min and max of a counter hold. */
static inline bool cell_grew(const struct cell *c)
{
    return c->last_ns > c->first_ns;
}

/* Sets what follows from n >= 1 values side by side: all but count and stamps. A counter's cell
 * begins with values[-1] when `base`. */
void cell_values(struct cell *c, bool counter, const int64_t *values, size_t n, bool base);

void cell_add(struct cell *c, bool counter, int64_t when_ns, int64_t value); /* later than all */
void cell_join(struct cell *c, bool counter, const struct cell *other);
/* cell_join with each in turn: cheaper where each begins as the one before ends. */
void cell_join_list(struct cell *c, bool counter, const struct cell *others, size_t n);

/* Lets a counter's cell begin with the last sample of `base`, whose samples are all older than
 * those counted in c: what is between them becomes growth inside. When c begins with a still older
 * sample (base is late data), base's takes its place; min and max stay. Nothing, when base is
 * empty. */
void cell_follow(struct cell *c, const struct cell *base);

/* a + b, a - b of counters and sums: stop at the ends of int64_t. */
int64_t cell_sum(int64_t a, int64_t b);
int64_t cell_growth(int64_t from, int64_t to);

#endif
