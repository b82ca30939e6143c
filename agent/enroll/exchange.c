#include "agent/enroll/exchange.h"

#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki.h"

enum err exchange_begin(struct exchange *x, const char *name, struct errmsg *why)
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
        exchange_end(x);
        return errmsg_set(why, e, "cannot make a request for a certificate: %s", err_text(e));
    }
    return ERR_OK;
}

void exchange_end(struct exchange *x)
{
    pki_key_free(x->key);
    x->key = NULL;
}

/* Whether the certificate is one for us. */
static enum err check(const struct net_identity *who, const struct net_identity *before,
                      struct errmsg *why)
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

static enum err check_pin(const struct wire_certificate *m, const uint8_t *pin, struct errmsg *why)
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

static enum err take(struct enroll_result *out, const struct exchange *x,
                     const struct wire_certificate *m, const struct net_identity *before,
                     const uint8_t *pin, const struct trust_files *files, struct errmsg *why)
{
    struct trust_change change = {.key = x->key,
                                  .certificate = m->certificate,
                                  .certificate_n = m->certificate_n,
                                  .authority = m->authority,
                                  .authority_n = m->authority_n,
                                  .replace = !before};
    struct enroll_result got = {.clock_ns = m->now_ns ? clk_sub(m->now_ns, os_utc_ns()) : 0};
    enum err e = net_identity_parse(&got.who, m->certificate, m->certificate_n);

    e = e ? errmsg_set(why, ERR_TRUST, "the collector sent a certificate that cannot be read")
          : check(&got.who, before, why);
    if (!e && pin) {
        e = check_pin(m, pin, why);
    }
    if (!e) {
        e = trust_files_change(files, &change, why);
    }
    if (!e) {
        *out = got;
    }
    return e;
}

enum err exchange_take(struct enroll_result *out, const struct exchange *x, const struct buf *reply,
                       const struct net_identity *before, const uint8_t *pin,
                       const struct trust_files *files, struct errmsg *why)
{
    struct wire_certificate *m = mem_alloc(sizeof *m);
    enum err e = m ? wire_enroll_certificate_decode(m, reply->p, reply->n) : ERR_NOMEM;

    e = e ? errmsg_set(why, e, "the collector's answer cannot be used: %s", err_text(e))
          : take(out, x, m, before, pin, files, why);
    mem_free(m);
    return e;
}
