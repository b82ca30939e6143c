/* One side's certificates, parsed, with the TLS rules made of them. The public half is in net.h;
 * this is what the engine needs. For net*.c only. */
#ifndef PROCFLEET_COMMON_NET_TLS_H
#define PROCFLEET_COMMON_NET_TLS_H

#include "common/net.h"

struct mbedtls_ssl_config;

/* One more reference; net_tls_free gives it back. Threads: any. */
struct net_tls *net_tls_hold(struct net_tls *t);

bool net_tls_is_server(const struct net_tls *t);
const char *net_tls_server_name(const struct net_tls *t); /* clients; never empty */

/* Read-only and shared by all connections; valid while a reference is held. */
const struct mbedtls_ssl_config *net_tls_rules(const struct net_tls *t);

#endif
