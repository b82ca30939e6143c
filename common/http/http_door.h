/* The console's page and questions over HTTP: what both of its doors share. A door says who may
 * ask, and how browsers have to treat what they get; the answers are those of `ask`.
 *
 *     GET, HEAD  /  /a/…            the page; anybody
 *     GET, HEAD  /api/v1/…          questions; of a session or token (http_session.h)
 *     POST       /api/v1/session    {"ticket":"…"} becomes a session
 *     DELETE     /api/v1/session    logout
 *
 * Besides http_server.h: 401 no session; 403 of another site, by `Origin` or `Sec-Fetch-Site`
 * (links to `/` may be followed from anywhere); 429 too many questions or logins.
 *
 * /api/v1/updates with `Accept: text/event-stream` is asked again and again, each answer being an
 * event (http_events.h): the next question comes when the peer has taken the last answer. Every
 * HTTP_DOOR_COMMENT_NS without an event there is a comment.
 *
 * Bounds:  HTTP_DOOR_CONNS connections, HTTP_DOOR_SAME of an address; HTTP_DOOR_QUESTIONS, of which
 *          HTTP_DOOR_WAITING of a session wait for their turn and HTTP_DOOR_PAGE under way are for
 *          the page; `streams`, of a session HTTP_DOOR_STREAMS_OF, each with an answer of at most
 *          HTTP_DOOR_EVENTS, where one update alone is not larger.
 * Threads: any. `ask`, `note` and `keep` must not block. */
#ifndef PROCFLEET_COMMON_HTTP_HTTP_DOOR_H
#define PROCFLEET_COMMON_HTTP_HTTP_DOOR_H

#include "common/http/http_ask.h"
#include "common/http/http_session.h"

struct http_door;

enum http_door_event {
    HTTP_DOOR_SESSION, /* begins */
    HTTP_DOOR_END,     /* reason: why */
    HTTP_DOOR_REFUSED, /* reason: why; who has no name */
    HTTP_DOOR_ASKED,   /* reason: path and query */
};

struct http_door_note {
    enum http_door_event event;
    const struct net_identity *who; /* with the peer's address where there is one */
    const char *reason;
    const char *user; /* what a proxy says who it is: not to be believed; "" when it does not */
};

struct http_door_conf {
    const char *address;      /* of the loopback only */
    const char *const *names; /* and n_names, as in http_server.h */
    size_t n_names;
    const char *url;         /* where browsers find it, behind a proxy: "https://console.lab"; "" */
    const char *user_header; /* in which the proxy names its user; "" */
    int64_t life_ns;         /* of a session; 0: HTTP_SESSION_LIFE_NS */
    unsigned streams;        /* 0: HTTP_DOOR_STREAMS */
    /* Answers, now or later and from any thread, exactly once. */
    void (*ask)(void *ctx, const struct http_ask_question *q, http_ask_done done, void *done_ctx);
    void (*note)(void *ctx, const struct http_door_note *note); /* may be NULL */
    /* Asked each second: words why this holder's session ends, or NULL. May be NULL. */
    const char *(*keep)(void *ctx, const struct net_identity *who);
    void (*each_second)(void *ctx); /* from the door's own thread, without a lock; may be NULL */
    void *ctx;                      /* of the four */
};

/* Texts are borrowed until http_door_stop. Errors: ERR_INVALID (not of the loopback), those of
 * http_server_start */
NODISCARD enum err http_door_start(struct http_door **out, const struct http_door_conf *conf,
                                   struct errmsg *why);
/* Answers 503 what is under way. A question that `ask` still has may be answered later: that only
 * releases it. NULL is allowed. */
void http_door_stop(struct http_door *d);
unsigned http_door_port(const struct http_door *d);

/* Errors: those of http_session_ticket */
NODISCARD enum err http_door_ticket(struct http_door *d, const struct net_identity *who,
                                    char text[HTTP_SESSION_TEXT]);
/* Errors: those of http_session_tokens */
NODISCARD enum err http_door_tokens(struct http_door *d, struct str text, bool scopes,
                                    struct errmsg *why);
/* The same of a private file, unless it is what it was when `seen` was set; at first 0. *changed:
 * it is not. What cannot be read or understood leaves the tokens in use.
 * Errors: also ERR_ACCESS (others can read it), those of os_read_file */
NODISCARD enum err http_door_token_file(struct http_door *d, const char *path, bool scopes,
                                        uint64_t *seen, bool *changed, struct errmsg *why);
void http_door_review(struct http_door *d); /* asks `keep` now */

enum http_door_refusal {
    HTTP_DOOR_NO_SESSION,
    HTTP_DOOR_OTHER_SITE,
    HTTP_DOOR_WRONG_TICKET,
    HTTP_DOOR_TOO_MANY,
    HTTP_DOOR_REFUSALS
};

struct http_door_stats {
    size_t sessions, streams;              /* now */
    uint64_t requests;                     /* all that came */
    uint64_t refused;                      /* of them: by http_server.h */
    uint64_t refusals[HTTP_DOOR_REFUSALS]; /* and here */
    uint64_t asked;                        /* questions, those of streams too */
};
void http_door_stats(struct http_door *d, struct http_door_stats *out);

#endif
