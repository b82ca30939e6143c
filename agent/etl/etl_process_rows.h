/* Process instances as rows of a table, JSON or CSV: identity, times, and every figure of procs.h.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_PROCESS_ROWS_H
#define PROCFLEET_AGENT_ETL_ETL_PROCESS_ROWS_H

#include "agent/etl/etl_columns.h"
#include "agent/etl/etl_job.h"

struct etl_process_rows;

enum etl_process_rows_view {
    ETL_PROCESS_ROWS_LIST, /* tables show who it was */
    ETL_PROCESS_ROWS_TOP,  /* tables show what it used */
};

/* by  the figure tables show first (top)
 * file  tables have a column for the recording's name
 * Errors: ERR_NOMEM */
NODISCARD enum err etl_process_rows_begin(struct etl_process_rows **out, const struct etl_job *job,
                                          enum table_format format, enum etl_process_rows_view view,
                                          size_t by, bool file);
/* recorded  figures the recording tells, of etl_columns_recorded; the others are absent */
NODISCARD enum err etl_process_rows_put(struct etl_process_rows *r, const char *file,
                                        uint64_t recorded, const struct ptable_proc *p);
void etl_process_rows_note(struct etl_process_rows *r, const char *text);
void etl_process_rows_end(struct etl_process_rows *r); /* NULL is allowed */

/* Sorts by falling value, unknown ones last. */
void etl_process_rows_sort(struct ptable_proc **all, size_t n, size_t by);

#endif
