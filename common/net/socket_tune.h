/* The system's own means against peers that hang, set on a listening socket. Private to the folder.
 */
#ifndef PROCFLEET_COMMON_NET_SOCKET_TUNE_H
#define PROCFLEET_COMMON_NET_SOCKET_TUNE_H

#include "common/base/err.h"

/* Tells the system what to expect of the listening sockets of this program at `port`: a queue
 * that is long, for a whole fleet comes back at once after a restart, but no longer than is served
 * in time; connections that are handed over when their first bytes are there; and an end to
 * connections whose other side is dead or takes nothing. Systems other than Linux are left as they
 * are, and the result is ERR_UNSUPPORTED. Errors: ERR_UNSUPPORTED, ERR_NOTFOUND (no such socket),
 * ERR_IO */
NODISCARD enum err socket_tune(unsigned port);

#endif
