/* The rules, the same for every connection: TLS 1.2, ECDHE with AEAD ciphers (ChaCha20 first: it is
 * the fastest one here without hardware help), curves P-256 and X25519, certificates of our own
 * authority only with ECDSA P-256 and SHA-256, both sides verified; renegotiation is not even
 * built. TLS 1.3 is off because half of its findings of the last years are its own, and because the
 * identity bridge was measured with 1.2.
 *
 * Two ways of enrolling differ. A listener for strangers asks for no certificate, and shows the
 * authority's beside its own. A client with a pin holds no certificate at all; it has mbedTLS
 * verify as ever, against an empty list of authorities, and the engine's callback replaces the
 * verdict by that of tls_context_pin_flags: the certificate with the pinned hash, and no other one
 * that was shown, is the authority there. */
#include "common/tls/tls_context.h"

#include <stdatomic.h>
#include <string.h>

#include <mbedtls/platform_util.h>
#include <mbedtls/sha256.h>
#include <mbedtls/ssl.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki.h"
#include "common/tls/tls_cert.h"
#include "common/tls/tls_crl.h"
#include "common/tls/tls_session.h"

#define PEM_FILE_MAX (256u << 10)

struct tls_context {
    atomic_uint refs;
    bool server, pinned;
    uint8_t pin[32];
    mbedtls_x509_crt ca, cert; /* empty with a pin */
    mbedtls_x509_crt shown;    /* servers: cert, then ca */
    mbedtls_pk_context key;
    mbedtls_ssl_config config;
    mbedtls_ssl_config open; /* servers: for strangers */
    struct tls_session_seal seal;
    struct tls_crl *crl; /* NULL: there is none */
    struct net_identity identity;
};

static const int suites[] = {
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    0,
};

static const uint16_t curves[] = {
    MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
    MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
    MBEDTLS_SSL_IANA_TLS_GROUP_NONE,
};

static const uint16_t signatures[] = {
    MBEDTLS_TLS1_3_SIG_ECDSA_SECP256R1_SHA256, /* TLS 1.2 gives it the same number */
    MBEDTLS_TLS1_3_SIG_NONE,
};

static const mbedtls_x509_crt_profile profile = {
    .allowed_mds = MBEDTLS_X509_ID_FLAG(MBEDTLS_MD_SHA256),
    .allowed_pks = MBEDTLS_X509_ID_FLAG(MBEDTLS_PK_ECKEY) | MBEDTLS_X509_ID_FLAG(MBEDTLS_PK_ECDSA),
    .allowed_curves = MBEDTLS_X509_ID_FLAG(MBEDTLS_ECP_DP_SECP256R1),
};

/* -- files -- */

static enum err read_file(uint8_t **p, size_t *n, const char *path, struct errmsg *why)
{
    enum err e = os_read_file(p, n, path, PEM_FILE_MAX);

    return e ? errmsg_set(why, e, "cannot read %s: %s", path, os_read_text(e)) : ERR_OK;
}

static enum err load_cert(mbedtls_x509_crt *crt, const char *path, struct errmsg *why)
{
    uint8_t *pem;
    size_t n;
    int r;
    enum err e = read_file(&pem, &n, path, why);

    if (e) {
        return e;
    }
    r = mbedtls_x509_crt_parse(crt, pem, n + 1);
    mem_free(pem);
    return r ? errmsg_set(why, ERR_INVALID, "%s is not a certificate in PEM form", path) : ERR_OK;
}

static enum err load_key(mbedtls_pk_context *key, const char *path, struct errmsg *why)
{
    uint8_t *pem;
    size_t n;
    int r;
    enum err e = os_check_private(path);

    if (e == ERR_ACCESS) {
        return errmsg_set(why, e,
                          "others can read the key %s; let only its user do so (Linux: chmod 600, "
                          "Windows: icacls)",
                          path);
    }
    e = read_file(&pem, &n, path, why);
    if (e) {
        return e;
    }
    r = mbedtls_pk_parse_key(key, pem, n + 1, NULL, 0, pki_rng, NULL);
    mbedtls_platform_zeroize(pem, n);
    mem_free(pem);
    return r ? errmsg_set(why, ERR_INVALID, "%s is not a private key in PEM form", path) : ERR_OK;
}

/* Whether our own certificate will be accepted by the other side: better to hear it here. */
static enum err check_own(struct tls_context *r, const struct net_tls_conf *conf,
                          struct errmsg *why)
{
    uint32_t flags = 0;
    int rv;

    if (!tls_cert_is_only(&r->cert, r->server)) {
        return errmsg_set(why, ERR_TRUST, "%s is not a certificate for a %s alone", conf->cert,
                          r->server ? "collector" : "client");
    }
    if (mbedtls_pk_check_pair(&r->cert.pk, &r->key, pki_rng, NULL) != 0) {
        return errmsg_set(why, ERR_TRUST, "%s is not the key of %s", conf->key, conf->cert);
    }
    rv = mbedtls_x509_crt_verify_with_profile(&r->cert, &r->ca, NULL, &profile, NULL, &flags, NULL,
                                              NULL);
    if (conf->lapsed && rv == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED) {
        rv = (flags & ~(uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) != 0;
    }
    if (rv != 0) {
        return errmsg_set(why, ERR_TRUST, "%s does not pass with the authority %s: %s", conf->cert,
                          conf->ca, tls_cert_flags_text(flags));
    }
    if (tls_cert_identity(&r->identity, &r->cert) != ERR_OK) {
        return errmsg_set(why, ERR_TRUST, "%s carries names that procfleet does not understand",
                          conf->cert);
    }
    return ERR_OK;
}

static enum err read_files(struct tls_context *r, const struct net_tls_conf *conf,
                           struct errmsg *why)
{
    enum err e = load_cert(&r->ca, conf->ca, why);

    if (!e) {
        e = load_cert(&r->cert, conf->cert, why);
    }
    if (!e) {
        e = load_key(&r->key, conf->key, why);
    }
    if (!e && r->server && conf->crl) {
        e = tls_crl_load(&r->crl, conf->crl, &r->ca, why);
    }
    return e ? e : check_own(r, conf, why);
}

/* -- rules -- */

/* What all of them share. */
static enum err make_config(mbedtls_ssl_config *c, bool server)
{
    if (mbedtls_ssl_config_defaults(c, server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
                                    MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        return ERR_NOMEM;
    }
    mbedtls_ssl_conf_min_tls_version(c, MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_max_tls_version(c, MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_ciphersuites(c, suites);
    mbedtls_ssl_conf_groups(c, curves);
    mbedtls_ssl_conf_sig_algs(c, signatures);
    mbedtls_ssl_conf_cert_profile(c, &profile);
    mbedtls_ssl_conf_session_tickets(c, MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
    mbedtls_ssl_conf_authmode(c, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_rng(c, pki_rng, NULL);
    return ERR_OK;
}

/* What tickets are bound to: what this side believes in and what it shows. */
static enum err bind_tickets(struct tls_context *r)
{
    mbedtls_sha256_context sha;
    int rv;

    mbedtls_sha256_init(&sha);
    rv = mbedtls_sha256_starts(&sha, 0);
    for (const mbedtls_x509_crt *ca = &r->ca; ca && rv == 0; ca = ca->next) {
        rv = mbedtls_sha256_update(&sha, ca->raw.p, ca->raw.len);
    }
    if (rv == 0) {
        rv = mbedtls_sha256_update(&sha, r->cert.raw.p, r->cert.raw.len);
    }
    if (rv == 0) {
        rv = mbedtls_sha256_finish(&sha, r->seal.binding);
    }
    mbedtls_sha256_free(&sha);
    return rv == 0 ? ERR_OK : ERR_IO;
}

static enum err make_rules(struct tls_context *r)
{
    enum err e = make_config(&r->config, r->server);

    if (!e && r->seal.keys) {
        e = bind_tickets(r);
        mbedtls_ssl_conf_session_tickets_cb(&r->config, tls_session_write, tls_session_parse,
                                            &r->seal);
    }
    if (e) {
        return e;
    }
    if (tls_context_resumes(r)) {
        mbedtls_ssl_conf_session_tickets(&r->config, MBEDTLS_SSL_SESSION_TICKETS_ENABLED);
    }
    mbedtls_ssl_conf_ca_chain(&r->config, &r->ca, NULL);
    if (!r->pinned && mbedtls_ssl_conf_own_cert(&r->config, &r->cert, &r->key) != 0) {
        return ERR_NOMEM;
    }
    return ERR_OK;
}

static enum err add_shown(struct tls_context *r, const mbedtls_x509_crt *crt)
{
    return mbedtls_x509_crt_parse_der(&r->shown, crt->raw.p, crt->raw.len) == 0 ? ERR_OK
                                                                                : ERR_NOMEM;
}

static enum err make_open_rules(struct tls_context *r)
{
    enum err e = make_config(&r->open, true);

    if (!e) {
        mbedtls_ssl_conf_authmode(&r->open, MBEDTLS_SSL_VERIFY_NONE);
        e = add_shown(r, &r->cert);
    }
    for (const mbedtls_x509_crt *ca = &r->ca; ca && !e; ca = ca->next) {
        e = add_shown(r, ca);
    }
    if (!e && mbedtls_ssl_conf_own_cert(&r->open, &r->shown, &r->key) != 0) {
        e = ERR_NOMEM;
    }
    return e;
}

static struct tls_context *create(const struct net_tls_conf *conf, bool server)
{
    struct tls_context *r = mem_zalloc(sizeof *r);

    if (!r) {
        return NULL;
    }
    atomic_init(&r->refs, 1);
    r->server = server;
    if (conf->pin) {
        r->pinned = true;
        memcpy(r->pin, conf->pin, sizeof r->pin);
    }
    mbedtls_x509_crt_init(&r->ca);
    mbedtls_x509_crt_init(&r->cert);
    mbedtls_x509_crt_init(&r->shown);
    mbedtls_pk_init(&r->key);
    mbedtls_ssl_config_init(&r->config);
    mbedtls_ssl_config_init(&r->open);
    return r;
}

enum err tls_context_load(struct tls_context **out, const struct net_tls_conf *conf, bool server,
                          struct tls_ticket *tickets, struct errmsg *why)
{
    struct tls_context *r = create(conf, server);
    enum err e;

    if (!r) {
        return ERR_NOMEM;
    }
    r->seal.keys = tickets;
    e = r->pinned ? ERR_OK : read_files(r, conf, why);
    if (!e) {
        e = make_rules(r);
    }
    if (!e && server) {
        e = make_open_rules(r);
    }
    if (e) {
        tls_context_free(r);
        return e;
    }
    *out = r;
    return ERR_OK;
}

struct tls_context *tls_context_hold(struct tls_context *r)
{
    atomic_fetch_add(&r->refs, 1);
    return r;
}

void tls_context_free(struct tls_context *r)
{
    if (!r || atomic_fetch_sub(&r->refs, 1) != 1) {
        return;
    }
    tls_crl_free(r->crl);
    mbedtls_ssl_config_free(&r->open);
    mbedtls_ssl_config_free(&r->config);
    mbedtls_pk_free(&r->key);
    mbedtls_x509_crt_free(&r->shown);
    mbedtls_x509_crt_free(&r->cert);
    mbedtls_x509_crt_free(&r->ca);
    mem_free(r);
}

const struct mbedtls_ssl_config *tls_context_config(const struct tls_context *r, bool strangers)
{
    return strangers ? &r->open : &r->config;
}

const struct net_identity *tls_context_identity(const struct tls_context *r)
{
    return &r->identity;
}

bool tls_context_resumes(const struct tls_context *r)
{
    return r->server ? r->seal.keys != NULL : !r->pinned;
}

bool tls_context_revoked(const struct tls_context *r, const struct net_identity *who)
{
    return tls_crl_holds(r->crl, who);
}

bool tls_context_pinned(const struct tls_context *r)
{
    return r->pinned;
}

/* -- the pin -- */

static const mbedtls_x509_crt *find_pinned(const struct tls_context *r,
                                           const mbedtls_x509_crt *shown)
{
    for (; shown; shown = shown->next) {
        uint8_t hash[32];

        if (mbedtls_sha256(shown->raw.p, shown->raw.len, hash, 0) == 0 &&
            memcmp(hash, r->pin, sizeof hash) == 0) {
            return shown;
        }
    }
    return NULL;
}

/* Copies: what follows the two in the chain that was shown must be no authority. */
static uint32_t verify_alone(const mbedtls_x509_crt *leaf, const mbedtls_x509_crt *authority,
                             const char *server_name)
{
    mbedtls_x509_crt one, ca;
    uint32_t flags = MBEDTLS_X509_BADCERT_OTHER;
    int r;

    mbedtls_x509_crt_init(&one);
    mbedtls_x509_crt_init(&ca);
    r = mbedtls_x509_crt_parse_der(&one, leaf->raw.p, leaf->raw.len);
    if (r == 0) {
        r = mbedtls_x509_crt_parse_der(&ca, authority->raw.p, authority->raw.len);
    }
    if (r == 0) {
        r = mbedtls_x509_crt_verify_with_profile(&one, &ca, NULL, &profile, server_name, &flags,
                                                 NULL, NULL);
        flags |= r != 0 && flags == 0 ? MBEDTLS_X509_BADCERT_OTHER : 0;
    }
    mbedtls_x509_crt_free(&ca);
    mbedtls_x509_crt_free(&one);
    return flags;
}

uint32_t tls_context_pin_flags(const struct tls_context *r, const struct mbedtls_x509_crt *chain,
                               const char *server_name)
{
    const mbedtls_x509_crt *authority = find_pinned(r, chain->next);

    return authority ? verify_alone(chain, authority, server_name)
                     : MBEDTLS_X509_BADCERT_NOT_TRUSTED;
}
