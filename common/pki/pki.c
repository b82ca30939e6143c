/* A key file is written before its certificate, and taken away again when the certificate fails: a
 * certificate on disk always has its key. */
#include "common/pki/pki.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki_impl.h"
#include "common/pki/pki_pem.h"
#include "common/pki/pki_rng.h"

/* Signs the draft and writes key and certificate. */
static enum err write_pair(mbedtls_x509write_cert *w, mbedtls_pk_context *key,
                           const char *cert_path, const char *key_path, struct errmsg *why)
{
    unsigned char pem[PKI_FILE_MAX];
    enum err e;

    if (mbedtls_x509write_crt_pem(w, pem, sizeof pem, pki_rng, NULL) != 0) {
        return errmsg_set(why, ERR_NOMEM, "cannot sign the certificate %s", cert_path);
    }
    e = pki_key_write(key_path, key, why);
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
    e = pki_key_generate(&key);
    if (e) {
        errmsg_set(why, e, "cannot make a key: %s", err_text(e));
    } else if (pki_draft_authority(&w, &key, subject, now_ns, life_ns) != 0) {
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
    if (!pki_authority_name_ok(common_name)) {
        return errmsg_set(why, ERR_INVALID,
                          "the authority's name must be 1 to %d letters, digits, "
                          "blanks, '.', '_' or '-'",
                          MODEL_HOST_NAME_MAX);
    }
    e = pki_authority_paths(&cert_path, &key_path, dir);
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
        e = make_authority(cert_path, key_path, common_name, now_ns, life_ns, why);
    }
    mem_free(cert_path);
    mem_free(key_path);
    return e;
}

/* The key, then the book, then the certificate; without the last the first goes. */
static enum err write_leaf(const struct buf *der, const mbedtls_pk_context *key,
                           const struct pki_issue *what, const char *cert_path,
                           const char *key_path, struct errmsg *why)
{
    struct buf pem;
    enum err e = pki_key_write(key_path, key, why);

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

static enum err make_leaf(struct pki_authority *a, const struct pki_issue *what,
                          const char *cert_path, const char *key_path, struct errmsg *why)
{
    mbedtls_pk_context key;
    struct buf der;
    enum err e;

    mbedtls_pk_init(&key);
    buf_init(&der, PKI_FILE_MAX);
    e = pki_key_generate(&key);
    if (e) {
        errmsg_set(why, e, "cannot make a key: %s", err_text(e));
    } else {
        e = pki_authority_sign(&der, a, what, &key, why);
    }
    if (!e) {
        e = write_leaf(&der, &key, what, cert_path, key_path, why);
    }
    buf_fini(&der);
    mbedtls_pk_free(&key);
    return e;
}

enum err pki_issue(const char *ca_dir, const struct pki_issue *what, const char *cert_path,
                   const char *key_path, struct errmsg *why)
{
    struct pki_authority *a = NULL;
    enum err e = pki_issue_check(what, why);

    if (e) {
        return e;
    }
    e = pki_authority_open(&a, ca_dir, why);
    if (!e) {
        e = pki_authority_living(a, what->now_ns, why);
    }
    if (!e) {
        e = pki_refuse_existing(cert_path, why);
    }
    if (!e) {
        e = pki_refuse_existing(key_path, why);
    }
    if (!e) {
        e = make_leaf(a, what, cert_path, key_path, why);
    }
    pki_authority_close(a);
    return e;
}
