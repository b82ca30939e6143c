/* What nearly every question about the last minute wants of a batch, ready to be read: its ticks,
 * its runs and the columns that top ranks and shows by default, without text, events and ledger.
 * Reading it costs a fiftieth of decoding the batch, and gives the same values.
 * Bounds:  RECENT_COLUMNS_BYTES each; how many are kept: head.h. A batch that would need more, or
 * has runs of more than 255 shapes, has none: whoever reads decodes it. Threads: any; immutable
 * once made. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_RECENT_COLUMNS_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_RECENT_COLUMNS_H

#include "common/base/arena.h"
#include "common/wire/wire_batch.h"

#define RECENT_COLUMNS_METRICS \
    (METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_WORKING_SET_SIZE) | METRIC_BIT(M_THREAD_COUNT))
#define RECENT_COLUMNS_BYTES (256u << 10)

struct recent_columns;

/* NULL: no memory, or over a bound. */
struct recent_columns *recent_columns_create(const struct batch *b);
void recent_columns_destroy(struct recent_columns *hot); /* NULL is allowed */
size_t recent_columns_bytes(const struct recent_columns *hot);

/* The batch's boot, ticks, runs and columns of these metrics, which are among
 * RECENT_COLUMNS_METRICS, as wire_batch_decode_part gives them; nothing else of it. metrics 0:
 * ticks and no runs. Valid as long as `hot` and the arena. Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err recent_columns_read(const struct recent_columns *hot, uint64_t metrics,
                                       struct arena *a, struct batch *out);

#endif
