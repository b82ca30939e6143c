/* The whole collector: store, session, queries, live stream and their listeners, wired together.
 *
 * Start: network layer, certificates, trust, store (recovery), the feed (without its thread),
 * events listener, the feed's thread, session, serve, query listener, ingest listener, so that
 * nothing is accepted before it can be stored and seen; the enroll listener and http last. The
 * trust comes before the first listener, since they ask it, and follows its book once all listen.
 * Metrics of listeners are reported from then on (`running`).
 * Stop: following, http and the query listener, which both ask the other listeners; those; the
 * feed's thread; the session, which waits for the batches under way; the store, the publisher, the
 * rest.
 *
 * Threads: start and stop from one thread.
 *
 * Questions take what acknowledgements leave of the processors: the query listener's workers and
 * the thread of http are background threads. What they share with the way of a batch is locked for
 * some instructions only: the store's view_lock and the locks of head and manifest while a view is
 * taken (references are counted), the pulse's while a host's slots are copied, the store's and the
 * session's for numbers of one host or of all,
 * the heap's. manifest_stats, once a second for http, goes through the list of segments under the
 * lock that publishing a sealing takes, microseconds. Decoding, sorting, packing and reading of
 * files happen under none. One that is put off while it holds one has a tenth of the processor's
 * time still, so it comes free within some ten milliseconds.
 *
 * They write, too: a poll that acknowledges syncs its subscription's small file, under the roster's
 * lock, and whoever closes the last view of a dropped segment removes its file. Nobody on the way
 * of a batch takes that lock; the feed's thread does when old messages go, and waits so long.
 *
 * All others stay as they are. Sealing makes the room that batches need: when it lags the head
 * fills and agents wait, and nobody may be put forward again. It writes files, too, as the
 * feed does, and whoever is put off with the file system's journal in hand holds up the log's next
 * sync. The feed's queue is bounded, and what does not fit is missed by subscribers. NNG's threads
 * do the TLS of all listeners. */
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
