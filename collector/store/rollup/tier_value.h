/* The bytes of a tier's table of rows (docs/formats.md); those of its columns: tier_column.h.
 * Private to tier*.c. Threads: any; no state. */
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

#endif
