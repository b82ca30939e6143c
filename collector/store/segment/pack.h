/* Bytes made smaller: zstd level 1 or as they are, whichever is less; with the length in front, so
 * that a reader knows what to expect before it allocates. No checksum of its own.
 * Threads: a packer has one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_PACK_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_PACK_H

#include "common/base/arena.h"
#include "common/base/buf.h"

struct packer; /* the compressor's memory, kept from call to call */
NODISCARD enum err packer_create(struct packer **out);
void packer_destroy(struct packer *p); /* NULL is allowed */

void pack_put(struct packer *p, struct buf *out, const void *bytes, size_t n); /* latches in out */

/* Opens a pack of exactly n bytes. out: in `memory`.
 * Errors: ERR_CORRUPT, ERR_FULL (more than `max` bytes, or the arena), ERR_NOMEM */
NODISCARD enum err pack_open(struct packer *p, struct arena *memory, const uint8_t **out,
                             size_t *out_n, const void *bytes, size_t n, size_t max);

#endif
