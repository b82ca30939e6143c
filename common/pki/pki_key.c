#include "common/pki/pki_impl.h"

#include <string.h>

#include <mbedtls/ecp.h>
#include <mbedtls/platform_util.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki_rng.h"

enum err pki_key_generate(mbedtls_pk_context *key)
{
    if (mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) != 0) {
        return ERR_NOMEM;
    }
    if (mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), pki_rng, NULL) != 0) {
        return ERR_IO;
    }
    return ERR_OK;
}

enum err pki_key_write(const char *path, const mbedtls_pk_context *key, struct errmsg *why)
{
    unsigned char pem[PKI_FILE_MAX];
    enum err e = ERR_NOMEM;

    if (mbedtls_pk_write_key_pem(key, pem, sizeof pem) == 0) {
        e = os_write_file(path, pem, strlen((const char *)pem), true);
    }
    mbedtls_platform_zeroize(pem, sizeof pem);
    return e ? errmsg_set(why, e, "cannot write the key %s: %s", path, err_text(e)) : ERR_OK;
}

enum err pki_refuse_existing(const char *path, struct errmsg *why)
{
    if (!os_exists(path)) {
        return ERR_OK;
    }
    return errmsg_set(why, ERR_EXISTS,
                      "%s exists already; nothing is overwritten: "
                      "choose another place or move it away",
                      path);
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
    e = pki_key_generate(&k->pk);
    if (e) {
        pki_key_free(k);
        return e;
    }
    *out = k;
    return ERR_OK;
}

static bool usable(const mbedtls_pk_context *pk)
{
    return mbedtls_pk_get_type(pk) == MBEDTLS_PK_ECKEY && mbedtls_pk_get_bitlen(pk) == 256;
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
    if (r != 0 || !usable(&k->pk)) {
        pki_key_free(k);
        return errmsg_set(why, ERR_INVALID, "%s is not a P-256 key", path);
    }
    *out = k;
    return ERR_OK;
}

enum err pki_key_save(const struct pki_key *k, const char *path, struct errmsg *why)
{
    enum err e = pki_refuse_existing(path, why);

    return e ? e : pki_key_write(path, &k->pk, why);
}

void pki_key_free(struct pki_key *k)
{
    if (k) {
        mbedtls_pk_free(&k->pk); /* wipes */
        mem_free(k);
    }
}
