/* What a scan of the store was read from, and when there was something that it could not read.
 * Plain data. */
#ifndef PROCFLEET_COLLECTOR_STORE_STORE_USED_H
#define PROCFLEET_COLLECTOR_STORE_STORE_USED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum store_tier {
    STORE_HEAD,
    STORE_RAW,
    STORE_SUMMARY,
    STORE_10S,
    STORE_1MIN,
    STORE_1H,
    STORE_TIERS
};

/* From the first to the last stamp of what could not be read. */
struct store_hole {
    int64_t first_ns, last_ns;
};

/* In no order, apart from each other; beyond so many the nearest become one. */
#define STORE_HOLES_MAX 16u
struct store_holes {
    size_t n;
    struct store_hole at[STORE_HOLES_MAX];
};
void store_used_hole_add(struct store_holes *h, int64_t first_ns, int64_t last_ns);
/* How much of [since, until) they are. */
int64_t store_used_within(const struct store_holes *h, int64_t since_ns, int64_t until_ns);

/* What an answer was computed from, counted by host and window; and what could not be read. */
struct store_used {
    uint32_t windows[STORE_TIERS];
    uint32_t damaged;         /* values, batches or segments that failed their checksum or that the
                                 disk did not give: left out; */
    bool far;                 /* some of it is ClickHouse's, which did not answer */
    struct store_holes holes; /* when, as far as is known: a segment that cannot be opened may have
                                 nothing of the host */
    int64_t coarse_from_ns;   /* only tiers reach back to there; 0: all was raw */
    int64_t coarse_bucket_ns;
    uint32_t folded; /* windows that only folded tiers still have, left out because not asked for */
};

#endif
