/* The moment at which work for a waiting caller is given up. The caller may move it nearer while
 * the work goes on, so long work checks it again and again. Threads: any. */
#ifndef PROCFLEET_COMMON_OS_DEADLINE_H
#define PROCFLEET_COMMON_OS_DEADLINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/os/os.h"

struct deadline {
    _Atomic int64_t ns; /* monotonic */
};

static inline void deadline_set(struct deadline *d, int64_t ns)
{
    atomic_store_explicit(&d->ns, ns, memory_order_relaxed);
}

/* It has passed, whatever it was. */
static inline void deadline_end(struct deadline *d)
{
    deadline_set(d, INT64_MIN);
}

/* d: NULL = there is none. */
static inline bool deadline_passed(const struct deadline *d)
{
    return d && os_mono_ns() > atomic_load_explicit(&d->ns, memory_order_relaxed);
}

#endif
