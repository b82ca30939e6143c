/* Encoded batches between the core thread and the uplink: first in, first out, in memory. Batches
 * leave when the collector has acknowledged them. (A disk spool can stand in this place: put, peek
 * and drop are all that its neighbours use.)
 * Bounds:  max_bytes of batches held. A full queue either drops its oldest batch, counted (live
 *          sources must not wait), or makes the writer wait (a recording can).
 * Threads: one writer (put) and one reader (peek, drop); close and stats from any. */
#ifndef PROCFLEET_AGENT_QUEUE_H
#define PROCFLEET_AGENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct queue;

struct queue_item {
    uint64_t seq;
    const void *p; /* borrowed until queue_drop of this seq */
    size_t n;
};

struct queue_stats {
    uint64_t in, out;          /* put; dropped by the reader */
    uint64_t overflow;         /* batches dropped because the queue was full */
    uint64_t refused;          /* larger than the whole queue, or no memory */
    uint64_t held, held_bytes; /* now */
    uint64_t waits;            /* times the writer had to wait */
    uint64_t last_seq;         /* of the last put, taken or not */
};

/* out  owned by the caller, released by queue_destroy. Errors: ERR_NOMEM */
NODISCARD enum err queue_create(struct queue **out, size_t max_bytes);
void queue_destroy(struct queue *q);
void queue_stats(struct queue *q, struct queue_stats *out);

/* Copies the batch. wait: wait for room instead of dropping the oldest.
 * Errors: ERR_CLOSED, ERR_FULL (larger than the queue), ERR_NOMEM */
NODISCARD enum err queue_put(struct queue *q, uint64_t seq, const void *p, size_t n, bool wait);

/* The oldest batch; it stays until queue_drop. until_ns: monotonic.
 * Errors: ERR_TIMEOUT, ERR_END (closed and empty) */
NODISCARD enum err queue_peek(struct queue *q, int64_t until_ns, struct queue_item *out);

/* Takes out the batch last peeked and every older one up to `seq`; gives how many that were. */
size_t queue_drop(struct queue *q, uint64_t seq);

/* No further puts; a waiting one gives ERR_CLOSED. What is held stays for the reader. */
void queue_close(struct queue *q);

/* Wakes a waiting peek, which gives ERR_TIMEOUT. */
void queue_wake(struct queue *q);

#endif
