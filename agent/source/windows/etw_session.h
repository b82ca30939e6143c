/* One live session as etw_live runs it: the session itself, the thread that reads it, the ring it
 * is read into, and what is known of its losses.
 * Threads: open, fini: the source's owner. start, read, watch: the control thread, or the owner
 * while there is none. The callback runs on the consumer thread and touches ring, ext and `seen`
 * only. Atomics may be read from any thread. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_SESSION_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_SESSION_H

#include <stdatomic.h>

#include "agent/source/ring/ring.h"
#include "agent/source/windows/etw_api.h"
#include "agent/source/windows/etw_hist.h"
#include "agent/source/windows/etw_live_conf.h"
#include "agent/source/windows/etw_record.h"
#include "common/os/os.h"

#define ETW_SESSION_WHY   320 /* bytes */
#define ETW_SESSION_TIMED 64

struct etw_owner;

struct etw_session {
    const struct etw_api *api;
    struct etw_live_session conf;
    struct etw_owner **owner; /* shared by the sessions of one program; NULL = not needed */
    const atomic_int_fast64_t *wall_less_mono; /* borrowed: UTC minus the clock of stamps, ns */
    atomic_bool *trusted;                      /* borrowed: see etw_ctl_trust */
    struct etw_ctl *ctl;
    struct ring *ring;
    struct os_thread *consumer;
    TRACEHANDLE trace;
    bool tracing;   /* trace is open */
    bool idle;      /* not wanted at this level */
    bool stood;     /* it could be started in this run, */
    bool keeps;     /* and later could not: what stands is not given up for a level any more */
    bool stacks;    /* at each start */
    bool down;      /* lost, or never started: to be tried again at next_try_ns */
    unsigned tries; /* since it was lost */
    int64_t next_try_ns;
    uint64_t frequency;                 /* of stamps */
    struct etw_totals last;             /* of this life, as of the last query */
    struct etw_totals before;           /* of a foreign one: what it had lost when we came */
    uint64_t events_base, buffers_base; /* lost in earlier lives */
    uint8_t ext[ETW_RECORD_EXT];
    char why[ETW_SESSION_WHY]; /* what was refused last, or is; "" = nothing */
    struct {
        uint64_t written, came, starts; /* as of when something moved last */
        int64_t since_ns, probed_ns;    /* nothing has moved since; it was put to the test */
        bool probed;
    } still;
    bool starts_told;                     /* a provider that tells of processes' starts is on */
    uint64_t dropped;                     /* by the ring, as of the last look */
    int64_t lost_until_ns, full_until_ns; /* so long it is said */

    bool images_due; /* the flag that comes last has not been asked for */
    bool lacks;      /* flags are missing: they are asked for at flags_ns */
    int64_t flags_ns;
    atomic_uint flags_on;          /* of the kernel's, those that it has taken */
    atomic_bool reading;           /* the consumer is about to ask for records */
    atomic_bool threads_elsewhere; /* another session tells of them */
    atomic_bool returned;          /* process has */
    atomic_bool delivers;
    atomic_uint_fast64_t events_lost, buffers_lost; /* all lives, as of the last query */
    /* As of the query before: by now the stream has had time to tell these itself. */
    atomic_uint_fast64_t events_settled, buffers_settled;
    atomic_uint_fast64_t losses, restarts, restarts_failed;
    int64_t settles_ns;   /* until then what is lost is lost of the rundown: */
    atomic_bool settling; /* of this start all since it began at `settle_from`, */
    atomic_uint_fast64_t settle_from, settle_lost; /* and so much of starts before */
    struct {
        atomic_uint_fast64_t events, buffers; /* lost, as the stream tells */
        atomic_uint_fast64_t items_skipped;
        atomic_uint_fast64_t came, skipped; /* records; of them of no use, see etw_skip.h */
        atomic_uint_fast64_t starts;        /* of processes */
    } seen;
    struct etw_hist took; /* the callback, every ETW_SESSION_TIMED-th record */
    atomic_int_fast64_t p99_ns;
    atomic_int_fast64_t sample_ns; /* distance of samples as we have set it; 0 = never */
};

/* Zeroed storage. Errors: those of etw_ctl_open, ERR_RANGE (ring), ERR_NOMEM */
NODISCARD enum err etw_session_init(struct etw_session *s, const struct etw_api *api,
                                    const struct etw_live_session *conf, size_t ring_bytes,
                                    struct errmsg *why);
void etw_session_fini(struct etw_session *s); /* half-built is fine; stops what runs */

/* Starts the session and opens it for reading; it records nothing yet. Errors: those of
 * etw_ctl_start, of the opening (as etw_ctl_error) */
NODISCARD enum err etw_session_start(struct etw_session *s, struct errmsg *why);

/* Starts the consumer thread, and once it reads turns on what is to be recorded; images last, see
 * etw_session_by_time. What the kernel or a provider refuses is counted and does not fail. Errors:
 * ERR_IO, ERR_NOMEM */
NODISCARD enum err etw_session_read(struct etw_session *s, const struct etw_live_conf *conf);

/* Flags that come later, or that were refused and are tried again: when that is due; INT64_MAX = it
 * has all it should have. */
int64_t etw_session_due_ns(const struct etw_session *s);
void etw_session_by_time(struct etw_session *s, const struct etw_live_conf *conf, int64_t now_ns);

/* The kernel has refused flags. */
bool etw_session_refused(const struct etw_session *s);

/* Asks for losses, enlarges, notices that it was lost, tries again; see etw_live_conf. A session
 * that hands on nothing for heartbeat_ns is put to the test: one that records threads by a thread
 * of our own, another that should tell of starts when others have seen more than `starts` processes
 * start meanwhile. What then
 * still hands on nothing is lost. What is lost within settle_ns of a start counts for no level. */
void etw_session_watch(struct etw_session *s, const struct etw_live_conf *conf, uint64_t starts,
                       int64_t now_ns);

/* For sessions of high rates: these flags from now on; 0: it ends until others are wanted. */
void etw_session_want(struct etw_session *s, const struct etw_live_conf *conf, uint32_t flags,
                      int64_t now_ns);

/* The kernel's kinds of events from now on, and after each start. Errors: those of etw_ctl_flags */
NODISCARD enum err etw_session_flags(struct etw_session *s, const struct etw_live_conf *conf,
                                     uint32_t flags, struct errmsg *why);

/* For each of these: at once where it runs, and at each start. Errors: those of etw_ctl. */
NODISCARD enum err etw_session_stacks(struct etw_session *s, bool on, struct errmsg *why);
NODISCARD enum err etw_session_add(struct etw_session *s, const struct source_provider *p,
                                   struct errmsg *why);
NODISCARD enum err etw_session_remove(struct etw_session *s, const uint8_t guid[16],
                                      struct errmsg *why);

/* What an operator should know of it now: `why`, else that something was lost just now; "" = all is
 * well. `text` has ETW_SESSION_WHY bytes. */
void etw_session_tell(const struct etw_session *s, char *text, int64_t now_ns);

/* Final numbers, then stops it; the consumer goes on until it has delivered what is left. */
void etw_session_stop(struct etw_session *s);

/* Ends the consumer. */
void etw_session_join(struct etw_session *s);

/* What callbacks took lately, for p99_ns; roll: what is older than the last roll is forgotten. */
void etw_session_time_callback(struct etw_session *s, bool roll);

/* Adds what it has lost, as its counters or its stream say. */
struct etw_live_stats;
void etw_session_add_lost(const struct etw_session *s, struct etw_live_stats *v);

#endif
