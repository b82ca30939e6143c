/* From a key to the last thing that was added under it, by number: each thing keeps the number that
 * stood there before, so that all under one key hang in a chain. Keys are 64-bit hashes; whoever
 * follows a chain compares what is meant. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_CA_CHAIN_H
#define PROCFLEET_COLLECTOR_CA_CHAIN_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct chain {
    struct chain_slot {
        uint64_t key;
        uint32_t last; /* number + 1; 0 = free */
    } * slots;
    size_t n_slots, used;
};

void chain_fini(struct chain *c); /* of a zeroed one too */

/* Room for one more key, so that chain_put cannot fail. Errors: ERR_NOMEM */
NODISCARD enum err chain_reserve(struct chain *c);

/* The last number + 1 under the key, 0 = none. */
uint32_t chain_get(const struct chain *c, uint64_t key);

/* Puts `number` under the key; gives what stood there, as chain_get does. */
uint32_t chain_put(struct chain *c, uint64_t key, uint32_t number);

#endif
