/* The tiers `minute` and `hour`: cells of an hour of a host become one a minute and one an hour for
 * each process, by statements that the server runs. Which hours are made, and of which batches,
 * says `fold`; an hour whose batches are others by now is made again.
 *
 * A row of a tier says the same as its cells together wherever no border cuts it: rows are folded
 * in the order of time, and those stay apart that would not add up (several sets of metrics, cells
 * that overlap).
 * Threads: one owner of the ch_http. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_FOLD_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_FOLD_H

#include "collector/clickhouse/ch_http.h"
#include "common/os/uuid.h"

#define CH_FOLD_MINUTE_NS (60 * INT64_C(1000000000))
#define CH_FOLD_HOUR_NS   (3600 * INT64_C(1000000000))

struct ch_fold_ask {
    const char *database;
    unsigned quorum;
    int64_t hour_ns;  /* a multiple of CH_FOLD_HOUR_NS, the hosts' stamps */
    int64_t now_ns;   /* UTC */
    int64_t again_ns; /* what was made so short a time ago is not made again */
    /* True: that is enough; may be NULL. */
    bool (*stop)(void *ctx);
    void *ctx;
};

/* Makes the hour of every host whose batches are not those that it was made of. *hosts: how many.
 * Harmless when repeated, and when others do it at the same time. Errors: those of ch_http_ask;
 * ERR_CLOSED (stop) */
NODISCARD enum err ch_fold_hour(struct ch_http *h, const struct ch_fold_ask *ask, size_t *hosts,
                                struct errmsg *why);

/* The expressions that tell whether an hour is what its batches say, over rows of the ledger, each
 * batch once: " kind = … AND …" and the sum over (stream, seq). */
#define CH_FOLD_NUMBERS "sum(cityHash64(stream, seq))"
void ch_fold_where(struct buf *sql);

/* ", …" what the rows of a metric make together, as columns of a tier. steps: also a counter's
 * largest step; else that inside one of the rows. */
struct metric;
void ch_fold_metric(struct buf *sql, const struct metric *m, bool steps);

/* -- for tests -- */

/* INSERT INTO `minute` or `hour` (t) … of these hosts; from: what rows of `minute` have as `made`
 * when t is CH_HOUR. Latches. */
struct ch_fold_part {
    enum ch_dialect dialect;
    const char *database;
    enum ch_table t;
    int64_t hour_ns;
    uint64_t made;
    const struct uuid *hosts;
    size_t n_hosts;
};
void ch_fold_sql(struct buf *sql, const struct ch_fold_part *p);

#endif
