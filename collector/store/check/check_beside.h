/* The part of `store check` that looks at what can be made anew: the file of hosts, the catalogue,
 * the indexes of the log. What of them is damaged costs time at the next start (of hosts: their
 * counts), so a repair puts it out of the way. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_CHECK_CHECK_BESIDE_H
#define PROCFLEET_COLLECTOR_STORE_CHECK_CHECK_BESIDE_H

#include "collector/store/check/check.h"

struct check_beside {
    const struct check_conf *conf;
    /* One that is not sound; count has its files, bytes and values already. */
    void (*tell)(void *ctx, struct check_count *count, const struct check_file *f);
    void *ctx;
};

/* A file that goes meanwhile is none. Errors: ERR_IO, ERR_ACCESS, ERR_NOMEM */
NODISCARD enum err check_hosts(const struct check_beside *b, struct check_count *count);
NODISCARD enum err check_catalogue(const struct check_beside *b, struct check_count *count);
NODISCARD enum err check_indexes(const struct check_beside *b, struct check_count *count);

#endif
