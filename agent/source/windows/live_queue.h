/* Tables that wait until records have come as far as they: kept as their owner's are borrowed.
 * Bounds:  LIVE_TABLES_MAX tables, LIVE_TABLES_BYTES in all.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_LIVE_QUEUE_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_LIVE_QUEUE_H

#include "agent/source/source.h"

#define LIVE_TABLES_MAX   64
#define LIVE_TABLES_BYTES ((size_t)32 << 20)

struct live_kept;

struct live_queue {
    struct live_kept *items[LIVE_TABLES_MAX]; /* owned */
    size_t first, n, bytes;
    int64_t first_ns;      /* when the first one was made */
    struct snap_row *rows; /* of the table taken last */
    size_t cap;
};

/* Zeroed storage is an empty queue. */
void live_queue_fini(struct live_queue *q);

/* Copies the table, behind all others. Errors: ERR_FULL (take one first, or hand it on as it is),
 * ERR_NOMEM */
NODISCARD enum err live_queue_put(struct live_queue *q, const struct snapshot *table);

/* Whether the first one was made at that moment or before; asked with every record. */
static inline bool live_queue_due(const struct live_queue *q, int64_t mono_ns)
{
    return q->n > 0 && q->first_ns <= mono_ns;
}

/* The first one; borrowed until it is dropped. False: there is none. */
bool live_queue_first(struct live_queue *q, struct snapshot *out);
void live_queue_drop(struct live_queue *q); /* there is one */

#endif
