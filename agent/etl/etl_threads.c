/* `etl threads`: every thread of a recording: whose it was, when it lived, what it ran. */
#include <assert.h>
#include <stdlib.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_range.h"
#include "agent/process/u32map.h"
#include "common/base/arena.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/base/vec.h"

#define ETL_THREADS_MAX 131072
#define NAMES_MAX       (8u << 20) /* bytes */
#define CPUS            2048
#define NOBODY          UINT32_MAX

struct thread {
    const struct instance *owner; /* NULL: not known */
    const char *name;             /* borrowed from the arena, or NULL */
    uint32_t pid, tid;
    bool started, stopped;
    int64_t start_ns, stop_ns, run_ns;
    uint64_t samples, interrupted, switches;
};

struct running { /* on a CPU */
    int64_t since_ns;
    uint32_t thread; /* index, or NOBODY */
};

struct etl_threads {
    struct etl_job *job;
    struct etl_walk *walk;
    struct thread *all; /* grows */
    size_t n, cap;
    struct u32map *latest; /* tid → mark: index + 1 */
    struct arena names;
    uint64_t dropped, n_samples, n_switches;
    bool in_part;
    struct running cpus[CPUS];
};

/* -- the table -- */

static struct thread *thread_add(struct etl_threads *t, uint32_t tid)
{
    struct u32map_entry *e = NULL;

    if (VEC_ROOM(&t->all, &t->cap, t->n + 1, ETL_THREADS_MAX) == ERR_OK) {
        e = u32map_put(t->latest, tid);
    }
    if (!e) {
        t->dropped++;
        return NULL;
    }
    t->all[t->n] = (struct thread){.tid = tid, .pid = EVENT_NO_ID};
    e->owner = t; /* anything but NULL */
    e->mark = (uint32_t)++t->n;
    return &t->all[t->n - 1];
}

/* The thread that has this id now; a new one if none had it. */
static struct thread *thread_of(struct etl_threads *t, uint32_t tid)
{
    struct u32map_entry *e = u32map_get(t->latest, tid);
    struct thread *th = e ? &t->all[e->mark - 1] : thread_add(t, tid);

    if (th && !th->owner) {
        th->owner = instances_thread(t->walk->table, tid);
        th->pid = th->owner ? th->owner->info.id.pid : th->pid;
    }
    return th;
}

/* -- what happens -- */

static void name_thread(struct etl_threads *t, struct thread *th, struct str name)
{
    char *p;

    if (name.n == 0 || (th->name && str_eq(str_make(th->name), name))) {
        return;
    }
    p = arena_alloc(&t->names, name.n + 1);
    if (!p) {
        t->dropped++;
        return;
    }
    memcpy(p, name.p, name.n);
    th->name = p;
}

static void on_life(struct etl_threads *t, const struct event *ev)
{
    struct thread *th = thread_of(t, ev->u.thread.tid);
    bool again = th && th->stopped && ev->kind != EV_THREAD_STOP;

    if (!th || ((ev->kind == EV_THREAD_START || again) &&
                (th->started || th->stopped || th->pid != ev->u.thread.pid))) {
        th = th ? thread_add(t, ev->u.thread.tid) : NULL;
    }
    if (!th) {
        return;
    }
    th->pid = ev->u.thread.pid;
    th->owner = instances_thread(t->walk->table, ev->u.thread.tid);
    name_thread(t, th, ev->u.thread.name);
    if (ev->kind == EV_THREAD_START) {
        th->started = true;
        th->start_ns = ev->wall_ns;
    } else if (ev->kind == EV_THREAD_STOP) {
        th->stopped = true;
        th->stop_ns = ev->wall_ns;
    }
}

static void on_switch(struct etl_threads *t, const struct event *ev, bool meant)
{
    struct thread *in = thread_of(t, ev->u.cswitch.new_tid);
    struct running *cpu = ev->cpu < CPUS ? &t->cpus[ev->cpu] : NULL;

    t->n_switches += meant;
    if (in) {
        in->switches += meant;
    }
    if (!cpu) {
        t->dropped++;
        return;
    }
    if (cpu->thread != NOBODY && meant) {
        struct thread *out = &t->all[cpu->thread];

        assert(cpu->thread < t->n);
        out->run_ns = clk_add(out->run_ns, clk_sub(ev->wall_ns, cpu->since_ns));
    }
    *cpu = (struct running){ev->wall_ns, in ? (uint32_t)(in - t->all) : NOBODY};
}

static void on_sample(struct etl_threads *t, const struct event *ev)
{
    struct thread *th = thread_of(t, ev->u.sample.tid);

    t->n_samples++;
    if (th) {
        th->samples++;
        th->interrupted += ev->u.sample.interrupt;
    }
}

/* Who has a CPU counts from here on, at the end of a part until then. */
static void cut_runs(struct etl_threads *t, int64_t now_ns, bool count)
{
    for (size_t i = 0; i < CPUS; i++) {
        struct running *cpu = &t->cpus[i];

        if (cpu->thread != NOBODY && count && now_ns > cpu->since_ns) {
            struct thread *th = &t->all[cpu->thread];

            th->run_ns = clk_add(th->run_ns, clk_sub(now_ns, cpu->since_ns));
        }
        cpu->since_ns = now_ns;
    }
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    struct etl_threads *t = ctx;

    if (t->walk->in_part && !t->in_part) {
        t->in_part = true;
        cut_runs(t, t->walk->part_from_ns, false);
    }
    if (!r->ev) {
        return;
    }
    switch (r->ev->kind) {
    case EV_THREAD_START:
    case EV_THREAD_STOP:
    case EV_THREAD_FOUND:
    case EV_THREAD_LAST:
    case EV_THREAD_NAME:
        on_life(t, r->ev);
        break;
    case EV_CSWITCH:
        on_switch(t, r->ev, r->meant);
        break;
    case EV_CPU_SAMPLE:
        if (r->meant) {
            on_sample(t, r->ev);
        }
        break;
    default:
        break;
    }
}

/* What runs when something is lost has no known end. */
static void on_fact(void *ctx, const struct event *ev)
{
    struct etl_threads *t = ctx;

    if (ev->kind == EV_LOST) {
        for (size_t i = 0; i < CPUS; i++) {
            if (ev->u.lost.all_cpus || i == ev->cpu) {
                t->cpus[i].thread = NOBODY;
            }
        }
    }
}

/* -- printing -- */

enum {
    FILE_NAME,
    PID,
    TID,
    PROCESS,
    NAME,
    STARTED,
    ENDED,
    SAMPLES,
    INTERRUPTED,
    SWITCHES,
    RUN,
    COLUMNS,
};

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
    [PID] = {"pid", "PID", TABLE_ID},
    [TID] = {"tid", "TID", TABLE_ID},
    [PROCESS] = {"process", "PROCESS", TABLE_TEXT},
    [NAME] = {"name", "NAME", TABLE_TEXT},
    [STARTED] = {"start_time", "START", TABLE_TIME},
    [ENDED] = {"end_time", "END", TABLE_TIME},
    [SAMPLES] = {"samples", "SAMPLES", TABLE_COUNT},
    [INTERRUPTED] = {"samples_interrupt", NULL, TABLE_COUNT},
    [SWITCHES] = {"switches_in", "SWITCHES", TABLE_COUNT},
    [RUN] = {"run", "RUN", TABLE_NS},
};

/* Figures without any record of their kind are absent, not 0. */
static enum err thread_put(struct table *sheet, const char *file, const struct etl_threads *all,
                           const struct thread *t)
{
    struct table_cell cells[COLUMNS];
    struct str none = {"", 0};

    cells[FILE_NAME] = table_string(str_make(file));
    cells[PID] =
        table_number(t->pid != EVENT_NO_ID || t->tid == 0, t->pid == EVENT_NO_ID ? 0 : t->pid);
    cells[TID] = table_number(true, t->tid);
    cells[PROCESS] = table_string(t->owner ? t->owner->info.name : none);
    cells[NAME] = table_string(str_make(t->name));
    cells[STARTED] = table_number(t->started, t->start_ns);
    cells[ENDED] = table_number(t->stopped, t->stop_ns);
    cells[SAMPLES] = table_number(all->n_samples > 0, (int64_t)t->samples);
    cells[INTERRUPTED] = table_number(all->n_samples > 0, (int64_t)t->interrupted);
    cells[SWITCHES] = table_number(all->n_switches > 0, (int64_t)t->switches);
    cells[RUN] = table_number(all->n_switches > 0, t->run_ns);
    return table_row(sheet, cells);
}

static int by_pid(const void *pa, const void *pb)
{
    const struct thread *a = pa, *b = pb;

    if (a->pid != b->pid) {
        return a->pid < b->pid ? -1 : 1;
    }
    if (a->tid != b->tid) {
        return a->tid < b->tid ? -1 : 1;
    }
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* -- the command -- */

static void threads_destroy(struct etl_threads *t)
{
    arena_fini(&t->names);
    u32map_destroy(t->latest);
    mem_free(t->all);
    mem_free(t);
}

static enum err threads_create(struct etl_threads **out, struct etl_job *job)
{
    struct etl_threads *t = mem_zalloc(sizeof *t);
    enum err e;

    if (!t) {
        return ERR_NOMEM;
    }
    t->job = job;
    arena_init(&t->names, NAMES_MAX);
    for (size_t i = 0; i < CPUS; i++) {
        t->cpus[i].thread = NOBODY;
    }
    e = u32map_create(&t->latest, ETL_THREADS_MAX, NULL);
    if (e) {
        threads_destroy(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

/* An empty answer has a reason. */
static void note_empty(struct table *sheet, const char *name, const struct etl_threads *t)
{
    char text[300];

    if (t->n == 0) {
        (void)snprintf(text, sizeof text, "%.200s: no threads are recorded" ETL_JOB_PROVIDERS,
                       name);
    } else {
        (void)snprintf(text, sizeof text, "%.200s: none of %zu %s matches", name, t->n,
                       plural(t->n, "thread", "threads"));
    }
    table_note(sheet, str_make(text));
}

static bool thread_lived(const struct etl_threads *t, const struct thread *th)
{
    const struct etl_walk *w = t->walk;

    return !w->conf.part || (w->in_part && (!th->started || th->start_ns <= w->reached_ns) &&
                             (!th->stopped || th->stop_ns >= w->part_from_ns));
}

static enum err list_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_range *range = ctx;
    struct etl_threads *t;
    struct etl_walk_conf conf = {.progress = true, .record = on_record, .fact = on_fact};
    size_t shown = 0;
    enum err e = threads_create(&t, job);

    if (e) {
        return e;
    }
    conf.ctx = t;
    etl_range_limit(range, &conf);
    if (etl_job_open(job, part, &conf, &t->walk) == ERR_OK) {
        (void)etl_job_walk(job, t->walk);
        if (t->walk->behind_part) {
            cut_runs(t, t->walk->part_until_ns, true);
        }
        if (t->n) {
            qsort(t->all, t->n, sizeof *t->all, by_pid);
        }
        for (size_t i = 0; i < t->n && !e && etl_job_out_ok(job); i++) {
            if (etl_range_process(range, t->all[i].pid, t->all[i].owner) &&
                thread_lived(t, &t->all[i])) {
                e = thread_put(sheet, etl_job_part_name(job, part), t, &t->all[i]);
                shown++;
            }
        }
        if (shown == 0) {
            note_empty(sheet, etl_job_part_name(job, part), t);
        }
        if (t->dropped) {
            etl_job_note(sheet, etl_job_part_name(job, part),
                         "%llu records of threads or their names had no room",
                         (unsigned long long)t->dropped);
        }
        etl_walk_close(t->walk);
    }
    threads_destroy(t);
    return e;
}

static enum err threads_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"END", "START", "SAMPLES", "FILE", NULL};
    struct etl_range range = {.by_pid = false};
    enum err e = etl_range_parse(&range, job, why);
    const struct etl_job_list list = {columns, COLUMNS, yields, "the threads", list_part, &range};

    return e ? e : etl_job_rows(job, &list, why);
}

static const struct opt opts[] = {ETL_RANGE_OPTS, ETL_JOB_OPT_LIMIT, ETL_JOB_OPTS};

static const struct opt_command threads_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "threads",
    .brief = "list every thread of a recording: process, name, life, samples, time on a CPU",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl threads trace.etl\n"
                "  procfleet-etl threads trace.etl --pid 3676 --format csv\n",
};

const struct etl_command etl_threads_command = {&threads_opts, NULL, threads_run};
