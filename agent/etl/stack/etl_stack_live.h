/* What was allocated and is not freed: ranges of addresses, each with a weight of the join that is
 * told later (etl_stack_join_later). Ranges do not overlap: of a place that is allocated again, as
 * when memory that was reserved is committed, the newer allocation has it. Freeing a part of a
 * range leaves the others.
 * Bounds:  ETL_STACK_LIVE_MAX ranges; one that has no room is counted and told as freed.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_STACK_ETL_STACK_LIVE_H
#define PROCFLEET_AGENT_ETL_STACK_ETL_STACK_LIVE_H

#include "agent/etl/stack/etl_stack_join.h"

#define ETL_STACK_LIVE_MAX 262144

struct etl_stack_live;

/* join  borrowed. Errors: ERR_NOMEM */
NODISCARD enum err etl_stack_live_create(struct etl_stack_live **out, struct etl_stack_join *join);
void etl_stack_live_destroy(struct etl_stack_live *l); /* NULL is allowed; weights are not told */

/* [base, base + n) of an address space is allocated; `later` is taken over. */
void etl_stack_live_put(struct etl_stack_live *l, uint64_t space, uint64_t base, uint64_t n,
                        uint32_t later);
void etl_stack_live_free(struct etl_stack_live *l, uint64_t space, uint64_t base, uint64_t n);

/* The end: the weights of all that is left are told. Gives their sum. */
uint64_t etl_stack_live_end(struct etl_stack_live *l);
uint64_t etl_stack_live_no_room(const struct etl_stack_live *l);

#endif
