#include "agent/source/windows/etw_ledger.h"

static size_t put(struct ledger_row *rows, size_t n, size_t max, const char *reason, uint64_t count)
{
    if (n < max) {
        rows[n++] = (struct ledger_row){str_make("etw"), str_make(reason), count};
    }
    return n;
}

size_t etw_ledger(const struct etw_live_stats *v, struct ledger_row *rows, size_t max)
{
    const struct {
        const char *reason;
        uint64_t count;
    } all[] = {
        {"kernel_events", v->lost_events},
        {"kernel_buffers", v->lost_buffers},
        {"high_rate_events", v->high_events},
        {"high_rate_buffers", v->high_buffers},
        {"skipped", v->skipped},
        {"ring_refused", v->refused},
        {"items_skipped", v->items_skipped},
        {"session_lost", v->sessions_lost},
        {"restarts", v->restarts},
        {"restarts_failed", v->restarts_failed},
        {"late", v->late},
        {"hurried", v->hurried},
        {"started", v->ctl.started},
        {"orphan_reclaimed", v->ctl.orphan_reclaimed},
        {"grown", v->ctl.grown},
        {"resent", v->ctl.resent},
        {"flags_refused", v->ctl.flags_refused},
        {"providers_refused", v->ctl.providers_refused},
        {"filters_refused", v->ctl.filters_refused},
        {"calls_failed", v->ctl.failed},
    };
    size_t n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        n = put(rows, n, max, all[i].reason, all[i].count);
    }
    for (unsigned k = 0; k < RING_KIND_COUNT; k++) {
        n = put(rows, n, max, ring_full_reason((enum ring_kind)k), v->dropped_of[k]);
    }
    return n;
}
