/* A connection is let in on NNG_PIPE_EV_ADD_PRE, when TLS and the greeting are done and before any
 * message of it was read; then its requests find its identity by pipe id. Pipe ids are random and
 * wrap: they are never kept beyond the connection. */
#include "common/net_gate.h"

#include <stdio.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/net_addr.h"
#include "common/net_cert.h"
#include "common/net_impl.h"
#include "common/os.h"

#define BUCKETS 256u

struct net_gate {
    struct net_gate_conf conf; /* address and tls are not kept */
    char name[32];
    unsigned port;
    struct os_mutex *lock;             /* guards what follows */
    struct net_peer *buckets[BUCKETS]; /* by pipe */
    struct net_peer *same[BUCKETS];    /* by certificate */
    unsigned peers;
};

static struct net_peer **find(struct net_gate *g, uint32_t pipe_id)
{
    struct net_peer **p = &g->buckets[pipe_id % BUCKETS];

    while (*p && (*p)->pipe_id != pipe_id) {
        p = &(*p)->next;
    }
    return p;
}

/* The lock is held. */
static void drop_ref(struct net_peer *p)
{
    p->refs--;
    if (p->refs == 0) {
        mem_free(p);
    }
}

static bool same_holder(const struct net_identity *a, const struct net_identity *b)
{
    return memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
}

static struct net_peer **find_same(struct net_gate *g, const struct net_peer *peer)
{
    struct net_peer **p = &g->same[peer->who.fingerprint[0] % BUCKETS];

    while (*p && *p != peer) {
        p = &(*p)->next_same;
    }
    return p;
}

/* The oldest connection of p's holder when there are too many, with a reference. The lock is held.
 */
static struct net_peer *one_too_many(struct net_gate *g, const struct net_peer *p)
{
    struct net_peer *oldest = NULL;
    unsigned n = 0;

    for (struct net_peer *q = g->same[p->who.fingerprint[0] % BUCKETS]; q; q = q->next_same) {
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

static void cut_one_too_many(struct net_gate *g, const struct net_peer *p)
{
    struct net_peer *oldest;

    os_mutex_lock(g->lock);
    oldest = one_too_many(g, p);
    os_mutex_unlock(g->lock);
    if (oldest) {
        net_gate_cut(g, oldest, "too many connections of one certificate");
        os_mutex_lock(g->lock);
        drop_ref(oldest);
        os_mutex_unlock(g->lock);
    }
}

static enum err insert(struct net_gate *g, const struct net_identity *who, uint32_t pipe_id)
{
    struct net_peer *p = mem_zalloc(sizeof *p);
    struct net_peer **bucket = &g->buckets[pipe_id % BUCKETS];
    enum err e = ERR_FULL;

    if (!p) {
        return ERR_NOMEM;
    }
    p->who = *who;
    p->pipe_id = pipe_id;
    p->refs = 1;
    os_mutex_lock(g->lock);
    if (g->peers < g->conf.peers_max) {
        p->next = *bucket;
        *bucket = p;
        p->next_same = g->same[who->fingerprint[0] % BUCKETS];
        g->same[who->fingerprint[0] % BUCKETS] = p;
        g->peers++;
        e = ERR_OK;
    }
    os_mutex_unlock(g->lock);
    if (e) {
        mem_free(p);
        return e;
    }
    cut_one_too_many(g, p); /* p stays: its own departure cannot come before its callback ends */
    return ERR_OK;
}

static void log_refused(struct net_gate *g, const struct net_identity *who, const char *reason)
{
    char name[80], words[80];

    log_line(LOG_WARN, g->name, "refused", "listener=%s peer=%s name=%s reason=%s", g->name,
             who->address, log_str(name, sizeof name, who->name),
             log_str(words, sizeof words, reason));
}

static void admit(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    struct net_gate *g = arg;
    struct net_identity who;
    const char *denied;

    (void)ev;
    if (net_engine_identity(&who, pipe.id) != ERR_OK) {
        nng_pipe_close(pipe); /* the engine has said why */
        return;
    }
    denied = net_cert_denied(&who, g->conf.policy.roles, g->conf.policy.refuse_scoped);
    if (!denied) {
        enum err e = insert(g, &who, pipe.id);

        denied = e == ERR_FULL ? "too many connections" : e ? err_text(e) : NULL;
    }
    if (denied) {
        log_refused(g, &who, denied);
        nng_pipe_close(pipe);
    } else if (g->conf.on_peer) {
        g->conf.on_peer(g->conf.ctx, &who, true);
    }
}

static void depart(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    struct net_gate *g = arg;
    struct net_identity who;
    struct net_peer **at, *p;

    (void)ev;
    os_mutex_lock(g->lock);
    at = find(g, pipe.id);
    p = *at;
    if (p) {
        *at = p->next;
        *find_same(g, p) = p->next_same;
        g->peers--;
        who = p->who;
        drop_ref(p);
    }
    os_mutex_unlock(g->lock);
    if (p && g->conf.on_peer) {
        g->conf.on_peer(g->conf.ctx, &who, false);
    }
}

static enum err listen_on(struct net_gate *g, nng_socket s, const char *address,
                          struct net_tls *tls, struct errmsg *why)
{
    char url[NET_ADDR_URL_MAX];
    struct nng_tls_config *cfg = NULL;
    nng_listener l;
    size_t max = g->conf.policy.message_max;
    int port = 0, rv;
    enum err e = net_addr_url(url, address, why);

    if (e) {
        return e;
    }
    rv = nng_listener_create(&l, s, url);
    if (rv != 0) {
        return errmsg_set(why, net_error(rv), "cannot listen on %s: %s", address, nng_strerror(rv));
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
    return rv == 0 ? ERR_OK
                   : errmsg_set(why, net_error(rv), "cannot listen on %s: %s", address,
                                nng_strerror(rv));
}

enum err net_gate_open(struct net_gate **out, uint32_t socket_id, const struct net_gate_conf *conf,
                       struct errmsg *why)
{
    nng_socket s = {.id = socket_id};
    struct net_gate *g = mem_zalloc(sizeof *g);
    enum err e;

    if (!g) {
        return ERR_NOMEM;
    }
    g->conf = *conf;
    snprintf(g->name, sizeof g->name, "%s", conf->policy.name);
    e = os_mutex_create(&g->lock);
    if (!e && (nng_pipe_notify(s, NNG_PIPE_EV_ADD_PRE, admit, g) != 0 ||
               nng_pipe_notify(s, NNG_PIPE_EV_REM_POST, depart, g) != 0)) {
        e = ERR_IO;
    }
    if (!e) {
        e = listen_on(g, s, conf->address, conf->tls, why);
    }
    if (e) {
        nng_close(s); /* callbacks end before the gate does */
        net_gate_close(g);
        return e;
    }
    *out = g;
    return ERR_OK;
}

void net_gate_close(struct net_gate *g)
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
    os_mutex_destroy(g->lock);
    mem_free(g);
}

unsigned net_gate_port(const struct net_gate *g)
{
    return g->port;
}

unsigned net_gate_peers(struct net_gate *g)
{
    unsigned n;

    os_mutex_lock(g->lock);
    n = g->peers;
    os_mutex_unlock(g->lock);
    return n;
}

struct net_peer *net_gate_enter(struct net_gate *g, uint32_t pipe_id, unsigned *under_way)
{
    struct net_peer *p;

    os_mutex_lock(g->lock);
    p = *find(g, pipe_id);
    if (p) {
        p->refs++;
        p->under_way++;
        *under_way = p->under_way;
    }
    os_mutex_unlock(g->lock);
    return p;
}

void net_gate_leave(struct net_gate *g, struct net_peer *p)
{
    os_mutex_lock(g->lock);
    p->under_way--;
    drop_ref(p);
    os_mutex_unlock(g->lock);
}

void net_gate_cut(struct net_gate *g, struct net_peer *p, const char *reason)
{
    nng_pipe pipe = {.id = p->pipe_id};
    bool first;

    os_mutex_lock(g->lock);
    first = !p->cut;
    p->cut = true;
    os_mutex_unlock(g->lock);
    if (first) {
        log_refused(g, &p->who, reason);
        nng_pipe_close(pipe);
    }
}
