#include "common/lab/stat_u.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/lab/stat.h"

/* The null distribution of a stratum of N values, n of them b's, with tie groups of t1, t2, ...
 * values from the least up. Groups are placed one by one; a state is how many b's have been placed
 * and twice the U they make so far. Of the next group c may be b's, in C(t, c) ways: each is above
 * all a's placed before (2 each) and level with the t - c a's of its group (1 each). Counts are
 * doubles: exact to 2^53, relative beyond. Strata are independent, so their sum has the convolution
 * of their distributions. Everything is in half steps of U, which are whole numbers. */

/* What may be where: probabilities of 0 .. top half steps. */
struct dist {
    double *p;
    size_t top;
};

static int compare_doubles(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/* All values of a stratum in order, and where each group of ties ends. Returns the groups. */
static size_t tie_groups(double *all, size_t *ends, const struct stat_u_stratum *s)
{
    size_t n = s->n_a + s->n_b, groups = 0;

    memcpy(all, s->a, s->n_a * sizeof *all);
    memcpy(all + s->n_a, s->b, s->n_b * sizeof *all);
    qsort(all, n, sizeof *all, compare_doubles);
    for (size_t i = 1; i <= n; i++) {
        if (i == n || all[i] > all[i - 1]) {
            ends[groups++] = i;
        }
    }
    return groups;
}

static double choose(size_t n, size_t k)
{
    double r = 1;

    for (size_t i = 1; i <= k; i++) {
        r = r * (double)(n - k + i) / (double)i;
    }
    return floor(r + 0.5);
}

double stat_u_least(size_t n_a, size_t n_b)
{
    double p = 2 / choose(n_a + n_b, n_a < n_b ? n_a : n_b);

    return p < 1 ? p : 1;
}

/* The counts of a group of t values, `before` values in front of it, become those with it. */
static void place_group(double *to, const double *from, size_t before, size_t t,
                        const struct stat_u_stratum *s)
{
    size_t width = 2 * s->n_a * s->n_b + 1;

    memset(to, 0, (s->n_b + 1) * width * sizeof *to);
    for (size_t placed = 0; placed <= s->n_b && placed <= before; placed++) {
        size_t a_before = before - placed;

        for (size_t c = 0; c <= t && placed + c <= s->n_b && a_before <= s->n_a; c++) {
            size_t steps = 2 * c * a_before + c * (t - c);
            const double *row = from + placed * width;
            double *add = to + (placed + c) * width, ways;

            if (a_before + t - c > s->n_a) {
                continue;
            }
            ways = choose(t, c);
            for (size_t u = 0; u + steps < width; u++) {
                add[u + steps] += row[u] * ways;
            }
        }
    }
}

/* Errors: ERR_NOMEM */
static enum err stratum_dist(struct dist *out, const struct stat_u_stratum *s, const size_t *ends,
                             size_t groups)
{
    size_t width = 2 * s->n_a * s->n_b + 1, rows = s->n_b + 1, before = 0;
    double *from = mem_array(rows * width, sizeof *from), *to = mem_array(rows * width, sizeof *to);
    double total = choose(s->n_a + s->n_b, s->n_b);

    out->top = width - 1;
    out->p = mem_array(width, sizeof *out->p);
    if (!from || !to || !out->p) {
        mem_free(from);
        mem_free(to);
        mem_free(out->p);
        out->p = NULL;
        return ERR_NOMEM;
    }
    from[0] = 1;
    for (size_t g = 0; g < groups; g++) {
        double *swap = from;

        place_group(to, from, before, ends[g] - before, s);
        before = ends[g];
        from = to;
        to = swap;
    }
    for (size_t u = 0; u < width; u++) {
        out->p[u] = from[s->n_b * width + u] / total;
    }
    mem_free(from);
    mem_free(to);
    return ERR_OK;
}

/* *sum becomes the distribution of both together; *one is released. Errors: ERR_NOMEM */
static enum err dist_add(struct dist *sum, struct dist *one)
{
    double *p;

    if (!sum->p) {
        *sum = *one;
        return ERR_OK;
    }
    p = mem_array(sum->top + one->top + 1, sizeof *p);
    for (size_t i = 0; p && i <= sum->top; i++) {
        for (size_t k = 0; sum->p[i] > 0 && k <= one->top; k++) {
            p[i + k] += sum->p[i] * one->p[k];
        }
    }
    mem_free(one->p);
    if (!p) {
        return ERR_NOMEM;
    }
    mem_free(sum->p);
    sum->p = p;
    sum->top += one->top;
    return ERR_OK;
}

struct sums {
    struct dist dist;    /* exact */
    double variance;     /* of U, else */
    size_t half_steps;   /* of what was observed */
    double *differences; /* in order */
    size_t n_differences;
};

static void stratum_count(struct sums *x, const struct stat_u_stratum *s)
{
    for (size_t i = 0; i < s->n_a; i++) {
        for (size_t k = 0; k < s->n_b; k++) {
            double d = s->b[k] - s->a[i];

            x->half_steps += (size_t)(d > 0) * 2 + (size_t) !(d > 0 || d < 0);
            x->differences[x->n_differences++] = d;
        }
    }
}

static double stratum_variance(const struct stat_u_stratum *s, const size_t *ends, size_t groups)
{
    double n = (double)(s->n_a + s->n_b), ties = 0, t;

    for (size_t g = 0; g < groups; g++) {
        t = (double)(ends[g] - (g ? ends[g - 1] : 0));
        ties += t * t * t - t;
    }
    return (double)s->n_a * (double)s->n_b / 12 * (n + 1 - ties / (n * (n - 1)));
}

/* Errors: ERR_NOMEM */
static enum err stratum_add(struct sums *x, const struct stat_u_stratum *s, bool exact)
{
    size_t n = s->n_a + s->n_b, groups;
    double *all = mem_array(n, sizeof *all);
    size_t *ends = mem_array(n, sizeof *ends);
    struct dist one = {0};
    enum err e = all && ends ? ERR_OK : ERR_NOMEM;

    if (!e) {
        groups = tie_groups(all, ends, s);
        stratum_count(x, s);
        x->variance += stratum_variance(s, ends, groups);
        if (exact) {
            e = stratum_dist(&one, s, ends, groups);
        }
    }
    if (!e && exact) {
        e = dist_add(&x->dist, &one);
    }
    mem_free(all);
    mem_free(ends);
    return e;
}

/* Twice the smaller tail. */
static double exact_p(const struct sums *x)
{
    double low = 0, high = 0, least;

    for (size_t i = 0; i <= x->dist.top; i++) {
        low += i <= x->half_steps ? x->dist.p[i] : 0;
        high += i >= x->half_steps ? x->dist.p[i] : 0;
    }
    least = low < high ? low : high;
    return 2 * least < 1 ? 2 * least : 1;
}

static double normal_p(const struct sums *x)
{
    double off = fabs((double)x->half_steps - (double)x->n_differences) / 2 - 0.5; /* continuity */
    double p = off > 0 && x->variance > 0 ? 2 * stat_normal_tail(off / sqrt(x->variance)) : 1;

    return p < 1 ? p : 1;
}

/* U of fewer pairs than this is rejected - with `top`, of fewer less than there are: the shift at
 * which it becomes so is the difference of this number from one end, and ends the interval. 0: none
 * is. With ties the two ends differ. Rounding must not turn p = alpha into more. */
static size_t rejected(const struct sums *x, double alpha, bool exact, bool top)
{
    double sum = 0;
    size_t i = 0;

    if (!exact) {
        double at = (double)x->n_differences / 2 - 0.5 +
                    stat_normal_quantile(alpha / 2) * sqrt(x->variance);

        return at < 0 ? 0 : (size_t)at + 1;
    }
    while (i <= x->dist.top) {
        sum += x->dist.p[top ? x->dist.top - i : i];
        if (2 * sum > alpha * (1 + 1e-12)) {
            break;
        }
        i++;
    }
    return i == 0 ? 0 : (i - 1) / 2 + 1;
}

static void conclude(struct stat_u *out, const struct sums *x, double alpha, bool exact)
{
    size_t n = x->n_differences, above = rejected(x, alpha, exact, false),
           below = rejected(x, alpha, exact, true);
    const double *d = x->differences;

    out->u = (double)x->half_steps / 2;
    out->pairs = n;
    out->exact = exact;
    out->p = exact ? exact_p(x) : normal_p(x);
    out->effect = n % 2 ? d[n / 2] : d[n / 2 - 1] + (d[n / 2] - d[n / 2 - 1]) / 2;
    if (below > 0) {
        out->low = d[(below < n ? below : n) - 1];
    }
    if (above > 0) {
        out->high = d[n - (above < n ? above : n)];
    }
    out->low = out->low < out->effect ? out->low : out->effect; /* of nothing but ties */
    out->high = out->high > out->effect ? out->high : out->effect;
}

/* Whether the strata are small enough for the exact distribution; how many pairs they make. */
static bool strata_measure(struct stat_u *out, double *pairs, const struct stat_u_stratum *strata,
                           size_t n)
{
    bool exact = true;
    double ways = 1;

    *pairs = 0;
    for (size_t i = 0; i < n; i++) {
        const struct stat_u_stratum *s = &strata[i];

        if (s->n_a > 0 && s->n_b > 0) {
            *pairs += (double)s->n_a * (double)s->n_b;
            exact = exact && s->n_a + s->n_b <= STAT_U_EXACT_MAX;
            ways *= choose(s->n_a + s->n_b, s->n_a < s->n_b ? s->n_a : s->n_b);
        }
    }
    out->p_least = ways > 2 ? 2 / ways : 1;
    return exact && 2 * *pairs <= STAT_U_RANGE_MAX;
}

enum err stat_u_test(struct stat_u *out, const struct stat_u_stratum *strata, size_t n,
                     double alpha)
{
    struct sums x = {{NULL, 0}, 0, 0, NULL, 0};
    double pairs;
    bool exact;
    enum err e;

    assert(alpha > 0 && alpha < 1);
    *out = (struct stat_u){.p = 1, .low = -INFINITY, .high = INFINITY, .exact = true};
    exact = strata_measure(out, &pairs, strata, n);
    if (!(pairs > 0)) {
        return ERR_OK;
    }
    if (pairs > STAT_U_PAIRS_MAX) {
        return ERR_FULL;
    }
    x.differences = mem_array((size_t)pairs, sizeof *x.differences);
    e = x.differences ? ERR_OK : ERR_NOMEM;
    for (size_t i = 0; i < n && !e; i++) {
        if (strata[i].n_a > 0 && strata[i].n_b > 0) {
            e = stratum_add(&x, &strata[i], exact);
        }
    }
    if (!e) {
        qsort(x.differences, x.n_differences, sizeof *x.differences, compare_doubles);
        conclude(out, &x, alpha, exact);
    }
    mem_free(x.differences);
    mem_free(x.dist.p);
    return e;
}
