/* The agent under measure, in a process of its own: everything from the callbacks of its sessions
 * to the queue of batches, fed with a generated host (tests/support/etwload.h) as time passes. */
#ifndef PROCFLEET_TESTS_BENCH_OVERHEAD_AGENT_H
#define PROCFLEET_TESTS_BENCH_OVERHEAD_AGENT_H

#include <stdbool.h>
#include <stdint.h>

struct overhead_conf {
    unsigned rate_hz;     /* ticks */
    unsigned per_second;  /* records */
    unsigned delivery_ms; /* how often sessions deliver */
    unsigned warm_up_s, seconds;
    unsigned gc_network; /* see etwload.h */
    bool empty;          /* no agent: its callbacks do nothing */
    bool extension; /* tables give context switches and disk bytes, so that ticks between two tables
                       have nothing to say of these */
};

/* Of the seconds that were measured. */
struct overhead_figures {
    int64_t elapsed_ns;
    int64_t cpu_ns;      /* of the process, without what makes records and tables */
    int64_t callback_ns; /* of these: putting records into the rings */
    int64_t core_ns;     /* and all that follows, in one thread */
    int64_t resident;    /* bytes, at the end, without what tables are made of */
    uint64_t records, tables, waits;
    uint64_t ticks, idle_ticks, rows, values, batches, bytes;
    uint64_t lives; /* starts and stops told */
    unsigned level; /* at the end; records lost make it fall */
    uint64_t dropped, late, hurried, unknown, corrupt, unattributed, gaps; /* since the start */
    uint64_t collections, network;                                         /* likewise, charged */
};

/* Ends the program when something fails. */
void overhead_measure(const struct overhead_conf *conf, struct overhead_figures *out);

/* What no agent can do without here: a thread that sleeps and wakes so often and looks at so many
 * bytes each time, which the caches have lost meanwhile. */
void overhead_wake(unsigned per_second, unsigned bytes, unsigned seconds,
                   struct overhead_figures *out);

#endif
