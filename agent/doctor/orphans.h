/* Trace sessions of ours that an agent has left behind (orphans_win32.c, orphans_linux.c; chosen
 * by the build). Threads: one. */
#ifndef PROCFLEET_AGENT_DOCTOR_ORPHANS_H
#define PROCFLEET_AGENT_DOCTOR_ORPHANS_H

#include <stdbool.h>

#include "agent/conf/etw_conf.h"

struct orphans {
    bool busy; /* an agent runs: what is there is its own */
    unsigned found, stopped;
};

/* Looks for them and stops them if asked to, unless busy. Errors: ERR_UNSUPPORTED (this system has
 * no sessions), ERR_ACCESS and others of the system */
NODISCARD enum err orphans_look(struct orphans *out, const struct etw_conf *conf, bool stop,
                                struct errmsg *why);

#endif
