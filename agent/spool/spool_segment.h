/* One file of the spool: its bytes, and walking over its records past damage (format: docs/
 * formats.md). Nothing read is trusted: a record counts when its header's checksum is right, its
 * content when that one's is. Threads: one owner for each file; no state. */
#ifndef PROCFLEET_AGENT_SPOOL_SPOOL_SEGMENT_H
#define PROCFLEET_AGENT_SPOOL_SPOOL_SEGMENT_H

#include "common/base/buf.h"
#include "common/os/fio.h"

#define SPOOL_BATCH_MAX    (1u << 20) /* content of one record */
#define SPOOL_HEADER_BYTES 112u       /* of a file: two copies of 56; one in version 1 */
#define SPOOL_RECORD_BYTES 48u        /* of a record, before its content */
#define SPOOL_VERSION      2u

/* How much of its batches a segment still has. On disk. */
enum spool_detail {
    SPOOL_WHOLE,
    SPOOL_EVENTS, /* without samples */
    SPOOL_LEDGER, /* the loss ledger alone */
};

struct spool_header {
    uint32_t detail; /* enum spool_detail */
    uint64_t number;
    uint64_t stream;
    uint64_t first_seq; /* no record has a lower one */
    uint64_t seed;      /* of the records' checksums */

    /* Of one that was read: */
    uint32_t bytes;   /* where the records begin */
    uint32_t damaged; /* copies that are not sound */
};

struct spool_record {
    uint64_t seq;
    int64_t when_ns; /* UTC, when it was put */
    uint32_t n;      /* bytes of content */
    uint64_t sum;    /* of the content */
};

/* A file as it is read. */
struct spool_segment {
    const struct fio *fio;
    struct fio_file *f; /* borrowed */
    uint64_t end;       /* bytes that count */
    uint64_t seed;
};

/* Appended to b, whose failure latches. */
void spool_segment_put_header(struct buf *b, const struct spool_header *h);
void spool_segment_put_record(struct buf *b, uint64_t seed, uint64_t seq, int64_t when_ns,
                              const void *p, size_t n);

/* number: as the file's name says; a header of another file is none.
 * Errors: ERR_CORRUPT (no copy is sound, or it was never finished), ERR_VERSION (sound, of a newer
 * format) */
NODISCARD enum err spool_segment_header(struct spool_header *h, uint64_t number, const uint8_t *p,
                                        size_t n);
/* Of the record's header alone. Errors: ERR_CORRUPT */
NODISCARD enum err spool_segment_record(struct spool_record *r, const void *p, size_t n,
                                        uint64_t seed);

/* The record at *at or, past damage, the next one behind it: *at becomes its place, *damaged grows
 * by one for a span that was skipped, also where no record follows it. The record behind it begins
 * at spool_segment_end. Errors: ERR_END (no further one; *at is left alone), ERR_IO, ERR_NOMEM */
NODISCARD enum err spool_segment_next(const struct spool_segment *s, uint64_t *at,
                                      struct spool_record *r, uint64_t *damaged);
uint64_t spool_segment_end(uint64_t at, const struct spool_record *r);

/* Puts the content of the record at `at` into *out, in place of what is there.
 * Errors: ERR_CORRUPT, ERR_IO, ERR_NOMEM */
NODISCARD enum err spool_segment_read(const struct spool_segment *s, uint64_t at,
                                      const struct spool_record *r, struct buf *out);

#endif
