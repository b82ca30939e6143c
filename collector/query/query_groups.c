/* By image, user or host: what all processes of one image name (user, host) used together, over
 * all hosts asked for.
 *
 * Host by host the window is read into a table; its instances are added up to the host's part of
 * each group, and when the host is done the parts are added to the groups. Shares and means are
 * those of a host's own time, so they are taken before parts of several hosts are added. Memory:
 * one host's processes, and the groups; where a host had too many processes for all metrics at
 * once, it is read for fewer at a time. Folded rows are used without being asked for: a group
 * loses nothing by them. */
#include "collector/query/query_groups.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "collector/query/query_table.h"
#include "collector/query/query_where.h"
#include "common/base/hash.h"
#include "common/os/os.h"

#define GROUPS_FIRST 256 /* slots */

struct group {
    struct str name;
    uint32_t number; /* as they came */
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

/* Of an image and a user the name is both, with a NUL between them: texts have none. */
#define GROUP_NAME_MAX (2 * MODEL_TEXT_MAX + 1u)
#define GROUPS_LAST    64u

struct groups {
    struct query *q;
    char both[GROUP_NAME_MAX];
    struct query_table table;
    struct {
        const struct proc_info *info; /* of the host's; many processes share one */
        struct group *group;
    } last[GROUPS_LAST];
    uint8_t n_metrics; /* of the answer; the table may have fewer */
    size_t n, cap;     /* cap is a power of two */
    struct group **slots;
    struct query_groups_members *members; /* NULL: not wanted */
};

/* -- who is in which -- */

static uint64_t member_key(const struct query_groups_members *m, size_t host,
                           const struct uuid *boot, struct proc_id id)
{
    struct {
        struct uuid boot;
        uint64_t start, pid_and_host;
    } key = {*boot, id.start, (uint64_t)host << 32 | id.pid};

    return hash_bytes(&key, sizeof key, m->seed);
}

/* One that has no room is asked for by name later. */
static enum err groups_member(struct groups *g, const struct query_inst *inst,
                              const struct group *x)
{
    struct query_groups_members *m = g->members;
    enum err e;

    if (!m || inst->instances || g->table.first > 0 || m->map.n >= QUERY_MEMBERS_MAX) {
        return ERR_OK;
    }
    e = map_reserve(&m->map);
    if (!e) {
        (void)map_put(&m->map, member_key(m, g->table.host, &g->table.boots[inst->boot], inst->id),
                      (uint64_t)x->number + 1);
    }
    return e;
}

uint32_t query_groups_member(const struct query_groups_members *m, size_t host,
                             const struct uuid *boot, struct proc_id id)
{
    uint64_t number = map_get(&m->map, member_key(m, host, boot, id));

    return number ? m->rows[number - 1] : QUERY_NO_MEMBER;
}

void query_groups_members_fini(struct query_groups_members *m)
{
    map_fini(&m->map);
}

/* -- finding a group -- */

static struct group **groups_slot(struct group **slots, size_t cap, struct str name)
{
    size_t i = (size_t)hash_bytes(name.p, name.n, 0) & (cap - 1);

    while (slots[i] && !str_eq(slots[i]->name, name)) {
        i = (i + 1) & (cap - 1);
    }
    return &slots[i];
}

static enum err groups_grow(struct groups *g)
{
    size_t cap = g->cap ? g->cap * 2 : GROUPS_FIRST;
    struct group **slots = arena_array(&g->q->out->memory, cap, sizeof(struct group *));

    if (!slots) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < g->cap; i++) {
        if (g->slots[i]) {
            *groups_slot(slots, cap, g->slots[i]->name) = g->slots[i];
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
    enum err e = g->n * 2 >= g->cap ? groups_grow(g) : ERR_OK;

    if (e) {
        return e;
    }
    slot = groups_slot(g->slots, g->cap, name);
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
        x->number = (uint32_t)g->n++;
    }
    *out = *slot;
    return ERR_OK;
}

/* -- adding up -- */

static struct str group_of_both(struct groups *g, const struct proc_info *info)
{
    size_t n = info->name.n < MODEL_TEXT_MAX ? info->name.n : MODEL_TEXT_MAX;
    size_t user_n = info->user.n < MODEL_TEXT_MAX ? info->user.n : MODEL_TEXT_MAX;

    if (n) {
        memcpy(g->both, info->name.p, n);
    }
    g->both[n] = '\0';
    if (user_n) {
        memcpy(g->both + n + 1, info->user.p, user_n);
    }
    return (struct str){g->both, n + 1 + user_n};
}

/* Valid until it is asked again. */
static struct str groups_name(struct groups *g, const struct query_inst *inst)
{
    static const struct proc_info none;

    switch (g->q->ask->group_by) {
    case WIRE_GROUP_IMAGE:
        return inst->info ? inst->info->name : str_make("");
    case WIRE_GROUP_USER:
        return inst->info ? inst->info->user : str_make("");
    case WIRE_GROUP_IMAGE_USER:
        return group_of_both(g, inst->info ? inst->info : &none);
    case WIRE_GROUP_FLEET:
        return str_make("");
    default: /* of a host's own name there may be two: the id tells them apart */
        return (struct str){(const char *)store_view_host(g->q->env->view, g->table.host)->id.b,
                            sizeof(struct uuid)};
    }
}

static bool groups_has_values(const struct groups *g, const struct query_inst *inst)
{
    for (unsigned i = 0; i < g->table.n_metrics; i++) {
        if (inst->cells[i].in.count) {
            return true;
        }
    }
    return false;
}

static enum err groups_inst(struct groups *g, size_t span, const struct query_inst *inst)
{
    size_t at = (uintptr_t)inst->info / sizeof *inst->info % GROUPS_LAST;
    struct group *x = g->last[at].group;
    enum err e = ERR_OK;

    if (!x || g->last[at].info != inst->info) {
        e = group_get(g, groups_name(g, inst), &x);
        g->last[at].info = inst->info;
        g->last[at].group = x;
    }
    if (e) {
        return e;
    }
    if (x->part_of != span + 1) {
        x->part_of = span + 1;
        x->part_instances = 0;
        memset(x->part, 0, g->n_metrics * sizeof *x->part);
    }
    for (unsigned i = 0; i < g->table.n_metrics; i++) {
        query_table_sum_add(&x->part[g->table.first + i], &g->table, inst, i);
    }
    if (g->table.first == 0) {
        x->part_instances += inst->instances ? inst->instances : 1;
    }
    x->when_ns = x->hosts + x->part_instances == 1 || inst->seen_ns > x->when_ns ? inst->seen_ns
                                                                                 : x->when_ns;
    return groups_member(g, inst, x);
}

/* The host's value of a metric goes to the group's. */
static void groups_part(const struct groups *g, struct group *x, unsigned i)
{
    unsigned at = g->table.first + i, by = at == 0 ? g->q->ask->by : WIRE_BY_USUAL;
    const struct query_sum *part = &x->part[at];
    uint64_t bit = UINT64_C(1) << at;
    int64_t v;

    if (!query_table_sum_value(part, &g->table, i, by, &v)) {
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
static enum err groups_table(struct groups *g, size_t span)
{
    enum err e = ERR_OK;

    memset(g->last, 0, sizeof g->last);
    for (size_t i = 0; !e && i < g->table.cap; i++) {
        const struct query_inst *inst = g->table.slots[i];

        if (inst && !inst->hidden && groups_has_values(g, inst)) {
            e = groups_inst(g, span, inst);
        }
    }
    for (size_t k = 0; !e && k < g->cap; k++) {
        for (unsigned i = 0; g->slots[k] && i < g->table.n_metrics; i++) {
            if (g->slots[k]->part_of == span + 1) {
                groups_part(g, g->slots[k], i);
            }
        }
    }
    return e;
}

static enum err groups_host(struct groups *g, size_t span)
{
    const struct query_span *s = &g->q->spans[span];
    const struct query_reach reach = {.since_ns = s->since_ns,
                                      .before_ns = QUERY_LOOKBACK_NS,
                                      .folded = true,
                                      .range_only = true,
                                      .hours = g->members && g->members->hours};
    uint8_t size = g->n_metrics;
    enum err e = ERR_OK;

    for (g->table.first = 0; !e && g->table.first < g->n_metrics;) {
        uint8_t left = (uint8_t)(g->n_metrics - g->table.first);

        g->table.n_metrics = size < left ? size : left;
        e = query_table_fill(&g->table, s, &reach);
        if (e == ERR_FULL && g->table.n_metrics > 1 && !query_where_metric(g->q, 0)) {
            size = g->table.n_metrics / 2;
            e = ERR_OK;
            continue;
        }
        if (!e) {
            e = groups_table(g, span);
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

static int groups_by_rank(const void *a, const void *b)
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

static size_t groups_ranked(struct groups *g)
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
        qsort(g->slots, n, sizeof(struct group *), groups_by_rank);
    }
    return n;
}

static enum err groups_row(struct groups *g, const struct group *x, struct wire_row *row)
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
    } else if (g->q->ask->group_by == WIRE_GROUP_IMAGE_USER) {
        size_t n = strnlen(x->name.p, x->name.n);

        assert(n < x->name.n);
        row->info.name = (struct str){x->name.p, n};
        row->info.user = (struct str){x->name.p + n + 1, x->name.n - n - 1};
    }
    g->q->out->data.n_rows++;
    return query_host_index(g->q, &g->q->spans[x->span], &row->host);
}

static enum err groups_member_rows(struct groups *g, size_t n)
{
    uint32_t *rows = arena_array(&g->q->out->memory, g->n, sizeof *rows);

    if (!rows) {
        return ERR_FULL;
    }
    memset(rows, 0xff, g->n * sizeof *rows);
    for (uint32_t i = 0; i < n; i++) {
        rows[g->slots[i]->number] = i;
    }
    g->members->rows = rows;
    return ERR_OK;
}

static enum err groups_rows(struct groups *g)
{
    struct query *q = g->q;
    size_t n = groups_ranked(g);
    struct wire_row *rows = arena_array(&q->out->memory, q->limit, sizeof *rows);
    enum err e = rows ? ERR_OK : ERR_FULL;

    n = n < q->limit ? n : q->limit;
    if (!e && g->members) {
        e = groups_member_rows(g, n);
    }
    for (size_t i = q->cursor.c; !e && i < n; i++) {
        struct query_cursor key = {.c = (uint32_t)i}; /* ranks already given */

        if (!query_fits(q, NULL, g->slots[i]->name.n)) {
            query_key_host(&key, &q->spans[g->slots[i]->span]);
            query_more(q, &key);
            break;
        }
        e = groups_row(g, g->slots[i], &rows[q->out->data.n_rows]);
    }
    q->out->data.rows = rows;
    return e;
}

enum err query_groups_rows(struct query *q, struct query_groups_members *members)
{
    struct groups g = {.q = q, .members = members};
    enum err e = ERR_OK;

    query_table_init(&g.table, q);
    g.n_metrics = g.table.n_metrics;
    g.table.infos = true;
    g.table.brief = true;
    g.table.told = q->ask->name.n == 0;
    g.table.judged = true;
    if (members) {
        if (os_random(&members->seed, sizeof members->seed)) {
            members->seed = (uint64_t)q->env->now_ns;
        }
    }
    for (size_t i = 0; !e && i < q->n_spans; i++) {
        e = groups_host(&g, i);
    }
    if (!e) {
        e = groups_rows(&g);
    }
    query_table_fini(&g.table);
    return e;
}
