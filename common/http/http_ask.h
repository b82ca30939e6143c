/* What a door asks, what it is answered, and how much of it at a time (http_door.h). */
#ifndef PROCFLEET_COMMON_HTTP_HTTP_ASK_H
#define PROCFLEET_COMMON_HTTP_HTTP_ASK_H

#include "common/base/clk.h"
#include "common/base/str.h"
#include "common/tls/tls_cert.h"

#define HTTP_DOOR_CONNS      256u
#define HTTP_DOOR_SAME       64u
#define HTTP_DOOR_QUESTIONS  128u
#define HTTP_DOOR_WAITING    32u
#define HTTP_DOOR_PAGE       8u
#define HTTP_DOOR_STREAMS    64u
#define HTTP_DOOR_STREAMS_OF 8u /* a session */
#define HTTP_DOOR_EVENTS     ((size_t)256 << 10)
#define HTTP_DOOR_COMMENT_NS (10 * CLK_S)

/* Borrowed during `ask`. who: empty for the page. */
struct http_ask_question {
    const struct net_identity *who;
    struct str path, query; /* as sent; nothing in them is unescaped */
    struct str accept, accept_encoding, if_none_match;
};

/* Borrowed during `done`. */
struct http_ask_answer {
    unsigned status;
    struct str type, encoding, etag, body; /* each may be empty */
    bool immutable;
    uint32_t retry_after_s;
};

typedef void (*http_ask_done)(void *ctx, const struct http_ask_answer *answer);

#endif
