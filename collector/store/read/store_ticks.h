/* Adds up the time that a host's ticks cover, told in pieces of any order. Private to the store's
 * readers. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_TICKS_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_TICKS_H

#include "collector/store/read/store_read.h"
#include "collector/store/rollup/tier_shape.h"
#include "common/base/arena.h"

/* Ticks of one boot without one missing between them. */
struct store_tick_run {
    struct uuid boot;
    bool inside;   /* of the range; others only tell where the time into the first one begins */
    bool has_base; /* base_ns: the tick just before; otherwise it is the first one's own */
    int64_t base_mono_ns, last_mono_ns;
    int64_t first_wall_ns, last_wall_ns;
    uint64_t ticks;
};

struct store_tick_sum {
    struct arena *memory;
    struct store_tick_run *runs;
    size_t n, cap;
};

/* Errors: ERR_FULL */
NODISCARD enum err store_ticks_add(struct store_tick_sum *t, const struct store_tick_run *run);
void store_ticks_sum(struct store_tick_sum *t, struct store_ticks *out); /* changes the order */

/* Whether of each part of a summary the ticks are before the range that is asked for, in one step
 * of it, or behind. *meets: some are in it. */
bool store_ticks_uncut(const struct tier *sums, const struct store_cells *ask, bool *meets);

#endif
