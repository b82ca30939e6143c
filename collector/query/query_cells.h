/* Cells of one span's processes, from the store, under the deadline. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_CELLS_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_CELLS_H

#include "collector/query/query_plan.h"

/* store_scan_cells that honours the deadline and notes in q->used what was read. */
NODISCARD enum err query_cells(struct query *q, const struct query_span *s, struct store_cells *ask,
                               enum err (*each)(void *ctx, const struct store_cell_row *row),
                               void *ctx, struct store_ticks *ticks);

/* Adds what a scan of the span was read from, and what it could not read, to what the answer was.
 */
void query_used_add(struct query *q, const struct query_span *s, const struct store_used *used);

/* store_scan_blocks likewise; q->clock is that of the block during the call. */
NODISCARD enum err query_blocks(struct query *q, const struct query_span *s,
                                const struct store_range *range,
                                enum err (*each)(void *ctx, const struct store_block *b),
                                void *ctx);

/* store_scan_accounts likewise. */
NODISCARD enum err query_accounts(struct query *q, const struct query_span *s,
                                  const struct store_range *range,
                                  enum err (*each_account)(void *ctx, const struct loss_sum *a),
                                  enum err (*each)(void *ctx, const struct store_block *b),
                                  void *ctx);

#endif
