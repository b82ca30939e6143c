/* What the events (lifecycle.c), the tables (lifecycle_table.c) and the waiting for the other
 * provider's record (lifecycle_hold.c) share. */
#ifndef PROCFLEET_AGENT_LIFECYCLE_IMPL_H
#define PROCFLEET_AGENT_LIFECYCLE_IMPL_H

#include "agent/idmap.h"
#include "agent/lifecycle.h"
#include "common/clk.h"

#define LIFECYCLE_NEVER INT64_MAX

/* btime of a Linux system is known to the second only, and so is what creation times rest on. */
#define LIFECYCLE_CREATE_SLACK_NS (2 * CLK_S)

#define LIFECYCLE_HOLD_MAX 1024

/* Providers that tell of starts and ends; ptable_proc.life.start_half and .stop_half are sets. */
enum { LIFECYCLE_CLASSIC = 1, LIFECYCLE_MANIFEST = 2, LIFECYCLE_BOTH = 3 };

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

/* ---- lifecycle.c ---- */

void lifecycle_tell_start(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                          int64_t mono_ns);
void lifecycle_tell_end(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                        int64_t mono_ns);

/* An inferred start is told with its creation time where that is known. */
void lifecycle_tell_inferred(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                             int64_t mono_ns);

/* Ends the instance and tells it. */
void lifecycle_infer_stop(struct lifecycle *l, struct ptable_proc *p, int64_t wall_ns,
                          int64_t mono_ns);

/* Adds the instance; whoever owned the pid until now has ended unseen. NULL: no room, counted. */
struct ptable_proc *lifecycle_add(struct lifecycle *l, const struct proc_info *info,
                                  enum proc_origin origin, int64_t wall_ns, int64_t mono_ns);

/* ---- lifecycle_hold.c ---- */

/* Has the start or end of p wait; when there is no room the first of all is told. */
void lifecycle_hold_begin(struct lifecycle *l, struct ptable_proc *p, enum life_kind kind,
                          const struct event *ev);

/* The other half is here, or nothing more will come: tells it, if it waits. */
void lifecycle_hold_end(struct lifecycle *l, struct ptable_proc *p, enum life_kind kind);

/* Tells what has waited since mono_ns or longer. */
void lifecycle_hold_until(struct lifecycle *l, int64_t mono_ns);

#endif
