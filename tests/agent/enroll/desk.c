#include "tests/agent/enroll/desk.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki_token.h"
#include "tests/support/t.h"

static enum err fill(struct desk *d, struct wire_certificate *m, const void *csr, size_t csr_n,
                     const struct net_identity *who)
{
    struct pki_issue what = {.use = d->trick == DESK_OTHER_ROLE ? PKI_QUERY : PKI_AGENT,
                             .name = d->trick == DESK_OTHER_NAME ? "somebody" : who->name,
                             .has_host = who->has_host && d->trick != DESK_OTHER_HOST &&
                                         d->trick != DESK_OTHER_ROLE,
                             .host = who->host,
                             .now_ns = os_utc_ns(),
                             .life_ns = d->life_ns};
    struct certs *by = d->trick == DESK_OTHER_AUTHORITY ? d->other : d->pki;
    struct pki_authority *authority;
    struct pki_key *key = NULL;
    struct errmsg why = {""};
    struct buf der, own;
    const void *p;
    size_t n;
    enum err e = pki_authority_open(&authority, certs_dir(by), &why);

    if (e) {
        return e;
    }
    buf_init(&der, sizeof m->certificate);
    buf_init(&own, WIRE_CSR_MAX);
    if (d->trick == DESK_OTHER_KEY) {
        assert_ok(pki_key_make(&key));
        assert_ok(pki_key_request(&own, key, who->name));
    } else {
        buf_put(&own, csr, csr_n);
    }
    e = pki_authority_sign(&der, authority, &what, own.p, own.n, &why);
    if (!e) {
        memcpy(m->certificate, der.p, der.n);
        m->certificate_n = der.n;
        p = pki_authority_der(authority, &n);
        m->authority_n = d->trick == DESK_NO_AUTHORITY ? 0 : n;
        memcpy(m->authority, p, m->authority_n);
        m->now_ns = os_utc_ns() + d->ahead_ns;
    }
    pki_key_free(key);
    buf_fini(&der);
    buf_fini(&own);
    pki_authority_close(authority);
    return e;
}

enum err desk_sign(struct desk *d, struct buf *reply, const void *csr, size_t csr_n,
                   const struct net_identity *who)
{
    struct wire_certificate *m = mem_zalloc(sizeof *m);
    enum err e = m ? fill(d, m, csr, csr_n, who) : ERR_NOMEM;

    if (!e) {
        e = wire_enroll_certificate_encode(reply, m);
    }
    d->reply_n = reply->n;
    if (d->trick == DESK_CUT && reply->n > d->cut) {
        reply->n = d->cut;
    }
    mem_free(m);
    return e;
}

static void answer(struct desk *d, struct rpc_call *call, const void *csr, size_t csr_n,
                   const struct net_identity *who)
{
    struct buf reply;

    buf_init(&reply, 16u << 10);
    if (d->busy > 0) {
        d->busy--;
        rpc_fail(call, RPC_RESOURCE_EXHAUSTED, 50, "too many attempts");
    } else if (d->refuse) {
        rpc_fail(call, d->refuse, 0, "%s", d->message);
    } else if (desk_sign(d, &reply, csr, csr_n, who)) {
        rpc_fail(call, RPC_INVALID_ARGUMENT, 0, "not a request");
    } else {
        rpc_answer(call, reply.p, reply.n, NULL);
    }
    buf_fini(&reply);
}

static void on_enroll(void *ctx, struct rpc_call *call)
{
    struct wire_enroll *m = mem_zalloc(sizeof *m);
    struct net_identity who = {.roles = 0};
    struct desk *d = ctx;
    size_t n;
    const void *p = rpc_call_payload(call, &n);

    atomic_fetch_add(&d->calls, 1);
    if (!m || wire_enroll_decode(m, p, n)) {
        rpc_fail(call, RPC_INVALID_ARGUMENT, 0, "cannot be read");
    } else {
        (void)snprintf(d->token, sizeof d->token, "%s", m->token);
        (void)snprintf(d->name, sizeof d->name, "%s", m->name);
        (void)snprintf(who.name, sizeof who.name, "%s", m->name);
        answer(d, call, m->csr, m->csr_n, &who);
    }
    mem_free(m);
}

static void on_renew(void *ctx, struct rpc_call *call)
{
    struct wire_renew_expired *m = mem_zalloc(sizeof *m);
    struct pki_authority *authority = NULL;
    struct net_identity who;
    struct errmsg why = {""};
    struct desk *d = ctx;
    size_t n;
    const void *p = rpc_call_payload(call, &n);

    atomic_fetch_add(&d->calls, 1);
    if (!m || wire_enroll_renew_expired_decode(m, p, n) ||
        pki_authority_open(&authority, certs_dir(d->pki), &why) ||
        pki_authority_check_proof(authority, m->certificate, m->certificate_n, m->csr, m->csr_n,
                                  m->signature, m->signature_n) ||
        tls_cert_parse(&who, m->certificate, m->certificate_n)) {
        rpc_fail(call, RPC_UNAUTHENTICATED, 0, "no proof");
    } else {
        answer(d, call, m->csr, m->csr_n, &who);
    }
    pki_authority_close(authority);
    mem_free(m);
}

struct desk *desk_open(struct certs *pki, struct certs *other)
{
    struct desk *d = mem_zalloc(sizeof *d);
    const struct rpc_method methods[] = {
        {.name = RPC_ENROLL_ENROLL, .handle = on_enroll, .ctx = d},
        {.name = RPC_ENROLL_RENEW_EXPIRED, .handle = on_renew, .ctx = d},
    };
    struct rpc_server_conf conf = {.net = {.name = "enroll",
                                           .address = "127.0.0.1:0",
                                           .receive_max = 16u << 10,
                                           .contexts = 4,
                                           .strangers = true},
                                   .methods = methods,
                                   .n_methods = COUNT_OF(methods),
                                   .workers = 1,
                                   .queue = 8,
                                   .raw_max = 16u << 10,
                                   .default_timeout_ns = 5 * CLK_S};
    struct errmsg why = {""};

    assert_non_null(d);
    d->pki = pki;
    d->other = other;
    d->life_ns = 3600 * CLK_S;
    d->tls = conf.net.tls = certs_load(pki, "collector", pki, true);
    if (rpc_server_start(&d->server, &conf, &why)) {
        fail_msg("%s", why.text);
    }
    (void)snprintf(d->address, sizeof d->address, "127.0.0.1:%u", rpc_server_port(d->server));
    return d;
}

void desk_close(struct desk *d)
{
    rpc_server_stop(d->server);
    tls_config_free(d->tls);
    mem_free(d);
}

void desk_token(char text[WIRE_TOKEN_MAX + 1], struct certs *pki)
{
    struct pki_authority *authority;
    struct pki_token token;
    struct errmsg why = {""};

    memset(&token, 7, sizeof token);
    assert_ok(pki_authority_open(&authority, certs_dir(pki), &why));
    pki_authority_pin(authority, token.pin);
    pki_authority_close(authority);
    (void)pki_token_format(text, &token);
}
