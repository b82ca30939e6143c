/* A trace session for a few seconds, and what its records tell: for doctor_try_win32.c.
 * Threads: one owner; `seen` is the consumer's until doctor_trial_end, but for what is atomic. */
#ifndef PROCFLEET_AGENT_DOCTOR_DOCTOR_TRIAL_WIN32_H
#define PROCFLEET_AGENT_DOCTOR_DOCTOR_TRIAL_WIN32_H

#include <stdatomic.h>

#include "agent/decode/decode.h"
#include "agent/doctor/doctor_dump.h"
#include "agent/source/event.h"
#include "agent/source/windows/etw_api.h"
#include "agent/source/windows/etw_ctl.h"
#include "agent/source/windows/etw_record.h"
#include "common/os/os.h"

#define TRIAL_MARK   "procfleet-fact" /* in the command lines of our children */
#define TRIAL_DELAYS 64

struct doctor_trial_conf {
    const struct etw_api *api;
    bool manifest;  /* Kernel-Process instead of the kernel's own records */
    uint32_t flags; /* of the kernel */
    bool once;      /* flags are set once instead of to none first */
    bool small;     /* the least buffers there can be */
    bool late;      /* flags are set by doctor_trial_flags, not by begin */
    unsigned flush_ms;
    uint32_t min_buffers; /* 0 = 16 */
    /* On the thread that reads, each record; ev is NULL where it is no fact. Or NULL. */
    void (*each)(void *ctx, const struct raw_event *raw, const struct event *ev);
    void *ctx;
    struct doctor_dump *dump; /* or NULL */
};

struct doctor_trial {
    struct doctor_trial_conf conf;
    struct etw_ctl *ctl;
    struct decode *decode;
    TRACEHANDLE trace;
    bool tracing;
    struct os_thread *consumer;
    atomic_bool returned; /* it has nothing more to deliver */
    uint64_t frequency;
    int64_t last_ticks;
    uint8_t ext[ETW_RECORD_EXT];

    atomic_uint found, children; /* processes that lived; children of ours that started */
    atomic_uint lines, stops;    /* of these: with our mark in the command line; that ended */
    struct {
        uint64_t records, backwards, lost_events, lost_buffers, keys, keys_zero;
        int start_version, stop_version; /* -1 = none */
        uint32_t watched;                /* the pid of a child, set before it is resumed */
        uint64_t watched_cycles;
        int64_t delays[TRIAL_DELAYS];
        size_t n_delays;
    } seen;
    struct etw_totals totals; /* by doctor_trial_end */
};

/* Starts the session and opens it for reading. Errors: those of etw_ctl_start, of opening */
NODISCARD enum err doctor_trial_begin(struct doctor_trial **out,
                                      const struct doctor_trial_conf *conf, struct errmsg *why);

/* Starts to read. Errors: ERR_NOMEM, ERR_IO */
NODISCARD enum err doctor_trial_read(struct doctor_trial *t);

/* The identifier that the session was started with. */
void doctor_trial_guid(const struct doctor_trial *t, uint8_t out[16]);

/* Flags or provider, where the configuration says `late`. */
void doctor_trial_flags(struct doctor_trial *t);

/* Whether the system takes a group mask of so many bytes, at most 32. Errors: those of the call */
NODISCARD enum err doctor_trial_mask(struct doctor_trial *t, unsigned bytes);

/* Until `what` has reached n, or so long; flushes meanwhile. */
void doctor_trial_wait(struct doctor_trial *t, atomic_uint *what, unsigned n, int64_t patience_ns);

/* Stops the session and joins; what was seen may be read. */
void doctor_trial_end(struct doctor_trial *t);
void doctor_trial_free(struct doctor_trial *t); /* NULL is allowed; ends it first */

struct doctor_seen;

/* doctor_try with this table of functions and so many children. */
void doctor_try_with(struct doctor_seen *out, const struct etw_api *api, const char *dir,
                     unsigned children, int64_t patience_ns);

/* A child that does nothing, with our mark in its command line. `wait`: it does not run before
 * doctor_try_reap. */
bool doctor_try_spawn(PROCESS_INFORMATION *out, unsigned number, bool wait);
/* Lets it run, waits for its end, gives the cycles it took. */
uint64_t doctor_try_reap(PROCESS_INFORMATION *p);

/* A bulk table of the system. *status as the system says; NULL: not to be had; else mem_free. */
uint8_t *doctor_try_table(ULONG class, size_t *n, ULONG *status);

struct doctor_proof;

/* The part of doctor_proof_try that needs sessions: with this table of functions, so many children
 * at once. */
void doctor_proof_sessions(struct doctor_proof *out, const struct etw_api *api,
                           struct doctor_dump *dump, unsigned children, int64_t patience_ns);

#endif
