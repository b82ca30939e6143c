/* Encoded batches between the core thread and the uplink of a replay: first in, first out, in
 * memory, until the collector has acknowledged them. (Live agents have the spool.)
 * Bounds:  max_bytes of batches held. A full queue either drops its oldest batch, counted (live
 *          sources must not wait), or makes the writer wait (a recording can).
 * Threads: one writer (put, close) and one reader (the outbox); stats from any. */
#ifndef PROCFLEET_AGENT_SPOOL_QUEUE_H
#define PROCFLEET_AGENT_SPOOL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/spool/outbox.h"

struct queue;

struct queue_stats {
    uint64_t in, out;            /* put; acknowledged or rejected */
    uint64_t overflow;           /* batches dropped because the queue was full */
    uint64_t refused;            /* larger than the whole queue, or no memory */
    uint64_t held, held_bytes;   /* now */
    uint64_t waits;              /* times the writer had to wait */
    uint64_t last_seq;           /* of the last put, taken or not */
    uint64_t aside, aside_bytes; /* of a spool: its dead letters, now */
    uint64_t aside_broken;       /* of them, those that are sent again by themselves */
};

/* out  owned by the caller, released by queue_destroy. Errors: ERR_NOMEM */
NODISCARD enum err queue_create(struct queue **out, size_t max_bytes);
void queue_destroy(struct queue *q); /* NULL is allowed */
void queue_stats(struct queue *q, struct queue_stats *out);

/* Copies the batch. wait: wait for room instead of dropping the oldest.
 * Errors: ERR_CLOSED, ERR_FULL (larger than the queue), ERR_NOMEM */
NODISCARD enum err queue_put(struct queue *q, uint64_t seq, const void *p, size_t n, bool wait);

/* No further puts; a waiting one returns ERR_CLOSED. The reader still gets what is held. */
void queue_close(struct queue *q);

/* For the uplink: all batches are of this stream. A rejected batch is dropped: the recording
 * still has it. */
struct outbox queue_outbox(struct queue *q, uint64_t stream);

#endif
