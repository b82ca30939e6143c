/* A question's way; `lock` guards it, the sessions and the counters:
 *
 *   FREE → WAITING (for one of its session's places) → ASKED → FREE
 *   a stream:  … → ASKED → RESTING (until the peer has taken what there is) → WAITING → …
 *
 * A stream has its slot until its connection is closed and no answer is awaited. Questions are
 * handed to `ask` by one thread at a time, without the lock: an answer that comes at once, inside
 * of `ask`, only makes room for the next turn of that loop. `refs` counts questions that `ask` has;
 * after the stop the last of them releases the door. The stop waits for that loop: nothing is asked
 * after it.
 *
 * Order of locks: ours, then the server's. */
#include "common/http/http_question.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/http/http_events.h"
#include "common/os/os.h"

#define STREAM_MAX    ((size_t)8 << 20) /* an answer, with what makes events of it */
#define LAST_NS       (500 * CLK_MS)    /* at the stop, for the ends of streams */
#define QUESTION_TEXT 16384u            /* its path, query and headers */
#define VALUE_MAX     128u              /* a header of an answer */
#define PAUSE_NS      CLK_S /* before the next question, when an answer came at once and empty */
#define POLL_S        20u
#define POLL_MAX      200u
#define UPDATES       "/api/v1/updates"
#define JSON_TYPE     "application/json"
#define EVENTS_TYPE   "text/event-stream"
#define SESSION_ENDED "the session has ended"

enum question_state { QUESTION_FREE, QUESTION_WAITING, QUESTION_ASKED, QUESTION_RESTING };

struct question {
    struct http_question_desk *desk;
    enum question_state state;
    struct http_server_call *call;
    uint64_t session; /* 0: the page's */
    uint64_t order;
    struct net_identity who;
    struct buf text; /* of what follows */
    struct str path, query, accept, accept_encoding, if_none_match;
    /* a stream */
    bool events;    /* is wanted */
    bool streaming; /* has begun: the call is the stream's */
    bool ended, closed;
    unsigned max;
    char cursor[HTTP_EVENTS_CURSOR];
    size_t cursor_n;
    struct buf out;
    size_t out_at;
    int64_t asked_ns, rest_ns, said_ns; /* monotonic; rest_ns: not asked before */
};
struct http_question_desk {
    struct http_question_shared shared; /* its lock guards what follows */
    struct http_question_conf conf;
    bool stopped, dispatching;
    size_t refs;
    uint64_t orders;
    unsigned page_under_way;
    size_t streams;
    uint64_t asked;
    struct question questions[HTTP_DOOR_QUESTIONS];
};

static struct http_session_now desk_now(void)
{
    return (struct http_session_now){os_mono_ns(), os_utc_ns()};
}

static void desk_free(struct http_question_desk *d)
{
    for (size_t i = 0; i < HTTP_DOOR_QUESTIONS; i++) {
        buf_fini(&d->questions[i].text);
        buf_fini(&d->questions[i].out);
    }
    http_session_destroy(d->shared.sessions);
    os_cond_destroy(d->shared.wake);
    os_mutex_destroy(d->shared.lock);
    mem_free(d);
}

void http_question_error(struct http_server_call *call, unsigned status, const char *code,
                         const char *message, unsigned retry_s)
{
    char text[512], retry[16];
    const struct http_server_pair header = {"Retry-After", retry};

    (void)snprintf(text, sizeof text, "{\"code\":\"%s\",\"message\":\"%s\",\"details\":\"\"}", code,
                   message);
    (void)snprintf(retry, sizeof retry, "%u", retry_s);
    http_server_answer(call, &(struct http_server_reply){.status = status,
                                                         .type = JSON_TYPE,
                                                         .headers = &header,
                                                         .n_headers = retry_s ? 1 : 0,
                                                         .text = {text, strlen(text)}});
}

static void answer_busy(struct http_server_call *call)
{
    http_question_error(call, 503, "UNAVAILABLE", "too many questions, or stopping: ask again", 1);
}

/* -- questions -- */

static struct str question_put(struct question *q, const char *text)
{
    size_t n = text ? strlen(text) : 0, at = q->text.n;

    buf_put(&q->text, text ? text : "", n);
    return (struct str){(const char *)(uintptr_t)at, n}; /* where, until the text is complete */
}

static void question_place(const struct question *q, struct str *s)
{
    s->p = s->n > 0 ? (const char *)q->text.p + (uintptr_t)s->p : "";
}

/* The query as it was sent: the server gives its parameters. */
static struct str question_query(struct question *q, const struct http_server_call *call)
{
    struct http_server_param params[64];
    size_t n = http_server_params(call, params, sizeof params / sizeof *params), at = q->text.n;

    if (n > sizeof params / sizeof *params) {
        q->text.bad = ERR_FULL;
        return (struct str){NULL, 0};
    }
    for (size_t i = 0; i < n; i++) {
        const char *parts[] = {i > 0 ? "&" : "", params[i].name, params[i].value ? "=" : "",
                               params[i].value ? params[i].value : ""};

        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            for (const char *p = parts[k]; *p; p++) {
                buf_put_u8(&q->text, *p == ' ' ? '+' : (uint8_t)*p); /* the server's doing */
            }
        }
    }
    return (struct str){(const char *)(uintptr_t)at, q->text.n - at};
}

/* What the handler may no longer look at when it has returned. */
static bool question_read(struct question *q, const struct http_server_call *call)
{
    const char *accept = http_server_header(call, "Accept");

    q->path = question_put(q, http_server_path(call));
    q->query = question_query(q, call);
    q->events =
        strcmp(http_server_path(call), UPDATES) == 0 && accept && strstr(accept, EVENTS_TYPE);
    q->accept = question_put(q, q->events ? JSON_TYPE : accept);
    q->accept_encoding =
        question_put(q, q->events ? NULL : http_server_header(call, "Accept-Encoding"));
    q->if_none_match = question_put(q, http_server_header(call, "If-None-Match"));
    question_place(q, &q->path);
    question_place(q, &q->query);
    question_place(q, &q->accept);
    question_place(q, &q->accept_encoding);
    question_place(q, &q->if_none_match);
    q->max = POLL_MAX;
    return !q->text.bad;
}

/* The lock is held, as below. */
static void question_free(struct question *q)
{
    assert(q->state != QUESTION_FREE);
    buf_fini(&q->text);
    buf_fini(&q->out);
    q->desk->streams -= q->streaming;
    *q = (struct question){.desk = q->desk};
}

static bool question_has_place(struct http_question_desk *d, const struct question *q)
{
    if (q->events) {
        return true;
    }
    return q->session ? http_session_begin(d->shared.sessions, q->session)
                      : d->page_under_way < HTTP_DOOR_PAGE;
}

static void question_leave_place(struct http_question_desk *d, const struct question *q)
{
    if (q->events) {
        return;
    }
    if (q->session) {
        http_session_done(d->shared.sessions, q->session);
    } else {
        d->page_under_way--;
    }
}

/* The oldest that may be asked. */
static struct question *question_next(struct http_question_desk *d)
{
    struct question *next = NULL;
    uint64_t after = 0;

    for (;;) {
        next = NULL;
        for (size_t i = 0; i < HTTP_DOOR_QUESTIONS; i++) {
            struct question *q = &d->questions[i];

            if (q->state == QUESTION_WAITING && q->order > after &&
                (!next || q->order < next->order)) {
                next = q;
            }
        }
        if (!next || question_has_place(d, next)) {
            return next;
        }
        after = next->order;
    }
}

static void question_done(void *ctx, const struct http_ask_answer *answer);

static void question_ask(struct http_question_desk *d, struct question *q)
{
    struct http_ask_question question = {.who = &q->who,
                                         .path = q->path,
                                         .query = q->query,
                                         .accept = q->accept,
                                         .accept_encoding = q->accept_encoding,
                                         .if_none_match = q->if_none_match};
    char line[300];
    struct buf query;

    buf_init(&query, QUESTION_TEXT);
    if (q->events) {
        http_events_query(&query, q->query, (struct str){q->cursor, q->cursor_n},
                          q->streaming ? POLL_S : 0, q->max);
        question.query = (struct str){buf_cstr(&query), query.n};
    }
    if (q->session && !q->streaming) {
        (void)snprintf(line, sizeof line, "%.*s?%.*s", (int)q->path.n, q->path.p, (int)q->query.n,
                       q->query.p);
        d->conf.asked(d->conf.ctx, &q->who, line);
    }
    d->conf.ask(d->conf.ask_ctx, &question, question_done, q);
    buf_fini(&query);
}

/* The lock is not held. */
void http_question_dispatch(struct http_question_desk *d)
{
    struct question *q;

    os_mutex_lock(d->shared.lock);
    if (!d->dispatching) {
        d->dispatching = true;
        while (!d->shared.stopping && (q = question_next(d)) != NULL) {
            q->state = QUESTION_ASKED;
            q->asked_ns = os_mono_ns();
            d->page_under_way += !q->session && !q->events;
            d->asked++;
            d->refs++;
            os_mutex_unlock(d->shared.lock);
            question_ask(d, q);
            os_mutex_lock(d->shared.lock);
        }
        d->dispatching = false;
        os_cond_wake_all(d->shared.wake); /* http_question_stop may wait for it */
    }
    os_mutex_unlock(d->shared.lock);
}

/* -- answers -- */

static const char *value_copy(char text[VALUE_MAX], struct str s)
{
    size_t n = s.n < VALUE_MAX - 1 ? s.n : VALUE_MAX - 1;

    memcpy(text, s.p ? s.p : "", n);
    text[n] = '\0';
    return text;
}

static void answer_pass(struct http_server_call *call, const struct http_ask_answer *a)
{
    char type[VALUE_MAX], encoding[VALUE_MAX], etag[VALUE_MAX], retry[16];
    struct http_server_pair headers[3];
    size_t n = 0;

    if (a->encoding.n > 0) {
        headers[n++] =
            (struct http_server_pair){"Content-Encoding", value_copy(encoding, a->encoding)};
    }
    if (a->etag.n > 0) {
        headers[n++] = (struct http_server_pair){"ETag", value_copy(etag, a->etag)};
    }
    if (a->retry_after_s > 0) {
        (void)snprintf(retry, sizeof retry, "%" PRIu32, a->retry_after_s);
        headers[n++] = (struct http_server_pair){"Retry-After", retry};
    }
    http_server_answer(call, &(struct http_server_reply){
                                 .status = a->status >= 200 && a->status < 600 ? a->status : 503,
                                 .type = a->type.n > 0 ? value_copy(type, a->type) : NULL,
                                 .cache = a->immutable    ? "public, max-age=31536000, "
                                                            "immutable"
                                          : a->etag.n > 0 ? "no-cache"
                                                          : NULL,
                                 .headers = headers,
                                 .n_headers = n,
                                 .text = a->body});
}

/* -- streams; the lock is held in what does not say otherwise -- */

static void stream_end(struct question *q, const char *code, const char *message)
{
    if (!q->ended) {
        http_events_end(&q->out, code, message);
        q->ended = true;
        http_server_wake(q->call);
    }
}

/* Events of an answer; false: it is too large as it is, and less is asked for. */
static bool stream_take(struct question *q, const struct http_events_answer *a, struct str json,
                        bool first)
{
    int64_t now_ns = os_mono_ns();

    if (json.n > HTTP_DOOR_EVENTS && q->max > 1) {
        q->max /= 2;
        return false;
    }
    http_events_write(&q->out, a, json, first);
    memcpy(q->cursor, a->cursor.p, a->cursor.n);
    q->cursor_n = a->cursor.n;
    q->said_ns = q->out.n > q->out_at ? now_ns : q->said_ns;
    q->rest_ns = a->has_updates || now_ns - q->asked_ns >= PAUSE_NS ? 0 : now_ns + PAUSE_NS;
    return true;
}

/* What was asked for again is answered. */
static void stream_go_on(struct question *q, const struct http_ask_answer *a)
{
    struct http_events_answer events;
    struct str code = {"", 0}, message = {"", 0};
    char texts[2][VALUE_MAX];

    q->state = QUESTION_RESTING;
    if (!q->ended && !http_session_lives(q->desk->shared.sessions, q->session, desk_now())) {
        stream_end(q, "UNAUTHENTICATED", SESSION_ENDED);
    }
    if (q->ended) {
        return; /* what comes now is for nobody */
    }
    if (a->status == 200 && http_events_read(&events, a->body) == ERR_OK) {
        (void)stream_take(q, &events, a->body, false);
        http_session_touch(q->desk->shared.sessions, q->session, desk_now());
        http_server_wake(q->call);
    } else if (a->status == 429) {
        q->rest_ns = os_mono_ns() + (a->retry_after_s ? a->retry_after_s : 1) * CLK_S;
    } else {
        (void)http_events_member(&code, a->body, "code");
        (void)http_events_member(&message, a->body, "message");
        stream_end(q, code.n > 0 ? value_copy(texts[0], code) : "UNAVAILABLE",
                   message.n > 0 ? value_copy(texts[1], message) : "no answer");
    }
    if (q->out.bad) {
        q->ended = true; /* without memory */
        http_server_wake(q->call);
    }
}

static bool stream_is_due(const struct question *q, int64_t now_ns)
{
    return q->state == QUESTION_RESTING && !q->ended && !q->closed && q->out_at == q->out.n &&
           now_ns >= q->rest_ns;
}

/* On the server's thread, without the lock. */
static enum err stream_read(void *ctx, void *p, size_t n, size_t *got)
{
    struct question *q = ctx;
    struct http_question_desk *d = q->desk;
    enum err e = ERR_OK;

    os_mutex_lock(d->shared.lock);
    *got = q->out.n - q->out_at < n ? q->out.n - q->out_at : n;
    if (*got > 0) {
        memcpy(p, q->out.p + q->out_at, *got);
        q->out_at += *got;
    } else if (q->ended) {
        e = ERR_CLOSED;
    } else {
        buf_fini(&q->out); /* the largest is not kept */
        buf_init(&q->out, STREAM_MAX);
        q->out_at = 0;
    }
    if (stream_is_due(q, os_mono_ns())) {
        q->state = QUESTION_WAITING;
        q->order = ++d->orders;
    }
    os_mutex_unlock(d->shared.lock);
    http_question_dispatch(d);
    return e;
}

/* Likewise. */
static void stream_close(void *ctx)
{
    struct question *q = ctx;
    struct http_question_desk *d = q->desk;

    os_mutex_lock(d->shared.lock);
    q->closed = true;
    if (q->state != QUESTION_ASKED) {
        question_free(q);
    }
    os_cond_wake_all(d->shared.wake); /* http_door_stop may wait for it */
    os_mutex_unlock(d->shared.lock);
}

/* The first answer: the stream begins, or the question is answered as any other. Without the lock.
 */
static void stream_begin(struct question *q, const struct http_ask_answer *a)
{
    static const struct http_server_pair header = {"X-Accel-Buffering", "no"}; /* nginx's */
    const struct http_server_stream stream = {stream_read, stream_close, q};
    struct http_question_desk *d = q->desk;
    struct http_events_answer events;
    struct http_server_call *call = q->call;
    bool begins = a->status == 200 && http_events_read(&events, a->body) == ERR_OK;

    os_mutex_lock(d->shared.lock);
    if (begins) {
        buf_init(&q->out, STREAM_MAX);
        q->streaming = true;
        q->said_ns = os_mono_ns();
        d->streams++;
        q->state = stream_take(q, &events, a->body, true) ? QUESTION_RESTING : QUESTION_WAITING;
        q->order = ++d->orders;
    } else {
        question_free(q);
    }
    os_mutex_unlock(d->shared.lock);
    if (begins) {
        http_server_answer(call, &(struct http_server_reply){.status = 200,
                                                             .type = EVENTS_TYPE,
                                                             .headers = &header,
                                                             .n_headers = 1,
                                                             .stream = &stream});
    } else {
        answer_pass(call, a);
    }
}

/* -- what was asked is answered: on any thread -- */

static void question_answer(struct question *q, const struct http_ask_answer *a)
{
    struct http_question_desk *d = q->desk;
    struct http_server_call *call = q->call;
    bool ended, begins;

    os_mutex_lock(d->shared.lock);
    if (q->streaming) {
        if (q->closed) {
            question_free(q);
        } else {
            stream_go_on(q, a);
        }
        os_mutex_unlock(d->shared.lock);
        return;
    }
    ended = q->session && !http_session_lives(d->shared.sessions, q->session, desk_now());
    begins = q->events && !ended;
    if (!begins) {
        question_free(q);
    }
    os_mutex_unlock(d->shared.lock);
    if (ended) {
        http_question_error(call, 401, "UNAUTHENTICATED", SESSION_ENDED, 0);
    } else if (begins) {
        stream_begin(q, a);
    } else {
        answer_pass(call, a);
    }
}

static void question_done(void *ctx, const struct http_ask_answer *answer)
{
    struct question *q = ctx;
    struct http_question_desk *d = q->desk;
    bool last;

    os_mutex_lock(d->shared.lock);
    assert(q->state == QUESTION_ASKED);
    question_leave_place(d, q);
    os_mutex_unlock(d->shared.lock);
    question_answer(q, answer);
    http_question_dispatch(d);
    os_mutex_lock(d->shared.lock);
    d->refs--;
    last = d->stopped && d->refs == 0;
    os_mutex_unlock(d->shared.lock);
    if (last) {
        desk_free(d);
    }
}

/* -- what the door calls -- */

/* A slot, or NULL: there is none, or this session has its share. */
static struct question *question_take(struct http_question_desk *d, uint64_t session, bool events)
{
    struct question *free = NULL;
    unsigned waiting = 0, streams = 0, all = 0;

    for (size_t i = 0; i < HTTP_DOOR_QUESTIONS; i++) {
        struct question *q = &d->questions[i];

        if (q->state == QUESTION_FREE) {
            free = q;
            continue;
        }
        all += q->events;
        streams += q->events && q->session == session;
        waiting += q->state == QUESTION_WAITING && !q->events && q->session == session;
    }
    if (d->shared.stopping || (events ? streams >= HTTP_DOOR_STREAMS_OF || all >= d->conf.streams
                                      : waiting >= HTTP_DOOR_WAITING)) {
        return NULL;
    }
    return free;
}

/* The question of a request; who: its holder, or NULL for the page. */
void http_question_begin(struct http_question_desk *d, struct http_server_call *call,
                         uint64_t session, const struct net_identity *who)
{
    struct question read = {.desk = d, .call = call, .session = session}, *q = NULL;

    buf_init(&read.text, QUESTION_TEXT);
    if (who) {
        read.who = *who;
    }
    (void)snprintf(read.who.address, sizeof read.who.address, "%s", http_server_address(call));
    if (question_read(&read, call)) {
        os_mutex_lock(d->shared.lock);
        q = question_take(d, session, read.events);
        if (q) {
            read.state = QUESTION_WAITING;
            read.order = ++d->orders;
            *q = read;
        }
        os_mutex_unlock(d->shared.lock);
    }
    if (q) {
        http_question_dispatch(d);
    } else {
        buf_fini(&read.text);
        answer_busy(call);
    }
}

void http_question_tick(struct http_question_desk *d, struct http_session_now now)
{
    for (size_t i = 0; i < HTTP_DOOR_QUESTIONS; i++) {
        struct question *q = &d->questions[i];

        if (!q->streaming || q->closed || q->ended) {
            continue;
        }
        if (!http_session_lives(d->shared.sessions, q->session, now)) {
            stream_end(q, "UNAUTHENTICATED", SESSION_ENDED);
        } else if (stream_is_due(q, now.mono_ns)) {
            q->state = QUESTION_WAITING;
            q->order = ++d->orders;
        } else if (q->out_at == q->out.n && now.mono_ns - q->said_ns >= HTTP_DOOR_COMMENT_NS) {
            buf_put_str(&q->out, ":\n\n");
            q->said_ns = now.mono_ns;
            http_server_wake(q->call);
        }
    }
}

/* Streams are told, and given a moment to say so. */
static void streams_stop(struct http_question_desk *d)
{
    int64_t end_ns = os_mono_ns() + LAST_NS;

    for (size_t i = 0; i < HTTP_DOOR_QUESTIONS; i++) {
        struct question *q = &d->questions[i];

        if (q->streaming && !q->closed) {
            stream_end(q, "UNAVAILABLE", "stopping");
        }
    }
    while (d->streams > 0 && os_cond_wait_until(d->shared.wake, end_ns) != ERR_TIMEOUT) {
    }
}

/* Of those that were not asked yet one, or NULL. */
static struct http_server_call *waiting_take(struct http_question_desk *d)
{
    struct http_server_call *call = NULL;

    for (size_t i = 0; i < HTTP_DOOR_QUESTIONS && !call; i++) {
        struct question *q = &d->questions[i];

        if (q->state == QUESTION_WAITING && !q->streaming) {
            call = q->call;
            question_free(q);
        }
    }
    return call;
}

void http_question_stop(struct http_question_desk *d)
{
    struct http_server_call *call;

    os_mutex_lock(d->shared.lock);
    d->shared.stopping = true;
    os_cond_wake_all(d->shared.wake);
    while (d->dispatching) { /* on whatever thread: what it asks may go when we return */
        os_cond_wait(d->shared.wake);
    }
    streams_stop(d);
    while ((call = waiting_take(d)) != NULL) {
        os_mutex_unlock(d->shared.lock);
        answer_busy(call);
        os_mutex_lock(d->shared.lock);
    }
    os_mutex_unlock(d->shared.lock);
}

enum err http_question_open(struct http_question_desk **out, const struct http_question_conf *conf)
{
    struct http_question_desk *d = mem_zalloc(sizeof *d);
    enum err e;

    if (!d) {
        return ERR_NOMEM;
    }
    d->conf = *conf;
    for (size_t i = 0; i < HTTP_DOOR_QUESTIONS; i++) {
        d->questions[i].desk = d;
    }
    e = os_mutex_create(&d->shared.lock);
    if (!e) {
        e = os_cond_create(&d->shared.wake, d->shared.lock);
    }
    if (!e) {
        e = http_session_create(&d->shared.sessions, conf->life_ns);
    }
    if (e) {
        desk_free(d);
        return e;
    }
    *out = d;
    return ERR_OK;
}

void http_question_close(struct http_question_desk *d)
{
    bool last;

    if (!d) {
        return;
    }
    os_mutex_lock(d->shared.lock);
    d->shared.stopping = true;
    d->stopped = true;
    last = d->refs == 0;
    os_mutex_unlock(d->shared.lock);
    if (last) {
        desk_free(d);
    }
}

struct http_question_shared *http_question_shared(struct http_question_desk *d)
{
    return &d->shared;
}

void http_question_count(const struct http_question_desk *d, size_t *streams, uint64_t *asked)
{
    *streams = d->streams;
    *asked = d->asked;
}
