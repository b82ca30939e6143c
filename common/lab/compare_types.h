/* What a comparison is asked and what it answers: plain data, see compare.h. */
#ifndef PROCFLEET_COMMON_LAB_COMPARE_TYPES_H
#define PROCFLEET_COMMON_LAB_COMPARE_TYPES_H

#include "common/lab/quantity.h"

#define COMPARE_RUNS_MAX    1024u
#define COMPARE_LIMITS_MAX  32u
#define COMPARE_METRICS_MAX 32u
#define COMPARE_FLOOR_RUNS  11u /* a noise floor takes ten differences of neighbours */
#define COMPARE_LEAST_RUNS  4u  /* of a side, in a gate */
#define COMPARE_ALPHA       0.05

enum compare_group_by {
    COMPARE_TOTALS,
    COMPARE_BY_IMAGE,
    COMPARE_BY_USER,
    COMPARE_BY_TREE,
    COMPARE_BY_HOST
};
enum compare_pair { COMPARE_PAIR_HOST, COMPARE_PAIR_CLASS };
enum compare_replicate { COMPARE_REPLICATE_RUN, COMPARE_REPLICATE_HOST };

struct compare_ask {
    const struct run_file *const *a, *const *b;
    size_t n_a, n_b;
    /* Of a's names, for the noise floor: by any order, a's runs among them or not. */
    const struct run_file *const *history;
    size_t n_history;
    uint8_t group_by; /* enum compare_group_by; of a limit's group: by image unless it is by user */
    uint8_t pair;     /* enum compare_pair */
    uint8_t replicate;  /* enum compare_replicate */
    bool overlap;       /* runs that met others count */
    bool assume_stable; /* no floor and not interleaved: believed all the same */
    bool failed;        /* runs that failed count */
    uint32_t looks;     /* how often this is asked while more runs come; 0 = 1 */
    size_t n_limits;    /* a gate; 0: a diff */
    const struct quantity_limit *limits;
    size_t n_metrics; /* of a diff; 0: duration, cpu_time, peak(private_bytes), bytes */
    const struct quantity *metrics;
    double same; /* of a diff: what is shown to be smaller is the same, a share; 0: none */
    const char *const *class_keys; /* NULL: host_class_default */
};

enum compare_says {
    COMPARE_SAYS_NOTHING, /* refused, see code */
    COMPARE_NOT_TESTED,   /* so few runs cannot carry more tests */
    COMPARE_MORE,
    COMPARE_LESS,
    COMPARE_NOT_SHOWN, /* a difference is not */
    COMPARE_SAME,
    COMPARE_REGRESSION,
    COMPARE_OK,
    COMPARE_UNDECIDED
};

/* Why something does not count; as words in JSON (compare_code_name). */
enum compare_code {
    COMPARE_FINE,
    COMPARE_NO_RUNS,
    COMPARE_FEW_RUNS,
    COMPARE_NOT_READY,
    COMPARE_FAILED,
    COMPARE_SHORT,
    COMPARE_ABSENT,
    COMPARE_COVERAGE,
    COMPARE_AT_MOST,
    COMPARE_OVERLAP,
    COMPARE_HOSTS,
    COMPARE_CLASS,
    COMPARE_CPU_ORIGIN,
    COMPARE_SOURCE,
    COMPARE_AGENT,
    COMPARE_RATE,
    COMPARE_DRIFT,
    COMPARE_FLOOR,
    COMPARE_NOT_MEASURED,
    COMPARE_CODES
};

struct compare_note {
    uint8_t code;    /* enum compare_code */
    bool refuses;    /* nothing is judged */
    struct str text; /* one sentence, with names as they came */
};

struct compare_row {
    struct quantity quantity;
    struct str group;
    bool of_group, relative, below, exact;
    bool zeros;                          /* zeros occur: 0.1 % of the median was added to all */
    uint8_t says, code;                  /* enum compare_says, compare_code */
    double a, b;                         /* medians of the runs' values, all hosts together */
    double a_low, a_high, b_low, b_high; /* their intervals of 95 %; may be infinite */
    double effect, low, high;            /* shares (0.081), or differences; of b against a */
    double p, q;
    double limit, floor;           /* NAN: none */
    uint32_t runs_wanted;          /* a side, more than there are; 0: none or not known */
    size_t n_a, n_b;               /* values in the test */
    const double *runs_a, *runs_b; /* by time; as many as compare_side.n_judged at most */
    size_t n_runs_a, n_runs_b;
};

struct compare_only { /* a group that only one side has */
    struct str group;
    bool in_b;
    size_t runs; /* of that side, that have it */
};

struct compare_fact { /* of the environment: differs between the sides */
    struct str key, a, b;
    size_t hosts;
};

struct compare_side {
    size_t n_given, n_judged, n_hosts;
    struct str class; /* of most hosts; empty: unknown */
    uint32_t ppm;     /* the least coverage among what was judged */
    uint64_t lost_events;
    const struct run_file *const *judged; /* by time */
};

struct compare {
    struct compare_side a, b;
    bool refused, interleaved, pool;
    size_t n_rows, n_notes, n_only, n_facts, n_hosts;
    struct compare_row *rows; /* in the order asked for; groups behind their total */
    struct compare_note *notes;
    const struct compare_only *only;
    const struct compare_fact *facts;
    size_t can_carry, made, floor_runs;
    struct arena memory;
};

#endif
