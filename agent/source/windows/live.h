/* Source: this host, live, from two inputs: event sessions, whose records say what happens as it
 * happens, and tables of all processes, which give every gauge without opening anybody. Both are
 * handed on in one order of time: while records come a table waits until they have come as far as
 * it; while none come (refused, stopped by somebody, still tried again) tables go on at once and
 * starts and ends are found by comparison. Each such change is told as EV_SOURCE, from the moment
 * on from which it holds, and so is a beginning where not all is well; (*out)->about.name and
 * .polled say how it is now. What differs between systems and tests stands behind two tables of
 * functions.
 *
 * Bounds:  LIVE_TABLES_MAX tables wait, of LIVE_TABLES_BYTES (live_queue.h); then the first goes on
 *          early, counted.
 * Threads: as source.h; the functions of both inputs are called from the thread in run only, but
 *          for ask, stats and close.
 */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_LIVE_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_LIVE_H

#include "agent/source/source.h"

#define LIVE_TABLES_FAILED 30 /* in a row */

/* First member of an input's own struct. An input is owned by the source once opened. */
struct live_events {
    const struct live_events_ops *ops;
};

struct live_events_ops {
    enum err (*begin)(struct live_events *e); /* its threads; once. When it fails, end follows */

    /* Hands on what is due, records and how far time has come; 0: nothing was due. */
    size_t (*step)(struct live_events *e);

    /* Until something may be due, or that monotonic moment. */
    void (*wait)(struct live_events *e, int64_t until_ns);

    /* Whether records tell of starts and ends at the moment, or will after begin; `why` says in one
     * sentence what is in the way, or what of the optional is refused: "" when all is well. */
    bool (*up)(struct live_events *e, struct errmsg *why);

    /* Which groups (enum event_group) are recorded at the moment; false: nobody knows. May be NULL:
     * it is never known. */
    bool (*groups)(struct live_events *e, uint32_t *groups);

    void (*level)(struct live_events *e, unsigned level); /* see budget.h */
    /* May be NULL. Of what the level permits not these groups; see struct source_pace. */
    void (*shed)(struct live_events *e, unsigned groups);
    /* As struct source's ask, which hands it on: from any thread. */
    enum err (*ask)(struct live_events *e, const struct source_ask *ask, struct errmsg *why);
    void (*end)(struct live_events *e); /* hands on the rest, ends its threads */
    void (*stats)(const struct live_events *e, struct source_stats *out);
    size_t (*ledger)(const struct live_events *e, struct ledger_row *rows,
                     size_t max); /* as source.h; may be NULL */
    void (*close)(struct live_events *e);
};

struct live_tables {
    const struct live_tables_ops *ops;
    char detail[160]; /* for the log: "tables by class 148", and what is not filled */
    bool records; /* written before take: whether records tell of starts, command lines included;
                     where not, a table finds these out by itself */
};

struct live_tables_ops {
    /* Everybody who lives at this moment; borrowed until the next call. Errors: ERR_BUSY (not this
     * time); others are counted, and end the run when nothing else comes LIVE_TABLES_FAILED times
     */
    enum err (*take)(struct live_tables *t, struct snapshot *out);
    void (*stats)(const struct live_tables *t, struct source_stats *out);
    size_t (*ledger)(const struct live_tables *t, struct ledger_row *rows,
                     size_t max); /* as source.h; may be NULL */
    void (*close)(struct live_tables *t);
};

struct live_conf {
    /* Opens the events with the sink they shall use. NULL: tables alone, about.name "snapshot".
     * An error but ERR_NOMEM ends live_open only where events_needed. */
    enum err (*open_events)(void *ctx, struct live_events **out, struct source_sink sink,
                            struct errmsg *why);
    enum err (*open_tables)(void *ctx, struct live_tables **out, struct errmsg *why);
    void *ctx;
    bool events_needed;
    int64_t period_ns;         /* distance of tables until the pace says otherwise */
    int64_t (*awake_ns)(void); /* NULL: os_awake_ns */
    struct source_about about; /* cpus, boot, system; name, polled and detail are live's */
};

/* Errors: those of the two openings, ERR_RANGE (period), ERR_NOMEM */
NODISCARD enum err live_open(struct source **out, const struct live_conf *conf,
                             struct source_sink sink, struct errmsg *why);

#endif
