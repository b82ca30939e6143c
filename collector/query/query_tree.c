/* Tree: the processes of each host at one moment, every parent before its children, with what is
 * known of them and the totals of their counters then.
 *
 * A question for a pid or a name gets the processes that fit and all that descend from them. The
 * order is that of a walk down from those without a parent, siblings by pid and start; it uses an
 * explicit stack, and whoever a circle of wrong parents keeps out of the walk is walked to from
 * itself. */
#include "collector/query/query_plan.h"

#include "collector/query/query_alive.h"
#include "collector/query/query_kin.h"
#include "common/base/clk.h"

static const uint8_t tree_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE,
                                       M_THREAD_COUNT};

struct tree {
    struct query *q;
    struct query_alive alive;
    struct query_span *s;
    size_t n;
    struct kin *kins;        /* of the host's living, in the order of their list */
    size_t *child, *sibling; /* first and next, or KIN_NONE */
    bool *met;
    size_t *stack;
    uint32_t *depth; /* below the first that was asked for, plus 1; 0: not asked for */
    size_t given;    /* of this host, those of earlier pages included */
    size_t n_page;   /* of this page and host: indices */
    size_t *page;
    struct wire_row *rows;
};

static enum err host_alloc(struct tree *t)
{
    struct arena *a = &t->alive.memory;

    t->n = t->alive.n;
    t->kins = arena_array(a, t->n, sizeof *t->kins);
    t->child = arena_array(a, t->n, sizeof *t->child);
    t->sibling = arena_array(a, t->n, sizeof *t->sibling);
    t->met = arena_array(a, t->n, sizeof *t->met);
    t->stack = arena_array(a, t->n, sizeof *t->stack);
    t->depth = arena_array(a, t->n, sizeof *t->depth);
    t->page = arena_array(a, t->n, sizeof *t->page);
    t->n_page = 0;
    return t->kins && t->child && t->sibling && t->met && t->stack && t->depth && t->page
               ? ERR_OK
               : ERR_FULL;
}

/* Finds parents, and of each its children in the order of kins. */
static enum err host_link(struct tree *t)
{
    enum err e = host_alloc(t);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < t->n; i++) {
        t->kins[i] = (struct kin){.key = t->alive.list[i].key, .info = t->alive.list[i].info};
        t->child[i] = t->sibling[i] = KIN_NONE;
    }
    query_kin_link(t->kins, t->n);
    for (size_t i = t->n; i-- > 0;) {
        size_t parent = t->kins[i].parent;

        if (parent != KIN_NONE) {
            t->sibling[i] = t->child[parent];
            t->child[parent] = i;
        }
    }
    return ERR_OK;
}

/* -- rows -- */

/* Takes it into the page unless an earlier one had it or it was not asked for. */
static void visit(struct tree *t, size_t i)
{
    struct query *q = t->q;
    size_t before = query_is_cursor_host(q, t->s) ? q->cursor.c : 0;
    struct query_cursor key = {0};

    if (!t->depth[i]) {
        return;
    }
    if (t->given < before) {
        t->given++;
        return;
    }
    if (q->out->data.n_rows + t->n_page == q->limit || !query_fits(q, t->kins[i].info, 0)) {
        query_key_host(&key, t->s);
        key.c = (uint32_t)t->given;
        query_more(q, &key);
        return;
    }
    t->given++;
    t->alive.list[i].shown = true;
    t->page[t->n_page++] = i;
}

static void depth_set(struct tree *t, size_t i)
{
    size_t parent = t->kins[i].parent;
    uint32_t above = parent != KIN_NONE && t->met[parent] ? t->depth[parent] : 0;
    bool wanted = query_wants(t->q, t->kins[i].key.id, t->kins[i].info);

    t->depth[i] = above ? above + 1 : wanted;
}

/* Everything below `from`, and itself. */
static void walk(struct tree *t, size_t from)
{
    size_t n = 0;

    t->stack[n++] = from;
    while (n > 0 && !t->q->out->more) {
        size_t i = t->stack[n - 1];

        if (!t->met[i]) {
            depth_set(t, i);
            t->met[i] = true;
            visit(t, i);
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
}

static enum err host_rows(struct tree *t)
{
    const struct query_alive_ask everyone = {.limit =
                                                 SIZE_MAX}; /* also whom those asked for begat */
    enum err e = query_alive_find(&t->alive, t->s, &everyone);

    t->given = 0;
    e = e ? e : host_link(t);
    for (size_t i = 0; !e && i < t->n && !t->q->out->more; i++) {
        if (t->kins[i].parent == KIN_NONE) {
            walk(t, i);
        }
    }
    for (size_t i = 0; !e && i < t->n && !t->q->out->more; i++) {
        if (!t->met[i]) {
            walk(t, i);
        }
    }
    e = e ? e : query_alive_read(&t->alive);
    for (size_t i = 0; !e && i < t->n_page; i++) {
        e = query_alive_row(&t->alive, &t->alive.list[t->page[i]], t->s, t->rows,
                            t->depth[t->page[i]] - 1);
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
    query_alive_init(&t.alive, q);
    for (size_t i = query_first_span(q); !e && i < q->n_spans && !q->out->more; i++) {
        t.s = &q->spans[i];
        e = host_rows(&t);
    }
    q->out->data.rows = t.rows;
    query_alive_fini(&t.alive);
    return e;
}
