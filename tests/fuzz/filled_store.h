/* A small store for targets that ask one: two generated hosts of 600 s, most of it sealed; opened
 * once, removed at the end. */
#ifndef PROCFLEET_TESTS_FUZZ_FILLED_STORE_H
#define PROCFLEET_TESTS_FUZZ_FILLED_STORE_H

#include <stdlib.h>

#include "collector/store/store.h"
#include "tests/support/store_rig.h"

#define FILLED_STORE_SPAN_NS INT64_C(600000000000)

static struct rig filled_store_rig;

static inline void filled_store_must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static inline void filled_store_remove(void)
{
    rig_fini(&filled_store_rig);
}

static inline void filled_store_host(uint64_t seed)
{
    struct fleetgen *g = rig_host(seed);
    struct rig_batch b;

    for (unsigned i = 0; i < 20; i++) {
        rig_batch(&b, g, 30);
        filled_store_must(rig_put(&filled_store_rig, &b) == ERR_OK);
        rig_batch_fini(&b);
    }
    fleetgen_destroy(g);
}

static inline struct store *filled_store(void)
{
    if (!filled_store_rig.store) {
        rig_init(&filled_store_rig);
        rig_open(&filled_store_rig);
        (void)atexit(filled_store_remove);
        filled_store_host(1);
        filled_store_host(2);
        filled_store_must(store_seal_now(filled_store_rig.store,
                                         RIG_T0 + FILLED_STORE_SPAN_NS * 2 / 3) == ERR_OK);
    }
    return filled_store_rig.store;
}

#endif
