#include "tests/support/t.h"

#include "collector/query/query_table.h"
#include "common/base/clk.h"
#include "tests/collector/query/ask.h"

#define MS INT64_C(1000000)

static int64_t cpu_of(const struct query_answer *a, uint32_t pid)
{
    bool have;

    for (size_t i = 0; i < a->data.n_rows; i++) {
        if (a->data.rows[i].info.id.pid == pid) {
            int64_t v = ask_value(&a->data, &a->data.rows[i], M_CPU_TIME, &have);

            return have ? v / MS : -1;
        }
    }
    return -1;
}

static void ticks(struct lab *l, double from, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        lab_tick(l, from + i);
    }
}

static void growth_counts_from_the_right_base(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.since_ns = LAB_NS(105), .until_ns = LAB_NS(108), .limit = 100};
    struct query_answer a;

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 10);
    lab_cpu(l, 1, false, 0, 10, (int64_t[]){0, 10, 20, 30, 40, 50, 60, 70, 80, 90});
    lab_cpu(l, 2, true, 6, 4, (int64_t[]){5, 15, 25, 35});       /* began inside */
    lab_cpu(l, 3, false, 6, 4, (int64_t[]){500, 515, 525, 535}); /* seen first inside */
    lab_cpu(l, 4, false, 0, 3, (int64_t[]){1, 2, 3});            /* nothing inside */
    lab_cpu(l, 5, false, 7, 1, (int64_t[]){900});                /* one value, nothing before */
    lab_cpu(l, 6, true, 9, 1, (int64_t[]){900});                 /* began behind the window */
    lab_cpu(l, 7, false, 0, 6, (int64_t[]){1, 2, 3, 4, 5, 6});   /* ends inside */
    lab_put(l);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(cpu_of(&a, 1), 30); /* 70 at 107 less 40 at 104 */
    assert_int_equal(cpu_of(&a, 2), 15);
    assert_int_equal(cpu_of(&a, 3), 15);
    assert_int_equal(cpu_of(&a, 4), -1);
    assert_int_equal(cpu_of(&a, 5), -1);
    assert_int_equal(cpu_of(&a, 6), -1);
    assert_int_equal(cpu_of(&a, 7), 1);
    assert_int_equal(a.data.n_rows, 4);
    query_answer_fini(&a);
    lab_close(l);
}

/* As over a year, or of an agent that wants to be trouble. */
static void a_host_may_have_begun_many_times(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.since_ns = LAB_NS(100), .until_ns = LAB_NS(1100), .limit = 1000};
    struct query_answer a;

    for (unsigned i = 0; i < 200; i++) {
        lab_begin(l, 1, i + 1, 1);
        lab_boot(l, (uint8_t)i);
        ticks(l, 100 + 3 * i, 2);
        lab_cpu(l, 1, true, 0, 2, (int64_t[]){0, 10});
        lab_put(l);
    }
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(a.data.n_rows, 200);
    query_answer_fini(&a);
    lab_close(l);
}

static void growth_spans_batches_in_any_order(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.since_ns = LAB_NS(105), .until_ns = LAB_NS(125)};
    struct query_answer a;

    for (unsigned k = 0; k < 3; k++) {
        static const unsigned order[] = {2, 0, 1};
        unsigned b = order[k];
        int64_t v[10];

        lab_begin(l, 1, 7, b + 1);
        ticks(l, 100 + 10 * b, 10);
        for (unsigned i = 0; i < 10; i++) {
            v[i] = 100 * (10 * b + i);
        }
        lab_cpu(l, 9, false, 0, 10, v);
        lab_put(l);
    }
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(cpu_of(&a, 9), 2000); /* 2400 at 124 less 400 at 104 */
    assert_false(a.data.partial);
    query_answer_fini(&a);
    lab_close(l);
}

static void the_base_comes_from_a_batch_before_the_window(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.since_ns = LAB_NS(110), .until_ns = LAB_NS(120)};
    struct query_answer a;
    bool have;

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 10);
    lab_cpu(l, 9, false, 0, 10, (int64_t[]){0, 10, 20, 30, 40, 50, 60, 70, 80, 90});
    lab_put(l);
    lab_begin(l, 1, 7, 2);
    ticks(l, 110, 10);
    lab_cpu(l, 9, false, 0, 10,
            (int64_t[]){590, 1090, 1590, 2090, 2590, 3090, 3590, 4090, 4590, 5090});
    lab_put(l);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(cpu_of(&a, 9), 5000);
    /* 5 s of CPU in the 10 s from 109 to 119 */
    assert_int_equal(ask_value(&a.data, &a.data.rows[0], M_CPU_PERCENT, &have), 500);
    assert_true(have);
    query_answer_fini(&a);
    lab_close(l);
}

static void a_counter_that_begins_anew_counts_from_zero(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 2);
    lab_cpu(l, 9, false, 0, 2, (int64_t[]){5000, 40});
    lab_put(l);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(cpu_of(&a, 9), 40);
    query_answer_fini(&a);
    lab_close(l);
}

/* An agent that adds up itself and was restarted, its process still running. */
static void a_count_that_is_told_to_begin_inside_has_no_base_before(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.since_ns = LAB_NS(110), .until_ns = LAB_NS(120)};
    struct query_answer a;

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 10);
    lab_cpu(l, 9, true, 0, 10, (int64_t[]){10, 20, 30, 40, 50, 60, 70, 80, 90, 100});
    lab_put(l);
    lab_begin(l, 1, 8, 1);
    ticks(l, 110, 10);
    lab_cpu(l, 9, true, 0, 10, (int64_t[]){15, 30, 45, 60, 75, 90, 105, 120, 135, 150});
    lab_put(l);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(cpu_of(&a, 9), 150);
    query_answer_fini(&a);
    lab_close(l);
}

static void gauges_show_their_last_value_and_absent_is_not_zero(void **state)
{
    static const uint8_t both[] = {M_CPU_TIME, M_WORKING_SET_SIZE};
    static const uint8_t asked[] = {M_CPU_TIME, M_WORKING_SET_SIZE, M_HANDLE_COUNT, M_CPU_TIME};
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = ask_metrics(4, asked);
    struct query_answer a;
    bool have;

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 3);
    lab_run(l, 9, 9, 0, 3, false, 2, both, (int64_t[]){10, 20, 30, 4096, 8192, 6000});
    lab_put(l);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(a.data.n_metrics, 3); /* a metric asked for twice is answered once */
    assert_int_equal(ask_value(&a.data, &a.data.rows[0], M_WORKING_SET_SIZE, &have), 6000);
    ask_value(&a.data, &a.data.rows[0], M_HANDLE_COUNT, &have);
    assert_false(have);
    query_answer_fini(&a);
    lab_close(l);
}

static void the_largest_win_over_all_hosts_and_ties_have_an_order(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.limit = 5};
    struct query_answer a;

    for (unsigned h = 1; h <= 4; h++) {
        lab_begin(l, h, 7, 1);
        ticks(l, 100, 2);
        for (uint32_t pid = 1; pid <= 50; pid++) {
            lab_cpu(l, pid, false, 0, 2,
                    (int64_t[]){0, pid == 50 ? 1000 : (int64_t)(pid + h) % 40});
        }
        lab_put(l);
    }
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(a.data.n_rows, 5);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(a.data.rows[i].info.id.pid, 50);
        assert_int_equal(a.data.rows[i].values[0], 1000 * MS);
        assert_int_equal(a.data.rows[i].host, i);
    }
    assert_int_equal(a.data.rows[4].values[0], 39 * MS);
    assert_int_equal(a.data.rows[4].info.id.pid, 38); /* host-1 before the others */
    query_answer_fini(&a);
    lab_close(l);
}

static void idle_is_hidden_unless_asked_for(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 2);
    lab_cpu(l, 0, false, 0, 2, (int64_t[]){0, 9000});
    lab_cpu(l, 4, false, 0, 2, (int64_t[]){0, 10});
    lab_put(l);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(a.data.n_rows, 1);
    query_answer_fini(&a);
    q.idle = true;
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(a.data.n_rows, 2);
    assert_int_equal(a.data.rows[0].info.id.pid, 0);
    query_answer_fini(&a);
    lab_close(l);
}

static void names_filter_and_known_attributes_come_along(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.name = str_make("WEB*")};
    struct query_answer a;

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 2);
    lab_cpu(l, 4, false, 0, 2, (int64_t[]){0, 10});
    lab_cpu(l, 5, false, 0, 2, (int64_t[]){0, 20});
    lab_cpu(l, 6, false, 0, 2, (int64_t[]){0, 30}); /* nobody told its name */
    lab_name(l, 4, "webserver");
    lab_name(l, 5, "database");
    lab_put(l);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(a.data.n_rows, 1);
    assert_true(str_eq(a.data.rows[0].info.name, str_make("webserver")));
    assert_int_equal(a.data.rows[0].info.cpu_origin, CPU_ORIGIN_TIMES);
    assert_int_equal(a.data.rows[0].info.parent_pid, 1);
    query_answer_fini(&a);
    lab_close(l);
}

static void instances_of_one_pid_are_kept_apart(void **state)
{
    static const uint8_t cpu = M_CPU_TIME;
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 4);
    lab_run(l, 9, 1000, 0, 2, false, 1, &cpu, (int64_t[]){0, 10 * MS});
    lab_run(l, 9, 2000, 2, 2, true, 1, &cpu, (int64_t[]){3 * MS, 4 * MS});
    lab_put(l);
    lab_begin(l, 1, 8, 1); /* another boot, the same numbers */
    lab_boot(l, 2);
    ticks(l, 110, 2);
    lab_run(l, 9, 1000, 0, 2, true, 1, &cpu, (int64_t[]){1 * MS, 2 * MS});
    lab_put(l);
    ask_run(&a, l, QUERY_TOP, &q, NULL);
    assert_int_equal(a.data.n_rows, 3);
    assert_int_equal(a.data.rows[0].values[0], 10 * MS);
    assert_int_equal(a.data.rows[1].values[0], 4 * MS);
    assert_int_equal(a.data.rows[2].values[0], 2 * MS);
    query_answer_fini(&a);
    lab_close(l);
}

/* A long window of a host may have some hundred thousand of them. */
static void of_who_is_hidden_nothing_is_kept(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query ask = {.name = str_make("web*")};
    struct query_answer out = {.data = {.n_metrics = 1, .metrics = {M_CPU_TIME}}};
    const struct query_span span = {.host = 0, .until_ns = LAB_NS(200)};
    struct query_env env = {0};
    struct query q = {.env = &env, .ask = &ask, .out = &out};
    struct query_inst *shown, *hidden;
    struct query_table t;
    struct uuid boot;

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 2);
    lab_cpu(l, 4, false, 0, 2, (int64_t[]){0, 10});
    lab_cpu(l, 5, false, 0, 2, (int64_t[]){0, 20});
    lab_name(l, 4, "webserver");
    lab_name(l, 5, "database");
    lab_put(l);
    env.view = lab_view(l);
    boot = store_view_host(env.view, 0)->boot;
    query_table_init(&t, &q);
    t.infos = true;
    query_table_start(&t, &span, LAB_NS(0));
    assert_ok(query_table_get(&t, &boot, (struct proc_id){4, 4}, &shown));
    assert_ok(query_table_get(&t, &boot, (struct proc_id){5, 5}, &hidden));
    assert_false(shown->hidden);
    assert_non_null(shown->cells);
    assert_true(str_eq(shown->info->name, str_make("webserver")));
    assert_true(hidden->hidden);
    assert_null(hidden->cells);
    assert_null(hidden->info);
    query_table_fini(&t);
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth_counts_from_the_right_base),
        cmocka_unit_test(a_host_may_have_begun_many_times),
        cmocka_unit_test(growth_spans_batches_in_any_order),
        cmocka_unit_test(the_base_comes_from_a_batch_before_the_window),
        cmocka_unit_test(a_counter_that_begins_anew_counts_from_zero),
        cmocka_unit_test(a_count_that_is_told_to_begin_inside_has_no_base_before),
        cmocka_unit_test(gauges_show_their_last_value_and_absent_is_not_zero),
        cmocka_unit_test(the_largest_win_over_all_hosts_and_ties_have_an_order),
        cmocka_unit_test(idle_is_hidden_unless_asked_for),
        cmocka_unit_test(names_filter_and_known_attributes_come_along),
        cmocka_unit_test(instances_of_one_pid_are_kept_apart),
        cmocka_unit_test(of_who_is_hidden_nothing_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
