/* Payloads that travel as one zstd frame. For rpc_*.c only. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_RPC_RPC_ZSTD_H
#define PROCFLEET_COMMON_RPC_RPC_ZSTD_H

#include "common/base/buf.h"

/* Appends what the frame holds. Its size must be in the frame's head and fit `out`: it is checked
 * before a byte is decompressed. Errors: ERR_CORRUPT, ERR_FULL (more than fits), ERR_NOMEM */
NODISCARD enum err rpc_zstd_decode(struct buf *out, const void *p, size_t n);

/* The size that the frame's head declares, 0 when it does not. */
uint64_t rpc_zstd_size(const void *p, size_t n);

#endif
