/* The kinds of facts in event.h, and the few lists of values that facts have. */
#ifndef PROCFLEET_AGENT_SOURCE_EVENT_KIND_H
#define PROCFLEET_AGENT_SOURCE_EVENT_KIND_H

#include <stdbool.h>

enum event_kind {
    EV_PROC_START,   /* created now */
    EV_PROC_STOP,    /* ended now; info has exit code where known, totals where the source counts
                        exactly */
    EV_PROC_FOUND,   /* alive when the recording or the agent began (DCStart) */
    EV_PROC_LAST,    /* alive when the recording ended (DCEnd) */
    EV_PROC_DEFUNCT, /* ended before the recording, still held by a handle */
    EV_THREAD_START,
    EV_THREAD_STOP,
    EV_THREAD_FOUND,
    EV_THREAD_LAST,
    EV_IMAGE_LOAD,
    EV_IMAGE_UNLOAD,
    EV_IMAGE_FOUND,
    EV_IMAGE_LAST,
    EV_CPU_SAMPLE,          /* a profile interrupt */
    EV_CPU_SAMPLE_INTERVAL, /* from now on (or so far) the distance of samples */
    EV_CPU_PMC,             /* a performance counter's interrupt */
    EV_CSWITCH,             /* a CPU goes from one thread to another */
    EV_READY,               /* a thread may run from now on */
    EV_DPC,                 /* a deferred procedure call ended */
    EV_ISR,                 /* an interrupt service routine ended */
    EV_SYSCALL_ENTER,
    EV_SYSCALL_EXIT,
    EV_SOFT_FAULT,
    EV_HARD_FAULT,
    EV_VIRTUAL_ALLOC,
    EV_VIRTUAL_FREE,
    EV_DISK_INIT, /* a request is handed to the disk: tells who asked */
    EV_DISK_READ, /* done */
    EV_DISK_WRITE,
    EV_DISK_FLUSH,
    EV_FILE_OP,
    EV_NET,
    EV_REGISTRY,
    EV_PRESENT, /* a frame is handed to the display system */
    EV_CLR,     /* the runtime of .NET, about itself */
    EV_THREAD_NAME,
    EV_STACK,  /* belongs to the event of the same time and thread */
    EV_LOST,   /* something is missing from here on: what is open on these CPUs has no known end */
    EV_GROUPS, /* which groups of events are recorded, from here on */
    EV_PROC_COUNTERS, /* what the system itself counted for a process */
    EV_SOURCE,        /* where events come from has changed, or part of it was lost or refused */
    EV_KIND_COUNT,
};

/* Of those of which there are many nothing but counters moves: no sample, start or end is due at
 * another time because of them. */
static inline bool event_only_counts(enum event_kind kind)
{
    return (kind >= EV_CPU_SAMPLE && kind <= EV_CLR && kind != EV_CPU_SAMPLE_INTERVAL) ||
           kind == EV_STACK;
}

/* What may be recorded beside starts and ends, or not. What is counted from events of a group that
 * is not would stand still, which reads as "nothing happened": it is absent. Bits. */
enum event_group {
    EVENT_GROUP_SWITCH = 1 << 0, /* context switches: who has which CPU */
    EVENT_GROUP_READY = 1 << 1,  /* from when on a thread may run */
    EVENT_GROUP_INTERRUPT = 1 << 2,
    EVENT_GROUP_SYSCALL = 1 << 3,
    EVENT_GROUP_FAULT = 1 << 4, /* reads from disk for page faults */
    EVENT_GROUP_VIRTUAL = 1 << 5,
    EVENT_GROUP_DISK = 1 << 6,
    EVENT_GROUP_FILE = 1 << 7,
    EVENT_GROUP_NET = 1 << 8,
    EVENT_GROUP_REGISTRY = 1 << 9,
    EVENT_GROUP_IMAGE = 1 << 10,
    EVENT_GROUP_THREAD = 1 << 11,
    EVENT_GROUP_CLR_GC = 1 << 12, /* .NET: collections, and what else costs little */
    EVENT_GROUP_CLR_JIT = 1 << 13,
    EVENT_GROUP_CLR_ALLOC = 1 << 14,
    EVENT_GROUP_SAMPLE = 1 << 15, /* profile interrupts */
    EVENT_GROUP_PRESENT = 1 << 16,
};

enum soft_fault {
    FAULT_TRANSITION,
    FAULT_DEMAND_ZERO,
    FAULT_COPY_ON_WRITE,
    FAULT_GUARD,
    FAULT_HARD, /* the fault itself; what was read for it is EV_HARD_FAULT */
    FAULT_ACCESS_VIOLATION,
    FAULT_COUNT,
};

enum file_op {
    FILE_CREATE,
    FILE_CLEANUP,
    FILE_CLOSE,
    FILE_READ,
    FILE_WRITE,
    FILE_FLUSH,
    FILE_QUERY_INFO,
    FILE_SET_INFO,
    FILE_DELETE,
    FILE_RENAME,
    FILE_DIR_ENUM,
    FILE_DIR_NOTIFY,
    FILE_CONTROL,
    FILE_OP_END,
    FILE_OP_COUNT,
};

enum clr_op {
    CLR_GC_START, /* may come twice, in two versions */
    CLR_GC_END,
    CLR_TRIGGERED, /* a collection is about to start */
    CLR_SUSPEND,   /* all managed threads are being stopped */
    CLR_RESTART,   /* they run again */
    CLR_HEAP,      /* sizes after a collection */
    CLR_ALLOC,     /* about 100 KB were allocated, the last of it as named */
    CLR_FINALIZED,
    CLR_JIT_START,
    CLR_METHOD_LOAD, /* compiled now, or found in an image */
    CLR_METHOD_UNLOAD,
    CLR_EXCEPTION,
    CLR_CONTENTION_START,
    CLR_CONTENTION_STOP,
    CLR_ADJUSTMENT, /* the thread pool has another size */
    CLR_RUNTIME,
    CLR_OP_COUNT,
};

enum net_op {
    NET_SEND,
    NET_RECV,
    NET_CONNECT,
    NET_ACCEPT,
    NET_RECONNECT,
    NET_DISCONNECT,
    NET_RETRANSMIT,
    NET_COPY,
    NET_FAIL,
};

#endif
