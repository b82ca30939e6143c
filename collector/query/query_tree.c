/* Tree: the processes of each host at one moment, every parent before its children, with what is
 * known of them and the totals of their counters then.
 *
 * A question for a pid or a name gets the processes that fit and all that descend from them. The
 * order is that of a walk down from those without a parent, siblings by pid and start; it uses an
 * explicit stack, and whoever a circle of wrong parents keeps out of the walk is walked to from
 * itself. */
#include "collector/query/query_plan.h"

#include <stdlib.h>

#include "collector/query/query_alive.h"
#include "collector/query/query_kin.h"
#include "common/clk.h"

static const uint8_t tree_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE,
                                       M_THREAD_COUNT};

struct tree {
    struct query *q;
    struct query_table table;
    struct query_span *s;
    size_t n;
    struct kin *kins;                /* of the host's living */
    const struct query_inst **insts; /* the same order */
    size_t *child, *sibling;         /* first and next, or KIN_NONE */
    bool *met;
    size_t *stack;
    uint32_t *depth; /* below the first that was asked for, plus 1; 0: not asked for */
    size_t given;    /* of this host, those of earlier pages included */
    struct wire_row *rows;
};

static bool is_there(const struct tree *t, const struct query_inst *inst)
{
    return inst && !inst->hidden && query_inst_lives(&t->table, inst);
}

static enum err host_alloc(struct tree *t)
{
    struct arena *a = &t->table.memory;

    t->n = 0;
    for (size_t i = 0; i < t->table.cap; i++) {
        t->n += is_there(t, t->table.slots[i]);
    }
    t->kins = arena_array(a, t->n, sizeof *t->kins);
    t->insts = arena_array(a, t->n, sizeof(const struct query_inst *));
    t->child = arena_array(a, t->n, sizeof *t->child);
    t->sibling = arena_array(a, t->n, sizeof *t->sibling);
    t->met = arena_array(a, t->n, sizeof *t->met);
    t->stack = arena_array(a, t->n, sizeof *t->stack);
    t->depth = arena_array(a, t->n, sizeof *t->depth);
    return t->kins && t->insts && t->child && t->sibling && t->met && t->stack && t->depth
               ? ERR_OK
               : ERR_FULL;
}

/* Finds parents, and of each its children in the order of kins. */
static enum err host_link(struct tree *t)
{
    size_t n = 0;
    enum err e = host_alloc(t);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < t->table.cap; i++) {
        const struct query_inst *inst = t->table.slots[i];

        if (is_there(t, inst)) {
            t->kins[n++] =
                (struct kin){.key = {inst->id, t->table.boots[inst->boot]}, .info = inst->info};
        }
    }
    query_kin_link(t->kins, n);
    for (size_t i = n; i-- > 0;) {
        struct query_inst *inst;

        t->child[i] = t->sibling[i] = KIN_NONE;
        e = query_table_get(&t->table, &t->kins[i].key.boot, t->kins[i].key.id, &inst);
        if (e) {
            return e;
        }
        t->insts[i] = inst;
    }
    for (size_t i = n; i-- > 0;) {
        size_t parent = t->kins[i].parent;

        if (parent != KIN_NONE) {
            t->sibling[i] = t->child[parent];
            t->child[parent] = i;
        }
    }
    return ERR_OK;
}

/* -- rows -- */

static enum err row_add(struct tree *t, size_t i, struct wire_row *row)
{
    struct wire_answer *a = &t->q->out->data;
    const struct query_inst *inst = t->insts[i];
    int64_t *values = arena_array(&t->q->out->memory, a->n_metrics, sizeof *values);

    if (!values) {
        return ERR_FULL;
    }
    *row = (struct wire_row){.values = values, .when_ns = inst->seen_ns, .depth = t->depth[i] - 1};
    if (inst->seen_ns == QUERY_NEVER) {
        row->when_ns = clk_sub(t->s->until_ns, 1);
    }
    row->info.id = inst->id;
    if (inst->info) {
        row->info = *inst->info;
    }
    for (unsigned k = 0; k < a->n_metrics; k++) {
        if (query_table_total(&t->table, inst, k, &values[k])) {
            row->have |= UINT64_C(1) << k;
        }
    }
    a->n_rows++;
    return query_host_index(t->q, t->s, &row->host);
}

/* Gives the row unless an earlier page did or it was not asked for. */
static enum err visit(struct tree *t, size_t i)
{
    struct query *q = t->q;
    size_t before = query_is_cursor_host(q, t->s) ? q->cursor.c : 0;
    struct query_cursor key = {0};

    if (!t->depth[i]) {
        return ERR_OK;
    }
    if (t->given < before) {
        t->given++;
        return ERR_OK;
    }
    if (q->out->data.n_rows == q->limit || !query_fits(q, t->insts[i]->info, 0)) {
        query_key_host(&key, t->s);
        key.c = (uint32_t)t->given;
        query_more(q, &key);
        return ERR_OK;
    }
    t->given++;
    return row_add(t, i, &t->rows[q->out->data.n_rows]);
}

static void depth_set(struct tree *t, size_t i)
{
    size_t parent = t->kins[i].parent;
    uint32_t above = parent != KIN_NONE && t->met[parent] ? t->depth[parent] : 0;
    bool wanted = query_wants(t->q, t->insts[i]->id, t->insts[i]->info);

    t->depth[i] = above ? above + 1 : wanted;
}

/* Everything below `from`, and itself. */
static enum err walk(struct tree *t, size_t from)
{
    size_t n = 0;
    enum err e = ERR_OK;

    t->stack[n++] = from;
    while (!e && n > 0 && !t->q->out->more) {
        size_t i = t->stack[n - 1];

        if (!t->met[i]) {
            depth_set(t, i);
            t->met[i] = true;
            e = visit(t, i);
        }
        while (t->child[i] != KIN_NONE && t->met[t->child[i]]) {
            t->child[i] = t->sibling[t->child[i]];
        }
        if (t->child[i] != KIN_NONE) {
            t->stack[n++] = t->child[i];
        } else {
            n--;
        }
    }
    return e;
}

static enum err host_rows(struct tree *t)
{
    enum err e = host_link(t);

    t->given = 0;
    for (size_t i = 0; !e && i < t->n && !t->q->out->more; i++) {
        if (t->kins[i].parent == KIN_NONE) {
            e = walk(t, i);
        }
    }
    for (size_t i = 0; !e && i < t->n && !t->q->out->more; i++) {
        if (!t->met[i]) {
            e = walk(t, i);
        }
    }
    return e;
}

/* The moment: the last of the span. */
static void span_set(const struct query *q, struct query_span *s)
{
    s->anchored = !q->ask->at_ns;
    s->until_ns = clk_add(q->ask->at_ns ? q->ask->at_ns : s->about->last_ns, 1);
    s->since_ns = clk_add(s->until_ns, -QUERY_LOOKBACK_NS);
}

enum err query_tree(struct query *q)
{
    struct tree t = {.q = q};
    enum err e = query_plan(q, tree_metrics, sizeof tree_metrics, WIRE_ROWS_MAX);

    if (e) {
        return e;
    }
    t.rows = arena_array(&q->out->memory, q->limit, sizeof *t.rows);
    if (!t.rows) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < q->n_spans; i++) {
        span_set(q, &q->spans[i]);
    }
    query_known(q);
    query_table_init(&t.table, q);
    t.table.all = true; /* descendants of those asked for */
    for (size_t i = query_first_span(q); !e && i < q->n_spans && !q->out->more; i++) {
        t.s = &q->spans[i];
        e = query_alive_fill(&t.table, t.s, false);
        if (!e) {
            e = host_rows(&t);
        }
    }
    q->out->data.rows = t.rows;
    query_table_fini(&t.table);
    return e;
}
