/* One side's certificates as they are now; what a handshake uses is in tls_context.h. Threads: any.
 */
#ifndef PROCFLEET_COMMON_TLS_TLS_CONFIG_H
#define PROCFLEET_COMMON_TLS_TLS_CONFIG_H

#include "common/tls/tls_context.h"

struct tls_config;
/* Errors: ERR_NOTFOUND, ERR_ACCESS (others can read the key), ERR_TRUST (not signed by the CA,
 * expired, wrong use), ERR_INVALID, ERR_NOMEM */
NODISCARD enum err tls_config_load(struct tls_config **out, const struct net_tls_conf *conf,
                                   bool server, struct errmsg *why);
void tls_config_free(struct tls_config *t); /* NULL is allowed; sockets keep their own reference */
/* Of the own certificate, as of now; empty for a client with a pin. */
void tls_config_identity(struct tls_config *t, struct net_identity *out);
/* Reads the files again. Handshakes from now on use what they hold; connections that stand go on.
 * On failure everything stays as it was. Threads: any. Errors: those of tls_config_load */
NODISCARD enum err tls_config_reload(struct tls_config *t, struct errmsg *why);
/* Whether the revocation list, as it was read last, names the holder. Threads: any. */
bool tls_config_revoked(struct tls_config *t, const struct net_identity *who);

/* -- private to tls/ and net/ -- */

/* One more reference; tls_config_free gives it back. */
struct tls_config *tls_config_hold(struct tls_config *t);

bool tls_config_is_server(const struct tls_config *t);
const char *tls_config_server_name(const struct tls_config *t); /* clients; never empty */

/* For a handshake that begins now; tls_context_free gives it back. */
struct tls_context *tls_config_rules(struct tls_config *t);

#endif
