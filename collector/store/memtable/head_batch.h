/* A batch of the head: its bytes are in memory, or in a file of the log. Threads: any reads. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_BATCH_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_BATCH_H

#include "collector/store/batch_time.h"
#include "collector/store/wal/wal_source.h"
#include "common/base/arena.h"
#include "common/wire/wire_batch.h"

/* A batch as it is kept: encoded, in memory or, when recovery found it in an index of the log, in
 * the log's file. */
struct head_batch {
    uint64_t stream, seq;
    int64_t t0_ns, t1_ns; /* oldest and newest stamp inside, by the host's clock */
    int64_t received_ns;
    struct host_offset clock; /* of the host when it made this */
    int64_t made_ns;          /* t1 by the collector's clock: batch_time_made */
    int64_t window_ns;        /* in which it is sealed */
    uint64_t file;            /* of the log */
    uint64_t memory;          /* decoded */
    uint64_t hot;             /* the number of its hot form among the host's, from 1; 0: none */
    uint32_t alive;           /* processes in its last tick, the idle one not counted */
    bool has_events;
    void *told; /* its account (meta.h), where that says all; else NULL */
    size_t told_n;
    /* Where its bytes are read when they are wanted; NULL: they are here. */
    struct wal_source *from;
    uint64_t at;   /* its record there, */
    uint32_t size; /* all of it */
    size_t n;
    uint8_t bytes[];
};

/* Bytes that it takes: a host may tell much of itself in few bytes. */
static inline uint64_t head_batch_held(const struct head_batch *b)
{
    return sizeof *b + b->n + b->told_n;
}

NODISCARD enum err head_batch_create(struct head_batch **out, const void *bytes, size_t n);
NODISCARD enum err head_batch_create_at(struct head_batch **out, const struct wal_record *r);
void head_batch_destroy(struct head_batch *b); /* NULL is allowed */

/* Sets what it keeps of its decoded form: memory, alive, has_events. */
void head_batch_describe(struct head_batch *kept, const struct batch *b);

/* Its encoded bytes, valid while *room is left alone.
 * Errors: ERR_CORRUPT, ERR_IO (what is in the log cannot be read), ERR_NOMEM */
NODISCARD enum err head_batch_bytes(const struct head_batch *b, struct buf *room,
                                    const void **bytes);

/* With the columns of these metrics (METRIC_BITs). dec: NULL, or the caller's, which is quicker.
 * Errors: those of head_batch_bytes and of wire_batch_decode_part */
NODISCARD enum err head_batch_decode(const struct head_batch *b, struct wire_decoder *dec,
                                     metric_mask metrics, struct batch **out);

/* -- its note -- */

/* The log's index (wal_index.h) keeps for each batch what recovery must know to put it into the
 * head without its rows. Bytes: u8 format, LEB128 processes of the last tick, bytes decoded, then
 * the batch as a rest value (meta.h): key, ticks, infos, events, ledger. */

/* Appends it; nothing when the batch is too large for a note. Errors: ERR_NOMEM */
NODISCARD enum err head_batch_note_put(struct buf *out, const struct batch *b,
                                       const struct head_batch *kept);

struct head_batch_note {
    uint32_t alive;
    uint64_t memory;
    const struct batch *batch; /* without runs and columns; its text points into the note */
};
/* memory: for all but text. Errors: ERR_CORRUPT, ERR_VERSION, ERR_FULL (the arena's limit) */
NODISCARD enum err head_batch_note_get(struct head_batch_note *out, struct arena *memory,
                                       const struct uuid *host, const void *note, size_t n);

#endif
