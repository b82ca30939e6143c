/* Which stretches of a host's span sums of groups say all of, in whole steps. Private to
 * collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_PIECES_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_PIECES_H

#include "collector/query/query_impl.h"

struct query_pieces {
    int64_t since_ns, until_ns, step_ns; /* since: a multiple of step */
    unsigned n_columns;
    uint8_t columns[WIRE_METRICS_MAX]; /* metrics */
    size_t n, at; /* windows; the first that does not end before what was asked for last */
    struct store_groups *list;
};

/* Finds the windows; in `memory`. Errors: those of store_groups_list */
NODISCARD enum err query_pieces_list(struct query_pieces *p, const struct store_view *v,
                                     size_t host, struct arena *memory);

/* The border of steps up to which sums say all from the border at_ns on; at_ns: they do not. What
 * came before was given, so that the window before is in the answer. To be asked with rising
 * borders. */
int64_t query_pieces_sums(struct query_pieces *p, int64_t at_ns);

#endif
