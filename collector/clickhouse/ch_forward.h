/* Requests of `clickhouse forward` to the collector that runs: files in data_dir/clickhouse, so
 * that the one process that has the store does it, and whoever may write there may ask.
 *   forward       "SINCE UNTIL GLOB\n", ns since 1970; stays until it is done, over restarts
 *   forward.done  how many batches were sent, and why no more when something failed
 * Threads: any. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_FORWARD_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct ch_forward {
    int64_t since_ns, until_ns;
    char hosts[257]; /* a pattern */
};

/* Writes the request; a collector takes it up within seconds. */
NODISCARD enum err ch_forward_ask(const char *data_dir, int64_t since_ns, int64_t until_ns,
                                  const char *hosts, struct errmsg *why);
/* True: it is done, and so many were sent; failed: why not all, "": they all were. */
bool ch_forward_done(const char *data_dir, uint64_t *batches, struct errmsg *failed);

/* -- of the collector; dir: data_dir/clickhouse -- */

bool ch_forward_get(const char *dir, struct ch_forward *out); /* false: there is none */
NODISCARD enum err ch_forward_end(const char *dir, uint64_t batches, enum err failed);

#endif
