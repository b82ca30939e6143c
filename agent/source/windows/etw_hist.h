/* How long something took, as a distribution in steps of an eighth of a power of two, up to 4 s.
 * Threads: one adds; another rolls and asks. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_HIST_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define ETW_HIST_STEPS 248

struct etw_hist {
    atomic_uint_least32_t counts[ETW_HIST_STEPS];
    uint32_t before[ETW_HIST_STEPS]; /* as of the last roll */
};

void etw_hist_add(struct etw_hist *h, int64_t took_ns);

/* Upper bound of what `permille` of those added since the last roll took; 0 = none were added. */
int64_t etw_hist_bound_ns(const struct etw_hist *h, unsigned permille);
void etw_hist_roll(struct etw_hist *h); /* from now on counts what comes from now on */

#endif
