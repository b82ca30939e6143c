/* A small fleet of chance whose samples the test keeps, and answers to questions by a plain scan
 * over them: what the store's answers are compared with. Made from a seed; late and lost batches,
 * holes, pids used again, a host that starts anew. Threads: one. */
#ifndef PROCFLEET_TESTS_COLLECTOR_QUERY_PLAIN_H
#define PROCFLEET_TESTS_COLLECTOR_QUERY_PLAIN_H

#include "common/model/model.h"
#include "tests/collector/lab.h"

#define PLAIN_HOSTS   3u
#define PLAIN_METRICS 4u
#define PLAIN_TICK_S  5

extern const uint8_t plain_metrics[PLAIN_METRICS]; /* two counters, two gauges */

struct plain;

/* late: batches that arrive after later ones. */
struct plain *plain_make(uint64_t seed, unsigned ticks, bool late);
void plain_free(struct plain *p);

/* Puts the next batch into the store; false: there are no more. now_s: when it arrives. */
bool plain_put(struct plain *p, struct lab *l, double *now_s);

/* Of what has been put: the oldest and newest stamp, UTC ns. */
void plain_span(const struct plain *p, int64_t *first_ns, int64_t *last_ns);

uint64_t plain_random(struct plain *p, uint64_t below);

/* A value for an instance, or for a group. */
struct plain_value {
    unsigned host; /* from 1; 0: a group over hosts */
    struct proc_id id;
    char name[16];   /* of a group */
    int64_t when_ns; /* of a history's row */
    int64_t value;
};

/* What is asked. */
struct plain_ask {
    int64_t since_ns, until_ns;
    unsigned metric; /* index into plain_metrics */
    uint8_t by;      /* enum wire_by */
    uint8_t group_by;
    uint32_t pid;    /* history: this one */
    int64_t step_ns; /* history; 0: every sample */
};

/* Values in no order; *out is the caller's (mem_free). plain_history gives rows that have the
 * metric's value. */
size_t plain_top(const struct plain *p, const struct plain_ask *ask, struct plain_value **out);
size_t plain_history(const struct plain *p, const struct plain_ask *ask, struct plain_value **out);

/* Whether, for any host, the tick before the window is further away than growth looks back. */
bool plain_gap(const struct plain *p, const struct plain_ask *ask);

/* A pid of some process that has been put. */
uint32_t plain_pid(struct plain *p);

#endif
