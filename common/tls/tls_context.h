/* One reading of a side's certificates, with the TLS rules made of it; never changed. A connection
 * keeps the one it began with, however often tls_config.c reads the files again. Private to tls/
 * and net/, but for the paths. Threads: any. */
#ifndef PROCFLEET_COMMON_TLS_TLS_CONTEXT_H
#define PROCFLEET_COMMON_TLS_TLS_CONTEXT_H

#include "common/tls/tls_cert.h"

struct mbedtls_ssl_config;
struct mbedtls_x509_crt;

/* What is spoken. */
enum tls_versions { TLS_1_2_AND_1_3, TLS_ONLY_1_2, TLS_ONLY_1_3 };

/* Where one side's certificates are. */
struct net_tls_conf {
    const char *ca, *cert, *key; /* PEM files */
    const char *server_name;     /* clients: the DNS name the server must carry; servers: NULL */
    /* Clients without a certificate yet: SHA-256 of the authority's certificate that the server
     * must show and be signed by; ca, cert and key are NULL then. Checked before the first byte of
     * a message leaves. */
    const uint8_t *pin;
    const char *tickets; /* servers: file of the ticket keys, see tls_ticket.h; NULL: no tickets */
    enum tls_cause *cause; /* set when loading fails; may be NULL */
    const char *crl;       /* servers: revocation list, PEM, on top of `judge`; NULL: none */
    bool lapsed; /* clients: the own certificate may be outside its time: the server decides */
    enum tls_versions versions;
};

struct tls_context;
struct tls_ticket;

/* Reads the files. `tickets`: servers: what seals them, NULL = there are none; it must outlive the
 * rules. Errors: those of tls_config_load */
NODISCARD enum err tls_context_load(struct tls_context **out, const struct net_tls_conf *conf,
                                    bool server, struct tls_ticket *tickets, struct errmsg *why);
struct tls_context *tls_context_hold(struct tls_context *r); /* tls_context_free gives it back */
void tls_context_free(struct tls_context *r);                /* NULL is allowed */

/* `strangers`: for a listener that asks for no certificate and shows its own with the
 * authority's, for those who know that one by its hash. */
const struct mbedtls_ssl_config *tls_context_config(const struct tls_context *r, bool strangers);

/* Differs for every reading, never 0. */
uint64_t tls_context_id(const struct tls_context *r);

/* Of the own certificate; empty for a client with a pin. */
const struct net_identity *tls_context_identity(const struct tls_context *r);

/* Whether the revocation list names the holder. */
bool tls_context_revoked(const struct tls_context *r, const struct net_identity *who);

bool tls_context_pinned(const struct tls_context *r);

/* With a pin: mbedTLS's flags for the server's certificate, of which the chain it showed follows.
 * 0: it is signed by the pinned authority, which was among them, and is valid for `server_name`. */
uint32_t tls_context_pin_flags(const struct tls_context *r, const struct mbedtls_x509_crt *chain,
                               const char *server_name);

#endif
