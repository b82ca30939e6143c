/* What the parts of etw_live share: etw_live.c (the caller's thread) and etw_live_control.c (the
 * control thread, which alone touches the sessions while it runs). */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LIVE_IMPL_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LIVE_IMPL_H

#include "agent/source/windows/etw_live.h"
#include "agent/source/windows/etw_merge.h"
#include "agent/source/windows/etw_session.h"

/* What has been told to the sink of one session's losses. */
struct etw_live_told {
    uint64_t events, buffers, losses;
};

/* What a session's control thread knows for others. */
struct etw_live_state {
    struct etw_ctl_stats ctl;
    bool down;
    char why[ETW_SESSION_WHY]; /* "": all is well */
};

struct etw_live {
    struct live_events base; /* first: struct live_events * is cast to us */
    struct etw_live_conf conf;
    struct etw_api own_api;
    struct etw_owner *owner; /* of the system's sessions; NULL: they are a test's, or foreign */
    struct etw_session *sessions;
    size_t n;
    struct etw_live_told told[ETW_LIVE_SESSIONS];
    struct etw_merge merge;
    atomic_int_fast64_t window_ns; /* of merge, as sessions are flushed at present */
    atomic_int_fast64_t wall_less_mono;
    atomic_uint_fast64_t late, hurried; /* of merge, for others */
    atomic_bool trusted;                /* see etw_ctl_trust */
    atomic_bool tells;                  /* starts and ends of processes are asked for */
    int64_t told_sample_ns;
    bool reclaimed; /* what an earlier run left of a session that is not wanted yet */
    bool ended;

    struct os_mutex *lock; /* guards everything below */
    struct os_cond *wake;  /* something of it has changed */
    struct os_thread *control;
    bool control_runs, control_ends;
    unsigned level; /* wanted */
    bool level_new;
    struct etw_live_request *request; /* one at a time; of a thread that waits for it */
    struct etw_live_state states[ETW_LIVE_SESSIONS];
};

struct etw_live_request {
    const struct source_ask *ask;
    struct errmsg why;
    enum err result;
    bool done;
};

/* ---- etw_live_clock.c ---- */

/* As records are stamped; and UTC at that moment. */
int64_t etw_live_now(const struct etw_live *l, int64_t *utc_ns);

/* How far UTC is from the stamps, from now on. */
void etw_live_set_clock(struct etw_live *l);

/* ---- etw_live_control.c ---- */

/* What others may know of session i; by whoever drives it. */
void etw_live_publish(struct etw_live *l, size_t i);

/* Once some session stands: it is known then that the sessions are ours. */
void etw_live_reclaim(struct etw_live *l);

/* Errors: those of os_thread_start */
NODISCARD enum err etw_live_control_begin(struct etw_live *l);
void etw_live_control_end(struct etw_live *l);

/* As ask of live.h; waits for the control thread. */
NODISCARD enum err etw_live_ask(struct live_events *e, const struct source_ask *ask,
                                struct errmsg *why);

#endif
