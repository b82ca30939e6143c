/* The rules, the same for every connection: TLS 1.3, or 1.2 with a peer that has no more; ECDHE
 * with AEAD ciphers (AES-256-GCM first where mbedtls_gcm.c is fast, else ChaCha20), curves P-256
 * and X25519, certificates of our own authority only with ECDSA P-256 and SHA-256, both sides
 * verified; renegotiation, early data and resumption without a new key exchange are not even built.
 *
 * Who chooses differs. In TLS 1.2 the server takes the first of its own ciphers and curves that the
 * client has, in TLS 1.3 mbedTLS's server takes the client's first. A client's key share is of the
 * first curve it names: X25519, which cmake/patches/mbedtls makes quick.
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
#include <mbedtls/x509_crl.h>
#include <mbedtls/x509_crt.h>

#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/pki/pki.h"
#include "common/tls/mbedtls_gcm.h"
#include "common/tls/tls_cert.h"
#include "common/tls/tls_session.h"

#define PEM_FILE_MAX (256u << 10)
#define CRL_FILE_MAX (1u << 20)

struct tls_context {
    atomic_uint refs;
    uint64_t id;
    bool server, pinned;
    enum tls_versions versions;
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

static atomic_uint_fast64_t next_id = 1; /* of this process */

/* In the order of preference; both sides know all of them. */
static const int suites[] = {
    MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS1_3_AES_128_GCM_SHA256,
    MBEDTLS_TLS1_3_AES_256_GCM_SHA384,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    0,
};
static const int suites_fast_aes[] = {
    MBEDTLS_TLS1_3_AES_256_GCM_SHA384,
    MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS1_3_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    0,
};

/* TLS 1.2 with X25519 is mbedTLS's own, slow code. */
static const uint16_t server_curves[] = {
    MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
    MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
    MBEDTLS_SSL_IANA_TLS_GROUP_NONE,
};
static const uint16_t client_curves[] = {
    MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
    MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
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

/* -- a revocation list in PEM (X.509 v1 or v2, ECDSA with SHA-256) -- */

struct tls_crl {
    mbedtls_x509_crl lists;
};

static bool crl_is_signed_by(const mbedtls_x509_crl *list, mbedtls_x509_crt *ca)
{
    const mbedtls_x509_buf *signature = &list->MBEDTLS_PRIVATE(sig);
    uint8_t hash[32];

    return list->issuer_raw.len == ca->subject_raw.len &&
           memcmp(list->issuer_raw.p, ca->subject_raw.p, ca->subject_raw.len) == 0 &&
           mbedtls_x509_crt_check_key_usage(ca, MBEDTLS_X509_KU_CRL_SIGN) == 0 &&
           mbedtls_sha256(list->tbs.p, list->tbs.len, hash, 0) == 0 &&
           mbedtls_pk_verify(&ca->pk, MBEDTLS_MD_SHA256, hash, sizeof hash, signature->p,
                             signature->len) == 0;
}

static enum err crl_check(const struct tls_crl *c, const char *path, const mbedtls_x509_crt *cas,
                          struct errmsg *why)
{
    for (const mbedtls_x509_crl *list = &c->lists; list; list = list->next) {
        const mbedtls_x509_crt *ca = cas;

        /* mbedTLS verifies with the key, which it takes as not const, and leaves it as it is. */
        while (ca && !crl_is_signed_by(list, (mbedtls_x509_crt *)ca)) {
            ca = ca->next;
        }
        if (!ca) {
            return errmsg_set(why, ERR_TRUST,
                              "the revocation list %s is not signed (ECDSA with SHA-256) by an "
                              "authority that is trusted here",
                              path);
        }
        if (list->next_update.year != 0 && mbedtls_x509_time_is_past(&list->next_update)) {
            char words[512];

            log_line(LOG_WARN, "tls", "old_list", "path=%s next_update=%04d-%02d-%02d effect=%s",
                     log_str(words, sizeof words, path), list->next_update.year,
                     list->next_update.mon, list->next_update.day,
                     "\"it still counts; later revocations are not known here\"");
        }
    }
    return ERR_OK;
}

static void crl_free(struct tls_crl *c)
{
    if (c) {
        mbedtls_x509_crl_free(&c->lists);
        mem_free(c);
    }
}

/* Every list in the file must be signed by one of the chain `ca`. One that was not renewed in time
 * still counts, with a line in the log: what is revoked stays revoked, and no one else is kept out.
 */
static enum err crl_load(struct tls_crl **out, const char *path, const struct mbedtls_x509_crt *ca,
                         struct errmsg *why)
{
    struct tls_crl *c;
    uint8_t *pem;
    size_t n;
    int r;
    enum err e = os_read_file(&pem, &n, path, CRL_FILE_MAX);

    if (e) {
        return errmsg_set(why, e, "cannot read the revocation list %s: %s", path, os_read_text(e));
    }
    c = mem_zalloc(sizeof *c);
    if (!c) {
        mem_free(pem);
        return ERR_NOMEM;
    }
    mbedtls_x509_crl_init(&c->lists);
    r = mbedtls_x509_crl_parse(&c->lists, pem, n + 1);
    mem_free(pem);
    e = r == 0 ? crl_check(c, path, ca, why)
               : errmsg_set(why, ERR_INVALID, "%s is not a revocation list in PEM form", path);
    if (e) {
        crl_free(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

static bool crl_holds(const struct tls_crl *c, const struct net_identity *who)
{
    for (const mbedtls_x509_crl *list = c ? &c->lists : NULL; list; list = list->next) {
        for (const mbedtls_x509_crl_entry *e = &list->entry; e; e = e->next) {
            if (e->serial.len > 0 && e->serial.len == who->serial_n &&
                memcmp(e->serial.p, who->serial, who->serial_n) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* -- files -- */

static enum err context_read_file(uint8_t **p, size_t *n, const char *path, struct errmsg *why)
{
    enum err e = os_read_file(p, n, path, PEM_FILE_MAX);

    return e ? errmsg_set(why, e, "cannot read %s: %s", path, os_read_text(e)) : ERR_OK;
}

static enum err context_load_cert(mbedtls_x509_crt *crt, const char *path, struct errmsg *why)
{
    uint8_t *pem;
    size_t n;
    int r;
    enum err e = context_read_file(&pem, &n, path, why);

    if (e) {
        return e;
    }
    r = mbedtls_x509_crt_parse(crt, pem, n + 1);
    mem_free(pem);
    return r ? errmsg_set(why, ERR_INVALID, "%s is not a certificate in PEM form", path) : ERR_OK;
}

static enum err context_load_key(mbedtls_pk_context *key, const char *path, struct errmsg *why)
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
    e = context_read_file(&pem, &n, path, why);
    if (e) {
        return e;
    }
    r = mbedtls_pk_parse_key(key, pem, n + 1, NULL, 0, pki_rng, NULL);
    mbedtls_platform_zeroize(pem, n);
    mem_free(pem);
    return r ? errmsg_set(why, ERR_INVALID, "%s is not a private key in PEM form", path) : ERR_OK;
}

static void context_cause(const struct net_tls_conf *conf, enum tls_cause cause)
{
    if (conf->cause) {
        *conf->cause = cause;
    }
}

/* Whether our own certificate will be accepted by the other side: better to hear it here. */
static enum err context_check_own(struct tls_context *r, const struct net_tls_conf *conf,
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
        context_cause(conf, tls_cert_flags_cause(flags, true));
        return errmsg_set(why, ERR_TRUST, "%s does not pass with the authority %s: %s", conf->cert,
                          conf->ca, tls_cert_flags_text(flags));
    }
    if (tls_cert_identity(&r->identity, &r->cert) != ERR_OK) {
        return errmsg_set(why, ERR_TRUST, "%s carries names that procfleet does not understand",
                          conf->cert);
    }
    return ERR_OK;
}

static enum err context_read_files(struct tls_context *r, const struct net_tls_conf *conf,
                                   struct errmsg *why)
{
    enum err e = context_load_cert(&r->ca, conf->ca, why);

    if (!e) {
        e = context_load_cert(&r->cert, conf->cert, why);
    }
    if (!e) {
        e = context_load_key(&r->key, conf->key, why);
    }
    if (!e && r->server && conf->crl) {
        e = crl_load(&r->crl, conf->crl, &r->ca, why);
        if (e == ERR_NOTFOUND) {
            context_cause(conf, TLS_CAUSE_NO_LIST);
        }
    }
    return e ? e : context_check_own(r, conf, why);
}

/* -- rules -- */

/* A client says what it prefers for both sides: the other one is quick with AES, where this one
 * only does not mind. */
static const int *context_suites(bool server)
{
    bool aes_first = server ? mbedtls_gcm_is_fast() : mbedtls_gcm_in_hardware();

    return aes_first ? suites_fast_aes : suites;
}

/* What all of them share. */
static enum err context_make_config(mbedtls_ssl_config *c, bool server, enum tls_versions versions)
{
    if (mbedtls_ssl_config_defaults(c, server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
                                    MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        return ERR_NOMEM;
    }
    mbedtls_ssl_conf_min_tls_version(c, versions == TLS_ONLY_1_3 ? MBEDTLS_SSL_VERSION_TLS1_3
                                                                 : MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_max_tls_version(c, versions == TLS_ONLY_1_2 ? MBEDTLS_SSL_VERSION_TLS1_2
                                                                 : MBEDTLS_SSL_VERSION_TLS1_3);
    mbedtls_ssl_conf_ciphersuites(c, context_suites(server));
    mbedtls_ssl_conf_groups(c, server ? server_curves : client_curves);
    mbedtls_ssl_conf_sig_algs(c, signatures);
    mbedtls_ssl_conf_cert_profile(c, &profile);
    mbedtls_ssl_conf_session_tickets(c, MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
    mbedtls_ssl_conf_authmode(c, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_rng(c, pki_rng, NULL);
    return ERR_OK;
}

/* What tickets are bound to: what this side believes in and what it shows. */
static enum err context_bind_tickets(struct tls_context *r)
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

/* Whether sessions are taken up again under these rules. */
static bool tls_context_resumes(const struct tls_context *r)
{
    return r->server ? r->seal.keys != NULL : !r->pinned;
}

static enum err context_make_rules(struct tls_context *r)
{
    enum err e = context_make_config(&r->config, r->server, r->versions);

    if (!e && r->seal.keys) {
        e = context_bind_tickets(r);
        mbedtls_ssl_conf_session_tickets_cb(&r->config, tls_session_write, tls_session_parse,
                                            &r->seal);
    }
    if (e) {
        return e;
    }
    if (tls_context_resumes(r)) {
        mbedtls_ssl_conf_session_tickets(&r->config, MBEDTLS_SSL_SESSION_TICKETS_ENABLED);
        mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(
            &r->config, MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
    }
    mbedtls_ssl_conf_ca_chain(&r->config, &r->ca, NULL);
    if (!r->pinned && mbedtls_ssl_conf_own_cert(&r->config, &r->cert, &r->key) != 0) {
        return ERR_NOMEM;
    }
    return ERR_OK;
}

static enum err context_add_shown(struct tls_context *r, const mbedtls_x509_crt *crt)
{
    return mbedtls_x509_crt_parse_der(&r->shown, crt->raw.p, crt->raw.len) == 0 ? ERR_OK
                                                                                : ERR_NOMEM;
}

static enum err context_make_open_rules(struct tls_context *r)
{
    enum err e = context_make_config(&r->open, true, r->versions);

    if (!e) {
        mbedtls_ssl_conf_authmode(&r->open, MBEDTLS_SSL_VERIFY_NONE);
        e = context_add_shown(r, &r->cert);
    }
    for (const mbedtls_x509_crt *ca = &r->ca; ca && !e; ca = ca->next) {
        e = context_add_shown(r, ca);
    }
    if (!e && mbedtls_ssl_conf_own_cert(&r->open, &r->shown, &r->key) != 0) {
        e = ERR_NOMEM;
    }
    return e;
}

static struct tls_context *context_create(const struct net_tls_conf *conf, bool server)
{
    struct tls_context *r = mem_zalloc(sizeof *r);

    if (!r) {
        return NULL;
    }
    atomic_init(&r->refs, 1);
    r->id = atomic_fetch_add(&next_id, 1);
    r->server = server;
    r->versions = conf->versions;
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
    struct tls_context *r = context_create(conf, server);
    enum err e;

    if (!r) {
        return ERR_NOMEM;
    }
    r->seal.keys = tickets;
    e = pki_begin();
    if (!e && !r->pinned) {
        e = context_read_files(r, conf, why);
    }
    if (!e) {
        e = context_make_rules(r);
    }
    if (!e && server) {
        e = context_make_open_rules(r);
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
    crl_free(r->crl);
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

uint64_t tls_context_id(const struct tls_context *r)
{
    return r->id;
}

bool tls_context_revoked(const struct tls_context *r, const struct net_identity *who)
{
    return crl_holds(r->crl, who);
}

bool tls_context_pinned(const struct tls_context *r)
{
    return r->pinned;
}

/* -- the pin -- */

static const mbedtls_x509_crt *pin_find(const struct tls_context *r, const mbedtls_x509_crt *shown)
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
static uint32_t pin_verify_alone(const mbedtls_x509_crt *leaf, const mbedtls_x509_crt *authority,
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
    const mbedtls_x509_crt *authority = pin_find(r, chain->next);

    return authority ? pin_verify_alone(chain, authority, server_name)
                     : MBEDTLS_X509_BADCERT_NOT_TRUSTED;
}
