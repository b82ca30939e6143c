/* Fetch, Poll, Subscriptions and Unsubscribe: methods of the query listener. A Poll that finds
 * nothing waits without a thread of its own until the feed has something, or its time is over.
 * Bounds: FEED_WAITING_MAX polls wait, FEED_WAITING_EACH of one certificate's name; a further one
 * is answered at once, with retry_after. Threads: handlers on the RPC server's workers;
 * feed_serve_wake from the publisher. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_SERVE_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_FEED_SERVE_H

#include "collector/subscribe/subscriptions.h"
#include "common/rpc/rpc.h"

#define FEED_METHODS      4
#define FEED_WAITING_MAX  64u
#define FEED_WAITING_EACH 8u

struct feed_serve;

/* Errors: ERR_NOMEM, ERR_IO (thread) */
NODISCARD enum err feed_serve_create(struct feed_serve **out, struct journal *journal,
                                     struct subscriptions *roster);
/* Before rpc_server_stop: polls that wait are answered UNAVAILABLE, so are later ones. */
void feed_serve_stop(struct feed_serve *s);
void feed_serve_destroy(struct feed_serve *s); /* the RPC server has stopped; NULL is allowed */
void feed_serve_methods(struct feed_serve *s, struct rpc_method methods[FEED_METHODS]);

/* How a poll has ended. */
struct feed_serve_end {
    enum rpc_code code;                  /* RPC_OK: `reply` is there */
    uint32_t retry_ms;                   /* when to try again; 0: nothing to say */
    const struct wire_poll_reply *reply; /* until `done` returns, like `message` */
    const char *message;
};
typedef void (*feed_serve_done)(void *ctx, const struct feed_serve_end *end);

/* One poll for whoever's identity it is: `done` is called once, before this returns or later on the
 * thread of polls. poll: borrowed until then. until_ns: monotonic, how long it may wait. */
void feed_serve_poll(struct feed_serve *s, const struct net_identity *who,
                     const struct wire_poll *poll, int64_t until_ns, feed_serve_done done,
                     void *ctx);
/* How long the thread has not come round. Any thread. */
int64_t feed_serve_stuck_ns(const struct feed_serve *s, int64_t now_ns);
void feed_serve_wake(void *serve); /* feed_conf.on_updates */

#endif
