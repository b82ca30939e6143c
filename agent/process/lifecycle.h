/* Starts and stops, each told exactly once, whichever way they became known: by an event, by the
 * rundown of a recording, or by comparing two process tables. Keeps the process table up to date
 * on the way, so that whoever asks instances.h next gets the instance of that moment.
 *
 *   event START                         told as it comes; origin start
 *                                       (also of one whom the first table showed already)
 *   event STOP                          told as it comes, with exit code and time where known
 *   START and STOP where two providers  told once, when both records are here, with everything
 *   speak (classic and manifest)        known of both, at the time of the first; each alone after
 *                                       LIFECYCLE_WAIT_NS, counted as unpaired. Halves of a start
 *                                       are joined by pid and time of creation, less than
 *                                       LIFECYCLE_WAIT_NS apart and no end between
 *   a kernel record of a start          has no time of creation: the first exact one, of a table or
 *                                       of the other provider, LIFECYCLE_WAIT_NS apart at most, is
 *                                       the same process's, and is told with its next row; the id
 *                                       follows while nobody has been told of it
 *   found by a recording's rundown,     not told: it did not start here; origin rundown
 *   or in the agent's first table       origin snapshot
 *   new in a later table                told as start, origin inferred; where start events exist,
 *                                       only after they had LIFECYCLE_WAIT_NS to come
 *   missing in a complete table         told as stop with INFO_EXIT_INFERRED: its time is an upper
 *                                       bound; where stop events exist, after the same wait
 *   pid taken over by another instance  the old one is told as stopped, inferred
 *
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_PROCESS_LIFECYCLE_H
#define PROCFLEET_AGENT_PROCESS_LIFECYCLE_H

#include "agent/process/instances.h"
#include "agent/process/lifecycle_match.h"
#include "agent/source/event.h"
#include "agent/source/source.h"

struct lifecycle;

struct lifecycle_conf {
    struct instances *table; /* borrowed */
    bool polled;             /* the source has no start and stop events: nothing to wait for;
                             lifecycle_set_polled changes it */
    void (*told)(void *ctx, const struct life_event *ev); /* texts are borrowed during the call */
    void *ctx;
};

struct lifecycle_stats {
    uint64_t starts, stops; /* process events told */
    uint64_t inferred_starts, inferred_stops;
    uint64_t repeated; /* start or stop events of what had started or stopped already */
    uint64_t unpaired; /* told without the other provider's record */
    uint64_t revived;  /* a stop was inferred too early */
    uint64_t no_owner; /* records of a process or thread that is not known, not known yet, or whose
                          grace after the exit is over */
    uint64_t defunct;  /* ended before the recording */
};

/* Errors: ERR_NOMEM */
NODISCARD enum err lifecycle_create(struct lifecycle **out, const struct lifecycle_conf *conf);
void lifecycle_destroy(struct lifecycle *l);
const struct lifecycle_stats *lifecycle_stats(const struct lifecycle *l);

/* From now on: whether events tell of starts and ends. What is waited for already is told when its
 * time is over. */
void lifecycle_set_polled(struct lifecycle *l, bool polled);

/* A process, thread or image event; others are ignored. Gives the instance it is about, NULL when
 * that is unknown and of early events. */
struct instance *lifecycle_event(struct lifecycle *l, const struct event *ev);

/* A table: begin, every row, end. lifecycle_row gives the row's instance, NULL when the table of
 * instances is full. */
void lifecycle_table_begin(struct lifecycle *l, const struct snapshot *snap);
struct instance *lifecycle_row(struct lifecycle *l, const struct snapshot *snap,
                               const struct snap_row *row);
void lifecycle_table_end(struct lifecycle *l, const struct snapshot *snap);

/* Time has come this far: what was waited for in vain is told as inferred. O(1) when nothing is
 * due. */
void lifecycle_advance(struct lifecycle *l, int64_t wall_ns, int64_t mono_ns);

/* Before that moment lifecycle_advance does nothing, unless another event or table comes. */
int64_t lifecycle_due_ns(const struct lifecycle *l);

/* The end of the stream: what waits for another record is told as it is. */
void lifecycle_finish(struct lifecycle *l);

/* The process of that number at the moment of `ev`: NULL and counted when there is none. Where
 * nothing tells of processes, neither records nor tables, the number is all there is: its first
 * record makes an instance. */
struct instance *lifecycle_process(struct lifecycle *l, uint32_t pid, const struct event *ev);

/* Whose time a thread spent at the moment of `ev`: NULL and counted when nobody's. tid 0 is the
 * idle process, known or not. */
struct instance *lifecycle_thread_owner(struct lifecycle *l, uint32_t tid, const struct event *ev);

/* Whether thread records have shown every thread that is alive, so that counts of them are true. */
bool lifecycle_threads_known(const struct lifecycle *l, const struct instance *p);

#endif
