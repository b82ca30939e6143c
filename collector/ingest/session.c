#include "collector/ingest/session.h"

#include <stdio.h>
#include <string.h>

#include "collector/ingest/session_hosts.h"
#include "collector/store/batch_time.h"
#include "collector/store/store.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/wire/wire_rpc.h"

#define SESSION_DECODERS 16u /* kept for the next push; as many as pushes come at once are made */

struct session {
    struct session_conf conf;
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *idle;
    struct session_hosts hosts;
    unsigned under_way;
    unsigned n_decoders;
    struct wire_decoder *decoders[SESSION_DECODERS]; /* at rest */
    struct session_stats stats;
};

/* What a call reports besides its arrival. */
struct session_greeting {
    const struct wire_hello *hello;
    const struct wire_heartbeat *beat;
    bool stored; /* with hello: the store has data of the host, */
    struct uuid stored_boot;
    int64_t stored_ns; /* and when the newest came, UTC */
};

#define OVERLOAD_MS 1000
#define CLONE_MS    30000
#define WAIT_MS     5000

static struct clock_moment session_now(const struct session *s)
{
    return (struct clock_moment){s->conf.utc_ns ? s->conf.utc_ns() : os_utc_ns(),
                                 s->conf.mono_ns ? s->conf.mono_ns() : os_mono_ns()};
}

enum err session_create(struct session **out, const struct session_conf *conf)
{
    struct session *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    s->hosts.max = conf->hosts_max;
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
    for (unsigned i = 0; i < s->n_decoders; i++) {
        wire_batch_decoder_destroy(s->decoders[i]);
    }
    session_hosts_fini(&s->hosts);
    os_cond_destroy(s->idle);
    os_mutex_destroy(s->lock);
    mem_free(s);
}

void session_peer(void *session, const struct net_identity *who, bool connected)
{
    struct session *s = session;
    struct clock_moment now = session_now(s);
    struct session_entry *h = NULL;

    if (!who->has_host) {
        return;
    }
    os_mutex_lock(s->lock);
    if (!connected) {
        h = session_hosts_find(&s->hosts, &who->host);
        if (h && h->connections > 0) {
            h->connections--;
            clones_gone(&h->clones, who->connection);
        }
    } else {
        bool known = session_hosts_find(&s->hosts, &who->host) != NULL;

        if (session_hosts_get(&s->hosts, &h, who, &now) == ERR_OK) {
            h->standby |= !known;
            h->connections++;
        }
    }
    os_mutex_unlock(s->lock);
}

bool session_host_state(struct session *s, const struct uuid *host, struct session_host *out)
{
    struct clock_moment now = session_now(s);
    const struct session_entry *h;

    os_mutex_lock(s->lock);
    h = session_hosts_find(&s->hosts, host);
    if (h) {
        session_hosts_state(h, &now, out);
    }
    os_mutex_unlock(s->lock);
    return h != NULL;
}

void session_stats(struct session *s, struct session_stats *out)
{
    os_mutex_lock(s->lock);
    *out = s->stats;
    out->hosts = s->hosts.n;
    os_mutex_unlock(s->lock);
}

/* Counts in the session, and as refused by the host. */
static void session_count(struct session *s, uint64_t *counter, const struct uuid *refused)
{
    struct session_entry *h;

    os_mutex_lock(s->lock);
    (*counter)++;
    h = refused ? session_hosts_find(&s->hosts, refused) : NULL;
    if (h) {
        h->seen.refused++;
        h->seen.corrupt += counter == &s->stats.corrupt;
        h->seen.spoofed += counter == &s->stats.spoofed;
        h->seen.too_old += counter == &s->stats.too_old;
    }
    os_mutex_unlock(s->lock);
}

/* -- who calls -- */

/* Answers that refuse. */
static void session_refuse_spoof(struct session *s, struct rpc_call *call, const char *claims)
{
    const struct net_identity *who = rpc_call_peer(call);
    char quoted[160], name[160];

    session_count(s, &s->stats.spoofed, who->has_host ? &who->host : NULL);
    log_line(LOG_WARN, "session", "spoofed", "name=%s address=%s claims=%s",
             log_str(name, sizeof name, who->name), who->address,
             log_str(quoted, sizeof quoted, claims));
    rpc_fail(
        call, RPC_PERMISSION_DENIED, 0,
        "this certificate is of %s, not of %s: use that host's own, or set identity.name to %s",
        who->name, claims, who->name);
}

static void session_refuse_anonymous(struct session *s, struct rpc_call *call)
{
    session_count(s, &s->stats.spoofed, NULL);
    rpc_fail(call, RPC_PERMISSION_DENIED, 0,
             "the certificate names no host: issue one with --role agent");
}

static void refuse_clone(struct session *s, struct rpc_call *call)
{
    session_count(s, &s->stats.clones, NULL);
    rpc_fail_detail(call, RPC_FAILED_PRECONDITION, CLONE_MS, "clone", rpc_call_peer(call)->name,
                    "another machine is %s with this same identity: make a new token and run "
                    "procfleet-agent enroll --force with another --name on the copy",
                    rpc_call_peer(call)->name);
}

/* Said once for each machine that is found. */
static void tell_clone(const struct net_identity *who, const struct uuid *boot)
{
    char name[160], id[UUID_TEXT];

    log_line(LOG_WARN, "session", "clone", "name=%s address=%s boot=%s remedy=%s",
             log_str(name, sizeof name, who->name), who->address, uuid_format(id, boot),
             "\"two machines use this identity: the other one is refused until it enrols anew\"");
}

/* Recordings are of no machine: any number of them may be played as one host. */
static bool is_recording(const struct wire_hello *hello)
{
    return strcmp(hello->source, "etl") == 0;
}

static void hear_clock(struct session_entry *h, const struct session_greeting *g,
                       const struct uuid *boot, const struct clock_moment *now)
{
    struct clock_told told = {.boot = *boot};

    if (g->hello) {
        told.wall_ns = g->hello->wall_ns;
        told.mono_ns = g->hello->mono_ns;
        told.last_mono_ns = g->hello->last_mono_ns;
        told.last_rtt_ns = g->hello->last_rtt_ns;
    } else {
        told.wall_ns = g->beat->wall_ns;
        told.mono_ns = g->beat->mono_ns;
        told.last_mono_ns = g->beat->last_mono_ns;
        told.last_rtt_ns = g->beat->last_rtt_ns;
    }
    host_clocks_note(&h->clocks, &told, now);
}

/* Under the lock: which machine it is, and whether it may speak for the host. */
static enum clones_verdict hear_machine(struct session_entry *h, const struct net_identity *who,
                                        const struct session_greeting *g,
                                        const struct clock_moment *now)
{
    if (!g->hello) {
        return clones_call(&h->clones, who->connection, now->mono_ns);
    }
    if (is_recording(g->hello)) {
        clones_gone(&h->clones, who->connection);
        return CLONES_FINE;
    }
    if (g->stored && g->stored_ns <= now->utc_ns) {
        clones_remember(&h->clones, &g->stored_boot, now->mono_ns - (now->utc_ns - g->stored_ns),
                        now->mono_ns);
    }
    return clones_hello(&h->clones, who->connection, &g->hello->boot, now->mono_ns);
}

/* Under the lock: all that a call reports. *boot: whose call it is, where that is known. */
static enum clones_verdict session_hear(struct session_entry *h, const struct net_identity *who,
                                        const struct session_greeting *g, struct uuid *boot,
                                        const struct clock_moment *now)
{
    enum clones_verdict verdict = hear_machine(h, who, g, now);
    bool known = clones_boot(&h->clones, who->connection, boot);

    if (verdict == CLONES_REFUSED) {
        return verdict;
    }
    if (g->hello) {
        *boot = g->hello->boot;
        (void)snprintf(h->seen.version, sizeof h->seen.version, "%s", g->hello->version);
        (void)snprintf(h->seen.system, sizeof h->seen.system, "%s", g->hello->system);
    }
    if (g->hello || (g->beat && known)) {
        hear_clock(h, g, boot, now);
    }
    return verdict;
}

/* Its call shows it in lists again. Outside the lock: a file is written. */
static void session_remember(struct session *s, const struct net_identity *who)
{
    char name[160];

    if (s->conf.forgotten && forgotten_heard(s->conf.forgotten, &who->host)) {
        log_line(LOG_INFO, "session", "remembered", "name=%s address=%s",
                 log_str(name, sizeof name, who->name), who->address);
    }
}

static bool is_push(const struct session_greeting *g)
{
    return !g->hello && !g->beat;
}

/* Notes that the caller was heard, and what it told. False: answered already. */
static bool session_greet(struct session *s, struct rpc_call *call,
                          const struct session_greeting *g)
{
    const struct net_identity *who = rpc_call_peer(call);
    struct clock_moment now = session_now(s);
    enum clones_verdict verdict = CLONES_FINE;
    struct session_entry *h;
    struct uuid boot = {{0}};
    bool wait = false;
    enum err e;

    os_mutex_lock(s->lock);
    e = session_hosts_get(&s->hosts, &h, who, &now);
    if (!e) {
        h->standby = false;
        h->connections = h->connections ? h->connections : 1; /* the one of this call */
        verdict = session_hear(h, who, g, &boot, &now);
        wait = verdict == CLONES_FINE && is_push(g) &&
               clones_wait(&h->clones, who->connection, now.mono_ns);
        s->stats.waiting += wait;
    }
    s->stats.overloaded += e != ERR_OK;
    os_mutex_unlock(s->lock);
    if (e == ERR_FULL) {
        rpc_fail_detail(call, RPC_RESOURCE_EXHAUSTED, OVERLOAD_MS, "elsewhere", who->name,
                        "too many hosts: raise limits.hosts, or add a collector");
    } else if (e) {
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, OVERLOAD_MS, "out of memory");
    } else if (verdict == CLONES_REFUSED) {
        refuse_clone(s, call);
    } else if (wait) {
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, WAIT_MS,
                 "another boot was this host a moment ago and may still be alive");
    } else if (verdict == CLONES_FOUND) {
        tell_clone(who, &boot);
    }
    if (!e && verdict != CLONES_REFUSED) {
        session_remember(s, who);
    }
    return e == ERR_OK && verdict != CLONES_REFUSED && !wait;
}

/* Sends what was encoded, and gives its memory back. */
static void session_answer(struct rpc_call *call, struct buf *reply, enum err e)
{
    if (e) {
        rpc_fail(call, RPC_INTERNAL, 0, "cannot make the answer: %s", err_text(e));
    } else {
        rpc_answer(call, reply->p, reply->n, NULL);
    }
    buf_fini(reply);
}

/* -- Hello, Heartbeat -- */

static void session_facts(const struct session *s, const struct rpc_call *call, const void *p,
                          size_t n)
{
    if (s->conf.facts && n) {
        s->conf.facts(s->conf.facts_ctx, &rpc_call_peer(call)->host, p, n, session_now(s).utc_ns);
    }
}

static void handle_hello(void *ctx, struct rpc_call *call)
{
    struct session *s = ctx;
    const struct net_identity *who = rpc_call_peer(call);
    struct wire_hello_reply reply = {.events = true,
                                     .max_message = s->conf.max_message,
                                     .max_in_flight = s->conf.max_in_flight,
                                     .received_ns = session_now(s).utc_ns};
    struct session_greeting g = {0};
    struct wire_hello hello;
    char claims[UUID_TEXT];
    struct buf b;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);

    if (wire_rpc_hello_decode(&hello, p, n) != ERR_OK) {
        session_count(s, &s->stats.corrupt, NULL);
        rpc_fail(call, RPC_INVALID_ARGUMENT, 0, "not a Hello");
        return;
    }
    if (!who->has_host) {
        session_refuse_anonymous(s, call);
        return;
    }
    if (memcmp(hello.host.b, who->host.b, sizeof hello.host.b) != 0) {
        session_refuse_spoof(s, call, uuid_format(claims, &hello.host));
        return;
    }
    if (hello.name[0] && strcmp(hello.name, who->name) != 0) {
        session_refuse_spoof(s, call, hello.name);
        return;
    }
    g.hello = &hello;
    g.stored = store_last_boot(s->conf.store, who->name, &who->host, &g.stored_boot, &g.stored_ns);
    if (!session_greet(s, call, &g)) {
        return;
    }
    session_facts(s, call, hello.told, hello.n_told);
    session_count(s, &s->stats.hellos, NULL);
    snprintf(reply.version, sizeof reply.version, "%s", PROCFLEET_VERSION);
    reply.last_seq = store_last_seq(s->conf.store, &who->host, hello.stream);
    reply.replied_ns = session_now(s).utc_ns;
    buf_init(&b, FRAME_HEADER_MAX);
    session_answer(call, &b, wire_rpc_hello_reply_encode(&b, &reply));
}

static void handle_heartbeat(void *ctx, struct rpc_call *call)
{
    struct session *s = ctx;
    struct wire_heartbeat_reply reply = {.received_ns = session_now(s).utc_ns};
    struct wire_heartbeat beat;
    struct session_greeting g = {.beat = &beat};
    struct buf b;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);

    if (wire_rpc_heartbeat_decode(&beat, p, n) != ERR_OK) {
        session_count(s, &s->stats.corrupt, NULL);
        rpc_fail(call, RPC_INVALID_ARGUMENT, 0, "not a Heartbeat");
        return;
    }
    if (!rpc_call_peer(call)->has_host) {
        session_refuse_anonymous(s, call);
        return;
    }
    if (!session_greet(s, call, &g)) {
        return;
    }
    session_facts(s, call, beat.told, beat.n_told);
    session_count(s, &s->stats.heartbeats, NULL);
    reply.replied_ns = session_now(s).utc_ns;
    buf_init(&b, FRAME_HEADER_MAX);
    session_answer(call, &b, wire_rpc_heartbeat_reply_encode(&b, &reply));
}

#define BUSY_MS   100 /* until the same batch is asked for again */
#define FAILED_MS 5000

/* A batch that must never come again: its sender drops it, so it is logged here too. */
static void refuse_batch(struct session *s, struct rpc_call *call, uint64_t *counter,
                         enum rpc_code code, const char *reason)
{
    const struct net_identity *who = rpc_call_peer(call);
    char name[160], quoted[320];

    session_count(s, counter, &who->host);
    log_line(LOG_WARN, "session", "refused", "name=%s address=%s reason=%s",
             log_str(name, sizeof name, who->name), who->address,
             log_str(quoted, sizeof quoted, reason));
    rpc_fail(call, code, 0, "%s", reason);
}

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
    struct session_entry *h;
    struct buf b;

    os_mutex_lock(s->lock);
    s->stats.stored += !duplicate;
    s->stats.duplicates += duplicate;
    h = session_hosts_find(&s->hosts, &host);
    if (h) {
        h->seen.stored += !duplicate;
        h->seen.duplicates += duplicate;
    }
    os_mutex_unlock(s->lock);
    buf_init(&b, FRAME_HEADER_MAX);
    session_answer(call, &b, wire_rpc_push_reply_encode(&b, &reply));
}

/* Says what the store's refusal means. */
static void refuse_push(struct session *s, struct rpc_call *call, enum err e)
{
    switch (e) {
    case ERR_BUSY:
        session_count(s, &s->stats.overloaded, NULL);
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, BUSY_MS, "this batch is being written");
        break;
    case ERR_FULL:
    case ERR_NOMEM:
        session_count(s, &s->stats.overloaded, NULL);
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, OVERLOAD_MS, "too much at once");
        break;
    case ERR_NOSPACE:
        session_count(s, &s->stats.overloaded, NULL);
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, OVERLOAD_MS, "the collector's disk is full");
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
        session_count(s, &s->stats.unavailable, NULL);
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

/* Its number is stored with other content: either two machines are this host, or an agent gave
 * a number twice. Called a duplicate, it would be lost without a word. */
static void refuse_conflict(struct session *s, struct rpc_call *call)
{
    const struct uuid *host = &rpc_call_peer(call)->host;
    struct clock_moment now = session_now(s);
    struct session_entry *h;

    os_mutex_lock(s->lock);
    h = session_hosts_find(&s->hosts, host);
    if (h) {
        h->seen.conflicts++;
        h->conflict_ns = now.mono_ns;
    }
    os_mutex_unlock(s->lock);
    refuse_batch(s, call, &s->stats.conflicts, RPC_ALREADY_EXISTS,
                 "another batch of this stream and number is stored: if a machine was copied "
                 "while it ran, make a new token and run procfleet-agent enroll --force on the "
                 "copy");
}

/* The store did not take it. */
static void push_settle(struct session *s, struct rpc_call *call, const struct batch_head *key,
                        enum err e)
{
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);

    if (e != ERR_EXISTS) {
        refuse_push(s, call, e);
    } else if (store_differs(s->conf.store, rpc_call_peer(call)->name, key, p, n)) {
        refuse_conflict(s, call);
    } else {
        answer_push(s, call, key->stream, true);
    }
}

static void store_it(struct session *s, struct rpc_call *call, struct batch *b,
                     const struct host_offset *clock, int64_t received_ns)
{
    struct push *p = mem_zalloc(sizeof *p);
    struct batch_head key = b->head;
    struct store_put put = {.batch = b,
                            .host_name = rpc_call_peer(call)->name,
                            .received_ns = received_ns,
                            .clock = *clock,
                            .done = on_durable,
                            .ctx = p};
    enum err e;

    key.source = str_make(NULL); /* goes with the batch */
    if (!p) {
        wire_batch_free(b);
        refuse_push(s, call, ERR_NOMEM);
        return;
    }
    put.bytes = rpc_call_payload(call, &put.n);
    *p = (struct push){s, call, key.host, key.stream};
    os_mutex_lock(s->lock);
    s->under_way++;
    os_mutex_unlock(s->lock);
    e = store_put(s->conf.store, &put);
    if (!e) {
        return; /* the answer is on_durable's, perhaps given already */
    }
    mem_free(p);
    push_settle(s, call, &key, e);
    os_mutex_lock(s->lock);
    s->under_way--;
    os_cond_wake_all(s->idle);
    os_mutex_unlock(s->lock);
}

static void tell_ahead(const struct net_identity *who, int64_t ahead_ns)
{
    char name[160];

    log_line(LOG_WARN, "session", "stamps_ahead", "name=%s address=%s seconds=%lld remedy=%s",
             log_str(name, sizeof name, who->name), who->address, (long long)(ahead_ns / CLK_S),
             "\"set the host's clock; the data is kept with the stamps it has\"");
}

/* The host's clock when it made the batch. Stamps that are of the future even so are counted, and
 * told about once until they are not. */
static struct host_offset judge_clock(struct session *s, const struct net_identity *who,
                                      const struct batch *b, const struct clock_moment *now)
{
    struct host_offset clock = {0};
    struct session_entry *h;
    int64_t t0_ns, t1_ns, ahead_ns = 0;
    bool news = false;

    batch_time_span(b, now->utc_ns, &t0_ns, &t1_ns);
    os_mutex_lock(s->lock);
    h = session_hosts_find(&s->hosts, &who->host);
    if (h) {
        host_clocks_note_batch(&h->clocks, b, now);
        clock = host_clocks_batch(&h->clocks, b, now, clk_sub(now->utc_ns, s->conf.accept_age_ns));
        ahead_ns = clk_sub(clk_add(t1_ns, clock.known ? clock.offset_ns : 0), now->utc_ns);
        news = ahead_ns > s->conf.future_max_ns && !h->ahead;
        h->ahead = ahead_ns > s->conf.future_max_ns;
        s->stats.future += h->ahead;
    }
    os_mutex_unlock(s->lock);
    if (news) {
        tell_ahead(who, ahead_ns);
    }
    return clock;
}

static void take_batch(struct session *s, struct rpc_call *call, struct batch *b)
{
    const struct net_identity *who = rpc_call_peer(call);
    struct clock_moment now = session_now(s);
    struct host_offset clock;
    char claims[UUID_TEXT];

    if (memcmp(b->head.host.b, who->host.b, sizeof who->host.b) != 0) {
        session_refuse_spoof(s, call, uuid_format(claims, &b->head.host));
        wire_batch_free(b);
        return;
    }
    clock = judge_clock(s, who, b, &now);
    store_it(s, call, b, &clock, now.utc_ns);
}

/* A decoder is one thread's at a time; its making would cost a fifth of a small batch's decoding.
 */
static struct wire_decoder *decoder_take(struct session *s)
{
    struct wire_decoder *dec = NULL;

    os_mutex_lock(s->lock);
    if (s->n_decoders > 0) {
        dec = s->decoders[--s->n_decoders];
    }
    os_mutex_unlock(s->lock);
    return dec || !wire_batch_decoder_create(&dec) ? dec : NULL;
}

static void decoder_give(struct session *s, struct wire_decoder *dec)
{
    os_mutex_lock(s->lock);
    if (s->n_decoders < SESSION_DECODERS) {
        s->decoders[s->n_decoders++] = dec;
        dec = NULL;
    }
    os_mutex_unlock(s->lock);
    wire_batch_decoder_destroy(dec);
}

static enum err push_decode(struct session *s, struct batch **b, const void *p, size_t n)
{
    struct wire_decoder *dec;
    enum err e;

    if (n > s->conf.max_message) {
        return ERR_FULL;
    }
    dec = decoder_take(s);
    if (!dec) {
        return ERR_NOMEM;
    }
    e = wire_batch_decode_next(dec, b, METRIC_ALL, p, n);
    decoder_give(s, dec);
    return e;
}

/* The method Push. */
static void session_push(void *session, struct rpc_call *call)
{
    struct session *s = session;
    const struct session_greeting nothing = {0};
    struct batch *b;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e;

    if (!rpc_call_peer(call)->has_host) {
        session_refuse_anonymous(s, call);
        return;
    }
    if (!session_greet(s, call, &nothing)) {
        return;
    }
    session_count(s, &s->stats.pushes, NULL);
    e = push_decode(s, &b, p, n);
    if (e == ERR_NOMEM) {
        refuse_push(s, call, e);
    } else if (e) {
        refuse_batch(s, call, &s->stats.corrupt, RPC_INVALID_ARGUMENT,
                     e == ERR_FULL ? "not a batch: over a limit" : "not a batch");
    } else {
        take_batch(s, call, b);
    }
}

void session_methods(struct session *s, struct rpc_method methods[SESSION_METHODS])
{
    methods[0] = (struct rpc_method){RPC_INGEST_HELLO, NET_AGENT, handle_hello, s};
    methods[1] = (struct rpc_method){RPC_INGEST_PUSH, NET_AGENT, session_push, s};
    methods[2] = (struct rpc_method){RPC_INGEST_HEARTBEAT, NET_AGENT, handle_heartbeat, s};
}
