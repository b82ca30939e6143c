/* Random schedules, written as trace files, read and added up by the agent's whole path, against
 * the truth of whoever made them. Pids and tids are reused as soon as they are free, the rundown
 * stands at either end or at both, buffers and events are lost.
 *
 * A world keeps what every CPU did as a list of switches and loss marks; what a lost buffer held is
 * taken out again. The truth follows from these lists by the rules of sched.h: the time between two
 * neighbouring switches belongs to the thread put on at the first, and is lost where a mark stands
 * between them. Stamps become ns each by itself, rounded down. */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/agent/account/trace_reader.h"
#include "tests/support/draw.h"
#include "tests/support/etl_session.h"
#include "tests/support/support.h"

enum { CPUS = 6, IDS = 24, TIDS = 96, INSTANCES = 4000, STEPS = 2500, NOTES = 8000, SEEDS = 400 };

struct made {
    uint32_t pid, threads;
    bool dead;
    uint64_t in, run_ns, lost_ns;
};

struct thread {
    uint32_t tid;
    size_t process; /* index of its instance */
    int cpu;        /* where it runs, or -1 */
    bool alive, rundown;
};

/* A switch, or a loss mark (mark true). Threads are told by the instances they belong to: a tid may
 * have another owner later. */
struct note {
    int64_t ticks;
    bool mark;
    size_t old_process, new_process;
};

struct world {
    uint64_t random;
    struct etl_session file;
    int64_t now;
    uint32_t cpus;
    bool late_rundown, loses;
    struct made instances[INSTANCES]; /* 0 is idle */
    size_t n_instances;
    struct thread threads[TIDS]; /* by number; tid = 100 + 4 * number */
    size_t running[CPUS];        /* thread, or TIDS: idle */
    int64_t life_at[CPUS];       /* the open buffer that holds a record of life began then */
    bool lost[CPUS];             /* a mark is due with the CPU's next record */
    struct note notes[CPUS][NOTES];
    size_t n_notes[CPUS];
    uint64_t marks;
};

/* -- writing -- */

static void note(struct world *w, uint16_t cpu, struct note n)
{
    assert_true(w->n_notes[cpu] < NOTES);
    w->notes[cpu][w->n_notes[cpu]++] = n;
}

/* Time passes; a record of this CPU follows. */
static void tick(struct world *w, uint16_t cpu)
{
    w->now += 4 + draw(&w->random, 1 << draw(&w->random, 14));
    if (w->lost[cpu]) {
        w->lost[cpu] = false;
        w->marks++;
        note(w, cpu, (struct note){.ticks = w->now, .mark = true});
    }
}

static void told_of_life(struct world *w, uint16_t cpu)
{
    w->life_at[cpu] = etl_session_open_since(&w->file, cpu);
}

static void tell_process(struct world *w, enum etl_life life, size_t process)
{
    uint16_t cpu = (uint16_t)draw(&w->random, w->cpus);

    tick(w, cpu);
    etl_session_process(&w->file, cpu, life, w->now, w->instances[process].pid, 4, "app.exe");
    told_of_life(w, cpu);
}

static void tell_thread(struct world *w, enum etl_life life, const struct thread *t)
{
    uint16_t cpu = (uint16_t)draw(&w->random, w->cpus);

    tick(w, cpu);
    etl_session_thread(&w->file, cpu, life, w->now, w->instances[t->process].pid, t->tid);
    told_of_life(w, cpu);
}

static uint32_t tid_of(const struct world *w, size_t thread)
{
    return thread == TIDS ? 0 : w->threads[thread].tid;
}

static size_t process_of(const struct world *w, size_t thread)
{
    return thread == TIDS ? 0 : w->threads[thread].process;
}

static void switch_to(struct world *w, uint16_t cpu, size_t next)
{
    size_t last = w->running[cpu];

    if (next == last) {
        return;
    }
    tick(w, cpu);
    etl_session_switch(&w->file, cpu, w->now, tid_of(w, next), tid_of(w, last));
    note(w, cpu, (struct note){w->now, false, process_of(w, last), process_of(w, next)});
    w->running[cpu] = next;
    if (last != TIDS) {
        w->threads[last].cpu = -1;
    }
    if (next != TIDS) {
        w->threads[next].cpu = cpu;
    }
}

/* -- life -- */

static size_t free_thread(const struct world *w)
{
    for (size_t i = 0; i < TIDS; i++) {
        if (!w->threads[i].alive && w->threads[i].cpu < 0) {
            return i;
        }
    }
    return TIDS;
}

static void begin_thread(struct world *w, size_t process, bool told)
{
    size_t i = free_thread(w);

    if (i == TIDS) {
        return;
    }
    w->threads[i] =
        (struct thread){.tid = 100 + 4 * (uint32_t)i, .process = process, .cpu = -1, .alive = true};
    w->instances[process].threads++;
    if (told) {
        tell_thread(w, ETL_START, &w->threads[i]);
    }
}

static bool pid_taken(const struct world *w, uint32_t pid)
{
    for (size_t i = 0; i < w->n_instances; i++) {
        if (w->instances[i].pid == pid && !w->instances[i].dead) {
            return true;
        }
    }
    return false;
}

static void begin_process(struct world *w, bool told)
{
    uint32_t pid = 8 + 4 * draw(&w->random, IDS);
    size_t process = w->n_instances;

    if (pid_taken(w, pid) || free_thread(w) == TIDS || process == INSTANCES) {
        return;
    }
    w->instances[w->n_instances++] = (struct made){.pid = pid};
    if (told) {
        tell_process(w, ETL_START, process);
    }
    begin_thread(w, process, told);
}

/* A thread ends on its CPU if it has one, and the process with its last; then it goes off. */
static void end_thread(struct world *w, size_t i)
{
    struct thread *t = &w->threads[i];
    struct made *p = &w->instances[t->process];

    tell_thread(w, ETL_END, t);
    t->alive = false;
    if (--p->threads == 0) {
        tell_process(w, ETL_END, t->process);
        p->dead = true;
    }
    if (t->cpu >= 0) {
        switch_to(w, (uint16_t)t->cpu, TIDS);
    }
}

/* -- loss -- */

/* The open buffer, unless it tells of life: who is who would be lost with it. */
static void lose_buffer(struct world *w, uint16_t cpu)
{
    int64_t since = etl_session_open_since(&w->file, cpu);

    if (since == INT64_MAX || since == w->life_at[cpu]) {
        return;
    }
    while (w->n_notes[cpu] && w->notes[cpu][w->n_notes[cpu] - 1].ticks >= since) {
        w->n_notes[cpu]--;
        w->marks -= w->notes[cpu][w->n_notes[cpu]].mark;
    }
    assert_true(etl_session_lose_buffer(&w->file, cpu) > 0);
    w->lost[cpu] = true;
}

static void lose_something(struct world *w)
{
    uint16_t cpu = (uint16_t)draw(&w->random, w->cpus);

    if (draw(&w->random, 3)) {
        lose_buffer(w, cpu);
    } else {
        etl_session_lose_events(&w->file, cpu, 1);
        w->lost[cpu] = true;
    }
}

/* -- a recording -- */

static void step(struct world *w)
{
    uint32_t what = draw(&w->random, 1000);
    uint16_t cpu = (uint16_t)draw(&w->random, w->cpus);
    size_t thread = draw(&w->random, TIDS);

    if (what < 20) {
        begin_process(w, true);
    } else if (what < 60 && w->threads[thread].alive) {
        begin_thread(w, w->threads[thread].process, true);
    } else if (what < 120 && w->threads[thread].alive) {
        end_thread(w, thread);
    } else if (what < 180 && w->threads[thread].alive) {
        tick(w, cpu);
        etl_session_ready(&w->file, cpu, w->now, w->threads[thread].tid);
    } else if (what < 195 && w->loses) {
        lose_something(w);
    } else if (what < 350) {
        switch_to(w, cpu, TIDS);
    } else if (w->threads[thread].alive && w->threads[thread].cpu < 0) {
        switch_to(w, cpu, thread);
    }
}

static void rundown(struct world *w, enum etl_life life)
{
    for (size_t i = 1; i < w->n_instances; i++) {
        if (!w->instances[i].dead) {
            tell_process(w, life, i);
        }
    }
    for (size_t i = 0; i < TIDS; i++) {
        if (w->threads[i].alive) {
            tell_thread(w, life, &w->threads[i]);
        }
    }
}

static struct etl_session_conf shape_of(struct world *w, uint32_t seed)
{
    /* Ticks of whole ns, and of others; cycles of a CPU. */
    static const uint64_t frequencies[] = {10000000, 1000000000, 3117777, 2338525, 1818300};
    struct etl_session_conf conf = etl_session_defaults();

    conf.file.cpus = w->cpus;
    conf.file.buffer_size = 1024u << draw(&w->random, 4);
    conf.file.frequency = frequencies[seed % COUNT_OF(frequencies)];
    conf.file.pointer_size = draw(&w->random, 2) ? 8 : 4;
    conf.compress = draw(&w->random, 2) == 1;
    if (seed % 6 == 5) {
        conf.file.clock = 3;
        conf.file.cpu_mhz = 3100;
    }
    return conf;
}

static void world_make(struct world *w, const char *path, uint32_t seed,
                       struct etl_session_conf *conf)
{
    uint32_t rundowns;

    memset(w, 0, sizeof *w);
    w->random = seed;
    w->cpus = 1 + draw(&w->random, CPUS);
    w->loses = seed % 2 == 1;
    rundowns = draw(&w->random, 3);
    w->n_instances = 1;
    for (size_t i = 0; i < TIDS; i++) {
        w->threads[i].cpu = -1;
    }
    for (size_t i = 0; i < CPUS; i++) {
        w->running[i] = TIDS;
        w->life_at[i] = INT64_MIN;
    }
    *conf = shape_of(w, seed);
    w->now = conf->file.zero_ticks;
    etl_session_begin(&w->file, conf, path);
    for (unsigned i = 0; i < 10; i++) {
        begin_process(w, false);
    }
    if (rundowns != 1) {
        rundown(w, ETL_RUNDOWN);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        step(w);
    }
    if (rundowns != 0) {
        rundown(w, ETL_RUNDOWN_END);
    }
    etl_session_end(&w->file, w->now);
}

/* -- truth -- */

static int64_t ns_of(const struct etl_writer_conf *c, int64_t ticks)
{
    uint64_t hz = c->clock == 3 ? c->cpu_mhz * UINT64_C(1000000) : c->frequency;
    uint64_t since = (uint64_t)(ticks - c->zero_ticks);

    return (int64_t)(since / hz * 1000000000 + since % hz * 1000000000 / hz);
}

static uint64_t span(const struct etl_writer_conf *c, const struct note *from,
                     const struct note *to)
{
    return (uint64_t)(ns_of(c, to->ticks) - ns_of(c, from->ticks));
}

/* From switch to switch of a CPU; *mark is where the first mark between them stands, or NULL. The
 * last switch has none after it, but perhaps a mark. */
static void share_out(struct world *w, const struct etl_writer_conf *c, const struct note *from,
                      const struct note *mark, const struct note *to)
{
    struct made *on = &w->instances[from->new_process];

    if (mark) {
        on->lost_ns += span(c, from, mark);
    }
    if (mark && to) {
        w->instances[to->old_process].lost_ns += span(c, mark, to);
    } else if (to) {
        assert_int_equal(from->new_process, to->old_process);
        on->run_ns += span(c, from, to);
    }
}

static void find_truth(struct world *w, const struct etl_writer_conf *c)
{
    for (size_t cpu = 0; cpu < w->cpus; cpu++) {
        const struct note *from = NULL, *mark = NULL;

        for (size_t i = 0; i < w->n_notes[cpu]; i++) {
            const struct note *n = &w->notes[cpu][i];

            if (n->mark) {
                mark = mark ? mark : n;
                continue;
            }
            if (from) {
                share_out(w, c, from, mark, n);
            }
            w->instances[n->new_process].in++;
            from = n;
            mark = NULL;
        }
        if (from) {
            share_out(w, c, from, mark, NULL);
        }
    }
}

/* -- the agent's answer -- */

/* The i-th instance of its pid is the i-th of the table. */
static struct instance *instance_of(const struct world *w, const struct reader *r, size_t i)
{
    struct instance *p = instances_owner(r->stages.table, w->instances[i].pid);
    size_t newer = 0;

    for (size_t k = i + 1; k < w->n_instances; k++) {
        newer += w->instances[k].pid == w->instances[i].pid;
    }
    for (; p && newer > 0; newer--) {
        p = p->older;
    }
    return p;
}

static void compare_instance(const struct world *w, struct reader *r, size_t i, uint32_t seed)
{
    const struct made *want = &w->instances[i];
    struct instance *p = instance_of(w, r, i);
    static const struct counters none;
    const uint64_t *n = p ? p->tally.n : none.n;

    if (n[COUNTERS_RUN] != want->run_ns || n[COUNTERS_RUN_LOST] != want->lost_ns ||
        n[COUNTERS_SWITCHES_IN] != want->in) {
        fail_msg("seed %u, process %u: run %llu lost %llu in %llu, expected %llu %llu %llu", seed,
                 want->pid, (unsigned long long)n[COUNTERS_RUN],
                 (unsigned long long)n[COUNTERS_RUN_LOST],
                 (unsigned long long)n[COUNTERS_SWITCHES_IN], (unsigned long long)want->run_ns,
                 (unsigned long long)want->lost_ns, (unsigned long long)want->in);
    }
    if (p && aggregate_stats(r->stages.agg)->sched.switches > 0) {
        aggregate_settle(r->stages.agg, p);
        assert_int_equal(p->info.cpu_origin, CPU_ORIGIN_CSWITCH);
        assert_int_equal(p->count.values[M_CPU_TIME], want->run_ns);
        assert_int_equal(p->count.values[M_CONTEXT_SWITCHES], want->in);
    }
}

static void compare_all(const struct world *w, struct reader *r, uint32_t seed)
{
    const struct aggregate_stats *a = aggregate_stats(r->stages.agg);
    const struct counters *nobody = aggregate_unattributed(r->stages.agg);
    struct decode_counts d;

    for (size_t i = 0; i < w->n_instances; i++) {
        compare_instance(w, r, i, seed);
    }
    decode_stats(r->decode, &d);
    assert_int_equal(d.corrupt + d.unknown, 0);
    assert_int_equal(nobody->n[COUNTERS_RUN] + nobody->n[COUNTERS_RUN_LOST], 0);
    assert_int_equal(a->sched.gaps, 0);
    assert_int_equal(a->lost_marks, w->marks);
    assert_int_equal(instances_stats(r->stages.table)->full, 0);
    assert_true(instances_stats(r->stages.table)->instances <= w->n_instances);
}

static void every_process_has_exactly_its_time_and_lost_time_is_lost(void **state)
{
    struct world *w = malloc(sizeof *w);
    uint64_t reused = 0, marks = 0, lost_ns = 0;
    char dir[256], path[300];

    assert_non_null(w);
    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/schedule.etl", dir);
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        struct etl_session_conf conf;
        struct reader r;

        world_make(w, path, seed, &conf);
        find_truth(w, &conf.file);
        reader_run(&r, path);
        compare_all(w, &r, seed);
        reused += instances_stats(r.stages.table)->reused;
        marks += w->marks;
        for (size_t i = 0; i < w->n_instances; i++) {
            lost_ns += w->instances[i].lost_ns;
        }
        reader_fini(&r);
    }
    assert_true(reused > SEEDS && marks > SEEDS && lost_ns > 0); /* it was tried */
    print_message("%u schedules: %llu pids reused, %llu losses\n", (unsigned)SEEDS,
                  (unsigned long long)reused, (unsigned long long)marks);
    support_remove_dir(dir);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_process_has_exactly_its_time_and_lost_time_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
