/* The whole collector: store, session, queries, live stream and their listeners, wired together.
 * Started in the order of the data (store, feed, session, listeners), stopped in reverse.
 * Threads: start and stop from one thread. */
#ifndef PROCFLEET_COLLECTOR_COLLECTOR_H
#define PROCFLEET_COLLECTOR_COLLECTOR_H

#include "collector/conf/collector_conf.h"

struct collector;

/* Returns when everything listens: recovery of the store is complete then.
 * conf    borrowed until collector_stop
 * Errors: those of tls_config_load, trust_open, store_open and the listeners; why says what to do
 */
NODISCARD enum err collector_start(struct collector **out, const struct collector_conf *conf,
                                   struct errmsg *why);
void collector_stop(struct collector *c); /* NULL is allowed */

/* How long the part that has stood still for longest has done so, and which it is (static): the
 * store's threads at one step of their work; a listener's workers while requests wait, its own
 * thread and NNG's; the threads of the feed, of polls, of http and of the trust, which come round
 * each second. While it runs. */
int64_t collector_stuck_ns(const struct collector *c, int64_t now_ns, const char **what);

/* Ports actually bound; events, enroll, http and console are 0 when they are off. */
struct collector_ports {
    unsigned ingest, query, events, enroll, http, console;
};
struct collector_ports collector_ports(const struct collector *c);

#endif
