/* Looks at everything the collector needs on this machine, and at the fleet if a certificate allows
 * it, and says what is in the way and how to repair it. Nothing is changed: a file is written
 * beside the collector's own and taken away again, ports are bound for a moment, and its lock is
 * held for a moment when it is free. Segments are read, also beside a collector that
 * runs.
 * Threads: one, after net_init. It blocks: a collector that does not answer takes `connect_ns`. */
#ifndef PROCFLEET_COLLECTOR_DOCTOR_COLLECTOR_DOCTOR_H
#define PROCFLEET_COLLECTOR_DOCTOR_COLLECTOR_DOCTOR_H

#include "collector/conf/collector_conf.h"
#include "common/check/check_result.h"

struct collector_doctor_conf {
    const struct collector_conf *conf;
    int64_t now_ns;     /* UTC */
    int64_t connect_ns; /* longest wait for the collector */
    /* Files of a certificate of role query or admin, to ask the collector about the fleet; cert
     * NULL: it is not asked. ca NULL: the collector's own. */
    const char *ca, *cert, *key;
    const char *address; /* host:port; NULL: this machine, the port of listen.query */
};

void collector_doctor_run(struct findings *to, const struct collector_doctor_conf *conf);

#endif
