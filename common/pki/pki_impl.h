/* What the pki*.c files share: the authority in memory, and certificates being drafted from
 * checked values. Nobody else includes this. Threads: any; no shared state. */
#ifndef PROCFLEET_COMMON_PKI_PKI_IMPL_H
#define PROCFLEET_COMMON_PKI_PKI_IMPL_H

#include <mbedtls/x509_crt.h>

#include "common/pki/pki_request.h"

#define PKI_FILE_MAX 8192u /* bytes of a PEM file */
#define PKI_DNS_MAX  16u   /* names of one certificate beside the fixed one */
#define PKI_SANS_MAX (PKI_DNS_MAX + 3u)

/* -- rules of names (pki_name.c) -- */

bool pki_authority_name_ok(const char *name); /* as a host's name, with blanks inside */
const char *pki_use_text(enum pki_use use);

/* Errors: ERR_INVALID */
NODISCARD enum err pki_issue_check(const struct pki_issue *what, struct errmsg *why);

/* -- keys (pki_key.c) -- */

struct pki_key {
    mbedtls_pk_context pk;
};

/* PEM, 0600, replacing nothing. */
NODISCARD enum err pki_key_write(const char *path, const mbedtls_pk_context *key,
                                 struct errmsg *why);
NODISCARD enum err pki_key_generate(mbedtls_pk_context *key);
/* ERR_ACCESS, and how to mend it, when others can read the file. */
NODISCARD enum err pki_key_private(const char *path, struct errmsg *why);
NODISCARD enum err pki_refuse_existing(const char *path, struct errmsg *why);

/* -- the authority (pki_authority.c) -- */

struct pki_authority {
    mbedtls_x509_crt cert;
    mbedtls_pk_context key;
    char subject[128];
    int64_t not_after_ns;
};

/* ca.pem and ca.key in `dir`; mem_free both, also after an error. */
NODISCARD enum err pki_authority_paths(char **cert, char **key, const char *dir);

/* Errors: ERR_TRUST, once its certificate has ended */
NODISCARD enum err pki_authority_living(const struct pki_authority *a, int64_t now_ns,
                                        struct errmsg *why);

/* Appends a leaf's certificate, DER, signed. Errors: ERR_NOMEM, ERR_IO (no random numbers) */
NODISCARD enum err pki_authority_sign(struct buf *der, struct pki_authority *a,
                                      const struct pki_issue *what, mbedtls_pk_context *key,
                                      struct errmsg *why);

/* What a proof for Enroll/RenewExpired signs (pki_request.c). 0, or a code of mbedTLS. */
int pki_proof_hash(uint8_t hash[32], const void *csr, size_t n);

/* -- drafts (pki_draft.c) -- */

/* What goes into a certificate's subject alternative name, with the memory it points to. */
struct pki_sans {
    mbedtls_x509_san_list list[PKI_SANS_MAX];
    char text[PKI_SANS_MAX][256];
    size_t n;
};

NODISCARD enum err pki_sans_fill(struct pki_sans *s, const struct pki_issue *what,
                                 struct errmsg *why);

/* 0, or a code of mbedTLS. `key` is the holder's. */
int pki_draft_authority(mbedtls_x509write_cert *w, mbedtls_pk_context *key, const char *subject,
                        int64_t now_ns, int64_t life_ns);
int pki_draft_leaf(mbedtls_x509write_cert *w, struct pki_authority *a, mbedtls_pk_context *key,
                   const struct pki_issue *what, const struct pki_sans *sans);

#endif
