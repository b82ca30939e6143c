/* The doctor's rooms. For checkup*.c only. */
#ifndef PROCFLEET_COLLECTOR_DOCTOR_CHECKUP_IMPL_H
#define PROCFLEET_COLLECTOR_DOCTOR_CHECKUP_IMPL_H

#include "collector/doctor/checkup.h"

#define CHECKUP_DAY_NS (86400 * CLK_S)

struct checkup {
    const struct checkup_conf *conf;
    const struct collector_conf *c; /* the same's */
    struct findings *all;
    bool running; /* a collector holds data_dir */
};

void checkup_trust(struct checkup *d);  /* certificate, key, authority, book */
void checkup_disk(struct checkup *d);   /* data_dir: rights, room, what goes when, damage */
void checkup_limits(struct checkup *d); /* descriptors, threads, memory, queue of connections */
void checkup_fleet(struct checkup *d);  /* what the collector that runs says of its hosts */

/* Whether nobody else may enter a directory of ours; no finding when it is not there. */
void checkup_folder(struct checkup *d, const char *check, const char *dir);

/* Whole days until then, down; less than 0 when it is over. */
int64_t checkup_days(const struct checkup *d, int64_t until_ns);

#endif
