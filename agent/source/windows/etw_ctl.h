/* One ETW session and the calls that control it: start, kernel flags, providers, query, flush,
 * growth, stop. Sessions have fixed names and identifiers and outlive their process: one of ours
 * that an earlier run left behind is stopped and started anew; a foreign one is left untouched.
 * Codes of the system become errors with cause and remedy here.
 * Bounds:  session names of 1,023 UTF-16 units; buffers as configured.
 * Threads: one owner at a time; stats from any thread that has stopped the owner. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_CTL_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/source/etw_provider.h"
#include "common/base/err.h"

struct etw_api;
struct etw_ctl;

#define ETW_CTL_NAME 1024 /* bytes */

struct etw_session_conf {
    char name[ETW_CTL_NAME]; /* UTF-8 */
    uint8_t guid[16];        /* tells our session from a foreign one of the same name */
    bool kernel;             /* system logger */
    bool one_stream;         /* one stream of buffers for all CPUs: keeps the order of time */
    bool attach;             /* a foreign session: read, never controlled */
    uint32_t flags;          /* of the kernel: EVENT_TRACE_FLAG_… */
    uint32_t buffer_kb, min_buffers;
    uint32_t max_buffers; /* at first; grows as far as pool_mib allows */
    uint32_t pool_mib;
    uint32_t flush_s; /* see etw_ctl_timer_ms */
    /* NULL: read in real time. Else the system writes this file (a whole path, UTF-8, borrowed). */
    const char *file;
    enum {
        ETW_FILE_WHOLE, /* until it has file_mib */
        ETW_FILE_LAST,  /* the newest file_mib */
        ETW_FILE_RING,  /* what max_buffers hold, when etw_ctl_write is called */
    } file_as;
    uint32_t file_mib;
};

/* A kind of the kernel's events: class and opcode. */
struct etw_kind {
    uint8_t guid[16];
    uint8_t opcode;
};

/* As the session says, since its start. */
struct etw_totals {
    uint64_t events_lost, buffers_lost, buffers_written;
    uint32_t buffers, max_buffers, buffer_kb;
};

/* member, reason in the loss ledger. Grows only, over all starts. */
#define ETW_CTL_COUNTERS(X)                                                                       \
    X(started, "started")                                                                         \
    X(orphan_reclaimed, "orphan_reclaimed")                                                       \
    X(grown, "grown")                                                                             \
    X(resent, "resent")                                                                           \
    X(flags_refused, "flags_refused")                                                             \
    X(providers_refused, "providers_refused")                                                     \
    X(filters_refused, "filters_refused") /* providers that tell all; the rest is skipped here */ \
    X(failed, "calls_failed")

struct etw_ctl_stats {
#define ETW_CTL_COUNTER(member, reason) uint64_t member;
    ETW_CTL_COUNTERS(ETW_CTL_COUNTER)
#undef ETW_CTL_COUNTER
};

/* Errors: ERR_INVALID (name, buffers), ERR_NOMEM */
NODISCARD enum err etw_ctl_open(struct etw_ctl **out, const struct etw_api *api,
                                const struct etw_session_conf *conf, struct errmsg *why);
void etw_ctl_close(struct etw_ctl *c); /* NULL is allowed; does not stop the session */

/* Some trace of ours could be opened on this system: what else it exports may be called now. (Where
 * tracing is refused the functions that ask the system may end the process.) */
void etw_ctl_trust(struct etw_ctl *c);

/* Also again, after the session was lost. Errors: ERR_EXISTS (a foreign session has the name),
 * ERR_FULL (no slot: the holders are in why), ERR_ACCESS, ERR_INVALID, ERR_NOSPACE, ERR_NOTFOUND
 * (attach), ERR_UNSUPPORTED, ERR_IO */
NODISCARD enum err etw_ctl_start(struct etw_ctl *c, struct errmsg *why);

/* Stops a session of our name and identifier that an earlier run has left behind; none is fine.
 * start does it by itself. Errors: ERR_EXISTS (it is foreign, and untouched), those of query */
NODISCARD enum err etw_ctl_reclaim(struct etw_ctl *c, struct errmsg *why);

/* Kernel flags. The first time after a start: first none, then these, which makes the kernel tell
 * who lives. When they are refused together, each alone is tried. Errors: ERR_PROVIDER (some were
 * refused: `why` names them; the others are on), ERR_LOST, ERR_ACCESS */
NODISCARD enum err etw_ctl_flags(struct etw_ctl *c, uint32_t flags, struct errmsg *why);

/* These beside those that are on, each by itself, without touching the others. What is refused may
 * be tried again later. Errors: as etw_ctl_flags */
NODISCARD enum err etw_ctl_flags_add(struct etw_ctl *c, uint32_t flags, struct errmsg *why);

/* Those that are on in this life of the session. */
uint32_t etw_ctl_flags_on(const struct etw_ctl *c);

/* The stack of whoever causes a context switch or a sample. Errors: ERR_PROVIDER */
NODISCARD enum err etw_ctl_stacks(struct etw_ctl *c, bool on, struct errmsg *why);

NODISCARD enum err etw_ctl_stacks_of(struct etw_ctl *c, const struct etw_kind *kinds, size_t n,
                                     struct errmsg *why); /* of these, at most 16; 0 = none */

/* CPU samples per second: of the whole machine. What it was before is kept, and put back by
 * sampling_end, by stop and by close; where it cannot be known nothing is changed. Errors:
 * ERR_UNSUPPORTED (that), ERR_PROVIDER (refused) */
NODISCARD enum err etw_ctl_sampling(struct etw_ctl *c, uint32_t per_s, struct errmsg *why);
void etw_ctl_sampling_end(struct etw_ctl *c); /* nothing to put back is fine */

/* With its filters; a provider that refuses one is enabled without any, counted. Errors:
 * ERR_PROVIDER (others are not affected) */
NODISCARD enum err etw_ctl_enable(struct etw_ctl *c, const struct source_provider *p,
                                  struct errmsg *why);
NODISCARD enum err etw_ctl_disable(struct etw_ctl *c, const uint8_t guid[16], struct errmsg *why);

/* Errors: ERR_LOST (somebody stopped the session), ERR_INVALID, ERR_ACCESS, ERR_IO */
NODISCARD enum err etw_ctl_query(struct etw_ctl *c, struct etw_totals *out, struct errmsg *why);
NODISCARD enum err etw_ctl_flush(struct etw_ctl *c, struct errmsg *why);

/* ETW_FILE_RING: what the buffers hold becomes the file. Errors: those of query */
NODISCARD enum err etw_ctl_write(struct etw_ctl *c, struct errmsg *why);

/* The kernel delivers buffers at least so often, from now on and after each start; 0: each flush_s,
 * as it does at first. Errors: those of query */
NODISCARD enum err etw_ctl_timer_ms(struct etw_ctl *c, uint32_t ms, struct errmsg *why);

/* False: it cannot do so as often as that (its timer is too coarse, or the system knows seconds
 * only): etw_ctl_flush must. */
bool etw_ctl_flushes(const struct etw_ctl *c);

/* Twice as many buffers at most. Errors: ERR_FULL (at the limit), those of query */
NODISCARD enum err etw_ctl_grow(struct etw_ctl *c, struct errmsg *why);

/* As many at most, from now on and after each start. Errors: ERR_RANGE (less than min_buffers, more
 * than the pool holds), ERR_UNSUPPORTED (attached), those of query */
NODISCARD enum err etw_ctl_buffers(struct etw_ctl *c, uint32_t max_buffers, struct errmsg *why);

/* Delivers what is buffered, then ends the session. A session that is gone already is fine; so is
 * a foreign one, which stays. Errors: those of query */
NODISCARD enum err etw_ctl_stop(struct etw_ctl *c, struct errmsg *why);

void etw_ctl_stats(const struct etw_ctl *c, struct etw_ctl_stats *out);
const char *etw_ctl_name(const struct etw_ctl *c);
uint64_t etw_ctl_handle(const struct etw_ctl *c); /* the system's, while the session runs */

/* An error of any ETW call, as its cause and remedy; `call` as people know it, `what` = session or
 * provider. ERROR_SUCCESS gives ERR_OK. */
NODISCARD enum err etw_ctl_error(struct errmsg *why, const char *call, const char *what,
                                 uint32_t code);

#endif
