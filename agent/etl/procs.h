/* The process instances of a walk with everything that was charged to them, for reports. Threads:
 * one owner. */
#ifndef PROCFLEET_AGENT_ETL_PROCS_H
#define PROCFLEET_AGENT_ETL_PROCS_H

#include "agent/etl/walk.h"
#include "common/text/sheet.h"

/* All instances, in order of pid and start. mem_free. Errors: ERR_NOMEM */
NODISCARD enum err procs_list(const struct walk *w, struct ptable_proc ***out, size_t *n);

/* -- figures by name: cpu_time, those of tally.h, and sums of them -- */

#define PROCS_KEYS_MAX 64 /* bits of a mask */

struct procs_key {
    const char *name;
    enum sheet_unit unit;
    const char *help;
};

const struct procs_key *procs_keys(size_t *n);

/* Index of a name. Errors: ERR_USAGE (why suggests) */
NODISCARD enum err procs_key_find(size_t *key, const char *name, struct errmsg *why);

/* The value; false: not known of this process. */
bool procs_value(const struct ptable_proc *p, size_t key, int64_t *v);
int64_t procs_value_of_tally(const struct tally *t, size_t key); /* 0 for cpu_time */

/* A bit per figure that anybody has: what nobody has was not recorded, and is absent, not 0. */
uint64_t procs_recorded(const struct walk *w, struct ptable_proc *const *all, size_t n);

const char *procs_cpu_origin(const struct ptable_proc *p); /* "samples", "cswitch", "times", "" */

#endif
