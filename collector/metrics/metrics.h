/* The numbers the collector keeps of itself, gathered from its stages in one place: what /metrics,
 * Admin/Status and the doctor's forecasts show. Names and units follow OpenMetrics: snake case,
 * base units (seconds, bytes), counters end with _total. Threads: any; stages are asked through
 * their own _stats functions. */
#ifndef PROCFLEET_COLLECTOR_METRICS_METRICS_H
#define PROCFLEET_COLLECTOR_METRICS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define METRICS_MAX 512u

enum metrics_kind { METRICS_COUNTER, METRICS_GAUGE };

struct metrics_value {
    const char *name; /* "procfleet_store_batches_total" */
    const char *help; /* one sentence */
    enum metrics_kind kind;
    char labels[64]; /* `tier="raw"`, values escaped, or "" */
    double value;
};

struct metrics {
    size_t n;
    struct metrics_value all[METRICS_MAX]; /* those of one name lie side by side */
};

struct ch_sink;
struct console;
struct console_door;
struct feed;
struct journal;
struct http_server;
struct net_pub;
struct pulse;
struct subscriptions;
struct rpc_server;
struct rules_live;
struct session;
struct store;
struct trust;

/* Where the numbers come from; a stage that is not there is NULL. Borrowed. */
struct metrics_env {
    struct store *store;
    struct pulse *pulse;
    struct ch_sink *sink;
    struct rules_live *rules;
    struct session *session;
    struct feed *feed;
    struct journal *journal;
    struct subscriptions *subscriptions;
    struct rpc_server *ingest, *query, *enroll;
    struct net_pub *pub;
    struct http_server *http;
    struct console *console;
    struct console_door *door;
    struct trust *trust;
    int64_t started_ns; /* UTC */
    uint32_t hosts;     /* of the store, without those that are forgotten */
};

/* Fills `out`; METRICS_MAX is asserted to suffice. Reads
 * /proc/self: no call for hot paths. */
void metrics_gather(struct metrics *out, const struct metrics_env *env);

#endif
