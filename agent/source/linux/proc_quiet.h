/* Rows of processes that have not run since the last one: most of them, most of the time. Their
 * counters, states and files cannot have changed; what others can change from outside is looked at
 * (memory, priority, CPUs, I/O priority), so such a row is the one that reading everything would
 * give, for a third of the cost. Threads: one owner.
 *
 *   statm, priority, CPUs, I/O priority: changed? ──yes──► read in full
 *        │ no                                              ▲
 *   schedstat or CPU time: had a CPU? ──yes────────────────┤
 *        │ no                                              │
 *   last row again, 299 times at most ─────────────────────┘
 *
 * A table is of the moment at which it begins. Once this is a tick of the scheduler ago, whatever
 * ran until then has been charged for it, and the CPU time of a whole process is enough: half the
 * cost, and with many threads a small part, of schedstat, which also shows who has just begun to
 * run. So the second question is asked of all processes after the first.
 *
 * Not seen: a thread that was woken but has not got a CPU yet still counts as waiting. A process
 * that shares its memory or descriptors with another one (clone without CLONE_THREAD, rare) shows
 * the other's changes to peak and handles with the 300th row at the latest. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_QUIET_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_QUIET_H

#include "agent/source/linux/proc_inst.h"
#include "agent/source/source.h"

#define PROC_QUIET_ROWS    300 /* the last of them is read in full */
#define PROC_QUIET_RELEASE 10  /* after so many, descriptors of the other files are closed */

/* True: what others can change is as it was, the row has its last values, and if p has not run it
 * is done: proc_quiet_end. False: p must be read in full, and what is compared next time has been
 * read. */
bool proc_quiet_begin(struct proc_table *t, struct proc_inst *p, struct snap_row *row);

/* True: p has not run. False: it must be read in full, as above. `late`: the moment the row is of
 * is PROC_TICK_NS ago, and CPU time will do. */
bool proc_quiet_end(struct proc_table *t, struct proc_inst *p, bool late);

/* Keeps a row that was just read in full, of so many threads. */
void proc_quiet_keep(struct proc_inst *p, uint32_t threads, const struct snap_row *row);

#endif
