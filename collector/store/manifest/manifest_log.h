/* The bytes of the manifest's file: header, then records, everything twice (docs/formats.md).
 * Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_STORE_MANIFEST_MANIFEST_LOG_H
#define PROCFLEET_COLLECTOR_STORE_MANIFEST_MANIFEST_LOG_H

#include "collector/store/segment/seg.h"
#include "common/base/buf.h"

#define MANIFEST_SEGMENTS_MAX 1000000u
#define MANIFEST_HEADER_BYTES 64u /* both copies */
#define MANIFEST_ENTRY_BYTES  64u
#define MANIFEST_BYTES_MAX    (1u << 29)

/* A change: what goes, then what comes. */
struct manifest_record {
    bool checkpoint; /* the first of a file: everything there is */
    uint64_t seq;    /* one more than that of the record before */
    uint64_t next_number;
    const struct seg_info *add;
    const uint64_t *drop;
    size_t n_add, n_drop;
};

/* Both copies of each; failure latches in b. */
void manifest_log_header(struct buf *b, uint64_t seed);
void manifest_log_record(struct buf *b, const struct manifest_record *r, uint64_t seed);

struct manifest_loaded {
    uint64_t seed, seq, next_number;
    struct seg_info *segments; /* by number; the caller's (mem_free) */
    size_t n, cap;
    uint64_t end;     /* of the last sound record */
    uint64_t damaged; /* header and records of which one copy is unreadable */
    bool single;      /* the last record stands there only once */
    bool undone;      /* the last record was not complete: see `there` */
};

/* Adds the file up. there: whether a segment's file exists, and may be NULL; a last change some of
 * whose files are missing did not happen (it was not acknowledged, and its caller has cleaned up).
 * Errors: ERR_CORRUPT (both copies of something before the last record), ERR_VERSION, ERR_NOMEM,
 * ERR_FULL */
NODISCARD enum err manifest_log_read(struct manifest_loaded *out, const uint8_t *p, size_t n,
                                     bool (*there)(void *ctx, const struct seg_info *info),
                                     void *ctx);

#endif
