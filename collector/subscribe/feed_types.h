/* What the feed is made with, what it counts, and a batch that waits: for feed.h and the files
 * behind it. Plain data. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_TYPES_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_TYPES_H

#include "collector/subscribe/journal.h"
#include "common/model/stats.h"
#include "common/wire/wire_batch.h"

#define FEED_MESSAGE_MAX (1u << 20) /* a subscriber's receive limit */
#define FEED_HELD_MAX    ((size_t)64 << 20)
#define FEED_GATHER_NS   (50 * CLK_MS)
#define FEED_NOTICES     UINT64_C(0x72756c6573) /* the stream of the records of notices */

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

/* A batch that waits to be published. */
struct feed_note {
    struct feed_note *next;
    char name[MODEL_HOST_NAME_MAX + 1];
    struct uuid host;
    uint64_t stream, seq;
    int64_t received_ns; /* UTC */
    int64_t mono_ns;     /* when it began to wait */
    bool topics[FEED_TOPICS];
    bool check;          /* a notice that the journal may have already */
    int64_t step_ns;     /* of a notice */
    size_t n;            /* bytes of the encoded batch, or of a notice's update */
    struct batch *batch; /* held; NULL: its bytes are here instead */
    size_t memory;       /* of the held batch */
    uint8_t bytes[];
};

#endif
