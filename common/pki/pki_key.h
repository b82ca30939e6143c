/* The holder's side: a key made where it is used (ECDSA P-256; file: PEM, 0600), the request for
 * its certificate (PKCS #10), and the proof that the holder of an expired certificate still has its
 * key. Threads: any; no shared state. */
#ifndef PROCFLEET_COMMON_PKI_PKI_KEY_H
#define PROCFLEET_COMMON_PKI_PKI_KEY_H

#include "common/pki/pki.h"

struct pki_key;
struct mbedtls_pk_context;

/* Errors: ERR_NOMEM, ERR_IO (no random numbers) */
NODISCARD enum err pki_key_make(struct pki_key **out);
/* Errors: ERR_NOTFOUND, ERR_ACCESS (others can read it), ERR_INVALID, ERR_IO, ERR_NOMEM */
NODISCARD enum err pki_key_load(struct pki_key **out, const char *path, struct errmsg *why);
/* Nothing is overwritten. Errors: ERR_EXISTS, ERR_IO, ERR_NOSPACE, ERR_ACCESS */
NODISCARD enum err pki_key_save(const struct pki_key *k, const char *path, struct errmsg *why);
void pki_key_free(struct pki_key *k); /* wiped; NULL is allowed */

/* Borrowed, until pki_key_free. mbedTLS takes a key as not const and leaves it as it is. */
struct mbedtls_pk_context *pki_key_context(const struct pki_key *k);
/* ERR_ACCESS, and how to repair it, when others can read the file. A missing file is ERR_OK. */
NODISCARD enum err pki_key_private(const char *path, struct errmsg *why);
/* Whether a certificate may be issued for it: ECDSA P-256. */
bool pki_key_usable(const struct mbedtls_pk_context *pk);

/* Appends a request, DER, with `name` as its subject (the signer need not follow it). */
NODISCARD enum err pki_key_request(struct buf *der, const struct pki_key *k, const char *name);
/* Appends the proof for Enroll/RenewExpired over a request. */
NODISCARD enum err pki_key_proof(struct buf *signature, const struct pki_key *k, const void *csr,
                                 size_t n);
/* What the proof signs. Returns 0, or a code of mbedTLS. */
int pki_key_proof_hash(uint8_t hash[32], const void *csr, size_t n);

#endif
