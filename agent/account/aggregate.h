/* From events and tables to counters per process: tallies (instance.tally) of everything that is
 * attributed, and metrics (instance.count), which only grow; gauges are what was read last.
 *   context switches                      → run, ready and wait time: sched.h
 *   plain CPU samples × sampling interval → time (an interrupt's sample is counted apart)
 *   thread events                         → thread_count, where they show every thread
 *   disk requests                         → disk bytes, by issuer: the thread the record names;
 *                                            version 2: who was running at the request's init
 *                                            event, matched by IRP
 *   table rows                            → their columns; kernel + user → cpu_time
 *   exact totals at exit                  → replace running counters when larger
 * cpu_time has one origin per instance, the best that is known when it is first settled: times,
 * else context switches, else samples; it stays what it is. Where it is times and switches are
 * recorded too, what has run since the newest table is added to what that table said, so that it
 * moves between tables; the next table starts anew. Times are charged by the clock's tick, so the
 * table may say less than was shown: then it stands until the table has caught up. hard_faults and
 * page_faults come from tables and exit totals where there are any; else hard_faults is how many
 * were recorded, which is another measure: one process has one of the two. What events feed is a
 * column only while their group is recorded (EV_GROUPS; without such a fact, once an event of the
 * group has come). Who is charged: the process or thread the payload names; else the one the
 * record's header names; else who has the CPU, as context switches say; else nobody: counted as
 * unattributed. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ACCOUNT_AGGREGATE_H
#define PROCFLEET_AGENT_ACCOUNT_AGGREGATE_H

#include "agent/account/sched.h"
#include "agent/account/shed.h"
#include "agent/process/counters.h"
#include "agent/process/instances.h"
#include "agent/process/lifecycle.h"
#include "agent/source/event.h"
#include "agent/source/source.h"

struct aggregate;
struct event_switch;

struct aggregate_stats {
    uint64_t events;                    /* in, without those handed over early */
    uint64_t charged;                   /* of them, to a process */
    uint64_t samples;                   /* plain ones, attributed */
    uint64_t samples_interrupt;         /* a DPC or ISR ran */
    uint64_t unattributed;              /* plain samples without owner */
    uint64_t stepped_back;              /* a source's counter was lower than before: kept */
    uint64_t lost_marks;                /* EV_LOST */
    uint64_t disk_unmatched;            /* requests of version 2 whose init event is missing */
    uint64_t irps_dropped;              /* init events for which there was no room */
    uint64_t groups[SOURCE_SHED_COUNT]; /* events of those that may be left out */
    struct sched_stats sched;
};

/* table and life are borrowed. Errors: ERR_NOMEM */
NODISCARD enum err aggregate_create(struct aggregate **out, struct instances *table,
                                    struct lifecycle *life);
void aggregate_destroy(struct aggregate *a);
/* Switches are counted by sched.c and added here. Nothing falls, nor events without charged. Valid
 * until the next call. */
const struct aggregate_stats *aggregate_stats(struct aggregate *a);

/* Gives the instance the event was charged to; NULL when it is nobody's or nobody's business. Of a
 * context switch: that of the thread put on. */
struct instance *aggregate_event(struct aggregate *a, const struct event *ev);

/* The same for EV_CSWITCH and EV_READY that are not early, one after the other. */
void aggregate_switches(struct aggregate *a, const struct event_switch *run, size_t n);

/* EV_GROUPS: which groups (enum event_group) are recorded from here on. */
void aggregate_groups(struct aggregate *a, uint32_t groups);

/* What was charged to nobody because its owner is unknown. */
const struct counters *aggregate_unattributed(const struct aggregate *a);
void aggregate_table(struct aggregate *a, const struct snapshot *snap);

/* Columns that never go back: counters, and peaks. */
metric_mask aggregate_growing(const struct aggregate *a);

/* Before a tick between two tables at that moment: who has a CPU is charged until now. */
void aggregate_now(struct aggregate *a, int64_t mono_ns);

/* What is cut by time, on a CPU, waiting or ready, counts until this moment, and anew from it on.
 * With `drop` what was counted until now is dropped, of everybody; what is counted at its end (a
 * disk request, a pause) counts as a whole. Totals that records give of a whole life do not count
 * then: they would say what was before. For a source without tables. */
void aggregate_cut(struct aggregate *a, int64_t mono_ns, bool drop);

/* cpu_time of p has moved since the newest table, by switches. */
bool aggregate_cpu_moves(const struct instance *p);

/* Brings the columns of p that events feed up to date: before a row is made, and before anybody
 * reads p->count. */
void aggregate_settle(const struct aggregate *a, struct instance *p);

#endif
