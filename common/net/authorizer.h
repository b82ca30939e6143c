/* Says whether the holder of a certificate may be connected: asked during the handshake, by
 * their listener by a moment, and its owner's judge must not be asked then: hence an object of its
 * own that the connections hold. Private to the folder. Threads: safe from any. */
#ifndef PROCFLEET_COMMON_NET_AUTHORIZER_H
#define PROCFLEET_COMMON_NET_AUTHORIZER_H

#include "common/tls/tls_config.h"

struct authorizer;

/* Holders that the revocation list of `tls` names are refused; the others are judged by `ask`,
 * which is net_server_conf.judge and may be NULL. */
NODISCARD enum err authorizer_create(struct authorizer **out, struct tls_config *tls,
                                     const char *(*ask)(void *ctx, const struct net_identity *who),
                                     void *ctx);
struct authorizer *authorizer_hold(struct authorizer *j); /* NULL is allowed, and given back */
void authorizer_release(struct authorizer *j);            /* NULL is allowed */

/* Why the holder may not be here, or NULL; `j` may be NULL. */
const char *authorizer_ask(struct authorizer *j, const struct net_identity *who);

/* Waits for checks under way; after this every check is refused. NULL is allowed. */
void authorizer_end(struct authorizer *j);

#endif
