/* The values of one quantity of one group in all runs, and the test between runs of them. Only for
 * compare.c. Threads: one; memory is the scratch arena's. */
#ifndef PROCFLEET_COMMON_LAB_COMPARE_SAMPLE_H
#define PROCFLEET_COMMON_LAB_COMPARE_SAMPLE_H

#include "common/lab/compare_sides.h"
#include "common/lab/stat_u.h"

struct compare_work {
    const struct compare_ask *ask;
    struct compare *c;
    struct compare_sides s;
    struct arena scratch; /* of one row */
    double alpha;
    uint32_t *a, *b, *history; /* runs that count, by time */
    size_t n_a, n_b, n_history;
};

/* Values of one row: of each run, `width` of them, NAN where there is none. */
struct compare_sample {
    struct quantity q;
    uint32_t group; /* + 1; 0: everything */
    bool relative, turned, zeros;
    size_t width;
    double *values;  /* what is tested */
    double *natural; /* of each run: all its hosts together, in the quantity's unit */
};

/* Errors of all: ERR_FULL, ERR_NOMEM */
NODISCARD enum err compare_sample_make(struct compare_work *w, struct compare_sample *x);

/* Between these runs of a and of b. */
NODISCARD enum err compare_sample_contrast(struct compare_work *w, const struct compare_sample *x,
                                           const uint32_t *a, size_t n_a, const uint32_t *b,
                                           size_t n_b, struct stat_u *out);

/* The largest absolute effect between neighbours of the history, in the values' terms; NAN: there
 * are too few. */
NODISCARD enum err compare_sample_floor(struct compare_work *w, const struct compare_sample *x,
                                        double *floor);

#endif
