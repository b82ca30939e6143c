#include "agent/enroll/renew.h"

#include <stdio.h>
#include <string.h>

#include "agent/status/event_log.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/tls/cert_reloader.h"

#define DAY_NS         (24 * 3600 * CLK_S)
#define CALL_NS        (5 * CLK_S)
#define LOOK_NS        (5 * CLK_S) /* at the clock, which may be set, and at the files */
#define PAUSE_MIN_NS   CLK_S
#define PAUSE_MAX_NS   (3600 * CLK_S)
#define PAUSE_AFTER_NS (600 * CLK_S) /* at most, once it has expired, */
#define PAUSE_AWAY_NS  (30 * CLK_S)  /* and at most while nobody answers: nothing is sent then */
#define REPLY_MAX      (16u << 10)

static const unsigned warn_days[] = {30, 7, 1};

struct renew {
    struct renew_conf conf;
    struct os_thread *thread;

    /* of the thread alone */
    int64_t due_ns;   /* UTC, of the next try */
    int64_t pause_ns; /* before the one behind it */
    unsigned warned;  /* of warn_days */
    bool told;        /* that it has expired */
    struct cert_reloader files;

    struct os_mutex *lock; /* guards all below */
    struct os_cond *bell;  /* stopping */
    bool stopping;
    struct net_identity who; /* of the certificate in use */
    struct renew_status status;
};

/* -- when -- */

int64_t renew_due_ns(const struct net_identity *who, unsigned part)
{
    int64_t life_ns = who->not_after_ns - who->not_before_ns;

    return who->not_before_ns + life_ns / 3 * 2 + life_ns / 12 / 1024 * (int64_t)(part & 1023);
}

static unsigned chance(void)
{
    unsigned v = 0;

    err_ignore(os_random(&v, sizeof v)); /* without it all come at once, no more */
    return v & 1023;
}

/* Between half of it and all. */
static int64_t scattered(int64_t ns)
{
    return ns / 2 + ns / 2 / 1024 * (int64_t)chance();
}

int64_t renew_pause_ns(int64_t *grown_ns, int64_t left_ns, enum err e)
{
    int64_t after_ns = e == ERR_UNREACHABLE ? PAUSE_AWAY_NS : PAUSE_AFTER_NS;
    int64_t most_ns = left_ns > 0 ? left_ns / 8 : after_ns;
    int64_t pause_ns = *grown_ns;

    most_ns = most_ns < PAUSE_MIN_NS ? PAUSE_MIN_NS : most_ns;
    pause_ns = pause_ns < most_ns ? pause_ns : most_ns;
    *grown_ns = pause_ns < PAUSE_MAX_NS / 2 ? pause_ns * 2 : PAUSE_MAX_NS;
    return pause_ns;
}

static int64_t utc(const struct renew *r)
{
    return r->conf.utc_ns ? r->conf.utc_ns() : os_utc_ns();
}

/* What is in use from now on; nobody has failed to get it yet. */
static void begin_life(struct renew *r)
{
    os_mutex_lock(r->lock);
    tls_config_identity(r->conf.tls, &r->who);
    r->status.not_after_ns = r->who.not_after_ns;
    r->status.why[0] = '\0';
    os_mutex_unlock(r->lock);
    r->due_ns = renew_due_ns(&r->who, chance());
    r->pause_ns = PAUSE_MIN_NS;
    r->warned = 0;
    r->told = false;
}

/* Somebody else may have put an authority beside the one there, or another certificate. */
static void follow_files(struct renew *r)
{
    char until[CLK_TEXT], quoted[320];
    struct errmsg why = {""};
    bool news;
    enum err e = cert_reloader_poll(&r->files, &news, &why);

    if (news && e) {
        log_line(LOG_WARN, "trust", "not_reloaded", "why=%s",
                 log_str(quoted, sizeof quoted, why.text[0] ? why.text : err_text(e)));
    } else if (news) {
        begin_life(r);
        if (r->conf.renewed) {
            r->conf.renewed(r->conf.ctx);
        }
        log_line(LOG_INFO, "trust", "reloaded", "until=%s",
                 clk_format_utc(until, sizeof until, r->who.not_after_ns, 0));
    }
}

/* Until the next try is due by a clock that may be set meanwhile. False: stopping. */
static bool wait_until_due(struct renew *r)
{
    bool stopping;

    for (;;) {
        int64_t left_ns = r->due_ns - utc(r);

        os_mutex_lock(r->lock);
        r->status.next_ns = r->due_ns;
        if (!r->stopping && left_ns > 0) {
            (void)os_cond_wait_until(r->bell,
                                     os_mono_ns() + (left_ns < LOOK_NS ? left_ns : LOOK_NS));
        }
        stopping = r->stopping;
        os_mutex_unlock(r->lock);
        if (stopping || left_ns <= 0) {
            return !stopping;
        }
        follow_files(r);
    }
}

/* -- what is told -- */

static void warn(struct renew *r, int64_t left_ns, const char *why)
{
    char until[CLK_TEXT], quoted[320];
    unsigned reached = 0;

    while (reached < sizeof warn_days / sizeof *warn_days &&
           left_ns <= warn_days[reached] * DAY_NS) {
        reached++;
    }
    if (reached <= r->warned && (left_ns > 0 || r->told)) {
        return;
    }
    r->warned = reached;
    r->told = left_ns <= 0;
    log_note(EVENT_LOG_CERTIFICATE, LOG_WARN, "agent", "certificate", "days=%lld ends=%s why=%s",
             (long long)(left_ns / DAY_NS),
             clk_format_utc(until, sizeof until, r->who.not_after_ns, 0),
             log_str(quoted, sizeof quoted, why));
}

static void succeeded(struct renew *r)
{
    char until[CLK_TEXT];

    begin_life(r);
    os_mutex_lock(r->lock);
    r->status.renewed++;
    os_mutex_unlock(r->lock);
    if (r->conf.renewed) {
        r->conf.renewed(r->conf.ctx);
    }
    log_line(LOG_INFO, "trust", "renewed", "until=%s",
             clk_format_utc(until, sizeof until, r->who.not_after_ns, 0));
}

static void failed(struct renew *r, const struct errmsg *why, int64_t left_ns)
{
    char quoted[320];
    bool news;

    os_mutex_lock(r->lock);
    news = strncmp(r->status.why, why->text, sizeof r->status.why - 1) != 0;
    r->status.failed++;
    (void)snprintf(r->status.why, sizeof r->status.why, "%s", why->text);
    os_mutex_unlock(r->lock);
    if (news) {
        log_line(LOG_WARN, "trust", "renew_failed", "why=%s",
                 log_str(quoted, sizeof quoted, why->text));
    }
    warn(r, left_ns, why->text);
}

/* -- the tries -- */

/* Over the connection of the certificate that ends. */
static enum err call(struct renew *r, const struct enroll_exchange *x, struct buf *reply,
                     struct errmsg *why)
{
    struct wire_renew *m = mem_zalloc(sizeof *m);
    struct rpc_result result = {0};
    struct buf request;
    enum err e = ERR_NOMEM;

    buf_init(&request, REPLY_MAX);
    if (m) {
        memcpy(m->csr, x->csr, x->csr_n);
        m->csr_n = x->csr_n;
        e = wire_enroll_renew_encode(&request, m);
    }
    if (!e) {
        e = r->conf.call(r->conf.ctx, RPC_INGEST_RENEW, request.p, request.n, CALL_NS, reply,
                         &result);
    }
    buf_fini(&request);
    mem_free(m);
    if (e == ERR_REFUSED) {
        return errmsg_set(why, e, "the collector refuses to renew the certificate: %s",
                          result.message[0] ? result.message : frame_code_name(result.code));
    }
    return e ? errmsg_set(why, e, "the certificate cannot be renewed: %s",
                          e == ERR_UNREACHABLE ? "no collector is connected" : err_text(e))
             : ERR_OK;
}

static enum err renew_valid(struct renew *r, struct errmsg *why)
{
    struct enroll_result got;
    struct enroll_exchange x;
    struct buf reply;
    enum err e = enroll_exchange_begin(&x, r->who.name, why);

    if (e) {
        return e;
    }
    buf_init(&reply, REPLY_MAX);
    e = call(r, &x, &reply, why);
    if (!e) {
        e = enroll_exchange_take(&got, &x, &reply, &r->who, NULL, &r->conf.files, why);
    }
    buf_fini(&reply);
    enroll_exchange_end(&x);
    return e;
}

static enum err renew_expired(struct renew *r, struct errmsg *why)
{
    struct enroll_result got;
    struct enroll_ask ask = {.address = r->conf.enroll_address,
                             .server_name = r->conf.server_name,
                             .files = &r->conf.files,
                             .timeout_ns = CALL_NS};

    if (!ask.address) {
        return errmsg_set(why, ERR_NOTFOUND,
                          "the certificate has expired, and neither collector.enroll_address nor "
                          "collector.addresses says whom to ask for another");
    }
    return enroll_run(&got, &ask, why);
}

/* A try that was cut between its files is finished first; the certificate there may be new then.
 * Whether it has ended is the collector's to say: where a connection stands it has not. */
static enum err attempt(struct renew *r, struct errmsg *why)
{
    enum err e = trust_files_mend(&r->conf.files, why);
    bool news;

    if (!e) {
        e = renew_valid(r, why);
    }
    if (e == ERR_UNREACHABLE && utc(r) >= r->who.not_after_ns) {
        e = renew_expired(r, why);
    }
    return e ? e : cert_reloader_poll(&r->files, &news, why);
}

/* What is due at once, by our clock, is no success: another certificate would be no better, and
 * they would follow each other without a pause. */
static enum err check_clock(struct renew *r, int64_t grown_ns, struct errmsg *why)
{
    if (r->due_ns > utc(r)) {
        return ERR_OK;
    }
    r->pause_ns = grown_ns;
    return errmsg_set(why, ERR_TIMEOUT,
                      "the new certificate is old already by this host's clock: is it right?");
}

static void renew_run(void *arg)
{
    struct renew *r = arg;

    while (wait_until_due(r)) {
        int64_t grown_ns = r->pause_ns;
        struct errmsg why = {""};
        enum err e = attempt(r, &why);

        if (!e) {
            succeeded(r);
            e = check_clock(r, grown_ns, &why);
        }
        if (e) {
            int64_t left_ns = r->who.not_after_ns - utc(r);

            failed(r, &why, left_ns);
            r->due_ns = utc(r) + scattered(renew_pause_ns(&r->pause_ns, left_ns, e));
        }
    }
}

enum err renew_start(struct renew **out, const struct renew_conf *conf)
{
    struct renew *r = mem_zalloc(sizeof *r);
    enum err e = r ? os_mutex_create(&r->lock) : ERR_NOMEM;

    if (!e) {
        e = os_cond_create(&r->bell, r->lock);
    }
    if (!e) {
        r->conf = *conf;
        cert_reloader_begin(&r->files, conf->tls, conf->files.ca, conf->files.cert, NULL);
        begin_life(r);
        e = os_thread_start(&r->thread, "renew", renew_run, r);
    }
    if (e) {
        renew_stop(r);
        return e;
    }
    *out = r;
    return ERR_OK;
}

void renew_end(struct renew *r)
{
    if (r) {
        os_mutex_lock(r->lock);
        r->stopping = true;
        os_cond_wake_all(r->bell);
        os_mutex_unlock(r->lock);
    }
}

void renew_stop(struct renew *r)
{
    if (!r) {
        return;
    }
    if (r->thread) {
        renew_end(r);
        os_thread_join(r->thread);
    }
    os_cond_destroy(r->bell);
    os_mutex_destroy(r->lock);
    mem_free(r);
}

void renew_status(struct renew *r, struct renew_status *out)
{
    os_mutex_lock(r->lock);
    *out = r->status;
    os_mutex_unlock(r->lock);
}
