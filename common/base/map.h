/* A map from 64-bit keys to 64-bit values, of which 0 means "none": open addressing, linear
 * probing, at most half full, so that a look-up is one or two lines of the cache. Keys are never
 * removed one by one. As a rule a value is the place of an element in the user's array, plus one.
 *
 * Keys that are numbers are used as they are. Other keys are hashed by the user, with a random seed
 * when they come from outside (hash_bytes). Two things may have one hash, so the user compares, and
 * goes on at the next key while it is another's:
 *
 *     for (key = hash; (place = map_get(m, key)) != 0; key++) {
 *         if (is_it(&list[place - 1])) {
 *             return &list[place - 1];
 *         }
 *     }
 *     map_put(m, key, n_list + 1);      after map_reserve
 *
 * Bounds: as many keys as are put: the user has the limit. Threads: one owner. Caller's storage,
 * zeroed at first; memory is released by map_fini. */
#ifndef PROCFLEET_COMMON_BASE_MAP_H
#define PROCFLEET_COMMON_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct map {
    struct map_slot {
        uint64_t key, value; /* value 0: free */
    } * slots;
    size_t n;       /* keys */
    size_t n_slots; /* 0 or a power of two */
    unsigned shift; /* 64 less the power */
};

void map_fini(struct map *m);  /* zeroed afterwards */
void map_clear(struct map *m); /* drops all keys, keeps the memory */

/* Room for one more key, so that the next map_put cannot fail. Failure leaves the map as it was.
 * Errors: ERR_NOMEM */
NODISCARD enum err map_reserve(struct map *m);

/* The slot of the key, or the free one where it belongs. There is always a free one. */
static inline struct map_slot *map_slot(const struct map *m, uint64_t key)
{
    size_t i = (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> m->shift);

    while (m->slots[i].value && m->slots[i].key != key) {
        i = (i + 1) & (m->n_slots - 1);
    }
    return &m->slots[i];
}

/* The value under the key, 0 = none. */
static inline uint64_t map_get(const struct map *m, uint64_t key)
{
    return m->n ? map_slot(m, key)->value : 0;
}

/* Puts a value other than 0 under the key; returns the value before, 0 = none. A new key needs
 * map_reserve first. */
uint64_t map_put(struct map *m, uint64_t key, uint64_t value);

#endif
