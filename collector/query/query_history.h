/* What every process asked for did in each step, read as History reads it, for a question that adds
 * it up. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_HISTORY_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_HISTORY_H

#include "collector/query/query_table.h"

/* The samples of one metric in one step. count 0: none, and nothing else holds. Of folded processes
 * those of all. */
struct query_spread {
    uint64_t count;
    int64_t sum, min, max;   /* of gauges: of their values */
    int64_t first_ns, first; /* the oldest sample, of counters maybe the one before the step */
};

/* One process in one step. Index i is the answer's metric i; cpu_percent stands for cpu_time. */
struct query_step {
    const struct query_span *span;
    const struct uuid *boot;       /* NULL: folded */
    const struct query_inst *inst; /* also one whose name was not asked for */
    uint32_t *tag;                 /* 0 at first; kept for the instance until its host is done */
    int64_t slot_ns;               /* start of the step, UTC */
    bool counted;                  /* it was among those of `sums` before */
    uint64_t grew;                 /* bit i: growth[i] holds */
    const int64_t *growth;         /* counters, since the sample before; cpu_percent: of what grew
                                      over a hole of more than a step, a step's share */
    const struct query_spread *spreads;
};

/* What the processes of each image and user did in a window inside one step. */
struct query_step_sums {
    const struct query_span *span;
    int64_t slot_ns; /* start of the step, UTC */
    const struct group_sums *sums;
};

/* The callbacks end the scan with a result other than ERR_OK, which is returned. */
struct query_history_steps {
    int64_t step_ns; /* above 0 */
    bool told;       /* of names those that tiers tell (query_table.h) */
    bool nameless;   /* nothing needs to be known of processes but who they are */
    bool unnamed;    /* with it: folded rows may come without names, all as one */
    bool hours;      /* whole hours inside a step may be sums, though rows are there */
    enum err (*each)(void *ctx, const struct query_step *step); /* by host and time, roughly */
    /* Where windows lie inside of steps, sums of all their processes may come, which name groups,
     * not processes; NULL: none. `undo` forgets what was given of the host: it comes again. */
    enum err (*sums)(void *ctx, const struct query_step_sums *sums);
    void (*undo)(void *ctx);
    enum err (*host_done)(void *ctx, const struct query_span *s);
    void *ctx;
};

/* Reads every span of a planned question, folded rows too.
 * Errors: ERR_TIMEOUT, ERR_FULL, ERR_NOMEM, what the callbacks return */
NODISCARD enum err query_history_steps(struct query *q, const struct query_history_steps *steps);

#endif
