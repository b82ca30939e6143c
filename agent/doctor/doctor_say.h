/* How the checks report what they find. For doctor*.c only. */
#ifndef PROCFLEET_AGENT_DOCTOR_DOCTOR_SAY_H
#define PROCFLEET_AGENT_DOCTOR_DOCTOR_SAY_H

#include "agent/doctor/doctor.h"

struct doctor {
    const struct doctor_conf *conf;
    struct doctor_result result;
    enum err reach; /* why the first collector that failed did so */
};

/* Reports one finding. */
void doctor_say(struct doctor *d, const char *check, enum doctor_state state, const char *fix,
                const char *fmt, ...) PRINTF_LIKE(5, 6);

#endif
