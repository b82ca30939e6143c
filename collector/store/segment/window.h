/* What one host made in one window of WINDOW_NS, put together from its batches: the form that
 * sealing works on. A batch belongs to the window in which it was made (batch_time_made of its
 * newest stamp, the collector's clock) and is never split: a window's data may reach a little
 * beyond its ends, and readers go by the stamps inside, never by the nominal window.
 *
 * Rows and rest are apart: `parts` hold what the sampler saw (ticks, runs, columns), joined to
 * long runs; `rests` hold everything else of each batch (key, stamps, infos, events, ledger), since
 * coverage and events need it batch by batch.
 * Bounds: those of the batches; one host and window at a time. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEGMENT_WINDOW_H
#define PROCFLEET_COLLECTOR_STORE_SEGMENT_WINDOW_H

#include "collector/store/host_offset.h"
#include "common/base/arena.h"
#include "common/wire/wire_batch.h"

#define WINDOW_STAMP_MAX (INT64_C(7258118400) * 1000000000) /* 2200: sums never wrap */
#define WINDOW_MONO_MAX  (INT64_MAX / 2)

#define WINDOW_NS (300 * INT64_C(1000000000))

static inline int64_t window_of(int64_t made_ns)
{
    return made_ns - ((made_ns % WINDOW_NS) + WINDOW_NS) % WINDOW_NS;
}

/* One batch that goes in. */
struct window_batch {
    const struct batch *batch; /* decoded */
    struct host_offset clock;
    int64_t received_ns;
};

/* Ticks and rows of one boot. In `rows` every run is as long as it can be: it ends where a tick of
 * the part misses the process, its mask or clock changes; n_infos, n_events, n_ledger are 0;
 * head.seq is 0; flags are those of all its batches. wall_ns and mono_ns rise strictly: where they
 * would not (clock set back, another boot, source or clock offset by more than 100 ms), a new part
 * begins. */
struct window_part {
    struct batch rows;
    struct host_offset clock; /* of its newest batch */
    int64_t received_ns;      /* newest */
};

/* A batch without runs and columns; its ticks stay. */
struct window_rest {
    struct batch batch;
    struct host_offset clock;
    int64_t received_ns;
};

struct host_window {
    struct uuid host;
    char name[MODEL_HOST_NAME_MAX + 1]; /* of the newest batch */
    size_t n_parts;
    struct window_part *parts; /* by first stamp */
    size_t n_rests;
    struct window_rest *rests; /* by first stamp, stream, seq */
};

/* Joins the batches of one host (any order, no duplicates). Everything is in `memory` or borrowed
 * from the batches. Errors: ERR_FULL (the arena's limit), ERR_NOMEM, ERR_INVALID (other hosts) */
NODISCARD enum err window_join(struct host_window *out, struct arena *memory,
                               const struct window_batch *batches, size_t n, const char *host_name);

#endif
