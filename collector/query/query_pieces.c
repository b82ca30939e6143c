#include "collector/query/query_pieces.h"

/* Whether the metrics agree on ticks, and on how many processes are new. */
static bool pieces_agree(const struct query_pieces *p, const struct group_sums *g)
{
    const struct group_sums_part *first = g->parts[p->columns[0]];

    for (unsigned i = 0; i < p->n_columns; i++) {
        const struct group_sums_part *part = g->parts[p->columns[i]];

        if (!part || g->ticks[p->columns[i]] != g->ticks[p->columns[0]]) {
            return false;
        }
        for (size_t k = 0; k < g->n; k++) {
            if (part[k].n_new != first[k].n_new) {
                return false;
            }
        }
    }
    return true;
}

enum err query_pieces_list(struct query_pieces *p, const struct store_view *v, size_t host,
                           struct arena *memory)
{
    metric_mask metrics = 0;
    enum err e;

    for (unsigned i = 0; i < p->n_columns; i++) {
        metrics |= METRIC_BIT(p->columns[i]);
    }
    p->at = 0;
    e = store_groups_list(v, host, clk_sub(p->since_ns, QUERY_LOOKBACK_NS), p->until_ns, metrics,
                          memory, &p->list, &p->n);
    for (size_t i = 0; !e && i < p->n; i++) {
        p->list[i].holds = p->list[i].holds && pieces_agree(p, &p->list[i].sums);
    }
    return e;
}

/* Whether one process had the most samples in both windows: then in both together, too. */
static bool pieces_are_steady(const struct query_pieces *p, const struct group_sums *g,
                              const struct group_sums *next)
{
    for (unsigned i = 0; i < p->n_columns; i++) {
        if (!proc_id_eq(g->most[p->columns[i]], next->most[p->columns[i]])) {
            return false;
        }
    }
    return true;
}

static int64_t pieces_slot(const struct query_pieces *p, int64_t when_ns)
{
    return when_ns - when_ns % p->step_ns;
}

int64_t query_pieces_sums(struct query_pieces *p, int64_t at_ns)
{
    int64_t end_ns = at_ns;

    while (p->at < p->n && p->list[p->at].t1_ns < at_ns) {
        p->at++;
    }
    for (size_t i = p->at; i > 0 && i < p->n && p->list[i].holds; i++) {
        const struct store_groups *g = &p->list[i];
        int64_t slot_ns = pieces_slot(p, g->t0_ns), next_ns = clk_add(slot_ns, p->step_ns);

        if (slot_ns < at_ns || g->t1_ns >= next_ns || next_ns > p->until_ns ||
            g[-1].t0_ns < clk_sub(slot_ns, p->step_ns) || g[-1].t0_ns < p->since_ns ||
            (i > p->at && pieces_slot(p, g[-1].t0_ns) == slot_ns &&
             !pieces_are_steady(p, &g[-1].sums, &g->sums))) {
            break;
        }
        if (i + 1 == p->n || g[1].t0_ns >= next_ns) {
            end_ns = next_ns;
        }
    }
    return end_ns;
}
