#include "common/pki/pki_key.h"

#include <stdio.h>
#include <string.h>

#include <mbedtls/ecp.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/sha256.h>
#include <mbedtls/x509_csr.h>

#include "common/base/mem.h"
#include "common/os/os.h"

#define REQUEST_MAX 1024u /* bytes, DER */

struct pki_key {
    mbedtls_pk_context pk;
};

static enum err key_generate(mbedtls_pk_context *key)
{
    if (mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) != 0) {
        return ERR_NOMEM;
    }
    if (mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), pki_rng, NULL) != 0) {
        return ERR_IO;
    }
    return ERR_OK;
}

static enum err key_write(const char *path, const mbedtls_pk_context *key, struct errmsg *why)
{
    unsigned char pem[PKI_FILE_MAX];
    enum err e = ERR_NOMEM;

    if (mbedtls_pk_write_key_pem(key, pem, sizeof pem) == 0) {
        e = os_write_file(path, pem, strlen((const char *)pem), true);
    }
    mbedtls_platform_zeroize(pem, sizeof pem);
    return e ? errmsg_set(why, e, "cannot write the key %s: %s", path, err_text(e)) : ERR_OK;
}

enum err pki_key_private(const char *path, struct errmsg *why)
{
    if (os_check_private(path) != ERR_ACCESS) {
        return ERR_OK; /* a missing one is found by who reads it */
    }
    return errmsg_set(
        why, ERR_ACCESS,
        "others can read %s; let only its user do so (Linux: chmod 600, Windows: icacls)", path);
}

enum err pki_key_make(struct pki_key **out)
{
    struct pki_key *k = mem_zalloc(sizeof *k);
    enum err e;

    if (!k) {
        return ERR_NOMEM;
    }
    mbedtls_pk_init(&k->pk);
    e = key_generate(&k->pk);
    if (e) {
        pki_key_free(k);
        return e;
    }
    *out = k;
    return ERR_OK;
}

bool pki_key_usable(const struct mbedtls_pk_context *pk)
{
    return mbedtls_pk_get_type(pk) == MBEDTLS_PK_ECKEY && mbedtls_pk_get_bitlen(pk) == 256 &&
           mbedtls_pk_can_do(pk, MBEDTLS_PK_ECDSA);
}

enum err pki_key_load(struct pki_key **out, const char *path, struct errmsg *why)
{
    uint8_t *pem = NULL;
    size_t n = 0;
    struct pki_key *k;
    enum err e = pki_key_private(path, why);
    int r;

    if (e) {
        return e;
    }
    e = os_read_file(&pem, &n, path, PKI_FILE_MAX);
    if (e) {
        return errmsg_set(why, e, "cannot read the key %s: %s", path, os_read_text(e));
    }
    k = mem_zalloc(sizeof *k);
    if (!k) {
        mbedtls_platform_zeroize(pem, n);
        mem_free(pem);
        return ERR_NOMEM;
    }
    mbedtls_pk_init(&k->pk);
    r = mbedtls_pk_parse_key(&k->pk, pem, n + 1, NULL, 0, pki_rng, NULL);
    mbedtls_platform_zeroize(pem, n);
    mem_free(pem);
    if (r != 0 || !pki_key_usable(&k->pk)) {
        pki_key_free(k);
        return errmsg_set(why, ERR_INVALID, "%s is not a P-256 key", path);
    }
    *out = k;
    return ERR_OK;
}

enum err pki_key_save(const struct pki_key *k, const char *path, struct errmsg *why)
{
    enum err e = pki_refuse_existing(path, why);

    return e ? e : key_write(path, &k->pk, why);
}

void pki_key_free(struct pki_key *k)
{
    if (k) {
        mbedtls_pk_free(&k->pk); /* wipes */
        mem_free(k);
    }
}

/* -- requests and proofs -- */

struct mbedtls_pk_context *pki_key_context(const struct pki_key *k)
{
    return (mbedtls_pk_context *)(uintptr_t)&k->pk;
}

enum err pki_key_request(struct buf *der, const struct pki_key *k, const char *name)
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
    mbedtls_x509write_csr_set_key(&w, pki_key_context(k));
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

int pki_key_proof_hash(uint8_t hash[32], const void *csr, size_t n)
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

enum err pki_key_proof(struct buf *signature, const struct pki_key *k, const void *csr, size_t n)
{
    unsigned char bytes[MBEDTLS_PK_SIGNATURE_MAX_SIZE];
    uint8_t hash[32];
    size_t len = 0;

    if (pki_key_proof_hash(hash, csr, n) != 0 ||
        mbedtls_pk_sign(pki_key_context(k), MBEDTLS_MD_SHA256, hash, sizeof hash, bytes,
                        sizeof bytes, &len, pki_rng, NULL) != 0) {
        return ERR_NOMEM;
    }
    buf_put(signature, bytes, len);
    return signature->bad;
}
