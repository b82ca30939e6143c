/* Which runs and hosts of a comparison count, and why the others do not; which of them can change
 * places. Only for compare.c. Threads: one; all memory is the result's. */
#ifndef PROCFLEET_COMMON_LAB_COMPARE_SIDES_H
#define PROCFLEET_COMMON_LAB_COMPARE_SIDES_H

#include "common/lab/compare_types.h"

enum { COMPARE_SIDE_A = 1, COMPARE_SIDE_B = 2, COMPARE_SIDE_HISTORY = 4 };

enum compare_design {
    COMPARE_OF_RUNS,  /* all runs on the same hosts: one stratum, a value a run */
    COMPARE_OF_POOL,  /* each run on one host: strata are hosts or classes */
    COMPARE_OF_HOSTS, /* each host in each run is a value, strata are hosts */
};

struct compare_sides_host { /* in a run */
    uint32_t number;        /* in compare_sides.hosts */
    bool leaves;
    uint64_t class_hash; /* 0: unknown */
};

struct compare_sides_run {
    const struct run_file *f;
    unsigned given;                   /* bits */
    unsigned side;                    /* what is left of them; 0: it does not count at all */
    bool counts;                      /* with the present limit */
    bool tree;                        /* only the rows of its tree are it */
    uint32_t stratum;                 /* of a pool */
    struct compare_sides_host *hosts; /* as the file has them */
    uint32_t *at;    /* of each of the numbers: index into hosts + 1, 0: not there or it left */
    uint32_t *group; /* of each row: index into groups + 1, 0: none */
};

struct compare_sides {
    const struct compare_ask *ask;
    struct compare *c;
    size_t n_runs, n_hosts, n_groups, n_used, n_strata;
    struct compare_sides_run *runs; /* by time; a's and b's and the history's */
    struct str *hosts;              /* names, by number */
    struct str *groups;
    bool *in_use;    /* by number: the host is compared */
    uint32_t *first; /* of each host, or stratum of a pool: the run in which it is first, + 1 */
    enum compare_design design;
    bool rates_differ;
    bool lenient; /* nothing can be judged: what is there is shown all the same */
};

/* Puts runs, hosts and groups in order. Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err compare_sides_open(struct compare_sides *out, struct compare *c,
                                      const struct compare_ask *ask);

/* Chooses what counts for a limit, a share; 0: without one. Notes say what does not; c->refused is
 * set if nothing can be judged. Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err compare_sides_choose(struct compare_sides *s, double limit);

/* A note; the same one is not made twice. Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err compare_sides_note(struct compare *c, enum compare_code code, bool refuses,
                                      const char *fmt, ...) PRINTF_LIKE(4, 5);

#endif
