/* What questions read of a store: a table of functions, filled by what has the data. store_read.h
 * has them as functions, and says what each does. Threads: those of the view. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_VIEW_OPS_H
#define PROCFLEET_COLLECTOR_STORE_READ_VIEW_OPS_H

#include "collector/store/meta/loss_sum.h"
#include "collector/store/rollup/group_sums.h"
#include "collector/store/store_conf.h"
#include "collector/store/store_used.h"

struct deadline;
struct store_view;

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
    /* Whole windows that may hold what was made in [since, until), collector's clock; else all. */
    int64_t window_since_ns, window_until_ns;
    metric_mask metrics;      /* METRIC_BITs of columns wanted; 0: no rows at all */
    bool no_rests, providers; /* sealed windows: rows only; and events of providers, as rests */
    bool has_pid;             /* sealed rows: runs of this pid alone, much cheaper; all ticks */
    uint32_t pid;
    const struct deadline *deadline; /* looked at before each window; NULL: none */
    struct store_used *used;         /* may be NULL; what is in it is added to */
};

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
    bool unnamed; /* folded rows may come without names: they are added up whosever they are */
    bool totals;  /* of counters nobody looks at min and max, nor at more than the last of
                            what lies before `since` */
    bool has_pid; /* only this pid */
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
    /* Where the first interval begins and the last one ends, and in which boots: for joining. */
    struct uuid first_boot, last_boot;
    int64_t from_mono_ns, last_mono_ns;
};

/* A window of the host; the last one may be all that is not sealed. */
struct store_groups {
    int64_t t0_ns, t1_ns;   /* first and last tick, or oldest and newest stamp */
    bool holds;             /* what its processes did is in `sums`, all of it */
    struct group_sums sums; /* texts valid as long as view and memory */
};

/* A stretch of [since, until); since_ns = until_ns: there is none. */
struct store_gone {
    int64_t since_ns, until_ns;
};

struct store_instances {
    int64_t since_ns, until_ns;
    bool brief, has_pid; /* brief: path and command line may be missing, cheaper */
    uint32_t pid;
    uint64_t start; /* with pid; 0 = any */
};

/* What a question will ask of a host, about. */
struct store_expected {
    size_t host;
    int64_t since_ns, until_ns;
};

/* Every view begins with a pointer to its table, which has all of these; each is the function of
 * store_read.h whose name it ends. What follows in a view its maker alone knows. */
struct view_ops {
    void (*close)(struct store_view *v);
    size_t (*hosts)(const struct store_view *v);
    const struct store_host *(*host)(const struct store_view *v, size_t i);
    size_t (*find)(const struct store_view *v, const char *name, const struct uuid *id);
    enum err (*blocks_scan)(const struct store_view *v, size_t host,
                            const struct store_range *range,
                            enum err (*each)(void *ctx, const struct store_block *b), void *ctx);
    enum err (*cells_scan)(const struct store_view *v, size_t host, const struct store_cells *ask,
                           enum err (*each)(void *ctx, const struct store_cell_row *row), void *ctx,
                           struct store_ticks *ticks);
    enum err (*cells_gone)(const struct store_view *v, size_t host, int64_t since_ns,
                           int64_t until_ns, struct store_gone *out);
    /* may be NULL: there are no sums */
    enum err (*groups)(const struct store_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                       metric_mask metrics, struct arena *memory, struct store_groups **list,
                       size_t *n);
    enum err (*accounts_scan)(const struct store_view *v, size_t host,
                              const struct store_range *range,
                              enum err (*each_account)(void *ctx, const struct loss_sum *a),
                              enum err (*each)(void *ctx, const struct store_block *b), void *ctx);
    enum err (*info_each)(const struct store_view *v, size_t host,
                          const struct store_instances *ask,
                          enum err (*each)(void *ctx, const struct uuid *boot,
                                           const struct proc_info *info),
                          void *ctx);
    void (*info_range)(const struct store_view *v, int64_t since_ns, int64_t until_ns);
    bool (*info)(const struct store_view *v, size_t host, const struct uuid *boot,
                 struct proc_id id, bool brief, struct proc_info *out);
    void (*info_want)(const struct store_view *v, size_t host, const struct proc_key *keys,
                      size_t n);
    uint32_t (*info_unlisted)(const struct store_view *v);
    /* may be NULL: one host after the other costs as much */
    void (*expect)(const struct store_view *v, const struct store_expected *list, size_t n);
};

#endif
