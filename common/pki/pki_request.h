/* A key made where it is used, the request for its certificate (PKCS #10), and the certificate made
 * of it: nothing of a request but its public key gets into a certificate. Also the proof that the
 * holder of an expired certificate still has its key. Threads: any; no shared state. */
#ifndef PROCFLEET_COMMON_PKI_PKI_REQUEST_H
#define PROCFLEET_COMMON_PKI_PKI_REQUEST_H

#include <stddef.h>

#include "common/base/buf.h"
#include "common/pki/pki.h"

#define PKI_PIN_BYTES 32u /* SHA-256 of the authority's certificate, DER */

/* -- the holder's side -- */

struct pki_key;

NODISCARD enum err pki_key_make(struct pki_key **out);
/* Errors: ERR_NOTFOUND, ERR_ACCESS (others can read it), ERR_INVALID, ERR_IO, ERR_NOMEM */
NODISCARD enum err pki_key_load(struct pki_key **out, const char *path, struct errmsg *why);
/* PEM, 0600; nothing is overwritten. Errors: ERR_EXISTS, ERR_IO, ERR_NOSPACE, ERR_ACCESS */
NODISCARD enum err pki_key_save(const struct pki_key *k, const char *path, struct errmsg *why);
void pki_key_free(struct pki_key *k); /* wiped; NULL is allowed */

/* Appends a request, DER, with `name` as its subject (the signer need not follow it). */
NODISCARD enum err pki_request_make(struct buf *der, const struct pki_key *k, const char *name);
/* Appends the proof for Enroll/RenewExpired over a request. */
NODISCARD enum err pki_proof_make(struct buf *signature, const struct pki_key *k, const void *csr,
                                  size_t n);

/* -- the authority's side -- */

struct pki_authority; /* certificate and key, loaded */
/* Errors: ERR_NOTFOUND (no authority there), ERR_ACCESS, ERR_CORRUPT, ERR_NOMEM */
NODISCARD enum err pki_authority_open(struct pki_authority **out, const char *dir,
                                      struct errmsg *why);
void pki_authority_close(struct pki_authority *a); /* NULL is allowed */
const void *pki_authority_der(const struct pki_authority *a, size_t *n);
void pki_authority_pin(const struct pki_authority *a, uint8_t pin[PKI_PIN_BYTES]);
const char *pki_authority_name(const struct pki_authority *a);     /* its common name */
int64_t pki_authority_not_after_ns(const struct pki_authority *a); /* nothing it signs lives on */

/* Appends a certificate, DER, of what `what` says for the request's key, after the request's own
 * signature was checked. Errors: ERR_CORRUPT (not a request, or not signed by its key),
 * ERR_INVALID (another kind of key than P-256, or `what`), ERR_TRUST (the authority itself has
 * ended), ERR_NOMEM */
NODISCARD enum err pki_request_sign(struct buf *der, const struct pki_authority *a,
                                    const struct pki_issue *what, const void *csr, size_t n,
                                    struct errmsg *why);

/* Whether `signature` over `csr` was made by the key of `certificate` (DER), and this authority
 * signed that one, whatever its validity: the identity inside is then the holder's
 * (net_identity_parse). Errors: ERR_CORRUPT, ERR_TRUST */
NODISCARD enum err pki_proof_check(const struct pki_authority *a, const void *certificate,
                                   size_t certificate_n, const void *csr, size_t n,
                                   const void *signature, size_t signature_n);

#endif
