/* A certificate is made first, written into the book second, and answered third: a crash on the way
 * leaves at most an unused certificate. A token is looked at before anything is signed, so
 * that strangers cost little, and taken with the line that knows the certificate. Who has a good
 * one does not wait for those who have none, though they may come from one address: attempts are
 * counted apart. */
#include "collector/ca/enroll_service.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collector/ca/ca_cert.h"
#include "collector/ca/ca_token.h"
#include "collector/ca/rate_limit.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/pki/pki_authority.h"
#include "common/wire/wire_enroll.h"

#define BUSY_WAIT_MS     1000u
#define RENEWALS_MAX     8u /* of one host within RENEWALS_WINDOW of its life */
#define RENEWALS_SHARE   4  /* a fourth of a life, */
#define RENEWALS_WAIT_MS 60000u
#define HOUR_NS          (3600 * CLK_S) /* but no longer than this */
#define REPLY_MAX        (2u * WIRE_CERT_MAX + 64u)

static const struct rate_limit_rate rate_all = {50, 100}, rate_each = {10, 40};

struct enroll_service {
    struct enroll_service_conf conf;
    struct pki_authority *authority;
    struct os_mutex *signing;             /* guards the authority's key while it signs */
    struct os_mutex *lock;                /* guards what follows */
    struct rate_limit strangers, invited; /* without and with a token that is good */
    struct enroll_service_stats stats;
};

/* One request. */
struct attempt {
    struct enroll_service *e;
    struct rpc_call *call;
    const char *kind; /* for the log */
    const char *name; /* of the host, as far as it is known */
    bool claimed;     /* it is the stranger's word */
    bool ended;       /* the old certificate must have: a proof, and no connection, came with it */
    struct errmsg why;
};

/* -- answers -- */

static void count(struct enroll_service *e, uint64_t *counter)
{
    os_mutex_lock(e->lock);
    ++*counter;
    os_mutex_unlock(e->lock);
}

static void refuse(struct attempt *a, enum rpc_code code, uint32_t retry_after_ms)
{
    char name[160], reason[600];

    log_line(LOG_WARN, "enroll", "refused", "kind=%s peer=%s %s=%s code=%s reason=%s", a->kind,
             rpc_call_peer(a->call)->address, a->claimed ? "claimed" : "name",
             a->claimed ? log_quote(name, sizeof name, a->name)
                        : log_str(name, sizeof name, a->name),
             frame_code_name(code), log_str(reason, sizeof reason, a->why.text));
    count(a->e, &a->e->stats.refused);
    rpc_fail(a->call, code, retry_after_ms, "%s", a->why.text);
}

/* What an error of the book or of signing means to the caller. */
static void refuse_error(struct attempt *a, enum err e)
{
    char reason[600];

    switch (e) {
    case ERR_NOTFOUND:
        refuse(a, RPC_UNAUTHENTICATED, 0);
        return;
    case ERR_EXISTS:
    case ERR_TIMEOUT:
    case ERR_CLOSED:
    case ERR_REFUSED:
    case ERR_ACCESS:
        refuse(a, RPC_PERMISSION_DENIED, 0);
        return;
    case ERR_CORRUPT:
    case ERR_INVALID:
        refuse(a, RPC_INVALID_ARGUMENT, 0);
        return;
    case ERR_BUSY:
    case ERR_NOMEM:
        refuse(a, RPC_RESOURCE_EXHAUSTED, BUSY_WAIT_MS);
        return;
    default: /* paths and such are not for strangers */
        log_line(LOG_ERROR, "enroll", "failed", "reason=%s",
                 log_str(reason, sizeof reason, a->why.text[0] ? a->why.text : err_text(e)));
        errmsg_set(&a->why, e, "the collector cannot issue certificates now: its log says why");
        refuse(a, RPC_UNAVAILABLE, BUSY_WAIT_MS);
    }
}

static void give(struct attempt *a, const struct buf *der, const struct net_identity *who,
                 uint64_t *counter)
{
    struct wire_certificate *m = mem_zalloc(sizeof *m);
    char host[UUID_TEXT], until[CLK_TEXT];
    const void *authority;
    struct buf reply;
    enum err e = m ? ERR_OK : ERR_NOMEM;

    buf_init(&reply, REPLY_MAX);
    if (!e) {
        m->certificate_n = der->n;
        memcpy(m->certificate, der->p, der->n);
        authority = pki_authority_der(a->e->authority, &m->authority_n);
        memcpy(m->authority, authority, m->authority_n);
        m->now_ns = a->e->conf.utc_ns();
        e = wire_enroll_certificate_encode(&reply, m);
    }
    mem_free(m);
    if (e) {
        refuse_error(a, ERR_NOMEM);
    } else {
        log_line(LOG_INFO, "enroll", a->kind,
                 "peer=%s name=%s host=%s fingerprint=%02x%02x%02x%02x%02x%02x%02x%02x until=%s",
                 rpc_call_peer(a->call)->address, who->name, uuid_format(host, &who->host),
                 who->fingerprint[0], who->fingerprint[1], who->fingerprint[2], who->fingerprint[3],
                 who->fingerprint[4], who->fingerprint[5], who->fingerprint[6], who->fingerprint[7],
                 clk_format_utc(until, sizeof until, who->not_after_ns, 0));
        count(a->e, counter);
        rpc_answer(a->call, reply.p, reply.n, NULL);
    }
    buf_fini(&reply);
}

/* -- signing -- */

/* An agent's certificate; `who` is what it says. */
static enum err sign(struct attempt *a, struct buf *der, struct net_identity *who, const char *name,
                     const struct uuid *host, const void *csr, size_t n)
{
    const struct pki_issue what = {.use = PKI_AGENT,
                                   .name = name,
                                   .has_host = true,
                                   .host = *host,
                                   .now_ns = a->e->conf.utc_ns(),
                                   .life_ns = a->e->conf.life_ns};
    enum err e;

    os_mutex_lock(a->e->signing);
    e = pki_authority_sign(der, a->e->authority, &what, csr, n, &a->why);
    os_mutex_unlock(a->e->signing);
    return e ? e : tls_cert_parse(who, der->p, der->n);
}

/* -- Enroll -- */

static bool too_often(struct attempt *a, struct rate_limit *limit)
{
    int64_t wait_ns;

    os_mutex_lock(a->e->lock);
    wait_ns = rate_limit_take(limit, rpc_call_peer(a->call)->address, a->e->conf.mono_ns());
    os_mutex_unlock(a->e->lock);
    if (wait_ns > 0) {
        errmsg_set(&a->why, ERR_FULL, "too many attempts: wait a little");
        refuse(a, RPC_RESOURCE_EXHAUSTED, (uint32_t)(wait_ns / CLK_MS) + 1);
    }
    return wait_ns > 0;
}

/* The request's token, if it is of this authority. */
static enum err read_token(struct attempt *a, struct pki_token *t, const struct wire_enroll *m)
{
    uint8_t pin[PKI_PIN_BYTES];

    if (pki_token_parse(t, m->token) != ERR_OK) {
        return errmsg_set(&a->why, ERR_INVALID,
                          "this is no token: one has %u characters and begins with pf1-",
                          PKI_TOKEN_TEXT - 1);
    }
    pki_authority_pin(a->e->authority, pin);
    if (memcmp(pin, t->pin, sizeof pin) != 0) {
        return errmsg_set(&a->why, ERR_NOTFOUND, "the token was made by another authority");
    }
    if (!pki_name_ok(m->name)) {
        return errmsg_set(&a->why, ERR_INVALID,
                          "a host's name has 1 to 63 letters, digits, '.', '_' or '-'");
    }
    return ERR_OK;
}

static enum err enroll(struct attempt *a, struct buf *der, struct net_identity *who,
                       const struct wire_enroll *m, const struct pki_token *t,
                       struct ca_token_grant *grant)
{
    struct enroll_service *e = a->e;
    enum err err = ERR_OK;

    if (!grant->has_host && pki_name_wrong(m->name, grant->chosen)) {
        return errmsg_set(&a->why, ERR_INVALID, "'%s' cannot be a host's name: %s", m->name,
                          pki_name_wrong(m->name, grant->chosen));
    }
    if (!grant->has_host) {
        err = uuid_random(&grant->host);
    }
    if (!err) {
        err = sign(a, der, who, m->name, &grant->host, m->csr, m->csr_n);
    }
    if (!err) {
        err = ca_token_enroll(e->conf.db, t, who, e->conf.utc_ns(), &a->why);
    }
    return err;
}

static void handle_enroll(void *ctx, struct rpc_call *call)
{
    struct attempt a = {.e = ctx, .call = call, .kind = "enrolled", .name = ""};
    struct wire_enroll *m = mem_zalloc(sizeof *m);
    struct ca_token_grant grant;
    struct net_identity who;
    struct pki_token t;
    struct buf der;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e = m ? wire_enroll_decode(m, p, n) : ERR_NOMEM;

    buf_init(&der, WIRE_CERT_MAX);
    if (e) {
        errmsg_set(&a.why, e, "this is no request to enrol");
    } else {
        a.name = m->name;
        a.claimed = true;
        e = read_token(&a, &t, m);
    }
    if (!e) {
        e = ca_token_check(a.e->conf.db, &grant, &t, m->name, a.e->conf.utc_ns(), &a.why);
    }
    if (!too_often(&a, e ? &a.e->strangers : &a.e->invited)) {
        e = e ? e : enroll(&a, &der, &who, m, &t, &grant);
        if (e) {
            refuse_error(&a, e);
        } else {
            give(&a, &der, &who, &a.e->stats.enrolled);
        }
    }
    memset(&t, 0, sizeof t);
    buf_fini(&der);
    mem_free(m);
}

/* -- Renew and RenewExpired -- */

/* May `who` go on? Their certificate was shown to be theirs. */
static enum err may_renew(struct attempt *a, const struct net_identity *who)
{
    struct enroll_service *e = a->e;
    int64_t window_ns = e->conf.life_ns / RENEWALS_SHARE, now_ns = e->conf.utc_ns();
    size_t recent = 0;
    enum err err;

    if (!(who->roles & NET_AGENT) || !who->has_host) {
        return errmsg_set(&a->why, ERR_REFUSED, "only the certificates of agents are renewed");
    }
    err = ca_cert_may_renew(e->conf.db, who, now_ns, &a->why);
    if (err) {
        return err;
    }
    if (now_ns > clk_add(who->not_after_ns, e->conf.grace_ns)) {
        return errmsg_set(&a->why, ERR_TIMEOUT,
                          "the certificate expired longer ago than pki.renew_grace allows: enrol "
                          "this host anew, with a token of 'procfleet-collector pki token create "
                          "--replace %s'",
                          who->name);
    }
    if (a->ended && now_ns <= who->not_after_ns) {
        return errmsg_set(&a->why, ERR_REFUSED,
                          "the certificate has not ended by the collector's clock: it is renewed "
                          "over the ingest connection (is this host's clock right?)");
    }
    window_ns = window_ns < HOUR_NS ? window_ns : HOUR_NS;
    err = ca_cert_recent(e->conf.db, &who->host, now_ns - window_ns, &recent, &a->why);
    if (!err && recent >= RENEWALS_MAX) {
        return errmsg_set(&a->why, ERR_FULL, "this host was given %u certificates just now",
                          RENEWALS_MAX);
    }
    return err;
}

static void renew(struct attempt *a, const struct net_identity *holder, const void *csr, size_t n,
                  uint64_t *counter)
{
    struct net_identity who;
    struct buf der;
    enum err e = may_renew(a, holder);

    a->name = holder->name;
    if (e == ERR_FULL) {
        refuse(a, RPC_RESOURCE_EXHAUSTED, RENEWALS_WAIT_MS);
        return;
    }
    buf_init(&der, WIRE_CERT_MAX);
    if (!e) {
        e = sign(a, &der, &who, holder->name, &holder->host, csr, n);
    }
    if (!e) {
        e = ca_cert_renewed(a->e->conf.db, holder, &who, a->e->conf.utc_ns(), &a->why);
    }
    if (e) {
        refuse_error(a, e);
    } else {
        give(a, &der, &who, counter);
    }
    buf_fini(&der);
}

/* Whose certificate it is, once the proof holds. */
static enum err prove(struct attempt *a, struct net_identity *who,
                      const struct wire_renew_expired *m)
{
    enum err e = pki_authority_check_proof(a->e->authority, m->certificate, m->certificate_n,
                                           m->csr, m->csr_n, m->signature, m->signature_n);

    if (!e) {
        e = tls_cert_parse_client(who, m->certificate, m->certificate_n);
    }
    if (e == ERR_TRUST) {
        return errmsg_set(&a->why, ERR_NOTFOUND,
                          "the certificate is not of this authority, or its key did not sign");
    }
    return e ? errmsg_set(&a->why, e, "this is no certificate of an agent") : ERR_OK;
}

static void handle_renew_expired(void *ctx, struct rpc_call *call)
{
    struct attempt a = {
        .e = ctx, .call = call, .kind = "renewed_expired", .name = "", .ended = true};
    struct wire_renew_expired *m;
    struct net_identity who;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e;

    if (too_often(&a, &a.e->strangers)) {
        return;
    }
    m = mem_zalloc(sizeof *m);
    e = m ? wire_enroll_renew_expired_decode(m, p, n) : ERR_NOMEM;
    if (e) {
        errmsg_set(&a.why, e, "this is no request to renew");
    } else {
        e = prove(&a, &who, m);
    }
    if (e) {
        refuse_error(&a, e);
    } else {
        renew(&a, &who, m->csr, m->csr_n, &a.e->stats.renewed_expired);
    }
    mem_free(m);
}

static void handle_renew(void *ctx, struct rpc_call *call)
{
    struct attempt a = {.e = ctx, .call = call, .kind = "renewed"};
    struct net_identity holder = *rpc_call_peer(call);
    struct wire_renew m;
    size_t n;
    const uint8_t *p = rpc_call_payload(call, &n);
    enum err e = wire_enroll_renew_decode(&m, p, n);

    a.name = holder.name;
    if (e) {
        errmsg_set(&a.why, e, "this is no request to renew");
        refuse_error(&a, e);
    } else {
        renew(&a, &holder, m.csr, m.csr_n, &a.e->stats.renewed);
    }
}

/* -- the service -- */

void enroll_service_methods(struct enroll_service *e,
                            struct rpc_method methods[ENROLL_SERVICE_METHODS])
{
    methods[0] = (struct rpc_method){RPC_ENROLL_ENROLL, 0, handle_enroll, e};
    methods[1] = (struct rpc_method){RPC_ENROLL_RENEW_EXPIRED, 0, handle_renew_expired, e};
}

void enroll_service_renew_method(struct enroll_service *e, struct rpc_method *method)
{
    *method = (struct rpc_method){RPC_INGEST_RENEW, NET_AGENT, handle_renew, e};
}

int64_t enroll_service_authority_end_ns(const struct enroll_service *e)
{
    return pki_authority_not_after_ns(e->authority);
}

void enroll_service_stats(struct enroll_service *e, struct enroll_service_stats *out)
{
    os_mutex_lock(e->lock);
    *out = e->stats;
    os_mutex_unlock(e->lock);
}

enum err enroll_service_create(struct enroll_service **out, const struct enroll_service_conf *conf,
                               struct errmsg *why)
{
    struct enroll_service *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    s->conf.utc_ns = conf->utc_ns ? conf->utc_ns : os_utc_ns;
    s->conf.mono_ns = conf->mono_ns ? conf->mono_ns : os_mono_ns;
    s->conf.dir = NULL; /* not kept */
    e = os_mutex_create(&s->signing);
    if (!e) {
        e = os_mutex_create(&s->lock);
    }
    if (!e) {
        e = rate_limit_init(&s->strangers, rate_all, rate_each);
    }
    if (!e) {
        e = rate_limit_init(&s->invited, rate_all, rate_each);
    }
    if (!e) {
        e = pki_authority_open(&s->authority, conf->dir, why);
    }
    if (e) {
        enroll_service_destroy(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void enroll_service_destroy(struct enroll_service *e)
{
    if (e) {
        pki_authority_close(e->authority);
        os_mutex_destroy(e->signing);
        os_mutex_destroy(e->lock);
        mem_free(e);
    }
}
