/* Query/Web, a web request relayed to the collector and its reply, to and from protobuf bytes,
 * under the rules of wire_batch.h. Only GET travels so. Decoded messages are released with their
 * `_free`; encoders only read. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_WEB_H
#define PROCFLEET_COMMON_WIRE_WIRE_WEB_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/str.h"

#define RPC_QUERY_WEB            "procfleet.v1.Query/Web"
#define RPC_QUERY_CONSOLE_TICKET "procfleet.v1.Query/ConsoleTicket" /* body: a link */

#define WIRE_WEB_PATH_MAX   1024u
#define WIRE_WEB_QUERY_MAX  8192u
#define WIRE_WEB_HEADER_MAX 1024u /* each header's value */
#define WIRE_WEB_BODY_MAX   ((4u << 20) - 16384u)

struct wire_web_request {
    struct str path;  /* decoded, begins with '/'; UTF-8 without NUL, as all of these */
    struct str query; /* what follows '?', escapes kept */
    struct str accept, accept_encoding, if_none_match; /* values of headers; empty: not sent */
};

struct wire_web_reply {
    uint32_t status;        /* of HTTP, 100 to 599 */
    struct str type;        /* Content-Type; empty without a body */
    struct str encoding;    /* Content-Encoding; empty: none */
    struct str etag;        /* with its quotes; empty: none */
    struct str body;        /* any bytes */
    uint32_t retry_after_s; /* 0: say nothing */
    bool immutable;         /* may be kept for a year; else: ask every time */
};

/* Errors of encoding: ERR_FULL (buf), ERR_INVALID (a body over its bound, a status out of range),
 * ERR_NOMEM; of decoding: ERR_CORRUPT, ERR_FULL (over a bound), ERR_NOMEM. */
NODISCARD enum err wire_web_request_encode(struct buf *out, const struct wire_web_request *in);
NODISCARD enum err wire_web_request_decode(struct wire_web_request **out, const void *p, size_t n);
void wire_web_request_free(struct wire_web_request *m);
NODISCARD enum err wire_web_reply_encode(struct buf *out, const struct wire_web_reply *in);
NODISCARD enum err wire_web_reply_decode(struct wire_web_reply **out, const void *p, size_t n);
void wire_web_reply_free(struct wire_web_reply *m);

#endif
