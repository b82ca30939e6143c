/* The questions of a door that are under way: which wait for their turn, which are asked, and which
 * are streams that are asked again and again. Bounds: http_door.h. Private to the folder.
 *
 * Threads: any, but http_question_stop and _close. The door and its questions share a lock and the
 * sessions. Answers may come after _close: the last of them releases what is shared. */
#ifndef PROCFLEET_COMMON_HTTP_HTTP_QUESTION_H
#define PROCFLEET_COMMON_HTTP_HTTP_QUESTION_H

#include "common/http/http_ask.h"
#include "common/http/http_server.h"
#include "common/http/http_session.h"

struct http_question_desk;

struct http_question_conf {
    unsigned streams;
    int64_t life_ns; /* of sessions */
    void (*ask)(void *ctx, const struct http_ask_question *q, http_ask_done done, void *done_ctx);
    void (*asked)(void *ctx, const struct net_identity *who, const char *path_and_query);
    void *ask_ctx; /* of ask */
    void *ctx;     /* of asked; not used after http_question_stop */
};

struct http_question_shared {
    struct os_mutex *lock; /* guards what follows; taken before any of http_server.h */
    struct os_cond *wake;  /* it stops, or a stream has ended */
    bool stopping;
    struct http_session_table *sessions;
};

/* Errors: ERR_NOMEM, ERR_IO */
NODISCARD enum err http_question_open(struct http_question_desk **out,
                                      const struct http_question_conf *conf);
/* Nothing is asked any more: streams are ended, what waits is answered 503. Before the server
 * stops. */
void http_question_stop(struct http_question_desk *d);
void http_question_close(struct http_question_desk *d); /* after it; NULL is allowed */
struct http_question_shared *http_question_shared(struct http_question_desk *d);

/* Takes the call. session: 0 for the page. who: its holder, NULL for the page. */
void http_question_begin(struct http_question_desk *d, struct http_server_call *call,
                         uint64_t session, const struct net_identity *who);
/* Asks what may be asked. The lock is not held. */
void http_question_dispatch(struct http_question_desk *d);
/* What time does to streams. The lock is held, as for the next. */
void http_question_tick(struct http_question_desk *d, struct http_session_now now);
void http_question_count(const struct http_question_desk *d, size_t *streams, uint64_t *asked);

/* An error as the API has them. retry_s: 0 for none. */
void http_question_error(struct http_server_call *call, unsigned status, const char *code,
                         const char *message, unsigned retry_s);

#endif
