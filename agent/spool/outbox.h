/* Where the uplink takes batches from: the spool on disk (spool.h), or for a replay a queue in
 * memory (queue.h). One reader leases several batches at a time and ends the leases in any order.
 * The order is not always that of the numbers: new batches may come before a backlog.
 * Threads: one reader; wake from any. */
#ifndef PROCFLEET_AGENT_SPOOL_OUTBOX_H
#define PROCFLEET_AGENT_SPOOL_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define OUTBOX_INFLIGHT_MAX 8u /* batches leased at a time */

struct outbox_item {
    uint64_t stream, seq;
    const void *p; /* borrowed until ack or reject */
    size_t n;
    bool doubted; /* it was rejected before because exchanges broke under it */
};

/* Why a batch is rejected. */
enum outbox_cause {
    OUTBOX_REFUSED, /* the collector answered that it will never take it */
    OUTBOX_BROKEN,  /* exchanges broke under it while other batches got through */
};

struct outbox {
    void *ctx;

    /* Leases the next batch. Never waits.
     * Errors: ERR_TIMEOUT (none is ready), ERR_FULL (OUTBOX_INFLIGHT_MAX are leased), ERR_END
     * (closed, nothing is left and nothing is leased) */
    enum err (*take)(void *ctx, struct outbox_item *out);
    /* Returns when take may return more than before, after wake, or at this monotonic time. */
    void (*wait)(void *ctx, int64_t until_ns);
    void (*wake)(void *ctx); /* never waits */

    /* Ends the lease: the batch need not be sent again. */
    void (*ack)(void *ctx, const struct outbox_item *item);
    /* Ends the lease: the batch becomes a dead letter, kept with the reason if the outbox keeps
     * any. A refused one is never sent again by itself; a broken one is, after a while. */
    void (*reject)(void *ctx, const struct outbox_item *item, enum outbox_cause cause,
                   const char *why);
    /* The collector has all of this stream up to last_seq: acknowledges what is not leased of it
     * and returns how many that were. What is leased must be acknowledged by ack before. */
    size_t (*ack_upto)(void *ctx, uint64_t stream, uint64_t last_seq);
    /* The stream of new batches and the number of the next one. */
    void (*next)(void *ctx, uint64_t *stream, uint64_t *seq);
};

#endif
