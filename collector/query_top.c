/* Top: the processes that used most of a metric inside the window.
 *
 * Host by host the window is scanned into a table of instances; each instance's value then competes
 * for a place in a bounded heap whose root is the least of the winners. Only winners keep their
 * values, so memory depends on the limit and on one host's processes, not on the fleet. A value
 * is growth, so a batch or two before the window are read as well: they hold the counters' values
 * at its beginning. */
#include "collector/query_plan.h"

#include <stdlib.h>

#include "collector/query_table.h"
#include "common/clk.h"

#define TOP_LIMIT   10
#define LOOKBACK_NS (60 * CLK_S) /* how far before the window a counter's value may lie */

static const uint8_t top_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE,
                                      M_THREAD_COUNT};

struct winner {
    int64_t key;
    size_t span;
    struct proc_id id;
    const struct proc_info *info;
    int64_t when_ns;
    uint64_t have;
    int64_t *values;
};

struct top {
    struct query *q;
    struct query_table table;
    size_t n, cap;
    struct winner *heap;
};

/* Whether a ranks before b. */
static bool before(const struct winner *a, const struct winner *b)
{
    if (a->key != b->key) {
        return a->key > b->key;
    }
    if (a->span != b->span) {
        return a->span < b->span;
    }
    if (a->id.pid != b->id.pid) {
        return a->id.pid < b->id.pid;
    }
    return a->id.start < b->id.start;
}

static void swap(struct winner *a, struct winner *b)
{
    struct winner t = *a;

    *a = *b;
    *b = t;
}

static void sift_up(struct winner *h, size_t i)
{
    while (i > 0 && before(&h[(i - 1) / 2], &h[i])) {
        swap(&h[(i - 1) / 2], &h[i]);
        i = (i - 1) / 2;
    }
}

static void sift_down(struct winner *h, size_t n)
{
    size_t i = 0;

    for (;;) {
        size_t last = i, l = 2 * i + 1;

        if (l < n && before(&h[last], &h[l])) {
            last = l;
        }
        if (l + 1 < n && before(&h[last], &h[l + 1])) {
            last = l + 1;
        }
        if (last == i) {
            return;
        }
        swap(&h[i], &h[last]);
        i = last;
    }
}

static void winner_fill(const struct top *t, struct winner *w, const struct query_inst *inst)
{
    w->id = inst->id;
    w->info = inst->info;
    w->when_ns = inst->seen_ns;
    w->have = 0;
    for (unsigned i = 0; i < t->table.n_metrics; i++) {
        if (query_table_value(&t->table, inst, i, false, &w->values[i])) {
            w->have |= UINT64_C(1) << i;
        }
    }
}

/* The instance takes the place of the least winner if it ranks before it. */
static enum err compete(struct top *t, size_t span, const struct query_inst *inst)
{
    struct winner w = {.span = span, .id = inst->id};

    if (inst->hidden || !query_table_value(&t->table, inst, 0, false, &w.key)) {
        return ERR_OK;
    }
    if (t->n < t->cap) {
        w.values = arena_array(&t->q->out->memory, t->table.n_metrics, sizeof *w.values);
        if (!w.values) {
            return ERR_FULL;
        }
        winner_fill(t, &w, inst);
        t->heap[t->n++] = w;
        sift_up(t->heap, t->n - 1);
    } else if (before(&w, &t->heap[0])) {
        w.values = t->heap[0].values;
        winner_fill(t, &w, inst);
        t->heap[0] = w;
        sift_down(t->heap, t->n);
    }
    return ERR_OK;
}

static enum err take(void *ctx, const struct batch *b)
{
    return query_table_add(ctx, b);
}

static enum err host_compete(struct top *t, size_t span)
{
    const struct query_span *s = &t->q->spans[span];
    enum err e;

    query_table_start(&t->table, s, s->since_ns);
    e = query_scan(t->q, s, clk_add(s->since_ns, -LOOKBACK_NS), take, &t->table);
    for (size_t i = 0; !e && i < t->table.cap; i++) {
        if (t->table.slots[i]) {
            e = compete(t, span, t->table.slots[i]);
        }
    }
    return e;
}

static int by_rank(const void *a, const void *b)
{
    return before(a, b) ? -1 : 1;
}

static enum err rows_make(struct top *t)
{
    struct query *q = t->q;
    struct wire_row *rows = arena_array(&q->out->memory, t->n, sizeof *rows);
    struct query_cursor key = {0};

    if (!rows) {
        return ERR_FULL;
    }
    qsort(t->heap, t->n, sizeof *t->heap, by_rank);
    for (size_t i = q->cursor.c; i < t->n; i++) {
        const struct winner *w = &t->heap[i];
        struct wire_row *row = &rows[q->out->data.n_rows];
        enum err e;

        if (!query_fits(q, w->info, 0)) {
            query_key_host(&key, &q->spans[w->span]);
            key.c = (uint32_t)i; /* ranks already given */
            query_more(q, &key);
            break;
        }
        row->info.id = w->id;
        if (w->info) {
            row->info = *w->info;
        }
        row->when_ns = w->when_ns;
        row->have = w->have;
        row->values = w->values;
        e = query_host_index(q, &q->spans[w->span], &row->host);
        if (e) {
            return e;
        }
        q->out->data.n_rows++;
    }
    q->out->data.rows = rows;
    return ERR_OK;
}

enum err query_top(struct query *q)
{
    struct top t = {.q = q};
    enum err e = query_plan(q, top_metrics, sizeof top_metrics, TOP_LIMIT);

    if (e) {
        return e;
    }
    t.cap = q->limit;
    t.heap = arena_array(&q->out->memory, t.cap, sizeof *t.heap);
    if (!t.heap) {
        return ERR_NOMEM;
    }
    query_table_init(&t.table, q);
    for (size_t i = 0; !e && i < q->n_spans; i++) {
        e = host_compete(&t, i);
    }
    if (!e) {
        e = rows_make(&t);
    }
    query_table_fini(&t.table);
    return e;
}
