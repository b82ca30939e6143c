/* What the spool does to batches it must make smaller or number anew: each is unpacked, changed and
 * packed again. What is taken away is told in the batch itself, as rows of its loss ledger: the
 * loss travels with what is left, whatever becomes of this process. Threads: one owner. */
#ifndef PROCFLEET_AGENT_SPOOL_SPOOL_BATCH_H
#define PROCFLEET_AGENT_SPOOL_SPOOL_BATCH_H

#include "agent/spool/spool_segment.h"
#include "common/wire/wire_batch.h"

struct spool_loss {
    uint64_t batches, rows, events; /* a row is one process at one tick */
};

/* Adds what the batch holds, and what it tells as lost; one that is none adds to `batches` alone.
 */
void spool_batch_count(struct spool_loss *loss, const void *p, size_t n);

/* Puts into *out, in place of what is there, the batch without what `detail` leaves out; *loss
 * grows by that. Stream and number stay. Errors: ERR_CORRUPT, ERR_FULL, ERR_VERSION, ERR_NOMEM,
 * ERR_INVALID (it is no batch, or cannot be packed again) */
NODISCARD enum err spool_batch_reduce(struct wire_encoder *enc, struct buf *out,
                                      struct spool_loss *loss, const void *p, size_t n,
                                      enum spool_detail detail);

/* The same batch under another number. Errors: as above */
NODISCARD enum err spool_batch_renumber(struct wire_encoder *enc, struct buf *out, const void *p,
                                        size_t n, uint64_t stream, uint64_t seq);

#endif
