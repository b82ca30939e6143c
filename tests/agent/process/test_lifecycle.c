#include "tests/support/t.h"

#include "agent/process/lifecycle.h"
#include "common/base/mem.h"
#include "tests/agent/feed.h"

struct heard {
    struct life_event events[64];
    size_t n;
};

struct bench {
    struct instances *table;
    struct lifecycle *life;
    struct heard heard;
};

static void hear(void *ctx, const struct life_event *ev)
{
    struct heard *h = ctx;

    assert_true(h->n < COUNT_OF(h->events));
    h->events[h->n++] = *ev;
}

static void count_told(void *ctx, const struct life_event *ev)
{
    struct heard *h = ctx;

    (void)ev;
    h->n++;
}

static struct bench *bench_new(bool polled)
{
    static const struct instances_conf table_conf = {
        .instances_max = 100, .threads_max = 1000, .text_max = 10000, .grace_ns = 10 * CLK_S};
    struct bench *b = mem_zalloc(sizeof *b);
    struct lifecycle_conf conf = {.polled = polled, .told = hear};

    assert_non_null(b);
    assert_ok(instances_create(&b->table, &table_conf));
    conf.table = b->table;
    conf.ctx = &b->heard;
    assert_ok(lifecycle_create(&b->life, &conf));
    return b;
}

static void bench_free(struct bench *b)
{
    lifecycle_destroy(b->life);
    instances_destroy(b->table);
    mem_free(b);
}

static struct instance *feed(struct bench *b, struct event ev)
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

static struct instance *owner_of(struct bench *b, uint32_t tid)
{
    struct event ev = feed_sample(0, tid, false);

    return lifecycle_thread_owner(b->life, tid, &ev);
}

/* -- events -- */

static void a_start_and_a_stop_are_told_once_with_what_is_known(void **state)
{
    struct bench *b = bench_new(false);
    struct event stop = feed_proc(EV_PROC_STOP, 20, 8, 0);

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

    (void)feed(b, ev);
    ev.u.proc.info.name = str_make("renamed");
    (void)feed(b, ev);
    assert_int_equal(b->heard.n, 1);
    assert_true(str_eq(instances_owner(b->table, 8)->info.name, str_make("renamed")));
    bench_free(b);
}

static void a_reused_pid_ends_its_former_owner(void **state)
{
    struct bench *b = bench_new(false);

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
    struct instance *first, *second, *third;

    first = feed(b, feed_proc(EV_PROC_START, 10, 8, 0));
    second = feed(b, feed_proc(EV_PROC_START, 10, 8, 0));
    third = feed(b, feed_proc(EV_PROC_START, 10, 8, 0));
    assert_false(proc_id_eq(first->info.id, second->info.id));
    assert_false(proc_id_eq(second->info.id, third->info.id));
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), 2);
    bench_free(b);
}

static void a_thread_of_a_process_nobody_knows_has_no_owner(void **state)
{
    struct bench *b = bench_new(false);

    (void)feed(b, feed_proc(EV_PROC_START, 10, 8, 100));
    (void)feed(b, feed_thread(EV_THREAD_START, 10, 8, 80));
    (void)feed(b, feed_thread(EV_THREAD_STOP, 20, 8, 80));
    assert_int_equal(owner_of(b, 80)->info.id.pid, 8);
    (void)feed(b, feed_thread(EV_THREAD_START, 30, 12, 80)); /* the start of 12 was lost */
    assert_null(owner_of(b, 80));
    assert_int_equal(instances_owner(b->table, 8)->threads, 0);
    (void)feed(b, feed_thread(EV_THREAD_START, 40, 8, 84));
    (void)feed(b, feed_thread(EV_THREAD_START, 50, 12, 84)); /* so was the end of 84 */
    assert_null(owner_of(b, 84));
    assert_int_equal(instances_owner(b->table, 8)->threads, 0);
    bench_free(b);
}

static void an_instance_without_room_leaves_its_pid_to_nobody(void **state)
{
    struct bench *b = bench_new(false);
    struct event ev = feed_sample(20, 1, false);

    b->heard.n = 0;
    for (uint32_t pid = 1; pid <= 25; pid++) { /* of 100 instances */
        for (int k = 0; k < 4; k++) {
            (void)feed(b, feed_proc(EV_PROC_START, 10 + k, pid, 0));
            b->heard.n = 0;
        }
    }
    assert_int_equal(lifecycle_process(b->life, 8, &ev)->info.id.pid, 8);
    assert_null(feed(b, feed_proc(EV_PROC_START, 20, 8, 0)));
    assert_null(lifecycle_process(b->life, 8, &ev));
    bench_free(b);
}

static void a_pid_that_starts_again_and_again_takes_bounded_time(void **state)
{
    static const struct instances_conf conf = {
        .instances_max = 65536, .threads_max = 10, .text_max = 10, .grace_ns = INT64_MAX};
    struct bench *b = mem_zalloc(sizeof *b);
    struct lifecycle_conf life = {.told = count_told};

    assert_ok(instances_create(&b->table, &conf));
    life.table = b->table;
    life.ctx = &b->heard;
    assert_ok(lifecycle_create(&b->life, &life));
    for (uint32_t i = 0; i < 20000; i++) {
        (void)feed(b, feed_proc(EV_PROC_START, 10, 8, 0));
    }
    assert_int_equal(instances_stats(b->table)->instances, INSTANCES_SAME_PID_MAX);
    assert_int_equal(instances_stats(b->table)->full, 20000 - INSTANCES_SAME_PID_MAX);
    bench_free(b);
}

static void the_parent_is_the_instance_that_had_the_pid_then(void **state)
{
    struct bench *b = bench_new(false);
    struct event child = feed_proc(EV_PROC_START, 30, 12, 300);

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

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct bench *b = bench_new(false);

        (void)feed(b, feed_early(feed_proc(kinds[i], 5000, 8, 0)));
        assert_non_null(instances_owner(b->table, 8));
        assert_int_equal(instances_owner(b->table, 8)->info.origin, ORIGIN_RUNDOWN);
        assert_int_equal(instances_owner(b->table, 8)->info.id.start, 0);
        (void)feed(b, feed_proc(kinds[i], 5000, 8, 0));
        assert_int_equal(told(b, LIFE_PROCESS_START, 8), 0);
        assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), kinds[i] == EV_PROC_STOP);
        bench_free(b);
    }
}

static void whose_first_record_is_a_start_did_not(void **state)
{
    struct bench *b = bench_new(false);

    (void)feed(b, feed_early(feed_proc(EV_PROC_START, 100, 8, 100)));
    (void)feed(b, feed_early(feed_thread(EV_THREAD_START, 100, 8, 80)));
    (void)feed(b, feed_early(feed_proc(EV_PROC_LAST, 900, 8, 0)));
    (void)feed(b, feed_early(feed_thread(EV_THREAD_LAST, 900, 8, 80)));
    assert_null(instances_owner(b->table, 8));
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

    assert_null(owner_of(b, 80));
    assert_int_equal(lifecycle_stats(b->life)->no_owner, 1);
    assert_int_equal(owner_of(b, 0)->info.id.pid, 0);
    bench_free(b);
}

static void a_defunct_process_is_neither_started_nor_stopped(void **state)
{
    struct bench *b = bench_new(false);

    (void)feed(b, feed_early(feed_proc(EV_PROC_DEFUNCT, 5, 8, 0)));
    (void)feed(b, feed_proc(EV_PROC_DEFUNCT, 5, 8, 0));
    assert_int_equal(b->heard.n, 0);
    assert_null(instances_owner(b->table, 8));
    bench_free(b);
}

static void image_and_thread_records_are_told_with_their_process(void **state)
{
    struct bench *b = bench_new(false);
    struct event load = feed_at(EV_IMAGE_LOAD, 20);

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

static void where_nothing_tells_of_processes_a_number_is_an_instance(void **state)
{
    struct bench *b = bench_new(false);
    struct event load = feed_at(EV_IMAGE_LOAD, 20);

    load.u.image.pid = EVENT_NO_ID;
    assert_null(feed(b, load));
    load.u.image.pid = 9;
    assert_int_equal(feed(b, load)->info.origin, ORIGIN_UNKNOWN);
    (void)feed(b, feed_proc(EV_PROC_START, 30, 8, 100));
    load.u.image.pid = 12; /* now that they are told of, an untold one is unknown */
    assert_null(feed(b, load));
    assert_int_equal(lifecycle_stats(b->life)->no_owner, 2);
    bench_free(b);
}

/* -- tables -- */

static void two_tables_alone_tell_starts_and_stops_as_inferred(void **state)
{
    struct bench *b = bench_new(true);
    struct snap_row rows[] = {feed_row(8, 1, -9000), feed_row(9, 2, -8000), feed_row(10, 3, 1500)};

    feed_rows(b, 1000, rows, 2);
    assert_int_equal(b->heard.n, 0);
    assert_int_equal(instances_owner(b->table, 8)->info.origin, ORIGIN_SNAPSHOT);
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
    assert_int_equal(instances_owner(b->table, 10)->info.origin, ORIGIN_START);
    bench_free(b);
}

static void what_never_comes_is_inferred_after_the_wait(void **state)
{
    struct bench *b = bench_new(false);
    struct snap_row rows[] = {feed_row(8, 1, -9000), feed_row(10, 3, 1500)};
    struct event stop = feed_proc(EV_PROC_STOP, 4500, 8, 1);

    feed_rows(b, 1000, rows, 1);
    feed_rows(b, 2000, rows + 1, 1);
    feed_rows(b, 4000, rows + 1, 1);
    assert_int_equal(lifecycle_stats(b->life)->inferred_starts, 1);
    assert_int_equal(lifecycle_stats(b->life)->inferred_stops, 1);
    assert_int_equal(instances_owner(b->table, 8)->info.exit_ns, WALL0 + 2000 * CLK_MS);
    stop.u.proc.info.have = INFO_EXIT_CODE; /* the event after all: known exactly, not told again */
    (void)feed(b, stop);
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), 1);
    assert_false(instances_owner(b->table, 8)->info.have & INFO_EXIT_INFERRED);
    bench_free(b);
}

/* How long an end is remembered must not hang on it: those behind it would be, too. */
static void a_clock_that_is_set_moves_no_inferred_end(void **state)
{
    static const int64_t hours[] = {0, -1, 1};

    for (size_t i = 0; i < COUNT_OF(hours); i++) {
        struct bench *b = bench_new(false);
        struct snap_row row = feed_row(8, 100, 0);
        int64_t due_ns = 20 * CLK_MS + LIFECYCLE_WAIT_NS;

        feed_rows(b, 10, &row, 1);
        feed_rows(b, 20, NULL, 0);
        lifecycle_advance(b->life, WALL0 + due_ns + hours[i] * 3600 * CLK_S, due_ns);
        assert_int_equal(b->heard.n, 1);
        assert_int_equal(b->heard.events[0].mono_ns, 20 * CLK_MS);
        assert_int_equal(b->heard.events[0].wall_ns, WALL0 + 20 * CLK_MS);
        assert_int_equal(instances_owner(b->table, 8)->end_mono_ns, 20 * CLK_MS);
        bench_free(b);
    }
}

static void an_incomplete_table_ends_nobody(void **state)
{
    struct bench *b = bench_new(true);
    struct snap_row row = feed_row(8, 1, -9000);
    struct snapshot snap = feed_table(2000, NULL, 0);

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

    feed_rows(b, 1000, rows, 1);
    feed_rows(b, 2000, rows, 2); /* the first table had no room for it */
    assert_int_equal(b->heard.n, 0);
    assert_int_equal(instances_owner(b->table, 9)->info.origin, ORIGIN_SNAPSHOT);
    assert_false(instances_owner(b->table, 9)->life.from_start);
    bench_free(b);
}

static void texts_of_a_row_are_compared_when_its_version_is_another_or_none(void **state)
{
    struct bench *b = bench_new(true);
    struct snap_row row = feed_row(8, 1, -9000);
    const struct proc_id id = row.info.id;

    row.info.name = str_make("old");
    row.info_version = 7;
    feed_rows(b, 1000, &row, 1);
    feed_rows(b, 2000, &row, 1);
    row.info.name = str_make("new");
    feed_rows(b, 3000, &row, 1);
    assert_true(str_eq(instances_find(b->table, id)->info.name, str_make("old")));
    row.info_version = 8;
    feed_rows(b, 4000, &row, 1);
    assert_true(str_eq(instances_find(b->table, id)->info.name, str_make("new")));
    row.info.name = str_make("newer"); /* as if it had had no room before */
    feed_rows(b, 5000, &row, 1);
    assert_true(str_eq(instances_find(b->table, id)->info.name, str_make("newer")));
    row.info_version = 0;
    row.info.name = str_make("newes");
    feed_rows(b, 6000, &row, 1);
    assert_true(str_eq(instances_find(b->table, id)->info.name, str_make("newes")));
    bench_free(b);
}

static void a_stop_without_start_tells_the_start_first(void **state)
{
    struct bench *b = bench_new(false);
    struct snap_row row = feed_row(8, 1, -9000);
    struct event stop = feed_proc(EV_PROC_STOP, 1600, 12, 5);

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

    for (uint32_t i = 0; i < COUNT_OF(rows); i++) {
        rows[i] = feed_row(i + 1, i + 1, -9000);
    }
    feed_rows(b, 1000, rows, COUNT_OF(rows));
    assert_int_equal(instances_stats(b->table)->running, 100);
    assert_int_equal(instances_stats(b->table)->full, 20);
    bench_free(b);
}

/* -- two providers -- */

/* A record of the manifest provider: the exact creation is `created_ms`. */
static struct event feed_manifest(enum event_kind kind, int64_t ms, uint32_t pid,
                                  int64_t created_ms)
{
    struct event ev = feed_proc(kind, ms, pid, clk_to_filetime(WALL0 + created_ms * CLK_MS));

    ev.u.proc.manifest = true;
    ev.u.proc.info.have = INFO_CREATE_TIME;
    ev.u.proc.info.create_ns = WALL0 + created_ms * CLK_MS;
    ev.u.proc.info.image = str_make("/path/app");
    return ev;
}

static struct event feed_classic(enum event_kind kind, int64_t ms, uint32_t pid)
{
    bool start = kind == EV_PROC_START;
    struct event ev = feed_proc(kind, ms, pid, start ? clk_to_filetime(WALL0 + ms * CLK_MS) : 0);

    ev.u.proc.info.have = start ? INFO_COMMAND_LINE_KNOWN : INFO_EXIT_CODE;
    ev.u.proc.info.exit_code = start ? 0 : 7;
    ev.u.proc.info.command_line = str_make(start ? "app --now" : "");
    return ev;
}

/* Both providers have spoken. */
static struct bench *bench_of_two(void)
{
    struct bench *b = bench_new(false);

    (void)feed(b, feed_early(feed_classic(EV_PROC_FOUND, 0, 4)));
    (void)feed(b, feed_early(feed_manifest(EV_PROC_FOUND, 0, 4, -9000)));
    return b;
}

static void advance(struct bench *b, int64_t ms)
{
    lifecycle_advance(b->life, WALL0 + ms * CLK_MS, ms * CLK_MS);
}

static void check_merged(const struct bench *b, int64_t start_ms)
{
    const struct life_event *start = &b->heard.events[0], *stop = &b->heard.events[1];

    assert_int_equal(b->heard.n, 2);
    assert_int_equal(start->kind, LIFE_PROCESS_START);
    assert_int_equal(start->wall_ns, WALL0 + start_ms * CLK_MS);
    assert_int_equal(start->info.create_ns, WALL0 + 10 * CLK_MS);
    assert_int_equal(start->info.id.start, clk_to_filetime(WALL0 + 10 * CLK_MS));
    assert_true(start->info.have & INFO_COMMAND_LINE_KNOWN);
    assert_false(start->info.have & (INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE));
    assert_int_equal(stop->kind, LIFE_PROCESS_STOP);
    assert_true(proc_id_eq(stop->info.id, start->info.id));
    assert_int_equal(stop->info.exit_code, 7);
    assert_int_equal(stop->info.exit_ns, WALL0 + 50 * CLK_MS);
    assert_true(stop->info.have & INFO_FINAL_TOTALS);
    assert_int_equal(lifecycle_stats(b->life)->unpaired, 0);
    assert_int_equal(lifecycle_stats(b->life)->repeated, 0);
}

static void the_two_halves_of_a_start_and_of_a_stop_are_told_as_one(void **state)
{
    struct event start[] = {feed_manifest(EV_PROC_START, 11, 8, 10),
                            feed_classic(EV_PROC_START, 12, 8)};
    struct event stop[] = {feed_manifest(EV_PROC_STOP, 51, 8, 10),
                           feed_classic(EV_PROC_STOP, 52, 8)};

    stop[0].u.proc.info.have |= INFO_EXIT_TIME;
    stop[0].u.proc.info.exit_ns = WALL0 + 50 * CLK_MS;
    stop[0].u.proc.totals_mask = METRIC_BIT(M_CPU_CYCLES);
    for (size_t order = 0; order < 4; order++) {
        struct bench *b = bench_of_two();

        (void)feed(b, start[order & 1]);
        assert_int_equal(b->heard.n, 0);
        (void)feed(b, start[~order & 1]);
        assert_int_equal(b->heard.n, 1);
        (void)feed(b, stop[order >> 1]);
        assert_int_equal(b->heard.n, 1);
        assert_non_null(feed(b, stop[~order >> 1 & 1]));
        check_merged(b, order & 1 ? 12 : 11);
        advance(b, 9000);
        lifecycle_finish(b->life);
        assert_int_equal(b->heard.n, 2);
        bench_free(b);
    }
}

static void a_half_alone_is_told_after_the_wait_and_counted(void **state)
{
    struct bench *b = bench_of_two();

    (void)feed(b, feed_classic(EV_PROC_START, 10, 8));
    (void)feed(b, feed_manifest(EV_PROC_START, 20, 12, 20));
    advance(b, 2009);
    assert_int_equal(b->heard.n, 0);
    advance(b, 2010);
    assert_int_equal(told(b, LIFE_PROCESS_START, 8), 1);
    assert_int_equal(b->heard.n, 1);
    lifecycle_finish(b->life); /* the end of the stream ends all waiting */
    assert_int_equal(told(b, LIFE_PROCESS_START, 12), 1);
    assert_int_equal(lifecycle_stats(b->life)->unpaired, 2);
    (void)feed(b, feed_classic(EV_PROC_START, 21, 12)); /* late: joined, not told again */
    assert_int_equal(b->heard.n, 2);
    assert_int_equal(lifecycle_stats(b->life)->repeated, 0);
    bench_free(b);
}

static void halves_too_far_apart_are_two_processes(void **state)
{
    struct bench *b = bench_of_two();

    (void)feed(b, feed_manifest(EV_PROC_START, 10, 8, 10));
    (void)feed(b, feed_classic(EV_PROC_START, 2010, 8));
    lifecycle_finish(b->life);
    assert_int_equal(told(b, LIFE_PROCESS_START, 8), 2);
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), 1);
    assert_int_equal(lifecycle_stats(b->life)->unpaired, 2);
    bench_free(b);
}

static void an_end_between_two_halves_makes_two_processes(void **state)
{
    struct bench *b = bench_of_two();

    (void)feed(b, feed_classic(EV_PROC_START, 10, 8));
    (void)feed(b, feed_classic(EV_PROC_STOP, 20, 8));
    (void)feed(b, feed_manifest(EV_PROC_START, 30, 8, 30));
    lifecycle_finish(b->life);
    assert_int_equal(told(b, LIFE_PROCESS_START, 8), 2);
    assert_int_equal(b->heard.events[1].kind, LIFE_PROCESS_STOP); /* in order */
    bench_free(b);
}

static void one_providers_records_of_a_whole_life_may_come_first(void **state)
{
    struct bench *b = bench_of_two();
    struct event stop = feed_manifest(EV_PROC_STOP, 30, 8, 10);

    stop.u.proc.info.have |= INFO_EXIT_TIME;
    stop.u.proc.info.exit_ns = WALL0 + 30 * CLK_MS;
    (void)feed(b, feed_manifest(EV_PROC_START, 10, 8, 10));
    (void)feed(b, stop);
    (void)feed(b, feed_classic(EV_PROC_START, 11, 8));
    (void)feed(b, feed_classic(EV_PROC_STOP, 31, 8));
    assert_int_equal(b->heard.n, 2);
    assert_int_equal(lifecycle_stats(b->life)->unpaired, 0);
    bench_free(b);
}

static void one_provider_alone_is_told_at_once(void **state)
{
    struct bench *b = bench_new(false);

    (void)feed(b, feed_manifest(EV_PROC_START, 10, 8, 10));
    (void)feed(b, feed_manifest(EV_PROC_STOP, 20, 8, 10));
    assert_int_equal(b->heard.n, 2);
    assert_int_equal(lifecycle_stats(b->life)->unpaired, 0);
    bench_free(b);
}

static void a_manifest_stop_ends_the_instance_that_classic_records_know(void **state)
{
    struct bench *b = bench_new(false);
    struct instance *p;

    (void)feed(b, feed_early(feed_classic(EV_PROC_FOUND, 0, 8))); /* lived all along */
    p = feed(b, feed_manifest(EV_PROC_STOP, 50, 8, -9000));
    (void)feed(b, feed_classic(EV_PROC_STOP, 51, 8));
    assert_ptr_equal(p, instances_owner(b->table, 8));
    assert_null(p->older);
    assert_int_equal(p->info.create_ns, WALL0 - 9000 * CLK_MS);
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), 1);
    assert_int_equal(told(b, LIFE_PROCESS_START, 8), 0);
    bench_free(b);
}

static void more_waiting_halves_than_there_is_room_for_are_told_early(void **state)
{
    struct bench *b = mem_zalloc(sizeof *b);
    static const struct instances_conf table_conf = {
        .instances_max = 4096, .threads_max = 10, .text_max = 100000, .grace_ns = 0};
    struct lifecycle_conf conf = {.told = count_told, .ctx = &b->heard};

    assert_ok(instances_create(&b->table, &table_conf));
    conf.table = b->table;
    assert_ok(lifecycle_create(&b->life, &conf));
    (void)feed(b, feed_early(feed_classic(EV_PROC_FOUND, 0, 4)));
    (void)feed(b, feed_early(feed_manifest(EV_PROC_FOUND, 0, 4, -9000)));
    for (uint32_t i = 0; i < 1500; i++) {
        (void)feed(b, feed_classic(EV_PROC_START, 10, 8 + i * 4));
    }
    assert_int_equal(b->heard.n, 1500 - 1024);
    lifecycle_finish(b->life);
    assert_int_equal(b->heard.n, 1500);
    bench_free(b);
}

static void row_of(struct bench *b, int64_t ms, uint32_t pid, int64_t created_ms, uint64_t sequence)
{
    struct snap_row row = feed_row(pid, clk_to_filetime(WALL0 + created_ms * CLK_MS), created_ms);

    row.info.sequence = sequence;
    feed_rows(b, ms, &row, 1);
}

static void check_once(const struct bench *b, const char *order, int off)
{
    size_t starts = told(b, LIFE_PROCESS_START, 8), stops = told(b, LIFE_PROCESS_STOP, 8);

    if (starts != 1 || stops != 1) {
        fail_msg("order %s, off by %d: %d starts, %d stops", order, off, (int)starts, (int)stops);
    }
    for (size_t i = 0; i < b->heard.n; i++) {
        const struct life_event *ev = &b->heard.events[i];

        assert_true(ev->info.id.pid != 8 || !(ev->info.have & INFO_EXIT_INFERRED));
        assert_true(ev->info.id.pid != 8 || ev->info.origin == ORIGIN_START);
    }
    assert_int_equal(lifecycle_stats(b->life)->unpaired, 0);
}

/* Kernel records still have the time of before, what the system says of creations the new one. */
static void a_clock_that_is_set_by_ten_seconds_splits_no_process(void **state)
{
    static const char *const orders[] = {"cmtMC", "mctCM", "ctmMC", "tcmCM", "tmcMC", "cmMCt"};

    for (int sign = -1; sign <= 1; sign += 2) {
        int64_t created = 10 + sign * 10000;

        for (size_t i = 0; i < COUNT_OF(orders); i++) {
            struct bench *b = bench_of_two();

            feed_rows(b, 1, NULL, 0);
            for (const char *what = orders[i]; *what; what++) {
                switch (*what) {
                case 'c':
                    (void)feed(b, feed_classic(EV_PROC_START, 10, 8));
                    break;
                case 'm':
                    (void)feed(b, feed_manifest(EV_PROC_START, 11, 8, created));
                    break;
                case 't':
                    row_of(b, 40, 8, created, 0);
                    break;
                case 'C':
                    (void)feed(b, feed_classic(EV_PROC_STOP, 50, 8));
                    break;
                default:
                    (void)feed(b, feed_manifest(EV_PROC_STOP, 51, 8, created));
                }
            }
            advance(b, 20000);
            check_once(b, orders[i], 10 * sign);
            bench_free(b);
        }
    }
}

/* Whatever a table and a record say of its creation: the number of its start is the same. */
static void the_number_of_its_start_is_an_identity_without_clocks(void **state)
{
    static const int64_t off_ms[] = {-10000, -1, 1, 10000};

    for (size_t i = 0; i < COUNT_OF(off_ms); i++) {
        for (int table_first = 0; table_first < 2; table_first++) {
            struct bench *b = bench_of_two();
            struct event start = feed_manifest(EV_PROC_START, 11, 8, 10);
            struct event stop = feed_manifest(EV_PROC_STOP, 51, 8, 10);

            start.u.proc.info.sequence = stop.u.proc.info.sequence = 4711;
            feed_rows(b, 1, NULL, 0);
            if (table_first) {
                row_of(b, 15, 8, 10 + off_ms[i], 4711);
            }
            (void)feed(b, feed_classic(EV_PROC_START, 10, 8));
            (void)feed(b, start);
            row_of(b, 30, 8, 10 + off_ms[i], 4711);
            (void)feed(b, feed_classic(EV_PROC_STOP, 50, 8));
            (void)feed(b, stop);
            row_of(b, 60, 8, 10 + off_ms[i], 4711); /* it is listed still */
            advance(b, 20000);
            check_once(b, table_first ? "tcmtCMt" : "cmtCMt", (int)off_ms[i]);
            bench_free(b);
        }
    }
}

/* Near in time, but not the same start. */
static void other_numbers_are_other_processes(void **state)
{
    struct bench *b = bench_new(false);
    struct event start = feed_manifest(EV_PROC_START, 20, 8, 20);

    start.u.proc.info.sequence = 2;
    feed_rows(b, 1, NULL, 0);
    row_of(b, 10, 8, 9, 1);
    (void)feed(b, start);
    row_of(b, 30, 8, 20, 2);
    advance(b, 20000);
    assert_int_equal(told(b, LIFE_PROCESS_START, 8), 2);
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 8), 1);
    bench_free(b);
}

static void creation_survives_every_failing_allocation(void **state)
{
    struct lifecycle_conf conf = {.told = hear};
    struct lifecycle *l = NULL;
    long before = mem_live(), n = 0;

    for (mem_fail_after(n); lifecycle_create(&l, &conf); mem_fail_after(++n)) {
        assert_int_equal(mem_live(), before);
    }
    mem_fail_after(-1);
    assert_true(n >= 3);
    lifecycle_destroy(l);
}

static void a_start_that_the_first_table_shows_is_told_by_its_record(void **state)
{
    struct snap_row rows[] = {feed_row(8, 80, -60000), feed_row(12, 120, -100)};
    struct bench *b = bench_new(false);

    feed_rows(b, 0, rows, 2);
    (void)feed(b, feed_proc(EV_PROC_START, -90, 12, 120));
    (void)feed(b, feed_proc(EV_PROC_START, 10, 8, 80)); /* its program changed, perhaps */
    assert_int_equal(b->heard.n, 1);
    assert_int_equal(told(b, LIFE_PROCESS_START, 12), 1);
    assert_int_equal(b->heard.events[0].info.origin, ORIGIN_START);
    bench_free(b);
}

static void polling_may_begin_and_end_while_it_runs(void **state)
{
    struct snap_row rows[] = {feed_row(4, 40, -60000), feed_row(8, 80, 900),
                              feed_row(12, 120, 1900), feed_row(16, 160, 3900)};
    struct bench *b = bench_new(false);

    feed_rows(b, 0, rows, 1);
    feed_rows(b, 1000, rows, 2);
    assert_int_equal(b->heard.n, 0); /* its start record may come yet */
    lifecycle_set_polled(b->life, true);
    feed_rows(b, 2000, rows, 3);
    assert_int_equal(told(b, LIFE_PROCESS_START, 12), 1);
    assert_int_equal(told(b, LIFE_PROCESS_START, 8), 0);
    feed_rows(b, 3000, rows, 2);
    assert_int_equal(told(b, LIFE_PROCESS_STOP, 12), 1);
    assert_int_equal(told(b, LIFE_PROCESS_START, 8), 1); /* its time is over */
    lifecycle_set_polled(b->life, false);
    rows[2] = rows[3];
    feed_rows(b, 4000, rows, 3);
    assert_int_equal(told(b, LIFE_PROCESS_START, 16), 0);
    (void)feed(b, feed_proc(EV_PROC_START, 4100, 16, 160));
    feed_rows(b, 7000, rows, 3);
    assert_int_equal(told(b, LIFE_PROCESS_START, 16), 1);
    assert_int_equal(lifecycle_stats(b->life)->starts, 3);
    assert_int_equal(lifecycle_stats(b->life)->stops, 1);
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_and_a_stop_are_told_once_with_what_is_known),
        cmocka_unit_test(a_second_start_event_updates_and_is_not_told),
        cmocka_unit_test(a_reused_pid_ends_its_former_owner),
        cmocka_unit_test(starts_without_identity_at_one_moment_are_told_apart),
        cmocka_unit_test(a_thread_of_a_process_nobody_knows_has_no_owner),
        cmocka_unit_test(an_instance_without_room_leaves_its_pid_to_nobody),
        cmocka_unit_test(a_pid_that_starts_again_and_again_takes_bounded_time),
        cmocka_unit_test(the_parent_is_the_instance_that_had_the_pid_then),
        cmocka_unit_test(who_has_no_start_record_lived_all_along),
        cmocka_unit_test(whose_first_record_is_a_start_did_not),
        cmocka_unit_test(a_reused_tid_belongs_to_the_first_owner_until_the_second_starts_it),
        cmocka_unit_test(an_unknown_thread_has_no_owner_and_tid_0_is_idle),
        cmocka_unit_test(a_defunct_process_is_neither_started_nor_stopped),
        cmocka_unit_test(image_and_thread_records_are_told_with_their_process),
        cmocka_unit_test(where_nothing_tells_of_processes_a_number_is_an_instance),
        cmocka_unit_test(two_tables_alone_tell_starts_and_stops_as_inferred),
        cmocka_unit_test(a_table_waits_for_the_events_and_tells_each_once),
        cmocka_unit_test(what_never_comes_is_inferred_after_the_wait),
        cmocka_unit_test(a_clock_that_is_set_moves_no_inferred_end),
        cmocka_unit_test(an_incomplete_table_ends_nobody),
        cmocka_unit_test(a_row_older_than_the_agent_is_not_a_start),
        cmocka_unit_test(texts_of_a_row_are_compared_when_its_version_is_another_or_none),
        cmocka_unit_test(a_stop_without_start_tells_the_start_first),
        cmocka_unit_test(a_full_table_of_instances_loses_rows_and_counts_them),
        cmocka_unit_test(the_two_halves_of_a_start_and_of_a_stop_are_told_as_one),
        cmocka_unit_test(a_half_alone_is_told_after_the_wait_and_counted),
        cmocka_unit_test(halves_too_far_apart_are_two_processes),
        cmocka_unit_test(an_end_between_two_halves_makes_two_processes),
        cmocka_unit_test(one_providers_records_of_a_whole_life_may_come_first),
        cmocka_unit_test(one_provider_alone_is_told_at_once),
        cmocka_unit_test(a_manifest_stop_ends_the_instance_that_classic_records_know),
        cmocka_unit_test(more_waiting_halves_than_there_is_room_for_are_told_early),
        cmocka_unit_test(a_clock_that_is_set_by_ten_seconds_splits_no_process),
        cmocka_unit_test(the_number_of_its_start_is_an_identity_without_clocks),
        cmocka_unit_test(other_numbers_are_other_processes),
        cmocka_unit_test(creation_survives_every_failing_allocation),
        cmocka_unit_test(polling_may_begin_and_end_while_it_runs),
        cmocka_unit_test(a_start_that_the_first_table_shows_is_told_by_its_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
