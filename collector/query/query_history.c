/* History: one row per sample, or per step, of every process asked for, by host, time and pid.
 *
 * A host's window is read in slices, each a whole number of steps, and sorted slice by slice, so
 * that memory depends on the rows of a slice, in whatever order data lies in the store; slices grow
 * while they give few rows and shrink when they hold too many. Steps of 10 s and more are read as
 * cells, from the cheapest tier that has them; shorter ones and single samples from blocks. A slice
 * ends where rows begin or cease to be gone: where only tiers are left of the host, their finest
 * sums are the rows.
 *
 * A counter's value in a row is its growth since the process's previous row, so of every process
 * the newest sample before the slice is kept as its base. A page goes on at the time where the one
 * before ended, with bases looked for as far back as the window reaches. */
#include "collector/query/query_history.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "collector/query/query_pieces.h"
#include "collector/query/query_scan.h"
#include "collector/query/query_table.h"
#include "collector/query/query_where.h"
#include "common/base/clk.h"

#define CELLS_STEP_NS (10 * CLK_S) /* tiers have nothing finer */
#define CELLS_MIN_NS  (2 * CLK_S)
#define SLICE_MIN_NS  CLK_S
#define SLICE_MAX_NS  (INT64_C(36525) * 86400 * CLK_S)
#define SLICE_STEPS   64                /* of the first slice, for who adds up */
#define SLICE_BYTES   ((size_t)4 << 20) /* of points, likewise: until then slices grow */

static const uint8_t history_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE,
                                          M_THREAD_COUNT};

/* One metric at one moment. */
struct mark {
    int64_t when_ns; /* QUERY_NEVER: none */
    int64_t mono_ns; /* QUERY_NEVER: not known */
    int64_t value;   /* of a folded one: the growth of all */
};

/* What one instance shows in one step. */
struct point {
    int64_t slot_ns; /* start of the step; the sample's own time without steps */
    struct chain *chain;
    struct point *older; /* of the same instance and slice */
    bool fresh;
    uint32_t instances;
    struct query_spread *spreads; /* one per metric; NULL: rows are made */
    struct mark marks[];          /* one per metric, as sent */
};

struct chain {
    struct query_inst *inst;
    struct point *newest; /* of this slice */
    struct mark *bases;   /* before the slice; one per metric */
    uint32_t tag;         /* for the use of who is called for each step */
    bool counted;         /* sums had it */
};

struct history {
    struct query *q;
    struct query_span *s;
    struct query_table table; /* only its instances */
    struct arena memory;      /* points of one slice */
    struct arena chains;      /* of one host */
    int64_t step_ns;
    bool cells, folded;
    const struct query_history_steps *steps; /* NULL: rows are made */
    int64_t since_ns, until_ns;              /* of the slice */
    int64_t end_ns;                          /* of all slices of the piece */
    bool behind, unsure; /* sums came before; what they say may not fit what comes after */
    size_t n_points, cap_points;
    struct point **points;
    size_t n_chains, cap_chains;
    struct chain **all;
    struct wire_row *rows;
};

/* -- chains and points -- */

static enum err list_room(struct arena *memory, void *list, size_t *cap, size_t n, size_t first)
{
    void **at = list;
    void *more;

    if (n < *cap) {
        return ERR_OK;
    }
    more = arena_array(memory, *cap ? *cap * 2 : first, sizeof(void *));
    if (!more) {
        return ERR_FULL;
    }
    if (n) {
        memcpy(more, *at, n * sizeof(void *));
    }
    *at = more;
    *cap = *cap ? *cap * 2 : first;
    return ERR_OK;
}

static enum err chain_make(struct history *h, struct query_inst *inst)
{
    struct chain *c = arena_alloc(&h->chains, sizeof *c);
    enum err e = list_room(&h->chains, &h->all, &h->cap_chains, h->n_chains, 64);

    if (!c || e) {
        return ERR_FULL;
    }
    c->inst = inst;
    c->bases = arena_array(&h->chains, h->table.n_metrics, sizeof *c->bases);
    if (!c->bases) {
        return ERR_FULL;
    }
    for (unsigned i = 0; i < h->table.n_metrics; i++) {
        c->bases[i].when_ns = QUERY_NEVER;
    }
    h->all[h->n_chains++] = c;
    inst->order = h->n_chains;
    return ERR_OK;
}

/* The chain of the instance; NULL when it is not asked for. */
static enum err chain_of(struct history *h, struct query_inst *inst, struct chain **out)
{
    enum err e = ERR_OK;

    *out = NULL;
    if (inst->hidden) {
        return ERR_OK;
    }
    if (!inst->order) {
        e = chain_make(h, inst);
    }
    if (!e) {
        *out = h->all[inst->order - 1];
    }
    return e;
}

static enum err point_get(struct history *h, struct chain *c, int64_t slot_ns, struct point **out)
{
    struct point **at = &c->newest;
    struct point *p;
    enum err e;

    while (*at && (*at)->slot_ns > slot_ns) {
        at = &(*at)->older;
    }
    if (*at && (*at)->slot_ns == slot_ns) {
        *out = *at;
        return ERR_OK;
    }
    e = list_room(&h->memory, &h->points, &h->cap_points, h->n_points, 1024);
    p = arena_alloc(&h->memory, sizeof *p + h->table.n_metrics * sizeof p->marks[0]);
    if (e || !p) {
        return ERR_FULL;
    }
    if (h->steps) {
        p->spreads = arena_array(&h->memory, h->table.n_metrics, sizeof *p->spreads);
        if (!p->spreads) {
            return ERR_FULL;
        }
    }
    for (unsigned i = 0; i < h->table.n_metrics; i++) {
        p->marks[i].when_ns = QUERY_NEVER;
    }
    p->slot_ns = slot_ns;
    p->chain = c;
    p->older = *at;
    *at = p;
    h->points[h->n_points++] = p;
    *out = p;
    return ERR_OK;
}

static void mark_take(struct mark *m, const struct mark *newer)
{
    if (newer->when_ns >= m->when_ns) {
        *m = *newer;
    }
}

static void spread_add(struct query_spread *s, const struct cell *c)
{
    bool none = !s->count;

    if (!c->count) {
        return;
    }
    s->min = none || c->min < s->min ? c->min : s->min;
    s->max = none || c->max > s->max ? c->max : s->max;
    s->first = none || c->first_ns < s->first_ns ? c->first : s->first;
    s->first_ns = none || c->first_ns < s->first_ns ? c->first_ns : s->first_ns;
    s->sum = cell_sum(s->sum, c->sum);
    s->count += c->count;
}

static int64_t history_slot(const struct history *h, int64_t when_ns)
{
    return h->step_ns ? when_ns - when_ns % h->step_ns : when_ns;
}

/* -- single samples, from blocks -- */

/* Which columns of the batch the answer's metrics are, and where the run's values begin in each. */
struct columns {
    const struct batch *b;
    const struct batch_column *col[WIRE_METRICS_MAX];
    size_t at[WIRE_METRICS_MAX];
};

static void columns_find(const struct history *h, struct columns *cols, const struct batch *b)
{
    *cols = (struct columns){.b = b};
    for (unsigned i = 0; i < h->table.n_metrics; i++) {
        for (size_t c = 0; c < b->n_columns; c++) {
            if (b->columns[c].metric == query_table_column(&h->table, i)) {
                cols->col[i] = &b->columns[c];
            }
        }
    }
}

static enum err point_sample(struct history *h, struct chain *c, const struct batch_run *run,
                             const struct columns *cols, size_t k)
{
    size_t tick = run->first_tick + k;
    struct mark m = {.when_ns = cols->b->wall_ns[tick], .mono_ns = cols->b->mono_ns[tick]};
    struct mark *to = c->bases;
    struct point *p = NULL;
    enum err e;

    if (m.when_ns >= h->until_ns) {
        return ERR_OK;
    }
    if (m.when_ns >= h->since_ns) {
        e = point_get(h, c, history_slot(h, m.when_ns), &p);
        if (e) {
            return e;
        }
        p->fresh |= run->fresh && k == 0;
        to = p->marks;
    }
    for (unsigned i = 0; i < h->table.n_metrics; i++) {
        if (cols->col[i] && (run->mask & METRIC_BIT(query_table_column(&h->table, i)))) {
            m.value = cols->col[i]->values[cols->at[i] + k];
            mark_take(&to[i], &m);
            if (p && p->spreads) {
                spread_add(&p->spreads[i], &(struct cell){.count = 1,
                                                          .first_ns = m.when_ns,
                                                          .first = m.value,
                                                          .sum = m.value,
                                                          .min = m.value,
                                                          .max = m.value});
            }
        }
    }
    return ERR_OK;
}

static enum err block_take(void *ctx, const struct store_block *block)
{
    struct history *h = ctx;
    const struct batch *b = block->batch;
    struct columns cols;
    enum err e = ERR_OK;

    columns_find(h, &cols, b);
    for (size_t r = 0; !e && r < b->n_runs; r++) {
        const struct batch_run *run = &b->runs[r];
        struct query_inst *inst;
        struct chain *c = NULL;

        e = query_table_get(&h->table, &b->head.boot, run->id, &inst);
        if (!e) {
            e = chain_of(h, inst, &c);
        }
        for (size_t k = 0; !e && c && k < run->n_ticks; k++) {
            e = point_sample(h, c, run, &cols, k);
        }
        for (unsigned i = 0; i < h->table.n_metrics; i++) {
            cols.at[i] +=
                run->mask & METRIC_BIT(query_table_column(&h->table, i)) ? run->n_ticks : 0;
        }
    }
    return e;
}

/* -- cells -- */

static void cell_add_to(struct mark *to, const struct store_cell_row *row, const struct cell *c)
{
    struct mark m = {.when_ns = c->last_ns, .mono_ns = QUERY_NEVER, .value = c->last};

    if (!c->count) {
        return;
    }
    if (row->instances) { /* sums of many, added up */
        m.value = cell_sum(c->sum, to->when_ns == QUERY_NEVER ? 0 : to->value);
        m.when_ns = to->when_ns == QUERY_NEVER ? row->end_ns : to->when_ns;
    }
    mark_take(to, &m);
}

static void cells_add(struct history *h, struct mark *to, struct query_spread *spreads,
                      const struct store_cell_row *row)
{
    for (unsigned i = 0; i < h->table.n_metrics; i++) {
        metric_mask bit = METRIC_BIT(query_table_column(&h->table, i));

        if (row->mask & bit) {
            const struct cell *c = &row->cells[metric_mask_count(row->mask & (bit - 1))];

            cell_add_to(&to[i], row, c);
            if (spreads) {
                spread_add(&spreads[i], c);
            }
        }
    }
}

/* Whether the row has another name or user for the process than was told before. */
static bool history_renames(const struct query_inst *inst, const struct store_cell_row *row)
{
    return row->name.n && !row->instances && inst->info &&
           (!str_eq(inst->info->name, row->name) || !str_eq(inst->info->user, row->user));
}

static enum err cells_take(void *ctx, const struct store_cell_row *row)
{
    struct history *h = ctx;
    struct query_inst *inst;
    struct chain *c = NULL;
    struct point *p;
    enum err e = query_table_row(&h->table, row, &inst);

    if (!e && h->table.told) {
        h->unsure |= !row->before && history_renames(inst, row);
        e = query_table_name(&h->table, inst, row);
    }
    if (!e) {
        e = chain_of(h, inst, &c);
    }
    if (e || !c || (row->before && row->instances)) {
        return e;
    }
    if (row->before) {
        cells_add(h, c->bases, NULL, row);
        return ERR_OK;
    }
    e = point_get(h, c, history_slot(h, row->end_ns - 1), &p);
    if (!e) {
        p->fresh |= row->fresh;
        p->instances += row->instances;
        cells_add(h, p->marks, p->spreads, row);
    }
    return e;
}

static enum err bases_take(void *ctx, const struct store_cell_row *row)
{
    return row->before ? cells_take(ctx, row) : ERR_OK;
}

/* -- values -- */

/* The newest mark of the metric before the point. */
static const struct mark *point_previous(const struct point *p, unsigned i)
{
    const struct mark *base = &p->chain->bases[i];

    for (const struct point *o = p->older; o; o = o->older) {
        if (o->marks[i].when_ns != QUERY_NEVER) {
            return &o->marks[i];
        }
    }
    return base->when_ns != QUERY_NEVER ? base : NULL;
}

/* Whether the newest sample of a mark's slot may be one that could not be read. */
static bool mark_is_hidden(const struct history *h, const struct mark *m)
{
    int64_t end_ns = h->step_ns ? clk_add(history_slot(h, m->when_ns), h->step_ns) : m->when_ns;

    return query_scan_unread_between(h->q, h->s, m->when_ns, end_ns);
}

/* Growth of value i since the process's previous row that has it, and the time that took; false:
 * there is none, or the row before this one could not be read: what it grew by is not in this. */
static bool point_growth(const struct history *h, const struct point *p, unsigned i, int64_t *value,
                         int64_t *took_ns)
{
    const struct mark *m = &p->marks[i], *prev;

    *value = m->value;
    *took_ns = 0;
    if (p->chain->inst->instances) {
        *took_ns = h->step_ns;
        return !query_scan_unread_between(h->q, h->s, p->slot_ns - 1,
                                          clk_add(p->slot_ns, h->step_ns));
    }
    prev = point_previous(p, i);
    if (!prev) {
        return p->fresh;
    }
    if (query_scan_unread_between(h->q, h->s, prev->when_ns, p->slot_ns)) {
        return false;
    }
    if (*value >= prev->value && !p->fresh) { /* else it was counted from zero */
        *value = cell_growth(prev->value, *value);
    }
    *took_ns = m->mono_ns != QUERY_NEVER && prev->mono_ns != QUERY_NEVER
                   ? m->mono_ns - prev->mono_ns
                   : clk_sub(m->when_ns, prev->when_ns);
    return true;
}

static bool point_value(const struct history *h, const struct point *p, unsigned i, int64_t *value)
{
    const struct metric *m = metric_by_id(h->q->out->data.metrics[i]);
    int64_t took_ns;

    if (p->marks[i].when_ns == QUERY_NEVER || mark_is_hidden(h, &p->marks[i])) {
        return false;
    }
    if (m->kind == METRIC_GAUGE) {
        *value = p->marks[i].value;
        return !p->chain->inst->instances;
    }
    if (!point_growth(h, p, i, value, &took_ns)) {
        return false;
    }
    if (m->id != M_CPU_PERCENT) {
        return true;
    }
    if (took_ns <= 0) {
        return false;
    }
    *value = (int64_t)((double)*value * 1000.0 / (double)took_ns + 0.5);
    return true;
}

/* -- rows -- */

static int point_by_time(const void *a, const void *b)
{
    const struct point *x = *(struct point *const *)a, *y = *(struct point *const *)b;
    const struct query_inst *i = x->chain->inst, *k = y->chain->inst;

    if (x->slot_ns != y->slot_ns) {
        return x->slot_ns < y->slot_ns ? -1 : 1;
    }
    if (i->id.pid != k->id.pid) {
        return i->id.pid < k->id.pid ? -1 : 1;
    }
    if (i->id.start != k->id.start) {
        return i->id.start < k->id.start ? -1 : 1;
    }
    return (int)i->boot - (int)k->boot;
}

static bool point_is_before_cursor(const struct query *q, const struct query_span *s,
                                   const struct point *p)
{
    const struct query_cursor *c = &q->cursor;
    const struct query_inst *inst = p->chain->inst;

    if (!query_is_cursor_host(q, s) || !c->c) {
        return false;
    }
    if (p->slot_ns != c->when_ns) {
        return p->slot_ns < c->when_ns;
    }
    return inst->id.pid != c->a ? inst->id.pid < c->a : inst->id.start <= c->b;
}

static enum err point_row(struct history *h, const struct point *p)
{
    struct wire_answer *a = &h->q->out->data;
    struct wire_row *row = &h->rows[a->n_rows];
    const struct query_inst *inst = p->chain->inst;
    int64_t *values = arena_array(&h->q->out->memory, a->n_metrics, sizeof *values);

    if (!values) {
        return ERR_FULL;
    }
    *row = (struct wire_row){.values = values, .when_ns = p->slot_ns, .instances = p->instances};
    if (!inst->instances) {
        row->info.id = inst->id;
    }
    if (inst->info) { /* texts that never change are not repeated in every row */
        row->info = *inst->info;
        row->info.command_line = (struct str){0};
        row->info.image = (struct str){0};
        row->info.user = (struct str){0};
        row->info.have &= ~(uint32_t)(INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT);
    }
    for (unsigned i = 0; i < a->n_metrics; i++) {
        if (point_value(h, p, i, &values[i])) {
            row->have |= UINT64_C(1) << i;
        }
    }
    a->n_rows++;
    return query_host_index(h->q, h->s, &row->host);
}

static bool point_where_value(const struct query_where_row *row, unsigned i, int64_t *v)
{
    return point_value(row->of, row->at, i, v);
}

static bool point_fits(struct history *h, const struct point *p)
{
    const struct query_where_row row = {.span = h->s,
                                        .info = p->chain->inst->info,
                                        .id = p->instances ? NULL : &p->chain->inst->id,
                                        .value = point_where_value,
                                        .of = h,
                                        .at = p};

    return query_where_fits(h->q, &row);
}

/* Rows until the page is full; *last is the key of the one given last. */
static enum err slice_rows(struct history *h, struct query_cursor *last)
{
    struct query *q = h->q;
    enum err e = ERR_OK;

    if (h->n_points) {
        qsort(h->points, h->n_points, sizeof *h->points, point_by_time);
    }
    for (size_t i = 0; !e && i < h->n_points; i++) {
        const struct point *p = h->points[i];

        if (point_is_before_cursor(q, h->s, p) || !point_fits(h, p)) {
            continue;
        }
        if (q->out->data.n_rows == q->limit || !query_fits(q, p->chain->inst->info, 0)) {
            query_more(q, last);
            return ERR_OK;
        }
        e = point_row(h, p);
        last->c = 1;
        last->when_ns = p->slot_ns;
        last->a = p->chain->inst->id.pid;
        last->b = p->chain->inst->id.start;
    }
    return e;
}

/* -- steps, for who adds them up -- */

/* What metric i grew by in this step, since the sample before; where nothing is known of before,
 * from the first one on. A share of time over a hole is that of the whole hole. */
static bool step_growth(const struct history *h, const struct point *p, unsigned i, int64_t *value)
{
    const struct mark *m = &p->marks[i];
    const struct query_spread *s = &p->spreads[i];
    int64_t took_ns;

    if (m->when_ns == QUERY_NEVER || !query_table_counts(&h->table, i) || mark_is_hidden(h, m)) {
        return false;
    }
    if (!point_growth(h, p, i, value, &took_ns)) {
        *value = cell_growth(s->first, m->value);
        return !p->chain->inst->instances && !point_previous(p, i) && s->first_ns < m->when_ns &&
               m->value >= s->first;
    }
    if (h->q->out->data.metrics[i] == M_CPU_PERCENT && !p->chain->inst->instances &&
        clk_add(m->when_ns, -took_ns) < clk_add(p->slot_ns, -h->step_ns)) {
        *value = (int64_t)((double)*value * (double)h->step_ns / (double)took_ns + 0.5);
    }
    return true;
}

static enum err slice_steps(struct history *h)
{
    int64_t growth[WIRE_METRICS_MAX];
    struct query_step step = {.span = h->s, .growth = growth};
    enum err e = ERR_OK;

    for (size_t k = 0; !e && k < h->n_points; k++) {
        const struct point *p = h->points[k];

        step.inst = p->chain->inst;
        step.boot = step.inst->instances ? NULL : &h->table.boots[step.inst->boot];
        step.tag = &p->chain->tag;
        step.slot_ns = p->slot_ns;
        step.spreads = p->spreads;
        step.counted = p->chain->counted;
        step.grew = 0;
        for (unsigned i = 0; i < h->table.n_metrics; i++) {
            h->unsure |= h->behind && !step.inst->instances && !p->fresh &&
                         p->marks[i].when_ns != QUERY_NEVER && !point_previous(p, i);
            step.grew |= (uint64_t)step_growth(h, p, i, &growth[i]) << i;
        }
        e = h->steps->each(h->steps->ctx, &step);
    }
    return e;
}

/* -- slices -- */

static void slice_clear(struct history *h)
{
    arena_reset(&h->memory);
    h->points = NULL;
    h->n_points = h->cap_points = 0;
    for (size_t i = 0; i < h->n_chains; i++) {
        h->all[i]->newest = NULL;
    }
}

/* The newest of the slice are the bases of the next. */
static void slice_end(struct history *h)
{
    for (size_t k = 0; k < h->n_chains; k++) {
        struct chain *c = h->all[k];

        for (unsigned i = 0; i < h->table.n_metrics; i++) {
            const struct point *p = c->newest;

            while (p && p->marks[i].when_ns == QUERY_NEVER) {
                p = p->older;
            }
            if (p) {
                c->bases[i] = p->marks[i];
            }
        }
    }
    slice_clear(h);
}

static metric_mask history_columns(const struct history *h)
{
    metric_mask bits = 0;

    for (unsigned i = 0; i < h->table.n_metrics; i++) {
        bits |= METRIC_BIT(query_table_column(&h->table, i));
    }
    return bits;
}

/* Bases from before the page, as far back as the first page's window and what lies before it. */
static enum err bases_find(struct history *h)
{
    struct store_cells ask = {.since_ns = h->since_ns,
                              .until_ns = h->since_ns,
                              .metrics = history_columns(h),
                              .has_pid = h->q->ask->has_pid,
                              .pid = h->q->ask->pid};

    ask.before_ns = clk_add(clk_sub(h->since_ns, h->s->since_ns), QUERY_LOOKBACK_NS);
    return query_scan_cells(h->q, h->s, &ask, bases_take, h, NULL);
}

static enum err slice_cells(struct history *h, int64_t step_ns)
{
    struct store_cells ask = {.since_ns = h->since_ns,
                              .until_ns = h->until_ns,
                              .step_ns = step_ns,
                              .metrics = history_columns(h),
                              .has_pid = h->q->ask->has_pid,
                              .pid = h->q->ask->pid,
                              .names = h->table.infos,
                              .folded = h->folded,
                              .hours = h->steps && h->steps->hours,
                              .unnamed = h->steps && h->steps->unnamed};

    return query_scan_cells(h->q, h->s, &ask, cells_take, h, NULL);
}

/* Ends the slice where rows begin to be gone, or are there again; *gone: they are in all of it. */
static enum err slice_cut(struct history *h, bool *gone)
{
    struct store_gone at;
    enum err e = store_cells_gone(h->q->env->view, h->s->host, h->since_ns, h->until_ns, &at);
    int64_t border_ns;

    if (e || at.since_ns == at.until_ns) {
        return e;
    }
    *gone = history_slot(h, at.since_ns) <= h->since_ns;
    border_ns = history_slot(h, at.since_ns);
    if (*gone) { /* behind the step in which it ends */
        border_ns =
            h->step_ns ? clk_add(history_slot(h, at.until_ns - 1), h->step_ns) : at.until_ns;
    }
    h->until_ns = border_ns < h->until_ns ? border_ns : h->until_ns;
    return ERR_OK;
}

/* Where samples are gone, the finest sums stand for them. */
static enum err slice_read(struct history *h)
{
    struct store_range range = {.since_ns = h->since_ns,
                                .made_since_ns = INT64_MIN,
                                .metrics = history_columns(h),
                                .no_rests = true,
                                .has_pid = h->q->ask->has_pid,
                                .pid = h->q->ask->pid};
    bool gone = false;
    enum err e;

    if (h->cells) {
        return slice_cells(h, h->step_ns);
    }
    e = slice_cut(h, &gone);
    if (e || gone) {
        return e ? e : slice_cells(h, CELLS_STEP_NS);
    }
    range.until_ns = h->until_ns;
    return query_scan_blocks(h->q, h->s, &range, block_take, h);
}

/* How much time to read first. A slice that ends inside a window has it read again by the next one,
 * so what needs no rows takes long ones. */
static int64_t slice_first(const struct history *h)
{
    int64_t steps = h->q->ask->has_pid ? WIRE_ROWS_MAX : h->steps ? SLICE_STEPS : 16;

    if (h->cells) {
        return h->step_ns < SLICE_MAX_NS / steps ? h->step_ns * steps : SLICE_MAX_NS;
    }
    return (h->q->ask->has_pid ? 3600 : 10) * CLK_S;
}

static int64_t slice_until(const struct history *h, int64_t length_ns)
{
    int64_t until = clk_add(h->since_ns, length_ns);

    until = history_slot(h, until) > h->since_ns ? history_slot(h, until)
                                                 : clk_add(h->since_ns, h->step_ns);
    return until < h->end_ns ? until : h->end_ns;
}

/* With so many points slices do not grow any more. */
static size_t slice_enough(const struct history *h)
{
    size_t point = sizeof(struct point) +
                   h->table.n_metrics * (sizeof(struct mark) + sizeof(struct query_spread));

    return h->steps ? SLICE_BYTES / point : h->q->limit / 4;
}

static enum err history_slices(struct history *h, struct query_cursor *last)
{
    size_t enough = slice_enough(h);
    int64_t length = slice_first(h), least = h->step_ns > SLICE_MIN_NS ? h->step_ns : SLICE_MIN_NS;
    enum err e = ERR_OK;

    while (!e && h->since_ns < h->end_ns && !h->q->out->more) {
        size_t rows = h->q->out->data.n_rows;

        h->until_ns = slice_until(h, length);
        e = slice_read(h);
        if (e == ERR_FULL && length / 4 >= least) {
            length /= 4; /* too much at once */
            slice_clear(h);
            e = ERR_OK;
            continue;
        }
        if (!e) {
            e = h->steps ? slice_steps(h) : slice_rows(h, last);
        }
        rows = h->steps ? h->n_points : h->q->out->data.n_rows - rows;
        slice_end(h);
        h->since_ns = h->until_ns;
        if (rows < enough && length < SLICE_MAX_NS / 2) {
            length *= 2;
        }
    }
    return e;
}

static void history_host_begin(struct history *h, struct query_span *s, struct query_cursor *last)
{
    arena_reset(&h->memory);
    arena_reset(&h->chains);
    h->s = s;
    h->points = NULL;
    h->all = NULL;
    h->n_points = h->cap_points = h->n_chains = h->cap_chains = 0;
    h->since_ns = s->since_ns;
    h->end_ns = s->until_ns;
    h->behind = h->unsure = false;
    query_key_host(last, s);
    query_table_start(&h->table, s, s->since_ns);
}

static enum err history_host(struct history *h, struct query_span *s)
{
    struct query *q = h->q;
    struct query_cursor last = {0};
    enum err e;

    history_host_begin(h, s, &last);
    if (query_is_cursor_host(q, s) && q->cursor.c) {
        last = q->cursor;
        h->since_ns = q->cursor.when_ns > h->since_ns ? q->cursor.when_ns : h->since_ns;
    }
    e = bases_find(h);
    return e ? e : history_slices(h, &last);
}

/* -- sums of groups, where they hold (query_pieces.h) -- */

static enum err pieces_give(struct history *h, struct query_pieces *p, int64_t until_ns)
{
    struct query_step_sums step = {.span = h->s};
    enum err e = query_scan_is_late(h->q) ? ERR_TIMEOUT : ERR_OK;

    for (; !e && p->at < p->n && p->list[p->at].t1_ns < until_ns; p->at++) {
        step.slot_ns = history_slot(h, p->list[p->at].t0_ns);
        step.sums = &p->list[p->at].sums;
        h->q->used.windows[STORE_SUMMARY]++;
        e = h->steps->sums(h->steps->ctx, &step);
    }
    h->behind = true;
    return e;
}

static enum err counted_take(void *ctx, const struct store_cell_row *row)
{
    struct history *h = ctx;
    enum err e = bases_take(ctx, row);
    struct query_inst *inst = e || !row->before || row->instances
                                  ? NULL
                                  : query_table_find(&h->table, row->boot, row->id);

    if (inst && inst->order) {
        h->all[inst->order - 1]->counted = true;
    }
    return e;
}

/* Behind sums the bases are in their last window, or nobody knows. */
static enum err pieces_bases(struct history *h, const struct query_pieces *p, int64_t at_ns)
{
    struct store_cells ask = {.since_ns = at_ns,
                              .until_ns = at_ns,
                              .before_ns = clk_sub(at_ns, p->list[p->at - 1].t0_ns),
                              .metrics = history_columns(h),
                              .names = h->table.infos};

    for (size_t k = 0; k < h->n_chains; k++) {
        h->all[k]->counted = false;
        for (unsigned i = 0; i < h->table.n_metrics; i++) {
            h->all[k]->bases[i].when_ns = QUERY_NEVER;
        }
    }
    return query_scan_cells(h->q, h->s, &ask, counted_take, h, NULL);
}

/* By turns every process, up to where sums hold again, and sums. The first step is read process by
 * process: what lies before the window counts there. */
static enum err pieces_read(struct history *h, struct query_pieces *p)
{
    int64_t at_ns = h->s->since_ns, end_ns = clk_add(at_ns, h->step_ns);
    struct query_cursor unused = {0};
    enum err e = bases_find(h);

    while (!e && at_ns < h->s->until_ns && !h->unsure) {
        while (end_ns < h->s->until_ns && query_pieces_sums(p, end_ns) == end_ns) {
            end_ns = clk_add(end_ns, h->step_ns);
        }
        h->since_ns = at_ns;
        h->end_ns = end_ns < h->s->until_ns ? end_ns : h->s->until_ns;
        e = history_slices(h, &unused);
        at_ns = h->end_ns;
        if (e || at_ns >= h->s->until_ns) {
            break;
        }
        end_ns = query_pieces_sums(p, at_ns);
        e = pieces_give(h, p, end_ns);
        at_ns = end_ns;
        e = e || at_ns >= h->s->until_ns ? e : pieces_bases(h, p, at_ns);
    }
    return e;
}

/* Sums where they hold and, when what comes behind them does not fit, all anew without. */
static enum err history_host_sums(struct history *h, struct query_span *s)
{
    const struct store_used used = h->q->used;
    struct query_cursor unused = {0};
    struct arena memory;
    struct query_pieces p = {
        .since_ns = s->since_ns, .until_ns = s->until_ns, .step_ns = h->step_ns};
    enum err e;

    arena_init(&memory, QUERY_MEMORY_MAX / 4);
    history_host_begin(h, s, &unused);
    for (unsigned i = 0; i < h->table.n_metrics; i++) {
        p.columns[p.n_columns++] = query_table_column(&h->table, i);
    }
    e = query_pieces_list(&p, h->q->env->view, s->host, &memory);
    e = e ? e : pieces_read(h, &p);
    arena_fini(&memory);
    if (e == ERR_FULL || (!e && h->unsure)) {
        h->steps->undo(h->steps->ctx);
        h->q->used = used;
        e = history_host(h, s);
    }
    return e;
}

static void history_open(struct history *h)
{
    /* for who adds up, cells of some samples are cheaper than each of them */
    h->cells = h->step_ns >= (h->steps ? CELLS_MIN_NS : CELLS_STEP_NS);
    query_table_init(&h->table, h->q);
    h->table.infos = true;
    arena_init(&h->memory, QUERY_MEMORY_MAX / 2);
    arena_init(&h->chains, QUERY_MEMORY_MAX / 4);
}

static void history_close(struct history *h)
{
    arena_fini(&h->chains);
    arena_fini(&h->memory);
    query_table_fini(&h->table);
}

enum err query_history(struct query *q)
{
    struct history h = {.q = q, .step_ns = q->ask->step_ns, .folded = q->ask->folded};
    enum err e = query_plan(q, history_metrics, sizeof history_metrics, WIRE_ROWS_MAX);

    if (e) {
        return e;
    }
    h.rows = arena_array(&q->out->memory, q->limit, sizeof *h.rows);
    if (!h.rows) {
        return ERR_NOMEM;
    }
    history_open(&h);
    for (size_t i = query_first_span(q); !e && i < q->n_spans && !q->out->more; i++) {
        e = history_host(&h, &q->spans[i]);
    }
    q->out->data.rows = h.rows;
    history_close(&h);
    return e;
}

enum err query_history_steps(struct query *q, const struct query_history_steps *steps)
{
    struct history h = {.q = q, .step_ns = steps->step_ns, .folded = true, .steps = steps};
    enum err e = ERR_OK;

    assert(steps->step_ns > 0);
    history_open(&h);
    h.table.nameless = true;
    h.table.infos = !steps->nameless || steps->told;
    h.table.told = steps->told;
    for (size_t i = 0; !e && i < q->n_spans; i++) {
        e = steps->sums ? history_host_sums(&h, &q->spans[i]) : history_host(&h, &q->spans[i]);
        if (!e) {
            e = steps->host_done(steps->ctx, &q->spans[i]);
        }
    }
    history_close(&h);
    return e;
}
