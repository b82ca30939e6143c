#include "tests/support/t.h"

#include "common/clk.h"
#include "tests/collector/ask.h"

#define MS INT64_C(1000000)

/* Batches of ten seconds from 100 on; pid p grows by p ms each second. */
static void put_steady(struct lab *l, unsigned host, unsigned batches, unsigned pids)
{
    for (unsigned b = 0; b < batches; b++) {
        lab_begin(l, host, 7, b + 1);
        for (unsigned i = 0; i < 10; i++) {
            lab_tick(l, 100 + 10 * b + i);
        }
        for (uint32_t pid = 1; pid <= pids; pid++) {
            int64_t v[10];

            for (unsigned i = 0; i < 10; i++) {
                v[i] = pid * (10 * b + i);
            }
            lab_cpu(l, pid, false, 0, 10, v);
        }
        lab_put(l);
    }
}

static void every_sample_shows_the_growth_since_the_one_before(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.has_pid = true, .pid = 3};
    struct query_answer a;
    bool have;

    (void)state;
    put_steady(l, 1, 2, 5);
    ask_run(&a, l, QUERY_HISTORY, &q, NULL);
    assert_int_equal(a.data.n_rows, 20);
    ask_value(&a.data, &a.data.rows[0], M_CPU_TIME, &have);
    assert_false(have); /* nothing before it is known */
    for (unsigned i = 1; i < 20; i++) {
        assert_int_equal(a.data.rows[i].when_ns, LAB_NS(100 + i));
        assert_int_equal(ask_value(&a.data, &a.data.rows[i], M_CPU_TIME, &have), 3 * MS);
        assert_int_equal(ask_value(&a.data, &a.data.rows[i], M_CPU_PERCENT, &have), 3);
    }
    query_answer_fini(&a);
    lab_close(l);
}

static void a_process_that_began_inside_counts_from_zero(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    (void)state;
    lab_begin(l, 1, 7, 1);
    lab_tick(l, 100);
    lab_tick(l, 101);
    lab_cpu(l, 9, true, 0, 2, (int64_t[]){4, 10});
    lab_put(l);
    ask_run(&a, l, QUERY_HISTORY, &q, NULL);
    assert_int_equal(a.data.rows[0].values[0], 4 * MS);
    assert_int_equal(a.data.rows[1].values[0], 6 * MS);
    query_answer_fini(&a);
    lab_close(l);
}

static void every_name_includes_those_that_are_not_known(void **state)
{
    static const struct {
        const char *name;
        size_t rows;
    } cases[] = {{"*", 20}, {"?*", 10}, {"known", 10}, {"other", 0}};
    struct lab *l = lab_open(NULL, NULL);

    (void)state;
    put_steady(l, 1, 1, 2);
    lab_begin(l, 1, 7, 2);
    lab_tick(l, 120);
    lab_name(l, 1, "known");
    lab_put(l);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct wire_query q = {.name = str_make(cases[i].name)};
        struct query_answer a;

        ask_run(&a, l, QUERY_HISTORY, &q, NULL);
        assert_int_equal(a.data.n_rows, cases[i].rows);
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void steps_hold_the_growth_of_their_span(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.has_pid = true, .pid = 2, .step_ns = 20 * CLK_S};
    struct query_answer a;
    bool have;

    (void)state;
    put_steady(l, 1, 6, 3); /* 100 to 159 */
    q.since_ns = LAB_NS(120);
    q.until_ns = LAB_NS(160);
    ask_run(&a, l, QUERY_HISTORY, &q, NULL);
    assert_int_equal(a.data.n_rows, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(a.data.rows[i].when_ns, LAB_NS(120 + 20 * i));
        assert_int_equal(ask_value(&a.data, &a.data.rows[i], M_CPU_TIME, &have), 40 * MS);
        assert_true(have);
    }
    query_answer_fini(&a);
    lab_close(l);
}

static void gauges_keep_the_last_value_of_a_step(void **state)
{
    static const uint8_t ws[] = {M_WORKING_SET_SIZE};
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = ask_metrics(1, ws);
    struct query_answer a;

    (void)state;
    q.step_ns = 100 * CLK_S;
    lab_begin(l, 1, 7, 1);
    for (unsigned i = 0; i < 3; i++) {
        lab_tick(l, 100 + i);
    }
    lab_run(l, 9, 9, 0, 3, false, 1, ws, (int64_t[]){5, 9, 7});
    lab_put(l);
    ask_run(&a, l, QUERY_HISTORY, &q, NULL);
    assert_int_equal(a.data.n_rows, 1);
    assert_int_equal(a.data.rows[0].values[0], 7);
    query_answer_fini(&a);
    lab_close(l);
}

/* Walks all pages; gives the rows, and the sum of CPU time in ms. */
static size_t all_pages(struct lab *l, struct wire_query q, int64_t *sum_ms, int64_t *absent)
{
    uint8_t cursor[WIRE_CURSOR_MAX];
    size_t rows = 0;
    bool more = true;
    int64_t last_ns = 0;
    uint32_t last_host = 0;

    *sum_ms = 0;
    *absent = 0;
    for (unsigned page = 0; more; page++) {
        struct query_answer a;
        bool have;

        assert_in_range(page, 0, 1000);
        ask_run(&a, l, QUERY_HISTORY, &q, NULL);
        for (size_t i = 0; i < a.data.n_rows; i++) {
            const struct wire_row *row = &a.data.rows[i];

            *sum_ms += ask_value(&a.data, row, M_CPU_TIME, &have) / MS;
            *absent += !have;
            if (i && row->host == last_host) {
                assert_true(row->when_ns >= last_ns);
            }
            last_host = row->host;
            last_ns = row->when_ns;
        }
        rows += a.data.n_rows;
        more = a.more;
        memcpy(cursor, a.cursor, a.cursor_n);
        q.cursor = (struct str){(const char *)cursor, a.cursor_n};
        query_answer_fini(&a);
    }
    return rows;
}

static void pages_together_are_the_whole_history(void **state)
{
    static const struct {
        uint32_t limit;
        int64_t step_s;
        size_t rows;
    } table[] = {
        {7, 0, 2 * 4 * 60}, {100, 0, 2 * 4 * 60}, {4096, 0, 2 * 4 * 60},
        {1, 15, 2 * 4 * 4}, {3, 15, 2 * 4 * 4},   {5, 600, 2 * 4 * 1},
    };
    struct lab *l = lab_open(NULL, NULL);

    (void)state;
    put_steady(l, 1, 6, 4);
    put_steady(l, 2, 6, 4);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct wire_query q = {.limit = table[i].limit, .step_ns = table[i].step_s * CLK_S};
        int64_t sum, absent, step = table[i].step_s ? table[i].step_s : 1;
        size_t rows = all_pages(l, q, &sum, &absent);

        /* the first sample of each process has nothing before it */
        if (table[i].rows != rows || absent != 8) {
            fail_msg("limit %u step %d: %zu rows, %d absent", table[i].limit, (int)step, rows,
                     (int)absent);
        }
        if (step == 1) {
            assert_int_equal(sum, 2 * 59 * (1 + 2 + 3 + 4));
        }
    }
    lab_close(l);
}

static void two_agents_of_one_host_do_not_disturb_the_order(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.limit = 3};
    int64_t sum, absent;

    (void)state;
    for (uint64_t stream = 1; stream <= 2; stream++) {
        lab_begin(l, 1, stream, 1);
        for (unsigned i = 0; i < 10; i++) {
            lab_tick(l, 100 + i + 0.5 * (double)stream);
        }
        lab_cpu(l, (uint32_t)stream, false, 0, 10, (int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
        lab_put(l);
    }
    assert_int_equal(all_pages(l, q, &sum, &absent), 20);
    assert_int_equal(sum, 18);
    lab_close(l);
}

static void a_page_ends_where_no_overlapping_batch_can_add_to_it(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.limit = 17};
    int64_t v[20], sum, absent;

    (void)state;
    lab_begin(l, 1, 1, 1);
    for (unsigned i = 0; i < 20; i++) {
        lab_tick(l, 100 + i);
        v[i] = i;
    }
    lab_cpu(l, 1, false, 0, 20, v);
    lab_cpu(l, 2, false, 0, 2, v); /* ends early, and is the last one read */
    lab_put(l);
    lab_begin(l, 1, 2, 1);
    for (unsigned i = 0; i < 10; i++) {
        lab_tick(l, 105.5 + i);
    }
    lab_cpu(l, 3, false, 0, 10, v);
    lab_put(l);
    assert_int_equal(all_pages(l, q, &sum, &absent), 20 + 2 + 10);
    assert_int_equal(sum, 19 + 1 + 9);
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_shows_the_growth_since_the_one_before),
        cmocka_unit_test(a_process_that_began_inside_counts_from_zero),
        cmocka_unit_test(every_name_includes_those_that_are_not_known),
        cmocka_unit_test(steps_hold_the_growth_of_their_span),
        cmocka_unit_test(gauges_keep_the_last_value_of_a_step),
        cmocka_unit_test(pages_together_are_the_whole_history),
        cmocka_unit_test(two_agents_of_one_host_do_not_disturb_the_order),
        cmocka_unit_test(a_page_ends_where_no_overlapping_batch_can_add_to_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
