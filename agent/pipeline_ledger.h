/* What the stages from source to sampler have counted, as rows for the loss ledger. Pure. */
#ifndef PROCFLEET_AGENT_PIPELINE_LEDGER_H
#define PROCFLEET_AGENT_PIPELINE_LEDGER_H

#include "agent/monitor.h"

/* The same rows in the same order, `max` at most, without the source's own. Returns their number.
 */
size_t pipeline_ledger(const struct monitor_stats *s, struct ledger_row *rows, size_t max);

#endif
