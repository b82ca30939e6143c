/* Numbers that a stage keeps of itself, each written once: in a list
 *
 * #define THING_STATS(X) X(COUNTER, dropped, "procfleet_thing_dropped_total", "What it means.")
 *
 * of kind (COUNTER: only grows; GAUGE), member, name and meaning. Of it come the struct, the lines
 * of /metrics and, compared by a test, those of docs/figures.md. */
#ifndef PROCFLEET_COMMON_MODEL_STATS_H
#define PROCFLEET_COMMON_MODEL_STATS_H

#include <stdint.h>

/* struct thing_stats { THING_STATS(STATS_MEMBER) }; */
#define STATS_MEMBER(kind, member, name, help) uint64_t member;

#endif
