/* Facts about processes, decoded: what happened, when, on which CPU, to whom. Plain data below
 * every stage of the agent; sources whose platform hands out facts (Linux) make them directly, ETW
 * bytes become them in decode. Text is borrowed for the duration of the call that hands the event
 * on. */
#ifndef PROCFLEET_AGENT_EVENT_H
#define PROCFLEET_AGENT_EVENT_H

#include "common/model.h"

#define EVENT_NO_ID UINT32_MAX /* the record names no process or thread */

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
    EV_KIND_COUNT,
};

struct ev_proc {
    struct proc_info info;
    uint64_t key; /* kernel object address, pairs start and end in one session; 0 = unknown */
    uint64_t totals_mask;  /* EV_PROC_STOP: columns with exact totals at exit */
    const int64_t *totals; /* METRIC_COLS values, or NULL */
};

struct ev_thread {
    uint32_t pid, tid; /* the thread itself, from the payload */
    struct str name;
};

struct ev_image {
    uint32_t pid;
    uint64_t base, size;
    uint32_t checksum, time_stamp;
    struct str path;
};

struct ev_cpu_sample {
    uint64_t ip;
    uint32_t tid;
    bool interrupt; /* a DPC or ISR ran: not the thread's own time */
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
        int64_t interval_ns;
    } u;
};

#endif
