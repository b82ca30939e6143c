/* Certificates are written from a draft that holds only values checked here: nothing is copied from
 * a request or from another certificate but the authority's own name. What each kind carries:
 *
 *   authority   basicConstraints CA, path length 0; keyCertSign, cRLSign
 *   collector   serverAuth; DNS procfleet-collector and the names given
 *   the others  clientAuth; urn:procfleet:role:…, agents also urn:procfleet:host:…
 *
 * so that a stolen agent certificate cannot pose as the collector, nor the other way round. A key
 * file is written before its certificate, and taken away again when the certificate fails: a
 * certificate on disk always has its key. */
#include "common/pki.h"

#include <stdio.h>
#include <string.h>

#include <mbedtls/ecp.h>
#include <mbedtls/oid.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/x509_crt.h>

#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/pki_rng.h"

#define PEM_MAX      8192
#define DNS_MAX      16            /* names of one certificate beside the fixed one */
#define DNS_NAME_MAX 253           /* bytes */
#define SCOPE_MAX    127           /* bytes */
#define BACKDATE_NS  (300 * CLK_S) /* clocks of a fleet differ */
#define SANS_MAX     (DNS_MAX + 3)
#define SAN_TEXT_MAX 256

/* What goes into a certificate's subject alternative name, with the memory it points to. */
struct sans {
    mbedtls_x509_san_list list[SANS_MAX];
    char text[SANS_MAX][SAN_TEXT_MAX];
    size_t n;
};

struct authority {
    mbedtls_x509_crt cert;
    mbedtls_pk_context key;
    char subject[128];
};

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* 1 to max characters, each a name's or one of `more`. */
static bool text_ok(const char *text, size_t max, const char *more)
{
    size_t n = text ? strlen(text) : 0;

    for (size_t i = 0; i < n; i++) {
        if (!name_char(text[i]) && !strchr(more, text[i])) {
            return false;
        }
    }
    return n > 0 && n <= max;
}

bool pki_name_ok(const char *name)
{
    return text_ok(name, MODEL_HOST_NAME_MAX, "");
}

static const struct {
    const char *text;
    enum pki_use use;
} uses[] = {
    {"agent", PKI_AGENT}, {"query", PKI_QUERY},         {"subscribe", PKI_SUBSCRIBE},
    {"admin", PKI_ADMIN}, {"collector", PKI_COLLECTOR},
};

enum err pki_use_parse(enum pki_use *use, const char *text)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        if (strcmp(uses[i].text, text) == 0) {
            *use = uses[i].use;
            return ERR_OK;
        }
    }
    return ERR_INVALID;
}

static const char *use_text(enum pki_use use)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        if (uses[i].use == use) {
            return uses[i].text;
        }
    }
    return "?";
}

static enum err key_make(mbedtls_pk_context *key)
{
    if (mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) != 0) {
        return ERR_NOMEM;
    }
    if (mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), pki_rng, NULL) != 0) {
        return ERR_IO;
    }
    return ERR_OK;
}

/* "20261121093900", what the certificate writer wants. */
static void time_text(char out[16], int64_t utc_ns)
{
    char text[CLK_TEXT];
    size_t n = 0;

    clk_format_utc(text, sizeof text, utc_ns, 0);
    for (const char *p = text; *p && n < 14; p++) {
        if (*p >= '0' && *p <= '9') {
            out[n++] = *p;
        }
    }
    out[n] = '\0';
}

/* Version, serial number, validity, keys and names: what all certificates have. */
static int draft_begin(mbedtls_x509write_cert *w, mbedtls_pk_context *subject_key,
                       mbedtls_pk_context *issuer_key, int64_t now_ns, int64_t life_ns)
{
    unsigned char serial[16];
    char from[16], until[16];
    int r = pki_rng(NULL, serial, sizeof serial);

    if (r != 0) {
        return r;
    }
    serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40); /* positive, full length */
    time_text(from, now_ns - BACKDATE_NS);
    time_text(until, clk_add(now_ns, life_ns));
    mbedtls_x509write_crt_set_version(w, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(w, MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(w, subject_key);
    mbedtls_x509write_crt_set_issuer_key(w, issuer_key);
    r = mbedtls_x509write_crt_set_serial_raw(w, serial, sizeof serial);
    if (r == 0) {
        r = mbedtls_x509write_crt_set_validity(w, from, until);
    }
    return r;
}

static int draft_names(mbedtls_x509write_cert *w, const char *subject, const char *issuer)
{
    int r = mbedtls_x509write_crt_set_subject_name(w, subject);

    if (r == 0) {
        r = mbedtls_x509write_crt_set_issuer_name(w, issuer);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_subject_key_identifier(w);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_authority_key_identifier(w);
    }
    return r;
}

static enum err write_key(const char *path, mbedtls_pk_context *key, struct errmsg *why)
{
    unsigned char pem[PEM_MAX];
    enum err e = ERR_NOMEM;

    if (mbedtls_pk_write_key_pem(key, pem, sizeof pem) == 0) {
        e = os_write_file(path, pem, strlen((const char *)pem), true);
    }
    mbedtls_platform_zeroize(pem, sizeof pem);
    return e ? errmsg_set(why, e, "cannot write the key %s: %s", path, err_text(e)) : ERR_OK;
}

/* Signs the draft and writes key and certificate. */
static enum err write_pair(mbedtls_x509write_cert *w, mbedtls_pk_context *key,
                           const char *cert_path, const char *key_path, struct errmsg *why)
{
    unsigned char pem[PEM_MAX];
    enum err e;

    if (mbedtls_x509write_crt_pem(w, pem, sizeof pem, pki_rng, NULL) != 0) {
        return errmsg_set(why, ERR_NOMEM, "cannot sign the certificate %s", cert_path);
    }
    e = write_key(key_path, key, why);
    if (e) {
        return e;
    }
    e = os_write_file(cert_path, pem, strlen((const char *)pem), false);
    if (e) {
        err_ignore(os_remove(key_path));
        return errmsg_set(why, e, "cannot write the certificate %s: %s", cert_path, err_text(e));
    }
    return ERR_OK;
}

static enum err refuse_existing(const char *path, struct errmsg *why)
{
    if (!os_exists(path)) {
        return ERR_OK;
    }
    return errmsg_set(why, ERR_EXISTS,
                      "%s exists already; nothing is overwritten: "
                      "choose another place or move it away",
                      path);
}

static enum err authority_paths(char **cert, char **key, const char *dir)
{
    *cert = os_path_join(dir, "ca.pem");
    *key = os_path_join(dir, "ca.key");
    return *cert && *key ? ERR_OK : ERR_NOMEM;
}

static int draft_authority(mbedtls_x509write_cert *w, mbedtls_pk_context *key, const char *subject,
                           int64_t now_ns, int64_t life_ns)
{
    int r = draft_begin(w, key, key, now_ns, life_ns);

    if (r == 0) {
        r = draft_names(w, subject, subject);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_basic_constraints(w, 1, 0);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_key_usage(w, MBEDTLS_X509_KU_KEY_CERT_SIGN |
                                                       MBEDTLS_X509_KU_CRL_SIGN);
    }
    return r;
}

static enum err make_authority(const char *cert_path, const char *key_path, const char *common_name,
                               int64_t now_ns, int64_t life_ns, struct errmsg *why)
{
    mbedtls_x509write_cert w;
    mbedtls_pk_context key;
    char subject[128];
    enum err e;

    mbedtls_x509write_crt_init(&w);
    mbedtls_pk_init(&key);
    snprintf(subject, sizeof subject, "CN=%s", common_name);
    e = key_make(&key);
    if (e) {
        errmsg_set(why, e, "cannot make a key: %s", err_text(e));
    } else if (draft_authority(&w, &key, subject, now_ns, life_ns) != 0) {
        e = errmsg_set(why, ERR_NOMEM, "cannot make the authority's certificate");
    } else {
        e = write_pair(&w, &key, cert_path, key_path, why);
    }
    mbedtls_x509write_crt_free(&w);
    mbedtls_pk_free(&key);
    return e;
}

enum err pki_init(const char *dir, const char *common_name, int64_t now_ns, int64_t life_ns,
                  struct errmsg *why)
{
    char *cert_path = NULL, *key_path = NULL;
    enum err e;

    if (life_ns <= 0) {
        return errmsg_set(why, ERR_INVALID, "the authority must live longer than no time");
    }
    if (!text_ok(common_name, MODEL_HOST_NAME_MAX, " ") || common_name[0] == ' ' ||
        common_name[strlen(common_name) - 1] == ' ') {
        return errmsg_set(why, ERR_INVALID,
                          "the authority's name must be 1 to %d letters, digits, "
                          "blanks, '.', '_' or '-'",
                          MODEL_HOST_NAME_MAX);
    }
    e = authority_paths(&cert_path, &key_path, dir);
    if (!e) {
        e = refuse_existing(cert_path, why);
    }
    if (!e) {
        e = refuse_existing(key_path, why);
    }
    if (!e) {
        e = os_mkdirs(dir, true);
        if (e) {
            errmsg_set(why, e, "cannot create the directory %s: %s", dir, err_text(e));
        }
    }
    if (!e) {
        e = make_authority(cert_path, key_path, common_name, now_ns, life_ns, why);
    }
    mem_free(cert_path);
    mem_free(key_path);
    return e;
}

static enum err read_pem(uint8_t **pem, size_t *n, const char *path, const char *dir,
                         struct errmsg *why)
{
    enum err e = os_read_file(pem, n, path, PEM_MAX);

    if (e == ERR_NOTFOUND) {
        return errmsg_set(why, e,
                          "no authority in %s (%s is missing): make one with "
                          "'procfleet-collector pki init --dir %s'",
                          dir, path, dir);
    }
    return e ? errmsg_set(why, e, "cannot read %s: %s", path, err_text(e)) : ERR_OK;
}

static enum err parse_authority(struct authority *a, const char *cert_path, const char *key_path,
                                const char *dir, struct errmsg *why)
{
    uint8_t *pem = NULL;
    size_t n = 0;
    int r;
    enum err e = read_pem(&pem, &n, cert_path, dir, why);

    if (e) {
        return e;
    }
    r = mbedtls_x509_crt_parse(&a->cert, pem, n + 1);
    mem_free(pem);
    if (r != 0) {
        return errmsg_set(why, ERR_CORRUPT, "%s is not a certificate", cert_path);
    }
    e = os_check_private(key_path);
    if (e == ERR_ACCESS) {
        return errmsg_set(why, e, "others can read %s: chmod 600 it", key_path);
    }
    e = read_pem(&pem, &n, key_path, dir, why);
    if (e) {
        return e;
    }
    r = mbedtls_pk_parse_key(&a->key, pem, n + 1, NULL, 0, pki_rng, NULL);
    mbedtls_platform_zeroize(pem, n);
    mem_free(pem);
    if (r != 0 || mbedtls_pk_check_pair(&a->cert.pk, &a->key, pki_rng, NULL) != 0) {
        return errmsg_set(why, ERR_CORRUPT, "%s is not the key of %s", key_path, cert_path);
    }
    if (mbedtls_x509_dn_gets(a->subject, sizeof a->subject, &a->cert.subject) <= 0) {
        return errmsg_set(why, ERR_CORRUPT, "%s has no usable name", cert_path);
    }
    return ERR_OK;
}

static void authority_init(struct authority *a)
{
    mbedtls_x509_crt_init(&a->cert);
    mbedtls_pk_init(&a->key);
    a->subject[0] = '\0';
}

static void authority_fini(struct authority *a)
{
    mbedtls_x509_crt_free(&a->cert);
    mbedtls_pk_free(&a->key);
}

static enum err authority_load(struct authority *a, const char *dir, struct errmsg *why)
{
    char *cert_path = NULL, *key_path = NULL;
    enum err e = authority_paths(&cert_path, &key_path, dir);

    if (!e) {
        e = parse_authority(a, cert_path, key_path, dir, why);
    }
    mem_free(cert_path);
    mem_free(key_path);
    return e;
}

/* Adds one name; the caller has checked that it fits. `n` bytes of text are the name's. */
static void sans_add(struct sans *s, int type, const char *text, size_t n)
{
    mbedtls_x509_san_list *item = &s->list[s->n];

    memcpy(s->text[s->n], text, n);
    item->node.type = type;
    item->node.san.unstructured_name.p = (unsigned char *)s->text[s->n];
    item->node.san.unstructured_name.len = n;
    item->next = NULL;
    if (s->n > 0) {
        s->list[s->n - 1].next = item;
    }
    s->n++;
}

static void sans_add_urn(struct sans *s, const char *kind, const char *value)
{
    char urn[SAN_TEXT_MAX];
    int n = snprintf(urn, sizeof urn, "urn:procfleet:%s:%s", kind, value);

    sans_add(s, MBEDTLS_X509_SAN_UNIFORM_RESOURCE_IDENTIFIER, urn, (size_t)n);
}

static void sans_add_host(struct sans *s, const char *name)
{
    char address[16];
    size_t n = mbedtls_x509_crt_parse_cn_inet_pton(name, address);

    if (n > 0) {
        sans_add(s, MBEDTLS_X509_SAN_IP_ADDRESS, address, n);
    } else {
        sans_add(s, MBEDTLS_X509_SAN_DNS_NAME, name, strlen(name));
    }
}

static enum err sans_fill(struct sans *s, const struct pki_issue *what, struct errmsg *why)
{
    struct uuid host = what->host;
    char text[MODEL_UUID_TEXT];
    enum err e;

    if (what->use == PKI_COLLECTOR) {
        sans_add_host(s, PKI_SERVER_NAME);
        for (size_t i = 0; i < what->n_dns; i++) {
            sans_add_host(s, what->dns[i]);
        }
        return ERR_OK;
    }
    sans_add_urn(s, "role", use_text(what->use));
    if (what->use == PKI_AGENT) {
        e = what->has_host ? ERR_OK : uuid_random(&host);
        if (e) {
            return errmsg_set(why, e, "cannot make a host identity: %s", err_text(e));
        }
        sans_add_urn(s, "host", uuid_format(text, &host));
    }
    if (what->scope) {
        sans_add_urn(s, "scope", what->scope);
    }
    return ERR_OK;
}

static enum err check_dns(const struct pki_issue *what, struct errmsg *why)
{
    if (what->n_dns > 0 && what->use != PKI_COLLECTOR) {
        return errmsg_set(why, ERR_INVALID, "only a collector's certificate carries DNS names");
    }
    if (what->n_dns > DNS_MAX) {
        return errmsg_set(why, ERR_INVALID, "at most %d DNS names fit", DNS_MAX);
    }
    for (size_t i = 0; i < what->n_dns; i++) {
        if (!text_ok(what->dns[i], DNS_NAME_MAX, ":")) {
            return errmsg_set(why, ERR_INVALID, "'%.80s' is neither a DNS name nor an IP address",
                              what->dns[i]);
        }
    }
    return ERR_OK;
}

static enum err check_issue(const struct pki_issue *what, struct errmsg *why)
{
    if (!pki_name_ok(what->name)) {
        return errmsg_set(why, ERR_INVALID,
                          "the name must be 1 to %d letters, digits, '.', '_' or "
                          "'-'",
                          MODEL_HOST_NAME_MAX);
    }
    if (what->life_ns <= 0) {
        return errmsg_set(why, ERR_INVALID, "the certificate must live longer than no time");
    }
    if (what->scope && what->use != PKI_QUERY && what->use != PKI_SUBSCRIBE) {
        return errmsg_set(why, ERR_INVALID, "only query and subscribe certificates have a scope");
    }
    if (what->scope && !text_ok(what->scope, SCOPE_MAX, "*?[]")) {
        return errmsg_set(why, ERR_INVALID,
                          "the scope must be a host name or glob of 1 to %d "
                          "letters, digits, '.', '_', '-', '*', '?', '[', ']'",
                          SCOPE_MAX);
    }
    if (what->has_host && what->use != PKI_AGENT) {
        return errmsg_set(why, ERR_INVALID, "only an agent's certificate carries a host identity");
    }
    return check_dns(what, why);
}

static int draft_use(mbedtls_x509write_cert *w, enum pki_use use)
{
    mbedtls_asn1_sequence eku = {.next = NULL};

    eku.buf.tag = MBEDTLS_ASN1_OID;
    if (use == PKI_COLLECTOR) {
        eku.buf.p = (unsigned char *)MBEDTLS_OID_SERVER_AUTH;
        eku.buf.len = MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH);
    } else {
        eku.buf.p = (unsigned char *)MBEDTLS_OID_CLIENT_AUTH;
        eku.buf.len = MBEDTLS_OID_SIZE(MBEDTLS_OID_CLIENT_AUTH);
    }
    return mbedtls_x509write_crt_set_ext_key_usage(w, &eku);
}

static int draft_leaf(mbedtls_x509write_cert *w, struct authority *a, mbedtls_pk_context *key,
                      const struct pki_issue *what, const struct sans *sans)
{
    char subject[128];
    int r = draft_begin(w, key, &a->key, what->now_ns, what->life_ns);

    snprintf(subject, sizeof subject, "CN=%s", what->name);
    if (r == 0) {
        r = draft_names(w, subject, a->subject);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_basic_constraints(w, 0, 0);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_key_usage(w, MBEDTLS_X509_KU_DIGITAL_SIGNATURE);
    }
    if (r == 0) {
        r = draft_use(w, what->use);
    }
    if (r == 0) {
        r = mbedtls_x509write_crt_set_subject_alternative_name(w, sans->list);
    }
    return r;
}

static enum err make_leaf(struct authority *a, const struct pki_issue *what, const char *cert_path,
                          const char *key_path, struct errmsg *why)
{
    mbedtls_x509write_cert w;
    mbedtls_pk_context key;
    struct sans sans = {.n = 0};
    enum err e;

    mbedtls_x509write_crt_init(&w);
    mbedtls_pk_init(&key);
    e = sans_fill(&sans, what, why);
    if (e) {
        goto out;
    }
    e = key_make(&key);
    if (e) {
        errmsg_set(why, e, "cannot make a key: %s", err_text(e));
        goto out;
    }
    if (draft_leaf(&w, a, &key, what, &sans) != 0) {
        e = errmsg_set(why, ERR_NOMEM, "cannot make the certificate %s", cert_path);
        goto out;
    }
    e = write_pair(&w, &key, cert_path, key_path, why);

out:
    mbedtls_x509write_crt_free(&w);
    mbedtls_pk_free(&key);
    return e;
}

enum err pki_issue(const char *ca_dir, const struct pki_issue *what, const char *cert_path,
                   const char *key_path, struct errmsg *why)
{
    struct authority a;
    enum err e = check_issue(what, why);

    if (e) {
        return e;
    }
    authority_init(&a);
    e = authority_load(&a, ca_dir, why);
    if (!e) {
        e = refuse_existing(cert_path, why);
    }
    if (!e) {
        e = refuse_existing(key_path, why);
    }
    if (!e) {
        e = make_leaf(&a, what, cert_path, key_path, why);
    }
    authority_fini(&a);
    return e;
}
