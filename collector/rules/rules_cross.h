/* Rules over several hosts: what each host has at a step is tallied, and judged when all hosts have
 * come to it. Private to the engine. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_CROSS_H
#define PROCFLEET_COLLECTOR_RULES_RULES_CROSS_H

#include "collector/rules/rules_types.h"

/* What one host has. key NULL: the rule as a whole on that host; truth EXPR_UNKNOWN then: whatever
 * it would be. values: of the rule's functions, or NULL. */
struct rules_vote {
    uint32_t rule;
    const char *key;
    uint64_t start;
    uint8_t truth;
    bool filling; /* its windows are not full yet */
    const long double *values;
    double coverage;
};
void rules_cross_vote(struct rules_judge *j, const struct rules_host *h, int64_t step_ns,
                      const struct rules_vote *vote);

/* The step is to be judged, whether some host has anything of it or not. */
void rules_cross_open(struct rules_judge *j, int64_t step_ns);

/* Judges every open step that all hosts have come to, which is step_ns. */
void rules_cross_close(struct rules_judge *j, int64_t step_ns);

/* There are no hosts any more: all that fires ends. */
void rules_cross_end(struct rules_judge *j, int64_t step_ns);

void rules_cross_free(struct rules_open *o);

#endif
