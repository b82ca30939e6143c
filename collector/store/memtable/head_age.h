/* Which of a host's process instances are the oldest: those that ended, longest ago first, then
 * those that were not heard of for longest. Private to head_info.c. No state. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_AGE_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_AGE_H

#include "common/model/model.h"

struct head_age {
    bool running;
    uint64_t ns; /* in the order of the signed */
};

/* Older ones are the oldest, and of those as old as this so many. */
struct head_limit {
    struct head_age age;
    size_t equal;
};

struct head_age head_age_of(const struct proc_info *info, int64_t seen_ns);

/* What the k oldest are, k from 1 to n. */
struct head_limit head_limit_of(const struct head_age *ages, size_t n, size_t k);

/* Whether this is one of them; each is to be asked for once. */
bool head_age_over(const struct head_age *a, struct head_limit *limit);

#endif
