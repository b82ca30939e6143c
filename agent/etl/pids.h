/* Counters by process id as a number: what the records say, whoever owns the number at that time.
 * Bounds: PIDS_MAX numbers; what is counted for further ones goes to `untold`. Threads: one
 * owner. */
#ifndef PROCFLEET_AGENT_ETL_PIDS_H
#define PROCFLEET_AGENT_ETL_PIDS_H

#include "agent/source/event.h"
#include "common/base/err.h"

#define PIDS_MAX 65536

enum pids_column {
    PIDS_SAMPLES,
    PIDS_SWITCHES_IN,
    PIDS_SWITCH_TICKS,
    PIDS_DISK_READS,
    PIDS_DISK_WRITES,
    PIDS_DISK_READ_BYTES,
    PIDS_DISK_WRITE_BYTES,
    PIDS_HARD_FAULTS,
    PIDS_HARD_FAULT_BYTES,
    PIDS_SOFT_FAULTS,
    PIDS_IMAGE_LOADS,
    PIDS_IMAGE_RUNDOWN,
    PIDS_TCP_SEND,
    PIDS_TCP_RECV,
    PIDS_UDP_SEND,
    PIDS_UDP_RECV,
    PIDS_THREADS_STARTED,
    PIDS_THREADS_ENDED,
    PIDS_THREAD_RUNDOWN,
    PIDS_COLUMNS,
};

struct pids_row {
    uint32_t pid; /* EVENT_NO_ID: the records name none */
    uint64_t n[PIDS_COLUMNS];
};

struct pids;

/* Errors: ERR_NOMEM */
NODISCARD enum err pids_create(struct pids **out);
void pids_destroy(struct pids *p); /* NULL is allowed */

void pids_add(struct pids *p, uint32_t pid, enum pids_column column, uint64_t n);
uint64_t pids_untold(const struct pids *p); /* times something had no room */

/* Sorts by pid, EVENT_NO_ID last, and gives all rows; valid until the next pids_add. */
const struct pids_row *const *pids_sorted(struct pids *p, size_t *n);

#endif
