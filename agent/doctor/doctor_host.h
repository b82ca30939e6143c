/* What the checks share; the checks of the agent's status file (doctor_agent.c); and those that
 * only one system knows (doctor_linux.c, doctor_win32.c; chosen by the build). For doctor*.c only.
 */
#ifndef PROCFLEET_AGENT_DOCTOR_DOCTOR_HOST_H
#define PROCFLEET_AGENT_DOCTOR_DOCTOR_HOST_H

#include "agent/conf/agent_conf.h"
#include "common/check/check_result.h"

struct doctor {
    const struct agent_conf *conf;
    int64_t now_ns, connect_ns; /* as doctor_conf */
    bool fix, facts;
    const char *dump; /* directory, or NULL */
    bool anonymous;
    struct findings *all;
    enum err reach; /* why the first collector that failed did so */
};

/* What the agent that runs here reports about itself. True: one holds the lock of the state
 * directory. */
bool doctor_agent(struct doctor *d);

/* Rights, clock and whatever else this system has. */
void doctor_host(struct doctor *d);

/* What only a real machine of this system can confirm, if asked for: takes half a minute. */
void doctor_host_facts(struct doctor *d);

#endif
