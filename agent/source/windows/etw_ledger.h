/* What the event sessions count of themselves, as rows for the loss ledger: why something is
 * missing, stage "etw". How much is missing stands in struct source_stats. Pure. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LEDGER_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LEDGER_H

#include "agent/source/windows/etw_live.h"

/* The same rows in the same order whatever their counts. Gives their number. */
size_t etw_ledger(const struct etw_live_stats *v, struct ledger_row *rows, size_t max);

#endif
