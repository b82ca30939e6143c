/* A process's threads lie in one piece, in the order of the answer, and the system keeps that
 * order: the thread looked for in the last table is nearly always the next one. A thread is its
 * number and time of creation: numbers are used again. Who is not found any more has ended and
 * leaves his switches to the process. */
#include "agent/source/windows/snap_threads.h"

#include "agent/source/windows/snap_memory.h"
#include "agent/source/windows/snap_wide.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

struct thread {
    uint64_t created, time;
    uint64_t switches; /* in all; the low 32 bits are the last value read */
    uint32_t tid;
    bool found; /* in the table after its own */
};

struct process {
    uint64_t ended;    /* switches of threads that have ended */
    uint32_t table;    /* that holds them */
    uint32_t first, n; /* threads */
    bool whole;        /* all threads of the last table are there */
    bool lost;         /* some were left out once */
};

struct side {
    struct thread *threads;
    size_t n, cap;
};

struct snap_threads {
    struct snap_memory *processes;
    struct side last, now;
    uint32_t table;
    bool counted; /* the system counts switches of threads */
    uint64_t capped;
};

enum err snap_threads_create(struct snap_threads **out, size_t processes_max)
{
    struct snap_threads *t = mem_zalloc(sizeof *t);
    enum err e;

    if (!t) {
        return ERR_NOMEM;
    }
    e = snap_memory_create(&t->processes, sizeof(struct process), processes_max);
    if (e) {
        snap_threads_destroy(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

void snap_threads_destroy(struct snap_threads *t)
{
    if (t) {
        snap_memory_destroy(t->processes);
        mem_free(t->last.threads);
        mem_free(t->now.threads);
        mem_free(t);
    }
}

uint64_t snap_threads_capped(const struct snap_threads *t)
{
    return t->capped;
}

uint64_t snap_threads_probe(struct snap_threads *t, const struct snap_walk *own)
{
    t->counted = false;
    for (size_t i = 0; i < own->n_threads && !t->counted; i++) {
        struct snap_thread th;

        snap_rows_thread(own, i, &th);
        t->counted = th.switches > 0;
    }
    return METRIC_BIT(M_ACTIVE_THREADS) | (t->counted ? METRIC_BIT(M_CONTEXT_SWITCHES) : 0);
}

void snap_threads_begin(struct snap_threads *t)
{
    struct side oldest = t->last;

    t->last = t->now;
    t->now = oldest;
    t->now.n = 0;
    t->table++;
    snap_memory_begin(t->processes);
}

static bool make_room(struct side *s, size_t n)
{
    return n <= SNAP_THREADS_MAX &&
           VEC_ROOM(&s->threads, &s->cap, s->n + n, SNAP_THREADS_ALL_MAX) == ERR_OK;
}

/* The thread among the n of the last table, NULL: it is new. `hint` is where to begin. */
static struct thread *find(struct thread *threads, size_t n, const struct snap_thread *th,
                           size_t *hint)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = *hint + i < n ? *hint + i : *hint + i - n;
        struct thread *before = &threads[at];

        if (before->tid == th->tid && before->created == th->created && !before->found) {
            before->found = true;
            *hint = at + 1 < n ? at + 1 : 0;
            return before;
        }
    }
    return NULL;
}

/* Reads the threads behind those of now; gives how many of them ran, and adds their switches. */
static uint64_t read_threads(struct snap_threads *t, const struct snap_walk *w,
                             const struct process *p, uint64_t *switches)
{
    struct thread *before = t->last.threads ? t->last.threads + p->first : NULL;
    uint64_t active = 0;
    size_t hint = 0;

    for (size_t i = 0; i < w->n_threads; i++) {
        const struct thread *old;
        struct snap_thread th;
        struct thread new;

        snap_rows_thread(w, i, &th);
        old = find(before, p->n, &th, &hint);
        new = (struct thread){.created = th.created,
                              .time = th.time,
                              .switches = snap_widen(old ? old->switches : 0, th.switches),
                              .tid = th.tid};
        active += new.time > (old ? old->time : 0) || new.switches > (old ? old->switches : 0);
        *switches += new.switches;
        t->now.threads[t->now.n++] = new;
    }
    return active;
}

static uint64_t of_ended(const struct snap_threads *t, const struct process *p)
{
    uint64_t switches = 0;

    for (size_t i = 0; i < p->n; i++) {
        const struct thread *th = &t->last.threads[p->first + i];

        switches += th->found ? 0 : th->switches;
    }
    return switches;
}

static void put(struct snap_row *row, unsigned column, uint64_t value)
{
    row->mask |= METRIC_BIT(column);
    row->values[column] = value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

void snap_threads_row(struct snap_threads *t, const struct snap_walk *w, struct snap_row *row)
{
    struct process *p = snap_memory_at(t->processes, row->info.id);
    uint64_t switches = 0, active;
    size_t first = t->now.n;

    if (p && p->table == t->table) {
        return; /* twice in one answer */
    }
    if (!p || !make_room(&t->now, w->n_threads)) {
        t->capped++;
        if (p) {
            *p = (struct process){.table = t->table, .lost = true};
        }
        return;
    }
    active = read_threads(t, w, p, &switches);
    p->ended += of_ended(t, p);
    if (p->whole) {
        put(row, M_ACTIVE_THREADS, active);
    }
    if (t->counted && !p->lost && !(row->mask & METRIC_BIT(M_CONTEXT_SWITCHES))) {
        put(row, M_CONTEXT_SWITCHES, switches + p->ended);
    }
    p->table = t->table;
    p->first = (uint32_t)first;
    p->n = (uint32_t)w->n_threads;
    p->whole = true;
}
