/* What a collector looks at before it sends: the tables, its name, and what it sent before.
 * Threads: the owner of the ch_http. Errors of all: those of ch_http_ask. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_READY_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_READY_H

#include "collector/clickhouse/ch_http.h"
#include "common/os/uuid.h"

/* Asks every replica; sets up those that have nothing yet. One that is down is none to wait for as
 * long as another is ready: `clickhouse migrate` completes it. layout's dialect is found here.
 * ERR_VERSION: an administrator must migrate */
NODISCARD enum err ch_ready_tables(struct ch_http *h, const struct ch_layout *layout,
                                   struct errmsg *why);

/* self: what tells collectors of one name apart. ERR_EXISTS: another one was alive a moment ago */
NODISCARD enum err ch_ready_name(struct ch_http *h, const char *name, const struct uuid *self,
                                 struct errmsg *why);

/* What the ledger says that this collector has stored, of all that arrived from received_ns on. */
struct ch_ready_ledger {
    const char *collector;
    int64_t received_ns; /* 0 and less: everything */
    enum err (*add)(void *ctx, const struct uuid *host, uint64_t stream, uint64_t first,
                    uint64_t last);
    void *ctx;
};
NODISCARD enum err ch_ready_ledger(struct ch_http *h, const struct ch_ready_ledger *l,
                                   struct errmsg *why);

/* For tests: what the answer, Native, tells `add`. Errors: those of ch_native_next and add */
NODISCARD enum err ch_ready_ledger_read(const struct ch_ready_ledger *l, const void *p, size_t n);

/* The file `id` in this directory, made when it is not there. Errors: those of files */
NODISCARD enum err ch_ready_id(struct uuid *out, const char *dir, struct errmsg *why);

#endif
