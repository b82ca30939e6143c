/* An HTTP client for http and https, on libcurl: requests to servers that an operator has named.
 *
 * What is asked goes to the URL's own host and nowhere else: redirects are not followed (a 3xx is
 * a reply like any other), `http_proxy` and its like are not read unless asked for, other schemes
 * do not exist. https always verifies the peer's certificate and name; plain http is refused
 * beyond the loopback unless `plain` is set. Connections are kept and used again. HTTP/1.1.
 *
 * Bounds:  a reply's body `reply_max`, its headers HTTP_CLIENT_HEADERS_MAX; a request
 *          `timeout_ns`, of which connecting takes `connect_ns` at most.
 * Threads: a client serves one thread at a time, any of them; several clients are independent.
 *          http_client_stop: any thread. SIGPIPE must be ignored in the program. */
#ifndef PROCFLEET_COMMON_HTTP_HTTP_CLIENT_H
#define PROCFLEET_COMMON_HTTP_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/err.h"
#include "common/base/str.h"

#define HTTP_CLIENT_HEADERS_MAX ((size_t)16 << 10)
#define HTTP_CLIENT_CONNECT_NS  (10 * CLK_S)
#define HTTP_CLIENT_TIMEOUT_NS  (30 * CLK_S)

struct http_client;

/* Copied by http_client_open. Texts may be NULL or "". */
struct http_client_conf {
    const char *ca;              /* PEM file of who is trusted; none: the system's */
    const char *cert, *key;      /* PEM files of ours; both or neither */
    const char *user, *password; /* sent as Basic; the password is never printed */
    const char *agent;           /* User-Agent; none: "procfleet/VERSION" */
    bool plain;                  /* http also beyond the loopback */
    bool proxy_of_environment;   /* https_proxy, no_proxy … */
    int64_t connect_ns;          /* 0: HTTP_CLIENT_CONNECT_NS */
};

/* Errors: ERR_NOMEM, ERR_INVALID (one of cert and key), ERR_NOTFOUND, ERR_ACCESS, ERR_IO (a file
 * that is named) */
NODISCARD enum err http_client_open(struct http_client **out, const struct http_client_conf *conf,
                                    struct errmsg *why);
void http_client_close(struct http_client *c); /* nothing is under way; NULL is allowed */

/* What is under way ends with ERR_CLOSED within a second, and so does all that is asked later. */
void http_client_stop(struct http_client *c);

/* Whether requests may go there: absolute, http or https, no user in it, `plain` as above.
 * Errors: ERR_INVALID, ERR_NOMEM */
NODISCARD enum err http_client_check_url(const char *url, bool plain, struct errmsg *why);

struct http_client_header {
    const char *name, *value; /* ERR_INVALID with anything that is no header: CR, LF, NUL … */
};

/* Borrowed during http_client_ask. */
struct http_client_request {
    const char *method; /* "GET", "POST", "PUT", "DELETE" or "HEAD" */
    const char *url;
    const struct http_client_header *headers;
    size_t n_headers;
    const void *body; /* of POST and PUT, sent with its length, never chunked */
    size_t n_body;
    int64_t timeout_ns; /* for all of it; 0: HTTP_CLIENT_TIMEOUT_NS */
    size_t reply_max;   /* bytes of the reply's body */
    /* Takes a 2xx reply piece by piece as it comes instead of `body` below; reply_max still holds.
     * An error ends the request and is its result. May be NULL. */
    enum err (*take)(void *ctx, const void *p, size_t n);
    void *take_ctx;
};

/* Caller's storage, for any number of requests one after the other. */
struct http_client_reply {
    unsigned status; /* 200 to 599; 0: not known */
    struct buf body;
    struct buf headers;     /* of the last reply, "name: value\r\n" each; http_client_header */
    uint32_t retry_after_s; /* 0: not said; at most a day */
};

void http_client_reply_init(struct http_client_reply *r);
void http_client_reply_fini(struct http_client_reply *r);

/* Asks and waits. ERR_OK: there is a whole reply, of any status. Everything else says in `why` what
 * happened and what to do about it, and of the URL its origin alone: the rest may be a secret.
 * Errors: ERR_INVALID (URL, method, header), ERR_NOMEM
 *         ERR_UNREACHABLE  no such name, nobody listens, the connection broke: perhaps it was heard
 *         ERR_TIMEOUT      perhaps it was heard
 *         ERR_TRUST        the peer's certificate, or it does not take ours
 *         ERR_FULL         a reply larger than reply_max or HTTP_CLIENT_HEADERS_MAX; its status is
 *                          known all the same
 *         ERR_CORRUPT      what came is no HTTP
 *         ERR_CLOSED       http_client_stop;  those of `take` */
NODISCARD enum err http_client_ask(struct http_client *c, const struct http_client_request *q,
                                   struct http_client_reply *r, struct errmsg *why);

/* A header of the reply, without blanks around it; empty: it has none. Borrowed from the reply. */
struct str http_client_header_of(const struct http_client_reply *r, const char *name);

#endif
