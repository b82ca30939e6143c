/* Batches that the collector will never take, kept with the reason until somebody has looked at
 * them: one file each in spool.dir/quarantine (format: docs/formats.md). `procfleet-agent spool`
 * lists them, has one tried again by giving its file another suffix, or removes it
 * (quarantine_file.h); this side looks at the directory once a minute.
 *
 * What was set aside only because exchanges broke under it is given out again by itself: after a
 * minute, and each time twice as long after the last, QUARANTINE_TRIES times (six days).
 *
 * Bounds:  max_bytes, max_age_ns and QUARANTINE_FILES; beyond them the oldest go, counted.
 * Crashes: a file is whole or not there. It is durable before the batch is done with in the spool,
 *          so a crash between leaves it in both: it is refused and set aside once more, under its
 *          key, in the place of the first.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SPOOL_QUARANTINE_H
#define PROCFLEET_AGENT_SPOOL_QUARANTINE_H

#include "agent/spool/quarantine_file.h"
#include "common/base/clk.h"
#include "common/os/fio.h"

#define QUARANTINE_BYTES (64u << 20)
#define QUARANTINE_AGE   (7 * 24 * 3600 * CLK_S)
#define QUARANTINE_TRIES 13u

struct quarantine;

struct quarantine_conf {
    const char *spool_dir;
    const struct fio *fio;
    uint64_t max_bytes;
    int64_t max_age_ns;
};

struct quarantine_stats {
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
NODISCARD enum err quarantine_open(struct quarantine **out, const struct quarantine_conf *conf);
void quarantine_close(struct quarantine *q); /* NULL is allowed */

/* Keeps the batch as well as that goes, and counts it. b->number and b->again do not matter. */
void quarantine_put(struct quarantine *q, const struct quarantine_batch *b);

/* Looks at the directory; what is too old goes, what is due again is given out. */
void quarantine_tidy(struct quarantine *q, int64_t now_ns); /* UTC */

/* The next batch that is to be sent again, its bytes in *content; then it is in hand.
 * Errors: ERR_END */
NODISCARD enum err quarantine_next(struct quarantine *q, struct buf *content,
                                   struct quarantine_batch *out);
/* It arrived: the file goes, and it is counted. */
void quarantine_done(struct quarantine *q, const struct quarantine_batch *b);
/* It is set aside again: b->cause, b->why. */
void quarantine_keep(struct quarantine *q, const struct quarantine_batch *b);
void quarantine_back(struct quarantine *q, uint64_t number); /* neither: later */

void quarantine_stats(const struct quarantine *q, struct quarantine_stats *out);

#endif
