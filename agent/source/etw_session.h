/* One live session as etw_live runs it: the session itself, the thread that reads it, the ring it
 * is read into, and what is known of its losses.
 * Threads: open, fini: the source's owner. start, read, watch: the control thread, or the owner
 * while there is none. The callback runs on the consumer thread and touches ring, ext and `seen`
 * only. Atomics may be read from any thread. */
#ifndef PROCFLEET_AGENT_SOURCE_ETW_SESSION_H
#define PROCFLEET_AGENT_SOURCE_ETW_SESSION_H

#include <stdatomic.h>

#include "agent/ring.h"
#include "agent/source/etw_api.h"
#include "agent/source/etw_live.h"
#include "agent/source/etw_record.h"
#include "common/os.h"

struct etw_session {
    const struct etw_api *api;
    struct etw_live_session conf;
    const atomic_int_fast64_t *wall_less_mono; /* borrowed: UTC minus the clock of stamps, ns */
    struct etw_ctl *ctl;
    struct ring *ring;
    struct os_thread *consumer;
    TRACEHANDLE trace;
    bool tracing;   /* trace is open */
    bool down;      /* lost, or never started: to be tried again at next_try_ns */
    unsigned tries; /* since it was lost */
    int64_t next_try_ns;
    uint64_t frequency;                 /* of stamps */
    struct etw_totals last;             /* of this life, as of the last query */
    uint64_t events_base, buffers_base; /* lost in earlier lives */
    uint8_t ext[ETW_RECORD_EXT];

    atomic_bool returned; /* process has */
    atomic_bool delivers;
    atomic_uint_fast64_t events_lost, buffers_lost; /* all lives, as of the last query */
    /* As of the query before: by now the stream has had time to tell these itself. */
    atomic_uint_fast64_t events_settled, buffers_settled;
    atomic_uint_fast64_t losses, restarts, restarts_failed;
    struct {
        atomic_uint_fast64_t events, buffers; /* lost, as the stream tells */
        atomic_uint_fast64_t items_skipped;
    } seen;
};

/* Zeroed storage. Errors: those of etw_ctl_open, ERR_RANGE (ring), ERR_NOMEM */
NODISCARD enum err etw_session_init(struct etw_session *s, const struct etw_api *api,
                                    const struct etw_live_session *conf, size_t ring_bytes,
                                    struct errmsg *why);
void etw_session_fini(struct etw_session *s); /* half-built is fine; stops what runs */

/* Starts the session and opens it for reading; what the kernel or a provider refuses is counted
 * and does not fail. Errors: those of etw_ctl_start, of the opening (as etw_ctl_error) */
NODISCARD enum err etw_session_start(struct etw_session *s, struct errmsg *why);

/* Starts the consumer thread. Errors: ERR_IO, ERR_NOMEM */
NODISCARD enum err etw_session_read(struct etw_session *s);

/* Asks for losses, enlarges, notices that it was lost, tries again; see etw_live_conf. */
void etw_session_watch(struct etw_session *s, const struct etw_live_conf *conf, int64_t now_ns);

/* Final numbers, then stops it; the consumer goes on until it has delivered what is left. */
void etw_session_stop(struct etw_session *s);

/* Ends the consumer. */
void etw_session_join(struct etw_session *s);

#endif
