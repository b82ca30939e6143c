/* Who may ask over HTTP. A ticket stands for its holder's certificate, is used once within
 * HTTP_SESSION_TICKET_NS and becomes a session. That has two halves, a cookie and a key, because
 * either may reach another program of the same machine: cookies go to all ports of a host, pages
 * keep keys by port. Programs have tokens instead, which come from a file.
 *
 * Secrets are 128 random bits in HTTP_SESSION_TEXT; their SHA-256 is what is kept and compared, in
 * a time that does not depend on them. A right ticket is always taken, so that nobody can keep
 * others out by trying; of the wrong ones an address has HTTP_SESSION_LOGINS a minute.
 *
 * Bounds:  HTTP_SESSION_MAX sessions and tokens, HTTP_SESSION_TICKETS tickets; of one certificate
 *          HTTP_SESSION_SAME and HTTP_SESSION_TICKETS_SAME, of which the oldest goes first.
 *          A session: HTTP_SESSION_RATE questions a second, HTTP_SESSION_AT_ONCE under way.
 * Threads: one at a time. No input or output but random numbers; time is given. */
#ifndef PROCFLEET_COMMON_HTTP_HTTP_SESSION_H
#define PROCFLEET_COMMON_HTTP_HTTP_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/clk.h"
#include "common/base/err.h"
#include "common/base/str.h"
#include "common/tls/tls_cert.h"

#define HTTP_SESSION_TEXT         33u /* 32 hexadecimal digits and NUL */
#define HTTP_SESSION_MAX          256u
#define HTTP_SESSION_SAME         32u
#define HTTP_SESSION_TICKETS      64u
#define HTTP_SESSION_TICKETS_SAME 8u
#define HTTP_SESSION_RATE         20u
#define HTTP_SESSION_AT_ONCE      4u
#define HTTP_SESSION_LOGINS       5u
#define HTTP_SESSION_TICKET_NS    (60 * CLK_S)
#define HTTP_SESSION_IDLE_NS      (60 * 60 * CLK_S)
#define HTTP_SESSION_LIFE_NS      (12 * 60 * 60 * CLK_S)

struct http_session_table;

/* What spans are measured with, and what certificates end by. */
struct http_session_now {
    int64_t mono_ns, utc_ns;
};

/* life_ns: the longest that a session lives, above 0. Errors: ERR_NOMEM, ERR_IO (no random) */
NODISCARD enum err http_session_create(struct http_session_table **out, int64_t life_ns);
void http_session_destroy(struct http_session_table *t); /* NULL is allowed */

/* A ticket for this holder, whose certificate has to be valid. Errors: ERR_ACCESS (it has ended),
 * ERR_FULL, ERR_IO, ERR_NOMEM */
NODISCARD enum err http_session_ticket(struct http_session_table *t, const struct net_identity *who,
                                       struct http_session_now now, char text[HTTP_SESSION_TEXT]);

struct http_session_login {
    char cookie[HTTP_SESSION_TEXT], key[HTTP_SESSION_TEXT];
    struct net_identity who;
    int64_t until_ns; /* UTC: it lives no longer */
    bool replaces;    /* there was no other place than that of a session of `replaced` */
    struct net_identity replaced;
};

/* Uses the ticket up. address: of the one who has it, borrowed. Errors: ERR_ACCESS (no such
 * ticket), ERR_FULL (nor before, HTTP_SESSION_LOGINS times within a minute), ERR_IO, ERR_NOMEM */
NODISCARD enum err http_session_login(struct http_session_table *t, struct str ticket,
                                      const char *address, struct http_session_now now,
                                      struct http_session_login *out);

/* -- questions -- */

/* What came with a request; each may be empty. */
struct http_session_proof {
    struct str cookie, key, bearer;
};

/* The session or token of a request, and counts the request. *id: for the functions below. who is
 * valid until the next call. Errors: ERR_ACCESS (there is none), ERR_FULL (too many a second) */
NODISCARD enum err http_session_enter(struct http_session_table *t,
                                      const struct http_session_proof *proof,
                                      struct http_session_now now, uint64_t *id,
                                      const struct net_identity **who);
/* A place for a question; false: HTTP_SESSION_AT_ONCE are under way. One whose session has ended
 * has a place. */
bool http_session_begin(struct http_session_table *t, uint64_t id);
void http_session_done(struct http_session_table *t, uint64_t id);
bool http_session_lives(const struct http_session_table *t, uint64_t id,
                        struct http_session_now now);
/* Keeps it from ending for lack of use. */
void http_session_touch(struct http_session_table *t, uint64_t id, struct http_session_now now);

/* -- their end -- */

/* Is told of each session that ends, with the reason in words. May be NULL. */
typedef void (*http_session_on_end)(void *ctx, const struct net_identity *who, const char *reason);

void http_session_logout(struct http_session_table *t, uint64_t id, http_session_on_end on_end,
                         void *ctx);
/* Ends what has had its time, and the sessions and tickets of holders whom `keep` (may be NULL)
 * does not want: it gives words why, or NULL. Tokens are not asked about. */
void http_session_sweep(struct http_session_table *t, struct http_session_now now,
                        const char *(*keep)(void *ctx, const struct net_identity *who),
                        http_session_on_end on_end, void *ctx);
size_t http_session_count(const struct http_session_table *t); /* sessions, without tokens */

/* -- tokens -- */

/* Replaces the tokens by those of a file's text: lines of `NAME TOKEN [scope=GLOB] [until=TIME]`,
 * `#` begins a comment; no token stands in two lines. Each becomes a holder of role query; one that
 * was there goes on, one that is gone ends with the next sweep. On failure all stay as they were.
 * scopes: whether a scope may be given.
 * Errors: ERR_INVALID (why names line and reason), ERR_FULL, ERR_NOMEM */
NODISCARD enum err http_session_tokens(struct http_session_table *t, struct str text, bool scopes,
                                       struct errmsg *why);

#endif
