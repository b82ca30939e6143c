/* Batches read back from the store, whole again: what the sink did not get to send while it was
 * fresh. Of the head they are as they came; of sealed windows the rows, joined over batches there,
 * are cut at the ticks that the batch's rest has, which gives the runs that it had.
 * Threads: those of the view. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_BACKLOG_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_BACKLOG_H

#include "collector/clickhouse/ch_rows.h"
#include "collector/store/read/store_read.h"

struct ch_backlog {
    const struct store_view *view;
    /* Whether this batch is of no interest: it is sent. */
    bool (*is_sent)(void *ctx, const struct uuid *host, uint64_t stream, uint64_t seq);
    /* A batch that is not; valid during the call. rows NULL though it has ticks: they are gone or
     * cannot be read. An error ends the scan and is returned. */
    enum err (*take)(void *ctx, const struct ch_rows_batch *b);
    /* What the store knows of a process of batches taken from sealed windows, whose infos may be
     * left out there; seen_ns: of the newest of these batches. May be NULL. */
    enum err (*process)(void *ctx, const struct uuid *host, const struct uuid *boot,
                        const struct proc_info *info, int64_t seen_ns);
    void *ctx;
};

/* Every batch of the host that is not sealed. Errors: those of store_view_raw and take; one that
 * cannot be decoded is left out */
NODISCARD enum err ch_backlog_head(const struct ch_backlog *b, size_t host);
/* The same of every host that the store has now, in place of b's view. */
NODISCARD enum err ch_backlog_heads(const struct ch_backlog *b, struct store *store);

/* Every batch of the host in windows (5 min) of which something may have been made in
 * [since, until), sealed or not: by the collector's clock as told from the host's then, since
 * what is known of that now may have nothing to do with it.
 * Errors: those of store_blocks_scan, store_info_each, take and process */
NODISCARD enum err ch_backlog_span(const struct ch_backlog *b, size_t host, int64_t since_ns,
                                   int64_t until_ns);

#endif
