/* What a recording holds, found in the pass over it that comes before the reading: see enum
 * event_group. Threads: any; no state. */
#ifndef PROCFLEET_AGENT_SOURCE_TRACE_ETL_GROUPS_H
#define PROCFLEET_AGENT_SOURCE_TRACE_ETL_GROUPS_H

#include "agent/source/trace/etl_record.h"

/* The groups (enum event_group) that the record belongs to; 0: none. `p` and `k` as accepted by
 * etl_record_peek. */
uint32_t etl_groups_of(const struct etl_peek *k, const uint8_t *p);

#endif
