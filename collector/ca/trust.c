#include "collector/ca/trust.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/heartbeat.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/tls/cert_reloader.h"

#define CHECK_NS     (250 * CLK_MS)
#define FILES_NS     (5 * CLK_S)
#define HOUR_NS      (3600 * CLK_S)
#define DAY_NS       (24 * HOUR_NS)
#define REASON_BYTES 600u

struct trust {
    struct tls_config *tls;
    char *ca, *cert, *crl;
    struct ca_db *db;
    struct enroll_service *enroll;
    void (*on_revoked)(void *ctx);
    void *ctx;
    struct os_thread *thread;
    struct heartbeat round; /* the thread's */
    struct os_mutex *lock;
    struct os_cond *wake;
    bool stop; /* guarded by lock */
    /* the thread's own */
    bool failing; /* the book could not be read the last time */
    struct cert_reloader files;
    int64_t files_ns, tidy_ns, warn_ns; /* monotonic: when it is time again */
};

struct ca_db *trust_ca_db(struct trust *t)
{
    return t->db;
}

const char *trust_judge(void *ctx, const struct net_identity *who)
{
    const struct trust *t = ctx;

    if (tls_config_revoked(t->tls, who)) {
        return "on the revocation list";
    }
    return t->db ? ca_db_judge(t->db, who) : NULL;
}

struct enroll_service *trust_enroll(struct trust *t)
{
    return t->enroll;
}

/* -- what the thread does -- */

static void follow_book(struct trust *t)
{
    struct errmsg why = {""};
    char reason[REASON_BYTES];
    bool changed = false;
    enum err e = ca_db_refresh(t->db, &changed, &why);

    if (e && !t->failing) {
        log_line(LOG_ERROR, "trust", "unreadable", "reason=%s remedy=%s",
                 log_str(reason, sizeof reason, why.text[0] ? why.text : err_text(e)),
                 "\"until it is repaired, no later revocation is followed and no host enrols\"");
    } else if (!e && t->failing) {
        log_line(LOG_INFO, "trust", "readable", "reason=\"the book can be read again\"");
    }
    t->failing = e != ERR_OK;
    if (changed) {
        t->on_revoked(t->ctx);
    }
}

/* The files, when they have changed. */
static void follow_files(struct trust *t)
{
    struct errmsg why = {""};
    struct net_identity own;
    char reason[REASON_BYTES], until[CLK_TEXT];
    bool news;
    enum err e = cert_reloader_poll(&t->files, &news, &why);

    if (!news) {
        return;
    }
    if (e) {
        log_line(LOG_WARN, "trust", "not_reloaded", "reason=%s",
                 log_str(reason, sizeof reason, why.text));
        return;
    }
    t->warn_ns = 0;
    t->on_revoked(t->ctx);
    tls_config_identity(t->tls, &own);
    log_line(LOG_INFO, "trust", "reloaded", "certificate=%s until=%s", t->cert,
             clk_format_utc(until, sizeof until, own.not_after_ns, 0));
}

static void warn_end(const char *what, int64_t end_ns, const char *remedy)
{
    int64_t left_ns = clk_sub(end_ns, os_utc_ns());
    char until[CLK_TEXT];

    if (left_ns <= 30 * DAY_NS) {
        log_line(left_ns <= 7 * DAY_NS ? LOG_ERROR : LOG_WARN, "trust",
                 left_ns > 0 ? "expires" : "expired",
                 "what=%s until=%s days_left=%" PRId64 " remedy=\"%s\"", what,
                 clk_format_utc(until, sizeof until, end_ns, 0),
                 (int64_t)(left_ns > 0 ? left_ns / DAY_NS : 0), remedy);
    }
}

static void warn_ends(struct trust *t)
{
    struct net_identity own;

    tls_config_identity(t->tls, &own);
    warn_end("certificate", own.not_after_ns,
             "issue a new one with 'pki issue --role collector' and put it in place of the old");
    if (t->enroll) {
        warn_end("authority", enroll_service_authority_end_ns(t->enroll),
                 "make a new authority before the old one ends: see docs/security.md");
    }
}

static void tidy(struct trust *t)
{
    struct errmsg why = {""};
    char reason[REASON_BYTES];

    if (ca_db_tidy(t->db, os_utc_ns(), &why)) {
        log_line(LOG_WARN, "trust", "not_tidied", "reason=%s",
                 log_str(reason, sizeof reason, why.text));
    }
}

static bool due(int64_t *when_ns, int64_t now_ns, int64_t every_ns)
{
    if (now_ns < *when_ns) {
        return false;
    }
    *when_ns = now_ns + every_ns;
    return true;
}

static void look(struct trust *t, int64_t now_ns)
{
    if (t->db) {
        follow_book(t);
    }
    if (due(&t->files_ns, now_ns, FILES_NS)) {
        follow_files(t);
    }
    if (due(&t->warn_ns, now_ns, DAY_NS)) {
        warn_ends(t);
    }
    if (t->db && due(&t->tidy_ns, now_ns, HOUR_NS)) {
        tidy(t);
    }
}

static void run(void *arg)
{
    struct trust *t = arg;

    os_mutex_lock(t->lock);
    while (!t->stop) {
        int64_t now_ns = os_mono_ns();

        os_mutex_unlock(t->lock);
        heartbeat_work(&t->round, now_ns);
        look(t, now_ns);
        os_mutex_lock(t->lock);
        if (!t->stop) {
            err_ignore(os_cond_wait_until(t->wake, now_ns + CHECK_NS));
        }
    }
    os_mutex_unlock(t->lock);
    heartbeat_rest(&t->round);
}

int64_t trust_stuck_ns(const struct trust *t, int64_t now_ns)
{
    return heartbeat_busy_ns(&t->round, now_ns);
}

enum err trust_follow(struct trust *t, void (*on_revoked)(void *ctx), void *ctx)
{
    t->on_revoked = on_revoked;
    t->ctx = ctx;
    return os_thread_start(&t->thread, "trust", run, t);
}

void trust_unfollow(struct trust *t)
{
    if (t && t->thread) {
        os_mutex_lock(t->lock);
        t->stop = true;
        os_cond_wake_all(t->wake);
        os_mutex_unlock(t->lock);
        os_thread_join(t->thread);
        t->thread = NULL;
    }
}

/* -- opening -- */

static enum err open_authority(struct trust *t, const struct trust_conf *conf, struct errmsg *why)
{
    struct enroll_service_conf enroll = {
        .dir = conf->dir, .life_ns = conf->life_ns, .grace_ns = conf->grace_ns};
    struct ca_rows_counts s;
    enum err e = ca_db_open(&t->db, conf->dir, NULL, why);

    if (e) {
        return e;
    }
    e = ca_db_count(t->db, &s, why);
    enroll.db = t->db;
    if (!e) {
        e = enroll_service_create(&t->enroll, &enroll, why);
    }
    if (e == ERR_NOTFOUND) { /* the key may lie elsewhere: revocations are followed all the same */
        log_line(LOG_WARN, "trust", "no_key", "dir=%s remedy=%s", conf->dir,
                 "\"nobody can enrol or renew here without the authority's key\"");
        e = ERR_OK;
    }
    if (!e) {
        log_line(LOG_INFO, "trust", "open",
                 "dir=%s certificates=%zu tokens=%zu revocations=%zu issues=%s", conf->dir, s.certs,
                 s.tokens, s.revocations, t->enroll ? "true" : "false");
    }
    return e;
}

static enum err open_parts(struct trust *t, const struct trust_conf *conf, struct errmsg *why)
{
    enum err e;

    t->tls = conf->tls;
    t->ca = mem_strdup(conf->ca);
    t->cert = mem_strdup(conf->cert);
    t->crl = conf->crl ? mem_strdup(conf->crl) : NULL;
    if (!t->ca || !t->cert || (conf->crl && !t->crl)) {
        return ERR_NOMEM;
    }
    cert_reloader_begin(&t->files, t->tls, t->ca, t->cert, t->crl);
    t->tidy_ns = t->files_ns = os_mono_ns() + FILES_NS;
    e = os_mutex_create(&t->lock);
    if (!e) {
        e = os_cond_create(&t->wake, t->lock);
    }
    if (e) {
        return e;
    }
    if (conf->dir[0] && (conf->required || os_exists(conf->dir))) {
        return open_authority(t, conf, why);
    }
    log_line(LOG_INFO, "trust", "none",
             "reason=\"no authority: nobody enrols or renews here, nobody is revoked\"");
    return ERR_OK;
}

enum err trust_open(struct trust **out, const struct trust_conf *conf, struct errmsg *why)
{
    struct trust *t = mem_zalloc(sizeof *t);
    enum err e;

    if (!t) {
        return ERR_NOMEM;
    }
    e = open_parts(t, conf, why);
    if (e) {
        trust_close(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

void trust_close(struct trust *t)
{
    if (t) {
        trust_unfollow(t);
        enroll_service_destroy(t->enroll);
        ca_db_close(t->db);
        os_cond_destroy(t->wake);
        os_mutex_destroy(t->lock);
        mem_free(t->crl);
        mem_free(t->ca);
        mem_free(t->cert);
        mem_free(t);
    }
}
