/* Columns that events feed: there while their group is recorded, absent otherwise. */
#include "tests/agent/account/stages.h"

static struct event groups(int64_t ms, uint32_t on)
{
    struct event ev = feed_at(EV_GROUPS, ms);

    ev.u.groups = on;
    return ev;
}

static struct event received(int64_t ms, uint32_t pid, uint32_t bytes)
{
    struct event ev = feed_at(EV_NET, ms);

    ev.u.net = (struct ev_net){.pid = pid, .bytes = bytes, .op = NET_RECV};
    return ev;
}

/* Whether the column is there, and its value. */
static bool shows(struct stages *s, uint32_t pid, unsigned metric, int64_t *value)
{
    struct instance *p = instances_owner(s->table, pid);

    assert_non_null(p);
    aggregate_settle(s->agg, p);
    *value = p->count.values[metric];
    return (p->count.mask & METRIC_BIT(metric)) != 0;
}

static void a_column_is_there_while_its_group_is_recorded(void **state)
{
    struct stages s = stages_new(CLK_S);
    int64_t v;

    stages_populate(&s);
    assert_false(shows(&s, 8, M_TCP_RECV_BYTES, &v));
    (void)stages_feed(&s, groups(1, EVENT_GROUP_NET));
    assert_true(shows(&s, 8, M_TCP_RECV_BYTES, &v));
    assert_int_equal(v, 0); /* measured: none */
    (void)stages_feed(&s, received(2, 8, 100));
    assert_true(shows(&s, 8, M_TCP_RECV_BYTES, &v));
    assert_int_equal(v, 100);
    assert_true(shows(&s, 12, M_TCP_RECV_BYTES, &v));
    assert_int_equal(v, 0);
    assert_false(shows(&s, 8, M_DISK_READS, &v));
    (void)stages_feed(&s, groups(3, 0));
    assert_false(shows(&s, 8, M_TCP_RECV_BYTES, &v));
    assert_int_equal(v, 100); /* it goes on from there */
    (void)stages_feed(&s, groups(4, EVENT_GROUP_NET));
    (void)stages_feed(&s, received(5, 8, 11));
    assert_true(shows(&s, 8, M_TCP_RECV_BYTES, &v));
    assert_int_equal(v, 111);
    stages_free(&s);
}

static void where_nobody_says_what_is_recorded_it_shows(void **state)
{
    struct stages s = stages_new(CLK_S);
    int64_t v;

    stages_populate(&s);
    assert_false(shows(&s, 12, M_TCP_RECV_BYTES, &v));
    (void)stages_feed(&s, received(2, 8, 100));
    assert_true(shows(&s, 12, M_TCP_RECV_BYTES, &v));
    assert_true(shows(&s, 12, M_UDP_SEND_BYTES, &v));
    assert_false(shows(&s, 12, M_DISK_READS, &v));
    stages_free(&s);
}

/* Without ReadyThread nothing tells waiting from being ready; without switches nobody owns an
 * interrupt. */
static void some_columns_need_two_groups(void **state)
{
    struct stages s = stages_new(CLK_S);
    int64_t v;

    stages_populate(&s);
    (void)stages_feed(&s, groups(1, EVENT_GROUP_SWITCH | EVENT_GROUP_SYSCALL));
    assert_false(shows(&s, 8, M_READY_TIME, &v) || shows(&s, 8, M_WAIT_TIME, &v));
    assert_true(shows(&s, 8, M_SYSTEM_CALLS, &v));
    (void)stages_feed(&s, groups(2, EVENT_GROUP_READY | EVENT_GROUP_INTERRUPT));
    assert_false(shows(&s, 8, M_READY_TIME, &v) || shows(&s, 8, M_INTERRUPT_TIME, &v));
    (void)stages_feed(&s,
                      groups(3, EVENT_GROUP_SWITCH | EVENT_GROUP_READY | EVENT_GROUP_INTERRUPT));
    assert_true(shows(&s, 8, M_READY_TIME, &v) && shows(&s, 8, M_WAIT_TIME, &v));
    assert_true(shows(&s, 8, M_INTERRUPT_TIME, &v));
    assert_false(shows(&s, 8, M_SYSTEM_CALLS, &v));
    stages_free(&s);
}

static void a_table_goes_before_what_events_count(void **state)
{
    struct stages s = stages_new(CLK_S);
    struct snap_row row = {.info = {.id = {8, 0}}, .mask = METRIC_BIT(M_DISK_READ_BYTES)};
    struct snapshot snap = {.wall_ns = WALL0, .mono_ns = CLK_MS, .rows = &row, .n_rows = 1};
    int64_t v;

    stages_populate(&s);
    row.values[M_DISK_READ_BYTES] = 4096;
    aggregate_table(s.agg, &snap);
    (void)stages_feed(&s, groups(2, EVENT_GROUP_DISK));
    assert_true(shows(&s, 8, M_DISK_READ_BYTES, &v));
    assert_int_equal(v, 4096);
    (void)stages_feed(&s, groups(3, 0));
    assert_true(shows(&s, 8, M_DISK_READ_BYTES, &v)); /* the table goes on */
    stages_free(&s);
}

static void hard_faults_are_one_measure_for_a_process(void **state)
{
    int64_t totals[METRIC_COLS] = {[M_HARD_FAULTS] = 145};
    struct stages s = stages_new(CLK_S);
    struct event fault = feed_at(EV_HARD_FAULT, 2), stop;
    struct instance *p;
    int64_t v;

    stages_populate(&s);
    fault.u.hard_fault = (struct ev_hard_fault){.tid = 80, .bytes = 4096};
    (void)stages_feed(&s, fault);
    assert_true(shows(&s, 8, M_HARD_FAULTS, &v));
    assert_int_equal(v, 1);
    stop = feed_proc(EV_PROC_STOP, 3, 8, 0);
    stop.u.proc.totals = totals;
    stop.u.proc.totals_mask = METRIC_BIT(M_HARD_FAULTS);
    p = instances_owner(s.table, 8);
    (void)stages_feed(&s, stop);
    aggregate_settle(s.agg, p);
    assert_int_equal(p->count.values[M_HARD_FAULTS], 1); /* not the other, larger one */
    p = instances_owner(s.table, 12); /* has had no row yet: the total is exact */
    stop = feed_proc(EV_PROC_STOP, 3, 12, 0);
    stop.u.proc.totals = totals;
    stop.u.proc.totals_mask = METRIC_BIT(M_HARD_FAULTS);
    (void)stages_feed(&s, stop);
    aggregate_settle(s.agg, p);
    assert_int_equal(p->count.values[M_HARD_FAULTS], 145);
    stages_free(&s);
}

static void what_the_system_counted_is_taken_over(void **state)
{
    int64_t values[METRIC_COLS] = {[M_PAGE_FAULTS] = 7, [M_PEAK_WORKING_SET] = 1 << 20};
    struct stages s = stages_new(CLK_S);
    struct event ev = feed_at(EV_PROC_COUNTERS, 1);
    int64_t v;

    stages_populate(&s);
    ev.u.counters = (struct ev_proc_counters){.pid = 8,
                                              .mask = METRIC_BIT(M_PAGE_FAULTS) |
                                                      METRIC_BIT(M_PEAK_WORKING_SET),
                                              .values = values};
    (void)stages_feed(&s, ev);
    assert_true(shows(&s, 8, M_PAGE_FAULTS, &v));
    assert_int_equal(v, 7);
    assert_false(shows(&s, 12, M_PAGE_FAULTS, &v));
    values[M_PEAK_WORKING_SET] = 1 << 10; /* a peak never falls */
    (void)stages_feed(&s, ev);
    assert_true(shows(&s, 8, M_PEAK_WORKING_SET, &v));
    assert_int_equal(v, 1 << 20);
    ev.u.counters = (struct ev_proc_counters){.pid = 4711, .values = values};
    assert_null(stages_feed(&s, ev));
    stages_free(&s);
}

static struct event placed(uint32_t pid, uint32_t tid, uint64_t affinity, uint8_t priority)
{
    struct event ev = feed_thread(EV_THREAD_START, 1, pid, tid);

    ev.u.thread.placed = true;
    ev.u.thread.affinity = affinity;
    ev.u.thread.priority = priority;
    ev.u.thread.io_priority = 2;
    return ev;
}

static void threads_say_where_they_may_run_and_what_all_of_them_have(void **state)
{
    struct stages s = stages_new(CLK_S);
    int64_t v;

    stages_populate(&s);
    assert_false(shows(&s, 8, M_AFFINITY_MASK, &v));
    (void)stages_feed(&s, placed(8, 90, 1, 8));
    assert_true(shows(&s, 8, M_PRIORITY, &v));
    assert_int_equal(v, 8);
    (void)stages_feed(&s, placed(8, 91, 4, 9));
    assert_true(shows(&s, 8, M_AFFINITY_MASK, &v));
    assert_int_equal(v, 5);
    assert_false(shows(&s, 8, M_PRIORITY, &v)); /* they differ */
    assert_true(shows(&s, 8, M_IO_PRIORITY, &v));
    assert_int_equal(v, 2);
    assert_false(shows(&s, 12, M_AFFINITY_MASK, &v));
    stages_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_is_there_while_its_group_is_recorded),
        cmocka_unit_test(where_nobody_says_what_is_recorded_it_shows),
        cmocka_unit_test(some_columns_need_two_groups),
        cmocka_unit_test(a_table_goes_before_what_events_count),
        cmocka_unit_test(hard_faults_are_one_measure_for_a_process),
        cmocka_unit_test(what_the_system_counted_is_taken_over),
        cmocka_unit_test(threads_say_where_they_may_run_and_what_all_of_them_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
