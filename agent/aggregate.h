/* From events and tables to counters per process. The counters stand in the process table
 * (ptable_proc.count) and only grow; gauges are what was read last.
 *   plain CPU samples × sampling interval → cpu_time, origin samples (an interrupt's is nobody's)
 *   thread events                         → thread_count, where they show every thread
 *   table rows                            → their columns; kernel + user → cpu_time, origin times
 *   exact totals at exit                  → replace running counters when larger
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_AGGREGATE_H
#define PROCFLEET_AGENT_AGGREGATE_H

#include "agent/event.h"
#include "agent/lifecycle.h"
#include "agent/ptable.h"
#include "agent/source.h"
#include "agent/tally.h"

struct aggregate;

struct aggregate_stats {
    uint64_t events;            /* in, without those handed over early */
    uint64_t samples;           /* plain ones, attributed */
    uint64_t samples_interrupt; /* a DPC or ISR ran */
    uint64_t unattributed;      /* plain samples without owner */
    uint64_t stepped_back;      /* a source's counter was lower than before: kept */
};

/* table and life are borrowed. Errors: ERR_NOMEM */
NODISCARD enum err aggregate_create(struct aggregate **out, struct ptable *table,
                                    struct lifecycle *life);
void aggregate_destroy(struct aggregate *a);
const struct aggregate_stats *aggregate_stats(const struct aggregate *a);

/* Gives the instance the event was charged to; NULL when it is nobody's or nobody's business. */
struct ptable_proc *aggregate_event(struct aggregate *a, const struct event *ev);

/* What was charged to nobody because its owner is unknown. */
const struct tally *aggregate_unattributed(const struct aggregate *a);
void aggregate_table(struct aggregate *a, const struct snapshot *snap);

/* Columns that never go back: counters, and peaks. */
uint64_t aggregate_growing(const struct aggregate *a);

/* Brings the derived columns of p up to date; the sampler calls it before it makes a row. */
void aggregate_settle(const struct aggregate *a, struct ptable_proc *p);

#endif
