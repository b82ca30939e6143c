/* One side's certificates as they are now; what a handshake uses is in net_rules.h. The public half
 * is in net.h; this is what the engine needs. For net*.c only. Threads: any. */
#ifndef PROCFLEET_COMMON_TLS_NET_TLS_H
#define PROCFLEET_COMMON_TLS_NET_TLS_H

#include "common/tls/net_rules.h"

/* One more reference; net_tls_free gives it back. */
struct net_tls *net_tls_hold(struct net_tls *t);

bool net_tls_is_server(const struct net_tls *t);
const char *net_tls_server_name(const struct net_tls *t); /* clients; never empty */

/* For a handshake that begins now; net_rules_free gives it back. */
struct net_rules *net_tls_rules(struct net_tls *t);

#endif
