/* What the event sessions count of themselves, as rows for the loss ledger: why something is
 * missing, stage "etw". How much is missing stands in struct source_stats. Pure. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LEDGER_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LEDGER_H

#include "agent/source/ring/ring.h"
#include "agent/source/windows/etw_ctl.h"

struct etw_live_stats {
    uint64_t records;                   /* from all callbacks */
    uint64_t skipped;                   /* of them, of no use to anybody */
    uint64_t lost_events, lost_buffers; /* as the sessions or the stream say, whichever is more */
    uint64_t high_events, high_buffers; /* of them, those of the session of high rates */
    uint64_t dropped, refused;          /* by full rings; too long for one */
    uint64_t held;                      /* now, in the rings */
    uint64_t dropped_of[RING_KIND_COUNT];
    uint64_t items_skipped; /* extended items there was no room for */
    uint64_t sessions_lost, restarts, restarts_failed;
    uint64_t late, hurried;  /* see etw_merge.h */
    int64_t callback_p99_ns; /* of the last seconds, of the slowest session; 0 = nothing came */
    struct etw_ctl_stats ctl;
};

/* The same rows in the same order whatever their counts. Gives their number. */
size_t etw_ledger(const struct etw_live_stats *v, struct ledger_row *rows, size_t max);

#endif
