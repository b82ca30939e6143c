/* Facts about processes, decoded: what happened, when, on which CPU, to whom. Plain data below
 * every stage of the agent; sources whose platform hands out facts (Linux) make them directly, ETW
 * bytes become them in decode. Text is borrowed for the duration of the call that hands the event
 * on. */
#ifndef PROCFLEET_AGENT_SOURCE_EVENT_H
#define PROCFLEET_AGENT_SOURCE_EVENT_H

#include "agent/source/event_clr.h"
#include "agent/source/event_kind.h"
#include "common/model/model.h"

#define EVENT_NO_ID UINT32_MAX /* the record names no process or thread */

struct ev_proc {
    struct proc_info info;
    uint64_t key;     /* kernel object address, pairs start and end in one session; 0 = unknown */
    bool manifest;    /* by Microsoft-Windows-Kernel-Process: the other half of a classic record */
    bool provisional; /* id and creation are the record's own time: the exact ones may follow */
    struct str package;      /* full name of the package, empty for most */
    metric_mask totals_mask; /* EV_PROC_STOP: columns with exact totals at exit */
    const int64_t *totals;   /* METRIC_COLS values, or NULL */
};

struct ev_thread {
    uint32_t pid, tid; /* the thread itself, from the payload */
    bool manifest;     /* as in ev_proc */
    bool placed;       /* the next three are known */
    uint8_t priority, io_priority;
    uint64_t affinity;
    struct str name;
};

/* Totals and sizes at this moment. */
struct ev_proc_counters {
    uint32_t pid;
    metric_mask mask;      /* which of them; 0: the record's are not the process's own */
    const int64_t *values; /* METRIC_COLS values */
};

struct ev_image {
    uint32_t pid;
    bool manifest; /* as in ev_proc */
    uint64_t base, size;
    uint32_t checksum, time_stamp;
    struct str path;
};

struct ev_cpu_sample {
    uint64_t ip;
    uint32_t tid;
    bool interrupt; /* a DPC or ISR ran: not the thread's own time */
};

struct ev_cpu_pmc {
    uint64_t ip;
    uint32_t tid;
    uint16_t source;
};

struct ev_cswitch {
    uint32_t new_tid, old_tid; /* 0 = idle */
    int8_t new_priority, old_priority;
    uint8_t old_wait_reason, old_state; /* KWAIT_REASON, KTHREAD_STATE */
    int8_t old_wait_mode;
    uint32_t new_wait_time; /* clock ticks of the system, as recorded */
};

struct ev_ready {
    uint32_t tid;
};

/* DPC and ISR: from begin_ns to the event's own time on the event's CPU. */
struct ev_interrupt {
    int64_t took_ns; /* 0 where the record says nonsense */
    uint64_t routine;
};

struct ev_syscall {
    uint64_t address; /* enter */
    uint32_t status;  /* exit */
};

struct ev_soft_fault {
    uint64_t address, ip;
    uint8_t what; /* enum soft_fault */
};

struct ev_hard_fault {
    uint64_t address, file, offset;
    uint32_t tid, bytes;
    int64_t took_ns;
};

struct ev_virtual {
    uint64_t base, size;
    uint32_t pid, flags;
};

/* version 2 names no issuer at the end of a request: issuer_tid is EVENT_NO_ID there, and the
 * request's EV_DISK_INIT, same irp, was logged by its issuer. */
struct ev_disk {
    uint64_t irp, offset, file;
    uint32_t issuer_tid;
    uint32_t disk, flags, bytes;
    int64_t took_ns;
    bool manifest; /* by Microsoft-Windows-Kernel-Disk: nobody's; repeats a classic record */
};

struct ev_file {
    uint64_t irp, object, offset;
    uint32_t tid; /* EVENT_NO_ID: the event's own */
    uint32_t bytes;
    uint8_t op;    /* enum file_op */
    bool manifest; /* by Microsoft-Windows-Kernel-File: repeats a classic record */
    struct str path;
};

struct ev_net {
    uint32_t pid, bytes;
    uint8_t op; /* enum net_op */
    bool udp, v6;
    bool manifest; /* by Microsoft-Windows-Kernel-Network: repeats a classic record */
};

struct ev_registry {
    uint32_t status;
    uint8_t opcode; /* as the class Registry numbers operations */
    bool manifest;  /* by Microsoft-Windows-Kernel-Registry: repeats a classic record */
    int64_t took_ns;
};

struct ev_present {
    uint32_t flags; /* of the call, as its interface numbers them */
};

struct ev_stack {
    int64_t ticks; /* the event it belongs to */
    uint32_t pid, tid;
    size_t n_frames; /* 0: the frames come with the key */
    uint64_t key;    /* 0 = none */
};

struct ev_lost {
    bool all_cpus;            /* else the event's cpu only */
    uint64_t events, buffers; /* at least; 0 = unknown number */
};

/* From here on it is as said. The name is that of struct source_about. */
struct ev_source {
    bool polled;     /* starts and ends come by comparison of tables only */
    struct str name; /* "live", "snapshot" */
    struct str text; /* one sentence: what happened, why, and what to do */
};

struct event {
    enum event_kind kind;
    bool early; /* handed over ahead of its time, from a pass over the whole recording (etl_file):
                   tells who lived all along */
    uint16_t cpu;
    uint32_t pid, tid; /* context the record was logged in; EVENT_NO_ID = unknown */
    int64_t wall_ns;   /* UTC */
    int64_t mono_ns;   /* never goes back within a source */
    union {
        struct ev_proc proc;
        struct ev_thread thread;
        struct ev_image image;
        struct ev_cpu_sample sample;
        struct ev_cpu_pmc pmc;
        struct ev_cswitch cswitch;
        struct ev_ready ready;
        struct ev_interrupt interrupt;
        struct ev_syscall syscall;
        struct ev_soft_fault soft_fault;
        struct ev_hard_fault hard_fault;
        struct ev_virtual vm;
        struct ev_disk disk;
        struct ev_file file;
        struct ev_net net;
        struct ev_registry registry;
        struct ev_present present;
        struct ev_stack stack;
        struct ev_clr clr;
        struct ev_lost lost;
        uint32_t groups; /* enum event_group */
        struct ev_proc_counters counters;
        struct ev_source source;
        int64_t interval_ns;
    } u;
};

#endif
