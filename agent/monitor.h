/* The agent as a library: source → decode → aggregate → sampler, nothing sent. What happens on the
 * host comes out as ticks and lifecycle events.
 * Order:   create, run (blocks), destroy; stop from any thread.
 * Threads: the sinks are called from the thread that is in monitor_run, one at a time. */
#ifndef PROCFLEET_AGENT_MONITOR_H
#define PROCFLEET_AGENT_MONITOR_H

#include "agent/aggregate.h"
#include "agent/decode/decode.h"
#include "agent/levels.h"
#include "agent/lifecycle.h"
#include "agent/ptable.h"
#include "agent/sampler.h"
#include "agent/source.h"
#include "common/err.h"

struct monitor;

struct monitor_conf {
    /* Opens the source of events; called once, by monitor_create. */
    enum err (*open)(void *ctx, struct source **out, struct source_sink sink, struct errmsg *why);
    void *open_ctx;
    int64_t period_ns; /* distance of ticks; live, the level makes it longer where it must */
    /* Live only: what the agent may cost; cpus is the source's. NULL: always at period_ns. */
    const struct levels_conf *levels;                        /* read by monitor_create */
    void (*level)(void *ctx, const struct level_step *step); /* may be NULL */
    size_t processes_max; /* of one tick; twice as many instances are remembered */
    void (*tick)(void *ctx, const struct sample_tick *tick); /* everything is borrowed */
    void (*life)(void *ctx, const struct life_event *ev);    /* during the call */
    void *ctx;
};

struct monitor_stats {
    struct source_stats source;
    struct decode_counts decode;
    struct ptable_stats ptable;
    struct lifecycle_stats lifecycle;
    struct aggregate_stats aggregate;
    struct sampler_stats sampler;
    unsigned level;                          /* now; see levels.h */
    uint64_t level_steps[LEVEL_CAUSE_COUNT]; /* so far, by cause */
};

#define MONITOR_LEDGER_ROWS 32

/* Opens the source too. Errors: those of the source's open, ERR_INVALID (period), ERR_NOMEM */
NODISCARD enum err monitor_create(struct monitor **out, const struct monitor_conf *conf,
                                  struct errmsg *why);
void monitor_destroy(struct monitor *m); /* NULL is allowed; run must have returned */

const struct source_about *monitor_about(const struct monitor *m);

/* ERR_OK after monitor_stop, ERR_END at the end of a recording (the last tick has been made in both
 * cases), else what went wrong with the source. */
NODISCARD enum err monitor_run(struct monitor *m);
void monitor_stop(struct monitor *m); /* idempotent, never blocks */

/* What is known of a process at this moment; out->info is borrowed until the sink returns.
 * monitor_process gives the newest instance of that pid, which may have ended; by_key gives exactly
 * the one that is meant. From the thread in monitor_run (a sink), or when run has returned.
 * Errors: ERR_NOTFOUND */
NODISCARD enum err monitor_process(struct monitor *m, uint32_t pid, struct sample_row *out);
NODISCARD enum err monitor_process_by_key(struct monitor *m, struct proc_id id,
                                          struct sample_row *out);

/* From the thread in monitor_run (a sink), or when run has returned. monitor_ledger gives the same
 * counters as rows for the loss ledger, always MONITOR_LEDGER_ROWS of them at most, in the same
 * order. */
void monitor_stats(const struct monitor *m, struct monitor_stats *out);
size_t monitor_ledger(const struct monitor *m, struct ledger_row *rows, size_t max);

#endif
