/* Source: live ETW sessions of this host. Each has a consumer thread, whose callback copies the
 * record into the session's ring and returns; the thread in run merges the rings in order of time
 * and hands records to the sink. A control thread asks every session for its losses, enlarges its
 * buffers, flushes, and starts it again when somebody has stopped it. What is lost is told where it
 * is known: by the ring, by records in the stream, by the session's counters, by a restart.
 * Bounds:  ETW_LIVE_SESSIONS sessions, one ring of ring_bytes each.
 * Threads: as source.h; etw_live_up and etw_live_stats from any. */
#ifndef PROCFLEET_AGENT_SOURCE_ETW_LIVE_H
#define PROCFLEET_AGENT_SOURCE_ETW_LIVE_H

#include "agent/source.h"
#include "agent/source/etw_ctl.h"

#define ETW_LIVE_SESSIONS  3
#define ETW_LIVE_PROVIDERS 16

struct etw_live_session {
    struct etw_session_conf session; /* name borrowed until close */
    struct etw_provider providers[ETW_LIVE_PROVIDERS];
    size_t n_providers;
    bool optional; /* refused at first: tried again later, the others go on */
};

struct etw_live_conf {
    const struct etw_api *api; /* borrowed until close; NULL = the system's */
    struct etw_live_session sessions[ETW_LIVE_SESSIONS];
    size_t n_sessions;
    size_t ring_bytes;
    uint32_t flush_ms; /* 0 = only as flush_s of the session says */
    int64_t query_ns;  /* distance of queries */
    unsigned retry_fast;
    int64_t retry_ns, pause_ns; /* so many tries at this distance, then at that */
};

struct etw_live_stats {
    uint64_t records;                   /* from all callbacks */
    uint64_t lost_events, lost_buffers; /* as the sessions or the stream say, whichever is more */
    uint64_t dropped, refused;          /* by full rings; too long for one */
    uint64_t items_skipped;             /* extended items there was no room for */
    uint64_t sessions_lost, restarts, restarts_failed;
    uint64_t late, hurried; /* see etw_merge.h */
    struct etw_ctl_stats ctl;
};

/* The two sessions that are always on (lifecycle from the kernel logger, Kernel-Process beside it)
 * and every default. */
void etw_live_defaults(struct etw_live_conf *out);

/* Starts the sessions. Errors: those of etw_ctl_open and etw_ctl_start of a session that is not
 * optional, of opening it for reading, ERR_INVALID (n_sessions), ERR_RANGE (ring_bytes),
 * ERR_NOMEM */
NODISCARD enum err etw_live_open(struct source **out, const struct etw_live_conf *conf,
                                 struct source_sink sink, struct errmsg *why);

/* Whether every session that is not optional delivers. */
bool etw_live_up(const struct source *s);

/* Numbers of ctl as of the last query of each session. */
void etw_live_stats(const struct source *s, struct etw_live_stats *out);

#endif
