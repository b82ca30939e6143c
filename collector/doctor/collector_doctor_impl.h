/* The doctor's rooms. For checkup*.c only. */
#ifndef PROCFLEET_COLLECTOR_DOCTOR_COLLECTOR_DOCTOR_IMPL_H
#define PROCFLEET_COLLECTOR_DOCTOR_COLLECTOR_DOCTOR_IMPL_H

#include "collector/doctor/collector_doctor.h"

#define COLLECTOR_DOCTOR_DAY_NS (86400 * CLK_S)

struct collector_doctor {
    const struct collector_doctor_conf *conf;
    const struct collector_conf *c; /* the same's */
    struct findings *all;
    bool running; /* a collector holds data_dir */
};

/* Certificate, key, authority, book. */
void collector_doctor_trust(struct collector_doctor *d);
/* data_dir: rights, room, what is removed when, damage. */
void collector_doctor_disk(struct collector_doctor *d);
/* Descriptors, threads, memory, queue of connections. */
void collector_doctor_limits(struct collector_doctor *d);
/* What the running collector says of its hosts. */
void collector_doctor_fleet(struct collector_doctor *d);

/* Whether nobody else may enter a directory of ours; no finding when it is not there. */
void collector_doctor_folder(struct collector_doctor *d, const char *check, const char *dir);

/* Whole days until then, down; less than 0 when it is over. */
int64_t collector_doctor_days(const struct collector_doctor *d, int64_t until_ns);

#endif
