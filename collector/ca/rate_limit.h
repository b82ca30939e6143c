/* How often strangers may try: so many a second in all, so many from one address, with a burst of
 * each. Addresses share BUCKETS places by a secret hash; two that meet there share their allowance.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_CA_RATE_LIMIT_H
#define PROCFLEET_COLLECTOR_CA_RATE_LIMIT_H

#include <stdint.h>

#include "common/base/err.h"

#define RATE_LIMIT_PLACES 1024u

struct rate_limit_rate {
    unsigned per_second, burst;
};

struct rate_limit_bucket {
    /* When it would be empty again, monotonic: the allowance is what lies before. */
    int64_t empty_ns;
};

struct rate_limit {
    struct rate_limit_rate all, each;
    struct rate_limit_bucket total, places[RATE_LIMIT_PLACES];
    uint64_t seed;
};

/* Errors: ERR_IO (no random numbers) */
NODISCARD enum err rate_limit_init(struct rate_limit *t, struct rate_limit_rate all,
                                   struct rate_limit_rate each);

/* 0: go on, it is counted. Else the time to wait; nothing is counted. `address` is "host:port", of
 * which the host counts, or "[1:2:3:4:5:6:7:8]:port", of which the /64 does. */
int64_t rate_limit_take(struct rate_limit *t, const char *address, int64_t now_ns);

#endif
