/* What the event sessions count of themselves, as rows for the loss ledger: why something is
 * missing, stage "etw". How much is missing stands in struct source_stats. Pure. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LEDGER_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_ETW_LEDGER_H

#include "agent/source/ring/ring.h"
#include "agent/source/source_shed.h"
#include "agent/source/windows/etw_ctl.h"

/* member, reason. Grows only. */
#define ETW_LEDGER_COUNTERS(X)                                                              \
    X(lost_events, "kernel_events") /* as sessions or stream say, whichever is more, */     \
    X(lost_buffers, "kernel_buffers")                                                       \
    X(high_events, "high_rate_events") /* and of them those of the session of high rates */ \
    X(high_buffers, "high_rate_buffers")                                                    \
    X(skipped, "skipped")             /* records of no use */                               \
    X(refused, "ring_refused")        /* too long for a ring */                             \
    X(items_skipped, "items_skipped") /* extended items there was no room for */            \
    X(sessions_lost, "session_lost")                                                        \
    X(restarts, "restarts")                                                                 \
    X(restarts_failed, "restarts_failed")                                                   \
    X(late, "late") /* see etw_merge.h */                                                   \
    X(hurried, "hurried")

struct etw_live_stats {
#define ETW_LEDGER_COUNTER(member, reason) uint64_t member;
    ETW_LEDGER_COUNTERS(ETW_LEDGER_COUNTER)
#undef ETW_LEDGER_COUNTER
    uint64_t sheds[SOURCE_SHED_COUNT]; /* groups that were too many by themselves */
    uint64_t records;                  /* from all callbacks */
    uint64_t dropped;                  /* by full rings, */
    uint64_t dropped_of[RING_KIND_COUNT];
    uint64_t lost_at_start;  /* events and buffers, by kernel and ring: see etw_session_watch */
    uint64_t held;           /* now, in the rings */
    int64_t callback_p99_ns; /* of the last seconds, of the slowest session; 0 = nothing came */
    struct etw_ctl_stats ctl;
};

/* The same rows in the same order whatever their counts. Gives their number. */
size_t etw_ledger(const struct etw_live_stats *v, struct ledger_row *rows, size_t max);

#endif
