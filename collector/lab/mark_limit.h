/* How often a certificate may mark: so many times a second and a day, each an allowance that flows
 * back evenly. At most MARK_LIMIT_OWNERS names are known; a new one takes the place of the one that
 * marked least recently. A file of its own, so that a
 * test can say what time it is. Threads: one at a time. */
#ifndef PROCFLEET_COLLECTOR_LAB_MARK_LIMIT_H
#define PROCFLEET_COLLECTOR_LAB_MARK_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#define MARK_LIMIT_SECOND 10
#define MARK_LIMIT_DAY    10000
#define MARK_LIMIT_OWNERS 512u

/* When all that was taken will have flowed back, monotonic: of a second's allowance, of a day's. */
struct mark_limit_owner {
    char name[64];
    int64_t second_ns, day_ns, used_ns;
};

/* All zero at first. */
struct mark_limit {
    size_t n;
    struct mark_limit_owner owners[MARK_LIMIT_OWNERS];
};

/* 0: go on, it is counted. Else the time to wait, ns; nothing is counted. */
int64_t mark_limit_take(struct mark_limit *l, const char *name, int64_t now_ns);

#endif
