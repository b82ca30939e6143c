/* Counters that a system keeps in 32 bits, as 64: what came since the last look is added, so one
 * wrap between two looks is harmless. Keeps one entry per process of the last table.
 * Bounds:  `processes_max` processes; rows beyond, or when memory is short, are given as they are.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_WIDE_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_WIDE_H

#include "agent/source/source.h"

/* What a total has become when its low 32 bits read `value`. */
static inline uint64_t snap_widen(uint64_t total, uint32_t value)
{
    return total + (uint32_t)(value - (uint32_t)total);
}

struct snap_wide;

/* Errors: ERR_NOMEM */
NODISCARD enum err snap_wide_create(struct snap_wide **out, size_t processes_max);
void snap_wide_destroy(struct snap_wide *w);

/* A new table: who was not in the last one is forgotten, who starts under the same pid is new. */
void snap_wide_begin(struct snap_wide *w);

/* Replaces page and hard faults of `row`, which hold 32 bits, by their running totals. At the
 * first sight of a process the total is the value. Once per process and table. */
void snap_wide_row(struct snap_wide *w, struct snap_row *row);

#endif
