/* What a host's batches told of themselves in a window, summed. Plain data; text is borrowed. */
#ifndef PROCFLEET_COLLECTOR_STORE_META_LOSS_SUM_H
#define PROCFLEET_COLLECTOR_STORE_META_LOSS_SUM_H

#include "common/model/model.h"

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

#endif
