/* Questions over a view of the store: hosts, top, processes, history, events.
 * An answer is computed from what the view holds when it was opened, and says what it does not
 * know: `partial` when a host or span asked for is missing or known to have loss, notes otherwise.
 *
 * Windows are [since, until) in UTC ns by each host's own stamps. With since = until = 0 the window
 * is the last `last_ns` (0: 15 minutes) up to the host's newest data, so that a recording that has
 * ended still answers. Only since: up to the newest data; only until: the last `last_ns` before it.
 *
 * What values stand for: Top gives each counter's growth inside the window (last value minus the
 * last one before the window; from zero when the process began inside it; from the first value
 * inside when nothing is known of before) and each gauge's last value. Processes gives running
 * totals and last values. History gives each counter's growth since the previous row of the process
 * and the gauge's value; absent where there is no previous row. cpu_percent is the growth of
 * cpu_time over the monotonic time of the same span, in permille of one logical CPU (Processes: the
 * last 10 s).
 *
 * Hosts that are forgotten are in no answer unless they are asked for, by name, by id or all. Of
 * recordings that have ended nothing more is expected: a window without their data lacks nothing.
 *
 * Coverage gives for each host what of its window was delivered and lost (query_ledger.h); every
 * other answer but that of hosts ends with a sentence that says how much that is.
 *
 * Bounds: WIRE_ROWS_MAX rows and QUERY_REPLY_MAX bytes in one answer, more with a cursor;
 * QUERY_MEMORY_MAX of working memory. Threads: any, one query each. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_H

#include "collector/store/read/store_read.h"
#include "common/base/arena.h"
#include "common/wire/wire_query.h"

#define QUERY_REPLY_MAX  (4u << 20) /* encoded; rows end well before */
#define QUERY_MEMORY_MAX ((size_t)96 << 20)
#define QUERY_LAST_NS    (15 * 60 * CLK_S)

enum query_kind {
    QUERY_HOSTS,
    QUERY_TOP,
    QUERY_PROCESSES,
    QUERY_HISTORY,
    QUERY_EVENTS,
    QUERY_COVERAGE,
    QUERY_TREE,
    QUERY_OVERVIEW
};

/* What the store does not know of a host: the session's part. */
struct query_host_state {
    bool connected;
    bool revoked;             /* its newest certificate is */
    struct host_offset clock; /* as it is now */
    int64_t heard_ns;         /* UTC */
    int64_t not_before_ns;    /* UTC, of the certificate */
    int64_t not_after_ns;
    unsigned clones; /* further machines that claim to be it */
    /* batches, since the collector's start */
    uint64_t stored, duplicates, conflicts, corrupt, spoofed, too_old;
    char version[32]; /* of the agent */
};

/* Who asks, of what, until when. */
struct query_env {
    const struct store_view *view;
    const char *scope; /* host glob of the asking certificate; NULL or "" = every host */
    int64_t now_ns;    /* UTC */
    const struct deadline *deadline; /* NULL = none */
    bool store_failed;               /* what the view holds is all there will be until a restart */
    const struct store_stats *stats; /* for Overview; may be NULL */
    const struct store_room *room;   /* likewise */
    /* false: the host has not been seen since the collector started. May be NULL. */
    bool (*host_state)(void *ctx, const struct uuid *host, struct query_host_state *out);
    /* Whether an operator has said that it is not coming back, and it has not. May be NULL. */
    bool (*is_forgotten)(void *ctx, const struct uuid *host);
    void *ctx;
};

struct query_answer {
    struct wire_answer data; /* texts belong to the view or to `memory` */
    bool more;               /* ask again with the cursor */
    uint8_t cursor_n;
    uint8_t cursor[WIRE_CURSOR_MAX];
    struct arena memory;
};

/* out  released by query_answer_fini, also after an error; must not outlive env->view.
 * Errors: ERR_INVALID (the question; why says what), ERR_TIMEOUT (the deadline), ERR_FULL (too much
 * working memory: a narrower question works), ERR_NOMEM, and those of store_scan */
NODISCARD enum err query_run(struct query_answer *out, enum query_kind kind,
                             const struct query_env *env, const struct wire_query *ask,
                             struct errmsg *why);
void query_answer_fini(struct query_answer *a);

/* How many hosts of the view may be seen by `env`'s scope and are not forgotten. */
uint32_t query_count_hosts(const struct query_env *env);

#endif
