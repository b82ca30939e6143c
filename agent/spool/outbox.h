/* What the uplink takes batches from: a queue in memory (queue.h) or the spool on disk
 * (agent/spool/spool.h). One taker, several batches in its hands at a time, done with in any order.
 * Not always in order: what happens now may come before what was left lying. */
#ifndef PROCFLEET_AGENT_SPOOL_OUTBOX_H
#define PROCFLEET_AGENT_SPOOL_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define OUTBOX_HANDS 8u /* batches in hand at most */

struct outbox_item {
    uint64_t stream, seq;
    const void *p; /* borrowed until done or aside */
    size_t n;
    bool doubted; /* it was set aside before because exchanges broke under it */
};

/* Why a batch is set aside: the collector has answered that it will never take it; or exchanges
 * broke under it while others got through. */
enum outbox_cause { OUTBOX_REFUSED, OUTBOX_BROKEN };

struct outbox {
    void *ctx;

    /* The next batch, which is in hand from now on. Never waits.
     * Errors: ERR_TIMEOUT (none is ready), ERR_FULL (too many in hand), ERR_END (closed, nothing is
     * left, and nothing in hand) */
    enum err (*take)(void *ctx, struct outbox_item *out);
    /* Returns when take may give more than it did last, after wake, or at the monotonic moment. */
    void (*wait)(void *ctx, int64_t until_ns);
    void (*wake)(void *ctx); /* from any thread; never waits */

    /* A batch in hand need not be sent again. */
    void (*done)(void *ctx, const struct outbox_item *item);
    /* This batch in hand makes way for the next: kept aside with the reason where there is a place
     * for it. What was refused is never given again by itself; what broke exchanges is, after a
     * while. */
    void (*aside)(void *ctx, const struct outbox_item *item, enum outbox_cause cause,
                  const char *why);
    /* The collector holds all of this stream up to a number: what is not in hand of it is done; how
     * many that were. (What is in hand is told by `done`, before.) */
    size_t (*stored)(void *ctx, uint64_t stream, uint64_t last_seq);
    /* The stream that batches are made for, and the number of its next one. */
    void (*next)(void *ctx, uint64_t *stream, uint64_t *seq);
};

#endif
