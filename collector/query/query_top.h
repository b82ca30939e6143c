/* Top for groups: images, users and hosts, each over all hosts asked for. The order has been
 * checked. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_TOP_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_TOP_H

#include "collector/query/query_plan.h"

NODISCARD enum err query_groups(struct query *q);

#endif
