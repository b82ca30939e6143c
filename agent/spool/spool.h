/* Batches between the core thread and the uplink of a live agent: a durable queue on disk that
 * survives outages of the collector, restarts and kills of the agent, and loss of power.
 *
 *   put      never waits for the disk: the batch is copied into memory
 *   disk     a thread writes what came, with one sync for all of it; at once if the last sync was
 *            SYNC_NS ago
 *   take     returns only what is durable, so that a number never stands for two batches
 *   reject   what the collector will never take becomes a dead letter (dead_letter.h)
 *
 * If the disk fails (full, read-only, broken) the agent goes on from memory: a new stream begins,
 * what waits is numbered anew under it and sent from memory, and the disk is tried again every few
 * seconds. What is still on the disk is sent meanwhile.
 *
 * Bounds:  spool_disk.h on disk; memory_bytes of batches not yet written: above it the oldest are
 *          dropped, counted as unwritten.
 * Threads: one writer (put, next), one reader (outbox); close, stats, wake from any.
 * Crashes: spool_disk.h. What was put within the last SYNC_NS and one sync may be lost. */
#ifndef PROCFLEET_AGENT_SPOOL_SPOOL_H
#define PROCFLEET_AGENT_SPOOL_SPOOL_H

#include "agent/spool/dead_letter.h"
#include "agent/spool/outbox.h"
#include "agent/spool/spool_disk.h"

struct spool;

struct spool_conf {
    struct spool_disk_conf disk; /* dir is made when it is missing */
    size_t memory_bytes;
    /* Batches of any other host are dropped at opening, counted. NULL: all are kept. Borrowed
     * during open. */
    const struct uuid *host;
};

struct spool_stats {
    struct spool_disk_stats disk;
    struct dead_letter_stats dead_letters;
    uint64_t in, out;                /* batches put; acknowledged or rejected */
    uint64_t recovered;              /* batches of the last run, found at opening */
    uint64_t again;                  /* dead letters that were sent once more */
    struct spool_loss unwritten;     /* the disk failed and memory was full, or there was none */
    uint64_t waiting, waiting_bytes; /* batches not on disk */
    uint64_t failures;               /* of the disk; each begins a stream */
    bool failing;                    /* now */
    char why[256];                   /* of the last failure */
};

/* Errors: ERR_BUSY (another agent uses the directory), ERR_ACCESS, ERR_IO, ERR_VERSION, ERR_NOMEM
 */
NODISCARD enum err spool_open(struct spool **out, const struct spool_conf *conf,
                              struct errmsg *why);
/* Writes what waits and ends; the outbox returns nothing any more. True: everything that was put
 * and not counted as lost is durable or acknowledged. Idempotent. */
bool spool_stop(struct spool *s);
void spool_close(struct spool *s); /* stops it; NULL is allowed */

/* The stream and number that the next batch must have. */
void spool_next(struct spool *s, uint64_t *stream, uint64_t *seq);

/* Copies the batch; one with other numbers than spool_next is numbered anew. What cannot be kept is
 * counted. Errors: ERR_CLOSED */
NODISCARD enum err spool_put(struct spool *s, uint64_t stream, uint64_t seq, const void *p,
                             size_t n);

/* No further puts; the outbox ends when everything was sent. */
void spool_end(struct spool *s);

void spool_stats(struct spool *s, struct spool_stats *out);
struct outbox spool_outbox(struct spool *s);

#endif
