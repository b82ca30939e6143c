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
#define ETW_LEDGER_ROW(member, reason) {reason, v->member},
        ETW_LEDGER_COUNTERS(ETW_LEDGER_ROW)
#undef ETW_LEDGER_ROW
#define ETW_CTL_ROW(member, reason) {reason, v->ctl.member},
            ETW_CTL_COUNTERS(ETW_CTL_ROW)
#undef ETW_CTL_ROW
    };
    static const char *const sheds[SOURCE_SHED_COUNT] = {
        [SOURCE_SHED_NETWORK] = "shed_network",   [SOURCE_SHED_FILE] = "shed_file",
        [SOURCE_SHED_REGISTRY] = "shed_registry", [SOURCE_SHED_VIRTUAL] = "shed_virtual",
        [SOURCE_SHED_CLR] = "shed_clr",
    };
    size_t n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        n = put(rows, n, max, all[i].reason, all[i].count);
    }
    for (unsigned g = 0; g < SOURCE_SHED_COUNT; g++) {
        n = put(rows, n, max, sheds[g], v->sheds[g]);
    }
    for (unsigned k = 0; k < RING_KIND_COUNT; k++) {
        n = put(rows, n, max, ring_full_reason((enum ring_kind)k), v->dropped_of[k]);
    }
    return n;
}
