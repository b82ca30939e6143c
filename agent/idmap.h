/* A table from 32-bit numbers (pids, tids) to owners, made for look-ups per event: open addressing,
 * linear probing, no deletion. An entry dies by itself when `stale` says its owner is gone; dead
 * entries are reused in passing and swept when the table grows.
 * Bounds:  `max` living entries; memory grows by doubling, at most 4 × max entries.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_IDMAP_H
#define PROCFLEET_AGENT_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct idmap;

struct idmap_entry {
    void *owner; /* NULL: the place is empty */
    uint32_t key;
    uint32_t generation; /* for `stale`; meaning is the user's */
    uint32_t mark;       /* the user's */
};

/* stale  says that an entry's owner is gone; NULL: entries live for ever
 * out    owned by the caller, released by idmap_destroy
 * Errors: ERR_NOMEM */
NODISCARD enum err idmap_create(struct idmap **out, size_t max,
                                bool (*stale)(const struct idmap_entry *e));
void idmap_destroy(struct idmap *m);

/* The living entry of `key`, or NULL. Valid until the next idmap_put. */
struct idmap_entry *idmap_get(const struct idmap *m, uint32_t key);

/* The place for `key`, found or new; a new one has owner NULL and must be filled before the next
 * call. NULL: the table is full, or out of memory. */
struct idmap_entry *idmap_put(struct idmap *m, uint32_t key);

/* Forgets everything, keeps the memory. */
void idmap_clear(struct idmap *m);

#endif
