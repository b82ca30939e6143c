/* What all queries share: which hosts, which window of each, what is missing there, how large the
 * answer may grow, and the cursor. Private to collector/query*.c. */
#ifndef PROCFLEET_COLLECTOR_QUERY_PLAN_H
#define PROCFLEET_COLLECTOR_QUERY_PLAN_H

#include "collector/query.h"

/* One selected host and its window. */
struct query_span {
    size_t host; /* index in the view */
    const struct store_host *about;
    int64_t since_ns, until_ns;
    bool anchored;   /* the window hangs on the host's newest data */
    uint32_t answer; /* index in the answer's hosts, or QUERY_NO_HOST */
};

#define QUERY_NO_HOST UINT32_MAX

/* Why an answer has a remark. Those up to QNOTE_PARTIAL_LAST make it partial. */
enum query_note {
    QNOTE_LOST,
    QNOTE_GAPS,
    QNOTE_MISSING,
    QNOTE_BEGINS_LATE,
    QNOTE_ENDS_EARLY,
    QNOTE_PARTIAL_LAST = QNOTE_ENDS_EARLY,
    QNOTE_POLLED,
    QNOTE_REPLAY,
    QNOTE_SILENT,
    QNOTE_COUNT
};

/* Where the previous page ended: the sort key of its last row. */
struct query_cursor {
    bool set;
    char name[MODEL_HOST_NAME_MAX + 1];
    struct uuid host;
    int64_t when_ns;
    uint64_t a, b; /* what further orders the rows of this kind of query */
    uint32_t c;
};

struct query_remark {
    uint32_t hosts; /* that it concerns */
    size_t n;
    char who[256]; /* the first of them, with detail */
};

/* A query under way. */
struct query {
    enum query_kind kind;
    const struct query_env *env;
    const struct wire_query *ask;
    struct query_answer *out;
    struct errmsg *why;
    size_t n_spans;
    struct query_span *spans; /* in the view's order: by name, then id */
    uint32_t limit;
    size_t bytes; /* the answer so far, estimated from above */
    size_t n_hosts;
    struct wire_host *hosts; /* of the answer */
    struct query_cursor cursor;
    struct query_remark remarks[QNOTE_COUNT];
};

/* Checks the question, selects hosts, sets windows. def_metrics: columns when none were asked for.
 */
NODISCARD enum err query_plan(struct query *q, const uint8_t *def_metrics, uint8_t n_def,
                              uint32_t def_limit);

/* store_scan that honours the deadline and judges the span's coverage on the way.
 * since_ns may lie before the span's window: values before it are needed to compute growth. */
NODISCARD enum err query_scan(struct query *q, const struct query_span *s, int64_t since_ns,
                              enum err (*each)(void *ctx, const struct batch *b), void *ctx);

/* The host's place in the answer, entering it when needed. */
NODISCARD enum err query_host_index(struct query *q, struct query_span *s, uint32_t *index);

/* Room for a row with this much text and so many values? Counts it when there is. */
bool query_fits(struct query *q, const struct proc_info *info, size_t extra);

/* Sets the answer's cursor: the next page starts behind this key. */
void query_more(struct query *q, const struct query_cursor *key);

/* Notes, partial, hosts and window of the finished answer. */
NODISCARD enum err query_finish(struct query *q);

/* Order of hosts in answers: name, then id. */
int query_host_order(const char *name_a, const struct uuid *a, const char *name_b,
                     const struct uuid *b);

/* The span at which paging goes on (n_spans: none left); hosts before it are done. */
size_t query_first_span(const struct query *q);
bool query_is_cursor_host(const struct query *q, const struct query_span *s);
void query_key_host(struct query_cursor *key, const struct query_span *s);

/* Whether the process may be shown: pid, idle, name pattern. info may be NULL. */
bool query_wants(const struct query *q, struct proc_id id, const struct proc_info *info);

/* The queries; each has a file of its own. */
NODISCARD enum err query_hosts(struct query *q);
NODISCARD enum err query_top(struct query *q);
NODISCARD enum err query_processes(struct query *q);
NODISCARD enum err query_history(struct query *q);
NODISCARD enum err query_events(struct query *q);

#endif
