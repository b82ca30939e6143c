/* Reading the store: an immutable view of everything acknowledged so far, head and segments at one
 * moment. The writer is never blocked by it for longer than a pointer swap; what a view names stays
 * readable, also when retention drops it meanwhile.
 * Threads: views are opened from any thread; one view may be used by one thread at a time. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_READ_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_READ_H

#include "collector/store/meta/loss_sum.h"
#include "collector/store/rollup/cell.h"
#include "collector/store/store_conf.h"
#include "collector/store/store_used.h"

struct deadline;
struct store_view;
NODISCARD enum err store_view_open(struct store_view **out, struct store *s);
void store_view_close(struct store_view *v);

struct store_host {
    struct uuid id, boot; /* boot of the newest batch */
    const char *name;
    const char *source;
    uint32_t flags; /* BATCH_* of the newest batch */
    uint32_t cpus;
    int64_t first_ns;                   /* oldest stamp held */
    int64_t last_ns;                    /* newest stamp of what the host made last */
    bool has_alive;                     /* known without reading: */
    uint32_t alive;                     /* processes at that moment, the idle one not counted */
    struct host_offset clock;           /* of the host when it made that */
    int64_t received_ns;                /* arrival of the newest batch */
    uint64_t batches, duplicates, gaps; /* gaps: sequence numbers missing below the highest;
                                           batches: stored and recovered since opening */
    uint64_t lost_events;               /* sum of the ledger's losses */
    uint64_t held, too_old, no_room;    /* of the batches: here now; dropped by age, by size */
};

size_t store_view_hosts(const struct store_view *v);
const struct store_host *store_view_host(const struct store_view *v,
                                         size_t i); /* by name, then id */
/* Its place; store_view_hosts when it is not there under this name. */
size_t store_view_find(const struct store_view *v, const char *name, const struct uuid *id);

/* Calls `each` with every batch of the host whose span of ticks and events meets [since, until),
 * oldest first; the batch is valid during the call only. A result other than ERR_OK ends the scan
 * and is returned (ERR_END for "enough"). */
NODISCARD enum err store_view_scan(const struct store_view *v, size_t host, int64_t since_ns,
                                   int64_t until_ns,
                                   enum err (*each)(void *ctx, const struct batch *b), void *ctx);

/* A batch as it came. */
struct store_raw {
    uint64_t stream, seq;
    int64_t received_ns;
    bool has_events;
    const void *bytes; /* encoded */
    size_t n;
};

/* Which batches, by their arrival in [since_ns, until_ns). */
struct store_raw_ask {
    int64_t since_ns, until_ns;
    bool events_only; /* those without are left out */
    int64_t next_ns;  /* becomes the first wanted arrival behind them when that is earlier */
};

/* Every unsealed batch of the host that is asked for, by stamps; else as store_view_scan. */
NODISCARD enum err store_view_raw(const struct store_view *v, size_t host,
                                  struct store_raw_ask *ask,
                                  enum err (*each)(void *ctx, const struct store_raw *b),
                                  void *ctx);

/* -- the same over everything, sealed windows included -- */

/* What of a batch is given. Of the head the whole batch with the columns asked for, at once; of a
 * sealed window first the rests of its batches one by one, then its rows, joined over batches: seq
 * 0, without infos, events and ledger. */
enum store_part { STORE_WHOLE, STORE_REST, STORE_ROWS };

struct store_block {
    const struct batch *batch; /* valid during the call; sealed rows have the columns asked for */
    const struct host_offset *clock;
    enum store_part part;
    int64_t received_ns;
};

struct store_range {
    int64_t since_ns, until_ns; /* by the host's stamps, [since, until) */
    int64_t made_since_ns;      /* what was made then or later, collector's clock; INT64_MIN: all */
    metric_mask metrics;        /* METRIC_BITs of columns wanted; 0: no rows at all */
    bool no_rests, providers;   /* sealed windows: rows only; and events of providers, as rests */
    bool has_pid;               /* sealed rows: runs of this pid alone, much cheaper; all ticks */
    uint32_t pid;
    const struct deadline *deadline; /* looked at before each window; NULL: none */
    struct store_used *used;         /* may be NULL; what is in it is added to */
};

/* Every block whose span meets the range, oldest window first, inside a window by first stamp. A
 * result of `each` other than ERR_OK ends the scan and is returned (ERR_END for "enough"). What
 * cannot be read is left out and counted. Errors: ERR_NOMEM, ERR_FULL, ERR_TIMEOUT */
NODISCARD enum err store_blocks_scan(const struct store_view *v, size_t host,
                                     const struct store_range *range,
                                     enum err (*each)(void *ctx, const struct store_block *b),
                                     void *ctx);

/* Cells of every process of the host: the cheap way to add up a range. A cell of a tier alone that
 * is longer than the ask allows belongs where its newest sample lies. Summaries of windows inside,
 * rows where the range cuts one, tiers where rows are gone: they equal what all samples give. */
struct store_cells {
    int64_t since_ns, until_ns;
    int64_t before_ns;   /* how far before `since` counters have a base; its cells are marked */
    int64_t step_ns;     /* 0: cells as long as possible; else none crosses a multiple of it */
    metric_mask metrics; /* METRIC_BITs */
    bool folded;         /* folded rows too, where nothing finer is left */
    bool hours;          /* with folded: whole hours inside may be sums, though rows are there */
    bool names;          /* name and user in rows of tiers and summaries; costs */
    bool has_pid;        /* only this pid */
    uint32_t pid;
    /* NULL: processes with samples before `since` only are told of too. Else only bases matter
     * there: they come last, the newest first, and samples older than this says may be left out. */
    int64_t (*bases_from)(void *ctx);
    void *bases_ctx;
    const struct deadline *deadline; /* looked at before each window; NULL: none */
    struct store_used *used;         /* may be NULL; what is in it is added to */
};

struct store_cell_row {
    const struct uuid *boot;
    struct proc_id id;
    struct str name, user;    /* asked for and told by a tier; else empty: ask store_info */
    uint32_t instances;       /* 0: one process, exactly; else a folded row of so many */
    bool before;              /* lies before `since`: base only */
    bool fresh;               /* the process began in this span: its counters began at zero */
    int64_t begin_ns, end_ns; /* of the first sample counted, behind the last one */
    metric_mask mask;         /* which metrics have a cell, lowest bit first */
    const struct cell *cells;
};

/* Time of the host that the range covers: for rates. */
struct store_ticks {
    int64_t first_wall_ns, last_wall_ns;
    int64_t span_mono_ns; /* of the intervals between ticks inside, the one into the first too */
    uint64_t ticks;
};

/* Rows of a process in the order of time but for late data; valid during the call. A counter's cell
 * may begin with the sample before the span (cell.h), also one before `since`. *ticks may be NULL.
 * Errors as store_blocks_scan */
NODISCARD enum err store_cells_scan(const struct store_view *v, size_t host,
                                    const struct store_cells *ask,
                                    enum err (*each)(void *ctx, const struct store_cell_row *row),
                                    void *ctx, struct store_ticks *ticks);

/* The first stretch of [since, until) in which tiers hold what the host's rows do not, since
 * retention dropped them; store_cells_scan gives it. By what is held of this host.
 * since_ns = until_ns: there is none. Errors: ERR_NOMEM, ERR_FULL */
struct store_gone {
    int64_t since_ns, until_ns;
};
NODISCARD enum err store_cells_gone(const struct store_view *v, size_t host, int64_t since_ns,
                                    int64_t until_ns, struct store_gone *out);

/* Sums of what the host's batches told of themselves, for windows that lie inside the range and
 * need no closer look: `each_account`; all other batches of the range come as blocks. */
NODISCARD enum err
store_accounts_scan(const struct store_view *v, size_t host, const struct store_range *range,
                    enum err (*each_account)(void *ctx, const struct loss_sum *a),
                    enum err (*each)(void *ctx, const struct store_block *b), void *ctx);

/* Every instance of the host alive in [since, until), from head and catalogue; each once, with the
 * newest that is known of it. Valid during the call. Days of the catalogue that cannot be read are
 * left out: store_info_unlisted. Errors: ERR_NOMEM, ERR_FULL (see catalogue_find), those of each */
struct store_instances {
    int64_t since_ns, until_ns;
    bool brief, has_pid; /* brief: path and command line may be missing, cheaper */
    uint32_t pid;
    uint64_t start; /* with pid; 0 = any */
};
NODISCARD enum err
store_info_each(const struct store_view *v, size_t host, const struct store_instances *ask,
                enum err (*each)(void *ctx, const struct uuid *boot, const struct proc_info *info),
                void *ctx);

/* Where store_info looks for instances that the head has forgotten: those alive in [since, until)
 * of any host. Until it is called, everywhere, which is slow. */
void store_info_range(const struct store_view *v, int64_t since_ns, int64_t until_ns);

/* All that is known of an instance, text until the view closes. start 0: the latest of the pid. */
bool store_info(const struct store_view *v, size_t host, const struct uuid *boot, struct proc_id id,
                struct proc_info *out);
/* Path and command line may be missing: cheap also for all of a host. */
bool store_info_brief(const struct store_view *v, size_t host, const struct uuid *boot,
                      struct proc_id id, struct proc_info *out);
/* Has store_info look for these at once: much cheaper where the head has forgotten them. */
void store_info_want(const struct store_view *v, size_t host, const struct proc_key *keys,
                     size_t n);
/* How often names and lives may be missing: the catalogue was unreadable, gone or had too much. */
uint32_t store_info_unlisted(const struct store_view *v);
bool store_info_latest(const struct store_view *v, size_t host, uint32_t pid,
                       struct proc_info *out);

#endif
