/* The one list of metrics: id, name, kind, unit, help. Names are the contract on the wire, in JSON,
 * CSV, configuration and documents; ids never change and are never reused.
 * Attributes (kind A) that do not change travel in struct proc_info; everything with COL in the
 * list is a *column*: a number per process and tick, numbered below METRIC_COLS so that a 64-bit
 * mask can say which columns a row has. Values are whole numbers in the unit of the list: ns
 * (UTC_NS: since 1970), bytes, counts; PERMILLE is 1/1000 of one logical CPU, MASK a bit a CPU. */
#ifndef PROCFLEET_COMMON_MODEL_METRIC_H
#define PROCFLEET_COMMON_MODEL_METRIC_H

#include <stddef.h>
#include <stdint.h>

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

/* id, name, kind, unit, 1 = column on the wire, help */
#define METRIC_LIST(X)                                                                            \
    X(1, pid, ATTRIBUTE, NONE, 0, "process id")                                                   \
    X(2, name, ATTRIBUTE, TEXT, 0, "image name")                                                  \
    X(3, parent_pid, ATTRIBUTE, NONE, 0, "process id of the parent at start")                     \
    X(4, session_id, ATTRIBUTE, NONE, 0, "session (Windows: 0 = services; Linux: POSIX session)") \
    X(5, create_time, ATTRIBUTE, UTC_NS, 0, "start of the process")                               \
    X(6, exit_time, ATTRIBUTE, UTC_NS, 0, "end of the process")                                   \
    X(7, exit_code, ATTRIBUTE, NONE, 0, "exit code")                                              \
    X(8, command_line, ATTRIBUTE, TEXT, 0, "command line as the privacy policy lets it pass")     \
    X(9, cpu_time, COUNTER, NS, 1, "time on a CPU; its origin is times, cswitch or samples")      \
    X(10, cpu_percent, DERIVED, PERMILLE, 0, "share of one logical CPU in the interval")          \
    X(11, cpu_cycles, COUNTER, COUNT, 1, "CPU reference cycles")                                  \
    X(12, kernel_time, COUNTER, NS, 1, "CPU time in kernel mode")                                 \
    X(13, user_time, COUNTER, NS, 1, "CPU time in user mode")                                     \
    X(14, context_switches, COUNTER, COUNT, 1, "context switches of all threads")                 \
    X(15, priority, GAUGE, NONE, 1, "base priority")                                              \
    X(16, affinity_mask, GAUGE, MASK, 1, "CPUs allowed, the first 64")                            \
    X(17, working_set_size, GAUGE, BYTES, 1, "resident memory, shared pages included")            \
    X(18, private_bytes, GAUGE, BYTES, 1, "private memory (Linux: touched anonymous memory)")     \
    X(19, virtual_bytes, GAUGE, BYTES, 1, "address space")                                        \
    X(20, page_faults, COUNTER, COUNT, 1, "page faults, soft and hard")                           \
    X(21, hard_faults, COUNTER, COUNT, 1, "page faults that read from disk")                      \
    X(22, peak_working_set, GAUGE, BYTES, 1, "largest resident memory so far")                    \
    X(23, paged_pool, GAUGE, BYTES, 1, "paged pool charged to the process")                       \
    X(24, non_paged_pool, GAUGE, BYTES, 1, "non-paged pool charged to the process")               \
    X(25, thread_count, GAUGE, COUNT, 1, "threads")                                               \
    X(26, thread_ids, ATTRIBUTE, NONE, 0, "thread ids; local only")                               \
    X(27, active_threads, GAUGE, COUNT, 1, "threads that ran in the interval")                    \
    X(28, suspended_threads, GAUGE, COUNT, 1, "threads that are suspended or stopped")            \
    X(29, thread_cpu_cycles, ATTRIBUTE, COUNT, 0, "cycles per thread; local only")                \
    X(30, thread_states, DERIVED, COUNT, 0, "threads per state: the thread_states.* columns")     \
    X(31, read_operations, COUNTER, COUNT, 1, "read operations, all kinds of I/O")                \
    X(32, write_operations, COUNTER, COUNT, 1, "write operations, all kinds of I/O")              \
    X(33, other_operations, COUNTER, COUNT, 1, "control operations")                              \
    X(34, read_bytes, COUNTER, BYTES, 1, "bytes read, all kinds of I/O")                          \
    X(35, write_bytes, COUNTER, BYTES, 1, "bytes written, all kinds of I/O")                      \
    X(36, io_priority, GAUGE, NONE, 1, "I/O priority")                                            \
    X(37, handle_count, GAUGE, COUNT, 1, "open handles (Linux: descriptors)")                     \
    X(38, gdi_objects, GAUGE, COUNT, 1, "GDI objects")                                            \
    X(39, user_objects, GAUGE, COUNT, 1, "USER objects")                                          \
    X(40, peak_handle_count, GAUGE, COUNT, 1, "largest number of open handles seen")              \
    X(41, thread_states.running, GAUGE, COUNT, 1, "threads running (Linux: or runnable)")         \
    X(42, thread_states.ready, GAUGE, COUNT, 1, "threads ready to run")                           \
    X(43, thread_states.waiting, GAUGE, COUNT, 1, "threads waiting (Linux: sleeping)")            \
    X(44, thread_states.disk_wait, GAUGE, COUNT, 1, "threads in uninterruptible wait (Linux)")    \
    X(45, thread_states.stopped, GAUGE, COUNT, 1, "threads stopped or traced (Linux)")            \
    X(46, thread_states.terminated, GAUGE, COUNT, 1, "threads ended, not yet removed")            \
    X(47, thread_states.idle, GAUGE, COUNT, 1, "kernel threads at rest (Linux)")                  \
    X(54, disk_read_bytes, COUNTER, BYTES, 1, "bytes read from disk")                             \
    X(55, disk_write_bytes, COUNTER, BYTES, 1, "bytes written to disk")                           \
    X(56, agent.level, GAUGE, NONE, 1, "level of collection; only of an agent's own process")     \
    X(57, agent.events, COUNTER, COUNT, 1, "events the agent took in; its own process")           \
    X(58, agent.callback_p99, GAUGE, NS, 1, "what 99 % of its callbacks took; its own process")   \
    X(59, agent.bytes_sent, COUNTER, BYTES, 1, "batches acknowledged; its own process")

#define METRIC_COLS 64 /* column ids are below; bit `id` of a mask */

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
    M_DISK_READ_BYTES = 54,
    M_DISK_WRITE_BYTES = 55,
    M_AGENT_LEVEL = 56,
    M_AGENT_EVENTS = 57,
    M_AGENT_CALLBACK_P99 = 58,
    M_AGENT_BYTES_SENT = 59,
};

#define METRIC_BIT(id) (UINT64_C(1) << (id))

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
