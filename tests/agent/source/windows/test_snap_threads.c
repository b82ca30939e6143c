#include "tests/support/t.h"

#include "agent/source/windows/snap_threads.h"
#include "common/base/mem.h"
#include "tests/support/snap_gen.h"

#define BASE   UINT64_C(0x7ff612340000)
#define ABSENT (-1)
#define PID    4242
#define WRAP   INT64_C(0x100000000)
#define BYTES  (8u << 20)
#define WAITS(t)               \
    {                          \
        .tid = (t), .state = 5 \
    }

struct got {
    int64_t active, switches;
};

static const uint64_t born = UINT64_C(133000000000000000);

static struct got read_row(struct snap_threads *t, const struct snap_gen_process *p)
{
    struct got got = {ABSENT, ABSENT};
    struct snap_walk w;
    struct snap_row row;
    struct buf b;

    buf_init(&b, BYTES);
    snap_gen_put(&b, BASE, false, p, true);
    snap_rows_init(&w, b.p, b.n, BASE, false);
    assert_ok(snap_rows_next(&w, &row));
    snap_threads_row(t, &w, &row);
    if (row.mask & METRIC_BIT(M_ACTIVE_THREADS)) {
        got.active = row.values[M_ACTIVE_THREADS];
    }
    if (row.mask & METRIC_BIT(M_CONTEXT_SWITCHES)) {
        got.switches = row.values[M_CONTEXT_SWITCHES];
    }
    buf_fini(&b);
    return got;
}

static struct got table(struct snap_threads *t, const struct snap_gen_thread *threads, size_t n)
{
    const struct snap_gen_process p = {
        .pid = PID, .created = born, .threads = threads, .n_threads = n};

    snap_threads_begin(t);
    return read_row(t, &p);
}

/* A system that counts switches of threads, or one that does not. */
static uint64_t probe(struct snap_threads *t, uint32_t switches)
{
    const struct snap_gen_thread thread = {.tid = 1, .switches = switches};
    const struct snap_gen_process own = {.pid = 1, .threads = &thread, .n_threads = 1};
    uint64_t columns;
    struct snap_walk w;
    struct snap_row row;
    struct buf b;

    buf_init(&b, BYTES);
    snap_gen_put(&b, BASE, false, &own, true);
    snap_rows_init(&w, b.p, b.n, BASE, false);
    assert_ok(snap_rows_next(&w, &row));
    columns = snap_threads_probe(t, &w);
    buf_fini(&b);
    return columns;
}

static int set_up(void **state)
{
    struct snap_threads *t;

    assert_ok(snap_threads_create(&t, 100));
    assert_true(probe(t, 1) & METRIC_BIT(M_CONTEXT_SWITCHES));
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    snap_threads_destroy(*state);
    return 0;
}

static void who_got_time_or_switches_was_active(void **state)
{
    const struct snap_gen_thread first[] = {
        {.tid = 8, .user = 5, .switches = 10}, {.tid = 12, .kernel = 7, .switches = 3}, WAITS(16)};
    const struct snap_gen_thread second[] = {
        {.tid = 8, .user = 6, .switches = 10},   /* time */
        {.tid = 12, .kernel = 7, .switches = 4}, /* a switch */
        WAITS(16),                               /* nothing */
        {.tid = 20, .switches = 1},              /* new, and it ran */
        WAITS(24),                               /* new, and it did not */
    };
    struct snap_threads *t = *state;
    struct got got = table(t, first, COUNT_OF(first));

    assert_int_equal(got.active, ABSENT); /* no interval yet */
    assert_int_equal(got.switches, 13);
    got = table(t, second, COUNT_OF(second));
    assert_int_equal(got.active, 3);
    assert_int_equal(got.switches, 15);
    got = table(t, second, COUNT_OF(second));
    assert_int_equal(got.active, 0);
    assert_int_equal(got.switches, 15);
}

static void switches_of_ended_threads_stay_with_the_process(void **state)
{
    const struct snap_gen_thread three[] = {
        {.tid = 8, .switches = 10}, {.tid = 12, .switches = 20}, {.tid = 16, .switches = 30}};
    const struct snap_gen_thread last[] = {{.tid = 16, .switches = 31}};
    struct snap_threads *t = *state;

    assert_int_equal(table(t, three, 3).switches, 60);
    assert_int_equal(table(t, last, 1).switches, 61);
    assert_int_equal(table(t, NULL, 0).switches, 61);
    assert_int_equal(table(t, three, 1).switches, 71);
}

static void a_thread_number_used_again_is_another_thread(void **state)
{
    const struct snap_gen_thread old[] = {{.tid = 8, .created = 100, .switches = 50}};
    const struct snap_gen_thread new[] = {{.tid = 8, .created = 200, .switches = 7}};
    struct snap_threads *t = *state;
    struct got got;

    assert_int_equal(table(t, old, 1).switches, 50);
    got = table(t, new, 1);
    assert_int_equal(got.switches, 57);
    assert_int_equal(got.active, 1);
}

static void a_pid_used_again_begins_anew(void **state)
{
    const struct snap_gen_thread threads[] = {{.tid = 8, .switches = 50}};
    struct snap_gen_process p = {.pid = PID, .created = born, .threads = threads, .n_threads = 1};
    struct snap_threads *t = *state;

    for (int i = 0; i < 200; i++) {
        struct got got;

        p.created++;
        snap_threads_begin(t);
        got = read_row(t, &p);
        assert_int_equal(got.switches, 50);
        assert_int_equal(got.active, ABSENT);
    }
    assert_int_equal(snap_threads_capped(t), 0);
}

static void switches_go_on_where_32_bits_wrap(void **state)
{
    struct snap_gen_thread threads[] = {{.tid = 8, .switches = 0xfffffff0},
                                        {.tid = 12, .switches = 0x10}};
    struct snap_threads *t = *state;

    assert_int_equal(table(t, threads, 2).switches, WRAP);
    threads[0].switches = 0x05;
    assert_int_equal(table(t, threads, 2).switches, WRAP + 0x15);
    assert_int_equal(table(t, threads + 1, 1).switches, WRAP + 0x15);
}

static void threads_may_change_places(void **state)
{
    struct snap_gen_thread threads[64];
    struct snap_threads *t = *state;

    for (uint32_t i = 0; i < COUNT_OF(threads); i++) {
        threads[i] = (struct snap_gen_thread){.tid = 8 + 4 * i, .switches = i};
    }
    assert_int_equal(table(t, threads, COUNT_OF(threads)).switches, 63 * 32);
    for (size_t i = 0; i < COUNT_OF(threads) / 2; i++) {
        struct snap_gen_thread moved = threads[i];

        threads[i] = threads[COUNT_OF(threads) - 1 - i];
        threads[COUNT_OF(threads) - 1 - i] = moved;
    }
    assert_int_equal(table(t, threads, COUNT_OF(threads)).active, 0);
    assert_int_equal(table(t, threads, COUNT_OF(threads)).switches, 63 * 32);
}

/* The idle process: one thread per CPU, all of them number 0. */
static void threads_of_one_number_are_told_apart_by_their_place(void **state)
{
    struct snap_gen_thread threads[] = {{.switches = 5, .kernel = 1}, {.switches = 900}};
    struct snap_threads *t = *state;
    struct got got;

    assert_int_equal(table(t, threads, 2).switches, 905);
    threads[0].switches = 6;
    got = table(t, threads, 2);
    assert_int_equal(got.switches, 906);
    assert_int_equal(got.active, 1);
}

static void a_process_twice_in_an_answer_counts_once(void **state)
{
    const struct snap_gen_thread threads[] = {{.tid = 8, .switches = 50}};
    const struct snap_gen_process p = {
        .pid = PID, .created = born, .threads = threads, .n_threads = 1};
    struct snap_threads *t = *state;

    for (int i = 0; i < 3; i++) {
        snap_threads_begin(t);
        assert_int_equal(read_row(t, &p).switches, 50);
        assert_int_equal(read_row(t, &p).switches, ABSENT);
    }
}

static void the_systems_own_total_goes_first(void **state)
{
    const struct snap_gen_thread threads[] = {{.tid = 8, .switches = 50}};
    const struct snap_gen_process p = {.pid = PID,
                                       .created = born,
                                       .name = u"a.exe",
                                       .threads = threads,
                                       .n_threads = 1,
                                       .extension = true,
                                       .switches = UINT64_C(1) << 40};
    struct snap_threads *t = *state;

    snap_threads_begin(t);
    assert_int_equal(read_row(t, &p).switches, INT64_C(1) << 40);
}

static void where_the_system_counts_no_switches_they_are_absent(void **state)
{
    const struct snap_gen_thread first[] = {{.tid = 8, .user = 1}},
                                 second[] = {{.tid = 8, .user = 2}};
    struct snap_threads *t = *state;
    struct got got;

    assert_int_equal(probe(t, 0), METRIC_BIT(M_ACTIVE_THREADS));
    assert_int_equal(table(t, first, 1).switches, ABSENT);
    got = table(t, second, 1);
    assert_int_equal(got.switches, ABSENT);
    assert_int_equal(got.active, 1);
}

static void too_many_threads_are_left_out_and_counted(void **state)
{
    static struct snap_gen_thread threads[SNAP_THREADS_MAX + 1];
    struct snap_threads *t = *state;
    struct got got;

    for (uint32_t i = 0; i < COUNT_OF(threads); i++) {
        threads[i] = (struct snap_gen_thread){.tid = 4 * i, .switches = 1};
    }
    assert_int_equal(table(t, threads, SNAP_THREADS_MAX).switches, SNAP_THREADS_MAX);
    got = table(t, threads, COUNT_OF(threads));
    assert_int_equal(got.switches, ABSENT);
    assert_int_equal(got.active, ABSENT);
    assert_int_equal(snap_threads_capped(t), 1);
    got = table(t, threads, 2);
    assert_int_equal(got.switches, ABSENT); /* the sum has a hole */
    assert_int_equal(got.active, ABSENT);   /* no interval */
    assert_int_equal(table(t, threads, 2).active, 0);
}

static void all_threads_together_have_a_limit(void **state)
{
    static struct snap_gen_thread threads[SNAP_THREADS_MAX];
    struct snap_gen_process p = {
        .created = born, .threads = threads, .n_threads = SNAP_THREADS_MAX};
    struct snap_threads *t = *state;
    unsigned fit = SNAP_THREADS_ALL_MAX / SNAP_THREADS_MAX;

    for (uint32_t i = 0; i < COUNT_OF(threads); i++) {
        threads[i] = (struct snap_gen_thread){.tid = 4 * i, .switches = 1};
    }
    snap_threads_begin(t);
    for (p.pid = 0; p.pid < fit; p.pid++) {
        assert_int_equal(read_row(t, &p).switches, SNAP_THREADS_MAX);
    }
    assert_int_equal(read_row(t, &p).switches, ABSENT);
    assert_int_equal(snap_threads_capped(t), 1);
}

static void too_many_processes_are_left_out_and_counted(void **state)
{
    const struct snap_gen_thread threads[] = {{.tid = 8, .switches = 50}};
    struct snap_gen_process p = {.created = born, .threads = threads, .n_threads = 1};
    struct snap_threads *t = *state;

    for (int i = 0; i < 2; i++) {
        snap_threads_begin(t);
        for (p.pid = 0; p.pid < 100; p.pid++) {
            assert_int_equal(read_row(t, &p).switches, 50);
        }
        assert_int_equal(read_row(t, &p).switches, ABSENT);
    }
    assert_int_equal(snap_threads_capped(t), 2);
}

static void every_allocation_may_fail(void **state)
{
    const struct snap_gen_thread threads[] = {{.tid = 8, .switches = 50}};
    const struct snap_gen_process p = {
        .pid = PID, .created = born, .threads = threads, .n_threads = 1};
    long live = mem_live();

    for (long n = 0; n < 6; n++) {
        struct snap_threads *t;
        struct snap_walk w;
        struct snap_row row;
        struct buf b;
        enum err e;

        buf_init(&b, BYTES);
        snap_gen_put(&b, BASE, false, &p, true);
        snap_rows_init(&w, b.p, b.n, BASE, false);
        assert_ok(snap_rows_next(&w, &row));
        mem_fail_after(n);
        e = snap_threads_create(&t, 100);
        if (e) {
            assert_int_equal(e, ERR_NOMEM);
        } else {
            (void)snap_threads_probe(t, &w);
            snap_threads_begin(t);
            snap_threads_row(t, &w, &row);
            assert_int_equal(snap_threads_capped(t), n < 4);
            assert_int_equal((row.mask & METRIC_BIT(M_CONTEXT_SWITCHES)) != 0, n >= 4);
            snap_threads_destroy(t);
        }
        mem_fail_after(-1);
        buf_fini(&b);
    }
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_got_time_or_switches_was_active, set_up, tear_down),
        cmocka_unit_test_setup_teardown(switches_of_ended_threads_stay_with_the_process, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_thread_number_used_again_is_another_thread, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_pid_used_again_begins_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(switches_go_on_where_32_bits_wrap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_may_change_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_of_one_number_are_told_apart_by_their_place, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_process_twice_in_an_answer_counts_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_systems_own_total_goes_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_the_system_counts_no_switches_they_are_absent, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(too_many_threads_are_left_out_and_counted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(all_threads_together_have_a_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_processes_are_left_out_and_counted, set_up,
                                        tear_down),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
