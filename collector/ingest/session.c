#include "collector/ingest/session_impl.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define OVERLOAD_MS 1000
#define CLONE_MS    30000
#define WAIT_MS     5000

struct clock_moment session_now(const struct session *s)
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
    } else if (session_hosts_get(&s->hosts, &h, who, &now) == ERR_OK) {
        h->connections++;
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
        session_entry_state(h, &now, out);
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
void session_count(struct session *s, uint64_t *counter, const struct uuid *refused)
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

void session_refuse_spoof(struct session *s, struct rpc_call *call, const char *claims)
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

void session_refuse_anonymous(struct session *s, struct rpc_call *call)
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

/* Under the lock: all that a call tells. *boot: whose call it is, where that is known. */
static enum clones_verdict hear(struct session_entry *h, const struct net_identity *who,
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
static void remember(struct session *s, const struct net_identity *who)
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

bool session_greet(struct session *s, struct rpc_call *call, const struct session_greeting *g)
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
        verdict = hear(h, who, g, &boot, &now);
        wait = verdict == CLONES_FINE && is_push(g) &&
               clones_wait(&h->clones, who->connection, now.mono_ns);
        s->stats.waiting += wait;
    }
    s->stats.overloaded += e != ERR_OK;
    os_mutex_unlock(s->lock);
    if (e) {
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, OVERLOAD_MS,
                 e == ERR_FULL ? "too many hosts: raise limits.hosts" : "out of memory");
    } else if (verdict == CLONES_REFUSED) {
        refuse_clone(s, call);
    } else if (wait) {
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, WAIT_MS,
                 "another boot was this host a moment ago and may still be alive");
    } else if (verdict == CLONES_FOUND) {
        tell_clone(who, &boot);
    }
    if (!e && verdict != CLONES_REFUSED) {
        remember(s, who);
    }
    return e == ERR_OK && verdict != CLONES_REFUSED && !wait;
}

void session_answer(struct rpc_call *call, struct buf *reply, enum err e)
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
    session_count(s, &s->stats.heartbeats, NULL);
    reply.replied_ns = session_now(s).utc_ns;
    buf_init(&b, FRAME_HEADER_MAX);
    session_answer(call, &b, wire_rpc_heartbeat_reply_encode(&b, &reply));
}

void session_methods(struct session *s, struct rpc_method methods[SESSION_METHODS])
{
    methods[0] = (struct rpc_method){RPC_INGEST_HELLO, NET_AGENT, handle_hello, s};
    methods[1] = (struct rpc_method){RPC_INGEST_PUSH, NET_AGENT, session_push, s};
    methods[2] = (struct rpc_method){RPC_INGEST_HEARTBEAT, NET_AGENT, handle_heartbeat, s};
}
