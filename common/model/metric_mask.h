/* Sets of columns: which of them a row has. Ids below 64 are page 0, the others page 1: who never
 * has one of page 1 sends and stores what the releases before had. Plain data. */
#ifndef PROCFLEET_COMMON_MODEL_METRIC_MASK_H
#define PROCFLEET_COMMON_MODEL_METRIC_MASK_H

#include <stdbool.h>
#include <stdint.h>

#define METRIC_COLS 128 /* column ids are below; bit `id` of a mask */
#define METRIC_PAGE 64  /* ids of page 0 are below */

__extension__ typedef unsigned __int128 metric_mask;

#define METRIC_BIT(id) ((metric_mask)1 << (id))
#define METRIC_ALL     (~(metric_mask)0)
#define METRIC_PAGE_0  ((metric_mask)UINT64_MAX)

static inline uint64_t metric_mask_low(metric_mask m)
{
    return (uint64_t)m;
}

static inline uint64_t metric_mask_high(metric_mask m)
{
    return (uint64_t)(m >> METRIC_PAGE);
}

static inline metric_mask metric_mask_make(uint64_t low, uint64_t high)
{
    return (metric_mask)high << METRIC_PAGE | low;
}

static inline unsigned metric_mask_count(metric_mask m)
{
    return (unsigned)__builtin_popcountll(metric_mask_low(m)) +
           (unsigned)__builtin_popcountll(metric_mask_high(m));
}

/* The ids in a mask, lowest first: walk = metric_mask_walk(mask); as long as
 * metric_mask_walk_next(&walk) is true there is another one, walk.id. */
struct metric_mask_walk {
    uint64_t left, high;
    unsigned page, id;
};

static inline struct metric_mask_walk metric_mask_walk(metric_mask m)
{
    return (struct metric_mask_walk){.left = metric_mask_low(m), .high = metric_mask_high(m)};
}

static inline bool metric_mask_walk_next(struct metric_mask_walk *w)
{
    if (!w->left) {
        w->left = w->high;
        w->high = 0;
        w->page = METRIC_PAGE;
    }
    if (!w->left) {
        return false;
    }
    w->id = w->page + (unsigned)__builtin_ctzll(w->left);
    w->left &= w->left - 1;
    return true;
}

#endif
