#include "common/lab/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/lab/compare_sample.h"
#include "common/lab/host_class.h"
#include "common/lab/stat.h"

/* A row of the answer is one test, of a quantity of a group:
 *
 *   what counts   runs, hosts, strata for its limit                    compare_sides.c
 *   values        one a run, or one for each host in a run             compare_sample.c
 *   test, floor   between a's and b's; between neighbours of the past
 *   admission     whether so few runs, or such ones, carry a verdict   row_admit
 *   verdict       of all rows together, since many tests find something
 *
 * A limit of an absolute size is judged on plain values instead of logarithms; one that looks for a
 * fall turns all signs. What cannot be judged gets no word rather than a doubtful one. */

#define MEMORY_MAX ((size_t)256 << 20)
#define ONLY_MAX   100u
#define FACTS_MAX  64u
#define GROUP_ROWS 20u /* of a quantity, in a diff */
#define WIDE       0.05

static enum err no_room(const struct arena *a)
{
    return arena_refused(a, 1);
}

/* -- rows -- */

/* From the values' terms to the answer's: a share, or a difference. */
static double effect_of(const struct compare_sample *x, double v)
{
    v = x->turned ? -v : v;
    return x->relative ? expm1(v) : v;
}

static enum err row_naturals(struct compare_work *w, const struct compare_sample *x,
                             const uint32_t *runs, size_t n, double *median, double *low,
                             double *high, const double **out, size_t *n_out)
{
    double *values = arena_array(&w->c->memory, n ? n : 1, sizeof *values);
    double *sorted = arena_array(&w->scratch, n ? n : 1, sizeof *sorted);

    if (!values || !sorted) {
        return values ? no_room(&w->scratch) : no_room(&w->c->memory);
    }
    *n_out = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isnan(x->natural[runs[i]])) {
            values[*n_out] = sorted[*n_out] = x->natural[runs[i]];
            *n_out += 1;
        }
    }
    *out = values;
    stat_sort(sorted, *n_out);
    *median = stat_median(sorted, *n_out);
    (void)stat_median_interval(low, high, sorted, *n_out, 1 - COMPARE_ALPHA);
    return ERR_OK;
}

static size_t values_of(const struct compare_sample *x, const uint32_t *runs, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < x->width; k++) {
            count += (size_t)!isnan(x->values[runs[i] * x->width + k]);
        }
    }
    return count;
}

static enum err row_measure(struct compare_work *w, struct compare_row *row,
                            const struct compare_sample *x, double *least)
{
    double floor = NAN, low, high;
    struct stat_u u;
    enum err e = row_naturals(w, x, w->a, w->n_a, &row->a, &row->a_low, &row->a_high, &row->runs_a,
                              &row->n_runs_a);

    if (!e) {
        e = row_naturals(w, x, w->b, w->n_b, &row->b, &row->b_low, &row->b_high, &row->runs_b,
                         &row->n_runs_b);
    }
    if (!e) {
        e = compare_sample_contrast(w, x, w->a, w->n_a, w->b, w->n_b, &u);
    }
    if (!e) {
        e = compare_sample_floor(w, x, &floor);
    }
    if (e) {
        return e;
    }
    low = x->turned ? u.high : u.low;
    high = x->turned ? u.low : u.high;
    row->effect = effect_of(x, u.effect);
    row->low = isinf(low) ? -INFINITY : effect_of(x, low);
    row->high = isinf(high) ? INFINITY : effect_of(x, high);
    row->p = row->q = u.p;
    row->exact = u.exact;
    row->zeros = x->zeros;
    row->floor = isnan(floor) ? NAN : x->relative ? expm1(floor) : floor;
    row->n_a = values_of(x, w->a, w->n_a);
    row->n_b = values_of(x, w->b, w->n_b);
    *least = u.p_least;
    if (u.pairs == 0) {
        row->code = w->n_a && w->n_b ? COMPARE_NOT_MEASURED : COMPARE_NO_RUNS;
    }
    return ERR_OK;
}

/* Runs that count, of these sides, by time. */
static size_t runs_list(const struct compare_sides *s, unsigned side, uint32_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_runs; i++) {
        if (s->runs[i].counts && (s->runs[i].side & side)) {
            out[n++] = (uint32_t)i;
        }
    }
    return n;
}

/* Chooses for the limit and lists what counts. */
static enum err work_choose(struct compare_work *w, double limit)
{
    size_t n = w->s.n_runs ? w->s.n_runs : 1;
    enum err e = compare_sides_choose(&w->s, limit);

    if (e) {
        return e;
    }
    w->a = arena_array(&w->c->memory, n, sizeof *w->a);
    w->b = arena_array(&w->c->memory, n, sizeof *w->b);
    w->history = arena_array(&w->c->memory, n, sizeof *w->history);
    if (!w->a || !w->b || !w->history) {
        return no_room(&w->c->memory);
    }
    w->n_a = runs_list(&w->s, COMPARE_SIDE_A, w->a);
    w->n_b = runs_list(&w->s, COMPARE_SIDE_B, w->b);
    w->n_history = runs_list(&w->s, COMPARE_SIDE_HISTORY, w->history);
    return ERR_OK;
}

/* At least as many changes of side in order of time as the smaller side has runs. */
static bool is_interleaved(const struct compare_work *w)
{
    size_t changes = 0, least = w->n_a < w->n_b ? w->n_a : w->n_b;
    unsigned last = 0;

    for (size_t i = 0; i < w->s.n_runs; i++) {
        const struct compare_sides_run *r = &w->s.runs[i];
        unsigned side = r->side & (COMPARE_SIDE_A | COMPARE_SIDE_B);

        if (r->counts && side) {
            changes += last && side != last;
            last = side;
        }
    }
    return least > 0 && changes >= least;
}

static bool is_peak(struct quantity q)
{
    return q.of == QUANTITY_PEAK || q.of == QUANTITY_MAX;
}

/* Runs of each side that a test at this level takes, if the sides are alike. */
static size_t runs_for(double alpha)
{
    size_t n = COMPARE_LEAST_RUNS;

    while (n < 100 && stat_u_least(n, n) > alpha * (1 + 1e-12)) {
        n++;
    }
    return n;
}

/* Why the row gets no verdict, if so; before p counts. */
static enum err row_admit(struct compare_work *w, struct compare_row *row, double least,
                          double alpha)
{
    bool interleaved = is_interleaved(w), has_floor = !isnan(row->floor);
    bool gate = w->ask->n_limits > 0;
    size_t fewer = w->n_a < w->n_b ? w->n_a : w->n_b;

    w->c->interleaved = interleaved;
    if (row->code) {
        return ERR_OK;
    }
    if (is_peak(row->quantity) && w->s.rates_differ) {
        row->code = COMPARE_RATE;
        return compare_sides_note(w->c, COMPARE_RATE, false,
                                  "peaks are not judged: hosts were sampled at different rates");
    }
    if (least > alpha * (1 + 1e-12) ||
        (gate && w->s.design != COMPARE_OF_HOSTS && fewer < COMPARE_LEAST_RUNS)) {
        row->code = COMPARE_FEW_RUNS;
        return compare_sides_note(
            w->c, COMPARE_FEW_RUNS, false,
            "%zu+%zu runs are too few for a verdict: %zu on each side would do", w->n_a, w->n_b,
            runs_for(alpha));
    }
    if (w->s.design == COMPARE_OF_HOSTS && gate && !has_floor) {
        row->code = COMPARE_FLOOR;
        return compare_sides_note(w->c, COMPARE_FLOOR, false,
                                  "hosts as replicates take a known noise floor: %u earlier runs "
                                  "of A, and there are %zu",
                                  COMPARE_FLOOR_RUNS, w->n_history);
    }
    if (!interleaved && !has_floor && !w->ask->assume_stable) {
        row->code = COMPARE_DRIFT;
        return compare_sides_note(
            w->c, COMPARE_DRIFT, false,
            "drift cannot be told from change: the runs are not interleaved, and a noise floor "
            "takes %u runs of A, of which there are %zu; --assume-stable believes it all the same",
            COMPARE_FLOOR_RUNS, w->n_history);
    }
    return ERR_OK;
}

static enum err row_make(struct compare_work *w, struct compare_row *row, uint32_t group,
                         double *least)
{
    struct compare_sample x = {
        .q = row->quantity, .group = group, .relative = row->relative, .turned = row->below};
    enum err e;

    arena_reset(&w->scratch);
    e = compare_sample_make(w, &x);
    return e ? e : row_measure(w, row, &x, least);
}

/* -- a gate -- */

static void limit_judge(struct compare_row *row, double alpha, size_t fewer)
{
    double sign = row->below ? -1 : 1; /* of a fall, the signs are turned */
    double effect = sign * row->effect, limit = row->limit, far = sign > 0 ? row->high : -row->low;
    double half = (row->high - row->low) / 2;
    double bar = !isnan(row->floor) && row->floor > limit ? row->floor : limit;

    if (row->q <= alpha * (1 + 1e-12) && effect >= bar) {
        row->says = COMPARE_REGRESSION;
    } else if (far < limit) {
        row->says = COMPARE_OK;
    } else {
        double ratio = half / fabs(limit - effect), wanted = (double)fewer * ratio * ratio;

        row->says = COMPARE_UNDECIDED;
        row->runs_wanted = isfinite(wanted) && wanted < 1e6 && wanted > (double)fewer
                               ? (uint32_t)ceil(wanted - (double)fewer)
                               : 0;
    }
}

static void gate_judge(struct compare_work *w, size_t *order, double *p)
{
    struct compare *c = w->c;
    size_t n = 0;

    for (size_t i = 0; i < c->n_rows; i++) {
        if (!c->rows[i].code) {
            p[n++] = c->rows[i].p;
        }
    }
    stat_bh(p, p, n, order);
    for (size_t i = 0, k = 0; i < c->n_rows; i++) {
        struct compare_row *row = &c->rows[i];

        if (!row->code && !c->refused) {
            row->q = p[k++];
            limit_judge(row, w->alpha,
                        row->n_runs_a < row->n_runs_b ? row->n_runs_a : row->n_runs_b);
        }
    }
    c->made = n;
}

/* The number of a group that somebody named, + 1. One that no run has is 0 everywhere. */
static uint32_t group_find(const struct compare_work *w, struct str name)
{
    for (size_t i = 0; i < w->s.n_groups; i++) {
        if (str_eq(w->s.groups[i], name)) {
            return (uint32_t)i + 1;
        }
    }
    return UINT32_MAX;
}

static enum err gate_make(struct compare_work *w)
{
    const struct compare_ask *ask = w->ask;
    struct compare *c = w->c;
    double *p = arena_array(&c->memory, ask->n_limits, sizeof *p);
    size_t *order = arena_array(&c->memory, ask->n_limits, sizeof *order);
    enum err e = ERR_OK;

    c->rows = arena_array(&c->memory, ask->n_limits, sizeof *c->rows);
    if (!c->rows || !p || !order) {
        return no_room(&c->memory);
    }
    for (size_t i = 0; i < ask->n_limits && !e; i++) {
        const struct quantity_limit *l = &ask->limits[i];
        struct compare_row *row = &c->rows[c->n_rows++];
        double least = 1;

        *row = (struct compare_row){.quantity = l->quantity,
                                    .group = l->group,
                                    .of_group = l->of_group,
                                    .relative = l->relative,
                                    .below = l->below,
                                    .limit = l->value};
        e = work_choose(w, l->relative ? l->value : 0);
        if (!e) {
            e = row_make(w, row, l->of_group ? group_find(w, l->group) : 0, &least);
        }
        if (!e && !c->refused) {
            e = row_admit(w, row, least, w->alpha / (double)ask->n_limits);
        }
    }
    if (!e) {
        gate_judge(w, order, p);
    }
    return e;
}

/* -- a diff -- */

static const struct quantity usual[] = {
    {QUANTITY_DURATION, 0},           {QUANTITY_TOTAL, M_CPU_TIME},
    {QUANTITY_PEAK, M_PRIVATE_BYTES}, {QUANTITY_TOTAL, M_READ_BYTES},
    {QUANTITY_TOTAL, M_WRITE_BYTES},
};

struct share {
    uint32_t group; /* + 1 */
    size_t metric;
    double share; /* of a's and b's total of the quantity */
};

static int by_share(const void *x, const void *y)
{
    const struct share *a = x, *b = y;

    if (a->share > b->share || a->share < b->share) {
        return a->share > b->share ? -1 : 1;
    }
    return a->metric != b->metric ? (a->metric > b->metric) - (a->metric < b->metric)
                                  : (a->group > b->group) - (a->group < b->group);
}

/* What each group has of a quantity on both sides. */
static enum err shares_of(struct compare_work *w, struct quantity q, size_t metric,
                          struct share *out, size_t *n)
{
    double *sums = arena_array(&w->scratch, w->s.n_groups + 1, sizeof *sums), total = 0, v;
    size_t first = *n;

    if (!sums) {
        return no_room(&w->scratch);
    }
    for (size_t i = 0; i < w->s.n_runs; i++) {
        const struct compare_sides_run *r = &w->s.runs[i];

        for (size_t k = 0; k < r->f->n_rows; k++) {
            const struct run_row *row = &r->f->rows[k];

            if (r->counts && (r->side & (COMPARE_SIDE_A | COMPARE_SIDE_B)) &&
                row->of == RUN_ROW_CELL && (!r->tree || row->in_tree) && r->group[k] &&
                !r->hosts[row->host].leaves && quantity_of_row(&v, r->f, row, q)) {
                sums[r->group[k] - 1] += v;
                total += v;
            }
        }
    }
    for (uint32_t g = 0; g < w->s.n_groups; g++) {
        if (sums[g] > 0) {
            out[(*n)++] = (struct share){g + 1, metric, sums[g] / total};
        }
    }
    qsort(out + first, *n - first, sizeof *out, by_share);
    *n = *n - first > GROUP_ROWS ? first + GROUP_ROWS : *n;
    return ERR_OK;
}

static void diff_judge(struct compare_work *w, struct compare_row *row)
{
    double half = (row->high - row->low) / 2, want = w->ask->same > 0 ? w->ask->same : WIDE;
    size_t fewer = row->n_runs_a < row->n_runs_b ? row->n_runs_a : row->n_runs_b;
    bool beyond = isnan(row->floor) || fabs(row->effect) >= row->floor;

    if (row->q <= w->alpha * (1 + 1e-12) && beyond) {
        row->says = row->effect > 0 ? COMPARE_MORE : COMPARE_LESS;
    } else if (w->ask->same > 0 && row->low > -w->ask->same && row->high < w->ask->same) {
        row->says = COMPARE_SAME;
    } else {
        double wanted = (double)fewer * (half / want) * (half / want);

        row->says = COMPARE_NOT_SHOWN;
        row->runs_wanted = half > want && wanted < 1e6 ? (uint32_t)ceil(wanted - (double)fewer) : 0;
    }
}

static int by_place(const void *x, const void *y)
{
    const struct share *a = x, *b = y;

    return a->metric != b->metric ? (a->metric > b->metric) - (a->metric < b->metric)
                                  : by_share(x, y);
}

/* Rows in the order in which they are shown; those that are tested are marked by NOT_SHOWN. */
static enum err diff_rows(struct compare_work *w, const struct quantity *q, size_t n_q,
                          struct share *groups, size_t n_groups)
{
    struct compare *c = w->c;
    double least = 1;
    enum err e = ERR_OK;

    qsort(groups, n_groups, sizeof *groups, by_place);
    for (size_t i = 0, g = 0; i < n_q && !e; i++) {
        struct compare_row total = {.quantity = q[i], .relative = true, .limit = NAN};

        e = row_make(w, &total, 0, &least);
        if (!e && (total.code == COMPARE_NOT_MEASURED || total.code == COMPARE_NO_RUNS)) {
            while (g < n_groups && groups[g].metric == i) {
                g++;
            }
            continue;
        }
        total.says = COMPARE_NOT_SHOWN;
        if (!e) {
            c->can_carry =
                (size_t)(w->alpha * (1 + 1e-12) / least < 1e6 ? w->alpha * (1 + 1e-12) / least
                                                              : 1e6);
            e = c->refused ? ERR_OK : row_admit(w, &total, least, w->alpha);
            c->rows[c->n_rows++] = total;
        }
        for (; g < n_groups && groups[g].metric == i && !e; g++) {
            struct compare_row row = {.quantity = q[i],
                                      .group = w->s.groups[groups[g].group - 1],
                                      .of_group = true,
                                      .relative = true,
                                      .limit = NAN,
                                      .says = COMPARE_NOT_SHOWN};

            e = row_make(w, &row, groups[g].group, &least);
            if (!e && !c->refused) {
                e = row_admit(w, &row, least, w->alpha);
            }
            c->rows[c->n_rows++] = row;
        }
    }
    return e;
}

/* Totals are tested first, then groups by share, as many as so few runs can carry. */
static void diff_test(struct compare_work *w, const struct share *by, size_t n_by,
                      const struct quantity *q, size_t *order, double *p)
{
    struct compare *c = w->c;
    size_t n = 0, left = c->can_carry;

    for (size_t i = 0; i < c->n_rows; i++) {
        struct compare_row *row = &c->rows[i];

        row->says = row->code ? COMPARE_SAYS_NOTHING : COMPARE_NOT_TESTED;
        if (!row->of_group && !row->code && left > 0) {
            row->says = COMPARE_NOT_SHOWN;
            left--;
        }
    }
    for (size_t k = 0; k < n_by && left > 0; k++) {
        for (size_t i = 0; i < c->n_rows; i++) {
            struct compare_row *row = &c->rows[i];

            if (row->of_group && !row->code && quantity_eq(row->quantity, q[by[k].metric]) &&
                str_eq(row->group, w->s.groups[by[k].group - 1])) {
                row->says = COMPARE_NOT_SHOWN;
                left--;
            }
        }
    }
    for (size_t i = 0; i < c->n_rows; i++) {
        if (c->rows[i].says == COMPARE_NOT_SHOWN) {
            p[n++] = c->rows[i].p;
        }
    }
    stat_bh(p, p, n, order);
    for (size_t i = 0, k = 0; i < c->n_rows; i++) {
        if (c->rows[i].says == COMPARE_NOT_SHOWN) {
            c->rows[i].q = p[k++];
            diff_judge(w, &c->rows[i]);
        }
    }
    c->made = n;
}

static enum err diff_make(struct compare_work *w)
{
    const struct quantity *q = w->ask->n_metrics ? w->ask->metrics : usual;
    size_t n_q = w->ask->n_metrics ? w->ask->n_metrics : sizeof usual / sizeof *usual, n = 0;
    struct compare *c = w->c;
    struct share *shares, *by;
    size_t *order;
    double *p;
    enum err e = work_choose(w, w->ask->same);

    shares = arena_array(&c->memory, n_q * (w->s.n_groups + 1), sizeof *shares);
    c->rows = arena_array(&c->memory, n_q * (GROUP_ROWS + 1), sizeof *c->rows);
    order = arena_array(&c->memory, n_q * (GROUP_ROWS + 1), sizeof *order);
    p = arena_array(&c->memory, n_q * (GROUP_ROWS + 1), sizeof *p);
    if (!e && (!shares || !c->rows || !order || !p)) {
        e = no_room(&c->memory);
    }
    for (size_t i = 0; i < n_q && !e && w->ask->group_by != COMPARE_TOTALS; i++) {
        arena_reset(&w->scratch);
        e = q[i].of == QUANTITY_DURATION ? ERR_OK : shares_of(w, q[i], i, shares, &n);
    }
    if (e) {
        return e;
    }
    by = arena_dup(&c->memory, shares, n * sizeof *by);
    if (!by) {
        return no_room(&c->memory);
    }
    qsort(by, n, sizeof *by, by_share);
    e = diff_rows(w, q, n_q, shares, n);
    if (!e && !c->refused) {
        diff_test(w, by, n, q, order, p);
    }
    return e;
}

/* -- what stands around the rows -- */

static enum err side_tell(struct compare_work *w, struct compare_side *side, const uint32_t *runs,
                          size_t n, size_t given)
{
    const char *const *keys = w->ask->class_keys ? w->ask->class_keys : host_class_default;
    const struct run_file **files = arena_array(&w->c->memory, n ? n : 1, sizeof(void *));
    char text[HOST_CLASS_TEXT] = "";

    if (!files) {
        return no_room(&w->c->memory);
    }
    *side = (struct compare_side){.n_given = given, .n_judged = n, .ppm = 1000000, .judged = files};
    for (size_t i = 0; i < n; i++) {
        const struct compare_sides_run *r = &w->s.runs[runs[i]];
        size_t hosts = 0;

        files[i] = r->f;
        for (size_t k = 0; k < r->f->n_hosts; k++) {
            const struct run_host *h = &r->f->hosts[k];

            if (!r->hosts[k].leaves) {
                hosts++;
                side->ppm = h->ppm < side->ppm ? h->ppm : side->ppm;
                side->lost_events += h->lost_events;
                if (!text[0]) {
                    (void)host_class_text(text, h->facts, h->n_facts, keys);
                }
            }
        }
        side->n_hosts = hosts > side->n_hosts ? hosts : side->n_hosts;
    }
    side->class = str_make(text);
    side->class.p = arena_dup(&w->c->memory, text, side->class.n);
    return side->class.p ? ERR_OK : no_room(&w->c->memory);
}

/* Groups that one side alone has. */
static enum err only_find(struct compare_work *w)
{
    uint32_t *counts = arena_array(&w->c->memory, 2 * w->s.n_groups + 1, sizeof *counts);
    uint32_t *last = arena_array(&w->c->memory, w->s.n_groups + 1, sizeof *last);
    struct compare_only *only = arena_array(&w->c->memory, ONLY_MAX, sizeof *only);

    if (!counts || !last || !only) {
        return no_room(&w->c->memory);
    }
    for (uint32_t i = 0; i < w->s.n_runs; i++) {
        const struct compare_sides_run *r = &w->s.runs[i];
        unsigned side = r->side & (COMPARE_SIDE_A | COMPARE_SIDE_B);

        for (size_t k = 0; k < r->f->n_rows && r->counts && side; k++) {
            uint32_t g = r->group[k];

            if (g && last[g - 1] != i + 1 && r->f->rows[k].of == RUN_ROW_CELL &&
                (!r->tree || r->f->rows[k].in_tree)) {
                last[g - 1] = i + 1;
                counts[2 * (g - 1) + (side == COMPARE_SIDE_B)]++;
            }
        }
    }
    w->c->only = only;
    for (size_t g = 0; g < w->s.n_groups && w->c->n_only < ONLY_MAX; g++) {
        if (!counts[2 * g] != !counts[2 * g + 1]) {
            only[w->c->n_only++] = (struct compare_only){w->s.groups[g], counts[2 * g + 1] > 0,
                                                         counts[2 * g] + counts[2 * g + 1]};
        }
    }
    return ERR_OK;
}

static struct compare_fact *fact_find(struct compare_fact *facts, size_t n,
                                      const struct compare_fact *x)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(facts[i].key, x->key) && str_eq(facts[i].a, x->a) && str_eq(facts[i].b, x->b)) {
            return &facts[i];
        }
    }
    return NULL;
}

static void facts_add(struct compare *c, struct compare_fact *facts, struct str key, struct str a,
                      struct str b)
{
    struct compare_fact x = {key, a, b, 1}, *known = fact_find(facts, c->n_facts, &x);

    if (str_eq(a, b) || str_eq(key, str_make("boot_ns"))) {
        return;
    }
    if (known) {
        known->hosts++;
    } else if (c->n_facts < FACTS_MAX) {
        facts[c->n_facts++] = x;
    }
}

/* How the environment of each host differs between the newest runs of the sides. */
static enum err facts_find(struct compare_work *w)
{
    struct compare_fact *facts = arena_array(&w->c->memory, FACTS_MAX, sizeof *facts);
    const struct compare_sides_run *a, *b;

    if (!facts) {
        return no_room(&w->c->memory);
    }
    w->c->facts = facts;
    if (!w->n_a || !w->n_b) {
        return ERR_OK;
    }
    a = &w->s.runs[w->a[w->n_a - 1]];
    b = &w->s.runs[w->b[w->n_b - 1]];
    for (size_t i = 0; i < w->s.n_hosts; i++) {
        const struct run_host *x, *y;

        if (!a->at[i] || !b->at[i]) {
            continue;
        }
        x = &a->f->hosts[a->at[i] - 1];
        y = &b->f->hosts[b->at[i] - 1];
        facts_add(w->c, facts, str_make("agent"), x->agent, y->agent);
        for (size_t k = 0; k < x->n_facts; k++) {
            char key[65];

            (void)snprintf(key, sizeof key, "%.*s", (int)x->facts[k].key.n, x->facts[k].key.p);
            facts_add(w->c, facts, x->facts[k].key, x->facts[k].value,
                      host_class_fact(y->facts, y->n_facts, key));
        }
    }
    return ERR_OK;
}

static enum err compare_fill(struct compare_work *w)
{
    const struct compare_ask *ask = w->ask;
    struct compare *c = w->c;
    enum err e = compare_sides_open(&w->s, c, ask);

    if (!e) {
        e = ask->n_limits ? gate_make(w) : diff_make(w);
    }
    if (!e) {
        e = side_tell(w, &c->a, w->a, w->n_a, ask->n_a);
    }
    if (!e) {
        e = side_tell(w, &c->b, w->b, w->n_b, ask->n_b);
    }
    if (!e) {
        e = only_find(w);
    }
    if (!e) {
        e = facts_find(w);
    }
    c->pool = w->s.design == COMPARE_OF_POOL;
    c->n_hosts = w->s.design == COMPARE_OF_RUNS ? w->s.n_used : w->s.n_hosts;
    c->floor_runs = w->n_history;
    for (size_t i = 0; i < c->n_rows && c->refused; i++) {
        c->rows[i].says = COMPARE_SAYS_NOTHING;
    }
    return e;
}

enum err compare_runs(struct compare **out, const struct compare_ask *ask)
{
    struct compare_work w = {.ask = ask};
    enum err e;

    if (ask->n_a > COMPARE_RUNS_MAX || ask->n_b > COMPARE_RUNS_MAX ||
        ask->n_history > COMPARE_RUNS_MAX || ask->n_limits > COMPARE_LIMITS_MAX ||
        ask->n_metrics > COMPARE_METRICS_MAX) {
        return ERR_INVALID;
    }
    w.c = mem_zalloc(sizeof *w.c);
    if (!w.c) {
        return ERR_NOMEM;
    }
    w.alpha = COMPARE_ALPHA / (ask->looks ? ask->looks : 1);
    arena_init(&w.c->memory, MEMORY_MAX);
    arena_init(&w.scratch, MEMORY_MAX);
    e = compare_fill(&w);
    arena_fini(&w.scratch);
    if (e) {
        compare_free(w.c);
        return e;
    }
    *out = w.c;
    return ERR_OK;
}

void compare_free(struct compare *c)
{
    if (c) {
        arena_fini(&c->memory);
        mem_free(c);
    }
}

int compare_exit(const struct compare *c)
{
    int code = c->n_rows && !c->refused ? 0 : 5;

    for (size_t i = 0; i < c->n_rows; i++) {
        if (c->rows[i].says == COMPARE_REGRESSION) {
            return 6;
        }
        code = c->rows[i].says == COMPARE_OK ? code : 5;
    }
    return code;
}

const char *compare_code_name(unsigned code)
{
    static const char *const names[] = {"fine",  "no_runs", "few_runs",   "not_ready",   "failed",
                                        "short", "absent",  "coverage",   "at_most",     "overlap",
                                        "hosts", "class",   "cpu_origin", "source",      "agent",
                                        "rate",  "drift",   "floor",      "not_measured"};

    return code < COMPARE_CODES ? names[code] : "?";
}

const char *compare_says_name(unsigned says)
{
    static const char *const names[] = {"refused", "not tested", "more", "less",     "~",
                                        "same",    "regression", "ok",   "undecided"};

    return says <= COMPARE_UNDECIDED ? names[says] : "?";
}
