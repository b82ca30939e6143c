#include "common/tls/tls_cert.h"

#include <stdio.h>
#include <string.h>

#include <mbedtls/oid.h>
#include <mbedtls/sha256.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki.h"

#define FILE_MAX (1u << 20)
#define URN      "urn:procfleet:"

static enum err cert_read_name(struct net_identity *id, const mbedtls_x509_crt *crt)
{
    for (const mbedtls_x509_name *n = &crt->subject; n; n = n->next) {
        if (!n->oid.p || MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &n->oid) != 0) {
            continue;
        }
        if (id->name[0] || n->val.len >= sizeof id->name) {
            return ERR_INVALID;
        }
        memcpy(id->name, n->val.p, n->val.len);
        if (!pki_name_ok(id->name) || strlen(id->name) != n->val.len) {
            return ERR_INVALID;
        }
    }
    return id->name[0] ? ERR_OK : ERR_INVALID;
}

static unsigned cert_role_bit(const char *text)
{
    static const struct {
        const char *text;
        unsigned bit;
    } roles[] = {
        {"agent", NET_AGENT}, {"query", NET_QUERY}, {"subscribe", NET_SUBSCRIBE},
        {"admin", NET_ADMIN}, {"mark", NET_MARK},
    };

    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(roles[i].text, text) == 0) {
            return roles[i].bit;
        }
    }
    return 0; /* a role of a later version: gives no right here */
}

/* One name below urn:procfleet:. */
static enum err cert_read_urn(struct net_identity *id, const char *urn)
{
    if (strncmp(urn, "role:", 5) == 0) {
        id->roles |= cert_role_bit(urn + 5);
        return ERR_OK;
    }
    if (strncmp(urn, "host:", 5) == 0) {
        if (id->has_host || uuid_parse(&id->host, urn + 5) != ERR_OK) {
            return ERR_INVALID;
        }
        id->has_host = true;
        return ERR_OK;
    }
    if (strncmp(urn, "scope:", 6) == 0) {
        size_t n = strlen(urn + 6);

        if (id->scope[0] || n == 0 || n >= sizeof id->scope) {
            return ERR_INVALID;
        }
        memcpy(id->scope, urn + 6, n + 1);
        return ERR_OK;
    }
    return ERR_INVALID;
}

/* A URI name; others than ours say nothing to us. */
static enum err cert_read_uri(struct net_identity *id, const mbedtls_x509_buf *uri)
{
    char text[256];

    if (uri->len < sizeof URN - 1 || memcmp(uri->p, URN, sizeof URN - 1) != 0) {
        return ERR_OK;
    }
    if (uri->len >= sizeof text || memchr(uri->p, '\0', uri->len)) {
        return ERR_INVALID;
    }
    memcpy(text, uri->p, uri->len);
    text[uri->len] = '\0';
    return cert_read_urn(id, text + sizeof URN - 1);
}

static enum err cert_read_alt_names(struct net_identity *id, const mbedtls_x509_crt *crt)
{
    enum err e = ERR_OK;

    for (const mbedtls_x509_sequence *s = &crt->subject_alt_names; s && !e; s = s->next) {
        mbedtls_x509_subject_alternative_name san;

        if (!s->buf.p || mbedtls_x509_parse_subject_alt_name(&s->buf, &san) != 0) {
            continue;
        }
        if (san.type == MBEDTLS_X509_SAN_UNIFORM_RESOURCE_IDENTIFIER) {
            e = cert_read_uri(id, &san.san.unstructured_name);
        }
        mbedtls_x509_free_subject_alt_name(&san);
    }
    return e;
}

static enum err cert_read_time(int64_t *utc_ns, const mbedtls_x509_time *t)
{
    char text[CLK_TEXT];

    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", t->year, t->mon, t->day, t->hour,
             t->min, t->sec);
    return clk_parse_when(utc_ns, text, 0);
}

enum err tls_cert_identity(struct net_identity *out, const struct mbedtls_x509_crt *crt)
{
    struct net_identity id = {.has_host = false};
    enum err e = cert_read_name(&id, crt);

    if (!e) {
        e = cert_read_alt_names(&id, crt);
    }
    if (!e) {
        e = cert_read_time(&id.not_before_ns, &crt->valid_from);
    }
    if (!e) {
        e = cert_read_time(&id.not_after_ns, &crt->valid_to);
    }
    if (!e && crt->serial.len > sizeof id.serial) {
        e = ERR_INVALID;
    }
    if (!e) {
        memcpy(id.serial, crt->serial.p, crt->serial.len);
        id.serial_n = (uint8_t)crt->serial.len;
    }
    if (!e && mbedtls_sha256(crt->raw.p, crt->raw.len, id.fingerprint, 0) != 0) {
        e = ERR_INVALID;
    }
    if (!e) {
        *out = id;
    }
    return e;
}

bool tls_cert_is_only(const struct mbedtls_x509_crt *crt, bool server)
{
    const mbedtls_asn1_sequence *use = &crt->ext_key_usage;

    if (!mbedtls_x509_crt_has_ext_type(crt, MBEDTLS_X509_EXT_EXTENDED_KEY_USAGE) || use->next) {
        return false;
    }
    return server ? MBEDTLS_OID_CMP(MBEDTLS_OID_SERVER_AUTH, &use->buf) == 0
                  : MBEDTLS_OID_CMP(MBEDTLS_OID_CLIENT_AUTH, &use->buf) == 0;
}

void tls_cert_claimed(char *name, size_t size, const struct mbedtls_x509_crt *crt)
{
    name[0] = '\0';
    for (const mbedtls_x509_name *n = &crt->subject; n; n = n->next) {
        if (n->oid.p && MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &n->oid) == 0) {
            (void)snprintf(name, size, "%.*s", (int)(n->val.len < size ? n->val.len : size - 1),
                           (const char *)n->val.p);
            return;
        }
    }
}

const char *tls_cert_denied(const struct net_identity *who, unsigned roles, bool refuse_scoped)
{
    if (!(who->roles & roles)) {
        return "wrong role";
    }
    if (refuse_scoped && who->scope[0]) {
        return "scoped certificate where a scope cannot be kept";
    }
    if ((who->roles & NET_AGENT) && !who->has_host) {
        return "agent certificate without a host identity";
    }
    return NULL;
}

static const struct {
    uint32_t flags;
    const char *text;
    enum tls_cause own, server;
} flag_texts[] = {
    /* what matters first comes first */
    {MBEDTLS_X509_BADCERT_MISSING | MBEDTLS_X509_BADCERT_SKIP_VERIFY, "no certificate",
     TLS_CAUSE_NONE, TLS_CAUSE_NONE},
    {MBEDTLS_X509_BADCERT_NOT_TRUSTED, "unknown authority", TLS_CAUSE_OWN_AUTHORITY,
     TLS_CAUSE_SERVER_AUTHORITY},
    {MBEDTLS_X509_BADCERT_REVOKED, "revoked", TLS_CAUSE_NONE, TLS_CAUSE_NONE},
    {MBEDTLS_X509_BADCERT_EXPIRED, "expired", TLS_CAUSE_OWN_EXPIRED, TLS_CAUSE_SERVER_EXPIRED},
    {MBEDTLS_X509_BADCERT_FUTURE, "not yet valid", TLS_CAUSE_OWN_FUTURE, TLS_CAUSE_NONE},
    {MBEDTLS_X509_BADCERT_EXT_KEY_USAGE | MBEDTLS_X509_BADCERT_KEY_USAGE, "wrong use",
     TLS_CAUSE_NONE, TLS_CAUSE_NONE},
    {MBEDTLS_X509_BADCERT_CN_MISMATCH, "wrong server name", TLS_CAUSE_NONE, TLS_CAUSE_SERVER_NAME},
    {UINT32_MAX, "bad certificate", TLS_CAUSE_NONE, TLS_CAUSE_NONE},
};

/* Its row: the last one also for no flag at all. */
static size_t cert_flags_row(uint32_t flags)
{
    size_t i = 0;

    while (i + 1 < sizeof flag_texts / sizeof *flag_texts && !(flags & flag_texts[i].flags)) {
        i++;
    }
    return i;
}

const char *tls_cert_flags_text(uint32_t flags)
{
    return flag_texts[cert_flags_row(flags)].text;
}

enum tls_cause tls_cert_flags_cause(uint32_t flags, bool own)
{
    size_t i = cert_flags_row(flags);

    return own ? flag_texts[i].own : flag_texts[i].server;
}

static enum err cert_parse(struct net_identity *out, const void *der, size_t n, bool clients_only)
{
    mbedtls_x509_crt crt;
    enum err e = ERR_INVALID;

    mbedtls_x509_crt_init(&crt);
    if (mbedtls_x509_crt_parse_der(&crt, der, n) == 0 && crt.raw.len == n &&
        (!clients_only || tls_cert_is_only(&crt, false))) {
        e = tls_cert_identity(out, &crt);
    }
    mbedtls_x509_crt_free(&crt);
    return e;
}

enum err tls_cert_parse(struct net_identity *out, const void *der, size_t n)
{
    return cert_parse(out, der, n, false);
}

enum err tls_cert_parse_client(struct net_identity *out, const void *der, size_t n)
{
    return cert_parse(out, der, n, true);
}

#define CERTIFICATE_REQUIRED 116 /* RFC 8446, 6; mbedTLS has no name for it */

const char *tls_cert_alert_text(unsigned char alert)
{
    switch (alert) {
    case MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA:
        return "it does not know the authority of our certificate";
    case MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED:
        return "our certificate's role or scope is not allowed here";
    case MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED:
        return "it finds our certificate expired or not yet valid";
    case MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED:
        return "our certificate is revoked";
    case MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT:
        return "our certificate is not for this use";
    case MBEDTLS_SSL_ALERT_MSG_BAD_CERT:
    case MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN:
    case MBEDTLS_SSL_ALERT_MSG_NO_CERT:
    case CERTIFICATE_REQUIRED:
        return "it does not accept our certificate";
    case MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION:
    case MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE:
        return "no TLS version, cipher or certificate in common";
    default:
        return "it ended the handshake with an alert";
    }
}

enum tls_cause tls_cert_alert_cause(unsigned char alert)
{
    switch (alert) {
    case MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA:
        return TLS_CAUSE_REFUSED_AUTHORITY;
    case MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED:
        return TLS_CAUSE_REFUSED_ROLE;
    case MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED:
        return TLS_CAUSE_REFUSED_TIME;
    case MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED:
        return TLS_CAUSE_REFUSED_REVOKED;
    default:
        return TLS_CAUSE_NONE;
    }
}

static enum err authority_first_end(int64_t *end_ns, const mbedtls_x509_crt *chain)
{
    int64_t first_ns = INT64_MAX;
    enum err e = ERR_OK;

    for (const mbedtls_x509_crt *c = chain; c && !e; c = c->next) {
        int64_t ns;

        e = cert_read_time(&ns, &c->valid_to);
        first_ns = !e && ns < first_ns ? ns : first_ns;
    }
    if (!e) {
        *end_ns = first_ns;
    }
    return e;
}

enum err tls_cert_authority_end(int64_t *end_ns, const char *path)
{
    mbedtls_x509_crt chain;
    uint8_t *text;
    size_t n;
    enum err e = os_read_file(&text, &n, path, FILE_MAX);

    if (e) {
        return e;
    }
    mbedtls_x509_crt_init(&chain);
    e = mbedtls_x509_crt_parse(&chain, text, n + 1) == 0 ? authority_first_end(end_ns, &chain)
                                                         : ERR_INVALID;
    mbedtls_x509_crt_free(&chain);
    mem_free(text);
    return e;
}
