/* Top: the processes, or trees of them, that used most of a metric inside the window. Images, users
 * and hosts: query_groups.c.
 *
 * Twice over the data. First each host is read for the one metric that decides: every instance
 * competes for a place in a bounded heap whose root is the least of the winners. Then the hosts of
 * the winners are read again for the other metrics and for what is known of the winners, unless
 * only one metric is asked for and they are known. So memory depends on the limit and on one host's
 * processes, and a fleet of a thousand hosts is read for one metric only. */
#include "collector/query/query_top.h"

#include <stdlib.h>
#include <string.h>

#include "collector/query/query_growth.h"
#include "collector/query/query_table.h"
#include "collector/query/query_tree.h"
#include "collector/query/query_where.h"
#include "common/base/search.h"

#define TOP_LIMIT   10
#define ASK_AT_ONCE 64u /* what is known of so many is looked for together */

static const uint8_t top_metrics[] = {M_CPU_TIME, M_CPU_PERCENT, M_WORKING_SET_SIZE,
                                      M_THREAD_COUNT};

struct winner {
    int64_t key;
    size_t span;
    struct proc_key who; /* of a folded one: no boot */
    const struct proc_info *info;
    int64_t when_ns;
    uint32_t instances;
    struct wire_trend trend; /* by growth */
    uint64_t have;
    int64_t *values;
};

struct top {
    struct query *q;
    bool tree;
    struct query_table table;
    size_t n, cap;
    struct winner *heap;
};

/* -- the heap of winners -- */

/* Whether a ranks before b. */
static bool winner_before(const struct winner *a, const struct winner *b)
{
    if (a->key != b->key) {
        return a->key > b->key;
    }
    return a->span != b->span ? a->span < b->span : query_table_key_order(&a->who, &b->who) < 0;
}

static void winner_swap(struct winner *a, struct winner *b)
{
    struct winner t = *a;

    *a = *b;
    *b = t;
}

static void winner_sift_up(struct winner *h, size_t i)
{
    while (i > 0 && winner_before(&h[(i - 1) / 2], &h[i])) {
        winner_swap(&h[(i - 1) / 2], &h[i]);
        i = (i - 1) / 2;
    }
}

static void winner_sift_down(struct winner *h, size_t n)
{
    size_t i = 0;

    for (;;) {
        size_t last = i, l = 2 * i + 1;

        if (l < n && winner_before(&h[last], &h[l])) {
            last = l;
        }
        if (l + 1 < n && winner_before(&h[last], &h[l + 1])) {
            last = l + 1;
        }
        if (last == i) {
            return;
        }
        winner_swap(&h[i], &h[last]);
        i = last;
    }
}

/* Takes the place of the least winner if it ranks before it. */
static void winner_compete(struct top *t, const struct winner *w)
{
    if (t->n < t->cap) {
        t->heap[t->n++] = *w;
        winner_sift_up(t->heap, t->n - 1);
    } else if (winner_before(w, &t->heap[0])) {
        t->heap[0] = *w;
        winner_sift_down(t->heap, t->n);
    }
}

/* -- first: who wins -- */

static struct proc_key winner_key(const struct query_table *t, const struct query_inst *inst)
{
    struct proc_key k = {.id = inst->id};

    if (!inst->instances) {
        k.boot = t->boots[inst->boot];
    }
    return k;
}

static struct winner winner_make(const struct top *t, size_t span, const struct query_inst *inst)
{
    return (struct winner){.span = span,
                           .who = winner_key(&t->table, inst),
                           .when_ns = inst->seen_ns,
                           .instances = inst->instances};
}

static void winners_of_table(struct top *t, size_t span)
{
    for (size_t i = 0; i < t->table.cap; i++) {
        const struct query_inst *inst = t->table.slots[i];

        if (inst && !inst->hidden) {
            struct winner w = winner_make(t, span, inst);

            if (query_table_value(&t->table, inst, 0, t->q->ask->by, &w.key)) {
                winner_compete(t, &w);
            }
        }
    }
}

static bool tree_value(const struct query_where_row *row, unsigned i, int64_t *v)
{
    const struct query_table *t = row->of;
    const struct query_sum *sums = row->at;

    return i < t->n_metrics && query_table_sum_value(&sums[i], t, i, WIRE_BY_USUAL, v);
}

/* By what is known of its root and the sums of all. */
static bool tree_fits(const struct top *t, size_t span, const struct query_tree_sums *kin, size_t i)
{
    const struct query_span *s = &t->q->spans[span];
    const struct query_inst *root = kin->insts[i];
    struct proc_info known;
    struct query_where_row row = {.span = s,
                                  .info = root->info,
                                  .value = tree_value,
                                  .of = &t->table,
                                  .at = &kin->sums[i * t->table.n_metrics]};

    if (t->q->where &&
        store_info(t->q->env->view, s->host, &t->table.boots[root->boot], root->id, &known)) {
        row.info = &known;
    }
    return query_where_fits(t->q, &row);
}

static enum err winners_of_trees(struct top *t, size_t span)
{
    struct query_tree_sums kin;
    enum err e = query_tree_sums(&kin, &t->table, t->q->ask->exited);

    for (size_t i = 0; !e && i < kin.n; i++) {
        struct winner w = winner_make(t, span, kin.insts[i]);

        w.instances = kin.members[i];
        if (query_wants(t->q, w.who.id, kin.insts[i]->info) &&
            query_table_sum_value(&kin.sums[i * t->table.n_metrics], &t->table, 0, t->q->ask->by,
                                  &w.key) &&
            tree_fits(t, span, &kin, i)) {
            winner_compete(t, &w);
        }
    }
    return e;
}

static enum err top_host_read(struct top *t, size_t span)
{
    const struct query_span *s = &t->q->spans[span];
    const struct query_reach reach = {.since_ns = s->since_ns,
                                      .before_ns = QUERY_LOOKBACK_NS,
                                      .folded = t->q->ask->folded && !t->tree,
                                      .range_only = !t->tree};

    return query_table_fill(&t->table, s, &reach);
}

/* The first, and those that the filter asks about. */
static uint8_t rank_metrics(const struct query *q)
{
    uint8_t n = 1;

    while (n < q->out->data.n_metrics && query_where_metric(q, n - 1u)) {
        n++;
    }
    return n;
}

static enum err top_rank(struct top *t)
{
    enum err e = ERR_OK;

    t->table.n_metrics = rank_metrics(t->q);
    t->table.brief = true;
    t->table.judged = !t->tree;
    for (size_t i = 0; !e && i < t->q->n_spans; i++) {
        e = top_host_read(t, i);
        if (!e && t->tree) {
            e = winners_of_trees(t, i);
        } else if (!e) {
            winners_of_table(t, i);
        }
    }
    return e;
}

static enum err top_grew(void *ctx, const struct query_growth *g)
{
    struct top *t = ctx;
    struct winner w = {
        .key = g->grew, .span = g->span, .who = g->who, .when_ns = g->seen_ns, .trend = g->trend};

    winner_compete(t, &w);
    return ERR_OK;
}

/* -- then: what else they used -- */

static int winner_by_host(const void *a, const void *b)
{
    const struct winner *x = a, *y = b;

    if (x->span != y->span) {
        return x->span < y->span ? -1 : 1;
    }
    return query_table_key_order(&x->who, &y->who);
}

/* The winner that the key names among n of one host, which are in order. */
static struct winner *winner_find(struct winner *w, size_t n, const struct proc_key *who)
{
    size_t i;

    SEARCH_LOWER(i, n, query_table_key_order(&w[i].who, who) < 0);
    return i < n && query_table_key_order(&w[i].who, who) == 0 ? &w[i] : NULL;
}

/* What is known of the winner, for longer than the table has it. */
static enum err winner_info(const struct top *t, struct winner *w, const struct proc_info *info)
{
    w->info = info ? arena_dup(&t->q->out->memory, info, sizeof *info) : NULL;
    return info && !w->info ? ERR_FULL : ERR_OK;
}

static enum err winners_fill_table(struct top *t, struct winner *w, size_t n)
{
    enum err e = ERR_OK;

    for (size_t k = 0; !e && k < t->table.cap; k++) {
        const struct query_inst *inst = t->table.slots[k];
        struct proc_key who;
        struct winner *of;

        if (!inst || inst->hidden) {
            continue;
        }
        who = winner_key(&t->table, inst);
        of = winner_find(w, n, &who);
        if (of && !of->info && inst->info) {
            e = winner_info(t, of, inst->info);
        }
        for (unsigned i = 1; of && i < t->table.n_metrics; i++) {
            if (query_table_value(&t->table, inst, i, WIRE_BY_USUAL, &of->values[i])) {
                of->have |= UINT64_C(1) << i;
            }
        }
    }
    return e;
}

static enum err winners_fill_trees(struct top *t, struct winner *w, size_t n)
{
    unsigned first = t->table.first;
    struct query_tree_sums kin;
    enum err e = query_tree_sums(&kin, &t->table, t->q->ask->exited);

    for (size_t k = 0; !e && k < kin.n; k++) {
        struct winner *of = winner_find(w, n, &kin.kins[k].key);

        if (of && !of->info) { /* some metrics at a time, it comes again */
            e = winner_info(t, of, kin.kins[k].info);
        }
        for (unsigned i = 0; of && i < t->table.n_metrics; i++) {
            const struct query_sum *s = &kin.sums[k * t->table.n_metrics + i];

            if (first + i > 0 &&
                query_table_sum_value(s, &t->table, i, WIRE_BY_USUAL, &of->values[first + i])) {
                of->have |= UINT64_C(1) << (first + i);
            }
        }
    }
    return e;
}

/* All metrics at once or, where a host had too many processes for that, fewer at a time. */
static enum err winners_fill_tree_host(struct top *t, struct winner *w, size_t n)
{
    uint8_t all = t->q->out->data.n_metrics, size = all;
    enum err e = ERR_OK;

    for (t->table.first = 0; !e && t->table.first < all;) {
        uint8_t left = (uint8_t)(all - t->table.first);

        t->table.n_metrics = size < left ? size : left;
        e = top_host_read(t, w->span);
        if (!e) {
            e = winners_fill_trees(t, w, n);
        }
        if (e == ERR_FULL && t->table.n_metrics > 1) {
            size = t->table.n_metrics / 2;
            e = ERR_OK;
            continue;
        }
        t->table.first = (uint8_t)(t->table.first + t->table.n_metrics);
    }
    t->table.first = 0;
    t->table.n_metrics = all;
    return e;
}

/* The winners of one host: only they have cells, but of trees every member. */
static enum err winners_fill_host(struct top *t, struct winner *w, size_t n)
{
    struct proc_key *only = arena_array(&t->q->out->memory, n, sizeof *only);
    enum err e;

    if (!only) {
        return ERR_FULL;
    }
    t->table.n_only = 0;
    for (size_t i = 0; i < n && !t->tree; i++) {
        only[i] = w[i].who;
    }
    if (!t->tree && !t->q->ask->folded) {
        t->table.only = only;
        t->table.n_only = n;
    }
    if (t->tree) {
        return winners_fill_tree_host(t, w, n);
    }
    e = top_host_read(t, w->span);
    return e ? e : winners_fill_table(t, w, n);
}

/* What the store knows of the winners of one host, command lines too; what a tier told of others
 * stays. */
static enum err winners_known(const struct top *t, struct winner *w, size_t n)
{
    const struct query_span *s = &t->q->spans[w->span];
    const struct store_view *v = t->q->env->view;
    struct proc_key keys[ASK_AT_ONCE];
    struct proc_info info;
    enum err e = ERR_OK;

    for (size_t i = 0; i < n && !e; i++) {
        if (i % ASK_AT_ONCE == 0) {
            size_t k = 0;

            for (; k < ASK_AT_ONCE && i + k < n; k++) {
                keys[k] = w[i + k].who;
            }
            store_info_want(v, s->host, keys, k);
        }
        if ((t->tree || !w[i].instances) &&
            store_info(v, s->host, &w[i].who.boot, w[i].who.id, &info)) {
            e = winner_info(t, &w[i], &info);
        }
    }
    return e;
}

/* Whether all that is wanted of the winners of one host is there without reading it again: the
 * metric that decided and what is known of them. */
static bool winners_complete(const struct top *t, const struct winner *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (t->tree || t->table.n_metrics > 1 || w[i].instances || !w[i].info) {
            return false;
        }
    }
    return true;
}

static enum err winners_fill(struct top *t)
{
    uint8_t n_metrics = t->q->out->data.n_metrics;
    const struct store_used used = t->q->used; /* the same windows again: told once */
    size_t *spans = arena_array(&t->q->out->memory, t->n, sizeof *spans);
    enum err e = spans ? ERR_OK : ERR_FULL;

    for (size_t i = 0; i < t->n && !e; i++) {
        struct winner *w = &t->heap[i];

        spans[i] = w->span;
        w->values = arena_array(&t->q->out->memory, n_metrics, sizeof *w->values);
        e = w->values ? ERR_OK : ERR_FULL;
        if (!e) {
            w->values[0] = w->key;
            w->have = 1;
        }
    }
    if (t->n == 0 || e) {
        return e;
    }
    query_expect(t->q, spans, t->n);
    t->table.n_metrics = n_metrics;
    t->table.infos = true;
    t->table.brief = false;
    t->table.judged = false; /* they won */
    qsort(t->heap, t->n, sizeof *t->heap, winner_by_host);
    for (size_t i = 0, n; !e && i < t->n; i += n) {
        for (n = 1; i + n < t->n && t->heap[i + n].span == t->heap[i].span; n++) {
        }
        e = winners_known(t, &t->heap[i], n);
        if (!e && !winners_complete(t, &t->heap[i], n)) {
            e = winners_fill_host(t, &t->heap[i], n);
        }
    }
    memcpy(t->q->used.windows, used.windows, sizeof used.windows);
    return e;
}

/* -- rows -- */

static int winner_by_rank(const void *a, const void *b)
{
    return winner_before(a, b) ? -1 : 1;
}

static enum err top_rows(struct top *t)
{
    struct query *q = t->q;
    struct wire_row *rows = arena_array(&q->out->memory, t->n, sizeof *rows);
    struct wire_trend *trends = arena_array(&q->out->memory, t->n, sizeof *trends);
    struct query_cursor key = {0};

    if (!rows || !trends) {
        return ERR_FULL;
    }
    if (t->n) {
        qsort(t->heap, t->n, sizeof *t->heap, winner_by_rank);
    }
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
        row->info.id = w->who.id;
        if (w->info) {
            row->info = *w->info;
        }
        row->when_ns = w->when_ns;
        row->have = w->have;
        row->values = w->values;
        row->instances = w->instances;
        trends[q->out->data.n_rows] = w->trend;
        e = query_host_index(q, &q->spans[w->span], &row->host);
        if (e) {
            return e;
        }
        q->out->data.n_rows++;
    }
    q->out->data.rows = rows;
    q->out->data.trends = q->ask->by == WIRE_BY_GROWTH ? trends : NULL;
    return ERR_OK;
}

/* -- the question -- */

static enum err top_check(const struct query *q)
{
    const struct wire_query *ask = q->ask;
    const struct metric *m = metric_by_id(q->out->data.metrics[0]);

    if (ask->by > WIRE_BY_GROWTH || ask->group_by > WIRE_GROUP_IMAGE_USER) {
        return errmsg_set(q->why, ERR_INVALID, "this collector does not know this order or group");
    }
    if (ask->by == WIRE_BY_GROWTH && (m->kind != METRIC_GAUGE || m->id == M_CPU_PERCENT)) {
        return errmsg_set(q->why, ERR_INVALID, "%s is a counter, and its growth is the usual value",
                          m->name);
    }
    if (ask->by == WIRE_BY_GROWTH && ask->group_by != WIRE_GROUP_NONE) {
        return errmsg_set(q->why, ERR_INVALID, "growth is of processes, not of groups");
    }
    if (m->kind == METRIC_GAUGE && ask->by == WIRE_BY_RATE) {
        return errmsg_set(q->why, ERR_INVALID,
                          "%s is a level and has no rate: ask for max, avg or sum", m->name);
    }
    if (m->id == M_CPU_PERCENT && (ask->by == WIRE_BY_SUM || ask->by == WIRE_BY_MAX)) {
        return errmsg_set(q->why, ERR_INVALID,
                          "%s is a rate: ask for cpu_time by sum or max instead", m->name);
    }
    return ERR_OK;
}

static enum err top_instances(struct query *q)
{
    struct top t = {.q = q, .tree = q->ask->group_by == WIRE_GROUP_TREE, .cap = q->limit};
    enum err e;

    t.heap = arena_array(&q->out->memory, t.cap, sizeof *t.heap);
    if (!t.heap) {
        return ERR_NOMEM;
    }
    query_table_init(&t.table, q);
    t.table.all = t.tree;
    t.table.infos = t.tree || q->ask->name.n > 0;
    e = q->ask->by == WIRE_BY_GROWTH ? query_growth_scan(q, top_grew, &t) : top_rank(&t);
    if (!e) {
        e = winners_fill(&t);
    }
    if (!e) {
        e = top_rows(&t);
    }
    query_table_fini(&t.table);
    return e;
}

enum err query_top(struct query *q)
{
    enum err e = query_plan(q, top_metrics, sizeof top_metrics, TOP_LIMIT);

    return e ? e : query_top_rows(q, NULL);
}

enum err query_top_rows(struct query *q, struct query_groups_members *members)
{
    enum err e = top_check(q);

    if (e) {
        return e;
    }
    return q->ask->group_by == WIRE_GROUP_NONE || q->ask->group_by == WIRE_GROUP_TREE
               ? top_instances(q)
               : query_groups_rows(q, members);
}
