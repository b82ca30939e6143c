/* The index of a finished file of the log: where each of its batches lies, and the note that the
 * owner of the log wants back for it, so that recovery need not read the file itself. Derived data:
 * without a sound index the file is read, and the index made again.
 * Format, little endian (docs/formats.md): a header of 56 bytes
 *
 *   u8[8] magic, u32 version, u32 version, u64 number and u64 seed of the file of the log, u64 its
 * length, u64 length of what follows, u64 XXH3-64 of these 48
 *
 * and records as in a log of version 3 (wal_record.h), with its seed: WAL_RANGES as they stand
 * there, and for each batch a WAL_PLACE, whose content is u64 offset and u32 length of the batch's
 * record, u32 length of its content, then the note. Bounds: WAL_INDEX_MAX bytes; a file that needs
 * more has no index. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_WAL_WAL_INDEX_H
#define PROCFLEET_COLLECTOR_STORE_WAL_WAL_INDEX_H

#include <stdbool.h>

#include "collector/store/wal/wal_source.h"

#define WAL_INDEX_MAX    (64u << 20)
#define WAL_INDEX_SUFFIX ".idx" /* in the place of the file's .log */

/* One being made. */
struct wal_index {
    struct buf records;
    uint64_t seed;    /* of the file */
    uint32_t version; /* likewise */
    bool lacking;     /* something is missing: it must not be written */
};

void wal_index_init(struct wal_index *x);
void wal_index_fini(struct wal_index *x);
void wal_index_begin(struct wal_index *x, uint64_t seed, uint32_t version);
/* A record of the file, with place (at, size) and note. A batch without note leaves it lacking. */
void wal_index_add(struct wal_index *x, const struct wal_record *r);

/* Beside the file, which has log_bytes and is finished. Not synced: a torn one is found out.
 * Errors: ERR_INVALID (lacking), and those of writing; what was written is removed then */
NODISCARD enum err wal_index_write(const struct wal_index *x, const struct fio *fio,
                                   const char *path, uint64_t number, uint64_t log_bytes);

/* What an index says of its file: the header, but for how many ranges, and its length.
 * Errors: ERR_NOTFOUND (no sound index), ERR_NOMEM */
NODISCARD enum err wal_index_header(struct wal_header *out, uint64_t *log_bytes,
                                    const struct fio *fio, const char *path, uint64_t number);

struct wal_index_job {
    const struct fio *fio;
    const char *path; /* of the index */
    uint64_t number, log_bytes;
    struct wal_source *log; /* borrowed; records of batches refer to it */
    /* A record, valid during the call: ranges, or a batch without content (`bytes` is NULL) but
     * with place, source and note. An error ends it and is returned. */
    enum err (*each)(void *ctx, const struct wal_record *r);
    void *ctx;
};
/* *bytes is the length of the index. Nothing is delivered before all of it was found sound.
 * Errors: ERR_NOTFOUND (none that is sound and of this file), ERR_NOMEM, and those of `each` */
NODISCARD enum err wal_index_replay(const struct wal_index_job *job, uint64_t *bytes);

/* Whether it is one that is being written, or whose end a crash took: not synced, that is no
 * damage. */
bool wal_index_is_torn(const struct fio *fio, const char *path);

#endif
