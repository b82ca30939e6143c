/* The process instances of a walk with everything that was charged to them, for reports. Threads:
 * one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_COLUMNS_H
#define PROCFLEET_AGENT_ETL_ETL_COLUMNS_H

#include "agent/etl/etl_walk.h"
#include "common/text/table.h"

/* All instances, in order of pid and start. mem_free. Errors: ERR_NOMEM */
NODISCARD enum err etl_columns_list(const struct etl_walk *w, struct ptable_proc ***out, size_t *n);

/* -- figures by name: cpu_time, those of tally.h, and sums of them -- */

#define ETL_COLUMNS_KEYS_MAX 64 /* bits of a mask */

struct etl_columns_key {
    const char *name;
    enum table_unit unit;
    const char *help;
};

const struct etl_columns_key *etl_columns_keys(size_t *n);

/* Index of a name. Errors: ERR_USAGE (why suggests) */
NODISCARD enum err etl_columns_key_find(size_t *key, const char *name, struct errmsg *why);

/* The value; false: not known of this process. */
bool etl_columns_value(const struct ptable_proc *p, size_t key, int64_t *v);
int64_t etl_columns_value_of_tally(const struct counters *t, size_t key); /* 0 for cpu_time */

/* A bit per figure that anybody has: what nobody has was not recorded, and is absent, not 0. */
uint64_t etl_columns_recorded(const struct etl_walk *w, struct ptable_proc *const *all, size_t n);

const char *
etl_columns_cpu_origin(const struct ptable_proc *p); /* "samples", "cswitch", "times", "" */

#endif
