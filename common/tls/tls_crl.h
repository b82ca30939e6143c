/* A revocation list in PEM (X.509 v1 or v2, ECDSA with SHA-256), as authorities outside procfleet
 * keep one. For net*.c only. Bounds: a file of at most 1 MiB. Threads: read-only once loaded. */
#ifndef PROCFLEET_COMMON_TLS_TLS_CRL_H
#define PROCFLEET_COMMON_TLS_TLS_CRL_H

#include "common/net/net.h"

struct mbedtls_x509_crt;

struct tls_crl;

/* Every list in the file must be signed by one of the chain `ca`. One that has not been renewed in
 * time still counts, with a line in the log: who is revoked stays revoked, and everybody else must
 * not be kept out. Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_INVALID, ERR_TRUST, ERR_NOMEM, ERR_IO */
NODISCARD enum err tls_crl_load(struct tls_crl **out, const char *path,
                                const struct mbedtls_x509_crt *ca, struct errmsg *why);
void tls_crl_free(struct tls_crl *c); /* NULL is allowed */

/* Whether the holder's certificate is on a list; `c` may be NULL. */
bool tls_crl_holds(const struct tls_crl *c, const struct net_identity *who);

#endif
