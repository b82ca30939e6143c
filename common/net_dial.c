/* Two sources say why a connection fails. TLS failures come from our engine, as sentences. Failures
 * below TLS (nobody listens, unknown name, no route) NNG keeps to itself; it only counts them per
 * dialer, so net_dial_problem looks at which counter has moved since it looked last.
 *
 * An end right behind our certificate is a refusal whose reason was lost, or a server that crashed
 * at that moment. The first one in a row is no verdict yet: who waits goes on waiting for the next
 * attempt. The second one is a refusal. */
#include "common/net_dial.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

#include "common/clk.h"
#include "common/mem.h"
#include "common/net_addr.h"
#include "common/net_impl.h"
#include "common/os.h"

#define RECONNECT_MIN_DEFAULT (500 * CLK_MS)
#define RECONNECT_MAX_DEFAULT (60 * CLK_S)
#define LOOK_NS               (50 * CLK_MS) /* between looks at NNG's counters */

/* NNG's counters of failed attempts, see read_counters. */
enum { FAILED_REFUSED, FAILED_TIMEOUT, FAILED_OTHER, FAILED_COUNT };

struct net_dial {
    atomic_uint refs; /* the owner's, and one of the TLS configuration for on_fault */
    char address[NET_ADDR_URL_MAX];
    uint32_t dialer_id;
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *change;
    bool hung_up;
    unsigned pipes;
    unsigned doubts; /* ends in a row that may be refusals */
    uint64_t faults; /* TLS failures so far, */
    uint64_t told;   /* of which so many were given to waiting callers, */
    uint64_t looked; /* and so many had come when the counters were looked at */
    enum err fault;  /* the last problem */
    char problem[400];
    uint64_t failed[FAILED_COUNT];
};

static void release(void *ctx)
{
    struct net_dial *d = ctx;

    if (atomic_fetch_sub(&d->refs, 1) != 1) {
        return;
    }
    os_cond_destroy(d->change);
    os_mutex_destroy(d->lock);
    mem_free(d);
}

/* The engine tells why TLS failed. */
static void on_fault(void *ctx, enum err e, const char *text)
{
    struct net_dial *d = ctx;

    os_mutex_lock(d->lock);
    d->doubts = e == ERR_CLOSED ? d->doubts + 1 : 0;
    d->faults++;
    if (e == ERR_CLOSED) {
        e = d->doubts > 1 ? ERR_TRUST : ERR_OK;
    }
    d->fault = e;
    snprintf(d->problem, sizeof d->problem, "%s: %s", d->address, text);
    os_cond_wake_all(d->change);
    os_mutex_unlock(d->lock);
}

static void joined(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    struct net_dial *d = arg;

    (void)pipe;
    os_mutex_lock(d->lock);
    if (ev == NNG_PIPE_EV_ADD_POST) {
        d->pipes++;
        d->doubts = 0;
        d->fault = ERR_OK;
        d->problem[0] = '\0';
    } else if (d->pipes > 0) {
        d->pipes--;
        if (d->pipes == 0 && d->fault == ERR_OK) {
            d->fault = ERR_UNREACHABLE;
            snprintf(d->problem, sizeof d->problem, "%s: the connection was lost", d->address);
        }
    }
    os_cond_wake_all(d->change);
    os_mutex_unlock(d->lock);
}

static enum err create(struct net_dial **out, const char *address)
{
    struct net_dial *d = mem_zalloc(sizeof *d);
    enum err e;

    if (!d) {
        return ERR_NOMEM;
    }
    atomic_init(&d->refs, 1);
    snprintf(d->address, sizeof d->address, "%s", address);
    e = os_mutex_create(&d->lock);
    if (!e) {
        e = os_cond_create(&d->change, d->lock);
    }
    if (e) {
        release(d);
        return e;
    }
    *out = d;
    return ERR_OK;
}

static int set_options(nng_dialer dialer, struct nng_tls_config *cfg,
                       const struct net_dial_conf *conf)
{
    int64_t min = conf->reconnect_min_ns > 0 ? conf->reconnect_min_ns : RECONNECT_MIN_DEFAULT;
    int64_t max = conf->reconnect_max_ns > 0 ? conf->reconnect_max_ns : RECONNECT_MAX_DEFAULT;
    int rv = nng_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, cfg);

    if (rv == 0) {
        rv = nng_dialer_set_ms(dialer, NNG_OPT_RECONNMINT, net_ms(min));
    }
    if (rv == 0) {
        /* 0 would be "never grow". */
        rv = nng_dialer_set_ms(dialer, NNG_OPT_RECONNMAXT, net_ms(max));
    }
    if (rv == 0) {
        rv = nng_dialer_set_size(dialer, NNG_OPT_RECVMAXSZ, conf->receive_max + NET_ENVELOPE);
    }
    if (rv == 0) {
        rv = nng_dialer_set_bool(dialer, NNG_OPT_TCP_KEEPALIVE, true);
    }
    return rv;
}

static enum err dial(struct net_dial *d, nng_socket s, const struct net_dial_conf *conf)
{
    struct net_policy policy = {.peer = conf->peer,
                                .message_max = conf->receive_max + NET_ENVELOPE,
                                .on_fault = on_fault,
                                .release = release,
                                .ctx = d};
    struct nng_tls_config *cfg;
    char url[NET_ADDR_URL_MAX];
    nng_dialer dialer;
    int rv;
    enum err e = net_addr_url(url, conf->address, NULL);

    if (!e) {
        e = net_error(nng_dialer_create(&dialer, s, url));
    }
    if (e) {
        return e;
    }
    e = net_engine_config(&cfg, conf->tls, &policy);
    if (e) {
        return e;
    }
    atomic_fetch_add(&d->refs, 1); /* the configuration's */
    d->dialer_id = (uint32_t)nng_dialer_id(dialer);
    rv = set_options(dialer, cfg, conf);
    nng_tls_config_free(cfg);
    if (rv == 0) {
        rv = nng_dialer_start(dialer, NNG_FLAG_NONBLOCK);
    }
    return net_error(rv);
}

enum err net_dial_open(struct net_dial **out, uint32_t socket_id, const struct net_dial_conf *conf,
                       struct errmsg *why)
{
    nng_socket s = {.id = socket_id};
    char url[NET_ADDR_URL_MAX];
    struct net_dial *d = NULL;
    enum err e = net_addr_url(url, conf->address, why);

    if (e) {
        nng_close(s);
        return e;
    }
    e = create(&d, conf->address);
    if (!e && (nng_pipe_notify(s, NNG_PIPE_EV_ADD_POST, joined, d) != 0 ||
               nng_pipe_notify(s, NNG_PIPE_EV_REM_POST, joined, d) != 0)) {
        e = ERR_IO;
    }
    if (!e) {
        e = dial(d, s, conf);
    }
    if (e) {
        nng_close(s);
        net_dial_close(d);
        return errmsg_set(why, e, "cannot connect to %s: %s", conf->address, err_text(e));
    }
    *out = d;
    return ERR_OK;
}

void net_dial_close(struct net_dial *d)
{
    if (d) {
        release(d);
    }
}

void net_dial_hang_up(struct net_dial *d)
{
    if (d) {
        os_mutex_lock(d->lock);
        d->hung_up = true;
        os_cond_wake_all(d->change);
        os_mutex_unlock(d->lock);
    }
}

bool net_dial_connected(struct net_dial *d)
{
    bool connected;

    os_mutex_lock(d->lock);
    connected = d->pipes > 0;
    os_mutex_unlock(d->lock);
    return connected;
}

/* The named counter among the children of `scope`. */
static uint64_t counter(nng_stat *scope, const char *name)
{
    for (nng_stat *s = nng_stat_child(scope); s; s = nng_stat_next(s)) {
        if (strcmp(nng_stat_name(s), name) == 0) {
            return nng_stat_value(s);
        }
    }
    return 0;
}

/* The counters of dialer `id`; false when it is not there. */
static bool read_counters(uint32_t id, uint64_t failed[FAILED_COUNT])
{
    nng_stat *root;
    bool found = false;

    if (nng_stats_get(&root) != 0) {
        return false;
    }
    for (nng_stat *s = nng_stat_child(root); s && !found; s = nng_stat_next(s)) {
        found = strcmp(nng_stat_name(s), "dialer") == 0 && counter(s, "id") == id;
        if (found) {
            failed[FAILED_REFUSED] = counter(s, "refused");
            failed[FAILED_TIMEOUT] = counter(s, "timeout");
            failed[FAILED_OTHER] = counter(s, "other");
        }
    }
    nng_stats_free(root);
    return found;
}

/* Takes over a failure below TLS when one was counted and no TLS failure came with it. The lock is
 * held. */
static void look(struct net_dial *d, const uint64_t failed[FAILED_COUNT])
{
    static const char *const texts[FAILED_COUNT] = {
        [FAILED_REFUSED] = "nobody listens there (connection refused)",
        [FAILED_TIMEOUT] = "no answer (timed out)",
        [FAILED_OTHER] = "cannot be reached: is the name right, is there a route?",
    };

    for (size_t i = 0; i < FAILED_COUNT; i++) {
        if (failed[i] > d->failed[i] && d->faults == d->looked && d->pipes == 0) {
            d->doubts = 0;
            d->fault = ERR_UNREACHABLE;
            snprintf(d->problem, sizeof d->problem, "%s: %s", d->address, texts[i]);
        }
        d->failed[i] = failed[i];
    }
    d->looked = d->faults;
}

/* Looks, and gives the last problem. */
static enum err problem(struct net_dial *d, struct errmsg *out)
{
    uint64_t failed[FAILED_COUNT] = {0};
    bool known = !net_dial_connected(d) && read_counters(d->dialer_id, failed);
    enum err e;

    os_mutex_lock(d->lock);
    if (known) {
        look(d, failed);
    }
    e = errmsg_set(out, d->fault, "%s", d->problem);
    os_mutex_unlock(d->lock);
    return e;
}

void net_dial_problem(struct net_dial *d, struct errmsg *out)
{
    err_ignore(problem(d, out));
}

enum err net_dial_wait(struct net_dial *d, int64_t timeout_ns, struct errmsg *why)
{
    int64_t until = clk_add(os_mono_ns(), timeout_ns);
    bool hung_up;

    for (;;) {
        int64_t next = clk_add(os_mono_ns(), LOOK_NS);
        enum err e;

        if (net_dial_connected(d)) {
            return ERR_OK;
        }
        e = problem(d, why);
        if (e) {
            return e;
        }
        if (os_mono_ns() >= until) {
            return why && why->text[0]
                       ? ERR_TIMEOUT
                       : errmsg_set(why, ERR_TIMEOUT, "%s: no connection in time", d->address);
        }
        os_mutex_lock(d->lock);
        if (!d->hung_up && d->pipes == 0 && d->fault == ERR_OK) {
            err_ignore(os_cond_wait_until(d->change, next < until ? next : until));
        }
        hung_up = d->hung_up;
        os_mutex_unlock(d->lock);
        if (hung_up) {
            return errmsg_set(why, ERR_CLOSED, "%s: given up", d->address);
        }
    }
}

enum err net_dial_wait_done(struct net_dial *d, const bool *done, int64_t mono_ns)
{
    enum err e = ERR_OK;
    uint64_t told;

    os_mutex_lock(d->lock);
    told = d->told;
    while (!*done && !e) {
        if (d->pipes == 0 && d->fault == ERR_TRUST && d->faults > told) {
            d->told = d->faults;
            e = ERR_TRUST;
        } else {
            e = os_cond_wait_until(d->change, mono_ns);
        }
    }
    e = *done ? ERR_OK : e;
    os_mutex_unlock(d->lock);
    return e;
}

void net_dial_done(struct net_dial *d, bool *done)
{
    os_mutex_lock(d->lock);
    *done = true;
    os_cond_wake_all(d->change);
    os_mutex_unlock(d->lock);
}
