/* A tree of stacks for other programs: folded lines (flame graphs), speedscope's JSON, pprof's
 * profile (protobuf, not packed), and a page of HTML that shows a flame graph and a list by itself.
 * Frames of the tree are numbers of `names`, which steer no terminal (utf8_clean). Threads: one
 * owner. */
#ifndef PROCFLEET_AGENT_ETL_STACK_ETL_STACK_OUT_H
#define PROCFLEET_AGENT_ETL_STACK_ETL_STACK_OUT_H

#include <stdio.h>

#include "agent/etl/stack/etl_stack_tree.h"
#include "common/base/str.h"

struct etl_stack_out {
    FILE *to;
    const struct etl_stack_tree *tree;
    const struct str *names;
    size_t n_names;
    struct str title;          /* of the recording */
    const char *what;          /* of what: "samples", "allocations" */
    const char *unit;          /* of the weights: "count", "bytes", "nanoseconds" */
    int64_t start_ns, span_ns; /* UTC; of the recording */
};

/* `process;caller;callee weight`, a line for each node that has a weight of its own. */
void etl_stack_out_folded(const struct etl_stack_out *o);
/* `process;caller;callee before now`, as difffolded.pl makes it: `before` is another tree with the
 * same numbers of names. The tree takes in the nodes of `before`. Errors: ERR_NOMEM */
NODISCARD enum err etl_stack_out_difference(const struct etl_stack_out *o,
                                            struct etl_stack_tree *now,
                                            const struct etl_stack_tree *before);
/* Errors: ERR_NOMEM */
NODISCARD enum err etl_stack_out_speedscope(const struct etl_stack_out *o);
NODISCARD enum err etl_stack_out_pprof(const struct etl_stack_out *o);
NODISCARD enum err etl_stack_out_html(const struct etl_stack_out *o);

/* Names by how much ends there (self) and how much passes (total, recursion counted once). Both
 * have n_names elements, zeroed. Errors: ERR_NOMEM */
NODISCARD enum err etl_stack_out_sums(const struct etl_stack_tree *t, uint64_t *self,
                                      uint64_t *total);

#endif
