/* The bytes of the journal: file header and record (docs/formats.md). No state. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_FORMAT_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_FORMAT_H

#include "collector/subscribe/journal_record.h"
#include "common/base/buf.h"
#include "common/os/fio.h"

#define JOURNAL_PREFIX "feed-" /* of a file's name; it ends with */
#define JOURNAL_SUFFIX ".log"

#define JOURNAL_HEADER_BYTES 112u   /* of a file: two copies of 56; one in version 1 */
#define JOURNAL_RECORD_FIXED 100u   /* of a record, before name and content */
#define JOURNAL_RECORD_MAGIC "PFFR" /* its first four bytes */
#define JOURNAL_RECORD_MAX   (JOURNAL_RECORD_FIXED + MODEL_HOST_NAME_MAX + JOURNAL_PAYLOAD_MAX + 8u)

/* On disk. */
enum journal_kind {
    JOURNAL_MESSAGE = 1, /* an encoded Update */
    JOURNAL_TOPICS = 2,  /* the newest numbers of two topics when the file began: its checkpoint */
    JOURNAL_TOPICS3 = 3, /* the same of three topics: what is written */
};

struct journal_header {
    uint64_t number, epoch, seed;
    uint64_t position; /* of the first record, or greater than all before */

    /* Of one that was read: */
    uint32_t bytes;   /* where the records begin */
    uint32_t damaged; /* bytes of a copy that is not sound */
};

/* A record as it stands in a file. */
struct journal_part {
    uint16_t kind;               /* enum journal_kind */
    bool packed;                 /* the content is a zstd frame */
    struct journal_record about; /* n: of the content when unpacked */
    const void *content;
    size_t content_n; /* as it stands */
};

/* Appended to b, whose failure latches. The record must be within its bounds. */
void journal_format_put_header(struct buf *b, const struct journal_header *h);
void journal_format_put_part(struct buf *b, const struct journal_part *p, uint64_t seed);

/* One record at the start of p; its content points into p. *used = its length.
 * Errors: ERR_CORRUPT (not a whole, sound record) */
NODISCARD enum err journal_format_part(struct journal_part *out, size_t *used, const uint8_t *p,
                                       size_t n, uint64_t seed);

/* What stands before the name, when no more was read: content and name stay empty. Errors:
 * ERR_CORRUPT */
NODISCARD enum err journal_format_part_head(struct journal_part *out, const uint8_t *p, size_t n,
                                            uint64_t seed);

/* Appends the content, unpacked. Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err journal_format_unpack(struct buf *out, const struct journal_part *p);

/* The newest numbers of one name's topics, in the content of `kind`. An empty name: numbers
 * that topics met for the first time must be above. */
struct journal_topic {
    struct str name;
    uint64_t seq[FEED_TOPICS];
};

void journal_format_put_topic(struct buf *b, enum journal_kind kind, const struct journal_topic *t);
/* Moves *p and *n behind it; the name points into it. Errors: ERR_END (nothing left), ERR_CORRUPT
 */
NODISCARD enum err journal_format_topic(struct journal_topic *out, enum journal_kind kind,
                                        const uint8_t **p, size_t *n);

/* -- a whole file -- */

struct journal_found {
    const struct journal_header *header;
    const struct journal_part *part; /* valid during the call */
    uint64_t offset;
    size_t bytes;
    uint64_t damaged; /* bytes before it that are in no sound record */
};

/* Reads a file record by record, past damage. Memory: one window of RECLOG_WINDOW. */
struct journal_scan {
    const struct fio *fio;
    struct fio_file *f; /* borrowed */
    uint64_t size;      /* of the file */
    /* An error ends the scan. */
    enum err (*each)(void *ctx, const struct journal_found *found);
    void *ctx;
};

struct journal_scanned {
    struct journal_header header;
    uint64_t end;     /* of the last sound record */
    uint64_t damaged; /* bytes before that which are in none */
};

/* Errors: ERR_CORRUPT (the header cannot be read), ERR_VERSION, ERR_IO, ERR_NOMEM, those of `each`
 */
NODISCARD enum err journal_format_scan(struct journal_scanned *out, const struct journal_scan *job);

#endif
