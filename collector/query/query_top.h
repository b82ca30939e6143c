/* The rows of Top, also for series, whose groups they are. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_TOP_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_TOP_H

#include "collector/query/query_groups.h"

/* Ranks what a planned question asks for and enters it as the answer's rows.
 * members  NULL: not wanted
 * Errors: those of query_run */
NODISCARD enum err query_top_rows(struct query *q, struct query_groups_members *members);

#endif
