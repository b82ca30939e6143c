/* History: one row per sample, or per step, of every process asked for, by host, time and pid.
 *
 * Samples of one host are collected as they are scanned, reduced on the way to the last one of each
 * step and instance, so that memory depends on the rows of the answer. The last sample before the
 * window is kept as well: a counter's value in a row is its growth since the process's previous
 * row. Then the rows are sorted by time and walked once per page. A page that is full stops the
 * scan; the next one begins at the time where it ended. */
#include "collector/query_plan.h"

#include <stdlib.h>
#include <string.h>

#include "collector/query_table.h"
#include "common/clk.h"

#define LOOKBACK_NS (60 * CLK_S)

static const uint8_t history_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE,
                                          M_THREAD_COUNT};

/* The last sample of one instance in one step. */
struct point {
    int64_t slot_ns; /* start of the step; the sample's own time without steps */
    int64_t wall_ns, mono_ns;
    struct query_inst *inst;
    struct point *older; /* of the same instance */
    bool fresh;
    uint64_t have;
    int64_t values[]; /* one per metric, as sent */
};

struct chain {
    struct query_inst *inst;
    struct point *newest;
};

struct history {
    struct query *q;
    const struct query_span *s;
    struct query_table table; /* only its instances */
    struct arena memory;      /* points of one host */
    int64_t since_ns;         /* of this page; earlier samples only give the base */
    size_t wanted;            /* rows that still fit on the page */
    size_t n_points, cap_points;
    struct point **points;
    int64_t newest_ns; /* the highest slot of them */
    size_t n_chains, cap_chains;
    struct chain *chains;
    const struct batch *batch;
};

static int64_t slot_of(const struct history *h, int64_t wall_ns)
{
    int64_t step = h->q->ask->step_ns;

    if (wall_ns < h->since_ns) {
        return QUERY_NEVER;
    }
    return step ? wall_ns - wall_ns % step : wall_ns;
}

static enum err points_room(struct history *h)
{
    size_t cap = h->cap_points ? h->cap_points * 2 : 1024;
    struct point **more;

    if (h->n_points < h->cap_points) {
        return ERR_OK;
    }
    more = arena_array(&h->memory, cap, sizeof(struct point *));
    if (!more) {
        return ERR_FULL;
    }
    if (h->n_points) {
        memcpy(more, h->points, h->n_points * sizeof(struct point *));
    }
    h->points = more;
    h->cap_points = cap;
    return ERR_OK;
}

static struct point *point_in(const struct chain *c, int64_t slot_ns)
{
    struct point *p = c->newest;

    while (p && p->slot_ns > slot_ns) {
        p = p->older;
    }
    return p && p->slot_ns == slot_ns ? p : NULL;
}

static enum err point_new(struct history *h, struct chain *c, int64_t slot_ns, struct point **out)
{
    struct point **at = &c->newest;
    struct point *p;
    enum err e = points_room(h);

    if (e) {
        return e;
    }
    p = arena_alloc(&h->memory, sizeof *p + h->table.n_metrics * sizeof p->values[0]);
    if (!p) {
        return ERR_FULL;
    }
    while (*at && (*at)->slot_ns > slot_ns) {
        at = &(*at)->older;
    }
    p->slot_ns = slot_ns;
    p->wall_ns = QUERY_NEVER;
    p->inst = c->inst;
    p->older = *at;
    *at = p;
    h->points[h->n_points++] = p;
    h->newest_ns = slot_ns > h->newest_ns ? slot_ns : h->newest_ns;
    *out = p;
    return ERR_OK;
}

/* Which columns of the batch the answer's metrics are, and where the run's values begin in each. */
struct columns {
    const struct batch_column *col[WIRE_METRICS_MAX];
    size_t at[WIRE_METRICS_MAX];
};

static enum err sample_add(struct history *h, struct chain *c, const struct batch_run *run,
                           const struct columns *cols, size_t k)
{
    size_t tick = run->first_tick + k;
    int64_t wall = h->batch->wall_ns[tick];
    int64_t slot = slot_of(h, wall);
    struct point *p;

    if (wall >= h->s->until_ns) {
        return ERR_OK;
    }
    p = point_in(c, slot);
    if (!p) {
        enum err e = point_new(h, c, slot, &p);

        if (e) {
            return e;
        }
    }
    p->fresh |= run->fresh && k == 0;
    if (wall < p->wall_ns) {
        return ERR_OK;
    }
    p->wall_ns = wall;
    p->mono_ns = h->batch->mono_ns[tick];
    for (unsigned i = 0; i < h->table.n_metrics; i++) {
        if (cols->col[i] && (run->mask & METRIC_BIT(h->table.metrics[i]))) {
            p->values[i] = cols->col[i]->values[cols->at[i] + k];
            p->have |= UINT64_C(1) << i;
        }
    }
    return ERR_OK;
}

static enum err chain_get(struct history *h, const struct batch_run *run, struct chain **out)
{
    struct query_inst *inst;
    struct chain *more;
    enum err e = query_table_get(&h->table, &h->batch->head.boot, run->id, &inst);

    *out = NULL;
    if (e || inst->hidden) {
        return e;
    }
    /* cells are unused here: the first one's base remembers the chain */
    if (inst->cells[0].base_ns != QUERY_NEVER) {
        *out = &h->chains[inst->cells[0].base];
        return ERR_OK;
    }
    if (h->n_chains == h->cap_chains) {
        size_t cap = h->cap_chains ? h->cap_chains * 2 : 64;

        more = arena_array(&h->memory, cap, sizeof *more);
        if (!more) {
            return ERR_FULL;
        }
        if (h->n_chains) {
            memcpy(more, h->chains, h->n_chains * sizeof *more);
        }
        h->chains = more;
        h->cap_chains = cap;
    }
    inst->cells[0].base_ns = 0;
    inst->cells[0].base = (int64_t)h->n_chains;
    h->chains[h->n_chains] = (struct chain){.inst = inst};
    *out = &h->chains[h->n_chains++];
    return ERR_OK;
}

static void columns_find(const struct history *h, struct columns *cols)
{
    *cols = (struct columns){0};
    for (unsigned i = 0; i < h->table.n_metrics; i++) {
        for (size_t c = 0; c < h->batch->n_columns; c++) {
            if (h->batch->columns[c].metric == h->table.metrics[i]) {
                cols->col[i] = &h->batch->columns[c];
            }
        }
    }
}

static enum err take(void *ctx, const struct batch *b)
{
    struct history *h = ctx;
    struct columns cols;
    int64_t first_ns, last_ns;
    enum err e = ERR_OK;

    /* Batches come in the order of their first stamps. One point of each chain may be a base, one
     * may have been given on the page before. */
    store_span(b, h->since_ns, &first_ns, &last_ns);
    if (h->n_points > h->wanted + 2 * h->n_chains && slot_of(h, first_ns) > h->newest_ns) {
        return ERR_END; /* this batch and all that follow are later than this page */
    }
    h->batch = b;
    columns_find(h, &cols);
    for (size_t r = 0; !e && r < b->n_runs; r++) {
        const struct batch_run *run = &b->runs[r];
        struct chain *c;

        e = chain_get(h, run, &c);
        for (size_t k = 0; !e && c && k < run->n_ticks; k++) {
            e = sample_add(h, c, run, &cols, k);
        }
        for (unsigned i = 0; i < h->table.n_metrics; i++) {
            cols.at[i] += run->mask & METRIC_BIT(h->table.metrics[i]) ? run->n_ticks : 0;
        }
    }
    return e;
}

/* -- rows -- */

static int by_time(const void *a, const void *b)
{
    const struct point *x = *(struct point *const *)a, *y = *(struct point *const *)b;

    if (x->slot_ns != y->slot_ns) {
        return x->slot_ns < y->slot_ns ? -1 : 1;
    }
    if (x->inst->id.pid != y->inst->id.pid) {
        return x->inst->id.pid < y->inst->id.pid ? -1 : 1;
    }
    if (x->inst->id.start != y->inst->id.start) {
        return x->inst->id.start < y->inst->id.start ? -1 : 1;
    }
    return (int)x->inst->boot - (int)y->inst->boot;
}

/* Growth of value i since the process's previous row that has it; false: there is none. */
static bool growth(const struct point *p, unsigned i, int64_t *value, int64_t *mono_ns)
{
    const struct point *prev = p->older;
    uint64_t bit = UINT64_C(1) << i;

    while (prev && !(prev->have & bit)) {
        prev = prev->older;
    }
    if (!prev && !p->fresh) {
        return false;
    }
    *mono_ns = prev ? p->mono_ns - prev->mono_ns : 0;
    *value = p->values[i];
    if (prev && *value >= prev->values[i]) {
        *value -= prev->values[i];
    }
    return true;
}

static bool value_of(const struct history *h, const struct point *p, unsigned i, int64_t *value)
{
    const struct metric *m = metric_by_id(h->q->out->data.metrics[i]);
    int64_t mono_ns;

    if (!(p->have & UINT64_C(1) << i)) {
        return false;
    }
    if (m->kind == METRIC_GAUGE) {
        *value = p->values[i];
        return true;
    }
    if (!growth(p, i, value, &mono_ns)) {
        return false;
    }
    if (m->id != M_CPU_PERCENT) {
        return true;
    }
    if (mono_ns <= 0) {
        return false;
    }
    *value = (int64_t)((double)*value * 1000.0 / (double)mono_ns + 0.5);
    return true;
}

static bool already_given(const struct query *q, const struct query_span *s, const struct point *p)
{
    const struct query_cursor *c = &q->cursor;

    if (!query_is_cursor_host(q, s) || !c->c) {
        return false;
    }
    if (p->slot_ns != c->when_ns) {
        return p->slot_ns < c->when_ns;
    }
    return p->inst->id.pid != c->a ? p->inst->id.pid < c->a : p->inst->id.start <= c->b;
}

static enum err row_add(struct history *h, struct query_span *s, const struct point *p,
                        struct wire_row *row)
{
    struct wire_answer *a = &h->q->out->data;
    int64_t *values = arena_array(&h->q->out->memory, a->n_metrics, sizeof *values);

    if (!values) {
        return ERR_FULL;
    }
    *row = (struct wire_row){.values = values, .when_ns = p->slot_ns};
    row->info.id = p->inst->id;
    if (p->inst->info) { /* texts that never change are not repeated in every row */
        row->info = *p->inst->info;
        row->info.command_line = (struct str){0};
        row->info.image = (struct str){0};
        row->info.user = (struct str){0};
        row->info.have &= ~(uint32_t)(INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT);
    }
    for (unsigned i = 0; i < a->n_metrics; i++) {
        if (value_of(h, p, i, &values[i])) {
            row->have |= UINT64_C(1) << i;
        }
    }
    a->n_rows++;
    return query_host_index(h->q, s, &row->host);
}

static void page_end(struct history *h, const struct query_span *s, const struct point *last)
{
    struct query_cursor key = {0};

    query_key_host(&key, s);
    if (last) {
        key.c = 1;
        key.when_ns = last->slot_ns;
        key.a = last->inst->id.pid;
        key.b = last->inst->id.start;
    }
    query_more(h->q, &key);
}

static enum err host_rows(struct history *h, struct query_span *s, struct wire_row *rows)
{
    struct query *q = h->q;
    const struct point *last = NULL;
    enum err e = ERR_OK;

    if (h->n_points) {
        qsort(h->points, h->n_points, sizeof *h->points, by_time);
    }
    for (size_t i = 0; !e && i < h->n_points; i++) {
        const struct point *p = h->points[i];

        if (p->slot_ns == QUERY_NEVER || already_given(q, s, p)) {
            continue;
        }
        if (q->out->data.n_rows == q->limit || !query_fits(q, p->inst->info, 0)) {
            page_end(h, s, last);
            return ERR_OK;
        }
        e = row_add(h, s, p, &rows[q->out->data.n_rows]);
        last = p;
    }
    return e;
}

static enum err host_run(struct history *h, struct query_span *s, struct wire_row *rows)
{
    struct query *q = h->q;
    enum err e;

    arena_reset(&h->memory);
    h->s = s;
    h->points = NULL;
    h->newest_ns = QUERY_NEVER;
    h->chains = NULL;
    h->n_points = h->cap_points = h->n_chains = h->cap_chains = 0;
    h->since_ns = s->since_ns;
    if (query_is_cursor_host(q, s) && q->cursor.c && q->cursor.when_ns > h->since_ns) {
        h->since_ns = q->cursor.when_ns;
    }
    h->wanted = q->limit - q->out->data.n_rows;
    query_table_start(&h->table, s, h->since_ns);
    e = query_scan(q, s, clk_add(h->since_ns, -LOOKBACK_NS), take, h);
    return e ? e : host_rows(h, s, rows);
}

enum err query_history(struct query *q)
{
    struct history h = {.q = q};
    struct wire_row *rows;
    enum err e = query_plan(q, history_metrics, sizeof history_metrics, WIRE_ROWS_MAX);

    if (e) {
        return e;
    }
    rows = arena_array(&q->out->memory, q->limit, sizeof *rows);
    if (!rows) {
        return ERR_NOMEM;
    }
    query_table_init(&h.table, q);
    arena_init(&h.memory, QUERY_MEMORY_MAX / 2);
    for (size_t i = query_first_span(q); !e && i < q->n_spans && !q->out->more; i++) {
        e = host_run(&h, &q->spans[i], rows);
    }
    q->out->data.rows = rows;
    arena_fini(&h.memory);
    query_table_fini(&h.table);
    return e;
}
