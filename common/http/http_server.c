/* libmicrohttpd's thread serves all connections and calls the handlers. A call's way:
 *
 *   FREE → READING (its body) → HELD (suspended, with its handler) → MAKING (its reply) → ANSWERED
 *   ANSWERED → FREE, or → STREAM ⇄ IDLE → FREE
 *
 * A connection is suspended before its handler is called: whenever the handler answers, on whatever
 * thread, the reply is stored and the connection resumed, and the loop comes back to
 * request_continue. libmicrohttpd does not touch a suspended connection, so a call that is HELD
 * never loses it. `lock` guards the calls' states, the table of connections, `stopping` and
 * the counters, and is held across no handler.
 *
 * At the stop, calls that are HELD are answered 503 here and become `abandoned`: their handlers
 * still have them. The server is released when the last of these has been answered too.
 *
 * libmicrohttpd's own limit of time counts since the last byte: a client could send one now and
 * then for ever. So every connection has the end of its request's or reply's time here, and a
 * second thread ends what takes too long. A connection is ended by a shutdown of its socket: the
 * library then closes it as if the client had gone. It polls level-triggered: its use of epoll
 * misses the end of a connection that comes together with data. */
#include "common/http/http_server.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <microhttpd.h>

#include "common/base/mem.h"
#include "common/http/http_host.h"
#include "common/http/http_socket.h"
#include "common/os/os.h"

#define SWEEP_NS     (1 * CLK_S)
#define LAST_NS      (1 * CLK_S) /* at the stop, for replies that are under way */
#define POOL_BYTES   (16u << 10) /* of a connection: its request's line and headers */
#define STREAM_BLOCK (32u << 10)
#define HEADER_PLAIN "text/plain; charset=utf-8"
#define BUSY         "busy or stopping: ask again\n"

enum call_state {
    CALL_FREE,
    CALL_READING,
    CALL_HELD,
    CALL_MAKING,
    CALL_ANSWERED,
    CALL_STREAM,
    CALL_IDLE
};

/* BUSY: its request is with a handler, or a stream is under way. */
enum conn_phase { CONN_WAITING, CONN_BUSY, CONN_REPLYING };

struct conn {
    bool used, ended;
    enum conn_phase phase;
    intptr_t fd;
    int64_t until_ns; /* its request or reply has time, monotonic */
    uint64_t number;  /* the order of beginning to wait */
    char address[HTTP_SERVER_ADDRESS];
};

struct http_server_call {
    struct http_server *server;
    enum call_state state; /* guarded by the server's lock, as are the next two */
    bool woken, abandoned;
    struct MHD_Connection *mhd;
    struct conn *conn;
    const struct http_server_route *route;
    struct MHD_Response *reply; /* ANSWERED; NULL: there was no memory for one */
    unsigned status;
    struct http_server_stream stream;
    struct buf body;
    char address[HTTP_SERVER_ADDRESS];
    char path[HTTP_SERVER_TARGET_MAX];
};

struct http_server {
    struct http_server_conf conf;
    struct http_host host;
    struct MHD_Daemon *daemon;
    struct os_thread *sweeper;
    unsigned port;
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *change;
    bool stopping, stopped;
    size_t abandoned;
    uint64_t waits; /* so far */
    size_t n_conns; /* twice as many as may be: with those on their way out */
    struct conn *conns;
    struct http_server_stats stats;
    size_t n_calls;
    struct http_server_call *calls;
};

/* What a request that has no call carries from one callback to the next. */
static char refused_mark;

/* -- connections -- */

/* The lock is held, as below. */
static void conn_end(struct conn *c)
{
    c->ended = true;
    http_socket_end(c->fd);
}

static void conn_phase(struct http_server *h, struct conn *c, enum conn_phase phase,
                       int64_t span_ns)
{
    c->phase = phase;
    c->until_ns = os_mono_ns() + span_ns;
    if (phase == CONN_WAITING) {
        c->number = h->waits++;
    }
}

/* Of those that wait the one that does so longest, or NULL; n: how many there are in all. NULL as
 * the address: of any. */
static struct conn *conn_oldest(struct http_server *h, const char *address, unsigned *n)
{
    struct conn *oldest = NULL;

    *n = 0;
    for (size_t i = 0; i < h->n_conns; i++) {
        struct conn *c = &h->conns[i];

        if (!c->used || c->ended || (address && strcmp(c->address, address) != 0)) {
            continue;
        }
        *n += 1;
        if (c->phase == CONN_WAITING && (!oldest || c->number < oldest->number)) {
            oldest = c;
        }
    }
    return oldest;
}

/* For a new connection when there are too many, the oldest that waits goes: it may be the new one
 * itself. */
static void conn_make_room(struct http_server *h, const struct conn *newest)
{
    unsigned n;
    struct conn *oldest = conn_oldest(h, newest->address, &n);

    if (oldest && h->conf.per_address && n > h->conf.per_address) {
        conn_end(oldest);
    }
    oldest = conn_oldest(h, NULL, &n);
    if (oldest && n > h->conf.connections) {
        conn_end(oldest);
    }
}

static void conn_came(struct http_server *h, struct MHD_Connection *mhd, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct conn *c = NULL;

    for (size_t i = 0; i < h->n_conns && !c; i++) {
        c = h->conns[i].used ? NULL : &h->conns[i];
    }
    assert(c); /* the library's limit is n_conns */
    *c = (struct conn){.used = true, .fd = (intptr_t)info->connect_fd};
    http_socket_address(c->address, sizeof c->address, peer ? peer->client_addr : NULL);
    conn_phase(h, c, CONN_WAITING, HTTP_SERVER_PATIENCE_NS);
    *context = c;
    conn_make_room(h, c);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *h = cls;
    struct conn *c = *context;

    os_mutex_lock(h->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        conn_came(h, mhd, context);
    } else if (c) {
        assert(c->used);
        c->used = false; /* its socket is closed after this */
    }
    os_mutex_unlock(h->lock);
}

static struct conn *conn_of(struct MHD_Connection *mhd)
{
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* A request or a reply begins, or is with its handler. */
static void conn_begin(struct http_server *h, struct conn *c, enum conn_phase phase,
                       int64_t span_ns)
{
    os_mutex_lock(h->lock);
    conn_phase(h, c, phase, span_ns);
    os_mutex_unlock(h->lock);
}

/* Ends what takes too long. The lock is held. */
static void conn_sweep(struct http_server *h, int64_t now_ns)
{
    for (size_t i = 0; i < h->n_conns; i++) {
        struct conn *c = &h->conns[i];

        if (c->used && !c->ended && c->phase != CONN_BUSY && now_ns > c->until_ns) {
            conn_end(c);
        }
    }
}

/* -- replies -- */

static bool reply_header(struct MHD_Response *r, const char *name, const char *value)
{
    return MHD_add_response_header(r, name, value) == MHD_YES;
}

static bool reply_list(struct MHD_Response *r, const struct http_server_pair *headers, size_t n)
{
    bool ok = true;

    for (size_t i = 0; ok && i < n; i++) {
        ok = reply_header(r, headers[i].name, headers[i].value);
    }
    return ok;
}

/* close: the connection ends after it. */
static bool reply_headers(const struct http_server *h, struct MHD_Response *r,
                          const struct http_server_reply *reply, bool close)
{
    return (!reply->type || reply_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type)) &&
           reply_header(r, MHD_HTTP_HEADER_CACHE_CONTROL,
                        reply->cache ? reply->cache : "no-store") &&
           reply_list(r, h->conf.headers, h->conf.n_headers) &&
           reply_list(r, reply->headers, reply->n_headers) &&
           (!close || reply_header(r, MHD_HTTP_HEADER_CONNECTION, "close"));
}

/* Moves `r`, and gives it back, or NULL without memory. */
static struct MHD_Response *reply_finish(const struct http_server *h, struct MHD_Response *r,
                                         const struct http_server_reply *reply, bool close)
{
    if (r && !reply_headers(h, r, reply, close)) {
        MHD_destroy_response(r);
        return NULL;
    }
    return r;
}

static struct MHD_Response *reply_copied(struct str text)
{
    return MHD_create_response_from_buffer(text.n, (void *)(uintptr_t)text.p,
                                           MHD_RESPMEM_MUST_COPY);
}

static struct MHD_Response *reply_moved(struct buf *b)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer_with_free_callback_cls(b->n, b->p, mem_free, b->p);

    if (r) {
        buf_init(b, b->max);
    } else {
        buf_fini(b);
    }
    return r;
}

/* What this file answers of itself, NULL without memory. allow: of methods, or NULL. */
static struct MHD_Response *reply_own(const struct http_server *h, const char *text,
                                      const char *allow, bool close)
{
    const struct http_server_pair header = {MHD_HTTP_HEADER_ALLOW, allow};
    const struct http_server_reply reply = {
        .type = HEADER_PLAIN, .headers = &header, .n_headers = allow ? 1 : 0};

    return reply_finish(h, reply_copied((struct str){text, strlen(text)}), &reply,
                        close || !h->conf.keep_alive);
}

static enum MHD_Result refuse_with(struct http_server *h, struct MHD_Connection *mhd,
                                   unsigned status, struct MHD_Response *r)
{
    enum MHD_Result result = MHD_NO; /* closes */

    os_mutex_lock(h->lock);
    h->stats.refused++;
    os_mutex_unlock(h->lock);
    if (r) {
        result = MHD_queue_response(mhd, status, r);
        MHD_destroy_response(r);
    }
    return result;
}

static enum MHD_Result refuse(struct http_server *h, struct MHD_Connection *mhd, unsigned status,
                              const char *text, const char *allow)
{
    return refuse_with(h, mhd, status, reply_own(h, text, allow, false));
}

/* -- streams -- */

/* Whether there was none and the connection sleeps now. */
static bool stream_sleep(struct http_server_call *call)
{
    struct http_server *h = call->server;
    bool sleeps;

    os_mutex_lock(h->lock);
    assert(call->state == CALL_STREAM);
    sleeps = !call->woken && !h->stopping;
    if (sleeps) {
        call->state = CALL_IDLE;
        MHD_suspend_connection(call->mhd);
    }
    os_mutex_unlock(h->lock);
    return sleeps;
}

static ssize_t stream_read(void *cls, uint64_t at, char *p, size_t n)
{
    struct http_server_call *call = cls;
    enum err e = ERR_OK;
    size_t got = 0;

    (void)at;
    for (;;) {
        bool stopping;

        os_mutex_lock(call->server->lock);
        call->woken = false;
        stopping = call->server->stopping;
        os_mutex_unlock(call->server->lock);
        if (stopping) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        e = call->stream.read(call->stream.ctx, p, n, &got);
        if (e) {
            return e == ERR_CLOSED ? MHD_CONTENT_READER_END_OF_STREAM
                                   : MHD_CONTENT_READER_END_WITH_ERROR;
        }
        if (got > 0) {
            return (ssize_t)got;
        }
        if (stream_sleep(call)) {
            return 0;
        }
    }
}

void http_server_wake(struct http_server_call *call)
{
    struct http_server *h = call->server;

    os_mutex_lock(h->lock);
    call->woken = true;
    if (call->state == CALL_IDLE) {
        call->state = CALL_STREAM;
        MHD_resume_connection(call->mhd);
    }
    os_mutex_unlock(h->lock);
}

/* -- calls -- */

static void call_free(struct http_server_call *call)
{
    struct http_server *h = call->server;
    struct http_server_stream stream = call->stream;

    if (call->reply) {
        MHD_destroy_response(call->reply);
    }
    buf_fini(&call->body);
    os_mutex_lock(h->lock);
    assert(call->state != CALL_FREE && call->state != CALL_HELD && call->state != CALL_IDLE);
    call->reply = NULL;
    call->stream = (struct http_server_stream){NULL, NULL, NULL};
    call->state = CALL_FREE;
    os_cond_wake_all(h->change);
    os_mutex_unlock(h->lock);
    if (stream.close) {
        stream.close(stream.ctx);
    }
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct http_server *h = cls;

    (void)code;
    if (*context && *context != &refused_mark) {
        call_free(*context);
    }
    *context = NULL;
    conn_begin(h, conn_of(mhd), CONN_WAITING, HTTP_SERVER_IDLE_NS);
    if (h->conf.keep_alive) {
        (void)MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                                        (unsigned)(HTTP_SERVER_IDLE_NS / CLK_S));
    }
}

/* Hands the call over. */
static enum MHD_Result call_hand_over(struct http_server_call *call)
{
    struct http_server *h = call->server;
    bool stopping;

    os_mutex_lock(h->lock);
    assert(call->state == CALL_READING);
    stopping = h->stopping; /* then nobody would resume it */
    if (!stopping) {
        call->state = CALL_HELD;
        conn_phase(h, call->conn, CONN_BUSY, 0);
        MHD_suspend_connection(call->mhd);
    }
    os_mutex_unlock(h->lock);
    if (stopping) {
        return refuse(h, call->mhd, MHD_HTTP_SERVICE_UNAVAILABLE, BUSY, NULL);
    }
    call->route->handle(h->conf.ctx, call);
    return MHD_YES;
}

static enum MHD_Result call_reply(struct http_server_call *call)
{
    enum MHD_Result result = MHD_NO; /* closes */

    conn_begin(call->server, call->conn, call->stream.read ? CONN_BUSY : CONN_REPLYING,
               call->server->conf.keep_alive ? HTTP_SERVER_REPLY_NS : HTTP_SERVER_PATIENCE_NS);
    if (call->stream.read) {
        os_mutex_lock(call->server->lock);
        call->state = CALL_STREAM;
        os_mutex_unlock(call->server->lock);
    }
    if (call->server->conf.keep_alive) {
        (void)MHD_set_connection_option(call->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                                        (unsigned)(HTTP_SERVER_STALL_NS / CLK_S));
    }
    if (call->reply) {
        result = MHD_queue_response(call->mhd, call->status, call->reply);
    }
    return result;
}

static enum MHD_Result call_read(struct http_server_call *call, const char *p, size_t *n)
{
    buf_put(&call->body, p, *n);
    if (call->body.bad == ERR_NOMEM) {
        return MHD_NO;
    }
    *n = 0; /* what is over the bound is answered when it has all come */
    return MHD_YES;
}

static enum MHD_Result request_continue(struct http_server_call *call, const char *p, size_t *n)
{
    enum call_state state;

    os_mutex_lock(call->server->lock);
    state = call->state;
    os_mutex_unlock(call->server->lock);
    if (state == CALL_ANSWERED) {
        return call_reply(call);
    }
    if (state != CALL_READING) {
        *n = 0; /* a body that nobody reads */
        return MHD_YES;
    }
    if (*n > 0) {
        return call_read(call, p, n);
    }
    if (call->body.bad) {
        return refuse(call->server, call->mhd, MHD_HTTP_CONTENT_TOO_LARGE,
                      "the body is longer than is taken here\n", NULL);
    }
    return call_hand_over(call);
}

/* -- requests that begin -- */

static bool path_fits(const struct http_server_route *r, const char *path)
{
    size_t n = strlen(r->path);

    return r->path[n - 1] == '/' ? strncmp(r->path, path, n) == 0 : strcmp(r->path, path) == 0;
}

/* The route, or NULL, and in `allow` the methods of those that have the path; "" = none has. */
static const struct http_server_route *route_find(const struct http_server *h, const char *method,
                                                  const char *path, char *allow, size_t size)
{
    allow[0] = '\0';
    for (size_t i = 0; i < h->conf.n_routes; i++) {
        const struct http_server_route *r = &h->conf.routes[i];

        if (!path_fits(r, path)) {
            continue;
        }
        if (strcmp(r->method, method) == 0) {
            return r;
        }
        if (!strstr(allow, r->method)) {
            size_t n = strlen(allow);

            (void)snprintf(allow + n, size - n, "%s%s", n > 0 ? ", " : "", r->method);
        }
    }
    return NULL;
}

/* What could be read in two ways, or is for others. */
struct head {
    const struct http_host *ours;
    unsigned headers, hosts, lengths;
    bool others, encoded;
};

static enum MHD_Result head_look(void *cls, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
    struct head *head = cls;

    (void)kind;
    head->headers++;
    if (http_host_same(key, MHD_HTTP_HEADER_HOST)) {
        head->hosts++;
        head->others = head->others || !value || !http_host_is_ours(head->ours, value);
    }
    head->lengths += http_host_same(key, MHD_HTTP_HEADER_CONTENT_LENGTH);
    head->encoded = head->encoded || http_host_same(key, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    return MHD_YES;
}

/* NULL: it may be read on. */
static const char *head_wrong(const struct head *head, const char *version, unsigned *status)
{
    *status = MHD_HTTP_BAD_REQUEST;
    if (head->hosts > 1 || (head->hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_0) != 0)) {
        return "a request has one Host\n";
    }
    if (head->lengths > 1 || head->encoded) {
        return "a body has one Content-Length, and no Transfer-Encoding\n";
    }
    if (head->headers > HTTP_SERVER_HEADERS) {
        *status = MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
        return "too many headers\n";
    }
    if (head->others) {
        *status = MHD_HTTP_MISDIRECTED_REQUEST;
        return "ask for localhost, or set the name in use: http.names, console.names\n";
    }
    return NULL;
}

/* A free call, taken; NULL: there is none, or the server stops. */
static struct http_server_call *call_take(struct http_server *h)
{
    struct http_server_call *call = NULL;

    os_mutex_lock(h->lock);
    for (size_t i = 0; !h->stopping && i < h->n_calls && !call; i++) {
        call = h->calls[i].state == CALL_FREE ? &h->calls[i] : NULL;
    }
    if (call) {
        call->state = CALL_READING;
    }
    os_mutex_unlock(h->lock);
    return call;
}

static bool has_body(struct MHD_Connection *mhd)
{
    const char *length =
        MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return length && strcmp(length, "0") != 0;
}

static enum MHD_Result request_begin(struct http_server *h, struct MHD_Connection *mhd,
                                     const char *path, const char *method, const char *version,
                                     void **context)
{
    const struct http_server_route *route;
    struct head head = {.ours = &h->host};
    struct http_server_call *call;
    const char *wrong;
    unsigned status;
    char allow[64];

    *context = &refused_mark;
    MHD_get_connection_values(mhd, MHD_HEADER_KIND, head_look, &head);
    wrong = head_wrong(&head, version, &status);
    if (wrong) {
        return refuse_with(h, mhd, status, reply_own(h, wrong, NULL, true));
    }
    if (path[0] != '/') {
        return refuse(h, mhd, MHD_HTTP_BAD_REQUEST, "a path begins with '/'\n", NULL);
    }
    if (strlen(path) >= HTTP_SERVER_TARGET_MAX) {
        return refuse(h, mhd, MHD_HTTP_URI_TOO_LONG, "the path is too long\n", NULL);
    }
    route = route_find(h, method, path, allow, sizeof allow);
    if (!route) {
        return allow[0] ? refuse(h, mhd, MHD_HTTP_METHOD_NOT_ALLOWED,
                                 "another method is asked for here: see Allow\n", allow)
                        : refuse(h, mhd, MHD_HTTP_NOT_FOUND, "there is nothing here\n", NULL);
    }
    call = call_take(h);
    if (!call) {
        return refuse(h, mhd, MHD_HTTP_SERVICE_UNAVAILABLE, BUSY, NULL);
    }
    call->mhd = mhd;
    call->conn = conn_of(mhd);
    call->route = route;
    memcpy(call->address, call->conn->address, sizeof call->address);
    buf_init(&call->body, route->body_max);
    memcpy(call->path, path, strlen(path) + 1);
    *context = call;
    /* A response before a body ends the connection; else it waits for the request's end. */
    return route->body_max == 0 && has_body(mhd) ? call_hand_over(call) : MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *p, size_t *n,
                                  void **context)
{
    struct http_server *h = cls;

    if (!*context) {
        os_mutex_lock(h->lock);
        h->stats.requests++;
        os_mutex_unlock(h->lock);
        return request_begin(h, mhd, path, method, version, context);
    }
    if (*context == &refused_mark) {
        *n = 0;
        return MHD_YES;
    }
    return request_continue(*context, p, n);
}

/* Paths and parameters stay as they were sent. */
static size_t unescape_nothing(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text);
}

/* -- what handlers call -- */

const char *http_server_path(const struct http_server_call *call)
{
    return call->path;
}

const char *http_server_address(const struct http_server_call *call)
{
    return call->address;
}

const char *http_server_header(const struct http_server_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->mhd, MHD_HEADER_KIND, name);
}

struct str http_server_body(const struct http_server_call *call)
{
    return (struct str){(const char *)call->body.p, call->body.n};
}

struct params {
    struct http_server_param *out;
    size_t n, max;
};

static enum MHD_Result param_put(void *cls, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
    struct params *params = cls;

    (void)kind;
    if (params->n < params->max) {
        params->out[params->n] = (struct http_server_param){key, value};
    }
    params->n++;
    return MHD_YES;
}

size_t http_server_params(const struct http_server_call *call, struct http_server_param *out,
                          size_t max)
{
    struct params params = {.out = out, .max = max};

    MHD_get_connection_values(call->mhd, MHD_GET_ARGUMENT_KIND, param_put, &params);
    return params.n;
}

static void server_free(struct http_server *h)
{
    os_cond_destroy(h->change);
    os_mutex_destroy(h->lock);
    mem_free(h->conns);
    mem_free(h->calls);
    mem_free(h);
}

/* Takes the call from its handler; false: it was abandoned, and is gone. */
static bool call_take_back(struct http_server_call *call)
{
    struct http_server *h = call->server;
    bool abandoned, last;

    os_mutex_lock(h->lock);
    abandoned = call->abandoned;
    assert(abandoned || call->state == CALL_HELD);
    if (abandoned) {
        call->abandoned = false;
        h->abandoned--;
    } else {
        call->state = CALL_MAKING;
    }
    last = abandoned && h->stopped && h->abandoned == 0;
    os_mutex_unlock(h->lock);
    if (last) {
        server_free(h);
    }
    return !abandoned;
}

/* What an answer brings along and nobody takes. */
static void reply_drop(const struct http_server_reply *reply)
{
    if (reply->moved) {
        buf_fini(reply->moved);
    }
    if (reply->stream) {
        reply->stream->close(reply->stream->ctx);
    }
}

static struct MHD_Response *reply_make(struct http_server_call *call,
                                       const struct http_server_reply *reply)
{
    struct MHD_Response *r;

    if (reply->stream) {
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read, call,
                                              NULL);
    } else {
        r = reply->moved ? reply_moved(reply->moved) : reply_copied(reply->text);
    }
    return reply_finish(call->server, r, reply, !call->server->conf.keep_alive);
}

void http_server_answer(struct http_server_call *call, const struct http_server_reply *reply)
{
    struct http_server *h = call->server;
    struct MHD_Response *r;

    if (!call_take_back(call)) {
        reply_drop(reply);
        return;
    }
    r = reply_make(call, reply);
    os_mutex_lock(h->lock);
    if (reply->stream) {
        call->stream = *reply->stream;
    }
    call->reply = r;
    call->status = reply->status;
    call->state = CALL_ANSWERED;
    MHD_resume_connection(call->mhd);
    os_cond_wake_all(h->change); /* http_server_stop may wait for it */
    os_mutex_unlock(h->lock);
}

void http_server_answer_text(struct http_server_call *call, unsigned status, const char *text)
{
    const struct http_server_reply reply = {
        .status = status, .type = HEADER_PLAIN, .text = {text, strlen(text)}};

    http_server_answer(call, &reply);
}

/* -- start and stop -- */

static void sweep(void *arg)
{
    struct http_server *h = arg;

    os_mutex_lock(h->lock);
    while (!h->stopping) {
        err_ignore(os_cond_wait_until(h->change, os_mono_ns() + SWEEP_NS));
        conn_sweep(h, os_mono_ns());
    }
    os_mutex_unlock(h->lock);
}

static enum err daemon_start(struct http_server *h, intptr_t fd)
{
    const bool poll = MHD_is_feature_supported(MHD_FEATURE_POLL) == MHD_YES;
    const unsigned flags =
        MHD_ALLOW_SUSPEND_RESUME | MHD_USE_INTERNAL_POLLING_THREAD | (poll ? MHD_USE_POLL : 0u);

    h->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, (MHD_socket)fd,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->n_conns,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(HTTP_SERVER_PATIENCE_NS / CLK_S), MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_UNESCAPE_CALLBACK,
        unescape_nothing, NULL, MHD_OPTION_END);
    return h->daemon ? ERR_OK : ERR_NOMEM;
}

static enum err server_make(struct http_server *h, const struct http_server_conf *conf)
{
    enum err e;

    h->conf = *conf;
    h->conf.address = NULL;
    h->conf.connections = conf->connections ? conf->connections : HTTP_SERVER_CONNS;
    h->n_conns = (size_t)2 * h->conf.connections;
    h->n_calls = conf->calls ? conf->calls : HTTP_SERVER_CALLS;
    h->conns = mem_array(h->n_conns, sizeof *h->conns);
    h->calls = mem_array(h->n_calls, sizeof *h->calls);
    if (!h->conns || !h->calls) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < h->n_calls; i++) {
        h->calls[i].server = h;
    }
    http_host_init(&h->host, conf->address, conf->names, conf->n_names);
    e = os_mutex_create(&h->lock);
    return e ? e : os_cond_create(&h->change, h->lock);
}

enum err http_server_start(struct http_server **out, const struct http_server_conf *conf,
                           struct errmsg *why)
{
    struct http_server *h = mem_zalloc(sizeof *h);
    intptr_t fd = -1;
    enum err e;

    if (!h) {
        return ERR_NOMEM;
    }
    e = server_make(h, conf);
    if (!e) {
        e = os_thread_start(&h->sweeper, "http-sweeper", sweep, h);
    }
    if (!e) {
        e = http_socket_listen(&fd, &h->port, conf->address, why);
    }
    if (!e) {
        e = daemon_start(h, fd); /* closes it, also on most failures: never close it twice */
    }
    if (e) {
        http_server_stop(h);
        return e;
    }
    *out = h;
    return ERR_OK;
}

/* Its handler may take its time: who asked is told to come again. The lock is held. */
static void call_abandon(struct http_server_call *call)
{
    struct http_server *h = call->server;

    call->abandoned = true;
    h->abandoned++;
    call->reply = reply_own(h, "stopping: ask again\n", NULL, true);
    call->status = MHD_HTTP_SERVICE_UNAVAILABLE;
    call->state = CALL_ANSWERED;
    MHD_resume_connection(call->mhd);
}

/* From here on no call is taken; streams that sleep come to their end. */
static void calls_stop(struct http_server *h)
{
    os_mutex_lock(h->lock);
    h->stopping = true;
    os_cond_wake_all(h->change);
    for (size_t i = 0; i < h->n_calls; i++) {
        struct http_server_call *call = &h->calls[i];

        if (call->state == CALL_IDLE) {
            call->state = CALL_STREAM;
            MHD_resume_connection(call->mhd);
        } else if (call->state == CALL_HELD) {
            call_abandon(call);
        }
    }
    os_mutex_unlock(h->lock);
}

/* Calls in one of these two states. The lock is held. */
static bool calls_are(const struct http_server *h, enum call_state a, enum call_state b)
{
    for (size_t i = 0; i < h->n_calls; i++) {
        if (h->calls[i].state == a || h->calls[i].state == b) {
            return true;
        }
    }
    return false;
}

/* Replies that are made now are waited for; what is made is given a moment to go out. */
static void calls_last(struct http_server *h)
{
    int64_t end_ns = os_mono_ns() + LAST_NS;

    os_mutex_lock(h->lock);
    while (calls_are(h, CALL_MAKING, CALL_MAKING)) {
        os_cond_wait(h->change);
    }
    while (calls_are(h, CALL_ANSWERED, CALL_STREAM) &&
           os_cond_wait_until(h->change, end_ns) != ERR_TIMEOUT) {
    }
    os_mutex_unlock(h->lock);
}

void http_server_stop(struct http_server *h)
{
    bool last;

    if (!h) {
        return;
    }
    if (h->sweeper) {
        calls_stop(h);
        os_thread_join(h->sweeper);
    }
    if (h->daemon) {
        calls_last(h);
        MHD_stop_daemon(h->daemon);
    }
    if (!h->change) {
        server_free(h);
        return;
    }
    os_mutex_lock(h->lock);
    h->stopped = true;
    last = h->abandoned == 0;
    os_mutex_unlock(h->lock);
    if (last) {
        server_free(h);
    }
}

unsigned http_server_port(const struct http_server *h)
{
    return h->port;
}

void http_server_stats(struct http_server *h, struct http_server_stats *out)
{
    os_mutex_lock(h->lock);
    *out = h->stats;
    os_mutex_unlock(h->lock);
}
