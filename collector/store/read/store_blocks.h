/* store_blocks_local with a limit of its own, for tests. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_BLOCKS_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_BLOCKS_H

#include "collector/store/read/store_read.h"

/* What of a host's window is decoded at once. Sealing puts at most SEAL_MEMORY_TAKEN of it into one
 * segment, so that any of them fits. */
#define STORE_BLOCKS_BYTES ((size_t)256 << 20)

NODISCARD enum err
store_blocks_scan_within(const struct store_view *v, size_t host, const struct store_range *range,
                         size_t window_bytes,
                         enum err (*each)(void *ctx, const struct store_block *b), void *ctx);

#endif
