/* What nearly every question about the last minute wants of a batch, ready to be read: its ticks,
 * its runs and the columns that top ranks and shows by default, without text, events and ledger.
 * Reading it costs a fiftieth of decoding the batch, and gives the same values.
 * Bounds:  RECENT_COLUMNS_BYTES each; how many are kept: below. A batch that would need more, or
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
NODISCARD enum err recent_columns_read(const struct recent_columns *hot, metric_mask metrics,
                                       struct arena *a, struct batch *out);

/* -- which are kept: by one writer, seen by any reader -- */

/* Of what came in so long: a minute, the one before it, in which counters have their base, and a
 * batch. */
#define RECENT_COLUMNS_NS         (INT64_C(135) * 1000000000)
#define RECENT_COLUMNS_HOST_BYTES (512u << 10) /* of one host; the oldest go first, up to 4 stay */
#define RECENT_COLUMNS_BLOCK      4u

/* Of all hosts together. */
struct recent_columns_total {
    uint64_t bytes_max; /* 0: none are kept */
    uint64_t bytes;
    uint64_t left_out; /* for want of room */
    int64_t newest_ns; /* arrival */
};

/* A host's, oldest first; all blocks but the last are full. Zeroed at first. */
struct recent_columns_block;
struct recent_columns_ring {
    uint64_t first; /* number of the first one's first, from 1 */
    size_t n, cap, bytes;
    struct recent_columns_block **at;
    int64_t newest_ns; /* arrival */
};

/* Keeps `hot` (moved; NULL is allowed), of a batch that came at received_ns, and drops what is too
 * old. Returns its number, from 1; 0: it is left out for want of room. */
uint64_t recent_columns_keep(struct recent_columns_total *t, struct recent_columns_ring *r,
                             struct recent_columns *hot, int64_t received_ns);
/* Drops those of a host from which nothing came for long; true: some were dropped. */
bool recent_columns_rest(struct recent_columns_total *t, struct recent_columns_ring *r);
void recent_columns_fini(struct recent_columns_total *t, struct recent_columns_ring *r);

/* The same as readers see it; NULL: none, or no memory. */
struct recent_columns_view;
struct recent_columns_view *recent_columns_view_create(const struct recent_columns_ring *r);
void recent_columns_view_destroy(struct recent_columns_view *hots); /* NULL is allowed */
/* By number; NULL: it is not among them. */
const struct recent_columns *recent_columns_view_at(const struct recent_columns_view *hots,
                                                    uint64_t number);

#endif
