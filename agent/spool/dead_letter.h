/* Batches that the collector will never take, kept with the reason until somebody has looked at
 * them: one file each in spool.dir/quarantine (format: docs/formats.md). `procfleet-agent spool`
 * lists them, has one tried again by giving its file another suffix, or removes it
 * (dead_letter.h); this side looks at the directory once a minute.
 *
 * What was set aside only because exchanges broke under it is given out again by itself: after a
 * minute, and each time twice as long after the last, DEAD_LETTER_TRIES times (six days).
 *
 * Bounds:  max_bytes, max_age_ns and DEAD_LETTER_FILES; beyond them the oldest go, counted.
 * Crashes: a file is whole or not there. It is durable before the batch is done with in the spool,
 *          so a crash between leaves it in both: it is refused and set aside once more, under its
 *          key, in the place of the first.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SPOOL_DEAD_LETTER_H
#define PROCFLEET_AGENT_SPOOL_DEAD_LETTER_H

#include <stdbool.h>

#include "agent/spool/spool_batch.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/os/fio.h"

#define DEAD_LETTER_DIR      "quarantine"
#define DEAD_LETTER_FILES    4096u
#define DEAD_LETTER_WHY      400u /* bytes of a reason */
#define DEAD_LETTER_HEAD     64u  /* bytes that tell whose batch it is */
#define DEAD_LETTER_FILE_MAX (DEAD_LETTER_HEAD + DEAD_LETTER_WHY + SPOOL_BATCH_MAX)

/* Why it was set aside. On disk. */
enum dead_letter_cause {
    DEAD_LETTER_REFUSED, /* the collector has answered that it will never take it */
    DEAD_LETTER_BROKEN,  /* exchanges broke under it while others got through: sent again */
};

struct dead_letter_batch {
    uint64_t number; /* of its file */
    uint64_t stream, seq;
    int64_t when_ns; /* UTC, when it was set aside */
    bool again;      /* it will be sent again */
    enum dead_letter_cause cause;
    unsigned tries; /* how often it was set aside before */
    char why[DEAD_LETTER_WHY + 1];
    const void *p; /* the batch as it travels */
    size_t n;
};

/* -- the agent's side: one owner -- */

#define DEAD_LETTER_BYTES (64u << 20)
#define DEAD_LETTER_AGE   (7 * 24 * 3600 * CLK_S)
#define DEAD_LETTER_TRIES 13u

struct dead_letter;

struct dead_letter_conf {
    const char *spool_dir;
    const struct fio *fio;
    uint64_t max_bytes;
    int64_t max_age_ns;
};

struct dead_letter_stats {
    uint64_t held, held_bytes; /* files, now; */
    uint64_t held_broken;      /* of them, those that are tried again by themselves */
    uint64_t unreadable;       /* files that are none of ours or damaged, left alone */
    struct spool_loss put;     /* set aside, or lost when it could not be kept */
    struct spool_loss again;   /* sent after all */
    uint64_t unkept;           /* batches of `put` that could not be kept */
    uint64_t dropped;          /* files that went for room or age */
};

/* Nothing need be there; the directory is made with the first file.
 * Errors: ERR_NOMEM, ERR_ACCESS, ERR_IO */
NODISCARD enum err dead_letter_open(struct dead_letter **out, const struct dead_letter_conf *conf);
void dead_letter_close(struct dead_letter *q); /* NULL is allowed */

/* Keeps the batch as well as that goes, and counts it. b->number and b->again do not matter. */
void dead_letter_put(struct dead_letter *q, const struct dead_letter_batch *b);

/* Looks at the directory; what is too old goes, what is due again is given out. */
void dead_letter_tidy(struct dead_letter *q, int64_t now_ns); /* UTC */

/* The next batch that is to be sent again, its bytes in *content; then it is in flight.
 * Errors: ERR_END */
NODISCARD enum err dead_letter_next(struct dead_letter *q, struct buf *content,
                                    struct dead_letter_batch *out);
/* It arrived: the file goes, and it is counted. */
void dead_letter_ack(struct dead_letter *q, const struct dead_letter_batch *b);
/* It is set aside again: b->cause, b->why. */
void dead_letter_reject(struct dead_letter *q, const struct dead_letter_batch *b);
void dead_letter_return(struct dead_letter *q, uint64_t number); /* neither: later */

void dead_letter_stats(const struct dead_letter *q, struct dead_letter_stats *out);

/* -- a file by itself: any thread, also of another process; each call is one step of the file
 * system -- */

/* A file's bytes; a failure latches in *out. */
void dead_letter_file_format(struct buf *out, const struct dead_letter_batch *b);
/* All but number and again; out->p points into p. Errors: ERR_CORRUPT, ERR_VERSION */
NODISCARD enum err dead_letter_file_parse(struct dead_letter_batch *out, const void *p, size_t n);
/* -- on spool.dir -- */

/* Numbers of the batches there, oldest first; *n of at most `max`. None is no error.
 * Errors: ERR_ACCESS, ERR_IO */
NODISCARD enum err dead_letter_file_list(const char *spool_dir, uint64_t *numbers, size_t max,
                                         size_t *n);
/* *bytes: owned by the caller, mem_free; out->p points into it.
 * Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_NOMEM, those of dead_letter_file_parse */
NODISCARD enum err dead_letter_file_read(struct dead_letter_batch *out, uint8_t **bytes,
                                         const char *spool_dir, uint64_t number);
/* Has it sent again; one that will be already is fine. Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_NOMEM
 */
NODISCARD enum err dead_letter_file_retry(const char *spool_dir, uint64_t number);
/* Errors: as above */
NODISCARD enum err dead_letter_file_drop(const char *spool_dir, uint64_t number);

#endif
