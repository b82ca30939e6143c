/* The checks that only one system knows (doctor_linux.c, doctor_win32.c; chosen by the build).
 * For doctor*.c only. */
#ifndef PROCFLEET_AGENT_DOCTOR_DOCTOR_HOST_H
#define PROCFLEET_AGENT_DOCTOR_DOCTOR_HOST_H

#include "agent/doctor/doctor_impl.h"

/* What the agent that runs here tells of itself. True: one holds the lock of the state directory.
 */
bool doctor_agent(struct doctor *d);

/* Rights, clock and whatever else this system has. */
void doctor_host(struct doctor *d);

/* What only a real machine of this system can confirm, if asked for: takes half a minute. */
void doctor_host_facts(struct doctor *d);

#endif
