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
 * Events are journalled always, samples as long as somebody listens or a durable subscription wants
 * them. Batches of one host that come together become one message, when they follow each other; a
 * batch too large for one becomes several. A message is in the journal and synced before it is
 * sent. Batches that the store made durable and the journal had not when the collector was killed
 * are made up for when the feed starts; the store lets nothing go before feed_keep has returned.
 * Bounds:  queue_bytes of encoded batches waiting, then batches are left out of the feed and
 *          counted; up to FEED_HELD_MAX of them are kept as the store had them decoded, the others
 *          are copied encoded and decoded again; their messages take numbers all the same, so that
 * subscribers see the hole. Threads: feed_stored from the store's writer, feed_keep from its
 * sealing thread; the rest from the owner. Callbacks come from the publisher, listeners and
 * samples_wanted also from the store's writer. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_H

#include "collector/store/read/store_read.h"
#include "collector/subscribe/journal.h"
#include "common/model/stats.h"

struct feed;

#define FEED_MESSAGE_MAX (1u << 20) /* a subscriber's receive limit */
#define FEED_HELD_MAX    ((size_t)64 << 20)
#define FEED_GATHER_NS   (50 * CLK_MS)

struct feed_conf {
    struct journal *journal; /* borrowed until feed_destroy; NULL: live messages only */
    uint64_t epoch;          /* of the messages: the journal's, else other at every start */
    size_t queue_bytes;      /* 64 MiB */
    uint32_t hosts_max;      /* topics remembered: two for each host */
    /* Sends messages, in order; never blocks. */
    void (*send)(void *ctx, const struct str *list, size_t n);
    unsigned (*listeners)(void *ctx);  /* live subscribers at this moment */
    bool (*samples_wanted)(void *ctx); /* by a durable subscription; never blocks; NULL: never */
    void (*on_updates)(void *ctx);     /* the journal has grown, and is synced; NULL is allowed */
    void (*on_lost)(void *ctx, const struct journal_record *r); /* `lost` of journal_trim */
    /* Called when messages could not be journalled: with ERR_NOSPACE they wait, else they are lost,
     * with the reason; then not again before one could, with ERR_OK. NULL is allowed. */
    void (*on_trouble)(void *ctx, enum err e);
    void *ctx;
};

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

#define FEED_STATS(X)                                                                     \
    X(COUNTER, messages, "procfleet_feed_messages_total", "Messages of the live stream.") \
    X(COUNTER, bytes, "procfleet_feed_message_bytes_total", "Bytes of them.")             \
    X(COUNTER, updates, "procfleet_feed_updates_total", "Events and rows in them.")       \
    X(COUNTER, left_out, "procfleet_feed_left_out_total",                                 \
      "Batches that no message was made of: too many waited.")                            \
    X(COUNTER, made_up, "procfleet_feed_made_up_total",                                   \
      "Batches that came into the journal at the start, after a crash.")                  \
    X(COUNTER, oversize, "procfleet_feed_oversize_total",                                 \
      "Messages that would have been too large.")                                         \
    X(COUNTER, failed, "procfleet_feed_failed_total",                                     \
      "Messages that could not be made or journalled.")

struct feed_stats {
    FEED_STATS(STATS_MEMBER)
};
/* How long its thread has not come round; 0 before it is started. Any thread. */
int64_t feed_stuck_ns(const struct feed *f, int64_t now_ns);

void feed_stats(struct feed *f, struct feed_stats *out);

#endif
