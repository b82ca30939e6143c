/* The question's filter (--where): which hosts can have rows that fit, and which rows do.
 *
 * Fields are those of processes (expr_process.h), of hosts (inventory.h, `host`, `cores`, `memory`,
 * `up`, `label.KEY`) and, of events, their own (expr_event.h). A host is left out as soon as
 * nothing of a process could make the filter true. Rows of which it is not known are left out and
 * counted, and a remark says so. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_WHERE_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_WHERE_H

#include "collector/query/query_impl.h"

/* What is judged. */
struct query_where_row {
    const struct query_span *span;
    const struct proc_info *info;   /* NULL: nothing is known, but perhaps */
    const struct proc_id *id;       /* this; or NULL */
    const struct life_event *event; /* NULL: none */
    /* The value of the answer's i-th metric; NULL: there are none. */
    bool (*value)(const struct query_where_row *row, unsigned i, int64_t *v);
    const void *of;
    const void *at;
};

/* Compiles the filter; with none q->where stays NULL. `metrics`: rows have values. Errors:
 * ERR_INVALID (why names the column), ERR_NOMEM */
NODISCARD enum err query_where_make(struct query *q, bool metrics);

/* Whether it asks what the store may know of an event's process. */
bool query_where_process(const struct query *q);

/* The filter's metrics, which the answer must have; the i-th, 0 after the last. */
uint8_t query_where_metric(const struct query *q, unsigned i);

/* Whether any row of the host could fit. */
bool query_where_host(struct query *q, const struct query_span *s);

/* Whether the row fits; true without a filter. Counts those of which it is not known. */
bool query_where_fits(struct query *q, const struct query_where_row *row);

/* Adds the sentence about rows of which it is not known; empty: there are none. */
void query_where_note(const struct query *q, char *text, size_t size);

#endif
