#include "collector/session.h"

#include <stdio.h>
#include <string.h>

#include "common/clk.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/uuid.h"
#include "common/wire_rpc.h"

#define OFFSET_SPAN_NS (300 * CLK_S) /* the estimate looks at this span and the one before */
#define FORGET_NS      (600 * CLK_S)
#define BUSY_MS        100 /* until the same batch is asked for again */
#define OVERLOAD_MS    1000
#define FAILED_MS      5000
#define NO_OFFSET      INT64_MAX

struct host {
    struct uuid id;
    unsigned connections;
    int64_t span_ns;  /* begin of the span that least[0] is of */
    int64_t least[2]; /* receive minus send, this span and the last; NO_OFFSET: none */
    struct session_host seen;
};

struct session {
    struct session_conf conf;
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *idle;
    struct host **hosts; /* by id */
    uint32_t n, cap;
    unsigned under_way;
    struct session_stats stats;
};

static int64_t now_of(const struct session *s)
{
    return s->conf.utc_ns ? s->conf.utc_ns() : os_utc_ns();
}

enum err session_create(struct session **out, const struct session_conf *conf)
{
    struct session *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    e = os_mutex_create(&s->lock);
    if (!e) {
        e = os_cond_create(&s->idle, s->lock);
    }
    if (e) {
        session_destroy(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void session_destroy(struct session *s)
{
    if (!s) {
        return;
    }
    if (s->idle) {
        os_mutex_lock(s->lock);
        while (s->under_way > 0) {
            os_cond_wait(s->idle);
        }
        os_mutex_unlock(s->lock);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        mem_free(s->hosts[i]);
    }
    mem_free(s->hosts);
    os_cond_destroy(s->idle);
    os_mutex_destroy(s->lock);
    mem_free(s);
}

/* -- hosts; all under the lock -- */

static const struct uuid *host_id(const void *session, size_t i)
{
    return &((const struct session *)session)->hosts[i]->id;
}

static uint32_t host_index(const struct session *s, const struct uuid *id)
{
    return (uint32_t)uuid_search(id, s->n, host_id, s);
}

static struct host *host_find(const struct session *s, const struct uuid *id)
{
    uint32_t i = host_index(s, id);

    return i < s->n && memcmp(s->hosts[i]->id.b, id->b, sizeof id->b) == 0 ? s->hosts[i] : NULL;
}

static bool forget_one(struct session *s, int64_t now_ns)
{
    uint32_t oldest = s->n;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct host *h = s->hosts[i];

        if (h->connections == 0 && h->seen.heard_ns < now_ns - FORGET_NS &&
            (oldest == s->n || h->seen.heard_ns < s->hosts[oldest]->seen.heard_ns)) {
            oldest = i;
        }
    }
    if (oldest == s->n) {
        return false;
    }
    mem_free(s->hosts[oldest]);
    s->n--;
    memmove(s->hosts + oldest, s->hosts + oldest + 1, (s->n - oldest) * sizeof *s->hosts);
    return true;
}

static enum err hosts_room(struct session *s, int64_t now_ns)
{
    uint32_t cap = s->cap ? s->cap * 2 : 8;
    struct host **grown;

    if (s->n >= s->conf.hosts_max && !forget_one(s, now_ns)) {
        return ERR_FULL;
    }
    if (s->n < s->cap) {
        return ERR_OK;
    }
    grown = mem_realloc_array(s->hosts, cap, sizeof *grown);
    if (!grown) {
        return ERR_NOMEM;
    }
    s->hosts = grown;
    s->cap = cap;
    return ERR_OK;
}

/* The host of this certificate, heard of now. Errors: ERR_FULL, ERR_NOMEM */
static enum err host_get(struct session *s, struct host **out, const struct net_identity *who,
                         int64_t now_ns)
{
    struct host *h = host_find(s, &who->host);
    uint32_t at;
    enum err e;

    if (!h) {
        e = hosts_room(s, now_ns);
        if (e) {
            return e;
        }
        h = mem_zalloc(sizeof *h);
        if (!h) {
            return ERR_NOMEM;
        }
        h->id = who->host;
        h->least[0] = h->least[1] = NO_OFFSET;
        at = host_index(s, &h->id);
        memmove(s->hosts + at + 1, s->hosts + at, (s->n - at) * sizeof *s->hosts);
        s->hosts[at] = h;
        s->n++;
    }
    h->seen.heard_ns = now_ns;
    snprintf(h->seen.name, sizeof h->seen.name, "%s", who->name);
    *out = h;
    return ERR_OK;
}

/* One exchange more for the estimate: what arrives earliest after sending was delayed least. */
static void note_offset(struct host *h, int64_t sent_ns, int64_t now_ns)
{
    int64_t offset = clk_add(now_ns, sent_ns == INT64_MIN ? INT64_MAX : -sent_ns);

    if (now_ns - h->span_ns >= OFFSET_SPAN_NS || now_ns < h->span_ns) {
        h->least[1] = now_ns - h->span_ns < 2 * OFFSET_SPAN_NS && now_ns >= h->span_ns ? h->least[0]
                                                                                       : NO_OFFSET;
        h->least[0] = NO_OFFSET;
        h->span_ns = now_ns;
    }
    h->least[0] = offset < h->least[0] ? offset : h->least[0];
    h->seen.has_offset = true;
    h->seen.offset_ns = h->least[0] < h->least[1] ? h->least[0] : h->least[1];
}

void session_peer(void *session, const struct net_identity *who, bool connected)
{
    struct session *s = session;
    struct host *h = NULL;

    if (!who->has_host) {
        return;
    }
    os_mutex_lock(s->lock);
    if (!connected) {
        h = host_find(s, &who->host);
        if (h && h->connections > 0) {
            h->connections--;
        }
    } else if (host_get(s, &h, who, now_of(s)) == ERR_OK) {
        h->connections++;
    }
    if (h) {
        h->seen.connected = h->connections > 0;
    }
    os_mutex_unlock(s->lock);
}

bool session_host_state(struct session *s, const struct uuid *host, struct session_host *out)
{
    const struct host *h;

    os_mutex_lock(s->lock);
    h = host_find(s, host);
    if (h) {
        *out = h->seen;
    }
    os_mutex_unlock(s->lock);
    return h != NULL;
}

void session_stats(struct session *s, struct session_stats *out)
{
    os_mutex_lock(s->lock);
    *out = s->stats;
    out->hosts = s->n;
    os_mutex_unlock(s->lock);
}

/* Counts in the session, and as refused by the host. */
static void count(struct session *s, uint64_t *counter, const struct uuid *refused)
{
    struct host *h;

    os_mutex_lock(s->lock);
    (*counter)++;
    h = refused ? host_find(s, refused) : NULL;
    if (h) {
        h->seen.refused++;
    }
    os_mutex_unlock(s->lock);
}

/* -- who calls -- */

static void refuse_spoof(struct session *s, struct rpc_call *call, const char *claims)
{
    const struct net_identity *who = rpc_call_peer(call);
    char quoted[160], name[160];

    count(s, &s->stats.spoofed, who->has_host ? &who->host : NULL);
    log_line(LOG_WARN, "session", "spoofed", "name=%s address=%s claims=%s",
             log_str(name, sizeof name, who->name), who->address,
             log_str(quoted, sizeof quoted, claims));
    rpc_fail(
        call, RPC_PERMISSION_DENIED, 0,
        "this certificate is of %s, not of %s: use that host's own, or set identity.name to %s",
        who->name, claims, who->name);
}

/* A batch that must never come again: its sender drops it, so it is told here too. */
static void refuse_batch(struct session *s, struct rpc_call *call, uint64_t *counter,
                         enum rpc_code code, const char *reason)
{
    const struct net_identity *who = rpc_call_peer(call);
    char name[160], quoted[160];

    count(s, counter, &who->host);
    log_line(LOG_WARN, "session", "refused", "name=%s address=%s reason=%s",
             log_str(name, sizeof name, who->name), who->address,
             log_str(quoted, sizeof quoted, reason));
    rpc_fail(call, code, 0, "%s", reason);
}

static void refuse_anonymous(struct session *s, struct rpc_call *call)
{
    count(s, &s->stats.spoofed, NULL);
    rpc_fail(call, RPC_PERMISSION_DENIED, 0,
             "the certificate names no host: issue one with --role agent");
}

/* Notes that the caller was heard, with its clock when it told it. False: answered already. */
static bool greet(struct session *s, struct rpc_call *call, const int64_t *sent_ns,
                  const struct wire_hello *hello)
{
    const struct net_identity *who = rpc_call_peer(call);
    int64_t now_ns = now_of(s);
    struct host *h;
    enum err e;

    os_mutex_lock(s->lock);
    e = host_get(s, &h, who, now_ns);
    if (!e && sent_ns) {
        note_offset(h, *sent_ns, now_ns);
    }
    if (!e && hello) {
        snprintf(h->seen.version, sizeof h->seen.version, "%s", hello->version);
        snprintf(h->seen.system, sizeof h->seen.system, "%s", hello->system);
    }
    s->stats.overloaded += e != ERR_OK;
    os_mutex_unlock(s->lock);
    if (e) {
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, OVERLOAD_MS,
                 e == ERR_FULL ? "too many hosts: raise limits.hosts" : "out of memory");
    }
    return e == ERR_OK;
}

/* Sends what was encoded. */
static void answer(struct rpc_call *call, struct buf *reply, enum err e)
{
    if (e) {
        rpc_fail(call, RPC_INTERNAL, 0, "cannot make the answer: %s", err_text(e));
    } else {
        rpc_answer(call, reply->p, reply->n, NULL);
    }
    buf_fini(reply);
}

/* -- Hello, Heartbeat -- */

static void handle_hello(void *ctx, struct rpc_call *call)
{
    struct session *s = ctx;
    const struct net_identity *who = rpc_call_peer(call);
    struct wire_hello_reply reply = {.max_message = s->conf.max_message,
                                     .max_in_flight = s->conf.max_in_flight,
                                     .received_ns = now_of(s)};
    struct wire_hello hello;
    char claims[MODEL_UUID_TEXT];
    struct buf b;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);

    if (wire_hello_decode(&hello, p, n) != ERR_OK) {
        count(s, &s->stats.corrupt, NULL);
        rpc_fail(call, RPC_INVALID_ARGUMENT, 0, "not a Hello");
        return;
    }
    if (!who->has_host) {
        refuse_anonymous(s, call);
        return;
    }
    if (memcmp(hello.host.b, who->host.b, sizeof hello.host.b) != 0) {
        refuse_spoof(s, call, uuid_format(claims, &hello.host));
        return;
    }
    if (hello.name[0] && strcmp(hello.name, who->name) != 0) {
        refuse_spoof(s, call, hello.name);
        return;
    }
    if (!greet(s, call, &hello.wall_ns, &hello)) {
        return;
    }
    count(s, &s->stats.hellos, NULL);
    snprintf(reply.version, sizeof reply.version, "%s", PROCFLEET_VERSION);
    reply.last_seq = store_last_seq(s->conf.store, &who->host, hello.stream);
    reply.replied_ns = now_of(s);
    buf_init(&b, FRAME_HEADER_MAX);
    answer(call, &b, wire_hello_reply_encode(&b, &reply));
}

static void handle_heartbeat(void *ctx, struct rpc_call *call)
{
    struct session *s = ctx;
    struct wire_heartbeat_reply reply = {.received_ns = now_of(s)};
    struct wire_heartbeat beat;
    struct buf b;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);

    if (wire_heartbeat_decode(&beat, p, n) != ERR_OK) {
        count(s, &s->stats.corrupt, NULL);
        rpc_fail(call, RPC_INVALID_ARGUMENT, 0, "not a Heartbeat");
        return;
    }
    if (!rpc_call_peer(call)->has_host) {
        refuse_anonymous(s, call);
        return;
    }
    if (!greet(s, call, &beat.wall_ns, NULL)) {
        return;
    }
    count(s, &s->stats.heartbeats, NULL);
    reply.replied_ns = now_of(s);
    buf_init(&b, FRAME_HEADER_MAX);
    answer(call, &b, wire_heartbeat_reply_encode(&b, &reply));
}

/* -- Push -- */

/* A batch on its way through the store. */
struct push {
    struct session *session;
    struct rpc_call *call;
    struct uuid host;
    uint64_t stream;
};

static void answer_push(struct session *s, struct rpc_call *call, uint64_t stream, bool duplicate)
{
    const struct uuid host = rpc_call_peer(call)->host;
    struct wire_push_reply reply = {duplicate, store_last_seq(s->conf.store, &host, stream)};
    struct host *h;
    struct buf b;

    os_mutex_lock(s->lock);
    s->stats.stored += !duplicate;
    s->stats.duplicates += duplicate;
    h = host_find(s, &host);
    if (h) {
        h->seen.stored += !duplicate;
        h->seen.duplicates += duplicate;
    }
    os_mutex_unlock(s->lock);
    buf_init(&b, FRAME_HEADER_MAX);
    answer(call, &b, wire_push_reply_encode(&b, &reply));
}

/* Says what the store's refusal means. */
static void refuse_push(struct session *s, struct rpc_call *call, enum err e)
{
    switch (e) {
    case ERR_BUSY:
        count(s, &s->stats.overloaded, NULL);
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, BUSY_MS, "this batch is being written");
        break;
    case ERR_FULL:
    case ERR_NOMEM:
        count(s, &s->stats.overloaded, NULL);
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, OVERLOAD_MS, "too much at once");
        break;
    case ERR_RANGE:
        refuse_batch(s, call, &s->stats.too_old, RPC_OUT_OF_RANGE,
                     "older than the collector keeps");
        break;
    case ERR_INVALID:
        refuse_batch(s, call, &s->stats.corrupt, RPC_INVALID_ARGUMENT,
                     "a batch has a sequence number from 1 and stamps between 1970 and 2200");
        break;
    default:
        count(s, &s->stats.unavailable, NULL);
        rpc_fail(call, RPC_UNAVAILABLE, FAILED_MS, "the collector cannot store now: %s",
                 err_text(e));
        break;
    }
}

/* From the store's writer: the batch is durable, or will never be. */
static void on_durable(void *ctx, enum err e)
{
    struct push *p = ctx;
    struct session *s = p->session;

    if (e) {
        refuse_push(s, p->call, e);
    } else {
        answer_push(s, p->call, p->stream, false);
    }
    mem_free(p);
    os_mutex_lock(s->lock);
    s->under_way--;
    os_cond_wake_all(s->idle);
    os_mutex_unlock(s->lock);
}

static void store_it(struct session *s, struct rpc_call *call, struct batch *b)
{
    struct push *p = mem_zalloc(sizeof *p);
    uint64_t stream = b->head.stream;
    struct store_put put = {.batch = b,
                            .host_name = rpc_call_peer(call)->name,
                            .received_ns = now_of(s),
                            .done = on_durable,
                            .ctx = p};
    enum err e;

    if (!p) {
        wire_batch_free(b);
        refuse_push(s, call, ERR_NOMEM);
        return;
    }
    put.bytes = rpc_call_payload(call, &put.n);
    *p = (struct push){s, call, b->head.host, stream};
    os_mutex_lock(s->lock);
    s->under_way++;
    os_mutex_unlock(s->lock);
    e = store_put(s->conf.store, &put);
    if (!e) {
        return; /* the answer is on_durable's, perhaps given already */
    }
    mem_free(p);
    os_mutex_lock(s->lock);
    s->under_way--;
    os_cond_wake_all(s->idle);
    os_mutex_unlock(s->lock);
    if (e == ERR_EXISTS) {
        answer_push(s, call, stream, true);
    } else {
        refuse_push(s, call, e);
    }
}

/* Whether the batch is ahead of now, as far as the host's clock is known. False: answered. */
static bool check_future(struct session *s, struct rpc_call *call, const struct batch *b)
{
    const struct uuid *host = &rpc_call_peer(call)->host;
    int64_t now_ns = now_of(s), t0_ns, t1_ns;
    struct session_host seen = {0};

    store_span(b, now_ns, &t0_ns, &t1_ns);
    (void)session_host_state(s, host, &seen);
    if (clk_add(t1_ns, seen.offset_ns) <= now_ns + s->conf.future_max_ns) {
        return true;
    }
    if (!seen.has_offset) {
        count(s, &s->stats.unclocked, NULL);
        rpc_fail(call, RPC_FAILED_PRECONDITION, 0, "say Hello first: this host's clock is unknown");
    } else {
        refuse_batch(s, call, &s->stats.future, RPC_OUT_OF_RANGE,
                     "the batch is of the future by the host's own clock");
    }
    return false;
}

static void handle_push(void *ctx, struct rpc_call *call)
{
    struct session *s = ctx;
    const struct net_identity *who = rpc_call_peer(call);
    char claims[MODEL_UUID_TEXT];
    struct batch *b;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e;

    if (!who->has_host) {
        refuse_anonymous(s, call);
        return;
    }
    if (!greet(s, call, NULL, NULL)) {
        return;
    }
    count(s, &s->stats.pushes, NULL);
    e = n > s->conf.max_message ? ERR_FULL : wire_batch_decode(&b, p, n);
    if (e == ERR_NOMEM) {
        refuse_push(s, call, e);
        return;
    }
    if (e) {
        refuse_batch(s, call, &s->stats.corrupt, RPC_INVALID_ARGUMENT,
                     e == ERR_FULL ? "not a batch: over a limit" : "not a batch");
        return;
    }
    if (memcmp(b->head.host.b, who->host.b, sizeof who->host.b) != 0) {
        refuse_spoof(s, call, uuid_format(claims, &b->head.host));
    } else if (check_future(s, call, b)) {
        store_it(s, call, b);
        return;
    }
    wire_batch_free(b);
}

void session_methods(struct session *s, struct rpc_method methods[SESSION_METHODS])
{
    methods[0] = (struct rpc_method){RPC_INGEST_HELLO, NET_AGENT, handle_hello, s};
    methods[1] = (struct rpc_method){RPC_INGEST_PUSH, NET_AGENT, handle_push, s};
    methods[2] = (struct rpc_method){RPC_INGEST_HEARTBEAT, NET_AGENT, handle_heartbeat, s};
}
