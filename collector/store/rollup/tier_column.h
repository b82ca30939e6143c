/* The bytes of a column of a tier (docs/formats.md). The table of rows says how many cells it has
 * and what follows from the ticks, so it is read with that. Private to tier*.c. Threads: any; no
 * state. */
#ifndef PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_COLUMN_H
#define PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_COLUMN_H

#include "collector/store/rollup/tier_shape.h"
#include "common/base/arena.h"
#include "common/base/buf.h"

/* Cells of one metric; latches in out. scratch: its content is lost, its memory kept; it needs
 * TIER_COLUMN_SCRATCH times as many bytes as there are cells. */
#define TIER_COLUMN_SCRATCH 102u
void tier_column_put(struct buf *out, struct buf *scratch, const struct tier *t, unsigned metric);
/* Sets t->columns[metric]. Errors: ERR_CORRUPT, ERR_FULL */
NODISCARD enum err tier_column_get(struct tier *t, struct arena *memory, unsigned metric,
                                   const void *p, size_t n);

#endif
