/* The console within the collector: its page and its API, asked by RPC Query/Web (`procfleet
 * console` relays to it) or by the collector's own door. Answers are worked out by threads of their
 * own, in the background class.
 * Bounds: of one identity two requests at a time are worked on and CONSOLE_EACH_MAX are there at
 * once, CONSOLE_WAITING_MAX wait in all, a further one is answered 429 with Retry-After; 10 s for
 * each. Polls that wait for updates take no thread; feed_serve.h bounds them. Series of ranges that
 * are sealed whole are kept for a minute, 16 MiB of them, for whoever has the same scope and asks
 * the same. */
#ifndef PROCFLEET_COLLECTOR_CONSOLE_CONSOLE_H
#define PROCFLEET_COLLECTOR_CONSOLE_CONSOLE_H

#include "collector/api/serve.h"
#include "collector/subscribe/feed_serve.h"
#include "common/wire/wire_web.h"

#define CONSOLE_EACH_MAX    8u
#define CONSOLE_WAITING_MAX 32u

struct console;

struct console_conf {
    struct serve *serve;     /* borrowed until console_destroy */
    struct feed_serve *feed; /* likewise; NULL: nothing keeps events for updates */
    unsigned workers;        /* threads, 1 to 8 */
    /* What the rules say now, as Query/Rules answers it, called by those threads; the answer is
     * released also on failure. NULL: there are none. */
    enum err (*rules)(void *ctx, const struct net_identity *who, const struct wire_query *q,
                      struct query_answer *out);
    void *ctx;
};

/* Errors: ERR_NOMEM, ERR_IO (thread) */
NODISCARD enum err console_create(struct console **out, const struct console_conf *conf);
/* What waits is answered 503, what is worked on ends soon; joins. After feed_serve_stop. */
void console_stop(struct console *c);
void console_destroy(struct console *c); /* stops; NULL is allowed */

/* Answers now or later, from any thread, exactly once; `done` borrows the reply. The identity and
 * the request are copied. Its role must be query or admin, else it is answered 403. */
void console_ask(struct console *c, const struct net_identity *who,
                 const struct wire_web_request *ask,
                 void (*done)(void *ctx, const struct wire_web_reply *reply), void *ctx);

/* RPC Query/Web. */
void console_method(struct console *c, struct rpc_method *out);

/* -- numbers, since the start -- */

struct console_stats {
    uint64_t bytes;   /* of bodies, as sent */
    uint64_t crowded; /* answered 429 because too many were there */
    int64_t busy_ns;  /* of its threads */
    uint64_t kept;    /* answered from answers that were kept */
    unsigned waiting; /* now */
};

void console_stats(struct console *c, struct console_stats *out);
/* The i-th count of requests that is not zero, by path ("top", "page", "other") and status of HTTP.
 * False: there are no more. */
bool console_requests(struct console *c, size_t i, const char **path, unsigned *status,
                      uint64_t *n);
/* How long one of the threads has been at the same request. Any thread. */
int64_t console_stuck_ns(const struct console *c, int64_t now_ns);

#endif
