/* A table from 32-bit numbers (pids, tids) to owners, made for look-ups per event: open addressing,
 * linear probing, no deletion, half of the places empty. An entry dies by itself when `stale` says
 * its owner is gone; dead entries are reused in passing and swept when the table grows. Numbers
 * that somebody chose to fall on one place are spread anew, in a way nobody can foresee; a look-up
 * goes no further than the entry that stands furthest from its own place.
 * Bounds:  `max` living entries; memory grows by doubling, at most 6 × max entries. Once full, a
 *          sixteenth must have died before there is room again.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_PROCESS_U32MAP_H
#define PROCFLEET_AGENT_PROCESS_U32MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* 32 bytes, so that a look-up costs one line of the cache. */
struct u32map_entry {
    void *owner; /* NULL: the place is empty */
    uint32_t key;
    uint32_t generation; /* for `stale`; meaning is the user's */
    uint32_t mark;       /* the user's, */
    uint32_t state;      /* as is this */
    int64_t since_ns;    /* and this */
};

typedef bool (*u32map_stale_fn)(const struct u32map_entry *e); /* whether its owner is gone */

/* Open for the look-up below only. */
struct u32map {
    struct u32map_entry *at;
    size_t cap;     /* a power of two */
    unsigned shift; /* 64 less the power */
    uint64_t spread;
    size_t used; /* places that are not empty, dead ones included */
    size_t max;
    size_t refusals_left;
    size_t spread_again; /* not before so many places are used */
    size_t reach;        /* no entry stands further behind its own place */
    u32map_stale_fn stale;
};

/* stale  says that an entry's owner is gone; NULL: entries live for ever
 * out    owned by the caller, released by u32map_destroy
 * Errors: ERR_NOMEM */
NODISCARD enum err u32map_create(struct u32map **out, size_t max, u32map_stale_fn stale);
void u32map_destroy(struct u32map *m);

/* Pids and tids are multiples of 4 on Windows, and on both systems mostly neighbours: the upper
 * bits of a multiplication by the golden ratio keep neighbours apart, so that hardly two fall on
 * one place. */
static inline size_t u32map_spread(uint32_t key, uint64_t spread, unsigned shift)
{
    uint32_t number = key >> 2 | key << 30;

    return (size_t)((number * spread) >> shift);
}

static inline size_t u32map_place(const struct u32map *m, uint32_t key)
{
    return u32map_spread(key, m->spread, m->shift);
}

/* The entry of `key`, dead or alive, or NULL. Valid until the next u32map_put. */
static inline struct u32map_entry *u32map_find(const struct u32map *m, uint32_t key)
{
    size_t i = u32map_place(m, key);

    for (size_t n = 0; n <= m->reach && m->at[i].owner; n++, i = (i + 1) & (m->cap - 1)) {
        if (m->at[i].key == key) {
            return &m->at[i];
        }
    }
    return NULL;
}

/* The living entry of `key`, or NULL. Valid until the next u32map_put. */
struct u32map_entry *u32map_get(const struct u32map *m, uint32_t key);

/* The place for `key`, found or new; a new one has owner NULL and must be filled before the next
 * call. NULL: the table is full, or out of memory. */
struct u32map_entry *u32map_put(struct u32map *m, uint32_t key);

/* Forgets everything, keeps the memory. */
void u32map_clear(struct u32map *m);

#endif
