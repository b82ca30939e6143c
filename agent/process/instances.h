/* Who is who over time: process instances by (pid, start), the current owner of a pid, and the
 * instance a thread id belongs to. Pids and tids are reused, and records of other CPUs arrive late:
 * an instance stays findable for `grace_ns` after its end, then what still names it has no owner.
 * An unknown number has no owner either; nothing is guessed.
 * Bounds:  instances, threads and bytes of text: struct instances_conf; what has no room is
 *          counted.
 * Cost:    look-ups by pid and tid are one probe of an open-addressed table; nothing is allocated
 *          per event, only per new instance and when its texts change.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_PROCESS_INSTANCES_H
#define PROCFLEET_AGENT_PROCESS_INSTANCES_H

#include "agent/process/counters.h"
#include "agent/process/u32map.h"
#include "common/base/err.h"
#include "common/model/model.h"

#define INSTANCES_SAME_PID_MAX 1024 /* instances of one pid, chained */

struct instances;

struct instances_conf {
    size_t instances_max; /* running ones and those in their grace together */
    size_t threads_max;
    size_t text_max; /* bytes of all names and command lines */
    int64_t grace_ns;
    bool keep; /* instances whose grace is over stay to be listed; no number finds them any more */
};

/* One process instance. `info` and `info_version` are written by instances.c only; `life` belongs
 * to lifecycle.c, `tally` and `count` to aggregate.c, `row` to sampler.c and `who` to pipeline.c.
 * What every event touches stands first, together. */
struct instance {
    uint32_t generation; /* of this slot; a stale reference differs */
    bool changed;        /* counters moved since its last row */
    struct counters tally;

    struct proc_info info;
    uint32_t info_version;        /* grows with every change of info */
    uint32_t threads;             /* alive, as far as records said */
    int64_t end_mono_ns;          /* when info.have has INFO_EXITED */
    struct instance *older;       /* previous instance of the same pid */
    struct instance *next, *prev; /* running ones, or ended ones in order of their end */

    struct {
        bool from_start;       /* began under our eyes: its counters began at zero */
        bool named;            /* told of by its id: the id stays what it is */
        bool exact;            /* its creation is what the system says, not when a record came */
        uint64_t exact_start;  /* its start is that, though its id says otherwise; 0 = as the id */
        int64_t first_wall_ns; /* of the first that was heard of it, */
        int64_t first_mono_ns; /* which no clock that is set moves */
        bool new_row;          /* first heard of in a table that was not the first one */
        uint8_t start_half;    /* which providers' records of its start, */
        uint8_t stop_half;     /* and of its end, have come: lifecycle.c */
        bool start_held;       /* told when the other provider's record is here; */
        bool stop_held;        /* until then the instance is not forgotten */
        uint32_t table_seq;    /* the last table that listed it, */
        uint64_t row_version;  /* and info_version of that row */
        int64_t start_due_ns;  /* monotonic: how long its start event is waited for; 0 = not */
        int64_t stop_due_ns;   /* same for its stop event */
        int64_t stop_wall_ns;  /* while waiting: upper bound of the end */
    } life;

    struct {
        metric_mask mask;         /* columns defined in values */
        metric_mask given;        /* columns a table or exit totals have ever filled */
        uint64_t samples_waiting; /* plain samples before the sampling interval is known */
        uint64_t sampled_ns;      /* the others, in time */
        bool in_table;            /* the newest table had a row for it */
        bool run_adds;            /* until the next table switches add to cpu_time: */
        bool clr_heap_known;
        int64_t clr_heap;      /* bytes after the last collection */
        int64_t table_cpu_ns;  /* what the newest one said, */
        uint64_t table_run_ns; /* and COUNTERS_RUN at that moment */
        struct {
            bool known, priorities, io_priorities; /* whether there are any; whether they differ */
            uint8_t priority, io_priority;
            uint64_t affinity; /* of any of them */
        } threads;             /* what records say of its threads */
        int64_t values[METRIC_COLS];
    } count;

    struct {
        bool shown;      /* a row has been made */
        bool first_done; /* a row with counters has been made */
        bool final_done; /* the row after its end has been made */
    } row;

    struct {
        uint32_t info_version; /* what the answer rests on, */
        uint32_t asked;        /* and which filter gave it; 0 = not asked yet */
        bool hidden;           /* nothing of it is reported */
    } who;
};

struct instances_stats {
    uint64_t instances; /* ever added */
    uint64_t forgotten; /* of them, by now */
    uint64_t reused;    /* pid taken over by a new instance */
    uint64_t full;      /* instances refused */
    uint64_t threads_full;
    uint64_t text_full; /* texts left out */
    uint64_t nomem;
    size_t running, ended; /* now */
};

NODISCARD enum err instances_create(struct instances **out, const struct instances_conf *conf);
void instances_destroy(struct instances *t);
const struct instances_stats *instances_stats(const struct instances *t);

/* Adds a running instance, copies `info` and makes it the owner of its pid; the previous owner, if
 * any, stays findable by id and by its threads. The caller has made sure that info->id is new.
 * Errors: ERR_FULL, ERR_NOMEM (both counted): the pid belongs to nobody until the next one */
NODISCARD enum err instances_add(struct instances *t, const struct proc_info *info,
                                 struct instance **out);

/* False: no further instance of the pid has room; as when instances_add fails. */
bool instances_room(struct instances *t, uint32_t pid);

/* A start that no instance of the pid has: id.start itself, or one closely behind it. */
uint64_t instances_free_start(const struct instances *t, struct proc_id id);

/* NULL when there is none. */
struct instance *instances_find(const struct instances *t, struct proc_id id);
struct instance *instances_owner(const struct instances *t,
                                 uint32_t pid); /* newest, ended ones too */

/* Takes over what `info` knows and p does not, and newer texts; parent and creation time are never
 * overwritten. Bits of info->have outside the exit's are added. */
void instances_update(struct instances *t, struct instance *p, const struct proc_info *info);

/* The exact moment of its creation, instead of the provisional one. Its id follows, unless that has
 * been used (life.named) or is taken. */
void instances_set_created(struct instances *t, struct instance *p, uint64_t start,
                           int64_t create_ns);
void instances_set_origin(struct instance *p, enum proc_origin origin);
void instances_set_cpu_origin(struct instance *p, enum cpu_origin origin);

/* Ends p: exit time, code and flags come from `end`, whose have bits say which are known.
 * instances_revive takes back an end that was inferred wrongly. */
void instances_end(struct instances *t, struct instance *p, const struct proc_info *end,
                   int64_t mono_ns);
void instances_revive(struct instances *t, struct instance *p);

static inline bool instances_ended(const struct instance *p)
{
    return (p->info.have & INFO_EXITED) != 0;
}

/* Threads. Start makes tid belong to p from now on, whoever had it before. */
NODISCARD enum err instances_thread_start(struct instances *t, uint32_t tid, struct instance *p);
void instances_thread_stop(struct instances *t, uint32_t tid);
void instances_thread_leave(struct instances *t, uint32_t tid);             /* it is nobody's now */
struct instance *instances_thread(const struct instances *t, uint32_t tid); /* NULL: no owner */

/* The table of threads, for whoever looks one up per event: u32map_find, then instances_entry_dead.
 * `state` and `since_ns` of an entry belong to sched.c; a thread's start makes them 0. */
const struct u32map *instances_threads(const struct instances *t);

static inline bool instances_entry_dead(const struct u32map_entry *e)
{
    return ((const struct instance *)e->owner)->generation != e->generation;
}

/* Forgets instances whose grace is over and whose final row has been made; with conf.keep they only
 * lose their numbers. O(1) when none is. */
void instances_expire(struct instances *t, int64_t mono_ns);

/* Before that moment instances_expire does nothing, unless another one ends. */
int64_t instances_due_ns(const struct instances *t);

/* Iteration: first running or ended instance; the rest through ->next. Ending or adding during the
 * walk is not allowed; take ->next before instances_end of the instance in hand. */
struct instance *instances_first_running(const struct instances *t);
struct instance *instances_first_ended(const struct instances *t);

#endif
