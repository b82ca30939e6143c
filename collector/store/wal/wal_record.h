/* The bytes of the write-ahead log: a record (format: wal.c). No state. */
#ifndef PROCFLEET_COLLECTOR_STORE_WAL_WAL_RECORD_H
#define PROCFLEET_COLLECTOR_STORE_WAL_WAL_RECORD_H

#include "collector/store/host_offset.h"
#include "common/base/buf.h"
#include "common/model/model.h"

#define WAL_VERSION      3u
#define WAL_BYTES_MAX    (1u << 20) /* content of one record */
#define WAL_RECORD_FIXED 80u        /* of a record, before name and content */
#define WAL_RECORD_LEAST 80u        /* bytes of any record, in every version */
#define WAL_OFFSET_BYTES 16u        /* of a record, behind its content, when it has one */
#define WAL_RECORD_MAX \
    (WAL_RECORD_FIXED + MODEL_HOST_NAME_MAX + WAL_BYTES_MAX + WAL_OFFSET_BYTES + 8u)
#define WAL_RECORD_MAGIC "PFWR" /* its first four bytes */
#define WAL_ASIDE_SUFFIX ".bad" /* of a file that was set aside, in the place of .log */

/* On disk. */
enum wal_kind {
    WAL_BATCH = 1,  /* an encoded batch */
    WAL_RANGES = 2, /* sequence ranges of (host, stream) in older files: the checkpoint */
    WAL_PLACE = 3,  /* in an index (wal_index.h): where a batch lies */
};

struct wal_source;

struct wal_record {
    uint16_t kind; /* enum wal_kind; recovery skips and counts others */
    struct uuid host;
    uint64_t stream, seq;
    int64_t t0_ns, t1_ns;     /* oldest and newest stamp inside */
    int64_t received_ns;      /* UTC */
    struct host_offset clock; /* of the host when it made this */
    struct str host_name;     /* at most MODEL_HOST_NAME_MAX */
    const void *bytes;
    size_t n;

    /* Not part of the bytes. Of what is read back, its place in the file: */
    uint64_t at;
    uint32_t size;
    /* and when `bytes` is NULL, because an index told of it, where it can be had (borrowed). */
    struct wal_source *from;
    /* What the owner wants back with it from an index; NULL: it cannot be in one. Empty: no more
     * than what is above. */
    const void *note;
    size_t note_n;
};

/* Appended to b, whose failure latches. The record must be within its bounds. */
void wal_record_put(struct buf *b, const struct wal_record *r, uint64_t seed);

/* One record at the start of p; its text and content point into p. *used = its length. version: of
 * the file.
 * Errors: ERR_CORRUPT (not a whole, sound record) */
NODISCARD enum err wal_record_parse(struct wal_record *r, size_t *used, const uint8_t *p, size_t n,
                                    uint64_t seed, uint32_t version);

#endif
