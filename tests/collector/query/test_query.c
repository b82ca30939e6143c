/* Hosts, windows, coverage, scope and the question's own mistakes. */
#include "tests/support/t.h"

#include "common/base/mem.h"
#include "common/os/deadline.h"
#include "common/os/os.h"
#include "common/wire/wire_overview.h"
#include "tests/collector/query/ask.h"

static const int64_t steady[] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100};

/* Hosts 1 to n with ten ticks from `second` on and one process each. */
static void put_hosts(struct lab *l, unsigned n, double second)
{
    for (unsigned h = 1; h <= n; h++) {
        lab_begin(l, h, 77, 1);
        for (unsigned i = 0; i < 10; i++) {
            lab_tick(l, second + i);
        }
        lab_cpu(l, 100 + h, false, 0, 10, steady);
        lab_name(l, 100 + h, "worker");
        lab_put(l);
    }
}

static void hosts_are_listed_with_their_newest_process_count(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    put_hosts(l, 3, 990);
    lab_begin(l, 3, 77, 2);
    lab_tick(l, 1000);
    lab_cpu(l, 0, false, 0, 1, steady);
    lab_cpu(l, 5, false, 0, 1, steady);
    lab_cpu(l, 6, false, 0, 1, steady);
    lab_put(l);
    ask_run(&a, l, QUERY_HOSTS, &q, NULL);
    assert_int_equal(a.data.n_hosts, 3);
    assert_false(a.data.partial);
    assert_int_equal(a.data.hosts[0].processes, 1);
    assert_int_equal(a.data.hosts[2].processes, 2); /* idle is not counted */
    assert_int_equal(a.data.hosts[2].last_ns, LAB_NS(1000));
    assert_int_equal(a.data.hosts[2].first_ns, LAB_NS(990));
    assert_true(str_eq(a.data.hosts[1].name, str_make("host-2")));
    query_answer_fini(&a);
    lab_close(l);
}

static void a_last_batch_without_samples_leaves_the_process_count(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    put_hosts(l, 1, 990);
    lab_begin(l, 1, 77, 2);
    lab_life(l, LIFE_PROCESS_STOP, 1010, 9, "gone");
    lab_put(l);
    ask_run(&a, l, QUERY_HOSTS, &q, NULL);
    assert_int_equal(a.data.hosts[0].processes, 1);
    query_answer_fini(&a);
    lab_close(l);
}

static void hosts_come_in_pages(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.limit = 2};
    struct query_answer a, b;

    put_hosts(l, 3, 990);
    ask_run(&a, l, QUERY_HOSTS, &q, NULL);
    assert_int_equal(a.data.n_hosts, 2);
    assert_true(a.more);
    q.cursor = (struct str){(const char *)a.cursor, a.cursor_n};
    ask_run(&b, l, QUERY_HOSTS, &q, NULL);
    assert_int_equal(b.data.n_hosts, 1);
    assert_false(b.more);
    assert_true(str_eq(b.data.hosts[0].name, str_make("host-3")));
    query_answer_fini(&a);
    query_answer_fini(&b);
    lab_close(l);
}

static void a_host_is_chosen_by_name_pattern_or_id(void **state)
{
    static const struct {
        const char *host, *scope;
        size_t n;
        bool partial;
    } table[] = {
        {"", NULL, 3, false},
        {"host-2", NULL, 1, false},
        {"HOST-2", NULL, 1, false},
        {"host-*", NULL, 3, false},
        {"host-9", NULL, 0, true},
        {"aabb0000-0000-0000-0000-000000000002", NULL, 1, false},
        {"aabb0000-0000-0000-0000-000000000009", NULL, 0, true},
        {"", "host-2", 1, false},
        {"host-*", "*-3", 1, false},
        {"host-1", "host-2", 0, true},
        {"aabb0000-0000-0000-0000-000000000001", "host-2", 0, true},
        {"", "nothing-*", 0, false},
    };
    struct lab *l = lab_open(NULL, NULL);

    put_hosts(l, 3, 990);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct wire_query q = {.host = str_make(table[i].host)};
        struct query_answer a;

        ask_run(&a, l, QUERY_HOSTS, &q, table[i].scope);
        if (a.data.n_hosts != table[i].n || a.data.partial != table[i].partial) {
            fail_msg("\"%s\" scope \"%s\": %zu hosts, partial %d", table[i].host,
                     table[i].scope ? table[i].scope : "", a.data.n_hosts, a.data.partial);
        }
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void scope_hides_other_hosts_from_every_kind_of_query(void **state)
{
    static const enum query_kind kinds[] = {
        QUERY_HOSTS,    QUERY_TOP,  QUERY_PROCESSES, QUERY_HISTORY,   QUERY_EVENTS,
        QUERY_COVERAGE, QUERY_TREE, QUERY_SERIES,    QUERY_LIFETIMES, QUERY_PULSE};
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;
    struct store_stats stats;
    struct query_env env = {.scope = "host-2", .stats = &stats, .now_ns = LAB_NS(1000)};
    struct errmsg why;

    put_hosts(l, 3, 990);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        ask_run(&a, l, kinds[i], &q, "host-2");
        for (size_t h = 0; h < a.data.n_hosts; h++) {
            assert_true(str_eq(a.data.hosts[h].name, str_make("host-2")));
        }
        assert_int_equal(a.data.n_hosts, 1);
        query_answer_fini(&a);
    }
    store_stats(lab_store(l), &stats);
    assert_true(stats.head_bytes > 0);
    env.view = lab_view(l);
    assert_ok(query_run(&a, QUERY_OVERVIEW, &env, &q, &why));
    assert_int_equal(a.data.overview->hosts, 1);
    assert_int_equal(a.data.overview->head_bytes, 0); /* of all hosts: not told */
    query_answer_fini(&a);
    lab_close(l);
}

static void windows_outside_the_data_make_the_answer_partial(void **state)
{
    static const struct {
        double since, until;
        bool partial;
        const char *note;
    } table[] = {
        {990, 1000, false, NULL},        {995, 997, false, NULL},
        {980, 1000, false, NULL}, /* a window may begin a little early */
        {100, 1000, true, "later part"}, {100, 200, true, "no data"},
        {990, 2000, false, NULL}, /* what has not happened is not missing */
    };
    struct lab *l = lab_open(NULL, NULL);

    put_hosts(l, 1, 990);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct wire_query q = {.since_ns = LAB_NS(table[i].since),
                               .until_ns = LAB_NS(table[i].until)};
        struct query_answer a;

        ask_run(&a, l, QUERY_TOP, &q, NULL);
        if (a.data.partial != table[i].partial ||
            (table[i].note && !ask_note(&a.data, table[i].note))) {
            fail_msg("row %zu: partial %d, %zu notes", i, a.data.partial, a.data.n_notes);
        }
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void an_anchored_window_follows_each_hosts_newest_data(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.last_ns = LAB_NS(5) - LAB_EPOCH_NS};
    struct query_answer a;

    put_hosts(l, 1, 100); /* nothing for 15 minutes */
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(a.data.n_rows, 1);
    assert_false(a.data.partial);
    assert_true(ask_note(&a.data, "nothing new since"));
    assert_int_equal(a.data.until_ns, LAB_NS(109) + 1);
    query_answer_fini(&a);
    lab_close(l);
}

static void known_loss_in_the_window_makes_the_answer_partial(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    lab_begin(l, 1, 7, 1);
    lab_tick(l, 990);
    lab_cpu(l, 5, true, 0, 1, steady);
    lab_ledger(l, "source", "in", 1000);
    lab_ledger(l, "source", "events_lost", 12);
    lab_put(l);
    lab_begin(l, 1, 7, 3);
    lab_tick(l, 991);
    lab_cpu(l, 5, false, 0, 1, steady);
    lab_put(l);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_true(a.data.partial);
    assert_true(ask_note(&a.data, "lost in the window: host-1 (12, most source events_lost)"));
    assert_true(ask_note(&a.data, "batches missing in the window: host-1 (1)"));
    query_answer_fini(&a);
    lab_close(l);
}

static void a_loss_is_told_with_where_most_was_lost_and_why(void **state)
{
    static const struct {
        unsigned host;
        const char *stage, *reason;
        uint64_t count;
    } rows[] = {
        {1, "source", "lost_events", 5},
        {1, "etw", "full_thread", 3},
        {1, "etw", "full_cswitch", 4},
        {1, "etw", "late", 100}, /* no cause of a loss */
        {1, "source", "lost_events", 7},
        {1, "etw", "full_thread", 9},
        {1, "queue", "oldest_dropped", 2},
        {2, "queue", "oldest_dropped", 5},
        {2, "etw", "full_thread", 9}, /* not why the queue was full */
        {3, "a stage that nobody would ever name so", "and a reason of forty bytes and many more",
         1},
    };
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        lab_begin(l, rows[i].host, 7, i + 1);
        lab_tick(l, 900 + i);
        lab_ledger(l, rows[i].stage, rows[i].reason, rows[i].count);
        lab_put(l);
    }
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_true(ask_note(&a.data, "host-1 (14, most source lost_events, by etw full_thread), "
                                  "host-2 (5, most queue oldest_dropped), "
                                  "host-3 (1, most a stage that nobody wou and a reason of forty "
                                  "bytes and many mo)"));
    query_answer_fini(&a);
    lab_close(l);
}

static void polled_hosts_and_recordings_are_only_remarked_on(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    lab_begin(l, 1, 7, 1);
    lab_flags(l, BATCH_POLLED);
    lab_tick(l, 990);
    lab_cpu(l, 5, true, 0, 1, steady);
    lab_put(l);
    lab_begin(l, 2, 7, 1);
    lab_flags(l, BATCH_REPLAY | BATCH_LAST);
    lab_tick(l, 100);
    lab_cpu(l, 5, true, 0, 1, steady);
    lab_put(l);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_false(a.data.partial);
    assert_true(ask_note(&a.data, "polled"));
    assert_true(ask_note(&a.data, "a recording: host-2 (ended "));
    assert_int_equal(a.data.n_hosts, 2);
    query_answer_fini(&a);
    lab_close(l);
}

static void wrong_questions_are_refused_with_a_sentence(void **state)
{
    static const struct wire_query table[] = {
        {.n_metrics = 1, .metrics = {M_CPU_TIME + 200}},
        {.n_metrics = 1, .metrics = {1}},  /* pid has no values over time */
        {.n_metrics = 1, .metrics = {30}}, /* thread_states is a family */
        {.since_ns = 20, .until_ns = 10},
        {.step_ns = -1},
        {.last_ns = -1},
        {.cursor = {"short", 5}},
    };
    struct lab *l = lab_open(NULL, NULL);
    struct query_env env = {.view = lab_view(l)};

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct query_answer a;
        struct errmsg why = {""};

        assert_err(query_run(&a, QUERY_HISTORY, &env, &table[i], &why), ERR_INVALID);
        assert_true(why.text[0]);
        query_answer_fini(&a);
    }
    lab_close(l);
}

/* What a later release asks for is left out, unless it decides. */
static void metrics_that_are_not_known_are_left_out(void **state)
{
    static const struct {
        enum query_kind kind;
        struct wire_query q;
        unsigned n; /* of the answer's metrics; 0: refused */
    } table[] = {
        {QUERY_TOP, {.n_metrics = 3, .metrics = {M_CPU_TIME, 250, M_WORKING_SET_SIZE}}, 2},
        {QUERY_PROCESSES, {.n_metrics = 3, .metrics = {250, M_CPU_TIME, M_WORKING_SET_SIZE}}, 2},
        {QUERY_HISTORY, {.n_metrics = 2, .metrics = {250, M_CPU_TIME}}, 1},
        {QUERY_TREE, {.n_metrics = 2, .metrics = {M_CPU_TIME, 251}}, 1},
        {QUERY_SERIES, {.n_metrics = 2, .metrics = {M_CPU_TIME, 251}}, 1},
        {QUERY_TOP, {.n_metrics = 2, .metrics = {250, M_CPU_TIME}}, 0},
        {QUERY_SERIES, {.n_metrics = 2, .metrics = {250, M_CPU_TIME}}, 0},
        {QUERY_PROCESSES, {.n_metrics = 2, .metrics = {250, 251}}, 0},
    };
    struct lab *l = lab_open(NULL, NULL);
    struct query_env env = {.now_ns = LAB_NS(1000)};

    put_hosts(l, 1, 990);
    env.view = lab_view(l);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct query_answer a;
        struct errmsg why = {""};

        assert_err(query_run(&a, table[i].kind, &env, &table[i].q, &why),
                   table[i].n ? ERR_OK : ERR_INVALID);
        assert_int_equal(a.data.n_metrics, table[i].n);
        assert_true(!table[i].n || a.data.metrics[0] == M_CPU_TIME);
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void a_passed_deadline_ends_the_query(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;
    struct errmsg why = {""};
    struct query_env env = {.now_ns = LAB_NS(1000)};
    struct deadline passed;

    put_hosts(l, 1, 990);
    env.view = lab_view(l);
    deadline_set(&passed, os_mono_ns() - 1);
    env.deadline = &passed;
    assert_err(query_run(&a, QUERY_TOP, &env, &q, &why), ERR_TIMEOUT);
    assert_non_null(strstr(why.text, "deadline"));
    query_answer_fini(&a);
    lab_close(l);
}

static void every_failing_allocation_is_survived(void **state)
{
    static const enum query_kind kinds[] = {
        QUERY_HOSTS,    QUERY_TOP,  QUERY_PROCESSES, QUERY_HISTORY, QUERY_EVENTS,
        QUERY_COVERAGE, QUERY_TREE, QUERY_OVERVIEW,  QUERY_SERIES,  QUERY_LIFETIMES};
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_env env = {.now_ns = LAB_NS(1000)};

    put_hosts(l, 2, 990);
    lab_begin(l, 2, 77, 2);
    lab_life(l, LIFE_PROCESS_START, 991, 400, "new");
    lab_put(l);
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        enum err e = ERR_NOMEM;

        for (long n = 0; e; n++) {
            long live = 0, left = 1;

            assert_true(n < 200);
            /* what the store's thread does meanwhile counts, too, but a leak comes every time */
            for (unsigned turn = 0; turn < 5 && left != live; turn++) {
                struct store_view *view;
                struct query_answer a;
                struct errmsg why;

                live = mem_live();
                assert_ok(store_view_open(&view, lab_store(l))); /* it remembers look-ups */
                env.view = view;
                mem_fail_after(n);
                e = query_run(&a, kinds[k], &env, &q, &why);
                mem_fail_after(-1);
                assert_true(e == ERR_OK || e == ERR_NOMEM || e == ERR_FULL);
                query_answer_fini(&a);
                store_view_close(view);
                left = mem_live();
            }
            assert_int_equal(left, live);
        }
    }
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_listed_with_their_newest_process_count),
        cmocka_unit_test(a_last_batch_without_samples_leaves_the_process_count),
        cmocka_unit_test(hosts_come_in_pages),
        cmocka_unit_test(a_host_is_chosen_by_name_pattern_or_id),
        cmocka_unit_test(scope_hides_other_hosts_from_every_kind_of_query),
        cmocka_unit_test(windows_outside_the_data_make_the_answer_partial),
        cmocka_unit_test(an_anchored_window_follows_each_hosts_newest_data),
        cmocka_unit_test(known_loss_in_the_window_makes_the_answer_partial),
        cmocka_unit_test(a_loss_is_told_with_where_most_was_lost_and_why),
        cmocka_unit_test(polled_hosts_and_recordings_are_only_remarked_on),
        cmocka_unit_test(wrong_questions_are_refused_with_a_sentence),
        cmocka_unit_test(metrics_that_are_not_known_are_left_out),
        cmocka_unit_test(a_passed_deadline_ends_the_query),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
