/* What a host's batches told of themselves in a window, summed. Plain data; text is borrowed. */
#ifndef PROCFLEET_COLLECTOR_STORE_META_LOSS_SUM_H
#define PROCFLEET_COLLECTOR_STORE_META_LOSS_SUM_H

#include "collector/store/segment/window.h"
#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/model/model.h"

#define LOSS_SUM_COUNTS_MAX  256u /* beyond it is not `plain` */
#define LOSS_SUM_STREAMS_MAX 128u
#define LOSS_SUM_TOLD_MAX    8192u

struct rest_count {
    struct str stage, reason;
    uint64_t count;
    int64_t first_ns, last_ns; /* of the data it was told with */
};
struct rest_stream {
    uint64_t stream, first, last; /* numbers without a hole */
    int64_t first_ns, last_ns;
};
struct loss_sum {
    uint64_t batches, ticks, events; /* batches: those with data; events: by the source's count */
    uint32_t flags;                  /* BATCH_* of any */
    int64_t first_ns, last_ns, period_ns;
    bool plain; /* nothing was lost, no batch taken apart: the sums say all; otherwise read the
                   rests */
    size_t n_counts, n_streams;
    const struct rest_count *counts;
    const struct rest_stream *streams;
};

/* As bytes (docs/formats.md), and back. Errors: ERR_NOMEM; ERR_CORRUPT, ERR_VERSION, ERR_FULL */
NODISCARD enum err loss_sum_encode(struct buf *out, const struct host_window *hw);
NODISCARD enum err loss_sum_decode(struct loss_sum *out, struct arena *memory, const uint8_t *raw,
                                   size_t raw_n);

/* Whether sums say all that the batch tells, and nothing they add up to wraps. */
bool loss_sum_plain(const struct batch *b);

/* The account of one batch, for who keeps it in memory: its bytes (mem_free), or NULL when it would
 * not be plain or is larger than LOSS_SUM_TOLD_MAX. Errors: ERR_NOMEM. And back. */
NODISCARD enum err loss_sum_told_make(void **told, size_t *n, const struct batch *b);
NODISCARD enum err loss_sum_told_read(const void *told, size_t n, struct arena *memory,
                                      struct loss_sum *out);

#endif
