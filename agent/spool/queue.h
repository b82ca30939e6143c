/* Encoded batches between the core thread and the uplink of a replay: first in, first out, in
 * memory. Batches leave when the collector has acknowledged them. (Live agents have the spool.)
 * Bounds:  max_bytes of batches held. A full queue either drops its oldest batch, counted (live
 *          sources must not wait), or makes the writer wait (a recording can).
 * Threads: one writer (put) and one reader (take, done, stored, wait); the rest from any. */
#ifndef PROCFLEET_AGENT_SPOOL_QUEUE_H
#define PROCFLEET_AGENT_SPOOL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/spool/outbox.h"

struct queue;

struct queue_item {
    uint64_t seq;
    const void *p; /* borrowed until it is done */
    size_t n;
};

struct queue_stats {
    uint64_t in, out;            /* put; done with */
    uint64_t overflow;           /* batches dropped because the queue was full */
    uint64_t refused;            /* larger than the whole queue, or no memory */
    uint64_t held, held_bytes;   /* now */
    uint64_t waits;              /* times the writer had to wait */
    uint64_t last_seq;           /* of the last put, taken or not */
    uint64_t aside, aside_bytes; /* of a spool: kept in its quarantine, now; */
    uint64_t aside_broken;       /* of them, those that are tried again by themselves */
};

/* out  owned by the caller, released by queue_destroy. Errors: ERR_NOMEM */
NODISCARD enum err queue_create(struct queue **out, size_t max_bytes);
void queue_destroy(struct queue *q);
void queue_stats(struct queue *q, struct queue_stats *out);

/* Copies the batch. wait: wait for room instead of dropping the oldest.
 * Errors: ERR_CLOSED, ERR_FULL (larger than the queue), ERR_NOMEM */
NODISCARD enum err queue_put(struct queue *q, uint64_t seq, const void *p, size_t n, bool wait);

/* The oldest batch that is not in hand; it stays, in hand, until it is done.
 * Errors: ERR_TIMEOUT (none), ERR_FULL (OUTBOX_HANDS are in hand), ERR_END (closed and empty) */
NODISCARD enum err queue_take(struct queue *q, struct queue_item *out);
void queue_done(struct queue *q, uint64_t seq);
/* Takes out what is not in hand up to `seq`; gives how many that were. */
size_t queue_stored(struct queue *q, uint64_t seq);
/* Until a batch has come, the queue was closed, queue_wake, or the monotonic moment. */
void queue_wait(struct queue *q, int64_t until_ns);

/* No further puts; a waiting one gives ERR_CLOSED. What is held stays for the reader. */
void queue_close(struct queue *q);

/* Ends queue_wait, or the next one at once. */
void queue_wake(struct queue *q);

/* For the uplink: all batches are of this stream. */
struct outbox queue_outbox(struct queue *q, uint64_t stream);

#endif
