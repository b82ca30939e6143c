/* The collector over HTTP, for those who watch it: /metrics (OpenMetrics), /healthz, /readyz.
 *
 *   /healthz  200 while work goes on: our thread comes round each second, taking the store's locks,
 *             and nothing else stands still for a minute; else 503
 *   /readyz   200 when all listen and batches are taken; 503 and a sentence else
 *   /metrics  the collector's own metrics, totals of hosts, the largest programs; built when it is
 *             asked for, at most once in refresh_ns
 *
 * Bounds:  those of http_server.h and fleet.h; HTTP_TEXT_MAX of text, kept until the next one.
 * Threads: one of its own does all the work; the server's only queues requests. */
#ifndef PROCFLEET_COLLECTOR_METRICS_HTTP_H
#define PROCFLEET_COLLECTOR_METRICS_HTTP_H

#include "collector/metrics/fleet.h"
#include "collector/metrics/metrics.h"
#include "common/http/http_server.h"

#define HTTP_TEXT_MAX ((size_t)64 << 20)

struct http;

struct http_conf {
    const char *address;
    const char *const *names; /* and n_names: see http_server_conf */
    size_t n_names;
    int64_t refresh_ns;
    struct fleet_conf fleet;
    void (*metrics)(void *ctx, struct metrics *out);
    /* Whether all is well; else why says what is not. Called each second too. */
    bool (*ready)(void *ctx, struct errmsg *why);
    /* How long some thread has stood still in its work. Called each second. */
    int64_t (*stuck_ns)(void *ctx);
    void *ctx;
};

/* Errors: those of http_server_start; ERR_NOMEM, ERR_IO (thread) */
NODISCARD enum err http_start(struct http **out, const struct http_conf *conf, struct errmsg *why);
void http_stop(struct http *h); /* before the stages that it asks; NULL is allowed */
int64_t http_stuck_ns(const struct http *h, int64_t now_ns); /* since its thread came round */
unsigned http_port(const struct http *h);
struct http_server *http_listener(struct http *h); /* for its counters; borrowed */

#endif
