/* What a collector tells the others through ClickHouse: that it is alive, and of which hosts it
 * hears.
 * Threads: the owner of the ch_http. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_TELL_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_TELL_H

#include "collector/clickhouse/ch_http.h"
#include "collector/clickhouse/ch_native.h"
#include "common/os/uuid.h"

struct store;

struct ch_host_state {
    bool connected;
    int64_t heard_ns;
    uint32_t clones;
};

struct ch_tell {
    struct ch_http *http;
    struct store *store;
    const char *name;
    const struct uuid *id; /* of data_dir */
    int64_t started_ns;
    struct buf *sql, *body; /* to work with */
    /* False: nothing is heard of it here. May be NULL. */
    bool (*host_state)(void *ctx, const struct uuid *host, struct ch_host_state *out);
    void *ctx;
};

/* A row in `collector`, and one in `host_state` for each host. What fails is logged at debug level:
 * the next one comes soon. */
void ch_tell_all(struct ch_tell *t);

#endif
