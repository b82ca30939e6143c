/* Hosts that are unlike the rest of their class, as answers carry them: one for each row, and what
 * is known of the classes. Plain data, coded in wire_answer.c. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_OUTLIERS_H
#define PROCFLEET_COMMON_WIRE_WIRE_OUTLIERS_H

#include "common/base/str.h"

#define WIRE_OUTLIER_CLASSES 4096u
#define WIRE_OUTLIER_PARTS   6u

struct wire_outlier_class {
    struct str name;     /* in words */
    struct str image;    /* by image: this; else empty */
    uint32_t hosts;      /* that were judged */
    uint32_t not_judged; /* for want of data */
    int64_t median;      /* in the unit of the rows' value */
    uint32_t spread_ppm; /* usual distance from it */
};

struct wire_outlier {
    uint32_t class;       /* index */
    uint32_t times_milli; /* of the median */
    int32_t z_milli;      /* spreads from it; below 0: less */
    uint8_t parts;        /* of WIRE_OUTLIER_PARTS that say the same */
    struct str most;      /* image that most of it is of; empty: not known */
    int64_t most_value;
    struct str differs; /* in what the host is unlike most of its class, in words */
};

struct wire_outliers {
    size_t n_classes;
    const struct wire_outlier_class *classes;
    const struct wire_outlier *rows; /* one for each of the answer's */
};

#endif
