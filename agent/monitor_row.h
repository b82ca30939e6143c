/* A process as it stands, on its own. For pipeline.c. Threads: one owner. */
#ifndef PROCFLEET_AGENT_MONITOR_ROW_H
#define PROCFLEET_AGENT_MONITOR_ROW_H

#include "agent/monitor.h"

/* p is settled (aggregate_settle). */
void monitor_row_copy(struct monitor_row *out, const struct instance *p);

#endif
