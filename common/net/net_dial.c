/* Two sources say why a connection fails. TLS failures come from our engine, as sentences. Failures
 * below TLS (no listener, unknown name, no route) NNG keeps to itself; it only counts them per
 * dialer, so net_dial_problem looks at which counter has moved since it looked last.
 *
 * An end right behind our certificate is a refusal whose reason was lost, or a server that crashed
 * at that moment. The first one in a row is no verdict yet: who waits goes on waiting for the next
 * attempt. The second one is a refusal. One that follows a refusal is that refusal again, and what
 * was said of it stays: it has the reason. A refusal during a wait is the wait's answer, also when
 * the next attempt has failed for a lesser reason before the waiting thread came to run. */
#include "common/net/net_dial.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/net/net_nng.h"
#include "common/os/os.h"

#define RECONNECT_MIN_DEFAULT (500 * CLK_MS)
#define RECONNECT_MAX_DEFAULT (60 * CLK_S)
#define LOOK_NS               (50 * CLK_MS) /* between looks at NNG's counters */

/* NNG gives the counters of all sockets of the process at once. A program with thousands of them,
 * which all look for a reason when a server goes away, would do nothing else. */
#define MANY_DIALS   64u
#define MANY_LOOK_NS (3 * CLK_MS) /* for each of them, between looks of all together */

/* NNG's counters of failed attempts, see read_counters; those up to FAILED_TOLD are reported. */
enum { FAILED_REFUSED, FAILED_TIMEOUT, FAILED_OTHER, FAILED_TOLD, FAILED_COUNT = FAILED_TOLD + 5 };

struct net_dial {
    atomic_uint refs; /* the owner's, and one of the TLS configuration for on_fault */
    char address[NET_NNG_URL_MAX];
    uint32_t socket_id;
    struct nng_tls_config *cfg;
    int64_t min_ns, max_ns; /* pauses between attempts */
    bool wary;
    size_t receive_max;
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *change;
    bool hung_up;
    uint32_t dialer_id;
    unsigned pipes;
    int pipe;             /* id of the newest */
    int64_t first_ns;     /* bound of the first pause after the connection that stands or comes */
    uint64_t connections; /* so far */
    void (*on_change)(void *ctx);
    void *watcher;
    unsigned doubts;       /* ends in a row that may be refusals */
    uint64_t faults;       /* TLS failures so far, */
    uint64_t told;         /* of which so many were given to waiting callers, */
    uint64_t looked;       /* and so many had come when the counters were looked at, */
    uint64_t before;       /* and so many had come when this dialer began */
    uint64_t below;        /* failures below TLS that were seen */
    enum err fault;        /* the last problem, */
    struct errmsg problem; /* and its sentence; "" = none */
    bool waited;           /* a caller has waited since the dialer began */
    uint64_t refusals;     /* ERR_TRUST so far, */
    struct errmsg refusal; /* what was said of the newest, */
    enum tls_cause cause;  /* and its cause */
    uint64_t failed[FAILED_COUNT];
};

static atomic_uint n_dials;      /* in this process */
static atomic_llong many_looked; /* monotonic, the last look of many */

static void release(void *ctx)
{
    struct net_dial *d = ctx;

    if (atomic_fetch_sub(&d->refs, 1) != 1) {
        return;
    }
    atomic_fetch_sub(&n_dials, 1);
    os_cond_destroy(d->change);
    os_mutex_destroy(d->lock);
    mem_free(d);
}

/* The lock is held. */
static void changed(struct net_dial *d)
{
    os_cond_wake_all(d->change);
    if (d->on_change) {
        d->on_change(d->watcher);
    }
}

/* What fails, in one sentence; the lock is held. */
static void dial_problem(struct net_dial *d, enum err e, const char *text)
{
    d->fault = errmsg_set(&d->problem, e, "%s: %s", d->address, text);
}

/* The lock is held. */
static void dial_no_problem(struct net_dial *d)
{
    d->fault = ERR_OK;
    d->problem = (struct errmsg){""};
}

/* The engine reports why TLS failed. */
static void on_fault(void *ctx, enum err e, enum tls_cause cause, const char *text)
{
    struct net_dial *d = ctx;

    os_mutex_lock(d->lock);
    d->doubts = e == ERR_CLOSED ? d->doubts + 1 : 0;
    d->faults++;
    if (e != ERR_CLOSED || d->fault != ERR_TRUST) {
        d->fault = e != ERR_CLOSED ? e : d->doubts > 1 ? ERR_TRUST : ERR_OK;
        dial_problem(d, d->fault, text);
        if (d->fault == ERR_TRUST) {
            d->refusals++;
            d->refusal = d->problem;
            d->cause = cause;
        }
    }
    changed(d);
    os_mutex_unlock(d->lock);
}

/* Where NNG begins with its pauses, from the next one on. */
static void begin_pauses(nng_dialer dialer, int64_t first_ns)
{
    (void)nng_dialer_set_ms(dialer, NNG_OPT_RECONNMINT, net_nng_ms(first_ns)); /* or it is closed */
}

static void joined(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    struct net_dial *d = arg;
    int64_t first_ns = 0;

    os_mutex_lock(d->lock);
    if (ev == NNG_PIPE_EV_ADD_POST) {
        if (d->wary) { /* as if it were of no use; net_dial_useful tells otherwise */
            d->first_ns = d->first_ns * 2 < d->max_ns ? d->first_ns * 2 : d->max_ns;
            first_ns = d->first_ns;
        }
        d->pipes++;
        d->pipe = nng_pipe_id(pipe);
        d->connections++;
        d->doubts = 0;
        dial_no_problem(d);
    } else if (d->pipes > 0) {
        d->pipes--;
        if (d->pipes == 0 && d->fault == ERR_OK) {
            dial_problem(d, ERR_UNREACHABLE, "the connection was lost");
        }
    }
    changed(d);
    os_mutex_unlock(d->lock);
    if (first_ns > 0) {
        begin_pauses(nng_pipe_dialer(pipe), first_ns);
    }
}

static enum err create(struct net_dial **out, uint32_t socket_id, const struct net_dial_conf *conf)
{
    struct net_dial *d = mem_zalloc(sizeof *d);
    enum err e;

    if (!d) {
        return ERR_NOMEM;
    }
    atomic_init(&d->refs, 1);
    atomic_fetch_add(&n_dials, 1);
    snprintf(d->address, sizeof d->address, "%s", conf->address);
    d->socket_id = socket_id;
    d->min_ns = conf->reconnect_min_ns > 0 ? conf->reconnect_min_ns : RECONNECT_MIN_DEFAULT;
    d->max_ns = conf->reconnect_max_ns > 0 ? conf->reconnect_max_ns : RECONNECT_MAX_DEFAULT;
    d->first_ns = d->min_ns;
    d->wary = conf->wary;
    d->receive_max = conf->receive_max;
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

static int set_options(nng_dialer dialer, struct net_dial *d)
{
    int rv = nng_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, d->cfg);
    int64_t first_ns;

    os_mutex_lock(d->lock);
    first_ns = d->first_ns;
    os_mutex_unlock(d->lock);
    if (rv == 0) {
        rv = nng_dialer_set_ms(dialer, NNG_OPT_RECONNMINT, net_nng_ms(first_ns));
    }
    if (rv == 0) {
        /* 0 would be "never grow". */
        rv = nng_dialer_set_ms(dialer, NNG_OPT_RECONNMAXT, net_nng_ms(d->max_ns));
    }
    if (rv == 0) {
        rv = nng_dialer_set_size(dialer, NNG_OPT_RECVMAXSZ, d->receive_max + NET_NNG_ENVELOPE);
    }
    if (rv == 0) {
        rv = nng_dialer_set_bool(dialer, NNG_OPT_TCP_KEEPALIVE, true);
    }
    return rv;
}

/* One that does not dial yet. */
static enum err dialer_new(struct net_dial *d, nng_dialer *out)
{
    nng_socket s = {.id = d->socket_id};
    char url[NET_NNG_URL_MAX];
    enum err e = net_nng_url(url, d->address, NULL);

    if (!e) {
        e = net_nng_error(nng_dialer_create(out, s, url));
    }
    if (e) {
        return e;
    }
    e = net_nng_error(set_options(*out, d));
    if (e) {
        nng_dialer_close(*out);
    }
    return e;
}

static enum err dial(struct net_dial *d, const struct net_dial_conf *conf)
{
    struct net_policy policy = {.peer = conf->peer,
                                .message_max = conf->receive_max + NET_NNG_ENVELOPE,
                                .on_fault = on_fault,
                                .release = release,
                                .ctx = d};
    nng_dialer dialer;
    enum err e = net_engine_config(&d->cfg, conf->tls, &policy);

    if (e) {
        return e;
    }
    atomic_fetch_add(&d->refs, 1); /* the configuration's */
    e = dialer_new(d, &dialer);
    if (e) {
        return e;
    }
    d->dialer_id = (uint32_t)nng_dialer_id(dialer);
    return net_nng_error(nng_dialer_start(dialer, NNG_FLAG_NONBLOCK));
}

enum err net_dial_open(struct net_dial **out, uint32_t socket_id, const struct net_dial_conf *conf,
                       struct errmsg *why)
{
    nng_socket s = {.id = socket_id};
    char url[NET_NNG_URL_MAX];
    struct net_dial *d = NULL;
    enum err e = net_nng_url(url, conf->address, why);

    if (e) {
        nng_close(s);
        return e;
    }
    e = create(&d, socket_id, conf);
    if (!e && (nng_pipe_notify(s, NNG_PIPE_EV_ADD_POST, joined, d) != 0 ||
               nng_pipe_notify(s, NNG_PIPE_EV_REM_POST, joined, d) != 0)) {
        e = ERR_IO;
    }
    if (!e) {
        e = dial(d, conf);
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
        net_dial_watch(d, NULL, NULL); /* a handshake may be cleared away later than this */
        if (d->cfg) {
            nng_tls_config_free(d->cfg);
        }
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

uint64_t net_dial_connection(struct net_dial *d)
{
    uint64_t n;

    os_mutex_lock(d->lock);
    n = d->pipes > 0 ? d->connections : 0;
    os_mutex_unlock(d->lock);
    return n;
}

/* NNG's dialers cannot be woken from their pauses: another one takes over. Should there be no
 * memory for it, the old one goes on. */
static void dial_now(struct net_dial *d)
{
    nng_dialer dialer, old = {0};

    if (dialer_new(d, &dialer) != ERR_OK) {
        return;
    }
    os_mutex_lock(d->lock);
    old.id = d->dialer_id;
    d->dialer_id = (uint32_t)nng_dialer_id(dialer);
    memset(d->failed, 0, sizeof d->failed); /* its counters begin anew */
    d->before = d->faults;
    d->below = 0;
    d->told = d->faults; /* what went wrong before is no news */
    d->waited = false;
    d->refusals = 0;
    dial_no_problem(d);
    os_mutex_unlock(d->lock);
    nng_dialer_close(old);
    (void)nng_dialer_start(dialer, NNG_FLAG_NONBLOCK); /* fails only when it is closed already */
}

void net_dial_redial(struct net_dial *d)
{
    nng_pipe pipe = {0};
    bool connected;

    os_mutex_lock(d->lock);
    connected = d->pipes > 0;
    pipe.id = (uint32_t)d->pipe;
    os_mutex_unlock(d->lock);
    if (connected) {
        nng_pipe_close(pipe);
    } else {
        dial_now(d);
    }
}

void net_dial_useful(struct net_dial *d)
{
    nng_dialer dialer = {0};
    bool grown;

    os_mutex_lock(d->lock);
    grown = d->first_ns > d->min_ns;
    d->first_ns = d->min_ns;
    dialer.id = d->dialer_id;
    os_mutex_unlock(d->lock);
    if (grown) {
        begin_pauses(dialer, d->min_ns);
    }
}

void net_dial_pause(struct net_dial *d, int64_t max_ns)
{
    nng_dialer dialer = {0};

    os_mutex_lock(d->lock);
    dialer.id = d->dialer_id;
    os_mutex_unlock(d->lock);
    (void)nng_dialer_set_ms(dialer, NNG_OPT_RECONNMAXT, net_nng_ms(max_ns)); /* or it is closed */
}

enum err net_dial_fault(struct net_dial *d, struct errmsg *out)
{
    enum err e;

    os_mutex_lock(d->lock);
    e = d->pipes > 0 ? ERR_OK : d->fault;
    if (out) {
        *out = e ? d->problem : (struct errmsg){""};
    }
    os_mutex_unlock(d->lock);
    return e;
}

enum tls_cause net_dial_cause(struct net_dial *d)
{
    enum tls_cause cause;

    os_mutex_lock(d->lock);
    cause = d->cause;
    os_mutex_unlock(d->lock);
    return cause;
}

void net_dial_watch(struct net_dial *d, void (*on_change)(void *ctx), void *ctx)
{
    os_mutex_lock(d->lock);
    d->on_change = on_change;
    d->watcher = ctx;
    os_mutex_unlock(d->lock);
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

/* Whether the counters may be read now. */
static bool may_look(void)
{
    long long now_ns = os_mono_ns(), last_ns = atomic_load(&many_looked);
    unsigned n = atomic_load(&n_dials);

    return n < MANY_DIALS || (now_ns - last_ns >= n * MANY_LOOK_NS &&
                              atomic_compare_exchange_strong(&many_looked, &last_ns, now_ns));
}

/* The counters of dialer `id`; false when it is not there, or others have just looked. */
static bool read_counters(uint32_t id, uint64_t failed[FAILED_COUNT])
{
    static const char *const names[FAILED_COUNT] = {
        "refused", "timeout", "other", "disconnect", "canceled", "proto", "auth", "oom",
    };
    nng_stat *root;
    bool found = false;

    if (!may_look() || nng_stats_get(&root) != 0) {
        return false;
    }
    for (nng_stat *s = nng_stat_child(root); s && !found; s = nng_stat_next(s)) {
        found = strcmp(nng_stat_name(s), "dialer") == 0 && counter(s, "id") == id;
        for (size_t i = 0; found && i < FAILED_COUNT; i++) {
            failed[i] = counter(s, names[i]);
        }
    }
    nng_stats_free(root);
    return found;
}

/* Takes over a failure below TLS. An attempt that TLS failed is counted too, a moment after it was
 * told: only what was counted beyond those came from below. And what TLS told since the last look
 * is to be heard first. The lock is held. */
static void look(struct net_dial *d, const uint64_t failed[FAILED_COUNT])
{
    static const char *const texts[FAILED_TOLD] = {
        [FAILED_REFUSED] = "nobody listens there (connection refused)",
        [FAILED_TIMEOUT] = "no answer (timed out)",
        [FAILED_OTHER] = "cannot be reached: a wrong name, or no route there",
    };
    uint64_t all = 0, by_tls = d->faults - d->before;
    bool news;

    assert(d->before <= d->faults);
    for (size_t i = 0; i < FAILED_COUNT; i++) {
        all += failed[i];
    }
    news = all > by_tls && all - by_tls > d->below;
    d->below = news ? all - by_tls : d->below;
    for (size_t i = FAILED_TOLD; i-- > 0;) { /* the plainest word last */
        if (failed[i] > d->failed[i] && news && d->faults == d->looked && d->pipes == 0) {
            d->doubts = 0;
            dial_problem(d, ERR_UNREACHABLE, texts[i]);
        }
    }
    memcpy(d->failed, failed, sizeof d->failed);
    d->looked = d->faults;
}

/* Looks, and gives the last problem. */
static enum err problem(struct net_dial *d, struct errmsg *out)
{
    uint64_t failed[FAILED_COUNT] = {0};
    uint32_t id;
    bool known;
    enum err e;

    os_mutex_lock(d->lock);
    known = d->pipes == 0;
    id = d->dialer_id;
    os_mutex_unlock(d->lock);
    known = known && read_counters(id, failed);
    os_mutex_lock(d->lock);
    if (known && id == d->dialer_id) {
        look(d, failed);
    }
    e = d->fault;
    if (out) {
        *out = d->problem;
    }
    os_mutex_unlock(d->lock);
    return e;
}

void net_dial_problem(struct net_dial *d, struct errmsg *out)
{
    err_ignore(problem(d, out));
}

/* Refusals that are no answer to a wait that begins now; the first of a dialer counts all. */
static uint64_t refusals_before(struct net_dial *d)
{
    uint64_t n;

    os_mutex_lock(d->lock);
    n = d->waited ? d->refusals : 0;
    d->waited = true;
    os_mutex_unlock(d->lock);
    return n;
}

/* The last problem, or what a refusal after the first `before` said. */
static enum err answer(struct net_dial *d, uint64_t before, struct errmsg *out)
{
    enum err e = problem(d, out);

    os_mutex_lock(d->lock);
    if (d->refusals > before) {
        e = ERR_TRUST;
        if (out) {
            *out = d->refusal;
        }
    }
    os_mutex_unlock(d->lock);
    return e;
}

enum err net_dial_wait(struct net_dial *d, int64_t timeout_ns, struct errmsg *why)
{
    int64_t until = clk_add(os_mono_ns(), timeout_ns);
    uint64_t before = refusals_before(d);
    bool hung_up;

    for (;;) {
        int64_t next = clk_add(os_mono_ns(), LOOK_NS);
        enum err e;

        if (net_dial_connected(d)) {
            return ERR_OK;
        }
        e = answer(d, before, why);
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
