/* Process instances as rows of a table, JSON or CSV: identity, times, and every figure of procs.h.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_PROC_ROWS_H
#define PROCFLEET_AGENT_ETL_PROC_ROWS_H

#include "agent/etl/job.h"
#include "agent/etl/procs.h"

struct proc_rows;

enum proc_rows_view {
    PROC_ROWS_LIST, /* tables show who it was */
    PROC_ROWS_TOP,  /* tables show what it used */
};

/* by  the figure tables show first (top)
 * file  tables have a column for the recording's name
 * Errors: ERR_NOMEM */
NODISCARD enum err proc_rows_begin(struct proc_rows **out, const struct job *job,
                                   enum sheet_format format, enum proc_rows_view view, size_t by,
                                   bool file);
/* recorded  figures the recording tells, of procs_recorded; the others are absent */
NODISCARD enum err proc_rows_put(struct proc_rows *r, const char *file, uint64_t recorded,
                                 const struct ptable_proc *p);
void proc_rows_note(struct proc_rows *r, const char *text);
void proc_rows_end(struct proc_rows *r); /* NULL is allowed */

/* Sorts by falling value, unknown ones last. */
void proc_rows_sort(struct ptable_proc **all, size_t n, size_t by);

#endif
