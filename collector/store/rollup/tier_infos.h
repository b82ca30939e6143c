/* What a window knows of its process instances: names for a tier's rows. Private to tier*.c.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_INFOS_H
#define PROCFLEET_COLLECTOR_STORE_ROLLUP_TIER_INFOS_H

#include "collector/store/rollup/tier.h"

struct tier_info {
    const struct uuid *boot;
    const struct proc_info *info;
    int64_t when_ns; /* head_info_when */
    size_t order;    /* of telling, within that: head_info.h */
};

struct tier_infos {
    const struct tier_names *names; /* asked where the window says nothing; may be NULL */
    size_t n;
    struct tier_info *list; /* by instance, one of each: what all that was told of it says */
};

/* Errors: ERR_FULL */
NODISCARD enum err tier_infos_make(struct tier_infos *out, struct arena *memory,
                                   const struct host_window *hw, const struct tier_names *names);
bool tier_infos_find(const struct tier_infos *t, const struct uuid *boot, struct proc_id id,
                     struct proc_info *out); /* false: nothing is known */

#endif
