/* The feed: what was stored becomes updates, for the live stream and for the journal.
 *
 *   store's writer -> feed_stored -> [queue] -> publisher: gather up to 50 ms, complete
 *        -> journal (Fetch, Poll) -> events listener -> subscribers
 *
 * Topics are `event/<host>` (lifecycle events) and `sample/<host>` (the newest row of every process
 * of the batch's last tick). A message is the topic and a NUL, u64 epoch, u64 sequence (little
 * endian; from 1, per topic), then an encoded Update. A subscriber that sees a hole in the sequence
 * asks Fetch for what is missing; another epoch means that the journal began anew.
 *
 * Events are journalled always, samples as long as there is a listener or a durable subscription
 * wants them. Batches of one host that come together become one message, when they follow each
 * other; a batch too large for one becomes several. A message is in the journal and synced before
 * it is sent. Batches that the store made durable and the journal had not when the collector was
 * killed are made up for when the feed starts; the store lets nothing go before feed_keep has
 * returned.
 * Bounds:  queue_bytes of encoded batches waiting, then batches are left out of the feed and
 * counted; up to FEED_HELD_MAX of them are kept as the store had them decoded, the others are
 * copied encoded and decoded again; their messages take numbers all the same, so that subscribers
 * see the hole.
 * Threads: feed_stored from the store's writer, feed_keep from its sealing thread; the rest from
 * the owner. Callbacks come from the publisher, listeners and samples_wanted also from the store's
 * writer. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_H

#include "collector/store/read/store_read.h"
#include "collector/subscribe/feed_types.h"

struct feed;

/* Errors: ERR_NOMEM */
NODISCARD enum err feed_create(struct feed **out, const struct feed_conf *conf);
void feed_destroy(struct feed *f); /* stopped; NULL is allowed */

/* Journals what the journal lacks of the store's unsealed batches, then publishes. Errors:
 * ERR_NOMEM, ERR_IO */
NODISCARD enum err feed_start(struct feed *f, struct store *store);
/* What waits is journalled and not sent; the store is left alone from here on. Also when it was not
 * started; again is fine. */
void feed_stop(struct feed *f);

/* The store's on_stored; ctx is the feed. Holds or copies the batch and returns. */
void feed_stored(void *ctx, const struct store_stored *stored);

/* The store's before_forget; ctx is the feed. Returns when all that was stored before the call is
 * in the journal and synced, or was counted as left out or failed. False: not started, or stopped.
 */
bool feed_keep(void *ctx);

/* A notice of the rules: a message of FEED_RULE, in the order of the calls. They are few, and none
 * is left out. */
struct feed_notice {
    const char *name; /* of the host, or NOTICE_NO_HOST */
    struct uuid host;
    uint64_t n;         /* its number: of its journal record, the batch */
    int64_t step_ns;    /* UTC */
    const void *update; /* encoded */
    size_t bytes;
    bool check; /* the journal may have it: then it is left out */
};
/* Any thread. *ticket: for feed_done. Errors: ERR_NOMEM, ERR_CLOSED (stopped) */
NODISCARD enum err feed_notify(struct feed *f, const struct feed_notice *x, uint64_t *ticket);
/* Whether it is in the journal and synced, or was counted as failed. */
bool feed_done(struct feed *f, uint64_t ticket);

/* How long its thread has not come round; 0 before it is started. Any thread. */
int64_t feed_stuck_ns(const struct feed *f, int64_t now_ns);

void feed_stats(struct feed *f, struct feed_stats *out);

#endif
