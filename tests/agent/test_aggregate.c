#include "tests/support/t.h"

#include "agent/aggregate.h"
#include "common/mem.h"
#include "tests/agent/feed.h"

struct bench {
    struct ptable *table;
    struct lifecycle *life;
    struct aggregate *agg;
};

static void ignore(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static struct bench bench_new(void)
{
    static const struct ptable_conf table_conf = {
        .instances_max = 100, .threads_max = 1000, .text_max = 10000, .grace_ns = 10 * CLK_S};
    struct lifecycle_conf conf = {.polled = true, .told = ignore};
    struct bench b;

    assert_ok(ptable_create(&b.table, &table_conf));
    conf.table = b.table;
    assert_ok(lifecycle_create(&b.life, &conf));
    assert_ok(aggregate_create(&b.agg, b.table, b.life));
    return b;
}

static void bench_free(struct bench *b)
{
    aggregate_destroy(b->agg);
    lifecycle_destroy(b->life);
    ptable_destroy(b->table);
}

static void feed(struct bench *b, struct event ev)
{
    aggregate_event(b->agg, &ev);
}

static void feed_one_row(struct bench *b, int64_t ms, const struct snap_row *row)
{
    struct snapshot snap = feed_table(ms, row, 1);

    aggregate_table(b->agg, &snap);
}

static struct ptable_proc *settled(struct bench *b, uint32_t pid)
{
    struct ptable_proc *p = ptable_owner(b->table, pid);

    assert_non_null(p);
    aggregate_settle(b->agg, p);
    return p;
}

static bool has(const struct ptable_proc *p, unsigned id)
{
    return (p->count.mask & METRIC_BIT(id)) != 0;
}

static void two_processes(struct bench *b)
{
    feed(b, feed_early(feed_proc(EV_PROC_FOUND, 0, 8, 0)));
    feed(b, feed_early(feed_thread(EV_THREAD_FOUND, 0, 8, 80)));
    feed(b, feed_early(feed_proc(EV_PROC_FOUND, 0, 12, 0)));
    feed(b, feed_early(feed_thread(EV_THREAD_FOUND, 0, 12, 120)));
}

static void plain_samples_are_cpu_time_and_interrupts_are_nobodys(void **state)
{
    struct bench b = bench_new();

    (void)state;
    two_processes(&b);
    feed(&b, feed_interval(0, CLK_MS));
    for (int i = 0; i < 7; i++) {
        feed(&b, feed_sample(i, 80, i >= 5));
    }
    feed(&b, feed_sample(9, 999, false));
    assert_int_equal(settled(&b, 8)->count.values[M_CPU_TIME], 5 * CLK_MS);
    assert_int_equal(settled(&b, 8)->info.cpu_origin, CPU_ORIGIN_SAMPLES);
    assert_true(has(settled(&b, 12), M_CPU_TIME)); /* none is a measurement too */
    assert_int_equal(settled(&b, 12)->count.values[M_CPU_TIME], 0);
    assert_int_equal(aggregate_stats(b.agg)->samples, 5);
    assert_int_equal(aggregate_stats(b.agg)->samples_interrupt, 2);
    assert_int_equal(aggregate_stats(b.agg)->unattributed, 1);
    bench_free(&b);
}

static void the_latest_interval_counts_and_the_first_also_for_what_came_before(void **state)
{
    struct bench b = bench_new();

    (void)state;
    two_processes(&b);
    feed(&b, feed_sample(0, 80, false));
    assert_false(has(settled(&b, 8), M_CPU_TIME));
    feed(&b, feed_interval(1, 2 * CLK_MS));
    feed(&b, feed_sample(2, 80, false));
    feed(&b, feed_interval(3, 5 * CLK_MS));
    feed(&b, feed_sample(4, 80, false));
    assert_int_equal(settled(&b, 8)->count.values[M_CPU_TIME], 9 * CLK_MS);
    bench_free(&b);
}

static void without_an_interval_cpu_time_is_absent(void **state)
{
    struct bench b = bench_new();

    (void)state;
    two_processes(&b);
    feed(&b, feed_sample(0, 80, false));
    assert_false(has(settled(&b, 8), M_CPU_TIME));
    bench_free(&b);
}

static void threads_are_counted_where_records_show_them_all(void **state)
{
    struct bench b = bench_new();

    (void)state;
    two_processes(&b);
    feed(&b, feed_thread(EV_THREAD_START, 1, 8, 84));
    feed(&b, feed_thread(EV_THREAD_STOP, 2, 12, 120));
    assert_int_equal(settled(&b, 8)->count.values[M_THREAD_COUNT], 2);
    assert_int_equal(settled(&b, 12)->count.values[M_THREAD_COUNT], 0);
    bench_free(&b);

    b = bench_new();
    feed(&b, feed_proc(EV_PROC_FOUND, 0, 8, 0));
    feed(&b, feed_thread(EV_THREAD_START, 1, 8, 84));
    assert_false(has(settled(&b, 8), M_THREAD_COUNT)); /* nobody said what it had before */
    bench_free(&b);
}

static struct snap_row row_of(int64_t kernel_ns, int64_t user_ns)
{
    struct snap_row row = feed_row(8, 1, -9000);

    row.mask = METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME) | METRIC_BIT(M_HANDLE_COUNT) |
               METRIC_BIT(M_WORKING_SET_SIZE);
    row.values[M_KERNEL_TIME] = kernel_ns;
    row.values[M_USER_TIME] = user_ns;
    row.values[M_HANDLE_COUNT] = 5;
    row.values[M_WORKING_SET_SIZE] = 4096;
    return row;
}

static void a_row_gives_cpu_time_from_its_halves(void **state)
{
    struct bench b = bench_new();
    struct snap_row row = row_of(10, 30);

    (void)state;
    feed_one_row(&b, 0, &row);
    assert_int_equal(settled(&b, 8)->count.values[M_CPU_TIME], 40);
    assert_int_equal(settled(&b, 8)->info.cpu_origin, CPU_ORIGIN_TIMES);
    assert_int_equal(settled(&b, 8)->count.values[M_PEAK_HANDLE_COUNT], 5);
    row.values[M_HANDLE_COUNT] = 3;
    feed_one_row(&b, 1000, &row);
    assert_int_equal(settled(&b, 8)->count.values[M_HANDLE_COUNT], 3);
    assert_int_equal(settled(&b, 8)->count.values[M_PEAK_HANDLE_COUNT], 5);
    bench_free(&b);
}

static void a_counter_never_goes_back_and_a_missing_column_is_absent(void **state)
{
    struct bench b = bench_new();
    struct snap_row row = row_of(10, 30);

    (void)state;
    feed_one_row(&b, 0, &row);
    row = row_of(9, 31);
    row.mask &= ~METRIC_BIT(M_WORKING_SET_SIZE);
    feed_one_row(&b, 1000, &row);
    assert_int_equal(settled(&b, 8)->count.values[M_KERNEL_TIME], 10);
    assert_int_equal(settled(&b, 8)->count.values[M_CPU_TIME], 41);
    assert_int_equal(aggregate_stats(b.agg)->stepped_back, 1);
    assert_false(has(settled(&b, 8), M_WORKING_SET_SIZE));
    bench_free(&b);
}

static void exit_totals_replace_smaller_counters_and_gauges_go(void **state)
{
    struct bench b = bench_new();
    struct snap_row row = row_of(10, 30);
    struct event stop = feed_proc(EV_PROC_STOP, 1500, 8, 1);
    int64_t totals[METRIC_COLS] = {0};

    (void)state;
    feed_one_row(&b, 0, &row);
    totals[M_KERNEL_TIME] = 9;
    totals[M_USER_TIME] = 50;
    totals[M_WRITE_BYTES] = 10485760;
    stop.u.proc.totals = totals;
    stop.u.proc.totals_mask =
        METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME) | METRIC_BIT(M_WRITE_BYTES);
    feed(&b, stop);
    assert_int_equal(settled(&b, 8)->count.values[M_KERNEL_TIME], 10);
    assert_int_equal(settled(&b, 8)->count.values[M_USER_TIME], 50);
    assert_int_equal(settled(&b, 8)->count.values[M_CPU_TIME], 60);
    assert_int_equal(settled(&b, 8)->count.values[M_WRITE_BYTES], 10485760);
    assert_false(has(settled(&b, 8), M_WORKING_SET_SIZE));
    assert_true(has(settled(&b, 8), M_PEAK_HANDLE_COUNT));
    assert_true(settled(&b, 8)->info.have & INFO_FINAL_TOTALS);
    bench_free(&b);
}

static void creation_survives_a_failing_allocation(void **state)
{
    struct aggregate *a;

    (void)state;
    mem_fail_after(0);
    assert_err(aggregate_create(&a, NULL, NULL), ERR_NOMEM);
    mem_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_samples_are_cpu_time_and_interrupts_are_nobodys),
        cmocka_unit_test(the_latest_interval_counts_and_the_first_also_for_what_came_before),
        cmocka_unit_test(without_an_interval_cpu_time_is_absent),
        cmocka_unit_test(threads_are_counted_where_records_show_them_all),
        cmocka_unit_test(a_row_gives_cpu_time_from_its_halves),
        cmocka_unit_test(a_counter_never_goes_back_and_a_missing_column_is_absent),
        cmocka_unit_test(exit_totals_replace_smaller_counters_and_gauges_go),
        cmocka_unit_test(creation_survives_a_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
