/* Top by image, user or host: what all processes of one image name (user, host) used together, over
 * all hosts asked for.
 *
 * Host by host the window is read into a table; its instances are added up to the host's part of
 * each group, and when the host is done the parts are added to the groups. Shares and means are
 * those of a host's own time, so they are taken before parts of several hosts are added. Memory:
 * one host's processes, and the groups; where a host had too many processes for all metrics at
 * once, it is read for fewer at a time. Folded rows are used without being asked for: a group
 * loses nothing by them. */
#include "collector/query/query_top.h"

#include <stdlib.h>
#include <string.h>

#include "collector/query/query_sum.h"
#include "common/base/hash.h"

#define GROUPS_FIRST 256 /* slots */

struct group {
    struct str name;
    uint32_t instances, hosts;
    size_t span;     /* of the largest part so far, */
    int64_t largest; /* which is this */
    int64_t when_ns;
    uint64_t have;
    int64_t *values;         /* of the hosts that are done */
    int64_t total;           /* of a counter's mean: what was grown, */
    uint64_t steps;          /* and in how many steps */
    size_t part_of;          /* the span that `part` is about, plus 1 */
    uint32_t part_instances; /* of it */
    struct query_sum *part;  /* one for each of the answer's metrics */
};

struct groups {
    struct query *q;
    struct query_table table;
    uint8_t n_metrics; /* of the answer; the table may have fewer */
    size_t n, cap;     /* cap is a power of two */
    struct group **slots;
};

/* -- finding a group -- */

static struct group **slot_of(struct group **slots, size_t cap, struct str name)
{
    size_t i = (size_t)hash_bytes(name.p, name.n, 0) & (cap - 1);

    while (slots[i] && !str_eq(slots[i]->name, name)) {
        i = (i + 1) & (cap - 1);
    }
    return &slots[i];
}

static enum err grow(struct groups *g)
{
    size_t cap = g->cap ? g->cap * 2 : GROUPS_FIRST;
    struct group **slots = arena_array(&g->q->out->memory, cap, sizeof(struct group *));

    if (!slots) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < g->cap; i++) {
        if (g->slots[i]) {
            *slot_of(slots, cap, g->slots[i]->name) = g->slots[i];
        }
    }
    g->slots = slots;
    g->cap = cap;
    return ERR_OK;
}

static enum err group_get(struct groups *g, struct str name, struct group **out)
{
    struct arena *a = &g->q->out->memory;
    struct group **slot, *x;
    enum err e = g->n * 2 >= g->cap ? grow(g) : ERR_OK;

    if (e) {
        return e;
    }
    slot = slot_of(g->slots, g->cap, name);
    if (!*slot) {
        x = arena_alloc(a, sizeof *x);
        if (!x) {
            return ERR_FULL;
        }
        x->name = (struct str){arena_dup(a, name.p, name.n), name.n};
        x->values = arena_array(a, g->n_metrics, sizeof *x->values);
        x->part = arena_array(a, g->n_metrics, sizeof *x->part);
        if (!x->name.p || !x->values || !x->part) {
            return ERR_FULL;
        }
        *slot = x;
        g->n++;
    }
    *out = *slot;
    return ERR_OK;
}

/* -- adding up -- */

static struct str name_of(const struct groups *g, const struct query_inst *inst)
{
    switch (g->q->ask->group_by) {
    case WIRE_GROUP_IMAGE:
        return inst->info ? inst->info->name : str_make("");
    case WIRE_GROUP_USER:
        return inst->info ? inst->info->user : str_make("");
    default: /* of a host's own name there may be two: the id tells them apart */
        return (struct str){(const char *)store_view_host(g->q->env->view, g->table.host)->id.b,
                            sizeof(struct uuid)};
    }
}

static bool has_values(const struct groups *g, const struct query_inst *inst)
{
    for (unsigned i = 0; i < g->table.n_metrics; i++) {
        if (inst->cells[i].in.count) {
            return true;
        }
    }
    return false;
}

static enum err inst_add(struct groups *g, size_t span, const struct query_inst *inst)
{
    struct group *x;
    enum err e;

    if (!inst || inst->hidden || !has_values(g, inst)) {
        return ERR_OK;
    }
    e = group_get(g, name_of(g, inst), &x);
    if (e) {
        return e;
    }
    if (x->part_of != span + 1) {
        x->part_of = span + 1;
        x->part_instances = 0;
        memset(x->part, 0, g->n_metrics * sizeof *x->part);
    }
    for (unsigned i = 0; i < g->table.n_metrics; i++) {
        query_sum_add(&x->part[g->table.first + i], &g->table, inst, i);
    }
    if (g->table.first == 0) {
        x->part_instances += inst->instances ? inst->instances : 1;
    }
    x->when_ns = x->hosts + x->part_instances == 1 || inst->seen_ns > x->when_ns ? inst->seen_ns
                                                                                 : x->when_ns;
    return ERR_OK;
}

/* The host's value of a metric goes to the group's. */
static void part_value(const struct groups *g, struct group *x, unsigned i)
{
    unsigned at = g->table.first + i, by = at == 0 ? g->q->ask->by : WIRE_BY_USUAL;
    const struct query_sum *part = &x->part[at];
    uint64_t bit = UINT64_C(1) << at;
    int64_t v;

    if (!query_sum_value(part, &g->table, i, by, &v)) {
        return;
    }
    if (at == 0 && (!(x->have & bit) || v > x->largest)) {
        x->largest = v;
        x->span = x->part_of - 1;
    }
    if (by == WIRE_BY_AVG && query_table_counts(&g->table, i)) {
        x->total = cell_sum(x->total, part->total);
        x->steps += part->steps;
        x->values[at] = query_mean(x->total, x->steps);
    } else if (by == WIRE_BY_MAX) {
        x->values[at] = (x->have & bit) && x->values[at] > v ? x->values[at] : v;
    } else {
        x->values[at] = cell_sum(x->values[at], v);
    }
    x->have |= bit;
}

/* Adds what the table holds. */
static enum err table_add(struct groups *g, size_t span)
{
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < g->table.cap; i++) {
        e = inst_add(g, span, g->table.slots[i]);
    }
    for (size_t k = 0; !e && k < g->cap; k++) {
        for (unsigned i = 0; g->slots[k] && i < g->table.n_metrics; i++) {
            if (g->slots[k]->part_of == span + 1) {
                part_value(g, g->slots[k], i);
            }
        }
    }
    return e;
}

static enum err host_add(struct groups *g, size_t span)
{
    const struct query_span *s = &g->q->spans[span];
    const struct query_reach reach = {.since_ns = s->since_ns,
                                      .before_ns = QUERY_LOOKBACK_NS,
                                      .folded = true,
                                      .range_only = true};
    uint8_t size = g->n_metrics;
    enum err e = ERR_OK;

    for (g->table.first = 0; !e && g->table.first < g->n_metrics;) {
        uint8_t left = (uint8_t)(g->n_metrics - g->table.first);

        g->table.n_metrics = size < left ? size : left;
        e = query_table_fill(&g->table, s, &reach);
        if (e == ERR_FULL && g->table.n_metrics > 1) {
            size = g->table.n_metrics / 2;
            e = ERR_OK;
            continue;
        }
        if (!e) {
            e = table_add(g, span);
        }
        g->table.first = (uint8_t)(g->table.first + g->table.n_metrics);
    }
    for (size_t k = 0; !e && k < g->cap; k++) {
        struct group *x = g->slots[k];

        if (x && x->part_of == span + 1) {
            x->instances += x->part_instances;
            x->hosts++;
        }
    }
    return e;
}

/* -- rows -- */

static int by_rank(const void *a, const void *b)
{
    const struct group *x = *(struct group *const *)a, *y = *(struct group *const *)b;
    size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
    int d;

    if (x->values[0] != y->values[0]) {
        return x->values[0] > y->values[0] ? -1 : 1;
    }
    d = n ? memcmp(x->name.p, y->name.p, n) : 0;
    return d ? d : x->name.n < y->name.n ? -1 : x->name.n > y->name.n;
}

static size_t ranked(struct groups *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->cap; i++) {
        struct group *x = g->slots[i];

        g->slots[i] = NULL;
        if (x && (x->have & 1)) {
            g->slots[n++] = x;
        }
    }
    if (n) {
        qsort(g->slots, n, sizeof(struct group *), by_rank);
    }
    return n;
}

static enum err row_add(struct groups *g, const struct group *x, struct wire_row *row)
{
    *row = (struct wire_row){.when_ns = x->when_ns,
                             .have = x->have,
                             .values = x->values,
                             .instances = x->instances,
                             .hosts = x->hosts};
    if (g->q->ask->group_by == WIRE_GROUP_IMAGE) {
        row->info.name = x->name;
    } else if (g->q->ask->group_by == WIRE_GROUP_USER) {
        row->info.user = x->name;
    }
    g->q->out->data.n_rows++;
    return query_host_index(g->q, &g->q->spans[x->span], &row->host);
}

static enum err rows_make(struct groups *g)
{
    struct query *q = g->q;
    size_t n = ranked(g);
    struct wire_row *rows = arena_array(&q->out->memory, q->limit, sizeof *rows);
    enum err e = rows ? ERR_OK : ERR_FULL;

    n = n < q->limit ? n : q->limit;
    for (size_t i = q->cursor.c; !e && i < n; i++) {
        struct query_cursor key = {.c = (uint32_t)i}; /* ranks already given */

        if (!query_fits(q, NULL, g->slots[i]->name.n)) {
            query_key_host(&key, &q->spans[g->slots[i]->span]);
            query_more(q, &key);
            break;
        }
        e = row_add(g, g->slots[i], &rows[q->out->data.n_rows]);
    }
    q->out->data.rows = rows;
    return e;
}

enum err query_groups(struct query *q)
{
    struct groups g = {.q = q};
    enum err e = ERR_OK;

    query_table_init(&g.table, q);
    g.n_metrics = g.table.n_metrics;
    g.table.infos = true;
    g.table.brief = true;
    for (size_t i = 0; !e && i < q->n_spans; i++) {
        e = host_add(&g, i);
    }
    if (!e) {
        e = rows_make(&g);
    }
    query_table_fini(&g.table);
    return e;
}
