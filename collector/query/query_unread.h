/* What of each span the collector's disk did not give: left out of the answer, told in a remark,
 * and not counted as delivered. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_UNREAD_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_UNREAD_H

#include "collector/query/query_plan.h"

/* Of one span. */
struct query_unread {
    uint32_t values;
    struct store_holes holes; /* inside the span */
    struct store_holes all;   /* also before it, where bases lie */
};

/* A scan of the span could not read what `used` says. Gives how many values of that are not known
 * yet: a question may read the same twice. */
uint32_t query_unread_add(struct query *q, const struct query_span *s,
                          const struct store_used *used);

/* From the first to the last moment of it; false: none is inside the span. */
bool query_unread_span(const struct query_unread *u, int64_t *first_ns, int64_t *last_ns);

/* Whether something between these moments, both left out, could not be read. */
bool query_unread_between(const struct query *q, const struct query_span *s, int64_t after_ns,
                          int64_t before_ns);

/* Delivered and readable, in parts per million; after query_cover_scan. */
uint32_t query_unread_ppm(const struct query *q, const struct query_span *s);

/* The remarks about it. With every page: each tells of what it was read from. */
void query_unread_remark(struct query *q);

/* Whether something can be answered. Errors: ERR_IO (nothing could be read; why says so) */
NODISCARD enum err query_unread_check(const struct query *q);

#endif
