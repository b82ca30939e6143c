/* Fetch, Poll and what belongs to durable subscriptions, to and from protobuf bytes, under the
 * rules of wire_batch.h. Decoded messages are released with their `_free`; encoders only read.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_FEED_H
#define PROCFLEET_COMMON_WIRE_WIRE_FEED_H

#include "common/wire/wire_query.h"

#define RPC_QUERY_FETCH         "procfleet.v1.Query/Fetch"
#define RPC_QUERY_POLL          "procfleet.v1.Query/Poll"
#define RPC_QUERY_SUBSCRIPTIONS "procfleet.v1.Query/Subscriptions"
#define RPC_QUERY_UNSUBSCRIBE   "procfleet.v1.Query/Unsubscribe"

#define WIRE_FETCH_MAX         256u       /* messages of one reply */
#define WIRE_FEED_UPDATE_MAX   (1u << 20) /* bytes of an encoded Update */
#define WIRE_UPDATES_MAX       4096u      /* of one reply; events and rows, too */
#define WIRE_FEED_HOSTS_MAX    16u
#define WIRE_FEED_NAME_MAX     64u /* of a subscription: letters, digits, . _ - */
#define WIRE_SUBSCRIPTIONS_MAX 256u
#define WIRE_POLL_WAIT_MAX_MS  30000u

struct wire_fetch {
    uint64_t epoch, from_seq, to_seq; /* to_seq 0: up to the newest */
    struct str topic;
};

struct wire_feed_message {
    uint64_t seq;
    struct str update; /* encoded */
};

struct wire_fetch_reply {
    size_t n;
    const struct wire_feed_message *messages;
    uint64_t last_seq, missing;
};

struct wire_filter {
    size_t n_hosts;
    struct str hosts[WIRE_FEED_HOSTS_MAX];
    struct str program;
    uint32_t kinds; /* bit per LifeKind; 0 = process start, stop, level, source */
    bool no_events, samples;
    bool rules; /* notices; the kind LIFE_RULE asks for them too */
    uint8_t n_metrics;
    uint8_t metrics[WIRE_METRICS_MAX];
    int64_t min_interval_ns;
    struct wire_events providers; /* with any of it no other events, and no samples */
};

struct wire_poll {
    struct str name;   /* empty: only the cursor counts */
    struct str cursor; /* opaque; empty: none */
    bool has_filter;
    struct wire_filter filter;
    uint32_t max, wait_ms;
    bool from_oldest;
};

struct wire_poll_reply {
    size_t n_updates;
    const struct wire_update *updates;
    struct str cursor;
    bool more;
    uint64_t dropped, dropped_now, behind_bytes;
};

struct wire_subscription {
    struct str name, owner, scope;
    struct wire_filter filter;
    int64_t created_ns, polled_ns; /* UTC */
    uint64_t behind_bytes, dropped, delivered;
};

struct wire_subscriptions_reply {
    size_t n;
    const struct wire_subscription *subscriptions;
};

struct wire_unsubscribe {
    struct str name, owner;
};

/* For each: Errors of encoding: ERR_FULL (buf), ERR_INVALID (over a bound), ERR_NOMEM; of decoding:
 * ERR_CORRUPT, ERR_FULL (over a bound), ERR_NOMEM. */
NODISCARD enum err wire_feed_fetch_encode(struct buf *out, const struct wire_fetch *in);
NODISCARD enum err wire_feed_fetch_decode(struct wire_fetch **out, const void *p, size_t n);
void wire_feed_fetch_free(struct wire_fetch *m);
NODISCARD enum err wire_feed_fetch_reply_encode(struct buf *out, const struct wire_fetch_reply *in);
NODISCARD enum err wire_feed_fetch_reply_decode(struct wire_fetch_reply **out, const void *p,
                                                size_t n);
void wire_feed_fetch_reply_free(struct wire_fetch_reply *m);
NODISCARD enum err wire_feed_poll_encode(struct buf *out, const struct wire_poll *in);
NODISCARD enum err wire_feed_poll_decode(struct wire_poll **out, const void *p, size_t n);
void wire_feed_poll_free(struct wire_poll *m);
NODISCARD enum err wire_feed_poll_reply_encode(struct buf *out, const struct wire_poll_reply *in);
NODISCARD enum err wire_feed_poll_reply_decode(struct wire_poll_reply **out, const void *p,
                                               size_t n);
void wire_feed_poll_reply_free(struct wire_poll_reply *m);
NODISCARD enum err wire_feed_subscriptions_reply_encode(struct buf *out,
                                                        const struct wire_subscriptions_reply *in);
NODISCARD enum err wire_feed_subscriptions_reply_decode(struct wire_subscriptions_reply **out,
                                                        const void *p, size_t n);
void wire_feed_subscriptions_reply_free(struct wire_subscriptions_reply *m);
NODISCARD enum err wire_feed_unsubscribe_encode(struct buf *out, const struct wire_unsubscribe *in);
NODISCARD enum err wire_feed_unsubscribe_decode(struct wire_unsubscribe **out, const void *p,
                                                size_t n);
void wire_feed_unsubscribe_free(struct wire_unsubscribe *m);

#endif
