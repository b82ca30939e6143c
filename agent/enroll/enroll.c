#include "agent/enroll/enroll.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki.h"
#include "common/pki/pki_token.h"
#include "common/rpc/rpc.h"

/* ---- key, request and reply ---- */

enum err enroll_exchange_begin(struct enroll_exchange *x, const char *name, struct errmsg *why)
{
    struct buf csr;
    enum err e;

    memset(x, 0, sizeof *x);
    e = pki_key_make(&x->key);
    if (e) {
        return errmsg_set(why, e, "cannot make a key: %s", err_text(e));
    }
    buf_init(&csr, sizeof x->csr);
    e = pki_key_request(&csr, x->key, name);
    if (!e) {
        memcpy(x->csr, csr.p, csr.n);
        x->csr_n = csr.n;
    }
    buf_fini(&csr);
    if (e) {
        enroll_exchange_end(x);
        return errmsg_set(why, e, "cannot make a request for a certificate: %s", err_text(e));
    }
    return ERR_OK;
}

void enroll_exchange_end(struct enroll_exchange *x)
{
    pki_key_free(x->key);
    x->key = NULL;
}

/* Whether the certificate is one for us. */
static enum err enroll_check_identity(const struct net_identity *who,
                                      const struct net_identity *before, struct errmsg *why)
{
    if (!who->has_host || !(who->roles & NET_AGENT)) {
        return errmsg_set(why, ERR_TRUST,
                          "the collector sent a certificate that is not an agent's");
    }
    if (before && (memcmp(&who->host, &before->host, sizeof who->host) != 0 ||
                   strcmp(who->name, before->name) != 0)) {
        return errmsg_set(why, ERR_TRUST,
                          "the collector sent a certificate of another host, %s; ours is of %s",
                          who->name, before->name);
    }
    return ERR_OK;
}

static enum err enroll_check_pin(const struct wire_certificate *m, const uint8_t *pin,
                                 struct errmsg *why)
{
    uint8_t seen[PKI_PIN_BYTES];

    if (m->authority_n == 0) {
        return errmsg_set(why, ERR_TRUST, "the collector sent no authority's certificate");
    }
    return pki_pem_pin(seen, m->authority, m->authority_n) == ERR_OK &&
                   memcmp(seen, pin, sizeof seen) == 0
               ? ERR_OK
               : errmsg_set(why, ERR_TRUST,
                            "the collector sent another authority's certificate than the token "
                            "names");
}

static enum err enroll_exchange_accept(struct enroll_result *out, const struct enroll_exchange *x,
                                       const struct wire_certificate *m,
                                       const struct net_identity *before, const uint8_t *pin,
                                       const struct trust_files *files, struct errmsg *why)
{
    struct trust_change change = {.key = x->key,
                                  .certificate = m->certificate,
                                  .certificate_n = m->certificate_n,
                                  .authority = m->authority,
                                  .authority_n = m->authority_n,
                                  .replace = !before};
    struct enroll_result got = {.clock_ns = m->now_ns ? clk_sub(m->now_ns, os_utc_ns()) : 0};
    enum err e = tls_cert_parse(&got.who, m->certificate, m->certificate_n);

    e = e ? errmsg_set(why, ERR_TRUST, "the collector sent a certificate that cannot be read")
          : enroll_check_identity(&got.who, before, why);
    if (!e && pin) {
        e = enroll_check_pin(m, pin, why);
    }
    if (!e) {
        e = trust_files_change(files, &change, why);
    }
    if (!e) {
        *out = got;
    }
    return e;
}

enum err enroll_exchange_take(struct enroll_result *out, const struct enroll_exchange *x,
                              const struct buf *reply, const struct net_identity *before,
                              const uint8_t *pin, const struct trust_files *files,
                              struct errmsg *why)
{
    struct wire_certificate *m = mem_alloc(sizeof *m);
    enum err e = m ? wire_enroll_certificate_decode(m, reply->p, reply->n) : ERR_NOMEM;

    e = e ? errmsg_set(why, e, "the collector's answer cannot be used: %s", err_text(e))
          : enroll_exchange_accept(out, x, m, before, pin, files, why);
    mem_free(m);
    return e;
}

#define REPLY_MAX    (16u << 10)
#define RETRY_MIN_NS (500 * CLK_MS)

/* One run. */
struct run {
    const struct enroll_ask *ask;
    int64_t until_ns; /* monotonic */
    struct enroll_exchange x;
    struct pki_token token;
    struct net_identity before; /* RenewExpired */
    struct tls_config *tls;
    struct rpc_client *client;
    struct buf request, reply;
};

static void say(const struct run *r, const char *text)
{
    if (r->ask->say) {
        r->ask->say(r->ask->ctx, text);
    }
}

/* -- before anything is sent -- */

static enum err check_ask(struct run *r, struct errmsg *why)
{
    const struct enroll_ask *a = r->ask;

    if (pki_token_parse(&r->token, a->token) != ERR_OK) {
        return errmsg_set(why, ERR_INVALID,
                          "this is not a token, or a part of one; copy the whole line that "
                          "'procfleet-collector pki token create' printed");
    }
    if (!pki_name_ok(a->name)) {
        return errmsg_set(why, ERR_INVALID,
                          "'%.80s' cannot be a host's name: 1 to 63 of A-Z a-z 0-9 . _ - are "
                          "allowed; give one with --name or identity.name",
                          a->name);
    }
    return ERR_OK;
}

/* A change that was cut is finished before anybody asks what is there. */
static enum err check_files(const struct enroll_ask *a, struct errmsg *why)
{
    enum err e = trust_files_mend(a->files, why);

    if (!e && trust_files_exist(a->files) && !a->force) {
        return errmsg_set(why, ERR_EXISTS,
                          "this host is enrolled already: %s is there; --force replaces it and "
                          "keeps it as %s.old",
                          a->files->cert, a->files->cert);
    }
    return e ? e : trust_files_prepare(a->files, why);
}

/* As a stranger, who knows the collector by the authority that the token names. */
static enum err begin_enroll(struct run *r, struct errmsg *why)
{
    const struct enroll_ask *a = r->ask;
    struct net_tls_conf conf = {.server_name = a->server_name, .pin = r->token.pin};
    enum err e = check_ask(r, why);

    if (!e) {
        e = check_files(a, why);
    }
    if (!e) {
        say(r, "making a key");
        e = enroll_exchange_begin(&r->x, a->name, why);
    }
    return e ? e : tls_config_load(&r->tls, &conf, false, why);
}

/* As whom the expired certificate says. */
static enum err begin_renew(struct run *r, struct errmsg *why)
{
    const struct trust_files *f = r->ask->files;
    struct net_tls_conf conf = {.ca = f->ca,
                                .cert = f->cert,
                                .key = f->key,
                                .server_name = r->ask->server_name,
                                .lapsed = true};
    enum err e = tls_config_load(&r->tls, &conf, false, why);

    if (!e) {
        tls_config_identity(r->tls, &r->before);
        e = enroll_exchange_begin(&r->x, r->before.name, why);
    }
    return e;
}

/* -- the requests -- */

static enum err put_enroll(struct run *r)
{
    struct wire_enroll *m = mem_zalloc(sizeof *m);
    enum err e;

    if (!m) {
        return ERR_NOMEM;
    }
    (void)snprintf(m->token, sizeof m->token, "%s", r->ask->token);
    (void)snprintf(m->name, sizeof m->name, "%s", r->ask->name);
    (void)snprintf(m->version, sizeof m->version, "%s", PROCFLEET_VERSION);
    memcpy(m->csr, r->x.csr, r->x.csr_n);
    m->csr_n = r->x.csr_n;
    e = wire_enroll_encode(&r->request, m);
    memset(m, 0, sizeof *m);
    mem_free(m);
    return e;
}

/* Proves that we still hold the key of the certificate we had. */
static enum err sign(struct wire_renew_expired *m, const char *key_path, struct errmsg *why)
{
    struct pki_key *old = NULL;
    struct buf signature;
    enum err e = pki_key_load(&old, key_path, why);

    buf_init(&signature, sizeof m->signature);
    if (!e) {
        e = pki_key_proof(&signature, old, m->csr, m->csr_n);
    }
    if (!e) {
        memcpy(m->signature, signature.p, signature.n);
        m->signature_n = signature.n;
    }
    buf_fini(&signature);
    pki_key_free(old);
    return e;
}

static enum err put_renew(struct run *r, struct errmsg *why)
{
    struct wire_renew_expired *m = mem_zalloc(sizeof *m);
    struct buf der;
    enum err e = m ? ERR_OK : ERR_NOMEM;

    buf_init(&der, WIRE_CERT_MAX);
    if (!e) {
        e = pki_pem_read(&der, r->ask->files->cert);
    }
    if (!e) {
        memcpy(m->certificate, der.p, der.n);
        m->certificate_n = der.n;
        memcpy(m->csr, r->x.csr, r->x.csr_n);
        m->csr_n = r->x.csr_n;
        e = sign(m, r->ask->files->key, why);
    }
    if (!e) {
        e = wire_enroll_renew_expired_encode(&r->request, m);
    }
    buf_fini(&der);
    mem_free(m);
    return e;
}

/* -- the call -- */

static enum err connect_to(struct run *r, struct errmsg *why)
{
    struct net_client_conf conf = {.address = r->ask->address,
                                   .tls = r->tls,
                                   .receive_max = REPLY_MAX,
                                   .reconnect_min_ns = 500 * CLK_MS,
                                   .reconnect_max_ns = 5 * CLK_S};
    struct errmsg inner = {""};
    enum err e = rpc_client_open(&r->client, &conf, "procfleet-agent/" PROCFLEET_VERSION, &inner);

    say(r, "connecting");
    if (!e) {
        e = rpc_client_wait(r->client, r->until_ns - os_mono_ns(), &inner);
    }
    if (e == ERR_TRUST) {
        return errmsg_set(why, e,
                          "%s; the token names the collector's authority: see that the address is "
                          "the right collector's, the port its enroll listener's (7423 unless "
                          "listen.enroll says otherwise), and that this host's clock is right",
                          inner.text[0] ? inner.text : r->ask->address);
    }
    return e ? errmsg_set(why, e,
                          "%s; see that the collector runs, that %s is its enroll listener (port "
                          "7423 unless listen.enroll says otherwise), and that firewalls let TCP "
                          "out to it",
                          inner.text[0] ? inner.text : err_text(e), r->ask->address)
             : ERR_OK;
}

static enum err refused(const struct rpc_result *result, struct errmsg *why)
{
    return errmsg_set(why, ERR_REFUSED, "the collector refuses: %s",
                      result->message[0] ? result->message : frame_code_name(result->code));
}

static enum err broken(struct run *r, enum err e, struct errmsg *why)
{
    struct errmsg problem = {""};

    rpc_client_problem(r->client, &problem);
    return errmsg_set(
        why, e == ERR_TRUST || e == ERR_TIMEOUT ? e : ERR_UNREACHABLE, "no answer from %s: %s%s",
        r->ask->address, problem.text[0] ? problem.text : err_text(e),
        r->ask->token ? "; whether the token is spent, 'procfleet-collector pki token "
                        "list' says: if it is, make a new one"
                      : "");
}

/* Asks again as long as the collector says that it is busy, which takes no token. */
static enum err call(struct run *r, const char *method, struct errmsg *why)
{
    for (;;) {
        struct rpc_result result = {0};
        int64_t left_ns = r->until_ns - os_mono_ns(), pause_ns;
        enum err e;

        buf_reset(&r->reply);
        e = rpc_client_call(r->client, method, FRAME_RAW, r->request.p, r->request.n, left_ns,
                            &r->reply, &result);
        if (!e) {
            return ERR_OK;
        }
        if (e != ERR_REFUSED) {
            return broken(r, e, why);
        }
        pause_ns = result.retry_after_ms * CLK_MS;
        pause_ns = pause_ns > RETRY_MIN_NS ? pause_ns : RETRY_MIN_NS;
        if (result.code != RPC_RESOURCE_EXHAUSTED || os_mono_ns() + pause_ns >= r->until_ns) {
            return refused(&result, why);
        }
        say(r, "the collector is busy, waiting");
        os_sleep_ns(pause_ns);
    }
}

static enum err finish(struct run *r, struct enroll_result *out, struct errmsg *why)
{
    const struct enroll_ask *a = r->ask;

    if (!a->token) {
        return enroll_exchange_take(out, &r->x, &r->reply, &r->before, NULL, a->files, why);
    }
    if (trust_files_exist(a->files)) {
        enum err e = trust_files_keep(a->files, why);

        if (e) {
            return e;
        }
    }
    say(r, "writing the files");
    return enroll_exchange_take(out, &r->x, &r->reply, NULL, r->token.pin, a->files, why);
}

static enum err run(struct run *r, struct enroll_result *out, struct errmsg *why)
{
    bool renew = !r->ask->token;
    enum err e = renew ? begin_renew(r, why) : begin_enroll(r, why);

    if (!e) {
        e = renew ? put_renew(r, why) : put_enroll(r);
        if (e && !why->text[0]) {
            errmsg_set(why, e, "cannot make the request: %s", err_text(e));
        }
    }
    if (!e) {
        e = connect_to(r, why);
    }
    if (!e) {
        say(r, "asking for a certificate");
        e = call(r, renew ? RPC_ENROLL_RENEW_EXPIRED : RPC_ENROLL_ENROLL, why);
    }
    return e ? e : finish(r, out, why);
}

enum err enroll_run(struct enroll_result *out, const struct enroll_ask *ask, struct errmsg *why)
{
    struct run *r = mem_zalloc(sizeof *r);
    enum err e;

    why->text[0] = '\0';
    if (!r) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    r->ask = ask;
    r->until_ns = clk_add(os_mono_ns(), ask->timeout_ns);
    buf_init(&r->request, REPLY_MAX);
    buf_init(&r->reply, REPLY_MAX);
    e = run(r, out, why);
    rpc_client_close(r->client);
    tls_config_free(r->tls);
    enroll_exchange_end(&r->x);
    memset(&r->token, 0, sizeof r->token);
    buf_fini(&r->request);
    buf_fini(&r->reply);
    mem_free(r);
    return e;
}
