/* Which view a question reads: the local store's, ClickHouse's, or both as one (ch_join.h).
 *
 *   local   never ClickHouse
 *   far     always ClickHouse
 *   auto    far when the ledger knows of another collector alive in the last day; else the local
 *           store, joined with ClickHouse for windows that begin before its oldest data
 *
 * When ClickHouse does not answer, the local store does alone: what is older is a hole in the
 * answer, which says so.
 * Bounds:  CH_SOURCE_IDLE connections are kept; a question uses one of its own.
 * Threads: any. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_SOURCE_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_SOURCE_H

#include "collector/clickhouse/ch_http.h"
#include "collector/store/read/store_read.h"

#define CH_SOURCE_IDLE 4u

enum ch_source_mode { CH_SOURCE_AUTO, CH_SOURCE_LOCAL, CH_SOURCE_FAR };

struct ch_source_conf {
    struct store *store; /* borrowed */
    enum ch_source_mode mode;
    const struct ch_http_conf *server; /* as who asks; borrowed, with its texts */
    const char *name;                  /* of this collector */
    int64_t keep_cell_ns;              /* so long there are cells; 0: for ever */
};

struct ch_source;
/* Asks nothing. Errors: ERR_NOMEM */
NODISCARD enum err ch_source_open(struct ch_source **out, const struct ch_source_conf *conf);
void ch_source_close(struct ch_source *s); /* no view of it is open; NULL is allowed */

/* since_ns: where the earliest window of the question begins, UTC; INT64_MAX: it has none.
 * deadline: NULL: none; borrowed until the view closes. Errors: those of store_view_open and
 * ch_join_open */
NODISCARD enum err ch_source_view(struct ch_source *s, struct store_view **out, int64_t since_ns,
                                  const struct deadline *deadline);

#endif
