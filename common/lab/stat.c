#include "common/lab/stat.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/mem.h"

#define INTERVAL_EXACT_MAX 1000u /* 2^-n is a double up to there */
#define SLOPES_MAX         2048u

static int compare_doubles(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

void stat_sort(double *values, size_t n)
{
    if (n > 1) {
        qsort(values, n, sizeof *values, compare_doubles);
    }
}

double stat_median(const double *sorted, size_t n)
{
    if (n == 0) {
        return NAN;
    }
    return n % 2 ? sorted[n / 2] : sorted[n / 2 - 1] + (sorted[n / 2] - sorted[n / 2 - 1]) / 2;
}

/* The largest k for which fewer than k of n values lie below the median with a chance of at most
 * `tail`: the k-th from either end bounds it. 0: none. */
static size_t median_rank(size_t n, double tail)
{
    double term = ldexp(1, -(int)n), sum = 0;
    size_t k = 0;

    if (n > INTERVAL_EXACT_MAX) {
        double at = (double)n / 2 + stat_normal_quantile(tail) * sqrt((double)n) / 2;

        return at < 0 ? 0 : (size_t)at;
    }
    while (2 * k < n && sum + term <= tail) {
        sum += term;
        term = term * (double)(n - k) / (double)(k + 1);
        k++;
    }
    return k;
}

bool stat_median_interval(double *low, double *high, const double *sorted, size_t n,
                          double confidence)
{
    size_t k = n < 2 ? 0 : median_rank(n, (1 - confidence) / 2);

    *low = k ? sorted[k - 1] : -INFINITY;
    *high = k ? sorted[n - k] : INFINITY;
    return k > 0;
}

double stat_mad(const double *sorted, size_t n, double *room)
{
    double median = stat_median(sorted, n);

    for (size_t i = 0; i < n; i++) {
        room[i] = fabs(sorted[i] - median);
    }
    stat_sort(room, n);
    return 1.4826022185056018 * stat_median(room, n);
}

enum err stat_theil_sen(double *slope, const double *x, const double *y, size_t n)
{
    size_t count = 0;
    double *slopes;

    assert(n >= 2 && n <= SLOPES_MAX);
    slopes = mem_array(n * (n - 1) / 2, sizeof *slopes);
    if (!slopes) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++) {
            if (x[k] > x[i] || x[k] < x[i]) {
                slopes[count++] = (y[k] - y[i]) / (x[k] - x[i]);
            }
        }
    }
    stat_sort(slopes, count);
    *slope = stat_median(slopes, count);
    mem_free(slopes);
    return ERR_OK;
}

void stat_bh(double *q, const double *p, size_t n, size_t *order)
{
    double least = 1;

    for (size_t i = 0; i < n; i++) { /* n is small: what a comparison can carry */
        size_t at = i;

        for (; at > 0 && p[order[at - 1]] > p[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    for (size_t rank = n; rank > 0; rank--) {
        double v = p[order[rank - 1]] * (double)n / (double)rank;

        least = v < least ? v : least;
        q[order[rank - 1]] = least;
    }
}

/* -- the normal distribution -- */

double stat_normal_tail(double z)
{
    return erfc(z / sqrt(2)) / 2;
}

/* A rational start that is right to three digits (Abramowitz and Stegun 26.2.23), then Newton's
 * steps on the tail itself. */
double stat_normal_quantile(double p)
{
    double tail = p < 0.5 ? p : 1 - p, t, z;

    assert(p > 0 && p < 1);
    t = sqrt(-2 * log(tail));
    z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (int i = 0; i < 4; i++) {
        double density = exp(-z * z / 2) / 2.5066282746310002;

        z += density > 0 ? (stat_normal_tail(z) - tail) / density : 0;
    }
    return p < 0.5 ? -z : z;
}
