/* For the tests of agent/trust: certificates made as a collector makes them. Failures end the test.
 * Threads: one owner. */
#ifndef PROCFLEET_TESTS_AGENT_ENROLL_IDENTITY_H
#define PROCFLEET_TESTS_AGENT_ENROLL_IDENTITY_H

#include <string.h>

#include "agent/enroll/trust_files.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/pki/pki_authority.h"
#include "common/pki/pki_key.h"
#include "tests/support/certs.h"
#include "tests/support/t.h"

/* A pair that is no file yet. */
struct identity {
    struct pki_key *key;
    struct buf der;
};

static inline void identity_make(struct identity *x, struct certs *pki, const struct uuid *host)
{
    struct pki_issue what = {.use = PKI_AGENT,
                             .name = "host-1",
                             .has_host = host != NULL,
                             .now_ns = os_utc_ns(),
                             .life_ns = 1800 * CLK_S};
    struct pki_authority *authority;
    struct errmsg why = {""};
    struct buf csr;

    if (host) {
        what.host = *host;
    }
    buf_init(&csr, 4096);
    buf_init(&x->der, 4096);
    assert_ok(pki_authority_open(&authority, certs_dir(pki), &why));
    assert_ok(pki_key_make(&x->key));
    assert_ok(pki_key_request(&csr, x->key, "host-1"));
    assert_ok(pki_authority_sign(&x->der, authority, &what, csr.p, csr.n, &why));
    pki_authority_close(authority);
    buf_fini(&csr);
}

static inline void identity_free(struct identity *x)
{
    pki_key_free(x->key);
    buf_fini(&x->der);
}

/* Paths in one directory. */
struct places {
    char ca[400], cert[400], key[400];
    struct trust_files files;
};

static inline void places_in(struct places *p, const char *dir)
{
    (void)snprintf(p->ca, sizeof p->ca, "%.380s/ca.pem", dir);
    (void)snprintf(p->cert, sizeof p->cert, "%.380s/agent.pem", dir);
    (void)snprintf(p->key, sizeof p->key, "%.380s/agent.key", dir);
    p->files = (struct trust_files){.ca = p->ca, .cert = p->cert, .key = p->key};
}

static inline enum err identity_of(struct net_identity *out, const struct trust_files *f,
                                   struct errmsg *why)
{
    struct net_tls_conf conf = {.ca = f->ca,
                                .cert = f->cert,
                                .key = f->key,
                                .server_name = PKI_SERVER_NAME,
                                .lapsed = true};
    struct tls_config *tls = NULL;
    enum err e = tls_config_load(&tls, &conf, false, why);

    if (!e) {
        tls_config_identity(tls, out);
    }
    tls_config_free(tls);
    return e;
}

/* Puts it there as `enroll` does. */
static inline enum err identity_install(const struct identity *x, struct certs *pki,
                                        const struct trust_files *f, bool replace,
                                        struct errmsg *why)
{
    struct trust_change change = {
        .key = x->key, .certificate = x->der.p, .certificate_n = x->der.n, .replace = replace};
    struct pki_authority *authority;
    enum err e = pki_authority_open(&authority, certs_dir(pki), why);

    if (!e) {
        change.authority = pki_authority_der(authority, &change.authority_n);
        e = trust_files_change(f, &change, why);
        pki_authority_close(authority);
    }
    return e;
}

#endif
