#include "agent/source/windows/etw_hist.h"

#include <stddef.h>

#define SUB 3 /* bits below the highest that tell steps apart */

static size_t step_of(uint32_t ns)
{
    unsigned top;

    if (ns < 1u << SUB) {
        return ns;
    }
    top = 31u - (unsigned)__builtin_clz(ns);
    return ((size_t)(top - SUB + 1) << SUB) + (ns >> (top - SUB) & ((1u << SUB) - 1));
}

/* The first value of the step behind it, less one. */
static int64_t end_of(size_t step)
{
    size_t next = step + 1;
    unsigned octave = (unsigned)(next >> SUB);

    if (octave == 0) {
        return (int64_t)step;
    }
    return (int64_t)((next & ((1u << SUB) - 1)) + (1u << SUB)) * ((int64_t)1 << (octave - 1)) - 1;
}

void etw_hist_add(struct etw_hist *h, int64_t took_ns)
{
    uint32_t ns = took_ns < 0 ? 0 : took_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)took_ns;
    size_t i = step_of(ns);

    atomic_store_explicit(&h->counts[i],
                          atomic_load_explicit(&h->counts[i], memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static uint32_t since(const struct etw_hist *h, size_t i)
{
    return (uint32_t)atomic_load_explicit(&h->counts[i], memory_order_relaxed) - h->before[i];
}

int64_t etw_hist_bound_ns(const struct etw_hist *h, unsigned permille)
{
    uint64_t all = 0, so_far = 0, wanted;

    for (size_t i = 0; i < ETW_HIST_STEPS; i++) {
        all += since(h, i);
    }
    wanted = (all * permille + 999) / 1000;
    for (size_t i = 0; i < ETW_HIST_STEPS && all; i++) {
        so_far += since(h, i);
        if (so_far >= wanted) {
            return end_of(i);
        }
    }
    return 0;
}

void etw_hist_roll(struct etw_hist *h)
{
    for (size_t i = 0; i < ETW_HIST_STEPS; i++) {
        h->before[i] = (uint32_t)atomic_load_explicit(&h->counts[i], memory_order_relaxed);
    }
}
