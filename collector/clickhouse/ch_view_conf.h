/* What the far view (ch_view.h) is opened with, and its bounds. Plain data. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_CONF_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_CONF_H

#include "collector/clickhouse/ch_schema.h"
#include "common/base/err.h"

struct ch_view_hosts;
struct deadline;

#define CH_VIEW_HOSTS_MAX 1000000u
#define CH_VIEW_REPLY_MAX ((size_t)64 << 20)
#define CH_VIEW_LIST_MAX  ((size_t)256 << 20)
#define CH_VIEW_ASK_NS    (60 * INT64_C(1000000000)) /* one statement without a deadline */

struct ch_view_conf {
    /* Sends a SELECT and puts what comes into `reply`, FORMAT Native. Errors: ERR_FULL (more than
     * fits), ERR_NOMEM, ERR_TIMEOUT, any other: it did not answer */
    enum err (*ask)(void *ctx, const char *sql, int64_t timeout_ns, struct buf *reply,
                    struct errmsg *why);
    void (*closed)(void *ctx); /* the view has closed, or could not be opened; may be NULL */
    void *ctx;
    enum ch_dialect dialect;
    const char *database;        /* letters, digits and _ */
    struct ch_view_hosts *hosts; /* what was listed a moment ago, borrowed; NULL: ask */
    /* Windows as long as this, or that begin longer ago, are read from the tiers where these say
     * the same; 0: none. */
    int64_t tiers_least_ns, tiers_age_ns;
    const struct deadline *deadline; /* of what is asked without one; NULL: none */
};

#endif
