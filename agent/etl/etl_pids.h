/* Counters by process id as a number: what the records say, whichever process has the number then.
 * Bounds: ETL_PIDS_MAX numbers; what is counted for further ones goes to `dropped`. Threads: one
 * owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_PIDS_H
#define PROCFLEET_AGENT_ETL_ETL_PIDS_H

#include "agent/source/event.h"
#include "common/base/err.h"

#define ETL_PIDS_MAX 65536

enum etl_pids_column {
    ETL_PIDS_SAMPLES,
    ETL_PIDS_SWITCHES_IN,
    ETL_PIDS_SWITCH_TICKS,
    ETL_PIDS_DISK_READS,
    ETL_PIDS_DISK_WRITES,
    ETL_PIDS_DISK_READ_BYTES,
    ETL_PIDS_DISK_WRITE_BYTES,
    ETL_PIDS_HARD_FAULTS,
    ETL_PIDS_HARD_FAULT_BYTES,
    ETL_PIDS_SOFT_FAULTS,
    ETL_PIDS_IMAGE_LOADS,
    ETL_PIDS_IMAGE_RUNDOWN,
    ETL_PIDS_TCP_SEND,
    ETL_PIDS_TCP_RECV,
    ETL_PIDS_UDP_SEND,
    ETL_PIDS_UDP_RECV,
    ETL_PIDS_THREADS_STARTED,
    ETL_PIDS_THREADS_ENDED,
    ETL_PIDS_THREAD_RUNDOWN,
    ETL_PIDS_COLUMNS,
};

struct etl_pids_row {
    uint32_t pid; /* EVENT_NO_ID: the records name none */
    uint64_t n[ETL_PIDS_COLUMNS];
};

struct etl_pids;

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_pids_create(struct etl_pids **out);
void etl_pids_destroy(struct etl_pids *p); /* NULL is allowed */

void etl_pids_add(struct etl_pids *p, uint32_t pid, enum etl_pids_column column, uint64_t n);
uint64_t etl_pids_dropped(const struct etl_pids *p); /* times something had no room */

/* Sorts by pid, EVENT_NO_ID last, and returns all rows; valid until the next etl_pids_add. */
const struct etl_pids_row *const *etl_pids_sorted(struct etl_pids *p, size_t *n);

#endif
