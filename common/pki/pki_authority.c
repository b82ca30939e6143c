/* Certificates are written from a draft that holds only values checked by issue_check: nothing is
 * copied from a request or from another certificate but a public key and the authority's own name.
 * What each kind carries:
 *
 *   authority   basicConstraints CA, path length 0; keyCertSign, cRLSign
 *   collector   serverAuth; DNS procfleet-collector and the names given
 *   the others  clientAuth; urn:procfleet:role:…, agents also urn:procfleet:host:…
 *
 * so that a stolen agent certificate cannot pose as the collector, nor the other way round.
 *
 * A key file is written before its certificate, and removed again when the certificate fails: a
 * certificate on disk always has its key. */
#include "common/pki/pki_authority.h"

#include <stdio.h>
#include <string.h>

#include <mbedtls/asn1.h>
#include <mbedtls/oid.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/sha256.h>
#include <mbedtls/x509_crt.h>
#include <mbedtls/x509_csr.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/pki/pki_key.h"

#define DNS_NAME_MAX    253 /* bytes */
#define SCOPE_MAX       127 /* bytes */
#define DNS_MAX         16u /* names of one certificate beside the fixed one */
#define SANS_MAX        (DNS_MAX + 3u)
#define BACKDATE_NS     (300 * CLK_S) /* clocks of a fleet differ; a tenth of short lives */
#define CERTIFICATE_MAX 2048u         /* bytes, DER */

struct pki_authority {
    mbedtls_x509_crt cert;
    mbedtls_pk_context key;
    char subject[128];
    int64_t not_after_ns;
};

/* What goes into a certificate's subject alternative name, with the memory it points to. */
struct sans {
    mbedtls_x509_san_list list[SANS_MAX];
    char text[SANS_MAX][256];
    size_t n;
};

/* -- what a certificate of each use may carry -- */

static bool authority_name_ok(const char *name)
{
    return pki_text_ok(name, MODEL_HOST_NAME_MAX, " ") && name[0] != ' ' &&
           name[strlen(name) - 1] != ' ';
}

static const struct {
    const char *text;
    enum pki_use use;
} uses[] = {
    {"agent", PKI_AGENT}, {"query", PKI_QUERY},         {"subscribe", PKI_SUBSCRIBE},
    {"admin", PKI_ADMIN}, {"collector", PKI_COLLECTOR}, {"mark", PKI_MARK},
};

enum err pki_authority_use(enum pki_use *use, const char *text)
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

static enum err issue_check_dns(const struct pki_issue *what, struct errmsg *why)
{
    if (what->n_dns > 0 && what->use != PKI_COLLECTOR) {
        return errmsg_set(why, ERR_INVALID, "only a collector's certificate carries DNS names");
    }
    if (what->n_dns > DNS_MAX) {
        return errmsg_set(why, ERR_INVALID, "at most %u DNS names fit", DNS_MAX);
    }
    for (size_t i = 0; i < what->n_dns; i++) {
        if (!pki_text_ok(what->dns[i], DNS_NAME_MAX, ":")) {
            return errmsg_set(why, ERR_INVALID, "'%.80s' is neither a DNS name nor an IP address",
                              what->dns[i]);
        }
    }
    return ERR_OK;
}

static enum err issue_check(const struct pki_issue *what, struct errmsg *why)
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
    if (what->scope && what->use != PKI_QUERY && what->use != PKI_SUBSCRIBE &&
        what->use != PKI_MARK) {
        return errmsg_set(why, ERR_INVALID,
                          "only query, subscribe and mark certificates have a scope");
    }
    if (what->mark && (what->use == PKI_COLLECTOR || what->use == PKI_AGENT)) {
        return errmsg_set(why, ERR_INVALID, "role mark goes with query, subscribe and admin only");
    }
    if (what->scope && !pki_text_ok(what->scope, SCOPE_MAX, "*?[]")) {
        return errmsg_set(why, ERR_INVALID,
                          "the scope must be a host name or glob of 1 to %d "
                          "letters, digits, '.', '_', '-', '*', '?', '[', ']'",
                          SCOPE_MAX);
    }
    if (what->has_host && what->use != PKI_AGENT) {
        return errmsg_set(why, ERR_INVALID, "only an agent's certificate carries a host identity");
    }
    return issue_check_dns(what, why);
}

/* -- drafts -- */

/* "20261121093900", what the certificate writer wants. */
static void draft_time_text(char out[16], int64_t utc_ns)
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
    draft_time_text(from, now_ns - (life_ns / 10 < BACKDATE_NS ? life_ns / 10 : BACKDATE_NS));
    draft_time_text(until, clk_add(now_ns, life_ns));
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
    char urn[sizeof s->text[0]];
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
    char text[UUID_TEXT];
    enum err e;

    if (what->use == PKI_COLLECTOR) {
        sans_add_host(s, PKI_SERVER_NAME);
        for (size_t i = 0; i < what->n_dns; i++) {
            sans_add_host(s, what->dns[i]);
        }
        return ERR_OK;
    }
    sans_add_urn(s, "role", use_text(what->use));
    if (what->mark && what->use != PKI_MARK) {
        sans_add_urn(s, "role", use_text(PKI_MARK));
    }
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

static int draft_leaf(mbedtls_x509write_cert *w, struct pki_authority *a, mbedtls_pk_context *key,
                      const struct pki_issue *what, const struct sans *sans)
{
    char subject[128];
    int64_t left_ns = clk_sub(a->not_after_ns, what->now_ns); /* no leaf outlives its signer */
    int r = draft_begin(w, key, &a->key, what->now_ns,
                        what->life_ns < left_ns ? what->life_ns : left_ns);

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

/* -- the authority -- */

static enum err authority_paths(char **cert, char **key, const char *dir)
{
    *cert = os_path_join(dir, "ca.pem");
    *key = os_path_join(dir, "ca.key");
    return *cert && *key ? ERR_OK : ERR_NOMEM;
}

static enum err authority_read_pem(uint8_t **pem, size_t *n, const char *path, const char *dir,
                                   struct errmsg *why)
{
    enum err e = os_read_file(pem, n, path, PKI_FILE_MAX);

    if (e == ERR_NOTFOUND) {
        return errmsg_set(why, e,
                          "no authority in %s (%s is missing): make one with "
                          "'procfleet-collector pki init --dir %s'",
                          dir, path, dir);
    }
    return e ? errmsg_set(why, e, "cannot read %s: %s", path, os_read_text(e)) : ERR_OK;
}

static enum err authority_parse(struct pki_authority *a, const char *cert_path,
                                const char *key_path, const char *dir, struct errmsg *why)
{
    uint8_t *pem = NULL;
    size_t n = 0;
    int r;
    enum err e = authority_read_pem(&pem, &n, cert_path, dir, why);

    if (e) {
        return e;
    }
    r = mbedtls_x509_crt_parse(&a->cert, pem, n + 1);
    mem_free(pem);
    if (r != 0) {
        return errmsg_set(why, ERR_CORRUPT, "%s is not a certificate", cert_path);
    }
    e = pki_key_private(key_path, why);
    if (e) {
        return e;
    }
    e = authority_read_pem(&pem, &n, key_path, dir, why);
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

static int64_t authority_time_ns(const mbedtls_x509_time *t)
{
    char text[CLK_TEXT];
    int64_t ns = 0;

    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", t->year, t->mon, t->day, t->hour,
             t->min, t->sec);
    err_ignore(clk_parse_when(&ns, text, 0)); /* 0: ended long ago */
    return ns;
}

enum err pki_authority_open(struct pki_authority **out, const char *dir, struct errmsg *why)
{
    struct pki_authority *a = mem_zalloc(sizeof *a);
    char *cert_path = NULL, *key_path = NULL;
    enum err e;

    if (!a) {
        return ERR_NOMEM;
    }
    mbedtls_x509_crt_init(&a->cert);
    mbedtls_pk_init(&a->key);
    e = authority_paths(&cert_path, &key_path, dir);
    if (!e) {
        e = authority_parse(a, cert_path, key_path, dir, why);
    }
    mem_free(cert_path);
    mem_free(key_path);
    if (e) {
        pki_authority_close(a);
        return e;
    }
    a->not_after_ns = authority_time_ns(&a->cert.valid_to);
    *out = a;
    return ERR_OK;
}

void pki_authority_close(struct pki_authority *a)
{
    if (a) {
        mbedtls_x509_crt_free(&a->cert);
        mbedtls_pk_free(&a->key);
        mem_free(a);
    }
}

const void *pki_authority_der(const struct pki_authority *a, size_t *n)
{
    *n = a->cert.raw.len;
    return a->cert.raw.p;
}

void pki_authority_pin(const struct pki_authority *a, uint8_t pin[PKI_PIN_BYTES])
{
    if (mbedtls_sha256(a->cert.raw.p, a->cert.raw.len, pin, 0) != 0) {
        memset(pin, 0, PKI_PIN_BYTES); /* fits no authority */
    }
}

int64_t pki_authority_not_after_ns(const struct pki_authority *a)
{
    return a->not_after_ns;
}

const char *pki_authority_name(const struct pki_authority *a)
{
    return strncmp(a->subject, "CN=", 3) == 0 ? a->subject + 3 : a->subject;
}

/* -- requests -- */

/* The signature at a request's end, behind its body and the algorithm. */
static bool request_signature(const mbedtls_x509_csr *csr, const unsigned char **sig, size_t *n)
{
    unsigned char *p = csr->cri.p + csr->cri.len;
    const unsigned char *end = csr->raw.p + csr->raw.len;
    size_t len;

    if (mbedtls_asn1_get_tag(&p, end, &len, MBEDTLS_ASN1_CONSTRUCTED | MBEDTLS_ASN1_SEQUENCE) !=
        0) {
        return false;
    }
    p += len;
    if (mbedtls_asn1_get_bitstring_null(&p, end, n) != 0) {
        return false;
    }
    *sig = p;
    return true;
}

/* Whether the request's own key signed it. */
static bool request_is_signed(mbedtls_x509_csr *csr)
{
    const unsigned char *sig;
    size_t n;
    uint8_t hash[32];

    return MBEDTLS_OID_CMP(MBEDTLS_OID_ECDSA_SHA256, &csr->sig_oid) == 0 &&
           request_signature(csr, &sig, &n) &&
           mbedtls_sha256(csr->cri.p, csr->cri.len, hash, 0) == 0 &&
           mbedtls_pk_verify(&csr->pk, MBEDTLS_MD_SHA256, hash, sizeof hash, sig, n) == 0;
}

static enum err leaf_sign(struct buf *der, struct pki_authority *a, const struct pki_issue *what,
                          mbedtls_pk_context *key, struct errmsg *why)
{
    unsigned char bytes[CERTIFICATE_MAX]; /* filled from its end */
    mbedtls_x509write_cert w;
    struct sans sans = {.n = 0};
    enum err e = sans_fill(&sans, what, why);
    int n = -1;

    if (e) {
        return e;
    }
    mbedtls_x509write_crt_init(&w);
    if (draft_leaf(&w, a, key, what, &sans) == 0) {
        n = mbedtls_x509write_crt_der(&w, bytes, sizeof bytes, pki_rng, NULL);
    }
    mbedtls_x509write_crt_free(&w);
    if (n <= 0) {
        return errmsg_set(why, ERR_NOMEM, "cannot make the certificate of %s", what->name);
    }
    buf_put(der, bytes + sizeof bytes - n, (size_t)n);
    return der->bad;
}

static enum err authority_living(const struct pki_authority *a, int64_t now_ns, struct errmsg *why)
{
    char when[CLK_TEXT];

    if (now_ns < a->not_after_ns) {
        return ERR_OK;
    }
    return errmsg_set(why, ERR_TRUST,
                      "the authority's own certificate ended on %s: make a new authority",
                      clk_format_utc(when, sizeof when, a->not_after_ns, 0));
}

enum err pki_authority_sign(struct buf *der, const struct pki_authority *a,
                            const struct pki_issue *what, const void *csr, size_t n,
                            struct errmsg *why)
{
    mbedtls_x509_csr request;
    enum err e = issue_check(what, why);

    if (!e) {
        e = authority_living(a, what->now_ns, why);
    }
    if (e) {
        return e;
    }
    mbedtls_x509_csr_init(&request);
    if (mbedtls_x509_csr_parse_der(&request, csr, n) != 0 || request.raw.len != n) {
        e = errmsg_set(why, ERR_CORRUPT, "this is not a certificate request");
    } else if (!pki_key_usable(&request.pk)) {
        e = errmsg_set(why, ERR_INVALID, "the request's key is not of the kind P-256");
    } else if (!request_is_signed(&request)) {
        e = errmsg_set(why, ERR_CORRUPT, "the request is not signed by its own key");
    } else {
        e = leaf_sign(der, (struct pki_authority *)(uintptr_t)a, what, &request.pk, why);
    }
    mbedtls_x509_csr_free(&request);
    return e;
}

/* Signed by this authority, valid now or not. */
static bool authority_is_issuer(const struct pki_authority *a, mbedtls_x509_crt *crt)
{
    const uint32_t any_time = MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE;
    uint32_t flags = 0;
    int r = mbedtls_x509_crt_verify(crt, (mbedtls_x509_crt *)(uintptr_t)&a->cert, NULL, NULL,
                                    &flags, NULL, NULL);

    return r == 0 || (r == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED && (flags & ~any_time) == 0);
}

enum err pki_authority_check_proof(const struct pki_authority *a, const void *certificate,
                                   size_t certificate_n, const void *csr, size_t n,
                                   const void *signature, size_t signature_n)
{
    mbedtls_x509_crt crt;
    uint8_t hash[32];
    enum err e = ERR_TRUST;

    mbedtls_x509_crt_init(&crt);
    if (mbedtls_x509_crt_parse_der(&crt, certificate, certificate_n) != 0 ||
        crt.raw.len != certificate_n) {
        e = ERR_CORRUPT;
    } else if (authority_is_issuer(a, &crt) && pki_key_usable(&crt.pk) &&
               pki_key_proof_hash(hash, csr, n) == 0 &&
               mbedtls_pk_verify(&crt.pk, MBEDTLS_MD_SHA256, hash, sizeof hash, signature,
                                 signature_n) == 0) {
        e = ERR_OK;
    }
    mbedtls_x509_crt_free(&crt);
    return e;
}

/* -- new authorities and certificates -- */

/* Signs the draft and writes key and certificate. */
static enum err authority_write(mbedtls_x509write_cert *w, const struct pki_key *key,
                                const char *cert_path, const char *key_path, struct errmsg *why)
{
    unsigned char pem[PKI_FILE_MAX];
    enum err e;

    if (mbedtls_x509write_crt_pem(w, pem, sizeof pem, pki_rng, NULL) != 0) {
        return errmsg_set(why, ERR_NOMEM, "cannot sign the certificate %s", cert_path);
    }
    e = pki_key_save(key, key_path, why);
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

static enum err authority_make(const char *cert_path, const char *key_path, const char *common_name,
                               int64_t now_ns, int64_t life_ns, struct errmsg *why)
{
    mbedtls_x509write_cert w;
    struct pki_key *key = NULL;
    char subject[128];
    enum err e;

    mbedtls_x509write_crt_init(&w);
    snprintf(subject, sizeof subject, "CN=%s", common_name);
    e = pki_key_make(&key);
    if (e) {
        errmsg_set(why, e, "cannot make a key: %s", err_text(e));
    } else if (draft_authority(&w, pki_key_context(key), subject, now_ns, life_ns) != 0) {
        e = errmsg_set(why, ERR_NOMEM, "cannot make the authority's certificate");
    } else {
        e = authority_write(&w, key, cert_path, key_path, why);
    }
    mbedtls_x509write_crt_free(&w);
    pki_key_free(key);
    return e;
}

enum err pki_authority_init(const char *dir, const char *common_name, int64_t now_ns,
                            int64_t life_ns, struct errmsg *why)
{
    char *cert_path = NULL, *key_path = NULL;
    enum err e;

    if (life_ns <= 0) {
        return errmsg_set(why, ERR_INVALID, "the authority must live longer than no time");
    }
    if (!authority_name_ok(common_name)) {
        return errmsg_set(why, ERR_INVALID,
                          "the authority's name must be 1 to %d letters, digits, "
                          "blanks, '.', '_' or '-'",
                          MODEL_HOST_NAME_MAX);
    }
    e = authority_paths(&cert_path, &key_path, dir);
    if (!e) {
        e = pki_refuse_existing(cert_path, why);
    }
    if (!e) {
        e = pki_refuse_existing(key_path, why);
    }
    if (!e) {
        e = os_mkdirs(dir, true);
        if (e) {
            errmsg_set(why, e, "cannot create the directory %s: %s", dir, err_text(e));
        }
    }
    if (!e) {
        e = authority_make(cert_path, key_path, common_name, now_ns, life_ns, why);
    }
    mem_free(cert_path);
    mem_free(key_path);
    return e;
}

/* The key, then the book, then the certificate; without the last the first goes. */
static enum err leaf_write(const struct buf *der, const struct pki_key *key,
                           const struct pki_issue *what, const char *cert_path,
                           const char *key_path, struct errmsg *why)
{
    struct buf pem;
    enum err e = pki_key_save(key, key_path, why);

    if (e) {
        return e;
    }
    buf_init(&pem, PKI_FILE_MAX);
    e = pki_pem_put(&pem, der->p, der->n);
    if (!e && what->record) {
        e = what->record(what->record_ctx, der->p, der->n, why);
    }
    if (!e) {
        e = os_write_file(cert_path, pem.p, pem.n, false);
        if (e) {
            errmsg_set(why, e, "cannot write the certificate %s: %s", cert_path, err_text(e));
        }
    }
    buf_fini(&pem);
    if (e) {
        err_ignore(os_remove(key_path));
    }
    return e;
}

static enum err leaf_make(struct pki_authority *a, const struct pki_issue *what,
                          const char *cert_path, const char *key_path, struct errmsg *why)
{
    struct pki_key *key = NULL;
    struct buf der;
    enum err e;

    buf_init(&der, PKI_FILE_MAX);
    e = pki_key_make(&key);
    if (e) {
        errmsg_set(why, e, "cannot make a key: %s", err_text(e));
    } else {
        e = leaf_sign(&der, a, what, pki_key_context(key), why);
    }
    if (!e) {
        e = leaf_write(&der, key, what, cert_path, key_path, why);
    }
    buf_fini(&der);
    pki_key_free(key);
    return e;
}

enum err pki_authority_issue(const char *ca_dir, const struct pki_issue *what,
                             const char *cert_path, const char *key_path, struct errmsg *why)
{
    struct pki_authority *a = NULL;
    enum err e = issue_check(what, why);

    if (e) {
        return e;
    }
    e = pki_authority_open(&a, ca_dir, why);
    if (!e) {
        e = authority_living(a, what->now_ns, why);
    }
    if (!e) {
        e = pki_refuse_existing(cert_path, why);
    }
    if (!e) {
        e = pki_refuse_existing(key_path, why);
    }
    if (!e) {
        e = leaf_make(a, what, cert_path, key_path, why);
    }
    pki_authority_close(a);
    return e;
}
