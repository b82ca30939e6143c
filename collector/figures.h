/* The numbers the collector keeps of itself, gathered from its stages in one place: what /metrics,
 * Admin/Status and the doctor's forecasts show. Names and units follow OpenMetrics: snake case,
 * base units (seconds, bytes), counters end with _total. Threads: any; stages are asked through
 * their own _stats functions. */
#ifndef PROCFLEET_COLLECTOR_FIGURES_H
#define PROCFLEET_COLLECTOR_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define FIGURES_MAX 512u

enum figure_kind { FIGURE_COUNTER, FIGURE_GAUGE };

struct figure {
    const char *name; /* "procfleet_store_batches_total" */
    const char *help; /* one sentence */
    enum figure_kind kind;
    char labels[64]; /* `tier="raw"`, values escaped, or "" */
    double value;
};

struct figures {
    size_t n;
    struct figure all[FIGURES_MAX]; /* figures of one name lie side by side */
};

/* Where the numbers come from; a stage that is not there is NULL. Borrowed. */
struct figures_env {
    struct store *store;
    struct session *session;
    struct feed *feed;
    struct journal *journal;
    struct roster *roster;
    struct rpc_server *ingest, *query, *enroll;
    struct net_pub *pub;
    struct trust *trust;
    int64_t started_ns; /* UTC */
};

void figures_gather(struct figures *out, const struct figures_env *env);

#endif
