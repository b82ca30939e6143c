#include "tests/support/t.h"

#include "agent/lifecycle.h"
#include "common/mem.h"
#include "tests/agent/feed.h"

struct heard {
    struct life_event events[64];
    size_t n;
};

struct bench {
    struct ptable *table;
    struct lifecycle *life;
    struct heard heard;
};

static void hear(void *ctx, const struct life_event *ev)
{
    struct heard *h = ctx;

    assert_true(h->n < COUNT_OF(h->events));
    h->events[h->n++] = *ev;
}

static struct bench *bench_new(bool polled)
{
    static const struct ptable_conf table_conf = {
        .instances_max = 100, .threads_max = 1000, .text_max = 10000, .grace_ns = 10 * CLK_S};
    struct bench *b = mem_zalloc(sizeof *b);
    struct lifecycle_conf conf = {.polled = polled, .told = hear};

    assert_non_null(b);
    assert_ok(ptable_create(&b->table, &table_conf));
    conf.table = b->table;
    conf.ctx = &b->heard;
    assert_ok(lifecycle_create(&b->life, &conf));
    return b;
}

static void bench_free(struct bench *b)
{
    lifecycle_destroy(b->life);
    ptable_destroy(b->table);
    mem_free(b);
}

static struct ptable_proc *feed(struct bench *b, struct event ev)
{
    return lifecycle_event(b->life, &ev);
}

static void feed_rows(struct bench *b, int64_t ms, const struct snap_row *rows, size_t n)
{
    struct snapshot snap = feed_table(ms, rows, n);

    lifecycle_table_begin(b->life, &snap);
    for (size_t i = 0; i < n; i++) {
        (void)lifecycle_row(b->life, &snap, &rows[i]);
    }
    lifecycle_table_end(b->life, &snap);
    lifecycle_advance(b->life, snap.wall_ns, snap.mono_ns);
}

static size_t told(const struct bench *b, enum life_kind kind, uint32_t pid)
{
    size_t n = 0;

    for (size_t i = 0; i < b->heard.n; i++) {
        n += b->heard.events[i].kind == kind && b->heard.events[i].info.id.pid == pid;
    }
    return n;
}

static struct ptable_proc *owner_of(struct bench *b, uint32_t tid)
{
    struct event ev = feed_sample(0, tid, false);

    return lifecycle_thread_owner(b->life, tid, &ev);
}

/* -- events -- */

static void a_start_and_a_stop_are_told_once_with_what_is_known(void **state)
{
    struct bench *b = bench_new(false);
    struct event stop = feed_proc(EV_PROC_STOP, 20, 8, 0);

    (void)state;
    (void)feed(b, feed_proc(EV_PROC_START, 10, 8, 100));
    stop.u.proc.info.have = INFO_EXIT_CODE;
    stop.u.proc.info.exit_code = 7;
    (void)feed(b, stop);
    (void)feed(b, stop);
    assert_int_equal(b->heard.n, 2);
    assert_int_equal(b->heard.events[0].info.origin, ORIGIN_START);
    assert_int_equal(b->heard.events[0].info.create_ns, WALL0 + 10 * CLK_MS);
    assert_int_equal(b->heard.events[1].info.id.start, 100);
    assert_int_equal(b->heard.events[1].info.exit_code, 7);
    assert_int_equal(b->heard.events[1].info.exit_ns, WALL0 + 20 * CLK_MS);
    assert_int_equal(lifecycle_stats(b->life)->repeated, 1);
    bench_free(b);
}

static void a_second_start_event_updates_and_is_not_told(void **state)
{
    struct bench *b = bench_new(false);
    struct event ev = feed_proc(EV_PROC_START, 10, 8, 100);

    (void)state;
    (void)feed(b, ev);
    ev.u.proc.info.name = str_make("renamed");
    (void)feed(b, ev);
    assert_int_equal(b->heard.n, 1);
    assert_true(str_eq(ptable_owner(b->table, 8)->info.name, str_make("renamed")));
    bench_free(b);
}

static void a_reused_pid_ends_its_former_owner(void **state)
{
    struct bench *b = bench_new(false);

    (void)state;
    (void)feed(b, feed_proc(EV_PROC_START, 10, 8, 100));
    (void)feed(b, feed_proc(EV_PROC_START, 20, 8, 200));
    assert_int_equal(told(b, LIFE_PROCESS_START, 8), 2);
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), 1);
    assert_true(b->heard.events[1].info.have & INFO_EXIT_INFERRED);
    bench_free(b);
}

static void starts_without_identity_at_one_moment_are_told_apart(void **state)
{
    struct bench *b = bench_new(false);
    struct ptable_proc *first, *second, *third;

    (void)state;
    first = feed(b, feed_proc(EV_PROC_START, 10, 8, 0));
    second = feed(b, feed_proc(EV_PROC_START, 10, 8, 0));
    third = feed(b, feed_proc(EV_PROC_START, 10, 8, 0));
    assert_false(proc_id_eq(first->info.id, second->info.id));
    assert_false(proc_id_eq(second->info.id, third->info.id));
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), 2);
    bench_free(b);
}

static void the_parent_is_the_instance_that_had_the_pid_then(void **state)
{
    struct bench *b = bench_new(false);
    struct event child = feed_proc(EV_PROC_START, 30, 12, 300);

    (void)state;
    (void)feed(b, feed_proc(EV_PROC_START, 10, 8, 100));
    child.u.proc.info.have = INFO_PARENT;
    child.u.proc.info.parent_pid = 8;
    assert_int_equal(feed(b, child)->info.parent_start, 100);
    bench_free(b);
}

/* -- recordings -- */

static void who_has_no_start_record_lived_all_along(void **state)
{
    static const enum event_kind kinds[] = {EV_PROC_FOUND, EV_PROC_LAST, EV_PROC_STOP};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct bench *b = bench_new(false);

        (void)feed(b, feed_early(feed_proc(kinds[i], 5000, 8, 0)));
        assert_non_null(ptable_owner(b->table, 8));
        assert_int_equal(ptable_owner(b->table, 8)->info.origin, ORIGIN_RUNDOWN);
        assert_int_equal(ptable_owner(b->table, 8)->info.id.start, 0);
        (void)feed(b, feed_proc(kinds[i], 5000, 8, 0));
        assert_int_equal(told(b, LIFE_PROCESS_START, 8), 0);
        assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), kinds[i] == EV_PROC_STOP);
        bench_free(b);
    }
}

static void whose_first_record_is_a_start_did_not(void **state)
{
    struct bench *b = bench_new(false);

    (void)state;
    (void)feed(b, feed_early(feed_proc(EV_PROC_START, 100, 8, 100)));
    (void)feed(b, feed_early(feed_thread(EV_THREAD_START, 100, 8, 80)));
    (void)feed(b, feed_early(feed_proc(EV_PROC_LAST, 900, 8, 0)));
    (void)feed(b, feed_early(feed_thread(EV_THREAD_LAST, 900, 8, 80)));
    assert_null(ptable_owner(b->table, 8));
    assert_null(owner_of(b, 80));
    (void)feed(b, feed_proc(EV_PROC_START, 100, 8, 100));
    (void)feed(b, feed_thread(EV_THREAD_START, 100, 8, 80));
    assert_int_equal(owner_of(b, 80)->info.id.start, 100);
    assert_int_equal(owner_of(b, 80)->threads, 1);
    bench_free(b);
}

static void a_reused_tid_belongs_to_the_first_owner_until_the_second_starts_it(void **state)
{
    struct bench *b = bench_new(false);

    (void)state;
    (void)feed(b, feed_early(feed_thread(EV_THREAD_STOP, 300, 8, 80)));
    (void)feed(b, feed_early(feed_thread(EV_THREAD_START, 500, 12, 80)));
    (void)feed(b, feed_early(feed_proc(EV_PROC_LAST, 900, 8, 0)));
    (void)feed(b, feed_early(feed_proc(EV_PROC_LAST, 900, 12, 0)));
    assert_int_equal(owner_of(b, 80)->info.id.pid, 8);
    (void)feed(b, feed_thread(EV_THREAD_STOP, 300, 8, 80));
    assert_int_equal(owner_of(b, 80)->info.id.pid, 8);
    (void)feed(b, feed_thread(EV_THREAD_START, 500, 12, 80));
    assert_int_equal(owner_of(b, 80)->info.id.pid, 12);
    bench_free(b);
}

static void an_unknown_thread_has_no_owner_and_tid_0_is_idle(void **state)
{
    struct bench *b = bench_new(false);

    (void)state;
    assert_null(owner_of(b, 80));
    assert_int_equal(lifecycle_stats(b->life)->no_owner, 1);
    assert_int_equal(owner_of(b, 0)->info.id.pid, 0);
    bench_free(b);
}

static void a_defunct_process_is_neither_started_nor_stopped(void **state)
{
    struct bench *b = bench_new(false);

    (void)state;
    (void)feed(b, feed_early(feed_proc(EV_PROC_DEFUNCT, 5, 8, 0)));
    (void)feed(b, feed_proc(EV_PROC_DEFUNCT, 5, 8, 0));
    assert_int_equal(b->heard.n, 0);
    assert_null(ptable_owner(b->table, 8));
    bench_free(b);
}

static void image_and_thread_records_are_told_with_their_process(void **state)
{
    struct bench *b = bench_new(false);
    struct event load = feed_at(EV_IMAGE_LOAD, 20);

    (void)state;
    (void)feed(b, feed_proc(EV_PROC_START, 10, 8, 100));
    (void)feed(b, feed_thread(EV_THREAD_START, 11, 8, 80));
    load.u.image.pid = 8;
    load.u.image.path = str_make("a.dll");
    (void)feed(b, load);
    load.u.image.pid = 9;
    (void)feed(b, load);
    assert_int_equal(b->heard.n, 3);
    assert_int_equal(b->heard.events[1].kind, LIFE_THREAD_START);
    assert_int_equal(b->heard.events[1].tid, 80);
    assert_int_equal(b->heard.events[2].kind, LIFE_IMAGE_LOAD);
    assert_int_equal(b->heard.events[2].info.id.start, 100);
    assert_int_equal(lifecycle_stats(b->life)->no_owner, 1);
    bench_free(b);
}

/* -- tables -- */

static void two_tables_alone_tell_starts_and_stops_as_inferred(void **state)
{
    struct bench *b = bench_new(true);
    struct snap_row rows[] = {feed_row(8, 1, -9000), feed_row(9, 2, -8000), feed_row(10, 3, 1500)};

    (void)state;
    feed_rows(b, 1000, rows, 2);
    assert_int_equal(b->heard.n, 0);
    assert_int_equal(ptable_owner(b->table, 8)->info.origin, ORIGIN_SNAPSHOT);
    feed_rows(b, 2000, rows + 1, 2);
    assert_int_equal(b->heard.n, 2);
    assert_int_equal(told(b, LIFE_PROCESS_START, 10), 1);
    assert_int_equal(b->heard.events[0].wall_ns, WALL0 + 1500 * CLK_MS);
    assert_int_equal(b->heard.events[0].info.origin, ORIGIN_INFERRED);
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), 1);
    assert_true(b->heard.events[1].info.have & INFO_EXIT_INFERRED);
    assert_int_equal(b->heard.events[1].info.exit_ns, WALL0 + 2000 * CLK_MS);
    bench_free(b);
}

static void a_table_waits_for_the_events_and_tells_each_once(void **state)
{
    struct bench *b = bench_new(false);
    struct snap_row rows[] = {feed_row(8, 1, -9000), feed_row(10, 3, 1500)};

    (void)state;
    feed_rows(b, 1000, rows, 1);
    feed_rows(b, 2000, rows + 1, 1); /* 8 is gone, 10 is new: neither event is here yet */
    assert_int_equal(b->heard.n, 0);
    (void)feed(b, feed_proc(EV_PROC_START, 2100, 10, 3));
    (void)feed(b, feed_proc(EV_PROC_STOP, 2100, 8, 1));
    feed_rows(b, 3000, rows + 1, 1);
    feed_rows(b, 9000, rows + 1, 1);
    assert_int_equal(b->heard.n, 2);
    assert_int_equal(told(b, LIFE_PROCESS_START, 10), 1);
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), 1);
    assert_int_equal(lifecycle_stats(b->life)->inferred_starts, 0);
    assert_int_equal(lifecycle_stats(b->life)->inferred_stops, 0);
    assert_int_equal(ptable_owner(b->table, 10)->info.origin, ORIGIN_START);
    bench_free(b);
}

static void what_never_comes_is_inferred_after_the_wait(void **state)
{
    struct bench *b = bench_new(false);
    struct snap_row rows[] = {feed_row(8, 1, -9000), feed_row(10, 3, 1500)};
    struct event stop = feed_proc(EV_PROC_STOP, 4500, 8, 1);

    (void)state;
    feed_rows(b, 1000, rows, 1);
    feed_rows(b, 2000, rows + 1, 1);
    feed_rows(b, 4000, rows + 1, 1);
    assert_int_equal(lifecycle_stats(b->life)->inferred_starts, 1);
    assert_int_equal(lifecycle_stats(b->life)->inferred_stops, 1);
    assert_int_equal(ptable_owner(b->table, 8)->info.exit_ns, WALL0 + 2000 * CLK_MS);
    stop.u.proc.info.have = INFO_EXIT_CODE; /* the event after all: known exactly, not told again */
    (void)feed(b, stop);
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), 1);
    assert_false(ptable_owner(b->table, 8)->info.have & INFO_EXIT_INFERRED);
    bench_free(b);
}

static void an_incomplete_table_ends_nobody(void **state)
{
    struct bench *b = bench_new(true);
    struct snap_row row = feed_row(8, 1, -9000);
    struct snapshot snap = feed_table(2000, NULL, 0);

    (void)state;
    feed_rows(b, 1000, &row, 1);
    snap.complete = false;
    lifecycle_table_begin(b->life, &snap);
    lifecycle_table_end(b->life, &snap);
    assert_int_equal(b->heard.n, 0);
    bench_free(b);
}

static void a_row_older_than_the_agent_is_not_a_start(void **state)
{
    struct bench *b = bench_new(true);
    struct snap_row rows[] = {feed_row(8, 1, -9000), feed_row(9, 2, -8000)};

    (void)state;
    feed_rows(b, 1000, rows, 1);
    feed_rows(b, 2000, rows, 2); /* the first table had no room for it */
    assert_int_equal(b->heard.n, 0);
    assert_int_equal(ptable_owner(b->table, 9)->info.origin, ORIGIN_SNAPSHOT);
    assert_false(ptable_owner(b->table, 9)->life.from_start);
    bench_free(b);
}

static void a_stop_without_start_tells_the_start_first(void **state)
{
    struct bench *b = bench_new(false);
    struct snap_row row = feed_row(8, 1, -9000);
    struct event stop = feed_proc(EV_PROC_STOP, 1600, 12, 5);

    (void)state;
    feed_rows(b, 1000, &row, 1);
    stop.u.proc.info.have = INFO_CREATE_TIME;
    stop.u.proc.info.create_ns = WALL0 + 1500 * CLK_MS;
    (void)feed(b, stop);
    assert_int_equal(b->heard.n, 2);
    assert_int_equal(b->heard.events[0].kind, LIFE_PROCESS_START);
    assert_int_equal(b->heard.events[0].wall_ns, WALL0 + 1500 * CLK_MS);
    assert_int_equal(b->heard.events[1].kind, LIFE_PROCESS_STOP);
    bench_free(b);
}

static void a_full_table_of_instances_loses_rows_and_counts_them(void **state)
{
    struct bench *b = bench_new(true);
    struct snap_row rows[120];

    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(rows); i++) {
        rows[i] = feed_row(i + 1, i + 1, -9000);
    }
    feed_rows(b, 1000, rows, COUNT_OF(rows));
    assert_int_equal(ptable_stats(b->table)->running, 100);
    assert_int_equal(ptable_stats(b->table)->full, 20);
    bench_free(b);
}

static void creation_survives_every_failing_allocation(void **state)
{
    struct lifecycle_conf conf = {.told = hear};
    struct lifecycle *l = NULL;
    long before = mem_live(), n = 0;

    (void)state;
    for (mem_fail_after(n); lifecycle_create(&l, &conf); mem_fail_after(++n)) {
        assert_int_equal(mem_live(), before);
    }
    mem_fail_after(-1);
    assert_true(n >= 3);
    lifecycle_destroy(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_and_a_stop_are_told_once_with_what_is_known),
        cmocka_unit_test(a_second_start_event_updates_and_is_not_told),
        cmocka_unit_test(a_reused_pid_ends_its_former_owner),
        cmocka_unit_test(starts_without_identity_at_one_moment_are_told_apart),
        cmocka_unit_test(the_parent_is_the_instance_that_had_the_pid_then),
        cmocka_unit_test(who_has_no_start_record_lived_all_along),
        cmocka_unit_test(whose_first_record_is_a_start_did_not),
        cmocka_unit_test(a_reused_tid_belongs_to_the_first_owner_until_the_second_starts_it),
        cmocka_unit_test(an_unknown_thread_has_no_owner_and_tid_0_is_idle),
        cmocka_unit_test(a_defunct_process_is_neither_started_nor_stopped),
        cmocka_unit_test(image_and_thread_records_are_told_with_their_process),
        cmocka_unit_test(two_tables_alone_tell_starts_and_stops_as_inferred),
        cmocka_unit_test(a_table_waits_for_the_events_and_tells_each_once),
        cmocka_unit_test(what_never_comes_is_inferred_after_the_wait),
        cmocka_unit_test(an_incomplete_table_ends_nobody),
        cmocka_unit_test(a_row_older_than_the_agent_is_not_a_start),
        cmocka_unit_test(a_stop_without_start_tells_the_start_first),
        cmocka_unit_test(a_full_table_of_instances_loses_rows_and_counts_them),
        cmocka_unit_test(creation_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
