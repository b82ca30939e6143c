/* Which sessions etw_live.h runs, and how. Plain data. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LIVE_CONF_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LIVE_CONF_H

#include "agent/conf/etw_conf.h"
#include "agent/source/ring/ring.h"
#include "agent/source/windows/etw_ctl.h"

#define ETW_LIVE_SESSIONS  3
#define ETW_LIVE_PROVIDERS (ETW_CONF_PROVIDERS + 1 + ETW_CONF_PRESENTS) /* and .NET, frames */

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
    enum etw_clr clr;   /* what is permitted of .NET, by level */
    char clr_only[SOURCE_PROVIDER_EXE];
    bool presents; /* permitted, from level L1 on */
    bool stacks;
    uint32_t samples_per_s;
    size_t ring_bytes, batch_events;
    uint32_t flush_ms; /* 0 = as flush_s of the sessions says, while high rates stand: 100 ms */
    int64_t query_ns;  /* distance of queries */
    bool patient;      /* refused at first: tried again later, as optional ones always are */
    unsigned retry_fast;
    int64_t retry_ns, pause_ns; /* so many tries at this distance, then at that */
    int64_t heartbeat_ns;       /* see etw_session_watch */
    int64_t images_ns;          /* after the other flags, see etw_session_read */
    int64_t settle_ns;          /* what is lost so long after a start is lost of the rundown */
};

/* Records of low rates come by the hundred: half a ring holds as much time of theirs. */
static inline size_t etw_live_ring_bytes(size_t bytes, bool high)
{
    return high || bytes / 2 < RING_BYTES_MIN ? bytes : bytes / 2;
}

/* The sessions that the settings ask for: NAME (lifecycle, from the kernel), NAME-kp (providers),
 * NAME-hi (high rates, by level); none where nothing is permitted. attach: the one foreign session.
 */
void etw_live_conf_make(struct etw_live_conf *out, const struct etw_conf *conf, bool attach);

/* Buffers as configured, and two for each CPU where each has its own, with some to spare: all of
 * them, made smaller where there are so many, within the pool. */
void etw_live_conf_buffers(struct etw_session_conf *s, const struct etw_buffers *b,
                           uint32_t pool_mib, uint32_t cpus);

/* The first two with every default. */
void etw_live_conf_defaults(struct etw_live_conf *out);

#endif
