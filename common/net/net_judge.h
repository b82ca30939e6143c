/* A listener's judge, asked during the handshake, on admission and at reviews. Connections outlive
 * their listener by a moment, and its owner's judge must not be asked then: hence an object of its
 * own that the connections hold. For net*.c only. Threads: safe from any. */
#ifndef PROCFLEET_COMMON_NET_NET_JUDGE_H
#define PROCFLEET_COMMON_NET_NET_JUDGE_H

#include "common/net/net.h"

struct net_judge;

/* Holders that the revocation list of `tls` names are refused; the others are judged by `ask`,
 * which is net_server_conf.judge and may be NULL. */
NODISCARD enum err net_judge_create(struct net_judge **out, struct net_tls *tls,
                                    const char *(*ask)(void *ctx, const struct net_identity *who),
                                    void *ctx);
struct net_judge *net_judge_hold(struct net_judge *j); /* NULL is allowed, and given back */
void net_judge_release(struct net_judge *j);           /* NULL is allowed */

/* Why the holder may not be here, or NULL; `j` may be NULL. */
const char *net_judge_ask(struct net_judge *j, const struct net_identity *who);

/* Waits for who is asking and lets nobody ask any more: words for everybody. NULL is allowed. */
void net_judge_end(struct net_judge *j);

#endif
