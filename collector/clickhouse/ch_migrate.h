/* The tables, made and completed: what a server lacks is found by comparing its columns with
 * ch_schema.h, so a half-done migration is simply done again. Each replica is asked and altered by
 * itself: no cluster definition is needed, and no queue of statements.
 * Threads: one owner of the ch_http. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_MIGRATE_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_MIGRATE_H

#include "collector/clickhouse/ch_http.h"

struct ch_migrate_plan {
    bool empty;      /* the tables were never all there: no version stands in them */
    size_t n;        /* statements; 0: nothing to do */
    struct buf text; /* each with a NUL behind it */
};

void ch_migrate_init(struct ch_migrate_plan *p);
void ch_migrate_fini(struct ch_migrate_plan *p);

/* What the replica that ch_http asks now lacks. l->dialect is the server's.
 * Errors: those of ch_http_ask; ERR_REFUSED (a column has another type than it must have) */
NODISCARD enum err ch_migrate_look(struct ch_migrate_plan *p, struct ch_http *h,
                                   const struct ch_layout *l, struct errmsg *why);

/* Executes it there. done: called before each statement; NULL is allowed. Errors: likewise */
NODISCARD enum err ch_migrate_apply(const struct ch_migrate_plan *p, struct ch_http *h,
                                    void (*done)(void *ctx, const char *sql), void *ctx,
                                    struct errmsg *why);

#endif
