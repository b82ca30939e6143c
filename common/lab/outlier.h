/* Hosts that are unlike the rest of their class in one quantity: by the median and the spread of
 * logarithms, in the whole range and again in most of its parts, so that a single peak is none.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_LAB_OUTLIER_H
#define PROCFLEET_COMMON_LAB_OUTLIER_H

#include <stdbool.h>
#include <stddef.h>

#define OUTLIER_PARTS     6u
#define OUTLIER_PARTS_OUT 4u /* so many must say the same */
#define OUTLIER_HOSTS_MIN 8u /* of a class; of fewer none is judged */
#define OUTLIER_TIMES     1.5
#define OUTLIER_SPREAD    0.05 /* a smaller one counts as this, a share of the median */

struct outlier {
    /* in: not negative; in a part NAN where nothing was measured */
    double value, parts[OUTLIER_PARTS];
    /* out */
    double times;       /* of the median */
    double z;           /* how many spreads from it; below 0: less */
    unsigned parts_out; /* that say the same */
    bool is_one;
};

struct outlier_class {
    double median;
    double spread; /* usual distance from it, a share: 0.14 is ±14 % */
    bool judged;   /* there are enough hosts, and half of them have more than nothing */
};

/* Judges n hosts of one class.
 * tests  hosts that are judged in one answer, n at least: one of 20 answers about hosts that are
 *        all alike may have a false one
 * room   for 2 n values */
void outlier_judge(struct outlier_class *out, struct outlier *list, size_t n, size_t tests,
                   double *room);

#endif
