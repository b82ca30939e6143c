/* Starts and stops that wait for the record of the other provider before they are told: a queue in
 * order of time, each waits as long as every other.
 * Bounds:  HOLD_MAX; the caller lets the first one go when it is full.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_HOLD_H
#define PROCFLEET_AGENT_HOLD_H

#include "agent/ptable.h"

#define HOLD_MAX 1024

struct hold_item {
    struct ptable_proc *p;
    uint32_t generation;      /* of p when it was put here */
    uint8_t kind;             /* enum life_kind: LIFE_PROCESS_START, LIFE_PROCESS_STOP */
    int64_t wall_ns, mono_ns; /* of the record that came first */
};

struct hold {
    struct hold_item items[HOLD_MAX];
    size_t first, n;
};

static inline bool hold_full(const struct hold *h)
{
    return h->n == HOLD_MAX;
}

/* Not when full. */
static inline void hold_push(struct hold *h, struct hold_item item)
{
    h->items[(h->first + h->n++) % HOLD_MAX] = item;
}

/* The first one that came at until_ns or before, taken out. False: none. */
static inline bool hold_pop(struct hold *h, int64_t until_ns, struct hold_item *out)
{
    if (h->n == 0 || h->items[h->first].mono_ns > until_ns) {
        return false;
    }
    *out = h->items[h->first];
    h->first = (h->first + 1) % HOLD_MAX;
    h->n--;
    return true;
}

/* The one of p, where it stands in the queue, or NULL. */
static inline const struct hold_item *hold_find(const struct hold *h, const struct ptable_proc *p,
                                                uint8_t kind)
{
    for (size_t i = h->n; i-- > 0;) {
        const struct hold_item *item = &h->items[(h->first + i) % HOLD_MAX];

        if (item->p == p && item->generation == p->generation && item->kind == kind) {
            return item;
        }
    }
    return NULL;
}

#endif
