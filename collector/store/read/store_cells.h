/* Cells of batches that lie elsewhere, made as store_cells_scan makes those of batches that are not
 * sealed. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_CELLS_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_CELLS_H

#include "collector/store/read/store_read.h"
#include "collector/store/read/store_ticks.h"

struct store_cells_sum;

/* ask: borrowed; its range, step, metrics and pid hold. Errors: ERR_NOMEM */
NODISCARD enum err
store_cells_sum_create(struct store_cells_sum **out, const struct store_cells *ask,
                       enum err (*each)(void *ctx, const struct store_cell_row *row), void *ctx);
void store_cells_sum_destroy(struct store_cells_sum *s); /* NULL is allowed */

/* Gives the batch's rows to `each`, and counts its ticks. Errors: ERR_CORRUPT (a column is
 * missing), ERR_FULL, those of each */
NODISCARD enum err store_cells_sum_batch(struct store_cells_sum *s, const struct batch *b);
/* Ticks alone, as of batches that lie apart from those given. Errors: ERR_FULL */
NODISCARD enum err store_cells_sum_run(struct store_cells_sum *s, const struct store_tick_run *run);
void store_cells_sum_ticks(struct store_cells_sum *s, struct store_ticks *out);

#endif
