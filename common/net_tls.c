/* The rules, the same for every connection: TLS 1.2, ECDHE with AEAD ciphers (ChaCha20 first: it is
 * the fastest one here without hardware help), curves P-256 and X25519, certificates of our own
 * authority only with ECDSA P-256 and SHA-256, both sides verified, no renegotiation, no tickets.
 * TLS 1.3 is off because half of its findings of the last years are its own, and because the
 * identity bridge was measured with 1.2. */
#include "common/net_tls.h"

#include <stdatomic.h>
#include <string.h>

#include <mbedtls/oid.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/ssl.h>

#include "common/mem.h"
#include "common/net_cert.h"
#include "common/os.h"
#include "common/pki_rng.h"

#define PEM_FILE_MAX (256u << 10)

struct net_tls {
    atomic_uint refs;
    bool server;
    char *server_name;
    mbedtls_x509_crt ca, cert;
    mbedtls_pk_context key;
    mbedtls_ssl_config rules;
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

static enum err read_file(uint8_t **p, size_t *n, const char *path, struct errmsg *why)
{
    enum err e = os_read_file(p, n, path, PEM_FILE_MAX);

    return e ? errmsg_set(why, e, "cannot read %s: %s", path, err_text(e)) : ERR_OK;
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
        return errmsg_set(why, e, "others can read the key %s: chmod 600 it", path);
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
static enum err check_own(struct net_tls *t, const struct net_tls_conf *conf, struct errmsg *why)
{
    uint32_t flags = 0;
    int r = t->server
                ? mbedtls_x509_crt_check_extended_key_usage(
                      &t->cert, MBEDTLS_OID_SERVER_AUTH, MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH))
                : mbedtls_x509_crt_check_extended_key_usage(
                      &t->cert, MBEDTLS_OID_CLIENT_AUTH, MBEDTLS_OID_SIZE(MBEDTLS_OID_CLIENT_AUTH));

    if (r != 0 || !mbedtls_x509_crt_has_ext_type(&t->cert, MBEDTLS_X509_EXT_EXTENDED_KEY_USAGE)) {
        return errmsg_set(why, ERR_TRUST, "%s is not a certificate for a %s", conf->cert,
                          t->server ? "collector" : "client");
    }
    if (mbedtls_pk_check_pair(&t->cert.pk, &t->key, pki_rng, NULL) != 0) {
        return errmsg_set(why, ERR_TRUST, "%s is not the key of %s", conf->key, conf->cert);
    }
    if (mbedtls_x509_crt_verify_with_profile(&t->cert, &t->ca, NULL, &profile, NULL, &flags, NULL,
                                             NULL) != 0) {
        return errmsg_set(why, ERR_TRUST, "%s does not pass with the authority %s: %s", conf->cert,
                          conf->ca, net_cert_flags_text(flags));
    }
    if (net_cert_identity(&t->identity, &t->cert) != ERR_OK) {
        return errmsg_set(why, ERR_TRUST, "%s carries names that procfleet does not understand",
                          conf->cert);
    }
    return ERR_OK;
}

static enum err make_rules(struct net_tls *t)
{
    mbedtls_ssl_config *r = &t->rules;

    if (mbedtls_ssl_config_defaults(r, t->server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
                                    MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        return ERR_NOMEM;
    }
    mbedtls_ssl_conf_min_tls_version(r, MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_max_tls_version(r, MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_ciphersuites(r, suites);
    mbedtls_ssl_conf_groups(r, curves);
    mbedtls_ssl_conf_sig_algs(r, signatures);
    mbedtls_ssl_conf_cert_profile(r, &profile);
    mbedtls_ssl_conf_renegotiation(r, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
    mbedtls_ssl_conf_session_tickets(r, MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
    mbedtls_ssl_conf_authmode(r, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_rng(r, pki_rng, NULL);
    mbedtls_ssl_conf_ca_chain(r, &t->ca, NULL);
    return mbedtls_ssl_conf_own_cert(r, &t->cert, &t->key) == 0 ? ERR_OK : ERR_NOMEM;
}

static struct net_tls *create(bool server)
{
    struct net_tls *t = mem_zalloc(sizeof *t);

    if (t) {
        atomic_init(&t->refs, 1);
        t->server = server;
        mbedtls_x509_crt_init(&t->ca);
        mbedtls_x509_crt_init(&t->cert);
        mbedtls_pk_init(&t->key);
        mbedtls_ssl_config_init(&t->rules);
    }
    return t;
}

enum err net_tls_load(struct net_tls **out, const struct net_tls_conf *conf, bool server,
                      struct errmsg *why)
{
    struct net_tls *t;
    enum err e;

    if (!server && (!conf->server_name || !*conf->server_name)) {
        return errmsg_set(why, ERR_INVALID,
                          "no server name to expect: refusing to connect to "
                          "whoever answers");
    }
    t = create(server);
    if (!t) {
        return ERR_NOMEM;
    }
    e = load_cert(&t->ca, conf->ca, why);
    if (!e) {
        e = load_cert(&t->cert, conf->cert, why);
    }
    if (!e) {
        e = load_key(&t->key, conf->key, why);
    }
    if (!e) {
        e = check_own(t, conf, why);
    }
    if (!e) {
        t->server_name = server ? NULL : mem_strdup(conf->server_name);
        e = server || t->server_name ? make_rules(t) : ERR_NOMEM;
    }
    if (e) {
        net_tls_free(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

struct net_tls *net_tls_hold(struct net_tls *t)
{
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void net_tls_free(struct net_tls *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1) {
        return;
    }
    mbedtls_ssl_config_free(&t->rules);
    mbedtls_pk_free(&t->key);
    mbedtls_x509_crt_free(&t->cert);
    mbedtls_x509_crt_free(&t->ca);
    mem_free(t->server_name);
    mem_free(t);
}

const struct net_identity *net_tls_identity(const struct net_tls *t)
{
    return &t->identity;
}

bool net_tls_is_server(const struct net_tls *t)
{
    return t->server;
}

const char *net_tls_server_name(const struct net_tls *t)
{
    return t->server_name;
}

const struct mbedtls_ssl_config *net_tls_rules(const struct net_tls *t)
{
    return &t->rules;
}
