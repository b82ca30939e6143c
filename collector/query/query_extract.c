#include "collector/query/query_extract.h"

#include <stdlib.h>
#include <string.h>

#include "collector/query/query_table.h"

#define AT_ONCE 24u /* metrics: what they take of one host's processes is bounded by the table */

struct extract {
    struct query q;
    const struct query_extract *to;
    struct query_table table;
    size_t n_family;
    const struct proc_id *family; /* of the run's root */
    size_t n_metrics;
    uint8_t metrics[METRIC_COLS];
};

static int extract_id_order(const void *a, const void *b)
{
    const struct proc_id *x = a, *y = b;

    if (x->pid != y->pid) {
        return x->pid < y->pid ? -1 : 1;
    }
    return x->start < y->start ? -1 : x->start > y->start;
}

bool query_extract_has(const struct proc_id *family, size_t n, struct proc_id id)
{
    return n && bsearch(&id, family, n, sizeof *family, extract_id_order) != NULL;
}

/* Those of which every process that was sampled has one come first. */
static void extract_metrics(struct extract *x)
{
    static const uint8_t first[] = {M_CPU_TIME, M_WORKING_SET_SIZE, M_THREAD_COUNT};

    memcpy(x->metrics, first, sizeof first);
    x->n_metrics = sizeof first;
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (m->column && !memchr(first, m->id, sizeof first)) {
            x->metrics[x->n_metrics++] = m->id;
        }
    }
}

static bool extract_in_tree(const struct extract *x, const struct query_inst *inst)
{
    return x->n_family && !inst->instances &&
           memcmp(x->table.boots[inst->boot].b, x->q.env->run->boot.b, sizeof(struct uuid)) == 0 &&
           query_extract_has(x->family, x->n_family, inst->id);
}

static enum err extract_inst(struct extract *x, const struct query_inst *inst, bool first)
{
    struct query_extract_value values[AT_ONCE];
    struct query_extract_inst out = {.id = inst->id,
                                     .info = inst->info,
                                     .instances = inst->instances,
                                     .in_tree = extract_in_tree(x, inst),
                                     .first = first,
                                     .n = x->table.n_metrics,
                                     .metrics = x->q.out->data.metrics,
                                     .values = values};
    bool any = false;

    for (unsigned i = 0; i < x->table.n_metrics; i++) {
        struct query_sum s = {.total = 0};

        any = any || inst->cells[i].in.count > 0;
        query_table_sum_add(&s, &x->table, inst, i);
        values[i] = (struct query_extract_value){s.has_total, s.has_most, s.total, s.most};
    }
    if (!inst->instances) {
        out.boot = &x->table.boots[inst->boot];
    }
    return any ? x->to->inst(x->to->ctx, &out) : ERR_OK;
}

/* Some metrics of one host. */
static enum err extract_set(struct extract *x, const struct query_span *s, size_t at)
{
    const struct query_reach reach = {.since_ns = s->since_ns,
                                      .before_ns = QUERY_LOOKBACK_NS,
                                      .folded = true,
                                      .range_only = true};
    struct wire_answer *a = &x->q.out->data;
    enum err e;

    a->n_metrics = (uint8_t)(x->n_metrics - at < AT_ONCE ? x->n_metrics - at : AT_ONCE);
    memcpy(a->metrics, x->metrics + at, a->n_metrics);
    x->table.n_metrics = a->n_metrics;
    e = query_table_fill(&x->table, s, &reach);
    if (!e && at == 0) {
        const struct query_extract_host h = {
            .host = s->host,
            .about = s->about,
            .since_ns = s->since_ns,
            .until_ns = s->until_ns,
            .ticks = &x->table.ticks,
            .has_tree = x->n_family > 0,
            .n_family = x->n_family,
            .family = x->family,
            .coarse = x->q.used.coarse_bucket_ns || x->q.used.folded,
        };

        e = x->to->host(x->to->ctx, &h);
    }
    for (size_t i = 0; !e && i < x->table.cap; i++) {
        const struct query_inst *inst = x->table.slots[i];

        if (inst && !inst->hidden) {
            e = extract_inst(x, inst, at == 0);
        }
    }
    return e;
}

static enum err extract_hosts(struct extract *x)
{
    static const uint8_t any = M_CPU_TIME;
    enum err e = query_plan(&x->q, &any, 1, 1);

    if (e) {
        return e;
    }
    x->family = x->q.family;
    x->n_family = x->q.n_family;
    x->q.family = NULL; /* all are wanted, and told which of them belong to the tree */
    query_table_init(&x->table, &x->q);
    x->table.infos = x->table.brief = true;
    x->table.told = x->q.ask->name.n == 0;
    for (size_t i = 0; !e && i < x->q.n_spans; i++) {
        x->q.used = (struct store_used){.damaged = 0};
        for (size_t at = 0; !e && at < x->n_metrics; at += AT_ONCE) {
            e = extract_set(x, &x->q.spans[i], at);
        }
    }
    query_table_fini(&x->table);
    return e;
}

enum err query_extract(struct query_answer *scratch, const struct query_env *env,
                       const struct wire_query *ask, const struct query_extract *to,
                       struct errmsg *why)
{
    struct wire_query group = *ask; /* names as a group has them */
    struct extract x = {
        .q = {.kind = QUERY_TOP, .env = env, .ask = &group, .out = scratch, .why = why}, .to = to};

    group.group_by = WIRE_GROUP_IMAGE;
    *scratch = (struct query_answer){0};
    arena_init(&scratch->memory, QUERY_MEMORY_MAX);
    extract_metrics(&x);
    return extract_hosts(&x);
}
