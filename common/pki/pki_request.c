/* The holder's side. The authority's is in pki_authority.c, so that an agent carries none of it. */
#include "common/pki/pki_request.h"

#include <stdio.h>
#include <string.h>

#include <mbedtls/sha256.h>
#include <mbedtls/x509_csr.h>

#include "common/pki/pki_impl.h"
#include "common/pki/pki_rng.h"

#define REQUEST_MAX 1024u /* bytes, DER */

/* The library's functions take a changeable key and change nothing of it. */
static mbedtls_pk_context *key_of(const struct pki_key *k)
{
    return (mbedtls_pk_context *)(uintptr_t)&k->pk;
}

enum err pki_request_make(struct buf *der, const struct pki_key *k, const char *name)
{
    mbedtls_x509write_csr w;
    unsigned char bytes[REQUEST_MAX]; /* filled from its end */
    char subject[128];
    int n = -1;

    if (!pki_name_ok(name)) {
        return ERR_INVALID;
    }
    snprintf(subject, sizeof subject, "CN=%s", name);
    mbedtls_x509write_csr_init(&w);
    mbedtls_x509write_csr_set_md_alg(&w, MBEDTLS_MD_SHA256);
    mbedtls_x509write_csr_set_key(&w, key_of(k));
    if (mbedtls_x509write_csr_set_subject_name(&w, subject) == 0) {
        n = mbedtls_x509write_csr_der(&w, bytes, sizeof bytes, pki_rng, NULL);
    }
    mbedtls_x509write_csr_free(&w);
    if (n <= 0) {
        return ERR_NOMEM;
    }
    buf_put(der, bytes + sizeof bytes - n, (size_t)n);
    return der->bad;
}

int pki_proof_hash(uint8_t hash[32], const void *csr, size_t n)
{
    static const char purpose[] = "procfleet.v1 renew"; /* its NUL goes in too */
    mbedtls_sha256_context sha;
    int r;

    mbedtls_sha256_init(&sha);
    r = mbedtls_sha256_starts(&sha, 0);
    if (r == 0) {
        r = mbedtls_sha256_update(&sha, (const unsigned char *)purpose, sizeof purpose);
    }
    if (r == 0) {
        r = mbedtls_sha256_update(&sha, csr, n);
    }
    if (r == 0) {
        r = mbedtls_sha256_finish(&sha, hash);
    }
    mbedtls_sha256_free(&sha);
    return r;
}

enum err pki_proof_make(struct buf *signature, const struct pki_key *k, const void *csr, size_t n)
{
    unsigned char bytes[MBEDTLS_PK_SIGNATURE_MAX_SIZE];
    uint8_t hash[32];
    size_t len = 0;

    if (pki_proof_hash(hash, csr, n) != 0 ||
        mbedtls_pk_sign(key_of(k), MBEDTLS_MD_SHA256, hash, sizeof hash, bytes, sizeof bytes, &len,
                        pki_rng, NULL) != 0) {
        return ERR_NOMEM;
    }
    buf_put(signature, bytes, len);
    return signature->bad;
}
