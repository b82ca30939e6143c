#include "common/lab/compare_sample.h"

#include <math.h>

#include "common/lab/stat.h"

#define ZEROS_SHARE 0.001

static enum err no_room(const struct arena *a)
{
    return arena_refused(a, 1);
}

/* -- observations -- */

/* Whether a row that is no cell says the peak of what is asked for. */
static bool row_is_sum_of(const struct compare_work *w, const struct compare_sides_run *r,
                          size_t row, const struct compare_sample *x)
{
    const struct run_row *sum = &r->f->rows[row];
    bool of_tree = x->group && !w->ask->n_limits && w->ask->group_by == COMPARE_BY_TREE;

    return sum->in_tree == (of_tree || r->tree) &&
           (x->group ? r->group[row] == x->group : sum->of == RUN_ROW_HOST);
}

/* One number for each of the run's hosts; NAN: not measured there. `sums` is room for as many. */
static void observe_hosts(const struct compare_work *work, double *out, double *sums,
                          const struct compare_sides_run *r, const struct compare_sample *x)
{
    bool counted = x->q.of < QUANTITY_TOTAL;

    for (size_t i = 0; i < r->f->n_hosts; i++) {
        out[i] = counted ? 0 : NAN;
        sums[i] = NAN;
    }
    for (size_t k = 0; k < r->f->n_rows; k++) {
        const struct run_row *w = &r->f->rows[k];
        double v, before = out[w->host];

        if (w->of != RUN_ROW_CELL) {
            if ((x->q.of == QUANTITY_PEAK || x->q.of == QUANTITY_AVG) &&
                row_is_sum_of(work, r, k, x) && quantity_of_row(&v, r->f, w, x->q)) {
                sums[w->host] = v;
            }
            continue;
        }
        if ((r->tree && !w->in_tree) || !(counted || (w->have & METRIC_BIT(x->q.metric)))) {
            continue;
        }
        before = isnan(before) ? 0 : before;
        out[w->host] = before; /* measured; a group that is not there counts 0 */
        if ((!x->group || r->group[k] == x->group) && quantity_of_row(&v, r->f, w, x->q)) {
            out[w->host] = x->q.of == QUANTITY_MAX ? fmax(before, v) : before + v;
        }
    }
    for (size_t i = 0; i < r->f->n_hosts; i++) {
        out[i] = isnan(sums[i]) ? out[i] : sums[i];
        if (x->q.of == QUANTITY_DURATION) {
            out[i] = (double)(r->f->head.end_ns - r->f->head.begin_ns);
        }
    }
}

/* Whether the k-th host of the run is part of the comparison; in a row of one host, only that. */
static bool host_is_used(const struct compare_work *w, const struct compare_sides_run *r, size_t k,
                         const struct compare_sample *x)
{
    bool of_host = x->group && !w->ask->n_limits && w->ask->group_by == COMPARE_BY_HOST;

    return !r->hosts[k].leaves && w->s.in_use[r->hosts[k].number] &&
           (!of_host || str_eq(w->s.groups[x->group - 1], r->f->hosts[k].name));
}

/* Each run's observations: `raw` has n_hosts for each. */
static enum err sample_observe(struct compare_work *w, struct compare_sample *x, double *raw)
{
    const struct compare_sides *s = &w->s;
    size_t most = 1;
    double *hosts, *sums;

    for (size_t i = 0; i < s->n_runs; i++) {
        most = s->runs[i].f->n_hosts > most ? s->runs[i].f->n_hosts : most;
    }
    hosts = arena_array(&w->scratch, most, sizeof *hosts);
    sums = arena_array(&w->scratch, most, sizeof *sums);
    if (!hosts || !sums) {
        return no_room(&w->scratch);
    }
    for (size_t i = 0; i < s->n_runs; i++) {
        const struct compare_sides_run *r = &s->runs[i];

        for (size_t k = 0; k < s->n_hosts; k++) {
            raw[i * s->n_hosts + k] = NAN;
        }
        x->natural[i] = NAN;
        if (!r->counts) {
            continue;
        }
        observe_hosts(w, hosts, sums, r, x);
        for (size_t k = 0; k < r->f->n_hosts; k++) {
            if (host_is_used(w, r, k, x)) {
                raw[i * s->n_hosts + r->hosts[k].number] = hosts[k];
                x->natural[i] = x->q.of == QUANTITY_DURATION
                                    ? hosts[k]
                                    : (isnan(x->natural[i]) ? 0 : x->natural[i]) + hosts[k];
            }
        }
    }
    return ERR_OK;
}

/* What is added so that zeros have logarithms: a share of the median of both sides, or where that
 * is 0, of what is not. */
static enum err sample_shift(struct compare_work *w, struct compare_sample *x, const double *raw,
                             double *shift)
{
    size_t n = 0, first, cells = w->s.n_runs * w->s.n_hosts;
    double *all = arena_array(&w->scratch, cells ? cells : 1, sizeof *all);

    *shift = 0;
    if (!all) {
        return no_room(&w->scratch);
    }
    for (size_t i = 0; i < cells; i++) {
        if (w->s.runs[i / w->s.n_hosts].side & (COMPARE_SIDE_A | COMPARE_SIDE_B) &&
            !isnan(raw[i])) {
            all[n++] = raw[i];
        }
    }
    stat_sort(all, n);
    for (first = 0; first < n && !(all[first] > 0);) {
        first++;
    }
    x->zeros = first > 0;
    if (x->zeros) {
        double median = stat_median(all, n);

        median = median > 0 || first == n ? median : stat_median(all + first, n - first);
        *shift = ZEROS_SHARE * (median > 0 ? median : 1);
    }
    return ERR_OK;
}

/* Values to be tested, from observations. A run of which a host was not measured has none. */
static enum err sample_values(struct compare_work *w, struct compare_sample *x, const double *raw)
{
    const struct compare_sides *s = &w->s;
    bool mean = s->design != COMPARE_OF_HOSTS;
    double shift = 0, sign = x->turned ? -1 : 1;
    enum err e = x->relative ? sample_shift(w, x, raw, &shift) : ERR_OK;

    for (size_t i = 0; i < s->n_runs && !e; i++) {
        double *to = x->values + i * x->width, sum = 0;
        size_t n = 0;

        for (size_t k = 0; k < s->n_hosts && s->runs[i].counts; k++) {
            double v = raw[i * s->n_hosts + k];

            v = sign * (x->relative ? log(v + shift) : v);
            if (!mean) {
                to[k] = v;
            } else if (!isnan(v)) {
                sum += v;
                n++;
            }
        }
        if (mean) {
            *to = n > 0 && !isnan(x->natural[i]) ? sum / (double)n : NAN;
        }
    }
    return e;
}

enum err compare_sample_make(struct compare_work *w, struct compare_sample *x)
{
    size_t n = w->s.n_runs ? w->s.n_runs : 1, hosts = w->s.n_hosts ? w->s.n_hosts : 1;
    double *raw = arena_array(&w->scratch, n * hosts, sizeof *raw);
    enum err e;

    x->width = w->s.design == COMPARE_OF_HOSTS ? hosts : 1;
    x->values = arena_array(&w->scratch, n * x->width, sizeof *x->values);
    x->natural = arena_array(&w->scratch, n, sizeof *x->natural);
    if (!raw || !x->values || !x->natural) {
        return no_room(&w->scratch);
    }
    e = sample_observe(w, x, raw);
    return e ? e : sample_values(w, x, raw);
}

/* -- tests -- */

static size_t stratum_of(const struct compare_work *w, uint32_t run, size_t place)
{
    return w->s.design == COMPARE_OF_RUNS   ? 0
           : w->s.design == COMPARE_OF_POOL ? w->s.runs[run].stratum
                                            : place;
}

/* Adds the values of these runs to their strata; with to == NULL they are only counted. */
static void strata_fill(const struct compare_work *w, const struct compare_sample *x,
                        const uint32_t *runs, size_t n, size_t *counts, double **to)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < x->width; k++) {
            double v = x->values[runs[i] * x->width + k];
            size_t stratum = stratum_of(w, runs[i], k);

            if (isnan(v)) {
                continue;
            }
            if (to) {
                to[stratum][counts[stratum]] = v;
            }
            counts[stratum]++;
        }
    }
}

struct side_of {
    size_t *counts;
    double **values;
};

static enum err strata_side(struct compare_work *w, const struct compare_sample *x,
                            const uint32_t *runs, size_t n, struct side_of *out)
{
    size_t strata = w->s.n_strata ? w->s.n_strata : 1;
    size_t values = n * x->width, at = 0;
    double *room = arena_array(&w->scratch, values ? values : 1, sizeof *room);

    out->counts = arena_array(&w->scratch, strata, sizeof *out->counts);
    out->values = arena_array(&w->scratch, strata, sizeof *out->values);
    if (!room || !out->counts || !out->values) {
        return no_room(&w->scratch);
    }
    strata_fill(w, x, runs, n, out->counts, NULL);
    for (size_t i = 0; i < strata; i++) {
        out->values[i] = room + at;
        at += out->counts[i];
        out->counts[i] = 0;
    }
    strata_fill(w, x, runs, n, out->counts, out->values);
    return ERR_OK;
}

enum err compare_sample_contrast(struct compare_work *w, const struct compare_sample *x,
                                 const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b,
                                 struct stat_u *out)
{
    size_t n = w->s.n_strata ? w->s.n_strata : 1;
    struct stat_u_stratum *strata = arena_array(&w->scratch, n, sizeof *strata);
    struct side_of of_a, of_b;
    enum err e = strata ? strata_side(w, x, a, n_a, &of_a) : no_room(&w->scratch);

    if (!e) {
        e = strata_side(w, x, b, n_b, &of_b);
    }
    for (size_t i = 0; i < n && !e; i++) {
        strata[i] =
            (struct stat_u_stratum){of_a.values[i], of_b.values[i], of_a.counts[i], of_b.counts[i]};
    }
    return e ? e : stat_u_test(out, strata, n, w->alpha);
}

enum err compare_sample_floor(struct compare_work *w, const struct compare_sample *x, double *floor)
{
    size_t size = w->n_history / COMPARE_FLOOR_RUNS, groups, found = 0;
    double largest = 0;
    enum err e = ERR_OK;

    *floor = NAN;
    groups = size ? w->n_history / size : 0;
    for (size_t g = 0; g + 1 < groups && !e; g++) {
        struct stat_u u;

        e = compare_sample_contrast(w, x, w->history + g * size, size, w->history + (g + 1) * size,
                                    size, &u);
        if (!e && u.pairs > 0) {
            largest = fmax(largest, fabs(u.effect));
            found++;
        }
    }
    if (!e && found + 1 >= COMPARE_FLOOR_RUNS) {
        *floor = largest;
    }
    return e;
}
