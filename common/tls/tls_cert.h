/* What a certificate says about its holder, and whether a listener lets that holder in. Threads:
 * any; no state. */
#ifndef PROCFLEET_COMMON_TLS_TLS_CERT_H
#define PROCFLEET_COMMON_TLS_TLS_CERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/os/uuid.h"

struct mbedtls_x509_crt;

enum net_role { NET_AGENT = 1, NET_QUERY = 2, NET_SUBSCRIBE = 4, NET_ADMIN = 8, NET_MARK = 16 };

/* Who the peer's certificate says it is. Never what the peer claims. */
struct net_identity {
    char name[64]; /* CN: the host's name, or the user's */
    bool has_host;
    struct uuid host;                    /* from urn:procfleet:host: */
    unsigned roles;                      /* NET_* */
    char scope[128];                     /* host glob from urn:procfleet:scope:, "" = everything */
    uint8_t fingerprint[32];             /* SHA-256 of the certificate */
    uint8_t serial[20], serial_n;        /* its number, as it stands in it */
    int64_t not_before_ns, not_after_ns; /* UTC */
    char address[64];                    /* of the peer */
    uint32_t connection; /* listeners: told from the holder's others; never to be stored */
};

/* What a certificate (DER) says; trusts nothing. _client: only a client's. Errors: ERR_INVALID */
NODISCARD enum err tls_cert_parse(struct net_identity *out, const void *der, size_t n);
NODISCARD enum err tls_cert_parse_client(struct net_identity *out, const void *der, size_t n);

/* When the first of the authorities in the PEM file ends, UTC. Errors: ERR_NOTFOUND, ERR_ACCESS,
 * ERR_INVALID (no certificates), ERR_NOMEM, ERR_IO */
NODISCARD enum err tls_cert_authority_end(int64_t *end_ns, const char *path);

/* Reads common name, urn:procfleet:… names, validity and fingerprint; `address` stays empty.
 * A name that is doubled, too long or malformed makes the whole certificate invalid: ignoring it
 * could widen what its holder may see. Errors: ERR_INVALID */
NODISCARD enum err tls_cert_identity(struct net_identity *out, const struct mbedtls_x509_crt *crt);

/* Whether it is for servers, or for clients, and for nothing else: of the certificate's extended
 * key usages there is one, and it is that. */
bool tls_cert_is_only(const struct mbedtls_x509_crt *crt, bool server);

/* The common name as it stands there, whoever wrote it, cut at `size`; "" without one. */
void tls_cert_claimed(char *name, size_t size, const struct mbedtls_x509_crt *crt);

/* Why a holder of none of `roles` (NET_*), or of a scope where none is allowed, may not come in:
 * words for the log, or NULL when it may. */
const char *tls_cert_denied(const struct net_identity *who, unsigned roles, bool refuse_scoped);

/* Why TLS does not come about, for programs; sentences are for people. */
enum tls_cause {
    TLS_CAUSE_NONE,
    /* the server refuses our certificate, */
    TLS_CAUSE_REFUSED_REVOKED,
    TLS_CAUSE_REFUSED_ROLE,
    TLS_CAUSE_REFUSED_AUTHORITY,
    TLS_CAUSE_REFUSED_TIME, /* it finds it expired or not yet valid */
    /* its own is not to be trusted, */
    TLS_CAUSE_SERVER_AUTHORITY,
    TLS_CAUSE_SERVER_NAME,
    TLS_CAUSE_SERVER_EXPIRED,
    /* and what is wrong with our files */
    TLS_CAUSE_OWN_AUTHORITY,
    TLS_CAUSE_OWN_EXPIRED,
    TLS_CAUSE_OWN_FUTURE,
    TLS_CAUSE_NO_LIST, /* there is no revocation list where it should be */
};

/* For mbedTLS's verification flags, the one that matters most: words for the log, and the cause for
 * an own certificate or for a server's. */
const char *tls_cert_flags_text(uint32_t flags);
enum tls_cause tls_cert_flags_cause(uint32_t flags, bool own);

/* What a TLS alert that ended a handshake means to a client: the end of "the server refused us". */
const char *tls_cert_alert_text(unsigned char alert);
enum tls_cause tls_cert_alert_cause(unsigned char alert);

#endif
