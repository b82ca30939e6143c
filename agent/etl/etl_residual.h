/* How many bytes stand behind the last fixed field of a kernel record's payload, by the layouts of
 * Microsoft's class descriptions alone: what newer systems append, the thread name for one, counts
 * as left over. An independent look at what the decoders make of it. Threads: any. */
#ifndef PROCFLEET_AGENT_ETL_ETL_RESIDUAL_H
#define PROCFLEET_AGENT_ETL_ETL_RESIDUAL_H

#include <stddef.h>

#include "agent/etl/etl_kinds.h"

/* The class in the figures' words ("process", "disk"); NULL: no figure is kept for such records. */
const char *etl_residual_name(const struct etl_kinds_event *kind);

/* Bytes left over; 0 too when the payload is short. */
size_t etl_residual_bytes(const struct etl_kinds_event *kind, const struct raw_event *raw);

#endif
