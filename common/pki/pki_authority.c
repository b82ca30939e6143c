/* The authority's side of requests: its key in memory, and what it signs. */
#include <stdio.h>
#include <string.h>

#include <mbedtls/asn1.h>
#include <mbedtls/oid.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/sha256.h>
#include <mbedtls/x509_csr.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki_impl.h"
#include "common/pki/pki_rng.h"

#define CERTIFICATE_MAX 2048u /* bytes, DER */

enum err pki_authority_paths(char **cert, char **key, const char *dir)
{
    *cert = os_path_join(dir, "ca.pem");
    *key = os_path_join(dir, "ca.key");
    return *cert && *key ? ERR_OK : ERR_NOMEM;
}

static enum err read_pem(uint8_t **pem, size_t *n, const char *path, const char *dir,
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

static enum err parse_authority(struct pki_authority *a, const char *cert_path,
                                const char *key_path, const char *dir, struct errmsg *why)
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
    e = pki_key_private(key_path, why);
    if (e) {
        return e;
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

static int64_t time_ns(const mbedtls_x509_time *t)
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
    e = pki_authority_paths(&cert_path, &key_path, dir);
    if (!e) {
        e = parse_authority(a, cert_path, key_path, dir, why);
    }
    mem_free(cert_path);
    mem_free(key_path);
    if (e) {
        pki_authority_close(a);
        return e;
    }
    a->not_after_ns = time_ns(&a->cert.valid_to);
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
static bool signature_of(const mbedtls_x509_csr *csr, const unsigned char **sig, size_t *n)
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

static bool usable_key(const mbedtls_pk_context *pk)
{
    return mbedtls_pk_get_type(pk) == MBEDTLS_PK_ECKEY && mbedtls_pk_get_bitlen(pk) == 256 &&
           mbedtls_pk_can_do(pk, MBEDTLS_PK_ECDSA);
}

/* Whether the request's own key signed it. */
static bool signed_by_itself(mbedtls_x509_csr *csr)
{
    const unsigned char *sig;
    size_t n;
    uint8_t hash[32];

    return MBEDTLS_OID_CMP(MBEDTLS_OID_ECDSA_SHA256, &csr->sig_oid) == 0 &&
           signature_of(csr, &sig, &n) && mbedtls_sha256(csr->cri.p, csr->cri.len, hash, 0) == 0 &&
           mbedtls_pk_verify(&csr->pk, MBEDTLS_MD_SHA256, hash, sizeof hash, sig, n) == 0;
}

enum err pki_authority_sign(struct buf *der, struct pki_authority *a, const struct pki_issue *what,
                            mbedtls_pk_context *key, struct errmsg *why)
{
    unsigned char bytes[CERTIFICATE_MAX]; /* filled from its end */
    mbedtls_x509write_cert w;
    struct pki_sans sans = {.n = 0};
    enum err e = pki_sans_fill(&sans, what, why);
    int n = -1;

    if (e) {
        return e;
    }
    mbedtls_x509write_crt_init(&w);
    if (pki_draft_leaf(&w, a, key, what, &sans) == 0) {
        n = mbedtls_x509write_crt_der(&w, bytes, sizeof bytes, pki_rng, NULL);
    }
    mbedtls_x509write_crt_free(&w);
    if (n <= 0) {
        return errmsg_set(why, ERR_NOMEM, "cannot make the certificate of %s", what->name);
    }
    buf_put(der, bytes + sizeof bytes - n, (size_t)n);
    return der->bad;
}

enum err pki_authority_living(const struct pki_authority *a, int64_t now_ns, struct errmsg *why)
{
    char when[CLK_TEXT];

    if (now_ns < a->not_after_ns) {
        return ERR_OK;
    }
    return errmsg_set(why, ERR_TRUST,
                      "the authority's own certificate ended on %s: make a new authority",
                      clk_format_utc(when, sizeof when, a->not_after_ns, 0));
}

enum err pki_request_sign(struct buf *der, const struct pki_authority *a,
                          const struct pki_issue *what, const void *csr, size_t n,
                          struct errmsg *why)
{
    mbedtls_x509_csr request;
    enum err e = pki_issue_check(what, why);

    if (!e) {
        e = pki_authority_living(a, what->now_ns, why);
    }
    if (e) {
        return e;
    }
    mbedtls_x509_csr_init(&request);
    if (mbedtls_x509_csr_parse_der(&request, csr, n) != 0 || request.raw.len != n) {
        e = errmsg_set(why, ERR_CORRUPT, "this is not a certificate request");
    } else if (!usable_key(&request.pk)) {
        e = errmsg_set(why, ERR_INVALID, "the request's key is not of the kind P-256");
    } else if (!signed_by_itself(&request)) {
        e = errmsg_set(why, ERR_CORRUPT, "the request is not signed by its own key");
    } else {
        e = pki_authority_sign(der, (struct pki_authority *)(uintptr_t)a, what, &request.pk, why);
    }
    mbedtls_x509_csr_free(&request);
    return e;
}

/* Signed by this authority, valid now or not. */
static bool ours(const struct pki_authority *a, mbedtls_x509_crt *crt)
{
    const uint32_t any_time = MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE;
    uint32_t flags = 0;
    int r = mbedtls_x509_crt_verify(crt, (mbedtls_x509_crt *)(uintptr_t)&a->cert, NULL, NULL,
                                    &flags, NULL, NULL);

    return r == 0 || (r == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED && (flags & ~any_time) == 0);
}

enum err pki_proof_check(const struct pki_authority *a, const void *certificate,
                         size_t certificate_n, const void *csr, size_t n, const void *signature,
                         size_t signature_n)
{
    mbedtls_x509_crt crt;
    uint8_t hash[32];
    enum err e = ERR_TRUST;

    mbedtls_x509_crt_init(&crt);
    if (mbedtls_x509_crt_parse_der(&crt, certificate, certificate_n) != 0 ||
        crt.raw.len != certificate_n) {
        e = ERR_CORRUPT;
    } else if (ours(a, &crt) && usable_key(&crt.pk) && pki_proof_hash(hash, csr, n) == 0 &&
               mbedtls_pk_verify(&crt.pk, MBEDTLS_MD_SHA256, hash, sizeof hash, signature,
                                 signature_n) == 0) {
        e = ERR_OK;
    }
    mbedtls_x509_crt_free(&crt);
    return e;
}
