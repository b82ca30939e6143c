/* The agent as a library: source → decode → aggregate → sampler, nothing sent. What happens on the
 * host comes out as ticks and lifecycle events.
 * Order:   create, then start (a thread of its own) or run (the caller's), stop, destroy. A monitor
 *          runs once. monitor_open before either is for whoever must know the source first.
 * Threads: sinks are called on the core thread, the one of start or run, one at a time. While it
 *          runs everything below may be called from any thread unless it says otherwise, from a
 *          sink too; a question from another thread is answered when the source next comes by,
 *          which is within a tick. Before and after, by one thread at a time. */
#ifndef PROCFLEET_AGENT_MONITOR_H
#define PROCFLEET_AGENT_MONITOR_H

#include "agent/account/aggregate.h"
#include "agent/account/budget.h"
#include "agent/decode/decode.h"
#include "agent/forward/forward.h"
#include "agent/forward/meant.h"
#include "agent/privacy/process_filter.h"
#include "agent/process/instances.h"
#include "agent/process/lifecycle.h"
#include "agent/sample/sampler.h"
#include "agent/source/source.h"
#include "common/base/err.h"

struct monitor;

struct monitor_conf {
    /* Opens the source of events; called once, by monitor_open. */
    enum err (*open)(void *ctx, struct source **out, struct source_sink sink, struct errmsg *why);
    void *open_ctx;
    int64_t period_ns; /* distance of ticks; live, the level makes it longer where it must */
    /* Live only: what the agent may cost; cpus is the source's. NULL: always at period_ns. */
    const struct budget_conf *budget;                        /* read by monitor_create */
    void (*level)(void *ctx, const struct level_step *step); /* may be NULL */
    uint64_t (*bytes_sent)(void *ctx); /* so far, for the agent's own row; may be NULL */
    size_t processes_max;              /* of one tick; twice as many instances are remembered */
    /* Whose rows and lifecycle events come out; read by monitor_create. */
    struct process_filter_conf who;
    /* Whose events come out as LIFE_PROVIDER, beside the lifecycle's; read by monitor_create but
     * for the texts, and `privacy`. NULL: nobody's. */
    const struct forward_conf *events;
    /* Of these providers only what they mean is looked at, whatever the source tells; read by
     * monitor_create. */
    const struct source_provider *providers;
    size_t n_providers;
    void (*tick)(void *ctx, const struct sample_tick *tick); /* everything is borrowed */
    void (*life)(void *ctx, const struct life_event *ev);    /* during the call */
    /* The run is over, as monitor_run would say; the core thread's last call. May be NULL. */
    void (*ended)(void *ctx, enum err result);
    void *ctx;
};

/* What a process is and has used, on its own: row.info and its texts point into the struct. */
struct monitor_row {
    struct sample_row row;
    struct proc_info info;
    char text[MODEL_COMMAND_LINE_MAX + 3 * MODEL_TEXT_MAX]; /* longer ones are cut */
};

struct monitor_sink {
    void (*tick)(void *ctx, const struct sample_tick *tick); /* borrowed during the call */
    void *ctx;
};

/* Gets decoded events as they happened; `of` is whom they were charged to, NULL = nobody's. */
struct monitor_event_sink {
    void (*event)(void *ctx, const struct event *ev, const struct proc_info *of);
    void *ctx;
};

/* Gets events of providers that are no facts of the monitor's own, with the values of their fields
 * (event_values_read), as they happened: no limit, no privacy. `of` is the process of the record's
 * header, NULL = unknown. Everything is borrowed during the call. */
struct monitor_described_sink {
    void (*event)(void *ctx, const struct life_event *ev, const struct proc_info *of);
    void *ctx;
    const char *const *providers; /* as forward_conf's, borrowed as long as the sink is in use */
    size_t n_providers;           /* 0: every provider */
};

struct monitor_stats {
    int64_t cpu_ns, resident_bytes; /* of this program */
    struct source_stats source;
    struct decode_counts decode;
    struct instances_stats instances;
    struct lifecycle_stats lifecycle;
    struct aggregate_stats aggregate;
    struct forward_stats forward;
    struct sampler_stats sampler;
    uint64_t events; /* records and facts the source handed on */
    uint64_t table_rows;
    uint64_t filtered; /* rows and lifecycle events that did not come out because of `who` */
    unsigned level;    /* now; see budget.h */
    uint64_t level_steps[LEVEL_CAUSE_COUNT]; /* so far, by cause */
};

#define MONITOR_LEDGER_ROWS (57 + SOURCE_LEDGER_ROWS)

/* Touches nothing outside. Errors: ERR_RANGE (period), ERR_INVALID, ERR_FULL (who), ERR_NOMEM */
NODISCARD enum err monitor_create(struct monitor **out, const struct monitor_conf *conf,
                                  struct errmsg *why);
void monitor_destroy(struct monitor *m); /* NULL is allowed; stops what start began, and waits */

/* Opens the source; once more is fine. Errors: those of conf.open, ERR_NOMEM */
NODISCARD enum err monitor_open(struct monitor *m, struct errmsg *why);
const struct source_about *
monitor_about(const struct monitor *m); /* on the core thread, once open */

/* Opens and runs; returns at once, conf.ended tells the end. Idempotent. A system that refuses
 * events is no error where its process tables can be had: `why` then says which means are in use.
 * Errors: those of monitor_open, ERR_IO */
NODISCARD enum err monitor_start(struct monitor *m, struct errmsg *why);

/* The same in the caller's thread: ERR_OK after monitor_stop, ERR_END at the end of a recording
 * (the last tick has been made in both cases), else what went wrong with the source. */
NODISCARD enum err monitor_run(struct monitor *m);
void monitor_stop(struct monitor *m); /* idempotent, never blocks; also before it runs */

/* Opens a recording (.etl, and .etl.xz where the build can) instead of conf.open and plays it to
 * its end, as fast as it can be read, with its own times. Errors: ERR_EXISTS (there is a source),
 * those of etl_file_open and its run */
NODISCARD enum err monitor_read_etl(struct monitor *m, const char *path, struct errmsg *why);

/* Where events come from at the moment: "live", "snapshot", "proc", "etl"; `why` says by which
 * means and why by these. "" before the source is open. */
const char *monitor_source(struct monitor *m, struct errmsg *why);

/* Everybody who runs at this moment, with the newest that is known of each, as a tick of the wall
 * time now_ns; asks nothing of the system and changes no tick. Rows say nothing of `fresh`.
 * Errors: ERR_NOTFOUND (not open yet), ERR_NOMEM */
NODISCARD enum err monitor_collect(struct monitor *m, int64_t now_ns,
                                   const struct monitor_sink *sink);

/* What is known of a process at this moment, whether it is filtered or not. monitor_process gives
 * the newest instance of that pid, which may have ended; by_key gives exactly the one that is
 * meant. Errors: ERR_NOTFOUND */
NODISCARD enum err monitor_process(struct monitor *m, uint32_t pid, struct monitor_row *out);
NODISCARD enum err monitor_process_by_key(struct monitor *m, struct proc_id id,
                                          struct monitor_row *out);

/* Another filter from now on. Who comes out anew has a row with everything. Errors: those of
 * process_filter_create; the old one stays */
NODISCARD enum err monitor_set_filter(struct monitor *m, const struct process_filter_conf *filter);

/* Where decoded events go from now on, those of filtered processes left out; NULL: nowhere. */
void monitor_on_event(struct monitor *m, const struct monitor_event_sink *sink);

/* Where events of providers go from now on; NULL: nowhere. Errors: ERR_INVALID (a provider),
 * ERR_FULL (too many), ERR_NOMEM; the sink before stays */
NODISCARD enum err monitor_on_described(struct monitor *m,
                                        const struct monitor_described_sink *sink,
                                        struct errmsg *why);

/* What is collected, changed while it runs: the kernel's kinds of events (EVENT_TRACE_FLAG_…;
 * context switches bring threads along, without which nobody would own them), stacks, a further
 * provider. From any thread. Errors: ERR_UNSUPPORTED (the source knows no such thing), those of its
 * ask; `why` says what stands in the way */
NODISCARD enum err monitor_set_flags(struct monitor *m, uint32_t flags, struct errmsg *why);
NODISCARD enum err monitor_set_stacks(struct monitor *m, bool on, struct errmsg *why);
NODISCARD enum err monitor_add_provider(struct monitor *m, const struct source_provider *provider,
                                        struct errmsg *why);

NODISCARD enum err monitor_remove_provider(struct monitor *m, const uint8_t guid[16],
                                           struct errmsg *why);

/* This level (0 to 4, see budget.h) for so long, also above the one that is configured. Not from a
 * callback. Errors: ERR_UNSUPPORTED (no live source), ERR_CLOSED (it does not run) */
NODISCARD enum err monitor_set_level(struct monitor *m, unsigned level, int64_t span_ns,
                                     struct errmsg *why);

/* A word of kind LIFE_SOURCE among the lifecycle events. Not from a callback. Errors: ERR_CLOSED */
NODISCARD enum err monitor_note(struct monitor *m, char *text);

void monitor_stats(struct monitor *m, struct monitor_stats *out);

/* The counters as rows for the loss ledger, MONITOR_LEDGER_ROWS of them at most, always in the same
 * order. On the core thread. */
size_t monitor_ledger(struct monitor *m, struct ledger_row *rows, size_t max);
/* The monitor's own. The source, NULL before it is open; what is meant of providers, and a call on
 * the core thread, from any. */
NODISCARD enum err monitor_conf_check(const struct monitor_conf *conf, struct errmsg *why);
struct source *monitor_opened(struct monitor *m);
struct meant *monitor_meant(struct monitor *m);
void monitor_call(struct monitor *m, void (*run)(struct monitor *, void *), void *arg);

#endif
