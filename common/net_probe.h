/* What doctors look at before anything listens. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_NET_PROBE_H
#define PROCFLEET_COMMON_NET_PROBE_H

#include <stdint.h>

#include "common/err.h"

/* Whether `address` can be listened at: binds for a moment, accepts nothing.
 * Errors: ERR_BUSY (somebody listens there), ERR_INVALID (no address, or none of this machine),
 * ERR_ACCESS (a port below 1024, and no right to it), ERR_NOMEM, ERR_IO */
NODISCARD enum err net_probe_listen(const char *address, struct errmsg *why);

/* When the first of the authorities in the PEM file ends, UTC. Errors: ERR_NOTFOUND, ERR_ACCESS,
 * ERR_INVALID (no certificates), ERR_NOMEM, ERR_IO */
NODISCARD enum err net_probe_authority(int64_t *end_ns, const char *path);

#endif
