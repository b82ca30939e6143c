#include "collector/query/query_sum.h"

static void add_most(struct query_sum *s, int64_t most)
{
    s->most = s->has_most && s->most > most ? s->most : most;
    s->has_most = true;
}

static void add_counter(struct query_sum *s, const struct query_table *t,
                        const struct query_inst *inst, const struct query_cell *c)
{
    uint64_t steps;
    int64_t v;

    if (query_cell_growth(t, inst, c, &v, &steps)) {
        s->total = cell_sum(s->total, v);
        s->steps += steps;
        s->has_total = true;
    }
    if (query_cell_most(t, inst, c, &v)) {
        add_most(s, v);
    }
}

void query_sum_add(struct query_sum *s, const struct query_table *t, const struct query_inst *inst,
                   unsigned i)
{
    const struct query_cell *c = &inst->cells[i];

    if (query_table_counts(t, i)) {
        add_counter(s, t, inst, c);
    } else if (c->in.count) {
        s->total = cell_sum(s->total, c->in.sum);
        s->has_total = true;
        add_most(s, c->in.max);
        if (query_inst_lives(t, inst)) {
            s->now = cell_sum(s->now, c->in.last);
            s->has_now = true;
        }
    }
}

static bool of_counter(const struct query_sum *s, const struct query_table *t, unsigned i,
                       unsigned by, int64_t *value)
{
    if (by == WIRE_BY_MAX) {
        *value = s->most;
        return s->has_most;
    }
    if (!s->has_total) {
        return false;
    }
    if (query_table_metric(t, i) == M_CPU_PERCENT) {
        return query_table_permille(t, s->total, value);
    }
    if (by == WIRE_BY_RATE) {
        return query_table_rate(t, s->total, value);
    }
    *value = by == WIRE_BY_AVG ? query_mean(s->total, s->steps) : s->total;
    return true;
}

bool query_sum_value(const struct query_sum *s, const struct query_table *t, unsigned i,
                     unsigned by, int64_t *value)
{
    if (query_table_counts(t, i)) {
        return of_counter(s, t, i, by, value);
    }
    switch (by) {
    case WIRE_BY_SUM:
        *value = s->total;
        return s->has_total;
    case WIRE_BY_MAX:
        *value = s->most;
        return s->has_most;
    case WIRE_BY_AVG:
        *value = query_mean(s->total, t->ticks.ticks);
        return s->has_total && t->ticks.ticks > 0;
    default:
        *value = s->now;
        return s->has_now;
    }
}
