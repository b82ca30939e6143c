/* What a certificate says about its holder, and whether a listener lets that holder in. For net*.c
 * only. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_TLS_TLS_CERT_H
#define PROCFLEET_COMMON_TLS_TLS_CERT_H

#include "common/net/net.h"

struct mbedtls_x509_crt;

/* Reads common name, urn:procfleet:… names, validity and fingerprint; `address` stays empty.
 * A name that is doubled, too long or malformed makes the whole certificate invalid: ignoring it
 * could widen what its holder may see. Errors: ERR_INVALID */
NODISCARD enum err tls_cert_identity(struct net_identity *out, const struct mbedtls_x509_crt *crt);

/* Whether it is for servers, or for clients, and for nothing else: of the certificate's extended
 * key usages there is one, and it is that. */
bool tls_cert_is_only(const struct mbedtls_x509_crt *crt, bool server);

/* The common name as it stands there, whoever wrote it, cut at `size`; "" without one. */
void tls_cert_claimed(char *name, size_t size, const struct mbedtls_x509_crt *crt);

/* When it ends, whoever holds it. Errors: ERR_INVALID */
NODISCARD enum err tls_cert_end(int64_t *utc_ns, const struct mbedtls_x509_crt *crt);

/* Why a holder of none of `roles` (NET_*), or of a scope where none is allowed, may not come in:
 * words for the log, or NULL when it may. */
const char *tls_cert_denied(const struct net_identity *who, unsigned roles, bool refuse_scoped);

/* Words for the log for mbedTLS's verification flags: the one cause that matters most. */
const char *tls_cert_flags_text(uint32_t flags);

/* What a TLS alert that ended a handshake means to a client: the end of "the server refused us". */
const char *tls_cert_alert_text(unsigned char alert);

#endif
