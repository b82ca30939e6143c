/* The fleet in few numbers: totals of each host, of all hosts, and the programs that take most, for
 * /metrics. Asked of the store as an operator would, over one view.
 * Bounds:  `hosts_max` hosts by name; the `programs` that use most of a CPU, and as many of the
 *          others by memory; sums are over all hosts, CPU and memory over the 4096 busiest.
 * Threads: any, one call each; takes as long as its queries. */
#ifndef PROCFLEET_COLLECTOR_METRICS_FLEET_H
#define PROCFLEET_COLLECTOR_METRICS_FLEET_H

#include "collector/query/query.h"
#include "common/base/buf.h"

#define FLEET_SPAN_NS (60 * CLK_S) /* what rates are means over */

struct fleet_conf {
    struct store *store;
    uint32_t hosts_max;
    uint32_t programs;
    bool programs_more; /* network, waiting, .NET's pauses: unpacks every batch of the minute */
    bool (*host_state)(void *ctx, const struct uuid *host, struct query_host_state *out);
    bool (*is_forgotten)(void *ctx, const struct uuid *host);
    void *ctx;
};

/* Appends the families. CPU and memory of a host that is not connected are left out; those of
 * programs are of the minute before now_ns by the hosts' own clocks.
 * Errors: those of query_run and store_view_open; ERR_NOMEM, ERR_FULL (out) */
NODISCARD enum err fleet_write(struct buf *out, const struct fleet_conf *conf, int64_t now_ns,
                               const struct deadline *deadline, struct errmsg *why);

#endif
