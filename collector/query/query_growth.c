#include "collector/query/query_growth.h"

#include "collector/query/query_history.h"
#include "collector/query/query_where.h"
#include "common/lab/stat.h"

#define PARTS_FIRST 256

/* Means of one process; a part without samples has none. */
struct course {
    const struct query_inst *inst;
    struct uuid boot;
    uint32_t have; /* bit per part */
    int64_t means[QUERY_GROWTH_PARTS];
};

struct growth {
    struct query *q;
    int64_t since_ns, step_ns; /* of the host's parts */
    struct arena memory;       /* of one host */
    size_t n, cap;
    struct course **list;
    enum err (*each)(void *ctx, const struct query_growth *g);
    void *ctx;
};

static enum err course_add(struct growth *x, const struct query_step *step)
{
    struct course *c = arena_alloc(&x->memory, sizeof *c);

    if (x->n == x->cap) {
        size_t cap = x->cap ? x->cap * 2 : PARTS_FIRST;
        struct course **more = arena_array(&x->memory, cap, sizeof(struct course *));

        if (!more) {
            return ERR_FULL;
        }
        for (size_t i = 0; i < x->n; i++) {
            more[i] = x->list[i];
        }
        x->list = more;
        x->cap = cap;
    }
    if (!c) {
        return ERR_FULL;
    }
    c->inst = step->inst;
    c->boot = *step->boot;
    x->list[x->n++] = c;
    *step->tag = (uint32_t)x->n;
    return ERR_OK;
}

static enum err growth_step(void *ctx, const struct query_step *step)
{
    struct growth *x = ctx;
    const struct query_spread *s = &step->spreads[0];
    int64_t first_ns = step->span->since_ns - step->span->since_ns % x->step_ns;
    int64_t part = (step->slot_ns - first_ns) / x->step_ns;
    struct course *c;
    enum err e;

    if (step->inst->instances || !s->count || part < 0 || part >= QUERY_GROWTH_PARTS ||
        !query_wants(x->q, step->inst->id, step->inst->info)) {
        return ERR_OK;
    }
    e = *step->tag ? ERR_OK : course_add(x, step);
    if (e) {
        return e;
    }
    x->since_ns = first_ns;
    c = x->list[*step->tag - 1];
    c->means[part] = query_mean(s->sum, s->count);
    c->have |= 1u << part;
    return ERR_OK;
}

/* False: it has no two parts. */
static bool course_judge(const struct growth *x, const struct course *c, struct query_growth *out)
{
    double at[QUERY_GROWTH_PARTS], value[QUERY_GROWTH_PARTS], slope;
    size_t n = 0, rose = 0, first = 0, last = 0;

    for (size_t i = 0; i < QUERY_GROWTH_PARTS; i++) {
        if (c->have >> i & 1) {
            rose += n && c->means[i] > c->means[last];
            first = n ? first : i;
            last = i;
            at[n] = (double)i;
            value[n++] = (double)c->means[i];
        }
    }
    if (n < 2 || stat_theil_sen(&slope, at, value, n)) {
        return false;
    }
    out->grew = cell_growth(c->means[first], c->means[last]);
    out->trend.per_hour = (int64_t)(slope * 3600e9 / (double)x->step_ns);
    out->trend.steady_permille = (uint32_t)(rose * 1000 / (n - 1));
    out->seen_ns = x->since_ns + (int64_t)last * x->step_ns;
    return true;
}

static bool growth_value(const struct query_where_row *row, unsigned i, int64_t *v)
{
    *v = ((const struct query_growth *)row->at)->grew;
    return i == 0;
}

static enum err growth_host(void *ctx, const struct query_span *s)
{
    struct growth *x = ctx;
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < x->n; i++) {
        const struct course *c = x->list[i];
        struct query_growth g = {.span = (size_t)(s - x->q->spans), .info = c->inst->info};
        struct query_where_row row = {
            .span = s, .info = c->inst->info, .id = &c->inst->id, .value = growth_value, .at = &g};

        g.who = (struct proc_key){c->inst->id, c->boot};
        if (course_judge(x, c, &g) && query_where_fits(x->q, &row)) {
            e = x->each(x->ctx, &g);
        }
    }
    arena_reset(&x->memory);
    x->list = NULL;
    x->n = x->cap = 0;
    return e;
}

enum err query_growth_scan(struct query *q,
                           enum err (*each)(void *ctx, const struct query_growth *g), void *ctx)
{
    struct growth x = {.q = q, .each = each, .ctx = ctx};
    struct query_history_steps steps = {.each = growth_step, .host_done = growth_host, .ctx = &x};
    int64_t longest_ns = 0;
    enum err e;

    for (size_t i = 0; i < q->n_spans; i++) {
        int64_t ns = clk_sub(q->spans[i].until_ns, q->spans[i].since_ns);

        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    /* one part less: the first begins before the window, on a whole step */
    x.step_ns = longest_ns / (QUERY_GROWTH_PARTS - 1) + 1;
    x.step_ns = x.step_ns > CLK_S ? x.step_ns : CLK_S;
    steps.step_ns = x.step_ns;
    arena_init(&x.memory, QUERY_MEMORY_MAX / 4);
    e = query_history_steps(q, &steps);
    arena_fini(&x.memory);
    return e;
}
