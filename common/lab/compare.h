/* Whether runs b differ from runs a, and by how much: rules and figures of docs/lab.md. One engine
 * for diff, gate and reports, over run files alone.
 *
 * An observation is a quantity on a host in a run; a run's value is the mean of its hosts'
 * logarithms. Runs are what is repeated: they are exchanged with each other, in strata (stat_u.h).
 * There are three answers to a limit, and refusal is a fourth: what could be loss, another kind of
 * machine or another way of measuring is never called a change.
 * Bounds: COMPARE_RUNS_MAX runs, 256 MiB. Threads: any; no state but the result. */
#ifndef PROCFLEET_COMMON_LAB_COMPARE_H
#define PROCFLEET_COMMON_LAB_COMPARE_H

#include "common/lab/compare_types.h"

/* *out borrows the files, until compare_free.
 * Errors: ERR_INVALID (more runs, limits or metrics than there may be), ERR_FULL, ERR_NOMEM */
NODISCARD enum err compare_runs(struct compare **out, const struct compare_ask *ask);
void compare_free(struct compare *c); /* NULL is allowed */

/* Of a gate: 6 a regression, 5 no verdict on some limit or on all, 0 all ok. */
int compare_exit(const struct compare *c);

const char *compare_code_name(unsigned code); /* "coverage" */
const char *compare_says_name(unsigned says); /* "regression" */

#endif
