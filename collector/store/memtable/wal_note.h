/* What recovery must know of a batch to put it into the head without its rows: the note that the
 * log's index keeps for it (wal_index.h). Bytes: u8 format, LEB128 processes of the last tick,
 * bytes decoded, then the batch as a rest value (rest_impl.h): key, ticks, infos, events, ledger.
 * No state. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_WAL_NOTE_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_WAL_NOTE_H

#include "collector/store/memtable/head.h"
#include "common/base/arena.h"

/* Appends it; nothing when the batch is too large for a note. Errors: ERR_NOMEM */
NODISCARD enum err wal_note_put(struct buf *out, const struct batch *b,
                                const struct head_batch *kept);

struct wal_note {
    uint32_t alive;
    uint64_t memory;
    const struct batch *batch; /* without runs and columns; its text points into the note */
};
/* memory: for all but text. Errors: ERR_CORRUPT, ERR_VERSION, ERR_FULL (the arena's limit) */
NODISCARD enum err wal_note_get(struct wal_note *out, struct arena *memory, const struct uuid *host,
                                const void *note, size_t n);

#endif
