/* What doctors look at before anything listens. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_NET_NET_PROBE_H
#define PROCFLEET_COMMON_NET_NET_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* Whether `address` can be listened at: binds for a moment, accepts nothing.
 * Errors: ERR_BUSY (somebody listens there), ERR_INVALID (no address, or none of this machine),
 * ERR_ACCESS (a port below 1024, and no right to it), ERR_NOMEM, ERR_IO */
NODISCARD enum err net_probe_listen(const char *address, struct errmsg *why);

/* Asks a server of this machine over plain HTTP. *status: what it answers; text: the body, cut to
 * size, without line breaks at its end. `*` as the address's host is 127.0.0.1.
 * Errors: ERR_INVALID (no address), ERR_TIMEOUT, ERR_CORRUPT (no HTTP), those of connecting,
 * ERR_NOMEM
 */
NODISCARD enum err net_probe_get(unsigned *status, char *text, size_t size, const char *address,
                                 const char *path, int64_t timeout_ns, struct errmsg *why);

/* When the first of the authorities in the PEM file ends, UTC. Errors: ERR_NOTFOUND, ERR_ACCESS,
 * ERR_INVALID (no certificates), ERR_NOMEM, ERR_IO */
NODISCARD enum err net_probe_authority(int64_t *end_ns, const char *path);

#endif
