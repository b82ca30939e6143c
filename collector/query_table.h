/* The process instances of one host in one window, and what each metric did there: the value before
 * the window, the first and the last inside. Fed with batches in any order; a value's time decides.
 * Bounds: QUERY_MEMORY_MAX of arena, QUERY_BOOTS_MAX boots. Private to collector/query_*.c. */
#ifndef PROCFLEET_COLLECTOR_QUERY_TABLE_H
#define PROCFLEET_COLLECTOR_QUERY_TABLE_H

#include "collector/query_plan.h"

#define QUERY_BOOTS_MAX 64
#define QUERY_NEVER     INT64_MIN

/* One metric of one instance; *_ns is QUERY_NEVER where there is no value. */
struct query_cell {
    int64_t base, first, last;
    int64_t base_ns, first_ns, last_ns;
};

struct query_inst {
    struct proc_id id;
    uint8_t boot;
    bool hidden;                  /* not asked for */
    bool fresh;                   /* began inside the window: its counters began at zero there */
    int64_t seen_ns;              /* newest row before the window's end */
    const struct proc_info *info; /* the view's; NULL when nothing is known */
    struct query_cell *cells;     /* one per metric; NULL when hidden */
};

struct query_boot {
    struct uuid id;
    int64_t mono_ns; /* of the newest tick seen */
};

struct query_table {
    const struct query *q;
    struct arena memory;
    size_t host; /* in the view */
    int64_t since_ns, until_ns;
    uint8_t n_metrics;
    uint8_t metrics[WIRE_METRICS_MAX]; /* columns; cpu_percent is replaced by cpu_time */
    size_t n_insts, cap;               /* cap is a power of two */
    struct query_inst **slots;         /* hash, NULL = free */
    unsigned n_boots;
    struct query_boot boots[QUERY_BOOTS_MAX];
    int64_t span_mono_ns; /* monotonic time that the growth inside the window refers to */
    const struct batch *batch;
    size_t tick_since, tick_until; /* of the batch: first tick inside and first behind the window */
};

/* Columns: those of the answer. */
void query_table_init(struct query_table *t, const struct query *q);
void query_table_fini(struct query_table *t);

/* Empties it for the next host. */
void query_table_start(struct query_table *t, const struct query_span *s, int64_t since_ns);

/* Takes in the batch. Errors: ERR_NOMEM, ERR_FULL */
NODISCARD enum err query_table_add(struct query_table *t, const struct batch *b);

/* The instance, entered when it is new. */
NODISCARD enum err query_table_get(struct query_table *t, const struct uuid *boot,
                                   struct proc_id id, struct query_inst **inst);

/* Growth of a counter inside the window; false: unknown. */
bool query_cell_growth(const struct query_inst *inst, const struct query_cell *c, int64_t *growth);

/* The value of answer column i: `totals` as they stand, or growth inside the window for counters.
 */
bool query_table_value(const struct query_table *t, const struct query_inst *inst, unsigned i,
                       bool totals, int64_t *value);

#endif
