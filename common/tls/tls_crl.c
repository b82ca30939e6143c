#include "common/tls/tls_crl.h"

#include <string.h>

#include <mbedtls/sha256.h>
#include <mbedtls/x509_crl.h>
#include <mbedtls/x509_crt.h>

#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define FILE_MAX (1u << 20)

struct tls_crl {
    mbedtls_x509_crl lists;
};

static bool is_signed_by(const mbedtls_x509_crl *list, mbedtls_x509_crt *ca)
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

static enum err check_lists(const struct tls_crl *c, const char *path, const mbedtls_x509_crt *cas,
                            struct errmsg *why)
{
    for (const mbedtls_x509_crl *list = &c->lists; list; list = list->next) {
        const mbedtls_x509_crt *ca = cas;

        /* mbedTLS verifies with the key, which it takes as not const, and leaves it as it is. */
        while (ca && !is_signed_by(list, (mbedtls_x509_crt *)ca)) {
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

enum err tls_crl_load(struct tls_crl **out, const char *path, const struct mbedtls_x509_crt *ca,
                      struct errmsg *why)
{
    struct tls_crl *c;
    uint8_t *pem;
    size_t n;
    int r;
    enum err e = os_read_file(&pem, &n, path, FILE_MAX);

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
    e = r == 0 ? check_lists(c, path, ca, why)
               : errmsg_set(why, ERR_INVALID, "%s is not a revocation list in PEM form", path);
    if (e) {
        tls_crl_free(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void tls_crl_free(struct tls_crl *c)
{
    if (c) {
        mbedtls_x509_crl_free(&c->lists);
        mem_free(c);
    }
}

bool tls_crl_holds(const struct tls_crl *c, const struct net_identity *who)
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
