/* Memory of one batch, frame or query: allocated piece by piece, released all at once.
 * Bounds: never holds more than `max_bytes`. Threads: one owner. Caller's storage. */
#ifndef PROCFLEET_COMMON_BASE_ARENA_H
#define PROCFLEET_COMMON_BASE_ARENA_H

#include <stddef.h>

#include "common/base/err.h"

struct arena_block;

struct arena {
    struct arena_block *head;
    size_t used; /* bytes held in blocks */
    size_t max_bytes;
};

void arena_init(struct arena *a, size_t max_bytes);
void arena_fini(struct arena *a);
void arena_reset(struct arena *a); /* everything allocated becomes invalid; one block is kept */

/* Zeroed, aligned for any type, valid until reset; NULL: out of memory or over the limit. */
void *arena_alloc(struct arena *a, size_t n);
void *arena_array(struct arena *a, size_t n, size_t size);
/* As arena_array, with unknown bytes: for what the caller fills in whole at once. */
void *arena_array_unset(struct arena *a, size_t n, size_t size);
void *arena_dup(struct arena *a, const void *p, size_t n); /* n = 0 returns a valid pointer */

/* Why the allocation of n bytes just failed: ERR_FULL (the limit) or ERR_NOMEM. */
NODISCARD enum err arena_refused(const struct arena *a, size_t n);

#endif
