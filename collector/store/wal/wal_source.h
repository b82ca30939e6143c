/* Reading a file of the write-ahead log: its header; all of its records, past damage; and single
 * records by their places, from a file that stays open: recovery leaves batches there rather than
 * reading gigabytes before the collector can serve. */
#ifndef PROCFLEET_COLLECTOR_STORE_WAL_WAL_SOURCE_H
#define PROCFLEET_COLLECTOR_STORE_WAL_WAL_SOURCE_H

#include <stdbool.h>

#include "collector/store/wal/wal_record.h"
#include "common/os/fio.h"

#define WAL_HEADER_BYTES 80u /* of a file: two copies of 40; one before version 3 */

/* What a file's header says. */
struct wal_header {
    uint64_t number, seed;
    uint32_t version;
    uint32_t ranges;  /* records of its checkpoint; 0 before version 3 */
    uint32_t bytes;   /* where its records begin */
    uint32_t damaged; /* copies of it that are not sound */
};

/* Appended to b, whose failure latches. */
void wal_source_header_put(struct buf *b, uint64_t number, uint64_t seed, uint32_t ranges);

/* number: as the file's name says; a header of another file is none.
 * Errors: ERR_CORRUPT (no copy is sound), ERR_VERSION (sound, of a newer format) */
NODISCARD enum err wal_source_header_parse(struct wal_header *h, uint64_t number, const uint8_t *p,
                                           size_t n);
/* Of a file of this version, without copies. */
struct wal_header wal_source_header_of(uint64_t number, uint64_t seed, uint32_t version);

/* The header of an open file. Errors: ERR_IO, ERR_CORRUPT, ERR_VERSION, see above */
NODISCARD enum err wal_source_header(struct wal_header *out, const struct fio *fio,
                                     struct fio_file *f, uint64_t number);

/* -- an open file, counted by reference: any thread. A removed file can be read until the last
 * reference is gone -- */

struct wal_source;

/* With one reference. f: moved when ERR_OK. Errors: ERR_NOMEM */
NODISCARD enum err wal_source_create(struct wal_source **out, const struct fio *fio,
                                     struct fio_file *f, const struct wal_header *header);
struct wal_source *wal_source_ref(struct wal_source *s);
void wal_source_unref(struct wal_source *s); /* NULL is allowed */
const struct wal_header *wal_source_about(const struct wal_source *s);

/* The record of `size` bytes at `at`; its text and content point into *room.
 * Errors: ERR_CORRUPT (not the whole, sound record), ERR_IO, ERR_NOMEM */
NODISCARD enum err wal_source_read(const struct wal_source *s, uint64_t at, size_t size,
                                   struct buf *room, struct wal_record *r);

/* -- all of a file. Memory: one window of RECLOG_WINDOW -- */

struct wal_replay {
    const struct fio *fio;
    struct fio_file *f;              /* borrowed */
    uint64_t size;                   /* of the file */
    const struct wal_header *header; /* of it */
    /* A record, valid during the call. ERR_CORRUPT: counted, goes on; other errors end it. */
    enum err (*each)(void *ctx, const struct wal_record *r);
    void *ctx;
};

struct wal_replayed {
    uint64_t end; /* of its last sound record: what follows was never finished, or is damage */
    uint64_t bad_records; /* spans of unreadable bytes before a sound record, unknown kinds, what
                             `each` called corrupt */
    bool ranges_lost;     /* of its checkpoint some or all */
    bool strange_end;     /* what follows `end` was not left by a write that was never finished */
};

/* Errors: ERR_IO, ERR_NOMEM, and those of `each` */
NODISCARD enum err wal_source_replay(struct wal_replayed *out, const struct wal_replay *job);

/* Of a file whose header is unreadable: whether it holds more than one that was never begun, which
 * has zeros or less than a header. Errors: ERR_IO, ERR_NOMEM */
NODISCARD enum err wal_source_any(bool *any, const struct fio *fio, struct fio_file *f,
                                  uint64_t size);

#endif
