/* The store as ClickHouse has it: a view (store_read.h) whose hosts, batches, cells and infos are
 * read by SQL from the tables of ch_tables.h. Questions do not know which view they ask.
 *
 * A batch is there when the ledger has a row of it with kind = CH_STORED; rows of other tables
 * count only then. What a host said besides samples is the ledger's `rest`, so blocks, accounts
 * and ticks are those that the local store gives. Samples come from `sample` where they were sent,
 * cells from `cell`. Rows that were sent twice come side by side, since all is asked for in the
 * order of its key, and count once.
 *
 * What a question asks of one host it asks of the next ones, too: statements are of many hosts
 * (ch_view_page.h), and the server adds up what allows it (ch_view_told.c, ch_view_cells.c).
 *
 * What ClickHouse does not answer is a hole: left out, and marked in store_used (`far`).
 * Bounds:  CH_VIEW_HOSTS_MAX hosts; CH_VIEW_REPLY_MAX bytes of one reply, what is larger is asked
 *          for in smaller pieces; a host's batches of one scan in CH_VIEW_LIST_MAX bytes.
 * Threads: one owner. Needs no other thread; each call waits for ClickHouse. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_H

#include "collector/clickhouse/ch_view_conf.h"
#include "collector/store/read/store_read.h"

/* Reads the list of hosts when conf has none. conf is copied, what it points to borrowed until the
 * view closes. Errors: those of `ask`, ERR_CORRUPT (what came is no answer), ERR_NOMEM, ERR_FULL */
NODISCARD enum err ch_view_open(struct store_view **out, const struct ch_view_conf *conf,
                                struct errmsg *why);

/* The list of such a view, for the next ones: ch_view_hosts_unref. */
struct ch_view_hosts *ch_view_hosts_of(const struct store_view *view);

#endif
