/* What is remembered of every process from one bulk table to the next: one entry of fixed size per
 * process instance. Who is missing in a table is forgotten, who starts under the same pid is new.
 * Bounds:  processes_max entries, memory by need; further processes are counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_MEMORY_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_MEMORY_H

#include "agent/source/source.h"

struct snap_memory;

/* Errors: ERR_NOMEM */
NODISCARD enum err snap_memory_create(struct snap_memory **out, size_t entry_bytes,
                                      size_t processes_max);
void snap_memory_destroy(struct snap_memory *m);

void snap_memory_begin(struct snap_memory *m); /* a new table */

/* The process's entry in this table, to be changed in place until the next call: what it was in
 * the last table, else zeros. NULL: the limit is reached or memory is short, counted. */
void *snap_memory_at(struct snap_memory *m, struct proc_id id);

/* The same, but NULL where this table has none yet; nothing is made or counted. */
void *snap_memory_find(struct snap_memory *m, struct proc_id id);

#endif
