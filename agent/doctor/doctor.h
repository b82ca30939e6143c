/* Looks at everything the agent needs on this host and says what is in the way and how to mend it:
 * state directory, key, certificate, clock, disk, source of events, the collectors, and what is
 * particular to the system (doctor_host.h). Nothing is changed unless `fix` says so: a file is
 * written beside the agent's own and taken away again, its lock is held for a moment and only when
 * it exists already; on Windows a trace session of a name of its own is started and stopped.
 * Threads: one. It blocks: each collector that does not answer takes `connect_ns`. */
#ifndef PROCFLEET_AGENT_DOCTOR_DOCTOR_H
#define PROCFLEET_AGENT_DOCTOR_DOCTOR_H

#include "agent/conf/agent_conf.h"
#include "common/check/check_result.h"

struct doctor_conf {
    const struct agent_conf *conf;
    int64_t now_ns;     /* UTC */
    int64_t connect_ns; /* longest wait for one collector */
    bool fix;           /* sessions that a killed agent of ours has left behind are stopped */
    bool facts;       /* also tries what only a real Windows machine can tell: takes some minutes */
    const char *dump; /* where what the trials got is written to; NULL: nowhere. With facts only */
    bool anonymous;   /* names and accounts in it are covered */
};

/* Tells `to` what it finds. Errors: ERR_UNREACHABLE or ERR_TRUST when only the collectors failed;
 * ERR_INVALID when something on this side did */
NODISCARD enum err doctor_run(struct findings *to, const struct doctor_conf *conf);

/* Trace sessions that an agent which was killed has left behind. */
struct doctor_orphans {
    bool busy; /* an agent runs: the sessions are its own */
    unsigned found, stopped;
};

/* Looks for them and, if `stop`, stops them, unless busy. Threads: one. Errors: ERR_UNSUPPORTED
 * (this system has no sessions), ERR_ACCESS and others of the system */
NODISCARD enum err doctor_orphans(struct doctor_orphans *out, const struct etw_conf *conf,
                                  bool stop, struct errmsg *why);

/* The GUIDs of all trace sessions that an agent with these settings starts, and doctor; those that
 * an account must have in its access lists. Returns how many; 0 where there are none. */
#define DOCTOR_SESSIONS 8
size_t doctor_sessions(uint8_t guids[DOCTOR_SESSIONS][16], const struct etw_conf *conf);

#endif
