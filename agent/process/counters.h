/* What a recording or a session says about a process beyond the metrics of metric.h: counters that
 * only grow, kept per instance by aggregate.c and read by `etl`. The ones nobody owns stand in
 * aggregate_unattributed. Plain data. */
#ifndef PROCFLEET_AGENT_PROCESS_COUNTERS_H
#define PROCFLEET_AGENT_PROCESS_COUNTERS_H

#include <stdint.h>

/* id, key in JSON, unit (COUNT, BYTES, NS), help */
#define COUNTERS_LIST(X)                                                                          \
    X(SAMPLES, samples, COUNT, "profile samples, those included that found an interrupt running") \
    X(SAMPLES_INTERRUPT, samples_interrupt, COUNT, "of these: a DPC or ISR ran")                  \
    X(PMC_SAMPLES, pmc_samples, COUNT, "performance counter samples")                             \
    X(SWITCHES_IN, switches_in, COUNT, "times a thread was put on a CPU")                         \
    X(RUN, run, NS, "time on a CPU, between context switches")                                    \
    X(RUN_LOST, run_lost, NS, "time on a CPU that lost events make uncertain; not in run")        \
    X(READY, ready, NS, "time ready to run, waiting for a CPU")                                   \
    X(WAIT, wait, NS, "time threads waited for something else")                                   \
    X(DPC, dpc, NS, "time DPCs took from its threads; included in run")                           \
    X(ISR, isr, NS, "time ISRs took from its threads; included in run")                           \
    X(SYSCALLS, syscalls, COUNT, "system calls")                                                  \
    X(SOFT_FAULTS, soft_faults, COUNT,                                                            \
      "page faults that were logged, of every kind; reads from disk for them stand apart")        \
    X(HARD_FAULTS, hard_faults, COUNT, "reads from disk for page faults")                         \
    X(HARD_FAULT_BYTES, hard_fault_bytes, BYTES, "bytes read for them")                           \
    X(VIRTUAL_ALLOC, virtual_alloc, BYTES, "address space reserved or committed")                 \
    X(VIRTUAL_FREE, virtual_free, BYTES, "address space released")                                \
    X(DISK_READS, disk_reads, COUNT, "disk reads, by who asked")                                  \
    X(DISK_WRITES, disk_writes, COUNT, "disk writes, by who asked")                               \
    X(DISK_READ_BYTES, disk_read_bytes, BYTES, "bytes read from disk")                            \
    X(DISK_WRITE_BYTES, disk_write_bytes, BYTES, "bytes written to disk")                         \
    X(DISK_FLUSHES, disk_flushes, COUNT, "disk flushes")                                          \
    X(DISK_TIME, disk_time, NS, "time its disk requests took")                                    \
    X(FILE_OPS, file_ops, COUNT, "file system operations begun")                                  \
    X(FILE_OPENS, file_opens, COUNT, "of these: files opened or made")                            \
    X(FILE_READ_BYTES, file_read_bytes, BYTES, "bytes asked for in file reads")                   \
    X(FILE_WRITE_BYTES, file_write_bytes, BYTES, "bytes given to file writes")                    \
    X(TCP_SEND, tcp_send, BYTES, "bytes sent by TCP")                                             \
    X(TCP_RECV, tcp_recv, BYTES, "bytes received by TCP")                                         \
    X(UDP_SEND, udp_send, BYTES, "bytes sent by UDP")                                             \
    X(UDP_RECV, udp_recv, BYTES, "bytes received by UDP")                                         \
    X(TCP_RETRANSMITS, tcp_retransmits, COUNT, "TCP segments sent again")                         \
    X(TCP_CONNECTS, tcp_connects, COUNT, "TCP connections made or accepted")                      \
    X(REGISTRY_OPS, registry_ops, COUNT, "registry operations")                                   \
    X(IMAGE_LOADS, image_loads, COUNT, "images loaded")                                           \
    X(IMAGE_UNLOADS, image_unloads, COUNT, "images unloaded")                                     \
    X(IMAGE_RUNDOWN, image_rundown, COUNT, "image records of the rundowns")                       \
    X(THREADS_STARTED, threads_started, COUNT, "threads started")                                 \
    X(THREADS_ENDED, threads_ended, COUNT, "threads ended")                                       \
    X(THREAD_RUNDOWN, thread_rundown, COUNT, "thread records of the rundowns")                    \
    X(STACKS, stacks, COUNT, "stacks walked")                                                     \
    X(PRESENTS, presents, COUNT, "frames handed to the display system")                           \
    X(CLR_GCS, clr_gcs, COUNT, "garbage collections of .NET")                                     \
    X(CLR_GEN1, clr_gen1, COUNT, "of these: of generation 1")                                     \
    X(CLR_GEN2, clr_gen2, COUNT, "of these: of generation 2")                                     \
    X(CLR_PAUSE, clr_pause, NS, "time its threads stood still for collections")                   \
    X(CLR_ALLOC, clr_alloc, BYTES, "bytes allocated in .NET, to some 100 KB")                     \
    X(CLR_JIT_METHODS, clr_jit_methods, COUNT, "methods compiled while it ran")                   \
    X(CLR_JIT_TIME, clr_jit_time, NS, "time that compiling them took")                            \
    X(CLR_EXCEPTIONS, clr_exceptions, COUNT, "exceptions thrown in .NET")                         \
    X(CLR_CONTENTIONS, clr_contentions, COUNT, "waits for a managed lock")                        \
    X(CLR_CONTENTION_TIME, clr_contention_time, NS, "time of these waits")                        \
    X(CLR_STARVATIONS, clr_starvations, COUNT, "thread pools grown because they starved")

enum counters_id {
#define COUNTERS_ID(id, key, unit, help) COUNTERS_##id,
    COUNTERS_LIST(COUNTERS_ID)
#undef COUNTERS_ID
        COUNTERS_COUNT,
};

struct counters {
    uint64_t n[COUNTERS_COUNT];
};

#endif
