/* One reading of a side's certificates, with the TLS rules made of it; never changed. A connection
 * keeps the one it began with, however often net_tls.c reads anew. For net*.c only. Threads: any.
 */
#ifndef PROCFLEET_COMMON_TLS_NET_RULES_H
#define PROCFLEET_COMMON_TLS_NET_RULES_H

#include "common/net/net.h"

struct mbedtls_ssl_config;
struct mbedtls_x509_crt;

struct net_rules;
struct net_ticket;

/* Reads the files. `tickets`: servers: what seals them, NULL = there are none; it must outlive the
 * rules. Errors: those of net_tls_load */
NODISCARD enum err net_rules_load(struct net_rules **out, const struct net_tls_conf *conf,
                                  bool server, struct net_ticket *tickets, struct errmsg *why);
struct net_rules *net_rules_hold(struct net_rules *r); /* net_rules_free gives it back */
void net_rules_free(struct net_rules *r);              /* NULL is allowed */

/* `strangers`: for a listener that asks nobody for a certificate and shows its own with the
 * authority's, for those who know that one by its hash. */
const struct mbedtls_ssl_config *net_rules_config(const struct net_rules *r, bool strangers);

/* Of the own certificate; empty for a client with a pin. */
const struct net_identity *net_rules_identity(const struct net_rules *r);

/* Whether sessions are taken up again under these rules. */
bool net_rules_resumes(const struct net_rules *r);

/* Whether the revocation list names the holder. */
bool net_rules_revoked(const struct net_rules *r, const struct net_identity *who);

bool net_rules_pinned(const struct net_rules *r);

/* With a pin: mbedTLS's flags for the server's certificate, of which the chain it showed follows.
 * 0: it is signed by the pinned authority, which was among them, and is valid for `server_name`. */
uint32_t net_rules_pin_flags(const struct net_rules *r, const struct mbedtls_x509_crt *chain,
                             const char *server_name);

#endif
