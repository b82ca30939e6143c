/* Live tabs of the console while a fleet reports: clients that ask what the page asks, as often as
 * it does, each under a certificate of its own, by RPC Query/Web as `procfleet console` relays it.
 *
 *   every other tab, from the first   Fleet: each 10 s hosts, overview and coverage of the last
 *                                     15 minutes, each 30 s pulse; all pages
 *   the others                        Host, of one host each: each 2 s four series, lifetimes,
 *                                     hosts, events and top of the last 15 minutes
 *
 * Linux. Threads: one owner. */
#ifndef PROCFLEET_TESTS_BENCH_FLEET_TABS_H
#define PROCFLEET_TESTS_BENCH_FLEET_TABS_H

#include "tests/support/fleet_collector.h"

#define FLEET_TABS_MAX 32u

struct fleet_tabs;

struct fleet_tabs_conf {
    const struct fleet_collector *collector;
    const char *keys_dir;
    unsigned tabs;  /* up to FLEET_TABS_MAX */
    unsigned hosts; /* "gen-1" to "gen-hosts" */
};

/* Errors: those of fleet_pki_tab and rpc_client_open, ERR_NOMEM */
NODISCARD enum err fleet_tabs_start(struct fleet_tabs **out, const struct fleet_tabs_conf *conf,
                                    struct errmsg *why);

struct fleet_tabs_sum {
    uint64_t answered, failed; /* failed: no answer, or a status other than 200 */
    uint64_t bytes;
    double p50_ms, p99_ms; /* of the last 4,096 answers */
};

/* Ends all. NULL is allowed. */
void fleet_tabs_stop(struct fleet_tabs *t, struct fleet_tabs_sum *out);

#endif
