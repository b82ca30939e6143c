/* How often strangers may try: so many a second in all, so many from one address, with a burst of
 * each. Addresses share BUCKETS places by a secret hash; two that meet there share their allowance.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_CA_THROTTLE_H
#define PROCFLEET_COLLECTOR_CA_THROTTLE_H

#include <stdint.h>

#include "common/base/err.h"

#define THROTTLE_PLACES 1024u

struct throttle_rate {
    unsigned per_second, burst;
};

struct throttle_bucket {
    int64_t
        empty_ns; /* when it would be empty again, monotonic: the allowance is what lies before */
};

struct throttle {
    struct throttle_rate all, each;
    struct throttle_bucket total, places[THROTTLE_PLACES];
    uint64_t seed;
};

/* Errors: ERR_IO (no random numbers) */
NODISCARD enum err throttle_init(struct throttle *t, struct throttle_rate all,
                                 struct throttle_rate each);

/* 0: go on, it is counted. Else the time to wait; nothing is counted. `address` is "host:port", of
 * which the host counts, or "[1:2:3:4:5:6:7:8]:port", of which the /64 does. */
int64_t throttle_take(struct throttle *t, const char *address, int64_t now_ns);

#endif
