/* An HTTP/1.1 server without TLS, on libmicrohttpd: for the collector's metrics and the console.
 *
 * A request that fits a route and whose `Host` is ours (http_host.h) becomes a call, which the
 * route's handler answers now, or later from any thread. Everything else is answered here: 400 no
 * request of ours, 404 no route, 405 another method, 413 a body over its bound, 414 a long target,
 * 421 another host (a browser whose page's name was made to stand for this machine), 431 too many
 * headers, 503 too many calls. What is no HTTP ends its connection, and so does what two readers
 * could take for different requests: `Transfer-Encoding`, a second `Host` or `Content-Length`,
 * lines that end without CR, lines that go on in the next one, NUL.
 *
 * Bounds:  HTTP_SERVER_CONNS connections: for a new one the one that has waited longest for its
 *          request is closed, of the same address when that has its share. HTTP_SERVER_CALLS calls
 *          under way. A request has HTTP_SERVER_HEADERS headers and its line and headers 16 KiB,
 *          its target HTTP_SERVER_TARGET_MAX. A request has HTTP_SERVER_PATIENCE_NS, and so has a
 *          reply. With keep_alive a request that is not the first has HTTP_SERVER_IDLE_NS, a reply
 *          HTTP_SERVER_REPLY_NS and HTTP_SERVER_STALL_NS without progress. A stream may take any
 *          time, but a peer that takes nothing for so long is closed.
 * Threads: one of the library's serves all connections; handlers run on it and must not block. A
 *          second one ends what takes too long.
 *          http_server_answer and http_server_wake: any thread. */
#ifndef PROCFLEET_COMMON_HTTP_HTTP_SERVER_H
#define PROCFLEET_COMMON_HTTP_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/err.h"
#include "common/base/str.h"

#define HTTP_SERVER_CONNS       64u /* unless the settings say otherwise, as the next */
#define HTTP_SERVER_CALLS       32u
#define HTTP_SERVER_HEADERS     64u
#define HTTP_SERVER_TARGET_MAX  2048u
#define HTTP_SERVER_ADDRESS     64u
#define HTTP_SERVER_PATIENCE_NS (10 * CLK_S)
#define HTTP_SERVER_IDLE_NS     (30 * CLK_S)
#define HTTP_SERVER_STALL_NS    (15 * CLK_S)
#define HTTP_SERVER_REPLY_NS    (60 * CLK_S)

struct http_server;
struct http_server_call; /* one request; owned by its handler until http_server_answer */

struct http_server_pair {
    const char *name, *value;
};

struct http_server_route {
    const char *method; /* "GET" */
    const char *path;   /* one that ends with '/' fits everything below it too */
    size_t body_max;    /* bytes; 0: bodies are not read, and their connection ends */
    void (*handle)(void *ctx, struct http_server_call *call);
};

struct http_server_conf {
    const char *address; /* "host:port", "[v6]:port" or "*:port"; port 0: any free one */
    /* What may stand in `Host`, with any port, besides localhost, 127.0.0.1, [::1] and the address;
     * where that is not of this machine alone, besides numbers and the machine's name too. */
    const char *const *names;
    size_t n_names;
    const struct http_server_route *routes; /* the first that fits is taken */
    size_t n_routes;
    const struct http_server_pair *headers; /* of all replies */
    size_t n_headers;
    void *ctx;            /* of the handlers */
    bool keep_alive;      /* several requests on a connection */
    unsigned connections; /* 0: HTTP_SERVER_CONNS */
    unsigned per_address; /* of them; 0: all */
    unsigned calls;       /* under way; 0: HTTP_SERVER_CALLS */
};

/* Names, routes and headers are borrowed until http_server_stop.
 * Errors: ERR_INVALID (the address), ERR_BUSY (it is taken), ERR_UNREACHABLE (not of this machine),
 * ERR_ACCESS, ERR_NOMEM, ERR_IO */
NODISCARD enum err http_server_start(struct http_server **out, const struct http_server_conf *conf,
                                     struct errmsg *why);
/* Waits for handlers that are at work, ends streams, closes the connections. Who waits for a call
 * that is still held is answered 503; the call stays valid, and answering it later only releases
 * it. NULL is allowed. */
void http_server_stop(struct http_server *h);
unsigned http_server_port(const struct http_server *h);

/* -- a call; path and address are valid until http_server_answer, the rest only until the handler
 *    returns -- */

const char *http_server_path(const struct http_server_call *call); /* as sent, without the query */
const char *http_server_address(const struct http_server_call *call); /* the peer's, no port */
const char *http_server_header(const struct http_server_call *call, const char *name); /* or NULL */
struct str http_server_body(const struct http_server_call *call);

/* The query's parameters, in order; escapes are left as they are. Returns how many there are, also
 * when that is more than max. */
struct http_server_param {
    const char *name, *value; /* value may be NULL: no '=' */
};
size_t http_server_params(const struct http_server_call *call, struct http_server_param *out,
                          size_t max);

/* -- answers -- */

/* Content that is made while it is sent. `read` and `close` run on the server's thread. */
struct http_server_stream {
    /* Puts up to n bytes. *got 0: none now, http_server_wake when there are. ERR_CLOSED: the end.
     * Any other error ends the connection in the middle. Must not block. */
    enum err (*read)(void *ctx, void *p, size_t n, size_t *got);
    void (*close)(void *ctx); /* called once; the call is gone after it */
    void *ctx;
};

struct http_server_reply {
    unsigned status;
    const char *type;  /* of the content: "text/plain; charset=utf-8" */
    const char *cache; /* Cache-Control; NULL: "no-store" */
    const struct http_server_pair *headers;
    size_t n_headers;
    /* The content is one of: */
    struct str text;                         /* copied */
    struct buf *moved;                       /* emptied */
    const struct http_server_stream *stream; /* copied; moved is NULL, text is empty */
};

/* Without memory the connection is closed. A client that went meanwhile does not matter. */
void http_server_answer(struct http_server_call *call, const struct http_server_reply *reply);
void http_server_answer_text(struct http_server_call *call, unsigned status, const char *text);

/* There is more to read of the call's stream, or its end. Not after `close` was called. */
void http_server_wake(struct http_server_call *call);

struct http_server_stats {
    uint64_t requests;
    uint64_t refused; /* of them: answered here, not by a handler */
};
void http_server_stats(struct http_server *h, struct http_server_stats *out);

#endif
