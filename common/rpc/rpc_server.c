/* NNG's thread reads the frame's header and puts the call into a bounded queue; a worker checks
 * deadline, method and role, undoes the payload's encoding and runs the handler, which answers when
 * it likes. Whatever cannot be served is answered at once with a status, on the thread that saw it.
 * No holder of a certificate can fill the queue alone, and calls of those served less come first.
 *
 * `lock` guards the queue, `stopping` and `refs`, and the workers' deadlines are set under it: a
 * call that is taken while the server stops cannot miss that. It is held across no call to anybody.
 * The server's memory lives until its owner has stopped it and the last call was answered. */

#include "common/rpc/rpc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/deadline.h"
#include "common/os/os.h"
#include "common/wire/wire_rpc.h"
#include "proto/query.pb-c.h"
#include "proto/rpc.pb-c.h"

#define WORKERS_MAX  16u
#define REPLY_MAX    (4u << 20) /* payload bytes */
#define BUSY_WAIT_MS 250u       /* what a caller is asked to wait when the queue is full */
#define STOPPING     "the server is stopping"

struct rpc_call {
    struct rpc_server *server;
    struct net_request *request;
    const struct rpc_method *method; /* NULL until it is found */
    int64_t deadline_ns;
    const struct deadline *deadline; /* the worker's */
    struct frame_request header;
    const uint8_t *payload; /* of the request, or raw */
    size_t payload_n;
    struct buf raw;
    struct rpc_call *next; /* in the queue, */
    int64_t queued_ns;     /* since then (monotonic) */
};

/* Whose call it is: a host with all its certificates, or another's certificate. */
struct holder {
    bool is_host;
    uint8_t id[32];
};

struct worker {
    struct rpc_server *server;
    struct os_thread *thread;
    struct deadline deadline; /* of its call; set under the server's lock */
    struct holder last;       /* whom it served last; likewise */
};

struct rpc_server {
    struct rpc_server_conf conf; /* what it points to is not kept, */
    struct rpc_method *methods;  /* but these are */
    char name[32];               /* of the listener */
    uint64_t epoch;
    struct net_server *net;
    struct worker workers[WORKERS_MAX];
    unsigned n_workers;
    struct os_mutex *lock;
    struct os_cond *work;
    bool stopping;
    unsigned refs;
    unsigned waiting;
    struct rpc_call *head, *tail;
};

/* -- life of the server's memory -- */

static void server_free(struct rpc_server *s)
{
    os_cond_destroy(s->work);
    os_mutex_destroy(s->lock);
    mem_free(s->methods);
    mem_free(s);
}

static void drop_ref(struct rpc_server *s)
{
    bool last;

    os_mutex_lock(s->lock);
    s->refs--;
    last = s->refs == 0;
    os_mutex_unlock(s->lock);
    if (last) {
        server_free(s);
    }
}

static void call_free(struct rpc_call *c)
{
    struct rpc_server *s = c->server;

    buf_fini(&c->raw);
    mem_free(c);
    drop_ref(s);
}

static bool is_stopping(struct rpc_server *s)
{
    bool stopping;

    os_mutex_lock(s->lock);
    stopping = s->stopping;
    os_mutex_unlock(s->lock);
    return stopping;
}

/* -- answers -- */

static void send_reply(struct rpc_call *c, struct frame_reply *h, const void *payload, size_t n)
{
    struct buf out;

    memcpy(h->call_id, c->header.call_id, sizeof h->call_id);
    h->epoch = c->server->epoch;
    buf_init(&out, REPLY_MAX + FRAME_HEADER_MAX + 16);
    if (frame_put_reply(&out, h, payload, n) == ERR_OK) {
        net_server_reply(c->request, out.p, out.n);
    } else {
        net_server_drop(c->request); /* the caller's deadline ends it */
    }
    buf_fini(&out);
    call_free(c);
}

void rpc_answer(struct rpc_call *c, const void *payload, size_t n, const struct rpc_answer_opt *opt)
{
    struct frame_reply h = {.code = RPC_OK};

    if (n > REPLY_MAX) {
        rpc_fail(c, RPC_OUT_OF_RANGE, 0,
                 "the answer would have %zu bytes, %u are allowed: ask for less", n, REPLY_MAX);
        return;
    }
    if (opt) {
        assert(opt->cursor_n <= sizeof h.cursor);
        h.more = opt->more;
        h.cursor_n = (uint8_t)opt->cursor_n;
        if (opt->cursor_n > 0) {
            memcpy(h.cursor, opt->cursor, opt->cursor_n);
        }
    }
    send_reply(c, &h, payload, n);
}

void rpc_fail(struct rpc_call *c, enum rpc_code code, uint32_t retry_after_ms, const char *fmt, ...)
{
    struct frame_reply h = {.code = code, .retry_after_ms = retry_after_ms};
    va_list args;

    assert(code != RPC_OK);
    va_start(args, fmt);
    vsnprintf(h.message, sizeof h.message, fmt, args);
    va_end(args);
    if (code == RPC_DEADLINE_EXCEEDED && is_stopping(c->server)) {
        h.code = RPC_UNAVAILABLE;
        (void)snprintf(h.message, sizeof h.message, "%s", STOPPING);
    }
    send_reply(c, &h, NULL, 0);
}

void rpc_fail_detail(struct rpc_call *c, enum rpc_code code, uint32_t retry_after_ms,
                     const char *key, const char *value, const char *fmt, ...)
{
    struct frame_reply h = {.code = code, .retry_after_ms = retry_after_ms, .n_details = 1};
    va_list args;

    assert(code != RPC_OK);
    (void)snprintf(h.details[0].key, sizeof h.details[0].key, "%s", key);
    (void)snprintf(h.details[0].value, sizeof h.details[0].value, "%s", value);
    va_start(args, fmt);
    vsnprintf(h.message, sizeof h.message, fmt, args);
    va_end(args);
    send_reply(c, &h, NULL, 0);
}

/* -- what a handler sees -- */

const uint8_t *rpc_call_payload(const struct rpc_call *c, size_t *n)
{
    *n = c->payload_n;
    return c->payload;
}

const struct net_identity *rpc_call_peer(const struct rpc_call *c)
{
    return net_server_peer(c->request);
}

int64_t rpc_call_deadline_ns(const struct rpc_call *c)
{
    return c->deadline_ns;
}

const struct deadline *rpc_call_deadline(const struct rpc_call *c)
{
    return c->deadline;
}

/* -- workers -- */

static void log_peer(const struct rpc_call *c, const char *event, const char *reason)
{
    const struct net_identity *who = rpc_call_peer(c);
    char name[80], words[128], method[128];

    log_line(LOG_WARN, c->server->name, event, "listener=%s peer=%s name=%s method=%s reason=%s",
             c->server->name, who->address, log_str(name, sizeof name, who->name),
             log_str(method, sizeof method, c->header.method),
             log_str(words, sizeof words, reason));
}

static const struct rpc_method *find_method(const struct rpc_server *s,
                                            const struct frame_request *h)
{
    for (size_t i = 0; i < s->conf.n_methods; i++) {
        const struct rpc_method *m = &s->methods[i];

        if (h->method[0] ? strcmp(m->name, h->method) == 0
                         : rpc_method_id(m->name) == h->method_id) {
            return m;
        }
    }
    return NULL;
}

/* Makes payload what the handler is to see. */
static enum err decode_payload(struct rpc_call *c)
{
    enum err e;

    if (c->header.encoding == FRAME_RAW || strcmp(c->method->name, RPC_INGEST_PUSH) == 0) {
        return c->payload_n <= c->server->conf.raw_max ? ERR_OK : ERR_FULL;
    }
    if (c->header.encoding != FRAME_ZSTD) {
        return ERR_UNSUPPORTED;
    }
    e = rpc_zstd_decode(&c->raw, c->payload, c->payload_n);
    if (!e) {
        c->payload = c->raw.p;
        c->payload_n = c->raw.n;
    }
    return e;
}

/* Says which roles it takes. */
static void refuse_role(struct rpc_call *c)
{
    static const struct {
        unsigned role;
        const char *name;
    } names[] = {{NET_AGENT, "agent"},
                 {NET_QUERY, "query"},
                 {NET_SUBSCRIBE, "subscribe"},
                 {NET_ADMIN, "admin"},
                 {NET_MARK, "mark"}};
    char roles[64] = "";
    size_t n = 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (c->method->roles & names[i].role) {
            n += (size_t)snprintf(roles + n, sizeof roles - n, "%s%s", n > 0 ? " or " : "",
                                  names[i].name);
        }
    }
    rpc_fail(c, RPC_PERMISSION_DENIED, 0,
             "a certificate of this role may not call it: use one of another role (%s)", roles);
}

static void serve(struct rpc_call *c)
{
    enum err e;

    if (os_mono_ns() >= c->deadline_ns) {
        rpc_fail(c, RPC_DEADLINE_EXCEEDED, 0, "the request waited longer than its caller does");
        return;
    }
    c->method = find_method(c->server, &c->header);
    if (!c->method) {
        log_peer(c, "refused", "unknown method");
        rpc_fail(c, RPC_UNIMPLEMENTED, 0, "no such method on this listener");
        return;
    }
    if (!c->server->conf.net.strangers && !(rpc_call_peer(c)->roles & c->method->roles)) {
        log_peer(c, "denied", "wrong role");
        refuse_role(c);
        return;
    }
    e = decode_payload(c);
    if (e == ERR_NOMEM) {
        rpc_fail(c, RPC_RESOURCE_EXHAUSTED, BUSY_WAIT_MS, "out of memory");
    } else if (e) {
        log_peer(c, "refused", e == ERR_FULL ? "payload too large" : "payload encoding");
        rpc_fail(c, RPC_INVALID_ARGUMENT, 0,
                 e == ERR_FULL ? "the payload has more than %zu bytes"
                               : "the payload's encoding is not understood (limit %zu bytes)",
                 c->server->conf.raw_max);
    } else {
        c->method->handle(c->method->ctx, c);
    }
}

static struct holder holder_of(const struct rpc_call *c)
{
    const struct net_identity *who = rpc_call_peer(c);
    struct holder h = {.is_host = who->has_host};

    memcpy(h.id, h.is_host ? who->host.b : who->fingerprint,
           h.is_host ? sizeof who->host.b : sizeof h.id);
    return h;
}

static bool same_holder(const struct holder *a, const struct holder *b)
{
    return a->is_host == b->is_host && memcmp(a->id, b->id, sizeof a->id) == 0;
}

/* How many workers served it last. The lock is held. */
static unsigned served(const struct rpc_server *s, const struct holder *h)
{
    unsigned n = 0;

    for (unsigned i = 0; i < s->conf.workers; i++) {
        n += same_holder(&s->workers[i].last, h);
    }
    return n;
}

/* The call of who was served least of late, of several the first, so that nobody waits for all that
 * another has asked. The lock is held; the queue is not empty. */
static struct rpc_call *queue_next(struct rpc_server *s)
{
    struct rpc_call *c, *before = NULL, *best = s->head, *best_before = NULL;
    struct holder h = holder_of(best);
    unsigned least = served(s, &h);

    for (c = s->head; c && least > 0; before = c, c = c->next) {
        unsigned n;

        h = holder_of(c);
        n = served(s, &h);
        if (n < least) {
            least = n;
            best = c;
            best_before = before;
        }
    }
    if (best_before) {
        best_before->next = best->next;
    } else {
        s->head = best->next;
    }
    s->tail = s->tail == best ? best_before : s->tail;
    s->waiting--;
    return best;
}

/* The next call, or NULL when the server stops. */
static struct rpc_call *take(struct worker *w)
{
    struct rpc_server *s = w->server;
    struct rpc_call *c = NULL;

    os_mutex_lock(s->lock);
    while (!s->head && !s->stopping) {
        os_cond_wait(s->work);
    }
    if (!s->stopping) {
        c = queue_next(s);
        w->last = holder_of(c);
        c->deadline = &w->deadline;
        deadline_set(&w->deadline, c->deadline_ns);
    }
    os_mutex_unlock(s->lock);
    return c;
}

static void work(void *arg)
{
    const struct rpc_server *s = ((const struct worker *)arg)->server;
    struct rpc_call *c;

    if (s->conf.background && os_thread_background()) {
        log_line(LOG_WARN, "rpc", "priority_refused", "listener=%s", s->name);
    }
    while ((c = take(arg)) != NULL) {
        serve(c);
    }
}

/* -- requests coming in -- */

/* Whether the caller has three quarters of the queue already; strangers are nobody in particular.
 * The lock is held. */
static bool has_its_share(const struct rpc_server *s, const struct rpc_call *c)
{
    const struct holder mine = holder_of(c);
    unsigned n = 0, share = s->conf.queue - s->conf.queue / 4;

    if (s->conf.net.strangers || s->waiting < share) {
        return false;
    }
    for (const struct rpc_call *q = s->head; q; q = q->next) {
        const struct holder h = holder_of(q);

        n += same_holder(&h, &mine);
    }
    return n >= share;
}

/* ERR_FULL: too many wait; ERR_CLOSED: the server stops. */
static enum err enqueue(struct rpc_call *c)
{
    struct rpc_server *s = c->server;
    enum err e = ERR_OK;

    os_mutex_lock(s->lock);
    if (s->stopping) {
        e = ERR_CLOSED;
    } else if (s->waiting >= s->conf.queue || has_its_share(s, c)) {
        e = ERR_FULL;
    } else {
        if (s->tail) {
            s->tail->next = c;
        } else {
            s->head = c;
        }
        s->tail = c;
        s->waiting++;
        c->queued_ns = os_mono_ns();
        os_cond_wake(s->work);
    }
    os_mutex_unlock(s->lock);
    return e;
}

static struct rpc_call *call_create(struct rpc_server *s, struct net_request *r)
{
    struct rpc_call *c = mem_zalloc(sizeof *c);

    if (c) {
        c->server = s;
        c->request = r;
        buf_init(&c->raw, s->conf.raw_max);
        os_mutex_lock(s->lock);
        s->refs++;
        os_mutex_unlock(s->lock);
    }
    return c;
}

static void set_deadline(struct rpc_call *c)
{
    int64_t left = c->header.timeout_ms > 0 ? c->header.timeout_ms * CLK_MS
                                            : c->server->conf.default_timeout_ns;

    c->deadline_ns = clk_add(os_mono_ns(), left < RPC_TIMEOUT_MAX_NS ? left : RPC_TIMEOUT_MAX_NS);
}

static void on_request(void *ctx, struct net_request *r)
{
    struct rpc_call *c = call_create(ctx, r);
    const uint8_t *body;
    size_t n;
    enum err e;

    if (!c) {
        net_server_drop(r);
        return;
    }
    body = net_server_body(r, &n);
    e = frame_get_request(&c->header, &c->payload, &c->payload_n, body, n);
    if (e == ERR_VERSION) {
        log_peer(c, "refused", "other frame version");
        rpc_fail(c, RPC_FAILED_PRECONDITION, 0, "frame versions %d to %d are spoken here",
                 FRAME_VERSION, FRAME_VERSION);
        return;
    }
    if (e) {
        log_peer(c, "refused", e == ERR_NOMEM ? err_text(e) : "garbage instead of a frame");
        net_server_drop(r);
        call_free(c);
        return;
    }
    set_deadline(c);
    e = net_server_excess(r) ? ERR_FULL : enqueue(c);
    if (e == ERR_FULL) {
        rpc_fail(c, RPC_RESOURCE_EXHAUSTED, BUSY_WAIT_MS, "too many requests wait");
    } else if (e) {
        rpc_fail(c, RPC_UNAVAILABLE, 0, "%s", STOPPING);
    }
}

/* -- start and stop -- */

static enum err check_conf(const struct rpc_server_conf *conf, struct errmsg *why)
{
    if (conf->workers < 1 || conf->workers > WORKERS_MAX || conf->queue < 1) {
        return errmsg_set(why, ERR_INVALID, "a listener has 1 to %u workers and a queue",
                          WORKERS_MAX);
    }
    for (size_t i = 0; i < conf->n_methods; i++) {
        if (!rpc_method_exists(conf->methods[i].name)) {
            return errmsg_set(why, ERR_INVALID, "no service has a method %s",
                              conf->methods[i].name);
        }
    }
    return ERR_OK;
}

static enum err create(struct rpc_server **out, const struct rpc_server_conf *conf)
{
    struct rpc_server *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    s->refs = 1;
    snprintf(s->name, sizeof s->name, "%s", conf->net.name);
    s->methods = mem_array(conf->n_methods, sizeof *s->methods);
    e = s->methods ? os_random(&s->epoch, sizeof s->epoch) : ERR_NOMEM;
    if (!e) {
        memcpy(s->methods, conf->methods, conf->n_methods * sizeof *s->methods);
        e = os_mutex_create(&s->lock);
    }
    if (!e) {
        e = os_cond_create(&s->work, s->lock);
    }
    if (e) {
        server_free(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

static enum err start_workers(struct rpc_server *s)
{
    while (s->n_workers < s->conf.workers) {
        struct worker *w = &s->workers[s->n_workers];
        enum err e;

        w->server = s;
        e = os_thread_start(&w->thread, s->name, work, w);
        if (e) {
            return e;
        }
        s->n_workers++;
    }
    return ERR_OK;
}

static void on_peer(void *ctx, const struct net_identity *who, bool connected)
{
    struct rpc_server *s = ctx;

    s->conf.on_peer(s->conf.peer_ctx, who, connected);
}

enum err rpc_server_start(struct rpc_server **out, const struct rpc_server_conf *conf,
                          struct errmsg *why)
{
    struct net_server_conf net = conf->net;
    struct rpc_server *s;
    enum err e = check_conf(conf, why);

    if (e) {
        return e;
    }
    e = create(&s, conf);
    if (e) {
        return e;
    }
    e = start_workers(s);
    if (!e) {
        net.on_request = on_request;
        net.on_peer = conf->on_peer ? on_peer : NULL;
        net.ctx = s;
        e = net_server_start(&s->net, &net, why);
    }
    if (e) {
        rpc_server_stop(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void rpc_server_stop(struct rpc_server *s)
{
    struct rpc_call *c;

    if (!s) {
        return;
    }
    os_mutex_lock(s->lock);
    s->stopping = true;
    c = s->head;
    s->head = s->tail = NULL;
    s->waiting = 0;
    for (unsigned i = 0; i < s->n_workers; i++) {
        deadline_end(&s->workers[i].deadline);
    }
    os_cond_wake_all(s->work);
    os_mutex_unlock(s->lock);
    while (c) {
        struct rpc_call *next = c->next;

        rpc_fail(c, RPC_UNAVAILABLE, 0, "%s", STOPPING);
        c = next;
    }
    for (unsigned i = 0; i < s->n_workers; i++) {
        os_thread_join(s->workers[i].thread);
    }
    net_server_stop(s->net);
    drop_ref(s);
}

unsigned rpc_server_port(const struct rpc_server *s)
{
    return net_server_port(s->net);
}

void rpc_server_review(struct rpc_server *s)
{
    net_server_review(s->net);
}

unsigned rpc_server_disconnect(struct rpc_server *s, const char *name)
{
    return net_server_disconnect(s->net, name);
}

void rpc_server_stats(struct rpc_server *s, struct net_server_stats *out)
{
    net_server_stats(s->net, out);
}

int64_t rpc_server_stuck_ns(struct rpc_server *s, int64_t now_ns)
{
    int64_t since_ns, listener_ns = net_server_stuck_ns(s->net, now_ns), waiting_ns;

    os_mutex_lock(s->lock);
    since_ns = s->head ? s->head->queued_ns : now_ns;
    os_mutex_unlock(s->lock);
    waiting_ns = now_ns > since_ns ? now_ns - since_ns : 0;
    return waiting_ns > listener_ns ? waiting_ns : listener_ns;
}

/* -- methods -- */

static const ProtobufCServiceDescriptor *const rpc_services[] = {
    &procfleet__v1__ingest__descriptor, &procfleet__v1__query__descriptor,
    &procfleet__v1__enroll__descriptor, &procfleet__v1__admin__descriptor,
    &procfleet__v1__mark__descriptor,
};

/* "procfleet.v1.Query/Top" names method Top of service procfleet.v1.Query. */
bool rpc_method_exists(const char *name)
{
    const char *slash = strchr(name, '/');

    for (size_t i = 0; slash && i < sizeof rpc_services / sizeof *rpc_services; i++) {
        size_t n = strlen(rpc_services[i]->name);

        if (n == (size_t)(slash - name) && memcmp(rpc_services[i]->name, name, n) == 0) {
            return protobuf_c_service_descriptor_get_method_by_name(rpc_services[i], slash + 1) !=
                   NULL;
        }
    }
    return false;
}
