/* What the checks share. For doctor*.c only. */
#ifndef PROCFLEET_AGENT_DOCTOR_DOCTOR_IMPL_H
#define PROCFLEET_AGENT_DOCTOR_DOCTOR_IMPL_H

#include "agent/doctor/doctor.h"

struct doctor {
    const struct doctor_conf *conf;
    struct findings *all;
    enum err reach; /* why the first collector that failed did so */
};

#endif
