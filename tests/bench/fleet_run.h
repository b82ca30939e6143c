/* The phases of one run of bench_fleet, see there; figures are printed as they are known. Failing
 * ends the program. Linux. Threads: one owner. */
#ifndef PROCFLEET_TESTS_BENCH_FLEET_RUN_H
#define PROCFLEET_TESTS_BENCH_FLEET_RUN_H

#include "tests/bench/fleet_guests.h"
#include "tests/bench/fleet_load.h"
#include "tests/bench/fleet_tabs.h"
#include "tests/support/fleet_collector.h"

#define FLEET_RUN_SETS_MAX 32u

struct fleet_run {
    struct fleet_load_conf conf;
    double rate;
    unsigned seconds, down, connect_rate;
    const char *restart; /* kill, term, both; NULL = none */
    unsigned tabs;       /* live tabs of the console; 0: none */
    bool own_dir, json, no_tickets, premade, guests;
    char dir[FLEET_PATH_MAX], keys_dir[FLEET_PATH_MAX + 8], data_dir[FLEET_PATH_MAX + 32],
        spool_dir[FLEET_PATH_MAX + 48];
    const char *sets[FLEET_RUN_SETS_MAX];
    size_t n_sets;
    struct fleet_collector *collector; /* NULL: somebody else's */
    struct fleet_keys collector_keys, operator_keys, subscriber_keys;
    struct fleet_load *load;
    struct fleet_guests *company;
    int64_t all_connected_ns; /* from the first attempt on */
    bool wrong;
};

/* All phases; true when nothing was lost, stored twice or not stored at all. */
bool fleet_run(struct fleet_run *r);

#endif
