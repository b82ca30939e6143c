/* Rows of `etl stacks`: by frame, what ended there and what passed it; with another recording, what
 * grew; or by stack tag. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_STACK_ROWS_H
#define PROCFLEET_AGENT_ETL_ETL_STACK_ROWS_H

#include "agent/etl/etl_job.h"
#include "agent/etl/etl_stack_names.h"
#include "agent/etl/etl_stack_tags.h"

struct etl_stack_base { /* the recording that another one is compared with */
    struct etl_stack_tree tree;
    uint64_t *self, *total, weight;
    size_t n; /* names that it has; 0: there is none */
};

struct etl_stack_rows {
    struct etl_job *job;
    const struct etl_stack_tree *tree; /* frames are names */
    const struct etl_stack_names *names;
    const struct etl_stack_base *base; /* or NULL */
    const struct etl_stack_tags *tags; /* or NULL */
    uint64_t weight, limit;            /* of all; rows at most */
};

/* Of one recording. Errors: ERR_NOMEM */
NODISCARD enum err etl_stack_rows_put(const struct etl_stack_rows *r, struct table *sheet,
                                      const char *file);

/* Of all, by `part`, as etl_job_rows. unit  of the weights */
NODISCARD enum err etl_stack_rows_all(struct etl_job *job, enum table_unit unit, bool compared,
                                      enum err (*part)(struct etl_job *job, size_t part,
                                                       struct table *sheet, void *ctx),
                                      void *ctx, struct errmsg *why);

#endif
