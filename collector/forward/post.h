/* POST to one HTTP server that an operator has named, again and again until it takes the body or
 * says that it never will. Threads: one owner; post_stop: any. */
#ifndef PROCFLEET_COLLECTOR_FORWARD_POST_H
#define PROCFLEET_COLLECTOR_FORWARD_POST_H

#include "collector/forward/consumer.h"
#include "common/http/http_client.h"

#define POST_HEADERS_MAX 32u
#define POST_REPLY_MAX   ((size_t)64 << 10)

struct post;

/* Texts are borrowed until post_close; empty ones may be NULL. */
struct post_conf {
    const char *name; /* of the target, for the log */
    const char *url;
    const char *headers_file; /* lines "Name: value", private; read for each request */
    const char *user, *password_file;
    struct http_client_conf http; /* ca, cert, key, plain, proxy_of_environment */
    int64_t timeout_ns;           /* of one request */
    /* What is about settings, not about the body, is tried again: 3xx, 401 to 405, 407, and 2xx
     * with a web page, which is what stands before the server or beside it. */
    bool holds;
};

/* Errors: ERR_INVALID (the URL), ERR_ACCESS (a file of secrets that others can read), those of
 * http_client_open */
NODISCARD enum err post_open(struct post **out, const struct post_conf *conf, struct errmsg *why);
void post_close(struct post *p); /* NULL is allowed */
void post_stop(struct post *p);

enum post_outcome {
    POST_TAKEN,    /* 2xx */
    POST_REFUSED,  /* 3xx or 4xx, but for 408, 429 and what `holds` says: it is of no use */
    POST_GIVEN_UP, /* retry->end_ns has passed */
};

/* path: appended to the URL; "" as it is. reply: of the last attempt; `reply->body` ends with NUL
 * behind it. A network, a timeout, 408, 429 and 5xx are tried again with the pauses of
 * consumer_again. Failures and recoveries are logged. Errors: ERR_CLOSED (stopped), ERR_NOMEM */
struct post_body {
    const char *path, *type; /* Content-Type */
    const void *p;
    size_t n;
    const char *key; /* Idempotency-Key; NULL: none */
};
NODISCARD enum err post_send(struct post *p, struct consumer *c, const struct post_body *body,
                             struct consumer_retry *retry, enum post_outcome *outcome,
                             struct http_client_reply *reply);

struct post_stats {
    uint64_t sent, retried, refused, given_up; /* refused and given up: bodies */
};
void post_stats(const struct post *p, struct post_stats *out); /* any thread */

#endif
