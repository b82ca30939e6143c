/* The rings of several sessions as one stream in order of time. A record waits in its ring until
 * every other session has shown a later one, or until the window has passed: so late may a session
 * deliver. A ring that is half full does not wait; what then comes too late gets the monotonic
 * time of what came before it, and is counted.
 * Threads: one owner, the consumer of all rings. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_MERGE_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_MERGE_H

#include "agent/source/ring/ring.h"
#include "agent/source/source.h"

#define ETW_MERGE_RINGS     4
#define ETW_MERGE_WINDOW_NS INT64_C(2000000000)

struct etw_merge {
    struct ring *rings[ETW_MERGE_RINGS]; /* borrowed */
    bool silent[ETW_MERGE_RINGS];        /* nothing is expected: the others do not wait for it */
    size_t n;
    int64_t window_ns; /* see etw_merge_window */
    struct source_sink sink;
    int64_t wall_ns, mono_ns; /* told so far */
    bool begun;
    bool flowing; /* the last step had records */
    uint64_t late,
        hurried; /* records: older than one before; did not wait for a full ring's sake */
};

/* How late a session may deliver that is asked to every flush_ms; 0: by itself only, each second.
 */
int64_t etw_merge_window(unsigned flush_ms);

/* Hands on at most `max` records, as of now_ns on the monotonic clock; gives their number. */
size_t etw_merge_step(struct etw_merge *m, size_t max, int64_t now_ns);

/* Sleeps until there may be something to do for etw_merge_step, or until that monotonic moment.
 * While records come it sleeps a while, so that what comes meanwhile is taken at once; a ring that
 * fills ends it early. */
void etw_merge_wait(struct etw_merge *m, int64_t until_ns);

/* All that is held, the last marks of loss of closed rings too. */
void etw_merge_finish(struct etw_merge *m);

/* Time has come this far although no record says so; older than what was told: ignored. */
void etw_merge_advance(struct etw_merge *m, int64_t wall_ns, int64_t mono_ns);

/* Something is missing that no ring knows of, as of the last time told. */
void etw_merge_lost(struct etw_merge *m, uint64_t events, uint64_t buffers);

#endif
