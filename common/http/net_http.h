/* A plain HTTP/1.1 listener for the collector's own numbers, on NNG's server (cmake/patches/nng
 * says what of it was mended): GET of a path, one request on a connection, no bodies, no TLS,
 * nobody is told apart. Other methods are answered 405; a request meant for another name, as of a
 * browser whose page's name was made to stand for this machine, 421. What is no HTTP, is longer
 * than 8 KiB or takes longer than 10 s ends its connection. Bounds:  64 connections, the oldest
 * goes for a new one; NET_HTTP_CALLS requests under way, a further one is answered 503. A reply is
 * copied and has 10 s to be taken. Threads: on_get runs on NNG's threads; net_http_answer on any.
 * Linux only. */
#ifndef PROCFLEET_COMMON_HTTP_NET_HTTP_H
#define PROCFLEET_COMMON_HTTP_NET_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define NET_HTTP_CALLS    32u
#define NET_HTTP_PATH_MAX 64u

struct net_http;
struct net_http_call; /* one request; owned by the handler until net_http_answer */

struct net_http_conf {
    const char *address; /* as net.h has them */
    /* What may stand in `Host`, with any port, besides localhost, 127.0.0.1, [::1] and the address;
     * where that is not of this machine alone, besides numbers and the machine's name too. Borrowed
     * until net_http_stop. */
    const char *const *names;
    size_t n_names;
    /* Must not block, and answer now or later. */
    void (*on_get)(void *ctx, struct net_http_call *call);
    void *ctx;
};

/* Errors: ERR_INVALID (the address), ERR_BUSY (it is taken), ERR_ACCESS, ERR_NOMEM, ERR_IO */
NODISCARD enum err net_http_start(struct net_http **out, const struct net_http_conf *conf,
                                  struct errmsg *why);
/* Closes the connections and waits for on_get. Calls that somebody else holds must have been
 * answered; those that come meanwhile, on_get must answer at once. NULL is allowed. */
void net_http_stop(struct net_http *h);
unsigned net_http_port(const struct net_http *h);

/* As it was sent, without what follows a '?'; longer ones are cut, and fit nothing. */
const char *net_http_path(const struct net_http_call *call);
/* status  200, 404, 503 …
 * type    of the content: "text/plain; charset=utf-8"
 * Copies p. A client that went meanwhile is none of the caller's business. */
void net_http_answer(struct net_http_call *call, unsigned status, const char *type, const void *p,
                     size_t n);

struct net_http_stats {
    uint64_t requests;
    uint64_t refused; /* of them: another method or host, or too many at once */
};
void net_http_stats(struct net_http *h, struct net_http_stats *out);

#endif
