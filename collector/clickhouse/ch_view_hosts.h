/* The hosts that ClickHouse knows, with what ListHosts says of them: one scan of the ledger's small
 * columns, and the rows of the newest batches by their keys. A list does not change, so views of
 * one moment share it (ch_source.h).
 * Threads: a list any, in as many views as hold it. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_HOSTS_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_HOSTS_H

#include "collector/store/read/store_read.h"

struct ch_view;
struct ch_view_hosts;

/* Asks through the view, which needs no hosts for it. Errors: those of ch_view_ask_rows, ERR_FULL
 * (above CH_VIEW_HOSTS_MAX) */
NODISCARD enum err ch_view_hosts_read(struct ch_view_hosts **out, struct ch_view *v);
struct ch_view_hosts *ch_view_hosts_ref(struct ch_view_hosts *h);
void ch_view_hosts_unref(struct ch_view_hosts *h); /* NULL is allowed */

/* By name, then id; valid as long as it is held. */
const struct store_host *ch_view_hosts_list(const struct ch_view_hosts *h, size_t *n);

#endif
