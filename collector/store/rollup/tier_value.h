/* The bytes of a tier's table of rows and of its columns (docs/formats.md). The table says how
 * many cells a column has and what follows from the ticks, so columns are read with it. Private to
 * tier*.c. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_VALUE_H
#define PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_VALUE_H

#include "collector/store/rollup/tier_shape.h"
#include "common/base/arena.h"
#include "common/base/buf.h"

/* Parts, buckets and rows. */
void tier_value_put_rows(struct buf *out, const struct tier *t); /* latches in out */

/* Everything but texts and columns. `rows`: the same as out->rows, for texts to be set.
 * Errors: ERR_CORRUPT, ERR_FULL (the arena's limit) */
NODISCARD enum err tier_value_get_rows(struct tier *out, struct tier_row **rows,
                                       struct arena *memory, const void *p, size_t n);

/* Names and users. */
NODISCARD enum err tier_value_put_texts(struct buf *out, struct arena *memory,
                                        const struct tier *t);
/* Texts stay in p. Errors: ERR_CORRUPT, ERR_FULL */
NODISCARD enum err tier_value_get_texts(struct tier_row *rows, size_t n_rows, struct arena *memory,
                                        const void *p, size_t n);

/* Cells of one metric; latches in out. scratch: its content is lost, its memory kept; it needs
 * TIER_VALUE_SCRATCH times as many bytes as there are cells. */
#define TIER_VALUE_SCRATCH 102u
void tier_value_put_column(struct buf *out, struct buf *scratch, const struct tier *t,
                           unsigned metric);
/* Sets t->columns[metric]. Errors: ERR_CORRUPT, ERR_FULL */
NODISCARD enum err tier_value_get_column(struct tier *t, struct arena *memory, unsigned metric,
                                         const void *p, size_t n);

#endif
