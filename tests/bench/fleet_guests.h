/* Who else uses a collector while a fleet reports to it: one who asks (top, hosts, history in turn)
 * and subscribers of the live stream, `procfleet tail` processes: one that listens, one that is
 * stopped every other second, and one that is stopped for good with its connection open; and one
 * with a durable subscription to events. Linux. Threads: one owner. */
#ifndef PROCFLEET_TESTS_BENCH_FLEET_GUESTS_H
#define PROCFLEET_TESTS_BENCH_FLEET_GUESTS_H

#include "tests/support/fleet_collector.h"

enum fleet_question { FLEET_TOP, FLEET_HOSTS, FLEET_HISTORY, FLEET_QUESTIONS };

struct fleet_guests;

struct fleet_guests_conf {
    const struct fleet_collector *collector; /* with events */
    const struct fleet_keys *operator_keys, *subscriber_keys;
    unsigned hosts;     /* "gen-1" to "gen-hosts" */
    int64_t every_ns;   /* between rounds of questions */
    const char *tail;   /* the command line's program */
    const char *prefix; /* of the file that says what subscribers complain about */
};

/* Errors: those of rpc_client_open, ERR_IO (a process cannot be started) */
NODISCARD enum err fleet_guests_start(struct fleet_guests **out,
                                      const struct fleet_guests_conf *conf, struct errmsg *why);

struct fleet_guests_sum {
    struct {
        unsigned answered, failed; /* failed: refused, or not answered in time */
        double p50_ms, p99_ms;
    } asked[FLEET_QUESTIONS];
    unsigned listening; /* subscribers that still run */
};

/* Ends all. NULL is allowed. */
void fleet_guests_stop(struct fleet_guests *g, struct fleet_guests_sum *out);

#endif
