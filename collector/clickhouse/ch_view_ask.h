/* The far view as the files of this folder see it: statements, replies, a host's batches. Threads:
 * those of the view. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_ASK_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_ASK_H

#include "collector/clickhouse/ch_native.h"
#include "collector/clickhouse/ch_view_conf.h"
#include "collector/store/read/store_read.h"
#include "common/base/arena.h"

struct head_infos;
struct head_infos_snap;

/* What is known of a host's instances in the view's range. */
struct ch_view_known {
    bool asked;
    struct head_infos_snap *snap; /* NULL: nothing */
};

struct ch_view_old;
struct ch_view_pages;

struct ch_view {
    const struct view_ops *ops; /* first, as in every view */
    struct ch_view_conf conf;
    struct arena memory;
    struct ch_view_hosts *list;
    size_t n; /* of it, */
    const struct store_host *hosts;
    struct ch_view_known *known;
    struct ch_view_pages *pages; /* ch_view_page.h */
    int64_t since_ns, until_ns;  /* where infos are looked for */
    struct ch_view_old *old;     /* infos of other ranges, whose text may be in use */
    uint32_t unlisted;
    struct buf sql;
    bool too_large; /* the last reply did not fit */
    bool down;      /* it did not answer in time: nothing more is asked */
};

static inline struct ch_view *ch_view_ask_of(const struct store_view *v)
{
    return (struct ch_view *)(void *)v; /* it is one thread's at a time */
}

/* Begins v->sql anew. "`procfleet`.`cell`", with FINAL when wanted. */
struct buf *ch_view_ask_begin(struct ch_view *v);
void ch_view_ask_from(struct ch_view *v, enum ch_table t, bool final);
/* "host_id = toUUID('…')" */
void ch_view_ask_host(struct ch_view *v, size_t host);
/* " AND a >= …": column `name` of stamps. op: ">=", "<" … */
void ch_view_ask_when(struct ch_view *v, const char *name, const char *op, int64_t ns);
/* "column AS column_ns", ns since 1970 */
void ch_view_ask_ns(struct ch_view *v, const char *name);

/* For ch_view_page.h: "column AS column_ns"; " FROM … WHERE @" and more. They return `text`. */
#define CH_VIEW_FROM 512
const char *ch_view_ask_ns_of(char text[64], const struct ch_view *v, const char *column);
const char *ch_view_ask_from_of(char text[CH_VIEW_FROM], const struct ch_view *v, enum ch_table t,
                                const char *more);
#define CH_VIEW_STORED " AND kind = 3" /* CH_STORED */

/* Asks v->sql. `reply` is the caller's (buf_init with CH_VIEW_REPLY_MAX). Errors: those of
 * ch_view_conf.ask; ERR_TIMEOUT also when the deadline has passed */
NODISCARD enum err ch_view_ask(struct ch_view *v, struct buf *reply,
                               const struct deadline *deadline);

/* The same, and calls `row` for each row of the answer; columns stand at their places in the
 * SELECT. An error of `row` ends it. Errors: ERR_CORRUPT (other columns than `columns`), those of
 * ch_view_ask */
NODISCARD enum err ch_view_ask_rows(struct ch_view *v, struct buf *reply, size_t columns,
                                    const struct deadline *deadline,
                                    enum err (*row)(void *ctx, const struct ch_in *in, size_t i),
                                    void *ctx);

/* Whether the error is ClickHouse's and not of memory, time or the caller's own. */
bool ch_view_ask_is_hole(enum err e);

/* -- a host's batches, by the ledger -- */

struct ch_view_batch {
    uint64_t stream, seq;
    struct uuid boot;
    int64_t t0_ns, t1_ns, received_ns;
    struct host_offset clock;
    bool wanted;        /* of the slice at hand, */
    bool whole;         /* its samples were found: */
    size_t from, to;    /* where they are; */
    struct batch *rest; /* NULL: none was read */
};

struct ch_view_batches {
    struct arena memory;
    size_t n, cap;
    struct ch_view_batch *at; /* by stream and seq, each once */
};

/* Those whose span meets [since, until). ch_view_batches_fini also after an error. */
NODISCARD enum err ch_view_batches_ask(struct ch_view *v, size_t host, int64_t since_ns,
                                       int64_t until_ns, const struct deadline *deadline,
                                       struct ch_view_batches *out);
void ch_view_batches_fini(struct ch_view_batches *b);
/* NULL: the ledger does not have it. */
struct ch_view_batch *ch_view_batches_find(const struct ch_view_batches *b, uint64_t stream,
                                           uint64_t seq);

/* -- ch_view_fold.c: hours of a host in the tiers, and its ticks -- */

enum { CH_VIEW_MINUTE, CH_VIEW_HOUR }; /* tiers */

struct ch_view_hour {
    int64_t hour_ns;
    struct ch_view_made {
        uint64_t made;             /* of the rows; 0: there are none */
        uint64_t batches, numbers; /* of what they were made; batches 0: they are being made */
        bool whole;                /* that is what the ledger has */
    } tier[2];
};

struct ch_view_hours {
    struct arena memory;
    size_t n, cap;
    struct ch_view_hour *at; /* by time; those of which something was made */
};

/* Those that meet [since, until), and one before and behind. ch_view_fold_fini also after an
 * error. */
NODISCARD enum err ch_view_fold_hours(struct ch_view *v, size_t host, int64_t since_ns,
                                      int64_t until_ns, const struct deadline *deadline,
                                      struct ch_view_hours *out);
void ch_view_fold_fini(struct ch_view_hours *h);
/* The one in which the moment lies; NULL: nothing was made of it. */
const struct ch_view_hour *ch_view_fold_hour(const struct ch_view_hours *h, int64_t when_ns);

/* What store_cells_scan says of the ask's ticks. */
NODISCARD enum err ch_view_fold_ticks(struct ch_view *v, size_t host, const struct store_cells *ask,
                                      struct store_ticks *out);

/* -- the table's functions, each group in its file -- */

NODISCARD enum err ch_view_rest_blocks(const struct store_view *v, size_t host,
                                       const struct store_range *range,
                                       enum err (*each)(void *ctx, const struct store_block *b),
                                       void *ctx);
NODISCARD enum err
ch_view_rest_accounts(const struct store_view *v, size_t host, const struct store_range *range,
                      enum err (*each_account)(void *ctx, const struct loss_sum *a),
                      enum err (*each)(void *ctx, const struct store_block *b), void *ctx);
NODISCARD enum err ch_view_cells_scan(const struct store_view *v, size_t host,
                                      const struct store_cells *ask,
                                      enum err (*each)(void *ctx, const struct store_cell_row *row),
                                      void *ctx, struct store_ticks *ticks);
NODISCARD enum err ch_view_cells_gone(const struct store_view *v, size_t host, int64_t since_ns,
                                      int64_t until_ns, struct store_gone *out);
NODISCARD enum err ch_view_info_each(
    const struct store_view *v, size_t host, const struct store_instances *ask,
    enum err (*each)(void *ctx, const struct uuid *boot, const struct proc_info *info), void *ctx);
void ch_view_info_range(const struct store_view *v, int64_t since_ns, int64_t until_ns);
bool ch_view_info_find(const struct store_view *v, size_t host, const struct uuid *boot,
                       struct proc_id id, bool brief, struct proc_info *out);
void ch_view_info_want(const struct store_view *v, size_t host, const struct proc_key *keys,
                       size_t n);
uint32_t ch_view_info_unlisted(const struct store_view *v);
void ch_view_info_fini(struct ch_view *v);

/* -- ch_view_rest.c: batches put together again, for cells too -- */

/* Sorts the list for reading: by window, then by first stamp, as the local store gives batches.
 * *order is in the list's memory. */
NODISCARD enum err ch_view_rest_order(struct ch_view_batches *b, size_t **order);

struct ch_view_want {
    size_t host;
    metric_mask rows; /* columns of the samples wanted; 0: rests alone */
    bool any_row;     /* samples, though of no column */
    bool has_pid;
    uint32_t pid;
    const struct deadline *deadline;
};

/* Reads the rests of these n batches, and their samples, and gives one after the other: with rows
 * where samples were found (b->whole). *b->rest is valid during the call; b->rest is NULL when it
 * cannot be read. Pieces become smaller when a reply would be too large. */
typedef enum err (*ch_view_rest_each)(void *ctx, struct ch_view_batch *b,
                                      const struct batch *batch);
NODISCARD enum err ch_view_rest_read(struct ch_view *v, struct ch_view_batches *list,
                                     const size_t *order, size_t n, const struct ch_view_want *want,
                                     ch_view_rest_each each, void *ctx);

/* -- ch_view_told.c -- */

/* store_accounts_scan with accounts that the server made; batches by their rests. *told: false: the
 * range is too short for them, nothing was given. */
NODISCARD enum err ch_view_told_scan(struct ch_view *v, size_t host,
                                     const struct store_range *range,
                                     enum err (*each_account)(void *ctx, const struct loss_sum *a),
                                     void *ctx, ch_view_rest_each each, void *each_ctx, bool *told);

#endif
