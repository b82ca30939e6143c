/* One side's certificates as they are now; what a handshake uses is in tls_context.h. The public
 * half is in net.h; this is what the engine needs. For net*.c only. Threads: any. */
#ifndef PROCFLEET_COMMON_TLS_TLS_CONFIG_H
#define PROCFLEET_COMMON_TLS_TLS_CONFIG_H

#include "common/tls/tls_context.h"

/* One more reference; tls_config_free gives it back. */
struct tls_config *tls_config_hold(struct tls_config *t);

bool tls_config_is_server(const struct tls_config *t);
const char *tls_config_server_name(const struct tls_config *t); /* clients; never empty */

/* For a handshake that begins now; tls_context_free gives it back. */
struct tls_context *tls_config_rules(struct tls_config *t);

#endif
