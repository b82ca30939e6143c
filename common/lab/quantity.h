/* What a comparison looks at, in words: "duration", "starts", "cpu_time", "peak(private_bytes)";
 * and the limits of a gate: QUANTITY [of "GROUP"] > LIMIT. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_LAB_QUANTITY_H
#define PROCFLEET_COMMON_LAB_QUANTITY_H

#include "common/base/buf.h"
#include "common/lab/run_file.h"

#define QUANTITY_TEXT 64u

enum quantity_of {
    QUANTITY_DURATION, /* of the run */
    QUANTITY_PROCESSES,
    QUANTITY_STARTS,
    QUANTITY_ENDS,
    QUANTITY_FAILED,
    QUANTITY_CRASHES,
    QUANTITY_TOTAL, /* of a counter: its name alone */
    QUANTITY_PEAK,  /* of a gauge: the peak of the sum of all processes */
    QUANTITY_AVG,   /* the mean of that sum */
    QUANTITY_MAX,   /* the peak of a single process */
};

struct quantity {
    uint8_t of;     /* enum quantity_of */
    uint8_t metric; /* from QUANTITY_TOTAL on */
};

/* Errors: ERR_USAGE (why says what is meant, perhaps) */
NODISCARD enum err quantity_parse(struct quantity *out, struct str text, struct errmsg *why);
const char *quantity_name(char text[QUANTITY_TEXT], struct quantity q);
enum metric_unit quantity_unit(struct quantity q);

static inline bool quantity_eq(struct quantity a, struct quantity b)
{
    return a.of == b.of && a.metric == b.metric;
}

/* "cpu_time > 5%", "peak(private_bytes) of \"cc1\" > 10%", "starts > 10", "read_bytes < -5%". */
struct quantity_limit {
    struct quantity quantity;
    bool of_group;
    struct str group; /* borrowed from the text */
    bool below;       /* "<": it is the loss that is looked for, and value is what it may be */
    bool relative;    /* value is a share: 0.05; else a difference in the quantity's unit */
    double value;     /* of a rise; of a fall too, without its sign: at least 0 */
};

/* Errors: ERR_USAGE (why names the place) */
NODISCARD enum err quantity_limit_parse(struct quantity_limit *out, struct str text,
                                        struct errmsg *why);

/* What a row has of it; false: it was not measured there. Not of QUANTITY_DURATION. */
bool quantity_of_row(double *value, const struct run_file *f, const struct run_row *row,
                     struct quantity q);

#endif
