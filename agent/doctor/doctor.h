/* Looks at everything the agent needs on this host and says what is in the way and how to mend it:
 * state directory, key, certificate, clock, disk, source of events, the collectors, and what is
 * particular to the system (doctor_host.h). Nothing is changed unless `fix` says so: a file is
 * written beside the agent's own and taken away again, its lock is held for a moment and only when
 * it exists already; on Windows a trace session of a name of its own is started and stopped.
 * Threads: one. It blocks: each collector that does not answer takes `connect_ns`. */
#ifndef PROCFLEET_AGENT_DOCTOR_DOCTOR_H
#define PROCFLEET_AGENT_DOCTOR_DOCTOR_H

#include "agent/conf/agent_conf.h"

enum doctor_state {
    DOCTOR_OK,
    DOCTOR_WARNING, /* the agent works, but not as well as it could, or not for long */
    DOCTOR_FAILED,
    DOCTOR_SKIPPED, /* not applicable here, or cannot be tried before something else is mended */
};

struct doctor_finding {
    const char *check; /* stable identifier: "state.lock" */
    enum doctor_state state;
    const char *detail; /* one sentence */
    const char *fix;    /* what to do about it; "" when nothing is to be done */
};

struct doctor_conf {
    const struct agent_conf *conf;
    int64_t now_ns;     /* UTC */
    int64_t connect_ns; /* longest wait for one collector */
    bool fix;           /* sessions that a killed agent of ours has left behind are stopped */
    bool facts; /* also tries what only a real Windows machine can tell: takes half a minute */
    void (*found)(void *ctx, const struct doctor_finding *f); /* texts are borrowed */
    void *ctx;
};

struct doctor_result {
    unsigned count[DOCTOR_SKIPPED + 1]; /* by state */
    enum err e; /* ERR_OK; ERR_UNREACHABLE or ERR_TRUST when only the collectors failed; ERR_INVALID
                   when something on this side did */
};

void doctor_run(struct doctor_result *out, const struct doctor_conf *conf);

/* "ok", "warning", "failed", "skipped" */
const char *doctor_state_text(enum doctor_state s);

#endif
