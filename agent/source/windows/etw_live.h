/* The events of source/live.h: ETW sessions of this host. Each has a consumer thread, whose
 * callback copies the record into the session's ring and returns; step merges the rings in order of
 * time and hands records to the sink. A control thread asks every session for its losses, enlarges
 * its buffers, flushes, and starts it again when somebody has stopped it. What is lost is told
 * where it is known: by the ring, by records in the stream, by the session's counters, by a
 * restart. Bounds:  ETW_LIVE_SESSIONS sessions, one ring of ring_bytes each. Threads: as live.h;
 * etw_live_stats from any. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LIVE_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LIVE_H

#include "agent/conf/etw_conf.h"
#include "agent/source/ring/ring.h"
#include "agent/source/source.h"
#include "agent/source/windows/etw_ctl.h"
#include "agent/source/windows/live.h"

#define ETW_LIVE_SESSIONS  3
#define ETW_LIVE_PROVIDERS ETW_CONF_PROVIDERS

struct etw_live_session {
    struct etw_session_conf session;
    struct source_provider providers[ETW_LIVE_PROVIDERS];
    size_t n_providers;
    bool optional; /* the lifecycle is known without it */
    bool high;     /* high rates: it stands from level L2 on, with flags by level; optional */
};

struct etw_live_conf {
    const struct etw_api *api; /* borrowed until close; NULL = the system's */
    struct etw_live_session sessions[ETW_LIVE_SESSIONS];
    size_t n_sessions;
    uint32_t permitted; /* flags of the kernel, whatever the level; see agent/conf/etw_conf.h */
    bool stacks;
    uint32_t samples_per_s;
    size_t ring_bytes, batch_events;
    uint32_t flush_ms; /* 0 = as flush_s of the sessions says, while high rates stand: 100 ms */
    int64_t query_ns;  /* distance of queries */
    bool patient;      /* refused at first: tried again later, as optional ones always are */
    unsigned retry_fast;
    int64_t retry_ns, pause_ns; /* so many tries at this distance, then at that */
    int64_t heartbeat_ns;       /* see etw_session_watch */
};

/* Records of low rates come by the hundred: half a ring holds as much time of theirs. */
static inline size_t etw_live_ring_bytes(size_t bytes, bool high)
{
    return high || bytes / 2 < RING_BYTES_MIN ? bytes : bytes / 2;
}

struct etw_live_stats {
    uint64_t records;                   /* from all callbacks */
    uint64_t skipped;                   /* of them, of no use to anybody */
    uint64_t lost_events, lost_buffers; /* as the sessions or the stream say, whichever is more */
    uint64_t high_events, high_buffers; /* of them, those of the session of high rates */
    uint64_t dropped, refused;          /* by full rings; too long for one */
    uint64_t held;                      /* now, in the rings */
    uint64_t dropped_of[RING_KIND_COUNT];
    uint64_t items_skipped; /* extended items there was no room for */
    uint64_t sessions_lost, restarts, restarts_failed;
    uint64_t late, hurried;  /* see etw_merge.h */
    int64_t callback_p99_ns; /* of the last seconds, of the slowest session; 0 = nothing came */
    struct etw_ctl_stats ctl;
};

/* The sessions that the settings ask for: NAME (lifecycle, from the kernel), NAME-kp (providers),
 * NAME-hi (high rates, by level); none where nothing is permitted. attach: the one foreign session.
 */
void etw_live_configure(struct etw_live_conf *out, const struct etw_conf *conf, bool attach);

/* The first two with every default. */
void etw_live_defaults(struct etw_live_conf *out);

/* Starts the sessions. Errors: those of etw_ctl_open; unless patient those of etw_ctl_start of a
 * session that is not optional, of opening it for reading, ERR_BUSY (another agent has them);
 * ERR_INVALID (n_sessions), ERR_RANGE (ring_bytes), ERR_UNSUPPORTED (no such functions), ERR_NOMEM
 */
NODISCARD enum err etw_live_open(struct live_events **out, const struct etw_live_conf *conf,
                                 struct source_sink sink, struct errmsg *why);

/* Numbers of ctl as of the last query of each session. */
void etw_live_stats(const struct live_events *e, struct etw_live_stats *out);

#endif
