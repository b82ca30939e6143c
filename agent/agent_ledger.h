/* The loss ledger of a running agent: the counters of all its stages, in the order data flows. For
 * agent.c alone. Threads: the core thread. */
#ifndef PROCFLEET_AGENT_AGENT_LEDGER_H
#define PROCFLEET_AGENT_AGENT_LEDGER_H

#include "agent/agent_identity.h"
#include "agent/agent_store.h"
#include "agent/batch/batch.h"
#include "agent/monitor.h"
#include "agent/privacy/privacy.h"
#include "agent/uplink/uplink.h"

struct agent_ledger {
    struct monitor *monitor; /* all borrowed */
    struct privacy *filter;
    const struct batch_builder *batch;
    struct agent_store *store;
    const struct agent_identity *identity;
    struct uplink *uplink;
};

/* Running totals, always the same rows in the same order. Gives how many. */
size_t agent_ledger(const struct agent_ledger *l, struct ledger_row *rows, size_t max);

#endif
