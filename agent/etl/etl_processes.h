/* The process instances of a recording with everything that was charged to them: their
 * figures by name, and both as rows of a table, JSON or CSV. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_PROCESSES_H
#define PROCFLEET_AGENT_ETL_ETL_PROCESSES_H

#include "agent/etl/etl_job.h"
#include "agent/etl/etl_walk.h"
#include "common/text/table.h"

/* -- figures by name: cpu_time, those of tally.h, and sums of them -- */

#define ETL_PROCESSES_KEYS_MAX 64 /* bits of a mask */

struct etl_processes_key {
    const char *name;
    enum table_unit unit;
    const char *help;
};

const struct etl_processes_key *etl_processes_keys(size_t *n);

/* Index of a name. Errors: ERR_USAGE (why suggests) */
NODISCARD enum err etl_processes_key_find(size_t *key, const char *name, struct errmsg *why);

/* The value; false: not known of this process. */
bool etl_processes_value(const struct instance *p, size_t key, int64_t *v);
int64_t etl_processes_value_of_tally(const struct counters *t, size_t key); /* 0 for cpu_time */

/* A bit for each figure that a process has; what none has was not recorded: absent, not 0. */
uint64_t etl_processes_recorded(const struct etl_walk *w, struct instance *const *all, size_t n);

const char *
etl_processes_cpu_origin(const struct instance *p); /* "samples", "cswitch", "times", "" */

/* -- rows: identity, times, and every figure -- */

struct etl_processes_rows;

enum etl_processes_rows_view {
    ETL_PROCESSES_ROWS_LIST, /* tables show which process it was */
    ETL_PROCESSES_ROWS_TOP,  /* tables show what it used */
};

/* by  the figure tables show first (top)
 * file  tables have a column for the recording's name
 * Errors: ERR_NOMEM */
NODISCARD enum err etl_processes_rows_begin(struct etl_processes_rows **out,
                                            const struct etl_job *job, enum table_format format,
                                            enum etl_processes_rows_view view, size_t by,
                                            bool file);
/* recorded  figures that the recording has, of etl_processes_recorded; the others are absent */
NODISCARD enum err etl_processes_rows_put(struct etl_processes_rows *r, const char *file,
                                          uint64_t recorded, const struct instance *p);
void etl_processes_rows_end(struct etl_processes_rows *r); /* NULL is allowed */

/* Sorts by falling value, unknown ones last. */
void etl_processes_rows_sort(struct instance **all, size_t n, size_t by);

#endif
