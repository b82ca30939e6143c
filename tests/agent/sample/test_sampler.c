#include "tests/support/t.h"

#include "agent/sample/sampler.h"
#include "common/base/mem.h"
#include "tests/agent/feed.h"

struct seen {
    int64_t wall_ns, mono_ns;
    size_t n_rows;
    struct sample_row rows[8];
    struct proc_id ids[8];
};

struct bench {
    struct instances *table;
    struct lifecycle *life;
    struct aggregate *agg;
    struct sampler *sampler;
    struct seen ticks[100];
    size_t n_ticks;
};

static void ignore(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct bench *b = ctx;
    struct seen *s = &b->ticks[b->n_ticks++];

    assert_true(b->n_ticks <= COUNT_OF(b->ticks));
    assert_true(tick->n_rows <= COUNT_OF(s->rows));
    s->wall_ns = tick->wall_ns;
    s->mono_ns = tick->mono_ns;
    s->n_rows = tick->n_rows;
    for (size_t i = 0; i < tick->n_rows; i++) {
        s->rows[i] = tick->rows[i];
        s->ids[i] = tick->rows[i].info->id;
    }
}

static struct bench *bench_new(bool by_table, int64_t period_ns)
{
    static const struct instances_conf table_conf = {
        .instances_max = 100, .threads_max = 1000, .text_max = 10000, .grace_ns = 10 * CLK_S};
    struct bench *b = mem_zalloc(sizeof *b);
    struct lifecycle_conf life = {.polled = false, .told = ignore};
    struct sampler_conf conf = {
        .period_ns = period_ns, .by_table = by_table, .processes_max = 4, .tick = on_tick};

    assert_non_null(b);
    assert_ok(instances_create(&b->table, &table_conf));
    life.table = b->table;
    assert_ok(lifecycle_create(&b->life, &life));
    assert_ok(aggregate_create(&b->agg, b->table, b->life));
    conf.table = b->table;
    conf.aggregate = b->agg;
    conf.ctx = b;
    assert_ok(sampler_create(&b->sampler, &conf));
    return b;
}

static void bench_free(struct bench *b)
{
    sampler_destroy(b->sampler);
    aggregate_destroy(b->agg);
    lifecycle_destroy(b->life);
    instances_destroy(b->table);
    mem_free(b);
}

/* As a recording does: time first, then the record. */
static void feed(struct bench *b, struct event ev)
{
    if (!ev.early) {
        lifecycle_advance(b->life, ev.wall_ns, ev.mono_ns);
        sampler_advance(b->sampler, ev.wall_ns, ev.mono_ns);
    }
    aggregate_event(b->agg, &ev);
}

static const struct sample_row *row_of(const struct seen *s, uint32_t pid)
{
    for (size_t i = 0; i < s->n_rows; i++) {
        if (s->ids[i].pid == pid) {
            return &s->rows[i];
        }
    }
    return NULL;
}

/* What a query does: differences along the rows, the first one's value when it is fresh. */
static int64_t total(const struct bench *b, uint32_t pid, unsigned id)
{
    int64_t sum = 0, before = 0;
    bool any = false;

    for (size_t i = 0; i < b->n_ticks; i++) {
        const struct sample_row *row = row_of(&b->ticks[i], pid);

        if (!row || !(row->mask & METRIC_BIT(id))) {
            continue;
        }
        if (any || row->fresh) {
            sum += row->values[id] - (row->fresh ? 0 : before);
        }
        before = row->values[id];
        any = true;
    }
    return sum;
}

static void totals_over_a_recording_are_exact(void **state)
{
    struct bench *b = bench_new(false, CLK_S);

    feed(b, feed_early(feed_proc(EV_PROC_LAST, 2600, 8, 0)));
    feed(b, feed_early(feed_thread(EV_THREAD_LAST, 2600, 8, 80)));
    feed(b, feed_early(feed_proc(EV_PROC_START, 300, 12, 300)));
    feed(b, feed_interval(0, CLK_MS));
    feed(b, feed_sample(10, 80, false));
    feed(b, feed_proc(EV_PROC_START, 300, 12, 300)); /* lives between two ticks only */
    feed(b, feed_thread(EV_THREAD_START, 300, 12, 120));
    for (int i = 0; i < 5; i++) {
        feed(b, feed_sample(400 + i, 120, false));
    }
    feed(b, feed_proc(EV_PROC_STOP, 500, 12, 0));
    feed(b, feed_sample(1500, 80, false));
    feed(b, feed_sample(2600, 80, false));
    sampler_finish(b->sampler);

    assert_int_equal(b->n_ticks, 4); /* 0, 1000, 2000 and the end */
    assert_int_equal(b->ticks[0].wall_ns, WALL0);
    assert_int_equal(b->ticks[1].wall_ns, WALL0 + CLK_S);
    assert_int_equal(b->ticks[3].wall_ns, WALL0 + 2600 * CLK_MS);
    assert_int_equal(total(b, 8, M_CPU_TIME), 3 * CLK_MS);
    assert_int_equal(total(b, 12, M_CPU_TIME), 5 * CLK_MS);
    assert_non_null(row_of(&b->ticks[1], 12));
    assert_null(row_of(&b->ticks[2], 12));
    bench_free(b);
}

static void an_instance_is_fresh_once(void **state)
{
    struct bench *b = bench_new(false, CLK_S);

    feed(b, feed_interval(0, CLK_MS));
    feed(b, feed_proc(EV_PROC_START, 10, 8, 10));
    feed(b, feed_thread(EV_THREAD_START, 10, 8, 80));
    feed(b, feed_sample(20, 80, false));
    feed(b, feed_sample(2020, 80, false));
    assert_int_equal(b->n_ticks, 3);
    assert_true(row_of(&b->ticks[1], 8)->fresh);
    assert_false(row_of(&b->ticks[2], 8)->fresh);
    bench_free(b);
}

static void a_late_sample_after_the_last_row_makes_another(void **state)
{
    struct bench *b = bench_new(false, CLK_S);

    feed(b, feed_interval(0, CLK_MS));
    feed(b, feed_proc(EV_PROC_START, 10, 8, 10));
    feed(b, feed_thread(EV_THREAD_START, 10, 8, 80));
    feed(b, feed_sample(20, 80, false));
    feed(b, feed_proc(EV_PROC_STOP, 990, 8, 0));
    feed(b, feed_sample(1001, 80, false));
    feed(b, feed_sample(2001, 80, false));
    feed(b, feed_interval(4000, CLK_MS));
    assert_int_equal(total(b, 8, M_CPU_TIME), 3 * CLK_MS);
    assert_null(row_of(&b->ticks[4], 8));
    bench_free(b);
}

static void a_gap_without_records_has_two_ticks(void **state)
{
    struct bench *b = bench_new(false, CLK_S);

    feed(b, feed_interval(0, CLK_MS));
    feed(b, feed_interval(3600 * 1000 + 500, CLK_MS));
    assert_int_equal(b->n_ticks, 3);
    assert_int_equal(b->ticks[1].mono_ns, CLK_S);
    assert_int_equal(b->ticks[2].mono_ns, 3600 * CLK_S);
    assert_int_equal(sampler_stats(b->sampler)->skipped, 3598);
    bench_free(b);
}

static void fast_ticks_have_rows_of_those_only_who_did_something(void **state)
{
    struct bench *b = bench_new(false, 10 * CLK_MS);

    feed(b, feed_early(feed_proc(EV_PROC_LAST, 90, 8, 0)));
    feed(b, feed_early(feed_thread(EV_THREAD_LAST, 90, 8, 80)));
    feed(b, feed_early(feed_proc(EV_PROC_LAST, 90, 12, 0)));
    feed(b, feed_interval(0, CLK_MS));
    feed(b, feed_sample(15, 80, false));
    feed(b, feed_interval(30, CLK_MS));
    assert_int_equal(b->ticks[0].n_rows, 2);
    assert_int_equal(b->ticks[1].n_rows, 0);
    assert_int_equal(b->ticks[2].n_rows, 1);
    assert_non_null(row_of(&b->ticks[2], 8));
    bench_free(b);
}

static void tables_make_ticks_of_their_own_and_end_with_last_rows(void **state)
{
    struct bench *b = bench_new(true, CLK_S);
    struct snap_row rows[] = {feed_row(8, 1, -9000), feed_row(9, 2, 1500)};
    struct event stop = feed_proc(EV_PROC_STOP, 2500, 9, 2);

    rows[0].mask = rows[1].mask = METRIC_BIT(M_PAGE_FAULTS);
    for (int i = 1; i <= 2; i++) {
        struct snapshot snap = feed_table(i * 1000, rows, (size_t)i);

        aggregate_table(b->agg, &snap);
        sampler_table(b->sampler, snap.wall_ns, snap.mono_ns);
        sampler_advance(b->sampler, snap.wall_ns, snap.mono_ns);
    }
    assert_int_equal(b->n_ticks, 2);
    assert_false(row_of(&b->ticks[1], 8)->fresh);
    assert_true(row_of(&b->ticks[1], 9)->fresh);
    aggregate_event(b->agg, &stop);
    sampler_finish(b->sampler);
    assert_int_equal(b->n_ticks, 3);
    assert_non_null(row_of(&b->ticks[2], 9));
    bench_free(b);
}

static void table_at(struct bench *b, int64_t ms, const struct snap_row *rows, size_t n)
{
    struct snapshot snap = feed_table(ms, rows, n);

    aggregate_table(b->agg, &snap);
    sampler_table(b->sampler, snap.wall_ns, snap.mono_ns);
    sampler_advance(b->sampler, snap.wall_ns, snap.mono_ns);
}

static struct event feed_disk(int64_t ms, uint32_t tid, uint32_t bytes)
{
    struct event ev = feed_at(EV_DISK_READ, ms);

    ev.tid = tid;
    ev.u.disk.issuer_tid = tid;
    ev.u.disk.bytes = bytes;
    return ev;
}

/* 100 ticks a second, two tables a second. */
static void between_tables_only_what_events_moved_has_rows(void **state)
{
    struct bench *b = bench_new(true, 10 * CLK_MS);
    struct snap_row rows[] = {feed_row(8, 1, -9000), feed_row(9, 2, -9000), feed_row(10, 3, -1)};
    struct event disk = feed_disk(120, 80, 4096), stop = feed_proc(EV_PROC_STOP, 220, 9, 2);
    struct event thread = feed_thread(EV_THREAD_FOUND, 0, 8, 80);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        rows[i].mask = METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME);
    }
    table_at(b, 0, rows, 3);
    aggregate_event(b->agg, &thread);
    for (int64_t ms = 1; ms < 500; ms++) {
        if (ms == 120) {
            aggregate_event(b->agg, &disk);
        }
        if (ms == 220) {
            aggregate_event(b->agg, &stop);
        }
        sampler_advance(b->sampler, WALL0 + ms * CLK_MS, ms * CLK_MS);
    }
    assert_int_equal(b->n_ticks, 3);
    assert_int_equal(b->ticks[1].mono_ns, 120 * CLK_MS);
    assert_int_equal(b->ticks[1].n_rows, 1);
    assert_true(b->ticks[1].rows[0].mask ==
                (METRIC_BIT(M_DISK_READ_BYTES) | METRIC_BIT(M_DISK_WRITE_BYTES) |
                 METRIC_BIT(M_DISK_READS) | METRIC_BIT(M_DISK_WRITES) | METRIC_BIT(M_DISK_TIME)));
    assert_int_equal(b->ticks[1].rows[0].values[M_DISK_READ_BYTES], 4096);
    assert_int_equal(b->ticks[2].mono_ns, 220 * CLK_MS);
    assert_int_equal(b->ticks[2].n_rows, 1);
    assert_int_equal(b->ticks[2].ids[0].pid, 9);
    assert_int_equal(sampler_stats(b->sampler)->idle, 47);
    table_at(b, 500, rows, 1);
    assert_true(row_of(&b->ticks[3], 8)->mask & METRIC_BIT(M_CPU_TIME));
    bench_free(b);
}

/* -- CPU time between tables, where switches are recorded -- */

enum { SWITCHED = 3, CLOCK_MS = 15, TABLE_MS = 500, SPAN_MS = 3000 };

/* Three processes with a thread each on two CPUs. Tables say what the clock's ticks have charged.
 * CPU 1 switches every ms, CPU 0 when it likes: threads stay on it for longer than a table lasts.
 */
struct switched {
    struct bench *b;
    uint64_t random;
    uint32_t stay_ms;                         /* on CPU 0, about */
    uint32_t running[2];                      /* which process, or SWITCHED: nobody */
    int64_t ran[SWITCHED], charged[SWITCHED]; /* ns: in truth, by the clock */
    int64_t ran_at_table[SWITCHED], charged_at_table[SWITCHED], ran_at_tick[SWITCHED];
    int64_t due[SWITCHED]; /* what cpu_time must be */
};

static uint32_t switched_tid(uint32_t process)
{
    return process < SWITCHED ? 80 + 10 * process : 0;
}

static void switch_to(struct switched *w, uint16_t cpu, uint32_t process, int64_t ms)
{
    struct event ev = feed_at(EV_CSWITCH, ms);

    ev.cpu = cpu;
    ev.u.cswitch.old_tid = switched_tid(w->running[cpu]);
    ev.u.cswitch.new_tid = switched_tid(process);
    w->running[cpu] = process;
    aggregate_event(w->b->agg, &ev);
}

static void switched_table(struct switched *w, int64_t ms)
{
    struct snap_row rows[SWITCHED];

    for (uint32_t i = 0; i < SWITCHED; i++) {
        rows[i] = feed_row(8 + i, 1, -9000);
        rows[i].mask = METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME);
        rows[i].values[M_KERNEL_TIME] = w->charged[i];
        w->ran_at_table[i] = w->ran[i];
        w->charged_at_table[i] = w->charged[i];
    }
    table_at(w->b, ms, rows, SWITCHED);
}

/* A ms has passed. */
static void switched_run(struct switched *w, int64_t ms)
{
    for (size_t cpu = 0; cpu < 2; cpu++) {
        uint32_t i = w->running[cpu];

        if (i < SWITCHED) {
            w->ran[i] += CLK_MS;
            w->charged[i] += ms % CLOCK_MS == 0 ? CLOCK_MS * CLK_MS : 0;
        }
    }
}

/* Never less than before, and what has run since a table is in it exactly once. */
static void check_switched(struct switched *w, bool table)
{
    struct seen *tick = &w->b->ticks[0];

    assert_int_equal(w->b->n_ticks, 1);
    for (uint32_t i = 0; i < SWITCHED; i++) {
        const struct sample_row *row = row_of(tick, 8 + i);
        int64_t now_ns = w->charged_at_table[i] + w->ran[i] - w->ran_at_table[i];

        w->due[i] = now_ns > w->due[i] ? now_ns : w->due[i];
        assert_true(row || w->ran[i] == w->ran_at_tick[i]);
        w->ran_at_tick[i] = w->ran[i];
        if (row && (table || w->ran[i] > w->ran_at_table[i])) {
            assert_true(row->mask & METRIC_BIT(M_CPU_TIME));
        }
        if (row && (row->mask & METRIC_BIT(M_CPU_TIME))) {
            assert_int_equal(row->values[M_CPU_TIME], w->due[i]);
            assert_int_equal(row->info->cpu_origin, CPU_ORIGIN_TIMES);
        }
    }
    w->b->n_ticks = 0;
}

static void switched_ms(struct switched *w, int64_t ms)
{
    switched_run(w, ms);
    switch_to(w, 1, w->running[1] == 2 ? SWITCHED : 2, ms);
    w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    if ((w->random >> 33) % w->stay_ms == 0) {
        switch_to(w, 0, (uint32_t)(w->random >> 40) % 4 == 2 ? SWITCHED : (w->random >> 40) % 2,
                  ms);
    }
    if (ms % TABLE_MS == 0) {
        switched_table(w, ms);
        check_switched(w, true);
        return;
    }
    sampler_advance(w->b->sampler, WALL0 + ms * CLK_MS, ms * CLK_MS);
    if (w->b->n_ticks > 0) {
        check_switched(w, false);
    }
}

/* The session of switches has ended, and stands again much later: what was meanwhile is unknown. */
static void check_silence(struct switched *w)
{
    int64_t ms = SPAN_MS;

    for (; ms < SPAN_MS + 5 * TABLE_MS; ms += TABLE_MS) {
        switched_table(w, ms);
        check_switched(w, true);
    }
    switch_to(w, 0, SWITCHED, ms);
    switch_to(w, 1, SWITCHED, ms);
    sampler_advance(w->b->sampler, WALL0 + ms * CLK_MS, ms * CLK_MS);
    if (w->b->n_ticks > 0) {
        check_switched(w, false);
    }
    switched_table(w, ms + 1);
    check_switched(w, true);
}

static void switches_move_cpu_time_on_between_tables(void **state)
{
    static const uint32_t stays_ms[] = {3, 40, 900};

    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct switched w = {.b = bench_new(true, 10 * CLK_MS),
                             .random = seed * UINT64_C(0x9e3779b97f4a7c15),
                             .stay_ms = stays_ms[seed % COUNT_OF(stays_ms)],
                             .running = {SWITCHED, SWITCHED}};

        switched_table(&w, 0);
        check_switched(&w, true);
        for (uint32_t i = 0; i < SWITCHED; i++) {
            struct event ev = feed_thread(EV_THREAD_START, 0, 8 + i, switched_tid(i));

            aggregate_event(w.b->agg, &ev);
        }
        switch_to(&w, 0, 0, 0);
        for (int64_t ms = 1; ms < SPAN_MS; ms++) {
            switched_ms(&w, ms);
        }
        check_silence(&w);
        assert_int_equal(aggregate_stats(w.b->agg)->stepped_back, 0);
        bench_free(w.b);
    }
}

static void up_to_ten_ticks_a_second_every_tick_is_a_table(void **state)
{
    struct bench *b = bench_new(true, CLK_S);
    struct snap_row row = feed_row(8, 1, -9000);

    table_at(b, 0, &row, 1);
    assert_err(sampler_set_pace(b->sampler, 0, CLK_S), ERR_INVALID);
    assert_ok(sampler_set_pace(b->sampler, 100 * CLK_MS, 100 * CLK_MS));
    sampler_advance(b->sampler, WALL0 + 300 * CLK_MS, 300 * CLK_MS);
    assert_int_equal(sampler_stats(b->sampler)->idle, 0);
    assert_ok(sampler_set_pace(b->sampler, 10 * CLK_MS, 500 * CLK_MS));
    sampler_advance(b->sampler, WALL0 + 400 * CLK_MS, 400 * CLK_MS);
    sampler_advance(b->sampler, WALL0 + 401 * CLK_MS, 401 * CLK_MS);
    assert_int_equal(sampler_stats(b->sampler)->idle, 1);
    assert_int_equal(b->n_ticks, 1);
    bench_free(b);
}

/* Ten ticks a second, two tables. */
static void the_tick_of_a_table_waits_for_it(void **state)
{
    struct bench *b = bench_new(true, CLK_S);
    struct snap_row row = feed_row(8, 1, -9000);
    struct event thread = feed_thread(EV_THREAD_START, 0, 8, 80);

    row.mask = METRIC_BIT(M_HANDLE_COUNT);
    table_at(b, 0, &row, 1);
    aggregate_event(b->agg, &thread);
    assert_ok(sampler_set_pace(b->sampler, 100 * CLK_MS, 500 * CLK_MS));
    table_at(b, 1, &row, 1);
    for (int64_t ms = 2; ms < 530; ms++) { /* four between the two; the fifth is the table's, */
        struct event disk = feed_disk(ms, 80, 4096);

        aggregate_event(b->agg, &disk);
        assert_true(ms <= 401 || sampler_due_ns(b->sampler) == 551 * CLK_MS);
        sampler_advance(b->sampler, WALL0 + ms * CLK_MS, ms * CLK_MS);
    }
    assert_int_equal(b->n_ticks, 6);
    assert_int_equal(b->ticks[5].mono_ns, 401 * CLK_MS);
    table_at(b, 530, &row, 1); /* which is late */
    assert_int_equal(sampler_due_ns(b->sampler), 630 * CLK_MS);
    for (int64_t ms = 531; ms < 1081; ms++) { /* when none comes, the grid's ticks go on */
        struct event disk = feed_disk(ms, 80, 4096);

        aggregate_event(b->agg, &disk);
        sampler_advance(b->sampler, WALL0 + ms * CLK_MS, ms * CLK_MS);
    }
    assert_int_equal(b->n_ticks, 7 + 5);
    assert_int_equal(b->ticks[11].mono_ns, 1080 * CLK_MS);
    bench_free(b);
}

static void rows_over_the_limit_are_counted(void **state)
{
    struct bench *b = bench_new(false, CLK_S);

    for (uint32_t pid = 4; pid <= 24; pid += 4) {
        feed(b, feed_early(feed_proc(EV_PROC_LAST, 90, pid, 0)));
    }
    feed(b, feed_interval(0, CLK_MS));
    assert_int_equal(b->ticks[0].n_rows, 4);
    assert_int_equal(sampler_stats(b->sampler)->capped, 2);
    bench_free(b);
}

static void creation_survives_every_failing_allocation(void **state)
{
    struct sampler_conf conf = {.period_ns = CLK_S};
    struct sampler *s = NULL;
    long before = mem_live(), n = 0;

    for (mem_fail_after(n); sampler_create(&s, &conf); mem_fail_after(++n)) {
        assert_int_equal(mem_live(), before);
    }
    mem_fail_after(-1);
    assert_int_equal(n, 2);
    sampler_destroy(s);
    conf.period_ns = 1;
    assert_err(sampler_create(&s, &conf), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_over_a_recording_are_exact),
        cmocka_unit_test(an_instance_is_fresh_once),
        cmocka_unit_test(a_late_sample_after_the_last_row_makes_another),
        cmocka_unit_test(a_gap_without_records_has_two_ticks),
        cmocka_unit_test(fast_ticks_have_rows_of_those_only_who_did_something),
        cmocka_unit_test(tables_make_ticks_of_their_own_and_end_with_last_rows),
        cmocka_unit_test(between_tables_only_what_events_moved_has_rows),
        cmocka_unit_test(switches_move_cpu_time_on_between_tables),
        cmocka_unit_test(up_to_ten_ticks_a_second_every_tick_is_a_table),
        cmocka_unit_test(the_tick_of_a_table_waits_for_it),
        cmocka_unit_test(rows_over_the_limit_are_counted),
        cmocka_unit_test(creation_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
