/* Small statistics that ask nothing of how values are distributed: order statistics, robust spread
 * and slope, corrections for many tests; and the normal distribution. Values must be finite.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_LAB_STAT_H
#define PROCFLEET_COMMON_LAB_STAT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

void stat_sort(double *values, size_t n);           /* ascending */
double stat_median(const double *sorted, size_t n); /* NAN of none */

/* The interval of order statistics that holds the median with at least this confidence, whatever
 * the distribution; above 1,000 values about so. False: too few; low and high are infinite then. */
bool stat_median_interval(double *low, double *high, const double *sorted, size_t n,
                          double confidence);

/* The median of distances from the median, times 1.4826: of normal values the standard deviation.
 * `room` is for n values. */
double stat_mad(const double *sorted, size_t n, double *room);

/* The median of the slopes between all pairs of n >= 2 points, at most 2,048; pairs with the same x
 * count for nothing. NAN without any. Errors: ERR_NOMEM */
NODISCARD enum err stat_theil_sen(double *slope, const double *x, const double *y, size_t n);

/* Benjamini and Hochberg: q[i] is the share of false ones to expect among all whose q is not
 * larger. q may be p. `order` is room for n indices. */
void stat_bh(double *q, const double *p, size_t n, size_t *order);

double stat_normal_tail(double z);     /* above z */
double stat_normal_quantile(double p); /* below which p is; p in (0, 1) */

#endif
