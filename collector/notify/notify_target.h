/* One target: a subscription to notices, and what takes them. Threads: its consumer's, which
 * run_service starts; notify_target_stop and _report: any. */
#ifndef PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_TARGET_H
#define PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_TARGET_H

#include "collector/notify/notify_conf.h"

struct notify_target;

/* conf is borrowed. Errors: those of post_open and consumer_open */
NODISCARD enum err notify_target_open(struct notify_target **out,
                                      const struct notify_target_conf *conf, struct errmsg *why);
void notify_target_close(struct notify_target *t); /* NULL is allowed */
struct consumer *notify_target_consumer(struct notify_target *t);
void notify_target_stop(struct notify_target *t);
void notify_target_report(struct notify_target *t); /* one line in the log */

#endif
