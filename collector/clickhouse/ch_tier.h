/* Keeps the tiers in ClickHouse up to date (ch_fold.h): a thread that has hours made when they have
 * been over for a quarter of an hour, and looks through older ones for what came late.
 *
 * Of several collectors one makes an hour, by a hash of names and hour; the others ten minutes
 * later, if it did not. What two make at once is the same.
 * Threads: one of its own, with a connection of its own: live batches do not wait for it. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_TIER_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_TIER_H

#include "collector/clickhouse/ch_http.h"

struct ch_tier_conf {
    const struct ch_http_conf *server; /* as who writes; borrowed, with its texts */
    const char *name;                  /* of this collector */
    int64_t keep_cell_ns; /* older hours have no cells to make them from; 0: all have */
    unsigned quorum;
};

struct ch_tier;
/* Errors: those of ch_http_open, ERR_NOMEM, ERR_IO */
NODISCARD enum err ch_tier_start(struct ch_tier **out, const struct ch_tier_conf *conf,
                                 struct errmsg *why);
void ch_tier_stop(struct ch_tier *t); /* ends the statement under way; NULL is allowed */

#endif
