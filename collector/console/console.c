/* Requests wait in a queue, are taken by threads of their own, and are answered there.
 *
 *   console_ask: page ------------------------------------------> done
 *                API --> queue --> worker: api_run -------------> done
 *                                     \--- updates: poll, waits -> polls' thread: done
 *
 * `lock` guards the queue, what each worker is at, and the counts; nothing is asked or answered
 * under it. A worker takes the first whose identity has fewer than SAME_MAX under work, so that one
 * who asks much is slow for himself only. */
#include "collector/console/console.h"

#include <assert.h>
#include <string.h>
#include <zstd.h>

#include "collector/console/api.h"
#include "collector/console/assets.h"
#include "common/base/clk.h"
#include "common/base/heartbeat.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/deadline.h"
#include "common/os/os.h"

#define WORKERS_MAX 8u
#define SAME_MAX    2u           /* of one identity under work */
#define WORK_NS     (10 * CLK_S) /* for an answer */
#define PACKED_FROM 1024u        /* bytes of a body */
#define PLAIN_MAX   (16u << 20)  /* of a body that is packed */
#define ZSTD_LEVEL  1
#define CROWDED_MS  1000u
#define KEPT_MAX    256u        /* answers kept, */
#define KEPT_BYTES  (16u << 20) /* together */
#define KEPT_NS     (60 * CLK_S)
#define PATHS_MAX   34u /* routes, the page, anything else */
#define MAY_ASK     (NET_QUERY | NET_ADMIN)

static const unsigned codes[] = {200, 304, 400, 401, 403, 404, 406, 429, 500, 503, 504};
#define CODES (sizeof codes / sizeof *codes)

/* An answer that is kept: a series of a range that is sealed whole. Ten people with one link cost
 * one question. The key is scope, question and packing. */
struct console_kept {
    char *key;
    size_t key_n;
    uint64_t generation; /* of what is sealed, when it was asked */
    int64_t until_ns;    /* monotonic */
    bool packed;
    char *body;
    size_t n;
};

struct console_request {
    struct console *console;
    struct net_identity who;
    const struct api_route *route;
    bool packs; /* zstd may be sent */
    void (*done)(void *ctx, const struct wire_web_reply *reply);
    void *ctx;
    struct console_request *next;
    struct api_answer answer;
    struct buf kept; /* the answer in its place */
    bool kept_packed;
    uint64_t generation;
    size_t query_n;
    char query[]; /* as it came */
};

struct console_worker {
    struct console *console;
    struct os_thread *thread;
    struct deadline deadline;
    struct heartbeat work;
    bool busy;               /* guarded by lock, as */
    struct net_identity who; /* it works for */
};

struct console {
    struct console_conf conf;
    struct console_worker workers[WORKERS_MAX];

    struct os_mutex *lock; /* guards what follows */
    struct os_cond *changed;
    bool stopping;
    unsigned waiting;
    struct console_request *first, *last;
    struct console_stats stats;
    uint64_t requests[PATHS_MAX][CODES];

    struct os_mutex *kept_lock; /* guards what follows; none is taken inside */
    size_t n_kept, kept_bytes;
    struct console_kept kept[KEPT_MAX]; /* the oldest first */
};

/* -- numbers -- */

static size_t path_index(const struct api_route *route, bool page)
{
    return route ? (size_t)(route - api_routes) : page ? api_routes_n : api_routes_n + 1;
}

static void count(struct console *c, size_t path, const struct wire_web_reply *reply, bool crowded,
                  bool kept)
{
    size_t code = 0;

    assert(path < PATHS_MAX);
    while (code < CODES && codes[code] != reply->status) {
        code++;
    }
    assert(code < CODES);
    os_mutex_lock(c->lock);
    c->requests[path][code]++;
    c->stats.bytes += reply->body.n;
    c->stats.crowded += crowded;
    c->stats.kept += kept;
    os_mutex_unlock(c->lock);
}

void console_stats(struct console *c, struct console_stats *out)
{
    os_mutex_lock(c->lock);
    *out = c->stats;
    out->waiting = c->waiting;
    os_mutex_unlock(c->lock);
}

bool console_requests(struct console *c, size_t i, const char **path, unsigned *status, uint64_t *n)
{
    bool found = false;

    os_mutex_lock(c->lock);
    for (size_t p = 0; !found && p < api_routes_n + 2; p++) {
        for (size_t k = 0; !found && k < CODES; k++) {
            if (c->requests[p][k] && i-- == 0) {
                *path = p < api_routes_n    ? api_routes[p].name
                        : p == api_routes_n ? "page"
                                            : "other";
                *status = codes[k];
                *n = c->requests[p][k];
                found = true;
            }
        }
    }
    os_mutex_unlock(c->lock);
    return found;
}

int64_t console_stuck_ns(const struct console *c, int64_t now_ns)
{
    int64_t longest = 0;

    for (unsigned i = 0; i < c->conf.workers; i++) {
        int64_t ns = heartbeat_busy_ns(&c->workers[i].work, now_ns);

        longest = ns > longest ? ns : longest;
    }
    return longest;
}

/* -- replies -- */

/* The body as zstd, when that is smaller. Errors: ERR_NOMEM */
static enum err reply_pack(struct wire_web_reply *reply, struct buf *packed)
{
    size_t bound = ZSTD_compressBound(reply->body.n), n;
    uint8_t *to = buf_grow(packed, bound);

    if (!to) {
        return packed->bad;
    }
    n = ZSTD_compress(to, bound, reply->body.p, reply->body.n, ZSTD_LEVEL);
    if (ZSTD_isError(n)) {
        return ERR_NOMEM;
    }
    if (n < reply->body.n) {
        reply->body = (struct str){(const char *)to, n};
        reply->encoding = str_make("zstd");
    }
    return ERR_OK;
}

static void reply_of(struct wire_web_reply *reply, const struct api_answer *x)
{
    *reply = (struct wire_web_reply){
        .status = x->status,
        .type = str_make("application/json"),
        .body = {(const char *)x->body.p, x->body.n},
        .retry_after_s = x->retry_after_s,
    };
}

/* -- answers kept -- */

static void kept_remove(struct console *c, size_t i)
{
    c->kept_bytes -= c->kept[i].n + c->kept[i].key_n;
    mem_free(c->kept[i].key);
    mem_free(c->kept[i].body);
    c->n_kept--;
    memmove(&c->kept[i], &c->kept[i + 1], (c->n_kept - i) * sizeof *c->kept);
}

/* NULL: no memory. */
static char *kept_key(const struct console_request *r, size_t *n)
{
    size_t scope_n = strlen(r->who.scope) + 1;
    char *key = mem_alloc(1 + scope_n + r->query_n);

    *n = 1 + scope_n + r->query_n;
    if (key) {
        key[0] = r->packs ? 'z' : '-';
        memcpy(key + 1, r->who.scope, scope_n);
        memcpy(key + 1 + scope_n, r->query, r->query_n);
    }
    return key;
}

static bool kept_is(const struct console_kept *k, const char *key, size_t n)
{
    return k->key_n == n && memcmp(k->key, key, n) == 0;
}

/* Whether there is one; then it is the request's answer. */
static bool kept_get(struct console *c, struct console_request *r)
{
    int64_t now_ns = os_mono_ns();
    bool found = false;
    size_t n;
    char *key;

    if (r->route->kind != API_QUESTION + QUERY_SERIES) {
        return false;
    }
    r->generation = serve_generation(c->conf.serve);
    key = kept_key(r, &n);
    os_mutex_lock(c->kept_lock);
    for (size_t i = 0; key && !found && i < c->n_kept; i++) {
        const struct console_kept *k = &c->kept[i];

        if (kept_is(k, key, n) && k->generation == r->generation && k->until_ns > now_ns) {
            buf_put(&r->kept, k->body, k->n);
            r->kept_packed = k->packed;
            found = !r->kept.bad;
        }
    }
    os_mutex_unlock(c->kept_lock);
    mem_free(key);
    return found;
}

static void kept_put(struct console *c, const struct console_request *r,
                     const struct wire_web_reply *reply)
{
    struct console_kept k = {.generation = r->generation,
                             .until_ns = os_mono_ns() + KEPT_NS,
                             .packed = reply->encoding.n != 0,
                             .body = mem_dup(reply->body.p, reply->body.n),
                             .n = reply->body.n};

    k.key = kept_key(r, &k.key_n);
    if (!k.key || !k.body) {
        mem_free(k.key);
        mem_free(k.body);
        return;
    }
    os_mutex_lock(c->kept_lock);
    for (size_t i = c->n_kept; i > 0; i--) {
        if (kept_is(&c->kept[i - 1], k.key, k.key_n)) {
            kept_remove(c, i - 1);
        }
    }
    while (c->n_kept == KEPT_MAX || (c->n_kept && c->kept_bytes + k.n + k.key_n > KEPT_BYTES)) {
        kept_remove(c, 0);
    }
    c->kept[c->n_kept++] = k;
    c->kept_bytes += k.n + k.key_n;
    os_mutex_unlock(c->kept_lock);
}

static void reply_make(struct console_request *r, struct wire_web_reply *reply, struct buf *packed)
{
    reply_of(reply, &r->answer);
    if (r->packs && reply->body.n >= PACKED_FROM) {
        err_ignore(reply_pack(reply, packed));
    }
    if (reply->body.n > WIRE_WEB_BODY_MAX) {
        api_fail(
            &r->answer, RPC_RESOURCE_EXHAUSTED, 0,
            "the answer is too large: ask for fewer rows, metrics or buckets, or for a shorter "
            "range");
        reply_of(reply, &r->answer);
    }
    if (r->answer.sealed && reply->status == 200) {
        kept_put(r->console, r, reply);
    }
}

/* Answers and releases. */
static void request_end(struct console_request *r, bool crowded)
{
    struct console *c = r->console;
    struct wire_web_reply reply;
    struct buf packed;

    buf_init(&packed, ZSTD_compressBound(PLAIN_MAX));
    if (r->kept.n) {
        reply = (struct wire_web_reply){.status = 200,
                                        .type = str_make("application/json"),
                                        .encoding = str_make(r->kept_packed ? "zstd" : NULL),
                                        .body = {(const char *)r->kept.p, r->kept.n}};
    } else {
        reply_make(r, &reply, &packed);
    }
    count(c, path_index(r->route, false), &reply, crowded, r->kept.n > 0);
    r->done(r->ctx, &reply);
    buf_fini(&packed);
    buf_fini(&r->kept);
    api_fini(&r->answer);
    mem_free(r);
}

static void request_fail(struct console_request *r, enum rpc_code code, uint32_t retry_ms,
                         const char *message)
{
    api_fail(&r->answer, code, retry_ms, message);
    request_end(r, false);
}

/* -- workers -- */

static bool is_same(const struct net_identity *a, const struct net_identity *b)
{
    return memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0 &&
           strcmp(a->name, b->name) == 0;
}

/* How many of the identity are under work. The lock is held. */
static unsigned count_working(const struct console *c, const struct net_identity *who)
{
    unsigned n = 0;

    for (unsigned i = 0; i < c->conf.workers; i++) {
        n += c->workers[i].busy && is_same(&c->workers[i].who, who);
    }
    return n;
}

/* The lock is held; NULL: none may be taken now. */
static struct console_request *queue_take(struct console *c)
{
    struct console_request *before = NULL, *r = c->first;

    while (r && count_working(c, &r->who) >= SAME_MAX) {
        before = r;
        r = r->next;
    }
    if (!r) {
        return NULL;
    }
    if (before) {
        before->next = r->next;
    } else {
        c->first = r->next;
    }
    c->last = c->last == r ? before : c->last;
    assert(c->waiting > 0);
    c->waiting--;
    return r;
}

static void poll_done(void *ctx, const struct feed_serve_end *end)
{
    struct console_request *r = ctx;

    api_polled(&r->answer, end);
    request_end(r, false);
}

static void worker_serve(struct console_worker *w, struct console_request *r)
{
    const struct api_env env = {.serve = w->console->conf.serve,
                                .who = &r->who,
                                .deadline = &w->deadline,
                                .updates = w->console->conf.feed != NULL,
                                .rules = w->console->conf.rules,
                                .ctx = w->console->conf.ctx};

    if (kept_get(w->console, r)) {
        request_end(r, false);
        return;
    }
    api_run(&r->answer, r->route, (struct str){r->query, r->query_n}, &env);
    if (r->answer.waits) {
        feed_serve_poll(w->console->conf.feed, &r->who, &r->answer.poll,
                        os_mono_ns() + r->answer.wait_ns, poll_done, r);
    } else {
        request_end(r, false);
    }
}

static void worker_run(void *arg)
{
    struct console_worker *w = arg;
    struct console *c = w->console;

    err_ignore(os_thread_background()); /* works on as it can */
    os_mutex_lock(c->lock);
    while (!c->stopping) {
        struct console_request *r = queue_take(c);
        int64_t begin_ns;

        if (!r) {
            os_cond_wait(c->changed);
            continue;
        }
        w->busy = true;
        w->who = r->who;
        begin_ns = os_mono_ns();
        deadline_set(&w->deadline, begin_ns + WORK_NS);
        heartbeat_work(&w->work, begin_ns);
        os_mutex_unlock(c->lock);
        worker_serve(w, r);
        os_mutex_lock(c->lock);
        heartbeat_rest(&w->work);
        w->busy = false;
        c->stats.busy_ns += os_mono_ns() - begin_ns;
        os_cond_wake_all(c->changed); /* another of the same identity may be taken */
    }
    os_mutex_unlock(c->lock);
}

/* -- asking -- */

/* Errors: ERR_FULL (for all), ERR_BUSY (for this identity), ERR_CLOSED: `r` stays the caller's */
static enum err queue_add(struct console *c, struct console_request *r)
{
    unsigned own;
    enum err e = ERR_OK;

    os_mutex_lock(c->lock);
    own = count_working(c, &r->who);
    for (const struct console_request *x = c->first; x; x = x->next) {
        own += is_same(&x->who, &r->who);
    }
    if (c->stopping) {
        e = ERR_CLOSED;
    } else if (c->waiting == CONSOLE_WAITING_MAX) {
        e = ERR_FULL;
    } else if (own >= CONSOLE_EACH_MAX) {
        e = ERR_BUSY;
    } else {
        r->next = NULL;
        if (c->last) {
            c->last->next = r;
        } else {
            c->first = r;
        }
        c->last = r;
        c->waiting++;
        os_cond_wake(c->changed);
    }
    os_mutex_unlock(c->lock);
    return e;
}

static void request_refuse(struct console_request *r, enum err e)
{
    if (e == ERR_CLOSED) {
        request_fail(r, RPC_UNAVAILABLE, CROWDED_MS, "the collector is stopping");
        return;
    }
    api_fail(&r->answer, RPC_RESOURCE_EXHAUSTED, CROWDED_MS,
             e == ERR_FULL ? "too many questions wait already: ask again later"
                           : "too many questions of this session are under way: ask again when "
                             "they are answered");
    request_end(r, true);
}

static void page_answer(struct console *c, const struct wire_web_request *ask,
                        void (*done)(void *ctx, const struct wire_web_reply *reply), void *ctx)
{
    struct wire_web_reply reply;

    assets_answer(&reply, ask);
    count(c, path_index(NULL, true), &reply, false, false);
    done(ctx, &reply);
}

/* Without memory for a request. */
static void nothing_answer(struct console *c,
                           void (*done)(void *ctx, const struct wire_web_reply *reply), void *ctx)
{
    const struct wire_web_reply reply = {
        .status = 503,
        .type = str_make("application/json"),
        .body =
            str_make("{\"code\":\"UNAVAILABLE\",\"message\":\"out of memory\",\"details\":\"\"}"),
        .retry_after_s = 1,
    };

    count(c, path_index(NULL, false), &reply, false, false);
    done(ctx, &reply);
}

static bool is_api(struct str path)
{
    return path.n >= 4 && memcmp(path.p, "/api", 4) == 0 && (path.n == 4 || path.p[4] == '/');
}

static void route_unknown(struct console_request *r, const char *closest)
{
    struct errmsg why = {""};

    err_ignore(errmsg_set(
        &why, ERR_NOTFOUND,
        "there is nothing at this address%s%s%s; " API_ROOT "openapi.json says what there is",
        closest ? "; did you mean " API_ROOT : "", closest ? closest : "", closest ? "?" : ""));
    request_fail(r, RPC_NOT_FOUND, 0, why.text);
}

void console_ask(struct console *c, const struct net_identity *who,
                 const struct wire_web_request *ask,
                 void (*done)(void *ctx, const struct wire_web_reply *reply), void *ctx)
{
    struct console_request *r;
    const char *closest;
    enum err e;

    if (!is_api(ask->path)) {
        page_answer(c, ask, done, ctx);
        return;
    }
    r = mem_zalloc(sizeof *r + ask->query.n);
    if (!r) {
        nothing_answer(c, done, ctx);
        return;
    }
    r->console = c;
    r->who = *who;
    r->done = done;
    r->ctx = ctx;
    r->packs = assets_accepts(ask->accept_encoding, "zstd");
    r->query_n = ask->query.n;
    if (ask->query.n) {
        memcpy(r->query, ask->query.p, ask->query.n);
    }
    buf_init(&r->kept, WIRE_WEB_BODY_MAX);
    api_init(&r->answer, r->packs ? PLAIN_MAX : WIRE_WEB_BODY_MAX);
    r->route = api_find(ask->path, &closest);
    if (!(who->roles & MAY_ASK)) {
        request_fail(r, RPC_PERMISSION_DENIED, 0,
                     "the console takes a certificate of role query or admin");
        return;
    }
    if (!r->route) {
        route_unknown(r, closest);
        return;
    }
    e = queue_add(c, r);
    if (e) {
        request_refuse(r, e);
    }
}

/* -- RPC Query/Web -- */

static void call_done(void *ctx, const struct wire_web_reply *reply)
{
    struct rpc_call *call = ctx;
    struct buf out;
    enum err e;

    buf_init(&out, WIRE_WEB_BODY_MAX + 8192);
    e = wire_web_reply_encode(&out, reply);
    if (e) {
        rpc_fail(call, serve_code(e), 0, "%s", err_text(e));
    } else {
        rpc_answer(call, out.p, out.n, NULL);
    }
    buf_fini(&out);
}

static void on_web(void *ctx, struct rpc_call *call)
{
    struct wire_web_request *ask;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e = wire_web_request_decode(&ask, p, n);

    if (e) {
        rpc_fail(call, serve_code(e == ERR_FULL ? ERR_INVALID : e), 0, "%s", err_text(e));
        return;
    }
    console_ask(ctx, rpc_call_peer(call), ask, call_done, call);
    wire_web_request_free(ask);
}

void console_method(struct console *c, struct rpc_method *out)
{
    *out = (struct rpc_method){RPC_QUERY_WEB, MAY_ASK, on_web, c};
}

/* -- life -- */

enum err console_create(struct console **out, const struct console_conf *conf)
{
    struct console *c = mem_zalloc(sizeof *c);
    enum err e;

    if (!c) {
        return ERR_NOMEM;
    }
    assert(conf->workers >= 1 && conf->workers <= WORKERS_MAX && api_routes_n + 2 <= PATHS_MAX);
    c->conf = *conf;
    e = os_mutex_create(&c->lock);
    if (!e) {
        e = os_cond_create(&c->changed, c->lock);
    }
    if (!e) {
        e = os_mutex_create(&c->kept_lock);
    }
    for (unsigned i = 0; !e && i < conf->workers; i++) {
        c->workers[i].console = c;
        e = os_thread_start(&c->workers[i].thread, "console", worker_run, &c->workers[i]);
    }
    if (e) {
        console_destroy(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void console_stop(struct console *c)
{
    struct console_request *r;

    if (!c || !c->changed) {
        return;
    }
    os_mutex_lock(c->lock);
    c->stopping = true;
    for (unsigned i = 0; i < c->conf.workers; i++) {
        deadline_end(&c->workers[i].deadline);
    }
    r = c->first;
    c->first = c->last = NULL;
    c->waiting = 0;
    os_cond_wake_all(c->changed);
    os_mutex_unlock(c->lock);
    while (r) {
        struct console_request *next = r->next;

        request_fail(r, RPC_UNAVAILABLE, CROWDED_MS, "the collector is stopping");
        r = next;
    }
    for (unsigned i = 0; i < c->conf.workers; i++) {
        os_thread_join(c->workers[i].thread);
        c->workers[i].thread = NULL;
    }
}

void console_destroy(struct console *c)
{
    if (!c) {
        return;
    }
    console_stop(c);
    while (c->n_kept) {
        kept_remove(c, c->n_kept - 1);
    }
    os_mutex_destroy(c->kept_lock);
    os_cond_destroy(c->changed);
    os_mutex_destroy(c->lock);
    mem_free(c);
}
