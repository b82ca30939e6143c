/* Whether a thread still makes progress: it marks when it begins a piece of work and when it waits
 * for more, and a watchdog asks how long the piece has taken. A loop that waits for others marks
 * each round instead, at least once in HEARTBEAT_ROUND_NS even when there is nothing to do, and
 * never rests, so that a wait that does not end is noticed too. Threads: one marks, any ask. */
#ifndef PROCFLEET_COMMON_BASE_HEARTBEAT_H
#define PROCFLEET_COMMON_BASE_HEARTBEAT_H

#include <stdatomic.h>
#include <stdint.h>

#define HEARTBEAT_ROUND_NS INT64_C(1000000000)

/* Zeroed: it rests. */
struct heartbeat {
    _Atomic int64_t since_ns; /* monotonic; 0 = it waits for work */
};

/* Also in the middle of long work, whenever a step of it is done. */
static inline void heartbeat_work(struct heartbeat *p, int64_t now_ns)
{
    atomic_store_explicit(&p->since_ns, now_ns, memory_order_relaxed);
}

static inline void heartbeat_rest(struct heartbeat *p)
{
    atomic_store_explicit(&p->since_ns, 0, memory_order_relaxed);
}

/* How long it has been at the present piece of work; 0 = it rests. */
static inline int64_t heartbeat_busy_ns(const struct heartbeat *p, int64_t now_ns)
{
    int64_t since_ns = atomic_load_explicit(&p->since_ns, memory_order_relaxed);

    return since_ns == 0 || now_ns < since_ns ? 0 : now_ns - since_ns;
}

#endif
