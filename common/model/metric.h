/* The metrics: id, name, kind, unit, help (metric_list.h), and sets of them (metric_mask.h). Names
 * are the contract on the wire, in JSON, CSV, configuration and documents; ids never change and are
 * never reused. Attributes (kind A) that do not change travel in struct proc_info; everything with
 * COL in the list is a *column*: a number per process and tick. Values are whole numbers in the
 * unit of the list: ns (UTC_NS: since 1970), bytes, counts; PERMILLE is 1/1000 of one logical CPU,
 * MASK a bit a CPU. */
#ifndef PROCFLEET_COMMON_MODEL_METRIC_H
#define PROCFLEET_COMMON_MODEL_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "common/model/metric_list.h"
#include "common/model/metric_mask.h"

enum metric_kind { METRIC_ATTRIBUTE, METRIC_COUNTER, METRIC_GAUGE, METRIC_DERIVED };
enum metric_unit {
    UNIT_NONE,
    UNIT_NS,
    UNIT_UTC_NS,
    UNIT_BYTES,
    UNIT_COUNT,
    UNIT_PERMILLE,
    UNIT_MASK,
    UNIT_TEXT
};

/* Ids that code names. */
enum {
    M_CPU_TIME = 9,
    M_CPU_PERCENT = 10,
    M_CPU_CYCLES = 11,
    M_KERNEL_TIME = 12,
    M_USER_TIME = 13,
    M_CONTEXT_SWITCHES = 14,
    M_PRIORITY = 15,
    M_AFFINITY_MASK = 16,
    M_WORKING_SET_SIZE = 17,
    M_PRIVATE_BYTES = 18,
    M_VIRTUAL_BYTES = 19,
    M_PAGE_FAULTS = 20,
    M_HARD_FAULTS = 21,
    M_PEAK_WORKING_SET = 22,
    M_PAGED_POOL = 23,
    M_NON_PAGED_POOL = 24,
    M_THREAD_COUNT = 25,
    M_ACTIVE_THREADS = 27,
    M_SUSPENDED_THREADS = 28,
    M_READ_OPERATIONS = 31,
    M_WRITE_OPERATIONS = 32,
    M_OTHER_OPERATIONS = 33,
    M_READ_BYTES = 34,
    M_WRITE_BYTES = 35,
    M_IO_PRIORITY = 36,
    M_HANDLE_COUNT = 37,
    M_GDI_OBJECTS = 38,
    M_USER_OBJECTS = 39,
    M_PEAK_HANDLE_COUNT = 40,
    M_THREADS_RUNNING = 41,
    M_THREADS_READY = 42,
    M_THREADS_WAITING = 43,
    M_THREADS_DISK_WAIT = 44,
    M_THREADS_STOPPED = 45,
    M_THREADS_TERMINATED = 46,
    M_THREADS_IDLE = 47,
    M_TCP_SEND_BYTES = 48,
    M_TCP_RECV_BYTES = 49,
    M_UDP_SEND_BYTES = 50,
    M_UDP_RECV_BYTES = 51,
    M_READY_TIME = 52,
    M_TCP_RETRANSMITS = 53,
    M_DISK_READ_BYTES = 54,
    M_DISK_WRITE_BYTES = 55,
    M_AGENT_LEVEL = 56,
    M_AGENT_EVENTS = 57,
    M_AGENT_CALLBACK_P99 = 58,
    M_AGENT_BYTES_SENT = 59,
    M_DISK_READS = 60,
    M_DISK_WRITES = 61,
    M_DISK_TIME = 62,
    M_FILE_OPERATIONS = 63,
    M_TCP_CONNECTS = 64,
    M_IO_WAIT_TIME = 65,
    M_MEMORY_WAIT_TIME = 66,
    M_WAIT_TIME = 67,
    M_INTERRUPT_TIME = 68,
    M_SYSTEM_CALLS = 69,
    M_HARD_FAULT_BYTES = 70,
    M_VIRTUAL_ALLOC_BYTES = 71,
    M_VIRTUAL_FREE_BYTES = 72,
    M_FILE_READ_BYTES = 73,
    M_FILE_WRITE_BYTES = 74,
    M_REGISTRY_OPERATIONS = 75,
    M_IMAGE_LOADS = 76,
    M_THREADS_STARTED = 77,
    M_PRIVATE_WORKING_SET = 78,
    M_PRESENTS = 79,
    M_CLR_GC_COUNT = 80,
    M_CLR_GC_GEN1 = 81,
    M_CLR_GC_GEN2 = 82,
    M_CLR_GC_PAUSE = 83,
    M_CLR_HEAP_BYTES = 84,
    M_CLR_ALLOC_BYTES = 85,
    M_CLR_JIT_METHODS = 86,
    M_CLR_JIT_TIME = 87,
    M_CLR_EXCEPTIONS = 88,
    M_CLR_CONTENTIONS = 89,
    M_CLR_CONTENTION_TIME = 90,
    M_CLR_STARVATIONS = 91,
};

struct metric {
    uint8_t id;
    uint8_t kind; /* enum metric_kind */
    uint8_t unit; /* enum metric_unit */
    uint8_t column;
    const char *name;
    const char *help;
};

const struct metric *metric_by_id(unsigned id);           /* NULL when there is none */
const struct metric *metric_by_name(const char *name);    /* exact; NULL when there is none */
const struct metric *metric_next(const struct metric *m); /* NULL: the first; NULL after the last */
/* The i-th of the metrics that rows hold, NULL after the last: for tables of options. */
const char *metric_column_name(size_t i);
const char *metric_closest(const char *name); /* the likeliest meant name, for error texts */

#endif
