/* Tree: the processes of each host at one moment, every parent before its children, with what is
 * known of them and the totals of their counters then. Of a run that is one process tree all that
 * were in it: those that ended meanwhile, with their last totals, and those alive at its end.
 *
 * A question for a pid or a name gets the processes that fit and all that descend from them. The
 * order is that of a walk down from those without a parent, siblings by pid and start; it uses an
 * explicit stack; a process that a circle of wrong parents keeps out of the walk is visited from
 * itself. */
#include "collector/query/query_tree.h"

#include <stdlib.h>
#include <string.h>

#include "collector/query/query_processes.h"
#include "common/base/clk.h"

/* -- who descends from whom -- */

static int kin_by_key(const void *a, const void *b)
{
    return query_table_key_order(&((const struct kin *)a)->key, &((const struct kin *)b)->key);
}

/* The last of those with this pid and boot that began at `start` or before. Keys are in the order
 * of pid, start, boot, so the search ends at the first of the pid. */
static size_t kin_latest(const struct kin *kins, size_t n, const struct proc_key *key)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (query_table_key_order(&kins[mid].key, key) <= 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    while (lo-- > 0 && kins[lo].key.id.pid == key->id.pid) {
        if (memcmp(kins[lo].key.boot.b, key->boot.b, sizeof key->boot.b) == 0) {
            return lo;
        }
    }
    return KIN_NONE;
}

static size_t kin_parent(const struct kin *kins, size_t n, size_t child)
{
    const struct proc_info *info = kins[child].info;
    struct proc_key key = kins[child].key;
    size_t at;

    if (!info || !(info->have & INFO_PARENT) || info->parent_pid == key.id.pid) {
        return KIN_NONE;
    }
    key.id.pid = info->parent_pid;
    if (info->parent_start || !key.id.start) {
        key.id.start = info->parent_start ? info->parent_start : UINT64_MAX;
    }
    at = kin_latest(kins, n, &key);
    if (at != KIN_NONE && info->parent_start && kins[at].key.id.start != info->parent_start) {
        return KIN_NONE;
    }
    return at;
}

static void kin_link(struct kin *kins, size_t n)
{
    if (n) {
        qsort(kins, n, sizeof *kins, kin_by_key);
    }
    for (size_t i = 0; i < n; i++) {
        kins[i].parent = kin_parent(kins, n, i);
    }
}

/* -- sums over descendants, for Top -- */

static int inst_by_key(const void *a, const void *b)
{
    const struct query_inst *x = *(const struct query_inst *const *)a;
    const struct query_inst *y = *(const struct query_inst *const *)b;

    if (x->id.pid != y->id.pid) {
        return x->id.pid < y->id.pid ? -1 : 1;
    }
    if (x->id.start != y->id.start) {
        return x->id.start < y->id.start ? -1 : 1;
    }
    return (int)x->order - (int)y->order;
}

static bool sums_count(const struct query_table *t, const struct query_inst *inst, bool ended)
{
    return inst && !inst->hidden && !inst->instances && (ended || query_table_lives(t, inst));
}

/* Where the instance's boot stands among the table's, in the order of their ids. */
static void boots_order(struct query_table *t)
{
    for (size_t i = 0; i < t->cap; i++) {
        struct query_inst *inst = t->slots[i];

        if (inst && inst->boot < t->n_boots) {
            inst->order = 0;
            for (unsigned b = 0; b < t->n_boots; b++) {
                inst->order +=
                    memcmp(t->boots[b].b, t->boots[inst->boot].b, sizeof t->boots[b].b) < 0;
            }
        }
    }
}

static void sums_add(struct query_tree_sums *out, const struct query_table *t, size_t child)
{
    size_t to = child;

    for (unsigned depth = 0; to != KIN_NONE && depth < KIN_DEPTH_MAX; depth++) {
        if (out->kins[to].met == child + 1) {
            return;
        }
        out->kins[to].met = child + 1;
        for (unsigned i = 0; i < t->n_metrics; i++) {
            query_table_sum_add(&out->sums[to * t->n_metrics + i], t, out->insts[child], i);
        }
        out->members[to]++;
        to = out->kins[to].parent;
    }
}

enum err query_tree_sums(struct query_tree_sums *out, struct query_table *t, bool ended)
{
    *out = (struct query_tree_sums){0};
    for (size_t i = 0; i < t->cap; i++) {
        out->n += sums_count(t, t->slots[i], ended);
    }
    out->insts = arena_array(&t->memory, out->n, sizeof(const struct query_inst *));
    out->kins = arena_array(&t->memory, out->n, sizeof *out->kins);
    out->sums = arena_array(&t->memory, out->n * t->n_metrics, sizeof *out->sums);
    out->members = arena_array(&t->memory, out->n, sizeof *out->members);
    if (!out->insts || !out->kins || !out->sums || !out->members) {
        return ERR_FULL;
    }
    boots_order(t);
    out->n = 0;
    for (size_t i = 0; i < t->cap; i++) {
        if (sums_count(t, t->slots[i], ended)) {
            out->insts[out->n++] = t->slots[i];
        }
    }
    if (out->n) {
        qsort(out->insts, out->n, sizeof *out->insts, inst_by_key);
    }
    for (size_t i = 0; i < out->n; i++) {
        const struct query_inst *inst = out->insts[i];

        out->kins[i] = (struct kin){.key = {inst->id, t->boots[inst->boot]}, .info = inst->info};
    }
    kin_link(out->kins, out->n); /* keeps the order: it is the same */
    for (size_t i = 0; i < out->n; i++) {
        sums_add(out, t, i);
    }
    return ERR_OK;
}

/* -- a run's process tree -- */

struct family {
    struct query *q;
    const struct uuid *boot;
    size_t n, cap;
    struct kin *kins;
};

static enum err family_take(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    struct family *f = ctx;
    struct arena *a = &f->q->out->memory;
    size_t cap = f->cap ? 2 * f->cap : 256;
    struct proc_info *copy;

    if (memcmp(boot->b, f->boot->b, sizeof boot->b) != 0) {
        return ERR_OK;
    }
    if (f->n == f->cap) {
        struct kin *more = arena_array(a, cap, sizeof *more);

        if (!more) {
            return ERR_FULL;
        }
        if (f->n) {
            memcpy(more, f->kins, f->n * sizeof *more);
        }
        f->kins = more;
        f->cap = cap;
    }
    copy = arena_dup(a, info, sizeof *info); /* of its texts nothing is read */
    f->kins[f->n++] = (struct kin){.key = {info->id, *boot}, .info = copy};
    return copy ? ERR_OK : ERR_FULL;
}

/* Whether the way up from there meets the root; what is found is kept in `met`: 1 it does, 2 not.
 */
static bool family_has(struct kin *kins, size_t from, size_t root)
{
    size_t end = from, at;

    for (unsigned depth = 0; end != KIN_NONE && end != root && !kins[end].met; depth++) {
        end = depth < KIN_DEPTH_MAX ? kins[end].parent : KIN_NONE;
    }
    at = end == root || (end != KIN_NONE && kins[end].met == 1) ? 1 : 2;
    for (unsigned depth = 0; from != end && from != KIN_NONE && depth <= KIN_DEPTH_MAX; depth++) {
        kins[from].met = at;
        from = kins[from].parent;
    }
    return at == 1;
}

enum err query_tree_family(struct query *q, const struct query_span *s,
                           const struct proc_id **family, size_t *n)
{
    const struct query_run *run = q->env->run;
    const struct store_instances ask = {
        .since_ns = s->since_ns, .until_ns = s->until_ns, .brief = true};
    const struct proc_key key = {run->root, run->boot};
    struct family f = {.q = q, .boot = &run->boot};
    struct proc_id *ids;
    size_t root;
    enum err e = store_info_each(q->env->view, s->host, &ask, family_take, &f);

    *n = 0;
    if (e) {
        return e;
    }
    kin_link(f.kins, f.n);
    root = kin_latest(f.kins, f.n, &key);
    ids = arena_array(&q->out->memory, f.n + 1, sizeof *ids);
    *family = ids;
    if (!ids) {
        return ERR_FULL;
    }
    if (root == KIN_NONE || f.kins[root].key.id.start != run->root.start) {
        return ERR_OK;
    }
    for (size_t i = 0; i < f.n; i++) {
        if (family_has(f.kins, i, root)) {
            ids[(*n)++] = f.kins[i].key.id;
        }
    }
    return ERR_OK;
}

/* -- the question -- */

static const uint8_t tree_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE,
                                       M_THREAD_COUNT};

struct tree {
    struct query *q;
    struct query_living_list alive;
    struct query_span *s;
    size_t n;
    struct kin *kins;        /* of the host's living, in the order of their list */
    size_t *child, *sibling; /* first and next, or KIN_NONE */
    bool *met;
    size_t *stack;
    uint32_t *depth; /* below the first that was asked for, plus 1; 0: not asked for */
    bool *wanted;    /* asked for, */
    bool *above;     /* or above one that is */
    size_t given;    /* of this host, those of earlier pages included */
    size_t n_page;   /* of this page and host: indices */
    size_t *page;
    struct wire_row *rows;
};

static enum err tree_alloc(struct tree *t)
{
    struct arena *a = &t->alive.memory;

    t->n = t->alive.n;
    t->kins = arena_array(a, t->n, sizeof *t->kins);
    t->child = arena_array(a, t->n, sizeof *t->child);
    t->sibling = arena_array(a, t->n, sizeof *t->sibling);
    t->met = arena_array(a, t->n, sizeof *t->met);
    t->stack = arena_array(a, t->n, sizeof *t->stack);
    t->depth = arena_array(a, t->n, sizeof *t->depth);
    t->wanted = arena_array(a, t->n, sizeof *t->wanted);
    t->above = arena_array(a, t->n, sizeof *t->above);
    t->page = arena_array(a, t->n, sizeof *t->page);
    t->n_page = 0;
    return t->kins && t->child && t->sibling && t->met && t->stack && t->depth && t->wanted &&
                   t->above && t->page
               ? ERR_OK
               : ERR_FULL;
}

/* Finds parents, and of each its children in the order of kins. */
static enum err tree_link(struct tree *t)
{
    enum err e = tree_alloc(t);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < t->n; i++) {
        t->kins[i] = (struct kin){.key = t->alive.list[i].key, .info = t->alive.list[i].info};
        t->child[i] = t->sibling[i] = KIN_NONE;
    }
    kin_link(t->kins, t->n);
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
static void tree_visit(struct tree *t, size_t i)
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

static void tree_depth(struct tree *t, size_t i)
{
    size_t parent = t->kins[i].parent;
    bool below = parent != KIN_NONE && t->met[parent];
    uint32_t above = below ? t->depth[parent] : 0;

    t->wanted[i] = t->wanted[i] || (below && t->wanted[parent]);
    t->depth[i] = t->wanted[i] || t->above[i] ? above + 1 : 0;
}

/* Whom the question asks for, and on demand those above them. */
static void tree_choose(struct tree *t)
{
    for (size_t i = 0; i < t->n; i++) {
        t->wanted[i] = query_wants(t->q, t->kins[i].key.id, t->kins[i].info) &&
                       query_processes_fits(&t->alive, &t->alive.list[i]);
        for (size_t k = t->kins[i].parent;
             t->q->ask->ancestors && t->wanted[i] && k != KIN_NONE && !t->above[k];
             k = t->kins[k].parent) {
            t->above[k] = true;
        }
    }
}

/* The filter may ask about values: those of all are read before. */
static enum err tree_read_all(struct tree *t)
{
    enum err e;

    for (size_t i = 0; i < t->n; i++) {
        t->alive.list[i].shown = true;
    }
    e = query_processes_read(&t->alive);
    for (size_t i = 0; i < t->n; i++) {
        t->alive.list[i].shown = false;
    }
    return e;
}

/* Everything below `from`, and itself. */
static void tree_walk(struct tree *t, size_t from)
{
    size_t n = 0;

    t->stack[n++] = from;
    while (n > 0 && !t->q->out->more) {
        size_t i = t->stack[n - 1];

        if (!t->met[i]) {
            tree_depth(t, i);
            t->met[i] = true;
            tree_visit(t, i);
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

/* The whole of a run's process tree, not a moment of it. */
static bool tree_is_run(const struct query *q)
{
    return q->family && !q->ask->at_ns;
}

static enum err tree_host(struct tree *t)
{
    /* also whom those asked for begat, and those above them */
    const struct query_living_ask everyone = {.limit = SIZE_MAX, .ended = tree_is_run(t->q)};
    enum err e = query_processes_find(&t->alive, t->s, &everyone);

    t->given = 0;
    e = e ? e : tree_link(t);
    e = e || !t->q->where ? e : tree_read_all(t);
    if (!e) {
        tree_choose(t);
    }
    for (size_t i = 0; !e && i < t->n && !t->q->out->more; i++) {
        if (t->kins[i].parent == KIN_NONE) {
            tree_walk(t, i);
        }
    }
    for (size_t i = 0; !e && i < t->n && !t->q->out->more; i++) {
        if (!t->met[i]) {
            tree_walk(t, i);
        }
    }
    e = e || t->q->where ? e : query_processes_read(&t->alive);
    for (size_t i = 0; !e && i < t->n_page; i++) {
        e = query_processes_row(&t->alive, &t->alive.list[t->page[i]], t->s, t->rows,
                                t->depth[t->page[i]] - 1);
    }
    return e;
}

/* The moment: the last of the span. */
static void tree_span(const struct query *q, struct query_span *s)
{
    bool by_run = q->env->run && !q->ask->at_ns; /* at its end */

    s->anchored = !q->ask->at_ns && !by_run;
    s->until_ns =
        by_run ? s->until_ns : clk_add(q->ask->at_ns ? q->ask->at_ns : s->about->last_ns, 1);
    if (!tree_is_run(q)) {
        s->since_ns = clk_add(s->until_ns, -QUERY_LOOKBACK_NS);
    }
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
        tree_span(q, &q->spans[i]);
    }
    query_known(q);
    query_processes_init(&t.alive, q);
    for (size_t i = query_first_span(q); !e && i < q->n_spans && !q->out->more; i++) {
        t.s = &q->spans[i];
        e = tree_host(&t);
    }
    q->out->data.rows = t.rows;
    query_processes_fini(&t.alive);
    return e;
}
