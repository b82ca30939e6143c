/* The threads of a process that has several: states, who ran, switches. A process of one thread
 * needs none of this, its own files say it. Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_THREADS_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_THREADS_H

#include "agent/source/linux/proc_inst.h"
#include "agent/source/source.h"

/* Counts one thread's state letter into the row's thread_states columns. */
void proc_threads_count(struct snap_row *row, char state);

/* Sets all thread_states columns to zero and present. */
void proc_threads_begin(struct snap_row *row);

/* All threads but the first have ended: their switches stay with the process. */
void proc_threads_end(struct proc_table *t, struct proc_inst *p);

/* Reads every thread of p into the row's columns. With `switches`, also each thread's context
 * switches, which costs a long file each; the sum of living and ended threads is then in the row.
 * Errors: ERR_NOTFOUND (ended), ERR_FULL (more than PROC_THREADS_MAX threads: nothing set),
 * ERR_NOMEM, ERR_ACCESS, ERR_IO */
NODISCARD enum err proc_threads_read(struct proc_table *t, struct proc_inst *p,
                                     struct snap_row *row, bool switches);

#endif
