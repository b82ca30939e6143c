/* Rows of processes that have not run since the last one: most of them, most of the time. Their
 * counters, states and files cannot have changed; what others can change from outside is looked at
 * (memory, priority, CPUs, I/O priority), so such a row is the one that reading everything would
 * return, for a quarter of the cost. Threads: one owner.
 *
 *   CPU time: has it grown? ──────────────────────yes──► read in full
 *        │ no                                            ▲
 *   statm, priority, CPUs, I/O priority: changed? ──yes──┤
 *        │ no                                            │
 *   last row again, 299 times at most ───────────────────┘
 *
 * A thread is charged when it leaves its CPU and at every tick of the scheduler. So a process may
 * be shown as it was a tick ago (PROC_TICK_NS; a second on CPUs without a tick, nohz_full) if a
 * thread has a CPU at this moment, for the first time since the last row: its own files would show
 * the same CPU time.
 *
 * Who changes another's priority or CPUs does so seldom: that shows with the fourth row.
 *
 * Not seen: a thread that was woken but has not got a CPU yet still counts as waiting. A process
 * that shares its memory or descriptors with another one (clone without CLONE_THREAD, rare) shows
 * the other's changes to peak and handles with the 300th row at the latest. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_QUIET_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_QUIET_H

#include "agent/source/linux/proc_inst.h"
#include "agent/source/source.h"

#define PROC_QUIET_ROWS    300 /* the last of them is read in full */
#define PROC_QUIET_OTHERS  4   /* priority, CPUs and I/O priority are compared in each fourth */
#define PROC_QUIET_RELEASE 10  /* after so many, descriptors of the other files are closed */

/* True: nothing has changed, the row has its last values. False: p must be read in full; what is
 * compared next time has been read. */
bool proc_quiet_again(struct proc_table *t, struct proc_inst *p, struct snap_row *row);

/* Keeps a row that was just read in full, of a process of so many threads. */
void proc_quiet_keep(struct proc_inst *p, uint32_t threads, const struct snap_row *row);

#endif
