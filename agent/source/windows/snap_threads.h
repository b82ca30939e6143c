/* What a process's threads did between two tables: who ran, and context switches of all its
 * threads, the ended ones included, where the system does not give that total itself.
 * Bounds:  SNAP_THREADS_MAX threads of one process, SNAP_THREADS_ALL_MAX of all; processes beyond
 *          have neither column and are counted. Their switches stay absent to their end: what was
 *          not seen is missing in every later sum.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_THREADS_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_THREADS_H

#include "agent/source/windows/snap_rows.h"

#define SNAP_THREADS_MAX     4096
#define SNAP_THREADS_ALL_MAX 65536

struct snap_threads;

/* Errors: ERR_NOMEM */
NODISCARD enum err snap_threads_create(struct snap_threads **out, size_t processes_max);
void snap_threads_destroy(struct snap_threads *t);

/* The process last given by the walk is our own, which has run: a system that tells of no switch
 * of its threads counts none. Gives the columns that snap_threads_row will set. */
uint64_t snap_threads_probe(struct snap_threads *t, const struct snap_walk *own);

void snap_threads_begin(struct snap_threads *t); /* a new table */

/* Adds to `row`, the one last given by the walk: active_threads from the process's second table
 * on, context_switches where the row has none. Once per process and table. */
void snap_threads_row(struct snap_threads *t, const struct snap_walk *w, struct snap_row *row);

uint64_t snap_threads_capped(const struct snap_threads *t); /* rows left without, so far */

#endif
