/* Where the compiled methods of managed code are: by process, address and time, as the runtimes of
 * .NET (and of JScript, in the same way) tell. Filled by one pass over a recording, asked by the
 * next.
 * Bounds:  ETL_METHODS_MAX methods, ETL_METHODS_TEXT bytes of names; what has no room is counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_SYMBOL_ETL_METHODS_H
#define PROCFLEET_AGENT_ETL_SYMBOL_ETL_METHODS_H

#include "agent/source/source.h"

#define ETL_METHODS_MAX  200000
#define ETL_METHODS_TEXT ((size_t)10 << 20)

struct etl_methods_one {
    uint64_t start, id;
    int64_t from_ns; /* INT64_MIN: before the begin */
    int64_t to_ns;   /* INT64_MAX: behind the end */
    uint32_t size, pid;
    const char *name; /* "Namespace.Class.Method"; NULL: it had no room */
};

struct etl_methods;

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_methods_create(struct etl_methods **out);
void etl_methods_destroy(struct etl_methods *m); /* NULL is allowed */

/* Whether the record was one of a method; others are ignored. */
bool etl_methods_record(struct etl_methods *m, const struct raw_event *raw);

/* After the last record: makes it ready to be asked. */
void etl_methods_done(struct etl_methods *m);

/* NULL: no method was there then. */
const struct etl_methods_one *etl_methods_find(const struct etl_methods *m, uint32_t pid,
                                               uint64_t address, int64_t wall_ns);
const struct etl_methods_one *etl_methods_at(const struct etl_methods *m, size_t i);
size_t etl_methods_index(const struct etl_methods *m, const struct etl_methods_one *one);
uint64_t etl_methods_no_room(const struct etl_methods *m);
size_t etl_methods_bytes(const struct etl_methods *m); /* of memory, about */

#endif
