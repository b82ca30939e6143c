#include "agent/agent_ledger.h"

static size_t put(struct ledger_row *rows, size_t n, size_t max, const char *stage,
                  const char *reason, uint64_t count)
{
    if (n < max) {
        rows[n++] = (struct ledger_row){str_make(stage), str_make(reason), count};
    }
    return n;
}

static size_t uplink_rows(struct uplink *uplink, struct ledger_row *rows, size_t max)
{
    struct uplink_status u;
    size_t n = 0;

    uplink_status(uplink, &u);
    n = put(rows, n, max, "uplink", "in", u.taken);
    n = put(rows, n, max, "uplink", "held", u.held);
    n = put(rows, n, max, "uplink", "out", u.acknowledged);
    n = put(rows, n, max, "uplink", "duplicate", u.duplicates);
    n = put(rows, n, max, "uplink", "quarantined", u.quarantined);
    n = put(rows, n, max, "uplink", "metrics_quarantined", u.quarantined_rows);
    return put(rows, n, max, "uplink", "events_quarantined", u.quarantined_events);
}

size_t agent_ledger(const struct agent_ledger *l, struct ledger_row *rows, size_t max)
{
    size_t n = monitor_ledger(l->monitor, rows, max);

    n = put(rows, n, max, "filter", "redacted", privacy_stats(l->filter)->redacted);
    n += batch_ledger(l->batch, rows + n, max - n);
    n += agent_store_ledger(l->store, rows + n, max - n);
    n += agent_identity_ledger(l->identity, rows + n, max - n);
    return n + uplink_rows(l->uplink, rows + n, max - n);
}
