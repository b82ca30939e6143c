/* A slice is a rectangle: the ticks of one step by the processes of a host. Of each process each
 * metric that a rule wants is turned once into what counts at a tick (the value of a gauge, the
 * growth of a counter), and added to rows of the scratch: one for the host as a whole, if a rule
 * wants it, and one for each function of each subject that the process belongs to. At the end every
 * row that was touched goes into its window. */
#include "collector/rules/rules_slice.h"

#include <string.h>

#include "collector/rules/rules_match.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

#define ACC_MAX ((size_t)4 << 20) /* numbers of the scratch */

/* -- runs -- */

static size_t metric_place(const struct rules_judge *j, uint8_t id)
{
    size_t i = 0;

    while (i < j->n_metrics && j->metrics[i].id != id) {
        i++;
    }
    return i;
}

static bool run_meets(const struct batch_run *r, size_t tick, size_t n)
{
    return r->first_tick < tick + n && r->first_tick + r->n_ticks > tick;
}

/* Column by column, as they stand in memory. */
static void runs_values(const struct rules_judge *j, struct rules_runs *x, size_t tick, size_t n)
{
    for (size_t c = 0; c < x->rows->n_columns; c++) {
        size_t m = metric_place(j, x->rows->columns[c].metric), k = 0;
        const int64_t *at = x->rows->columns[c].values;
        metric_mask bit = METRIC_BIT(x->rows->columns[c].metric);

        if (m == j->n_metrics) {
            continue;
        }
        for (size_t r = 0; r < x->rows->n_runs; r++) {
            const struct batch_run *run = &x->rows->runs[r];
            bool meets = run_meets(run, tick, n);

            if (run->mask & bit) {
                if (meets) {
                    x->values[k * j->n_metrics + m] = at;
                }
                at += run->n_ticks;
            }
            k += meets;
        }
    }
}

enum err rules_slice_runs(struct rules_judge *j, struct rules_host *h, const struct batch *rows,
                          size_t tick, size_t n, struct rules_runs *out)
{
    struct rules_runs x = {.rows = rows};
    uint32_t *at = arena_array_unset(&j->scratch, rows->n_runs + 1, sizeof *at);
    enum err e = ERR_OK;

    x.insts = arena_array_unset(&j->scratch, rows->n_runs + 1, sizeof *x.insts);
    for (size_t r = 0; at && x.insts && !e && r < rows->n_runs; r++) {
        if (run_meets(&rows->runs[r], tick, n)) {
            at[x.n_runs] = (uint32_t)r;
            e = rules_match_inst(j, h->index, &rows->head.boot, rows->runs[r].id,
                                 &x.insts[x.n_runs]);
            x.n_runs++;
        }
    }
    x.values = arena_array(&j->scratch, x.n_runs * j->n_metrics + 1, sizeof(const int64_t *));
    x.at = at;
    if (e || !at || !x.insts || !x.values) {
        return e ? e : ERR_NOMEM;
    }
    runs_values(j, &x, tick, n);
    *out = x;
    return ERR_OK;
}

/* -- the scratch -- */

static enum err acc_take(struct rules_judge *j, size_t n, size_t *at)
{
    enum err e = VEC_ROOM(&j->acc, &j->cap_acc, j->n_acc + n, ACC_MAX);

    if (!e) {
        *at = j->n_acc;
        memset(j->acc + j->n_acc, 0, n * sizeof *j->acc);
        j->n_acc += n;
    }
    return e;
}

/* A subject's rows: one for each function, and how many of its processes were there. */
static enum err sub_touch(struct rules_judge *j, uint32_t at, size_t n)
{
    struct rules_sub *s = &j->subs[at];
    enum err e;

    if (s->slice == j->slice) {
        return ERR_OK;
    }
    e = VEC_ROOM(&j->touched, &j->cap_touched, j->n_touched + 1, RULES_SUBJECTS_MAX);
    e = e ? e : acc_take(j, (rules_types_rule(j, s->rule)->n_calls + 1u) * n, &s->scratch);
    if (!e) {
        s->slice = j->slice;
        s->whole = 0;
        j->touched[j->n_touched++] = at;
    }
    return e;
}

static void add_to(int64_t *to, const int64_t *values, size_t n)
{
    for (size_t k = 0; k < n; k++) { /* what agents send wraps nowhere near */
        to[k] = (int64_t)((uint64_t)to[k] + (uint64_t)values[k]);
    }
}

/* -- into a window -- */

/* Values of n ticks into the part; there NULL: at all of them. */
static void call_reduce(struct rules_part *p, const struct rules_call *call, size_t n,
                        const int64_t *v, const int64_t *there, const int64_t *dt_ns)
{
    if (call->source == RULES_COUNTER) {
        int64_t sum = 0;

        for (size_t k = 0; k < n; k++) {
            sum = (int64_t)((uint64_t)sum + (uint64_t)v[k]);
        }
        p->sum = clk_add(p->sum, sum);
        return;
    }
    for (size_t k = 0; k < n; k++) {
        if (there && there[k] <= 0) {
            continue;
        }
        if (call->source != RULES_CPU) {
            rules_window_tick(p, v[k]);
        } else if (dt_ns[k] > 0) {
            rules_window_tick(p, (int64_t)((double)v[k] * 1000 / (double)dt_ns[k]));
        }
    }
}

static bool call_has_samples(const struct rules_call *call)
{
    return call->source <= RULES_CPU || call->source == RULES_PROCESSES;
}

/* -- one run -- */

struct slice {
    struct rules_judge *j;
    struct rules_host *h;
    size_t n; /* ticks */
    const int64_t *dt_ns, *real_ns;
    int64_t step_ns;
    int64_t whole; /* runs that have all ticks */
    size_t totals; /* where the host's rows begin, one for each metric, and the count */
    int64_t (*growth)[RULES_SLICE_TICKS];
    const int64_t **now; /* of the run that is being added: what counts, by metric */
};

/* n values from the slice's tick `at` on. */
static void growth_of(struct slice *s, uint32_t inst, size_t m, const int64_t *v, size_t at,
                      size_t n, bool from_zero)
{
    struct rules_inst *x = &s->h->insts[inst];
    const struct rules_metric *metric = &s->j->metrics[m];
    int64_t *last = &s->h->last[inst * s->j->n_counters + metric->place], *to = s->growth[m];
    bool has = x->have >> metric->place & 1;
    int64_t before = from_zero ? 0 : has ? *last : v[0];

    for (size_t k = 0; k < n; k++) {
        to[k] = v[k] > before ? clk_sub(v[k], before) : 0; /* one that fell began anew */
        if (s->dt_ns[at + k] < s->real_ns[at + k]) {
            to[k] =
                (int64_t)((double)to[k] * (double)s->dt_ns[at + k] / (double)s->real_ns[at + k]);
        }
        before = v[k];
    }
    *last = before;
    x->have |= UINT64_C(1) << metric->place;
}

static enum err sub_add(struct slice *s, uint32_t at, size_t from, size_t n)
{
    struct rules_judge *j = s->j;
    enum err e = sub_touch(j, at, s->n);
    const struct rules_sub *sub = &j->subs[at];
    uint32_t n_calls = rules_types_rule(j, sub->rule)->n_calls;

    if (e) {
        return e;
    }
    for (uint32_t c = 0; c < n_calls; c++) {
        uint8_t m = j->call_metric[sub->rule][c];

        if (m < j->n_metrics && s->now[m] && j->call_first[sub->rule][c]) {
            add_to(j->acc + sub->scratch + c * s->n + from, s->now[m], n);
        }
    }
    if (n == s->n) {
        j->subs[at].whole++;
        return ERR_OK;
    }
    for (size_t k = 0; j->rule_there[sub->rule] && k < n; k++) {
        j->acc[sub->scratch + n_calls * s->n + from + k]++;
    }
    return ERR_OK;
}

/* A subject of one process needs no sums. */
static void sub_add_one(struct slice *s, uint32_t at, size_t from, size_t n)
{
    struct rules_judge *j = s->j;
    struct rules_sub *sub = &j->subs[at];
    const struct rules_rule *rule = rules_types_rule(j, sub->rule);
    static const int64_t ones[RULES_SLICE_TICKS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

    for (uint32_t c = 0; c < rule->n_calls; c++) {
        const struct rules_call *call = &rule->calls[c];
        uint8_t m = j->call_metric[sub->rule][c];
        const int64_t *v = call->source == RULES_PROCESSES ? ones
                           : m < j->n_metrics              ? s->now[m]
                                                           : NULL;
        struct rules_part *p;

        if (v && j->call_first[sub->rule][c]) {
            p = rules_window_part(&sub->windows[j->call_window[sub->rule][c]], call, s->step_ns);
            if (p) {
                call_reduce(p, call, n, v, NULL, s->dt_ns + from);
            }
        }
    }
}

/* Ticks [tick, tick + n) of the batch are the slice's. */
static enum err run_add(struct slice *s, const struct rules_runs *runs, size_t i, size_t tick)
{
    struct rules_judge *j = s->j;
    const struct batch_run *run = &runs->rows->runs[runs->at[i]];
    size_t end = run->first_tick + run->n_ticks;
    size_t a = run->first_tick > tick ? run->first_tick : tick;
    size_t b = end < tick + s->n ? end : tick + s->n;
    struct rules_inst *inst = &s->h->insts[runs->insts[i]];
    enum err e = ERR_OK;

    if (a >= b) {
        return ERR_OK;
    }
    inst->seen_ns = s->step_ns > inst->seen_ns ? s->step_ns : inst->seen_ns;
    for (size_t m = 0; m < j->n_metrics; m++) {
        const int64_t *v = runs->values[i * j->n_metrics + m];

        s->now[m] = NULL;
        if (!v) {
            continue;
        }
        v += a - run->first_tick;
        if (j->metrics[m].counter) {
            growth_of(s, runs->insts[i], m, v, a - tick, b - a, run->fresh && a == run->first_tick);
            v = s->growth[m];
        }
        s->now[m] = v;
        if (j->metrics[m].total) {
            add_to(j->acc + s->totals + m * s->n + (a - tick), v, b - a);
            j->acc[s->totals + (j->n_metrics + 1) * s->n + m]++;
        }
    }
    if (b - a == s->n) {
        s->whole++;
    }
    for (size_t k = a - tick; b - a < s->n && k < b - tick; k++) {
        j->acc[s->totals + j->n_metrics * s->n + k]++;
    }
    for (uint32_t k = 0; !e && k < inst->n_refs; k++) {
        if (rules_types_rule(j, j->subs[inst->refs[k]].rule)->of == RULES_PROCESS) {
            sub_add_one(s, inst->refs[k], a - tick, b - a);
        } else {
            e = sub_add(s, inst->refs[k], a - tick, b - a);
        }
    }
    return e;
}

/* -- into the windows -- */

static void sub_reduce(const struct slice *s, struct rules_sub *sub)
{
    const struct rules_judge *j = s->j;
    const struct rules_rule *rule = rules_types_rule(j, sub->rule);
    int64_t *rows = j->acc + sub->scratch, *there = rows + rule->n_calls * s->n;

    for (size_t k = 0; sub->whole && k < s->n; k++) {
        there[k] += sub->whole;
    }
    for (uint32_t c = 0; c < rule->n_calls; c++) {
        const struct rules_call *call = &rule->calls[c];
        struct rules_part *p;

        if (call_has_samples(call) && j->call_first[sub->rule][c]) {
            p = rules_window_part(&sub->windows[j->call_window[sub->rule][c]], call, s->step_ns);
            if (p) {
                call_reduce(p, call, s->n,
                            call->source == RULES_PROCESSES ? there : rows + c * s->n, there,
                            s->dt_ns);
            }
        }
    }
}

/* The host's own subjects, from its totals. A metric that no process has is absent. */
static void totals_reduce(const struct slice *s)
{
    const struct rules_judge *j = s->j;
    int64_t *totals = j->acc + s->totals, *there = totals + j->n_metrics * s->n;
    const int64_t *seen = there + s->n;

    for (size_t k = 0; k < s->n; k++) {
        there[k] += s->whole;
    }
    for (uint32_t r = 0; r < j->n_rules; r++) {
        const struct rules_rule *rule = rules_types_rule(j, r);
        uint32_t at = s->h->heads[r];

        if (!rules_types_total(rule) || at == RULES_NONE) {
            continue;
        }
        for (uint32_t c = 0; c < rule->n_calls; c++) {
            const struct rules_call *call = &rule->calls[c];
            uint8_t m = j->call_metric[r][c];
            struct rules_part *p;

            if (!call_has_samples(call) || !j->call_first[r][c] ||
                (call->source != RULES_PROCESSES && (m >= j->n_metrics || !seen[m]))) {
                continue;
            }
            p = rules_window_part(&j->subs[at].windows[j->call_window[r][c]], call, s->step_ns);
            if (p) {
                call_reduce(p, call, s->n,
                            call->source == RULES_PROCESSES ? there : totals + m * s->n, there,
                            s->dt_ns);
            }
        }
    }
}

enum err rules_slice_take(struct rules_judge *j, struct rules_host *h,
                          const struct rules_runs *runs, size_t tick, size_t n,
                          const int64_t *dt_ns, const int64_t *real_ns, int64_t step_ns)
{
    int64_t growth[RULES_METRICS_MAX][RULES_SLICE_TICKS];
    const int64_t *now[RULES_METRICS_MAX];
    struct slice s = {.j = j,
                      .h = h,
                      .n = n,
                      .dt_ns = dt_ns,
                      .real_ns = real_ns,
                      .step_ns = step_ns,
                      .growth = growth,
                      .now = now};
    enum err e;

    j->slice++;
    j->n_acc = j->n_touched = 0;
    e = acc_take(j, (j->n_metrics + 1) * n + j->n_metrics, &s.totals);
    for (size_t i = 0; !e && i < runs->n_runs; i++) {
        e = run_add(&s, runs, i, tick);
    }
    if (!e) {
        totals_reduce(&s);
    }
    for (size_t i = 0; !e && i < j->n_touched; i++) {
        sub_reduce(&s, &j->subs[j->touched[i]]);
    }
    return e;
}
