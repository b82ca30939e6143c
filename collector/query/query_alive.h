/* A table of the instances that live at the end of a span, and on demand of those that ended inside
 * it: for Processes and Tree. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_ALIVE_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_ALIVE_H

#include "collector/query/query_table.h"

/* Values of the last seconds before s->until_ns, and before them the newest of each process; then
 * everything else that is known to have lived. ended: since s->since_ns. */
NODISCARD enum err query_alive_fill(struct query_table *t, const struct query_span *s, bool ended);

/* Whether it is said to have ended inside the span. */
bool query_alive_ended(const struct query_inst *inst, const struct query_span *s);

#endif
