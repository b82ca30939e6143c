/* The one test of all comparisons: Mann and Whitney's, summed over strata, with its exact null
 * distribution; and the effect and interval that belong to it.
 *
 * A stratum holds values that could change places if a and b did not differ: runs on one host, for
 * example. U is the number of pairs of a stratum in which b is above a, ties one half, summed.
 * Under the null each choice of which values are b's is as likely as any other; ties are part of
 * it. The effect is the median of all differences b - a within strata (Hodges and Lehmann), and the
 * interval holds every shift that the test would not reject: without ties it excludes 0 exactly
 * when p <= alpha. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_LAB_STAT_U_H
#define PROCFLEET_COMMON_LAB_STAT_U_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

#define STAT_U_EXACT_MAX 100u       /* values of a stratum; above: normal, corrected for ties */
#define STAT_U_RANGE_MAX 40000u     /* twice the largest U; above: likewise */
#define STAT_U_PAIRS_MAX (4u << 20) /* of all strata */

struct stat_u_stratum {
    const double *a, *b;
    size_t n_a, n_b; /* a stratum with an empty side says nothing and is left out */
};

struct stat_u {
    double u;         /* pairs in which b is above a */
    size_t pairs;     /* the largest u there is */
    double p;         /* two-sided: twice the smaller tail, at most 1; 1 without pairs */
    double p_least;   /* the least that these numbers of values could have given, without ties */
    double effect;    /* 0 without pairs */
    double low, high; /* of 1 - alpha; infinite when so few values cannot bound it */
    bool exact;
};

/* Values must be finite. alpha  in (0, 1)
 * Errors: ERR_NOMEM, ERR_FULL (more than STAT_U_PAIRS_MAX pairs) */
NODISCARD enum err stat_u_test(struct stat_u *out, const struct stat_u_stratum *strata, size_t n,
                               double alpha);

/* 2 / C(n_a + n_b, n_a): the least p that so many values give, at most 1. */
double stat_u_least(size_t n_a, size_t n_b);

#endif
