/* The process instances of one host in one window, and what each metric did there. Fed with rows of
 * cells in any order; the stamps inside decide. What short lives left in a folded tier counts as
 * one more instance for each image name and user, with `instances` > 0.
 * Bounds: half of QUERY_MEMORY_MAX, QUERY_BOOTS_MAX boots. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_TABLE_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_TABLE_H

#include "collector/query/query_impl.h"

#define QUERY_BOOTS_MAX 1024
#define QUERY_NEVER     INT64_MIN
#define QUERY_TOLD      256u /* names that were told last; a power of two */

/* One metric of one instance. */
struct query_cell {
    struct cell in;        /* inside the window */
    int64_t base_ns, base; /* the newest sample before it; QUERY_NEVER: none */
};

struct query_inst {
    struct proc_id id;
    uint16_t boot;
    bool hidden;                  /* not asked for */
    bool fresh;                   /* began inside the window: its counters began at zero there */
    bool ended;                   /* its end was seen while the table was filled */
    uint32_t instances;           /* 0: one process */
    int64_t seen_ns;              /* newest sample before the window's end */
    size_t order;                 /* for the caller that walks the table */
    const struct proc_info *info; /* NULL when nothing is known, or not looked up; path and
                                     command line may be missing */
    struct query_cell *cells;     /* one per metric; NULL when hidden or there are none */
};

int query_table_key_order(const void *a, const void *b); /* of two struct proc_key */

struct query_table {
    struct query *q;
    struct arena memory;
    size_t host; /* in the view */
    int64_t since_ns, until_ns;
    uint8_t first, n_metrics; /* of the answer's metrics these are looked at: all, after init; 0:
                                 only who is there, and when it was seen */
    bool brief;    /* text that a tier told is gone when the table is emptied; else it lasts */
    bool infos;    /* look up what is known of every instance, which takes time */
    bool presence; /* seen by whatever was sampled, whether that is looked at or not */
    bool all;      /* nothing is hidden but the idle process */
    bool nameless; /* nothing is hidden for its name */
    bool judged;   /* those that the question's filter does not fit are hidden at the end */
    bool told;     /* with infos, and no pattern of names: the name that tiers tell of a process,
                      the newest, is its name, and the store is asked at the end, for those that
                      have none and those that may live then: quicker for all who ever lived */
    size_t n_only; /* when there are any: all other instances are hidden; sorted */
    const struct proc_key *only;
    size_t n_insts, cap;                  /* cap is a power of two */
    struct query_inst **slots;            /* hash, NULL = free */
    unsigned n_boots, cap_boots, boot_at; /* boot_at: the one looked for last */
    struct uuid *boots;
    struct store_ticks ticks;                      /* of the host, inside the window */
    int64_t newest_ns;                             /* newest sample of any instance */
    uint16_t newest_boot;                          /* its boot */
    const struct proc_info *told_last[QUERY_TOLD]; /* of told names, by hash */
};

void query_table_init(struct query_table *t, struct query *q);
void query_table_fini(struct query_table *t);

/* The answer's metric that is the table's i-th, and the column that has its values. */
static inline uint8_t query_table_metric(const struct query_table *t, unsigned i)
{
    return t->q->out->data.metrics[t->first + i];
}

static inline uint8_t query_table_column(const struct query_table *t, unsigned i)
{
    uint8_t id = query_table_metric(t, i);

    return id == M_CPU_PERCENT ? M_CPU_TIME : id;
}

static inline bool query_table_counts(const struct query_table *t, unsigned i)
{
    return metric_by_id(query_table_column(t, i))->kind == METRIC_COUNTER;
}

/* What to read of a host. */
struct query_reach {
    int64_t since_ns;  /* growth is what happened from then to the span's end */
    int64_t before_ns; /* how far before it a counter's base may lie */
    bool folded;
    bool range_only; /* processes without a sample in the range do not matter */
    bool hours;      /* as in struct store_cells */
};

/* Empties it for the next host, whose growth counts from since_ns on. */
void query_table_start(struct query_table *t, const struct query_span *s, int64_t since_ns);

/* The row's instance, entered when it is new; its cells are left alone. */
NODISCARD enum err query_table_row(struct query_table *t, const struct store_cell_row *row,
                                   struct query_inst **inst);

/* Takes the name that the row tells of the instance, with `told`. Errors: ERR_FULL */
NODISCARD enum err query_table_name(struct query_table *t, struct query_inst *inst,
                                    const struct store_cell_row *row);

/* Empties the table and fills it from the span's host. Errors: ERR_TIMEOUT, ERR_FULL and those of
 * store_cells_scan */
NODISCARD enum err query_table_fill(struct query_table *t, const struct query_span *s,
                                    const struct query_reach *reach);

/* The instance, entered when it is new. */
NODISCARD enum err query_table_get(struct query_table *t, const struct uuid *boot,
                                   struct proc_id id, struct query_inst **inst);

/* NULL: it is not there. */
struct query_inst *query_table_find(const struct query_table *t, const struct uuid *boot,
                                    struct proc_id id);

/* Whether it lives at the window's end, as far as is known. */
bool query_table_lives(const struct query_table *t, const struct query_inst *inst);

/* The value of the table's i-th metric, taken as `by` says (enum wire_by). */
bool query_table_value(const struct query_table *t, const struct query_inst *inst, unsigned i,
                       unsigned by, int64_t *value);
/* The value as it stands at the window's end: totals of counters. */
bool query_table_total(const struct query_table *t, const struct query_inst *inst, unsigned i,
                       int64_t *value);

/* Mean of so many, rounded towards zero; 0 of none. */
static inline int64_t query_mean(int64_t sum, uint64_t count)
{
    return count && count <= INT64_MAX ? sum / (int64_t)count : 0;
}

/* What several processes of one host did together: sums over a table's instances, metric by metric.
 * Private to collector/query.
 *
 * Counters add up what they grew. Of gauges only those that live at the window's end have a value
 * now; their mean is that of all of them together over the host's ticks; the maximum is that of a
 * single one, since what they were at once is not kept. */

struct query_sum {
    int64_t total; /* growth; of gauges all samples */
    uint64_t steps;
    int64_t now; /* gauges: of the living */
    int64_t most;
    bool has_total, has_now, has_most;
};

/* Adds the instance's i-th metric of the table. */
void query_table_sum_add(struct query_sum *s, const struct query_table *t,
                         const struct query_inst *inst, unsigned i);

/* The value of the i-th metric for all that was added, taken as `by` says. */
bool query_table_sum_value(const struct query_sum *s, const struct query_table *t, unsigned i,
                           unsigned by, int64_t *value);

#endif
