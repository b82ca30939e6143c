/* What the events (lifecycle.c), the tables (lifecycle_table.c), the waiting for the other
 * provider's record (lifecycle_hold.c) and the telling (lifecycle_tell.c) share. */
#ifndef PROCFLEET_AGENT_PROCESS_LIFECYCLE_IMPL_H
#define PROCFLEET_AGENT_PROCESS_LIFECYCLE_IMPL_H

#include "agent/process/idmap.h"
#include "agent/process/lifecycle.h"
#include "common/base/clk.h"

#define LIFECYCLE_NEVER INT64_MAX

/* btime of a Linux system is known to the second only, and so is what creation times rest on. */
#define LIFECYCLE_CREATE_SLACK_NS (2 * CLK_S)

/* Stamps of records and times of creation come from two clocks of the system. */
#define LIFECYCLE_SKEW_NS (50 * CLK_MS)

/* Two providers' records of one moment are so far apart. */
#define LIFECYCLE_JITTER_NS (5 * CLK_MS)

#define LIFECYCLE_HOLD_MAX 1024

/* Providers that tell of starts and ends; ptable_proc.life.start_half and .stop_half are sets. */
enum { LIFECYCLE_CLASSIC = 1, LIFECYCLE_MANIFEST = 2, LIFECYCLE_BOTH = 3 };

/* What is known of an instance once it has ended. */
#define LIFECYCLE_EXIT_BITS                                                          \
    ((uint32_t)(INFO_EXIT_TIME | INFO_EXIT_CODE | INFO_EXITED | INFO_EXIT_INFERRED | \
                INFO_FINAL_TOTALS))

/* A start or end that waits for the record of the other provider. */
struct lifecycle_held {
    struct ptable_proc *p;
    uint32_t generation;      /* of p when it was put here */
    uint8_t kind;             /* enum life_kind: LIFE_PROCESS_START, LIFE_PROCESS_STOP */
    int64_t wall_ns, mono_ns; /* of the record that came first */
};

struct lifecycle_hold {
    struct lifecycle_held items[LIFECYCLE_HOLD_MAX];
    size_t first, n;
};

struct lifecycle {
    struct lifecycle_conf conf;
    uint8_t halves;             /* which have been heard of */
    struct lifecycle_hold hold; /* told when the other half is here */
    struct idmap *early_pids, *early_tids;
    bool early;          /* the pass over the whole recording is under way */
    bool thread_rundown; /* thread records of the rundown have been seen */
    uint32_t table_seq;
    int64_t first_table_wall_ns;
    int64_t due_ns; /* the earliest of all start_due_ns and stop_due_ns */
    struct lifecycle_stats stats;
};

static inline bool lifecycle_both_speak(const struct lifecycle *l)
{
    return l->halves == LIFECYCLE_BOTH;
}

/* ---- lifecycle_tell.c ---- */

void lifecycle_tell_start(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                          int64_t mono_ns);
void lifecycle_tell_end(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                        int64_t mono_ns);

/* An inferred start is told with its creation time where that is known. */
void lifecycle_tell_inferred(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                             int64_t mono_ns);

/* ---- lifecycle.c ---- */

/* Ends the instance and tells it. */
void lifecycle_infer_stop(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                          int64_t mono_ns);

/* Adds the instance; whoever owned the pid until now has ended unseen. NULL: no room, counted. */
struct ptable_proc *lifecycle_add(struct lifecycle *l, const struct proc_info *info,
                                  enum proc_origin origin, int64_t wall_ns, int64_t mono_ns);

/* ---- lifecycle_match.c ---- */

/* The instance of that id, or of that exact start. */
struct ptable_proc *lifecycle_find(const struct lifecycle *l, struct proc_id id);

/* From now on its creation is exact; its id follows if nobody has been told of it. */
void lifecycle_adopt(struct lifecycle *l, struct ptable_proc *p, const struct proc_info *info);

/* The instance whose start was told of by a table or the other provider; `exact` = info's. */
struct ptable_proc *lifecycle_same_start(const struct lifecycle *l, const struct proc_info *info,
                                         uint8_t half, bool exact);

/* The instance an exact manifest record means: by identity, or the one whose creation is not known
 * exactly and fits best. */
struct ptable_proc *lifecycle_meant(const struct lifecycle *l, const struct proc_info *info);

/* The instance a row of a table means that nobody has by its id: the owner of the pid, or one that
 * has ended and is listed still. */
struct ptable_proc *lifecycle_of_row(const struct lifecycle *l, const struct proc_info *info);

/* The instance whose end a record without id tells of. */
struct ptable_proc *lifecycle_stopped(const struct lifecycle *l, const struct event *ev);

/* ---- lifecycle_hold.c ---- */

/* Has the start or end of p wait; when there is no room the first of all is told. */
void lifecycle_hold_begin(struct lifecycle *l, struct ptable_proc *p, enum life_kind kind,
                          const struct event *ev);

/* The other half is here, or nothing more will come: tells it, if it waits. */
void lifecycle_hold_end(struct lifecycle *l, struct ptable_proc *p, enum life_kind kind);

/* Tells what has waited since mono_ns or longer. */
void lifecycle_hold_until(struct lifecycle *l, int64_t mono_ns);

/* Since when the first of all has waited; LIFECYCLE_NEVER: nobody does. */
int64_t lifecycle_hold_next(const struct lifecycle *l);

#endif
