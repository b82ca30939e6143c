/* Many simulated agents in one process, driven at their rates, and what their batches took. A few
 * threads make the ticks of all agents, each those of its share, in the order in which they are
 * due; agents begin spread over the time of a batch. Who is behind catches up: no tick is left out.
 * Threads: one owner. Out of memory and unusable certificates end the program. */
#ifndef PROCFLEET_TESTS_BENCH_FLEET_LOAD_H
#define PROCFLEET_TESTS_BENCH_FLEET_LOAD_H

#include <stdio.h>

#include "tests/support/fleet_agent.h"

struct fleet_load_conf {
    unsigned agents, burst;        /* the first `burst` of them tick at 10 Hz */
    unsigned generators;           /* threads, 1 to 8 */
    struct fleet_agent_conf agent; /* of all; seed, keys, spool_dir and addresses are filled in */
    const char *keys_dir;
    const char *spool_dir; /* one below it for each agent; NULL: batches wait in memory */
    const char *address;   /* of the collector */
    FILE *journal;         /* a line per tick and event; may be NULL */
};

struct fleet_load;

/* Makes keys where there are none yet, and the agents. */
struct fleet_load *fleet_load_create(const struct fleet_load_conf *conf);
void fleet_load_connect(struct fleet_load *l, unsigned per_second); /* 0: all at once */
/* Makes the ticks of the first `seconds` on all cores before they are due; fleet_load_run then
 * begins when they were expected to be ready, or later. Not with spools. */
void fleet_load_premake(struct fleet_load *l, unsigned seconds);
void fleet_load_run(struct fleet_load *l); /* ticks begin */
/* From here on acknowledgements are measured, anew, or no longer. */
void fleet_load_measure(struct fleet_load *l, bool on);

struct fleet_load_sum {
    uint64_t ticks, events, rows, values; /* made */
    uint64_t batches, bytes;              /* left the batch stage */
    uint64_t acknowledged, duplicates, resent, quarantined;
    uint64_t lost; /* dropped by the queue or the spool; want of memory; too large */
    uint64_t held; /* handed to the uplink's queue or spool, not acknowledged yet */
    uint64_t measured_batches, measured_values; /* acknowledged while measured */
    int64_t late_ns; /* the most a tick came later than due, while measured */
};
void fleet_load_sum(struct fleet_load *l, struct fleet_load_sum *out);

/* Time from a batch's making, or its first sending, to its acknowledgement, of those measured: the
 * value that `permille` of them do not exceed; within 4 %. */
int64_t fleet_load_made_ns(const struct fleet_load *l, unsigned permille);
int64_t fleet_load_sent_ns(const struct fleet_load *l, unsigned permille);

/* How many agents had their Hello, or a batch, answered after that (monotonic) moment, and when the
 * last of them had. */
struct fleet_load_back {
    unsigned greeted, acked;
    int64_t greeted_ns, acked_ns;
};
/* When so many permille of all agents had their (last) Hello answered. */
int64_t fleet_load_greeted_ns(struct fleet_load *l, unsigned permille);
void fleet_load_back(struct fleet_load *l, int64_t since_ns, struct fleet_load_back *out);

/* Ends the ticks and hands on what is held. */
void fleet_load_finish(struct fleet_load *l);
void fleet_load_destroy(struct fleet_load *l); /* NULL is allowed */

#endif
