/* Append-only logs of records in numbered files: what the write-ahead log, the journal of updates,
 * the spool and the manifest have in common. Each keeps its own record layout, index and recovery.
 *
 * A file: a header, from some version on twice in a row, then records one behind the other, no
 * alignment. Little endian; checksums are XXH3-64.
 *
 *   header   u8[8] magic, u32 version, u32 extra, u64 words…, u64 checksum of all before (seed 0)
 *   record   u8[4] magic, head, body, with checksums that hang on the file's random seed: bytes
 *            inside a record, which a peer may choose, cannot pose as a record
 *
 *                      write-ahead log     journal             spool segment       manifest
 *   magics             PFWAL, PFWR         PFFEED, PFFR        PFSPL, PFSR         PFMAN, PFMR
 *   version; twice     3; from 3 on        2; from 2 on        2; from 2 on        1; always
 *   extra              records of ranges   0                   detail              0
 *   words              number, seed        number, epoch,      number, stream,     seed
 *                                          seed, position      first_seq, seed
 *   head, its          72 + 8 bytes        96 + 4 bytes        40 + 8 bytes        40 bytes, no
 *   checksum           (+ 0 before 3)      (the lower half)                        checksum
 *   body               name, content,      name, content       content             numbers,
 *                      clock                                                       entries
 *   body's checksum    behind it, of all   behind it, of all   in the head, of     behind it, of
 *                      of the record       of the record       the content alone   all of it
 *   content, at most   1 MiB               1 MiB               1 MiB               1,000,000 each
 *   each record is     there once          there once          there once          there twice
 *   torn end of the    no sound record     no sound record     no sound record     the last record,
 *   newest file        follows; begins     follows; a batch    follows             or zeros
 *                      with magic, zeros   is incomplete
 *
 * Torn is only the end of the newest file, since nothing is added to an older one. What has a sound
 * record behind it is damage wherever it is: reclog_next skips it. Which records were lost with it
 * only the user can tell (checkpoints, positions, numbers), so recovery stays with the user, and so
 * do the indexes. Threads: one owner for each struct; no other state. */
#ifndef PROCFLEET_COMMON_RECLOG_RECLOG_H
#define PROCFLEET_COMMON_RECLOG_RECLOG_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/cur.h"
#include "common/os/fio.h"

#define RECLOG_MAGIC         4u /* bytes a record begins with */
#define RECLOG_WORDS_MAX     4u
#define RECLOG_WINDOW        (4u << 20)           /* for files whose records are read whole */
#define RECLOG_HEADER(words) (24u + 8u * (words)) /* bytes of one copy */

struct reclog_format {
    uint8_t magic[8];
    const char *record_magic; /* RECLOG_MAGIC bytes */
    uint32_t version;         /* the newest; all from 1 on are read */
    uint32_t twice;           /* from this version on the header is there twice */
    uint32_t extra_max;       /* more means a newer version */
    unsigned words;           /* at most RECLOG_WORDS_MAX */
    int above_0;              /* index of a word that is never 0; -1: none */
    size_t look; /* bytes that must be there to recognise any record; 0: all that follow */
};

struct reclog_header {
    uint32_t version, extra;
    uint64_t words[RECLOG_WORDS_MAX];

    /* Of one that was read: */
    uint32_t bytes; /* where the records begin; more than was there: it was never finished */
    bool damaged;   /* one of its copies is not sound */
};

/* Appended to b, whose failure latches: of the newest version. */
void reclog_header_put(struct buf *b, const struct reclog_format *f, uint32_t extra,
                       const uint64_t *words);
/* p, n: the file's first bytes. number: that of the file's name, which the first word must have;
 * NULL: any. Errors: ERR_CORRUPT (no copy is sound), ERR_VERSION (sound, of a newer format) */
NODISCARD enum err reclog_header_parse(struct reclog_header *h, const struct reclog_format *f,
                                       const uint64_t *number, const uint8_t *p, size_t n);

/* -- checksums -- */

/* Appends the checksum of everything in b from `start` on. */
void reclog_seal(struct buf *b, size_t start, uint64_t seed);
/* Reads a checksum; whether it is that of everything from `start` up to it. */
bool reclog_is_sealed(struct cur *c, const uint8_t *start, uint64_t seed);

/* -- reading -- */

struct reclog_reader {
    const struct reclog_format *format;
    const struct fio *fio;
    struct fio_file *f; /* borrowed */
    uint64_t size;      /* bytes of the file that count */

    /* A sound record at the start of p? left: bytes of the file from there on, of which n are in p.
     * *used becomes the record's length. Any error but ERR_CORRUPT ends the reading. */
    enum err (*parse)(void *ctx, const uint8_t *p, size_t n, uint64_t left, size_t *used);
    void *ctx;

    /* A window over the file: `n` bytes from offset `base` on. Of a file that is in memory already
     * the caller sets p and n to all of it, and opens nothing. */
    const uint8_t *p;
    size_t n;
    uint64_t base;
    uint8_t *own; /* of `cap` bytes: where p points then */
    size_t cap;
};

/* Allocates the window, of at least format->look bytes. Errors: ERR_NOMEM */
NODISCARD enum err reclog_reader_open(struct reclog_reader *r, size_t window);
void reclog_reader_close(struct reclog_reader *r); /* idempotent */

/* The bytes from `at` on: at least `want` of them unless the file ends before. Valid until the next
 * call. Errors: ERR_IO (also when the file is shorter than `size`), ERR_NOMEM */
NODISCARD enum err reclog_bytes(struct reclog_reader *r, uint64_t at, size_t want,
                                const uint8_t **p, size_t *n);
/* The record at *at or, past damage, the next sound one behind it: *at becomes its place.
 * Errors: ERR_END (none follows; *at is left alone), ERR_IO, ERR_NOMEM, those of parse */
NODISCARD enum err reclog_next(struct reclog_reader *r, uint64_t *at, size_t *used);

/* -- writing -- */

/* The newest file of a log. A commit is one write and one sync: of one that was answered with
 * ERR_OK all is durable; of another one nothing, a part or all. */
struct reclog_writer {
    const struct fio *fio;
    const char *dir, *prefix, *suffix; /* borrowed: the file's name is by its number */
    struct fio_file *f;                /* NULL: none is open */
    uint64_t number;
    uint64_t bytes; /* durable length */
};

/* Writes the commit and makes it durable. begins: the number of the file that it begins, the one
 * before is closed; 0: it is added to the file that is open. `bytes` does not change: on ERR_OK the
 * caller adds b->n. Errors: ERR_NOMEM, those of fio */
NODISCARD enum err reclog_commit(struct reclog_writer *w, uint64_t begins, const struct buf *b);
/* After a failed commit: cuts the file back to its durable length, as well as that still goes. */
void reclog_undo(struct reclog_writer *w);
void reclog_discard(struct reclog_writer *w); /* closes and removes the file that a commit began */
void reclog_writer_close(struct reclog_writer *w); /* idempotent */

/* The newest file of an earlier run ends at `end`, durably: what a killed process had written but
 * not synced is found in the page cache and must not be called durable before it is. f: open, of
 * `size` bytes. */
NODISCARD enum err reclog_cut(const struct fio *fio, struct fio_file *f, const char *dir,
                              uint64_t size, uint64_t end);

/* For qsort: orders elements that begin with their file's number, a uint64_t. */
int reclog_by_number(const void *a, const void *b);

#endif
