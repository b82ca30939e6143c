/* What keeps a listener clean: a thread that sends away who waits too long, and the system's own
 * means, set on the listening socket. For net*.c only. */
#ifndef PROCFLEET_COMMON_NET_NET_REAPER_H
#define PROCFLEET_COMMON_NET_NET_REAPER_H

#include "common/net/conn_limits.h"

struct net_reaper;

/* Clears the crowd whenever room is needed and once a second, and calls `sweep` then.
 * name    of the thread
 * crowd   held
 * Errors: ERR_NOMEM, ERR_IO (no thread) */
NODISCARD enum err net_reaper_start(struct net_reaper **out, const char *name,
                                    struct conn_limits *crowd, void (*sweep)(void *ctx), void *ctx);
/* How long its thread has not come round, or NNG has not done the least of tasks for it, whichever
 * is longer. Any thread. */
int64_t net_reaper_stuck_ns(const struct net_reaper *j, int64_t now_ns);
void net_reaper_stop(struct net_reaper *j); /* waits; NULL is allowed */

/* Tells the system what to expect of the listening sockets of this program at `port`: a queue
 * that is long, for a whole fleet comes back at once after a restart, but no longer than is served
 * in time; connections that are handed over when their first bytes are there; and an end to
 * connections whose other side is dead or takes nothing. Systems other than Linux are left as they
 * are, and the result is ERR_UNSUPPORTED. Errors: ERR_UNSUPPORTED, ERR_NOTFOUND (no such socket),
 * ERR_IO */
NODISCARD enum err net_reaper_tune(unsigned port);

#endif
