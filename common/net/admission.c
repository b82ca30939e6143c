/* A connection is let in on NNG_PIPE_EV_ADD_PRE, when TLS and the greeting are done and before any
 * message of it was read; then its requests find its identity by pipe id. Pipe ids are random and
 * wrap: they are never kept beyond the connection. */
#include "common/net/admission.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

#include "common/base/clk.h"
#include "common/base/heartbeat.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/net/net_nng.h"
#include "common/net/socket_tune.h"
#include "common/os/os.h"
#include "common/tls/tls_cert.h"

#define BUCKETS 256u
#define TELL_NS (60 * CLK_S)

/* -- the reaper: a thread that closes what waits too long -- */

/* How late we are is measured by an operation that needs no time and ends, like everything that
 * arrives, with a call on one of NNG's threads: what it takes is the time that work waits there. */

#define REAPER_CHECK_NS (20 * CLK_MS) /* while places are short */

struct reaper {
    struct conn_limits *crowd;
    void (*sweep)(void *ctx);
    void *ctx;
    atomic_bool ends;
    struct os_thread *thread;
    nng_aio *probe;
    struct heartbeat round; /* the thread's */
    atomic_llong probed_ns; /* since when it is under way; 0: it is not */
    atomic_llong lag_ns;    /* what the last one took */
};

static void reaper_probe_ended(void *arg)
{
    struct reaper *j = arg;

    atomic_store(&j->lag_ns, os_mono_ns() - atomic_load(&j->probed_ns));
    atomic_store(&j->probed_ns, 0);
}

/* How late we are, from the last probe or the one under way, and begins the next. */
static int64_t reaper_lag(struct reaper *j, int64_t now_ns)
{
    int64_t since_ns = atomic_load(&j->probed_ns), last_ns = atomic_load(&j->lag_ns);

    if (since_ns > 0) {
        return now_ns - since_ns > last_ns ? now_ns - since_ns : last_ns;
    }
    atomic_store(&j->probed_ns, now_ns);
    nng_sleep_aio(0, j->probe);
    return last_ns;
}

static void reaper_work(void *arg)
{
    struct reaper *j = arg;
    int64_t sweep_ns = os_mono_ns() + CLK_S;

    int64_t until_ns = sweep_ns;

    while (!atomic_load(&j->ends)) {
        int64_t now_ns;

        conn_limits_wait(j->crowd, until_ns);
        now_ns = os_mono_ns();
        heartbeat_work(&j->round, now_ns);
        if (now_ns >= sweep_ns) {
            j->sweep(j->ctx);
            sweep_ns = now_ns + CLK_S;
        }
        until_ns = sweep_ns;
        if (conn_limits_clear(j->crowd, now_ns, reaper_lag(j, now_ns)) &&
            now_ns + REAPER_CHECK_NS < sweep_ns) {
            until_ns = now_ns + REAPER_CHECK_NS;
        }
    }
}

static void reaper_stop(struct reaper *j)
{
    if (!j) {
        return;
    }
    atomic_store(&j->ends, true);
    conn_limits_wake(j->crowd);
    os_thread_join(j->thread);
    if (j->probe) {
        nng_aio_stop(j->probe);
        nng_aio_free(j->probe);
    }
    conn_limits_release(j->crowd);
    mem_free(j);
}

static enum err reaper_start(struct reaper **out, const char *name, struct conn_limits *crowd,
                             void (*sweep)(void *ctx), void *ctx)
{
    struct reaper *j = mem_zalloc(sizeof *j);
    enum err e;

    if (!j) {
        return ERR_NOMEM;
    }
    j->crowd = conn_limits_hold(crowd);
    j->sweep = sweep;
    j->ctx = ctx;
    atomic_init(&j->ends, false);
    e = nng_aio_alloc(&j->probe, reaper_probe_ended, j) == 0 ? ERR_OK : ERR_NOMEM;
    if (!e) {
        e = os_thread_start(&j->thread, name, reaper_work, j);
    }
    if (e) {
        reaper_stop(j);
        return e;
    }
    *out = j;
    return ERR_OK;
}

static int64_t reaper_stuck_ns(const struct reaper *j, int64_t now_ns)
{
    int64_t round_ns = heartbeat_busy_ns(&j->round, now_ns), since_ns = atomic_load(&j->probed_ns);
    int64_t probe_ns = since_ns > 0 && now_ns > since_ns ? now_ns - since_ns : 0;

    return probe_ns > round_ns ? probe_ns : round_ns;
}

/* -- peers -- */

struct admission {
    struct admission_conf conf; /* address and tls are not kept */
    char name[32];
    unsigned port;
    struct conn_limits *crowd;
    struct authorizer *judge;
    struct reaper *janitor;
    atomic_ullong admitted;
    uint64_t refused_told;             /* in the last line about it; the janitor's */
    int64_t refused_told_ns;           /* monotonic */
    struct os_mutex *lock;             /* guards what follows */
    struct net_peer *buckets[BUCKETS]; /* by pipe */
    struct net_peer *same[BUCKETS];    /* by holder */
    struct net_peer *newest;           /* of all, those gone but still referenced included */
    unsigned peers;
};

static struct net_peer **find(struct admission *g, uint32_t pipe_id)
{
    struct net_peer **p = &g->buckets[pipe_id % BUCKETS];

    while (*p && (*p)->pipe_id != pipe_id) {
        p = &(*p)->next;
    }
    return p;
}

/* The lock is held. */
static void drop_ref(struct admission *g, struct net_peer *p)
{
    assert(p->refs > 0);
    p->refs--;
    if (p->refs > 0) {
        return;
    }
    if (p->newer) {
        p->newer->older = p->older;
    } else {
        g->newest = p->older;
    }
    if (p->older) {
        p->older->newer = p->newer;
    }
    mem_free(p);
}

static void release(struct admission *g, struct net_peer *p)
{
    os_mutex_lock(g->lock);
    drop_ref(g, p);
    os_mutex_unlock(g->lock);
}

/* -- connections of one holder: a host with all its certificates, or another's certificate -- */

static bool same_holder(const struct net_identity *a, const struct net_identity *b)
{
    if (a->has_host || b->has_host) {
        return a->has_host && b->has_host && memcmp(a->host.b, b->host.b, sizeof a->host.b) == 0;
    }
    return memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
}

static struct net_peer **same_bucket(struct admission *g, const struct net_identity *who)
{
    return &g->same[who->has_host ? who->host.b[0] : who->fingerprint[0]];
}

static struct net_peer **find_same(struct admission *g, const struct net_peer *peer)
{
    struct net_peer **p = same_bucket(g, &peer->who);

    while (*p && *p != peer) {
        p = &(*p)->next_same;
    }
    return p;
}

/* The oldest connection of p's holder when there are too many, with a reference. The lock is held.
 */
static struct net_peer *one_too_many(struct admission *g, const struct net_peer *p)
{
    struct net_peer *oldest = NULL;
    unsigned n = 0;

    for (struct net_peer *q = *same_bucket(g, &p->who); q; q = q->next_same) {
        if (!q->cut && same_holder(&q->who, &p->who)) {
            oldest = q;
            n++;
        }
    }
    if (n <= g->conf.same_max) {
        return NULL;
    }
    oldest->refs++;
    return oldest;
}

static void cut_one_too_many(struct admission *g, const struct net_peer *p)
{
    struct net_peer *oldest;

    if (g->conf.policy.strangers) {
        return; /* they have no certificate to tell them apart */
    }
    os_mutex_lock(g->lock);
    oldest = one_too_many(g, p);
    os_mutex_unlock(g->lock);
    if (oldest) {
        admission_cut(g, oldest, NET_CROWDED,
                      oldest->who.has_host ? "too many connections of one host"
                                           : "too many connections of one certificate");
        release(g, oldest);
    }
}

/* -- coming and going -- */

/* The lock is held. */
static void link_peer(struct admission *g, struct net_peer *p)
{
    struct net_peer **bucket = &g->buckets[p->pipe_id % BUCKETS];
    struct net_peer **same = same_bucket(g, &p->who);

    p->next = *bucket;
    *bucket = p;
    p->next_same = *same;
    *same = p;
    p->older = g->newest;
    if (g->newest) {
        g->newest->newer = p;
    }
    g->newest = p;
    g->peers++;
}

/* Who gives a stranger its place when all are taken: the idle one that came first, with a
 * reference; NULL: nobody, or many are on their way out already. The lock is held. */
static struct net_peer *in_the_way(struct admission *g)
{
    struct net_peer *oldest = NULL;

    if (!g->conf.policy.strangers || g->peers >= 2 * g->conf.peers_max) {
        return NULL;
    }
    for (struct net_peer *p = g->newest; p; p = p->older) {
        if (p->state != PEER_GONE && !p->cut && p->under_way == 0) {
            oldest = p;
        }
    }
    if (oldest) {
        oldest->refs++;
    }
    return oldest;
}

/* out: with a reference, and one for the table. *instead: who has to go, or NULL */
static enum err insert(struct net_peer **out, struct net_peer **instead, struct admission *g,
                       const struct net_identity *who)
{
    struct net_peer *p = mem_zalloc(sizeof *p);
    bool room;

    if (!p) {
        return ERR_NOMEM;
    }
    p->who = *who;
    p->pipe_id = who->connection;
    p->refs = 2;
    p->heard_ns = os_mono_ns();
    os_mutex_lock(g->lock);
    room = g->peers < g->conf.peers_max;
    *instead = room ? NULL : in_the_way(g);
    if (room || *instead) {
        link_peer(g, p);
    }
    os_mutex_unlock(g->lock);
    if (!room && !*instead) {
        mem_free(p);
        return ERR_FULL;
    }
    *out = p;
    return ERR_OK;
}

static void refuse(struct admission *g, const struct net_identity *who, enum net_cause cause,
                   const char *reason)
{
    nng_pipe pipe = {.id = who->connection};
    char name[80], words[80];

    conn_limits_count(g->crowd, cause);
    log_line(LOG_WARN, g->name, "refused", "listener=%s peer=%s name=%s reason=%s", g->name,
             who->address, log_str(name, sizeof name, who->name),
             log_str(words, sizeof words, reason));
    nng_pipe_close(pipe);
}

/* What the certificate says by itself. A session that was resumed was not verified again. */
static const char *denied(const struct admission *g, const struct net_identity *who,
                          enum net_cause *cause)
{
    int64_t now_ns = os_utc_ns();

    if (g->conf.policy.strangers) {
        return NULL;
    }
    *cause = NET_EXPIRED;
    if (now_ns > who->not_after_ns) {
        return "certificate expired";
    }
    if (now_ns < who->not_before_ns) {
        return "certificate not yet valid";
    }
    *cause = NET_ROLE;
    return tls_cert_denied(who, g->conf.policy.roles, g->conf.policy.refuse_scoped);
}

/* Tells the owner. It hears of the coming first, although the connection may end meanwhile. */
static void announce(struct admission *g, struct net_peer *p)
{
    bool gone;

    os_mutex_lock(g->lock);
    gone = p->cut || p->state == PEER_GONE;
    os_mutex_unlock(g->lock);
    if (gone) {
        return;
    }
    atomic_fetch_add(&g->admitted, 1);
    if (g->conf.on_peer) {
        g->conf.on_peer(g->conf.ctx, &p->who, true);
    }
    os_mutex_lock(g->lock);
    gone = p->state == PEER_GONE;
    p->state = gone ? PEER_GONE : PEER_INSIDE;
    os_mutex_unlock(g->lock);
    if (gone && g->conf.on_peer) {
        g->conf.on_peer(g->conf.ctx, &p->who, false);
    }
}

/* It is in the table before it is judged: so a review either finds it, or was preceded by what the
 * judge knows here. */
static void let_in(struct admission *g, const struct net_identity *who)
{
    struct net_peer *p, *instead = NULL;
    const char *reason;
    enum err e = insert(&p, &instead, g, who);

    if (e) {
        refuse(g, who, NET_CROWDED, e == ERR_FULL ? "too many connections" : err_text(e));
        return;
    }
    if (instead) {
        admission_cut(g, instead, NET_CROWDED, "idle, and its place was needed");
        release(g, instead);
    }
    reason = authorizer_ask(g->judge, who);
    if (reason) {
        admission_cut(g, p, NET_JUDGED, reason);
    } else {
        cut_one_too_many(g, p);
        announce(g, p);
    }
    release(g, p);
}

static void admit(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    struct admission *g = arg;
    struct net_identity who;
    enum net_cause cause = NET_ROLE;
    const char *reason;

    (void)ev;
    if (net_engine_identity(&who, pipe.id) != ERR_OK) {
        nng_pipe_close(pipe); /* the engine has said why */
        return;
    }
    who.connection = (uint32_t)pipe.id;
    reason = denied(g, &who, &cause);
    if (reason) {
        refuse(g, &who, cause, reason);
    } else {
        let_in(g, &who);
    }
}

static void depart(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    struct admission *g = arg;
    struct net_identity who;
    struct net_peer **at, *p;
    bool tell = false;

    (void)ev;
    os_mutex_lock(g->lock);
    at = find(g, pipe.id);
    p = *at;
    if (p) {
        *at = p->next;
        *find_same(g, p) = p->next_same;
        assert(g->peers > 0 && p->state != PEER_GONE);
        g->peers--;
        who = p->who;
        tell = p->state == PEER_INSIDE;
        p->state = PEER_GONE;
        drop_ref(g, p);
    }
    os_mutex_unlock(g->lock);
    if (tell && g->conf.on_peer) {
        g->conf.on_peer(g->conf.ctx, &who, false);
    }
}

/* The newest of all, or the next older one, with a reference; takes the one to `p`. One that left
 * keeps its place in the list while it is held, so that the walk goes on from there. */
static struct net_peer *walk(struct admission *g, struct net_peer *p)
{
    struct net_peer *next;

    os_mutex_lock(g->lock);
    next = p ? p->older : g->newest;
    while (next && next->state == PEER_GONE) {
        next = next->older;
    }
    if (next) {
        next->refs++;
    }
    if (p) {
        drop_ref(g, p);
    }
    os_mutex_unlock(g->lock);
    return next;
}

void admission_review(struct admission *g)
{
    for (struct net_peer *p = walk(g, NULL); p; p = walk(g, p)) {
        const char *reason = authorizer_ask(g->judge, &p->who);

        if (reason) {
            admission_cut(g, p, NET_JUDGED, reason);
        }
    }
}

unsigned admission_disconnect(struct admission *g, const char *name)
{
    unsigned n = 0;

    for (struct net_peer *p = walk(g, NULL); p; p = walk(g, p)) {
        if (strcmp(p->who.name, name) == 0) {
            n += admission_cut(g, p, NET_JUDGED, "disconnected by an administrator");
        }
    }
    return n;
}

/* -- once a second -- */

static bool is_silent(struct admission *g, const struct net_peer *p, int64_t now_ns)
{
    bool silent;

    os_mutex_lock(g->lock);
    silent = g->conf.silent_ns > 0 && p->under_way == 0 && now_ns - p->heard_ns > g->conf.silent_ns;
    os_mutex_unlock(g->lock);
    return silent;
}

static uint64_t refused(const struct admission *g)
{
    uint64_t n = 0;

    for (int cause = 0; cause < NET_CAUSES; cause++) {
        n += conn_limits_counted(g->crowd, (enum net_cause)cause);
    }
    return n;
}

/* At most once a minute, and only when a connection was refused: what the log's limit left out. */
static void log_refusals(struct admission *g, int64_t now_ns)
{
    struct net_server_stats s;
    uint64_t n = refused(g);

    if (n == g->refused_told || now_ns - g->refused_told_ns < TELL_NS) {
        return;
    }
    admission_stats(g, &s);
    log_line(LOG_INFO, g->name, "refusals",
             "listener=%s new=%" PRIu64 " handshake=%" PRIu64 " role=%" PRIu64 " judged=%" PRIu64
             " expired=%" PRIu64 " crowded=%" PRIu64 " silent=%" PRIu64 " late_reply=%" PRIu64
             " oversize=%" PRIu64 " peers=%" PRIu64,
             g->name, n - g->refused_told, s.handshake, s.role, s.judged, s.expired, s.crowded,
             s.silent, s.late_reply, s.oversize, s.peers);
    g->refused_told = n;
    g->refused_told_ns = now_ns;
}

static void sweep(void *arg)
{
    struct admission *g = arg;
    int64_t utc_ns = os_utc_ns(), now_ns = os_mono_ns();

    log_refusals(g, now_ns);
    for (struct net_peer *p = walk(g, NULL); p; p = walk(g, p)) {
        if (!g->conf.policy.strangers && utc_ns > p->who.not_after_ns) {
            admission_cut(g, p, NET_EXPIRED, "certificate expired");
        } else if (is_silent(g, p, now_ns)) {
            admission_cut(g, p, NET_SILENT, "silent for too long");
        }
    }
}

/* -- opening and closing -- */

static enum err listen_on(struct admission *g, nng_socket s, const char *address,
                          struct tls_config *tls, struct errmsg *why)
{
    char url[NET_NNG_URL_MAX];
    struct nng_tls_config *cfg = NULL;
    nng_listener l;
    size_t max = g->conf.policy.message_max;
    int port = 0, rv;
    enum err e = net_nng_url(url, address, why);

    if (e) {
        return e;
    }
    rv = nng_listener_create(&l, s, url);
    if (rv != 0) {
        return net_nng_refused(rv, address, why);
    }
    e = net_engine_config(&cfg, tls, &g->conf.policy);
    if (e) {
        return e;
    }
    rv = nng_listener_set_ptr(l, NNG_OPT_TLS_CONFIG, cfg);
    if (rv == 0) {
        /* 0 would be no limit at all. */
        rv = nng_listener_set_size(l, NNG_OPT_RECVMAXSZ, max > 0 ? max : 1);
    }
    if (rv == 0) {
        /* A peer that lost its power says no goodbye: the system finds out, if slowly. */
        rv = nng_listener_set_bool(l, NNG_OPT_TCP_KEEPALIVE, true);
    }
    if (rv == 0) {
        rv = nng_listener_start(l, 0);
    }
    if (rv == 0) {
        rv = nng_listener_get_int(l, NNG_OPT_TCP_BOUND_PORT, &port);
    }
    nng_tls_config_free(cfg);
    g->port = (unsigned)port;
    return rv == 0 ? ERR_OK : net_nng_refused(rv, address, why);
}

static void tune(const struct admission *g)
{
    enum err e = socket_tune(g->port);

    if (e && e != ERR_UNSUPPORTED) {
        log_line(LOG_WARN, g->name, "untuned", "listener=%s reason=%s", g->name, err_name(e));
    }
}

enum err admission_open(struct admission **out, uint32_t socket_id,
                        const struct admission_conf *conf, struct errmsg *why)
{
    const struct conn_limits_conf crowd = {conf->handshakes_max, conf->same_address_max};
    nng_socket s = {.id = socket_id};
    struct admission *g = mem_zalloc(sizeof *g);
    enum err e;

    if (!g) {
        return ERR_NOMEM;
    }
    g->conf = *conf;
    snprintf(g->name, sizeof g->name, "%s", conf->policy.name);
    g->refused_told_ns = os_mono_ns();
    e = conn_limits_create(&g->crowd, &crowd);
    g->conf.policy.crowd = g->crowd;
    if (!e) {
        e = authorizer_create(&g->judge, conf->tls, conf->judge, conf->judge_ctx);
        g->conf.policy.judge = g->judge;
    }
    if (!e) {
        e = os_mutex_create(&g->lock);
    }
    if (!e && (nng_pipe_notify(s, NNG_PIPE_EV_ADD_PRE, admit, g) != 0 ||
               nng_pipe_notify(s, NNG_PIPE_EV_REM_POST, depart, g) != 0)) {
        e = ERR_IO;
    }
    if (!e) {
        e = listen_on(g, s, conf->address, conf->tls, why);
    }
    if (!e) {
        tune(g);
        e = reaper_start(&g->janitor, g->name, g->crowd, sweep, g);
    }
    if (e) {
        nng_close(s); /* callbacks end before the gate does */
        admission_stop(g);
        admission_close(g);
        return e;
    }
    *out = g;
    return ERR_OK;
}

void admission_stop(struct admission *g)
{
    if (g) {
        reaper_stop(g->janitor);
        g->janitor = NULL;
        authorizer_end(g->judge);
    }
}

void admission_close(struct admission *g)
{
    if (!g) {
        return;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        /* Left only by a connection that closed while it was being let in. */
        while (g->buckets[i]) {
            struct net_peer *p = g->buckets[i];

            g->buckets[i] = p->next;
            mem_free(p);
        }
    }
    authorizer_release(g->judge);
    conn_limits_release(g->crowd);
    os_mutex_destroy(g->lock);
    mem_free(g);
}

unsigned admission_port(const struct admission *g)
{
    return g->port;
}

unsigned admission_peers(struct admission *g)
{
    unsigned n;

    os_mutex_lock(g->lock);
    n = g->peers;
    os_mutex_unlock(g->lock);
    return n;
}

struct net_peer *admission_enter(struct admission *g, uint32_t pipe_id, unsigned *under_way)
{
    struct net_peer *p;

    os_mutex_lock(g->lock);
    p = *find(g, pipe_id);
    if (p) {
        p->refs++;
        p->under_way++;
        p->heard_ns = os_mono_ns();
        *under_way = p->under_way;
    }
    os_mutex_unlock(g->lock);
    return p;
}

void admission_leave(struct admission *g, struct net_peer *p)
{
    os_mutex_lock(g->lock);
    assert(p->under_way > 0);
    p->under_way--;
    p->heard_ns = os_mono_ns();
    drop_ref(g, p);
    os_mutex_unlock(g->lock);
}

bool admission_cut(struct admission *g, struct net_peer *p, enum net_cause cause,
                   const char *reason)
{
    bool first;

    os_mutex_lock(g->lock);
    first = !p->cut && p->state != PEER_GONE;
    p->cut = true;
    os_mutex_unlock(g->lock);
    if (first) {
        refuse(g, &p->who, cause, reason);
    }
    return first;
}

int64_t admission_stuck_ns(const struct admission *g, int64_t now_ns)
{
    return reaper_stuck_ns(g->janitor, now_ns);
}

void admission_stats(struct admission *g, struct net_server_stats *out)
{
    *out = (struct net_server_stats){
        .admitted = atomic_load(&g->admitted),
        .peers = admission_peers(g),
        .handshake = conn_limits_counted(g->crowd, NET_HANDSHAKE),
        .role = conn_limits_counted(g->crowd, NET_ROLE),
        .judged = conn_limits_counted(g->crowd, NET_JUDGED),
        .expired = conn_limits_counted(g->crowd, NET_EXPIRED),
        .crowded = conn_limits_counted(g->crowd, NET_CROWDED),
        .silent = conn_limits_counted(g->crowd, NET_SILENT),
        .late_reply = conn_limits_counted(g->crowd, NET_LATE_REPLY),
        .oversize = conn_limits_counted(g->crowd, NET_OVERSIZE),
    };
}
