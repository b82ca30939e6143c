/* The doctor's checks of data_dir: rights, room, what is removed when, damage, and whether the
 * running collector takes batches. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_DOCTOR_COLLECTOR_DOCTOR_DISK_H
#define PROCFLEET_COLLECTOR_DOCTOR_COLLECTOR_DOCTOR_DISK_H

#include "collector/conf/collector_conf.h"
#include "common/check/check_result.h"

/* running: a collector holds data_dir. It is asked for at most connect_ns. */
void collector_doctor_disk(struct findings *to, const struct collector_conf *c, int64_t now_ns,
                           int64_t connect_ns, bool running);

/* Whether only the owner may enter a directory of ours; nothing is reported when it is not
 * there. */
void collector_doctor_disk_folder(struct findings *to, const char *check, const char *dir);

#endif
