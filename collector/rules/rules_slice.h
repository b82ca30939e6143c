/* Samples of some ticks of one step into the windows of all subjects they concern. Private to the
 * engine. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_SLICE_H
#define PROCFLEET_COLLECTOR_RULES_RULES_SLICE_H

#include "collector/rules/rules_types.h"

#define RULES_SLICE_TICKS 64u /* at once */

/* Where the values of each run are, and which instance it is; in j->scratch until it is reset. */
struct rules_runs {
    const struct batch *rows;
    size_t first, n_runs;   /* those that meet the ticks */
    const int64_t **values; /* of each run, by metric; NULL: it has none */
    uint32_t *insts;
    const uint32_t *at; /* runs of the batch */
};

/* For ticks [tick, tick + n) of the rows. Errors: ERR_NOMEM, ERR_FULL */
NODISCARD enum err rules_slice_runs(struct rules_judge *j, struct rules_host *h,
                                    const struct batch *rows, size_t tick, size_t n,
                                    struct rules_runs *out);

/* Ticks [tick, tick + n) of the rows, all of the step that is open; dt_ns: the time before each
 * that it speaks of, which is less than real_ns behind a gap. Errors: ERR_NOMEM, ERR_FULL */
NODISCARD enum err rules_slice_take(struct rules_judge *j, struct rules_host *h,
                                    const struct rules_runs *runs, size_t tick, size_t n,
                                    const int64_t *dt_ns, const int64_t *real_ns, int64_t step_ns);

#endif
