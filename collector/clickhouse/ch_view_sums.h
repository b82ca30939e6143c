/* Cells of a stretch of a host's time that the server adds up: a row a process, as long as it has
 * the same metrics, instead of one each 10 s. The same as the cells together where batches follow
 * one another and the stretch begins and ends at multiples of 10 s; where they do not, where a
 * process has several sets of metrics by turns, or began anew, nothing is found. Of hosts whose
 * batches may be there twice the table is read with FINAL.
 * Bounds: 64 MiB of a host's rows; more is not found. Threads: those of the view. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_SUMS_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_SUMS_H

#include "collector/clickhouse/ch_view_ask.h"

struct ch_view_sums_block;
struct summed;

struct ch_view_sums {
    struct ch_view *v;
    size_t host;
    const struct store_cells *ask;
    int64_t begin_ns, end_ns;
    /* zero at first: */
    bool found;
    struct arena memory;
    size_t n_metrics;
    uint8_t metrics[METRIC_COLS];
    struct ch_view_sums_block *blocks, *last_block;
    const struct summed *newest;
};

/* s->found: rows are there, perhaps none. ch_view_sums_fini also after an error. Errors: those of
 * ch_view_page_get */
NODISCARD enum err ch_view_sums_find(struct ch_view_sums *s);
void ch_view_sums_fini(struct ch_view_sums *s);

/* As rows inside, or as bases. Errors: ERR_TIMEOUT, those of `each` */
NODISCARD enum err ch_view_sums_give(const struct ch_view_sums *s, bool before,
                                     enum err (*each)(void *ctx, const struct store_cell_row *row),
                                     void *ctx);

/* -- columns of a metric, in any table of cells -- */

size_t ch_view_sums_parts(unsigned id); /* how many */
/* The parts of the metric whose first column is *c, of the i-th row. */
struct cell ch_view_sums_cell(const struct ch_in_column *c, size_t i, unsigned id, uint64_t n,
                              int64_t ts_ns, int64_t last_ts_ns);

#endif
