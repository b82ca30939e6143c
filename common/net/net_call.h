/* For callers that must not wait: calls of a client (net.h) whose end is told, and news of its
 * connection. Threads: a call belongs to whoever began it; the rest is safe from any. */
#ifndef PROCFLEET_COMMON_NET_NET_CALL_H
#define PROCFLEET_COMMON_NET_NET_CALL_H

#include "common/net/net.h"

struct net_call;

/* Begins one request and returns at once; p is copied. `on_end` is called once, on a thread of the
 * library, when net_call_finish would no longer wait: it must only wake somebody. It may come
 * before this returns. A request that finds no connection waits for one. Errors: ERR_CLOSED (hung
 * up), ERR_NOMEM */
NODISCARD enum err net_call_begin(struct net_call **out, struct net_client *c, const void *p,
                                  size_t n, int64_t timeout_ns, void (*on_end)(void *ctx),
                                  void *ctx);
bool net_call_ended(const struct net_call *call);
/* Waits for the end, appends the reply and releases the call; until then net_client_close waits.
 * ended_ns: monotonic, when it ended; may be NULL.
 * Errors: ERR_TIMEOUT, ERR_UNREACHABLE (the connection was lost under the request), ERR_CLOSED
 * (hung up), ERR_FULL (more than fits `reply`), ERR_NOMEM */
NODISCARD enum err net_call_finish(struct net_call *call, struct buf *reply, int64_t *ended_ns);

/* Which connection stands: 1, 2, ... as they come; 0 while there is none. */
uint64_t net_client_connection(const struct net_client *c);
/* Gives up the connection that stands, or the pause between two attempts, and dials anew. */
void net_client_redial(struct net_client *c);
/* The connection that stands was worth making: see net_client_conf.wary. Cheap. */
void net_client_useful(struct net_client *c);
/* From the next pause on they grow up to `max_ns`; a connection lets them begin small again. Until
 * net_client_redial finds none, then what the client was opened with holds. */
void net_client_pause(struct net_client *c, int64_t max_ns);

/* Why TLS failed last, as far as no connection has stood since: ERR_TRUST or another error, with
 * its sentence; ERR_OK when nothing is known. Cheap, unlike net_client_problem. */
NODISCARD enum err net_client_fault(struct net_client *c, struct errmsg *out);

/* From now on `on_change` is called when the connection has come or gone or TLS has failed, on a
 * thread of the library and under a lock of the client: it must only wake somebody. NULL ends it;
 * after that it is not called any more. */
void net_client_watch(struct net_client *c, void (*on_change)(void *ctx), void *ctx);

#endif
