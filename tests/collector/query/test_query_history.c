#include "tests/support/t.h"

#include "collector/store/read/store_view.h"
#include "common/base/clk.h"
#include "tests/collector/query/ask.h"

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

/* -- what sealing and retention leave -- */

/* A sample each second in [from, until): process 3 grows by 3 ms. Every window is sealed. */
static void put_sealed(struct lab *l, unsigned host, unsigned from, unsigned until)
{
    for (unsigned s = from; s < until; s += 10) {
        int64_t v[10];

        lab_begin(l, host, 7, s / 10);
        for (unsigned i = 0; i < 10; i++) {
            lab_tick(l, s + i);
            v[i] = 3 * (s + i);
        }
        lab_cpu(l, 3, false, 0, 10, v);
        lab_received(l, s + 10);
        lab_put(l);
        if ((s + 10) % 300 == 100 || s + 10 >= until) {
            assert_ok(store_seal_now(lab_store(l), INT64_MAX));
        }
    }
}

/* The hour is over: it has its tier. */
static void make_hour(struct lab *l)
{
    struct manifest_list *list;
    size_t hours;

    lab_now(LAB_NS(20000));
    assert_ok(store_seal_now(lab_store(l), INT64_MAX));
    lab_now(0);
    assert_ok(store_seal_now(lab_store(l), INT64_MIN)); /* nobody is at work any more */
    list = manifest_view(lab_store(l)->manifest);
    hours = manifest_lower(list, SEG_1H + 1, INT64_MIN) - manifest_lower(list, SEG_1H, INT64_MIN);
    manifest_list_release(list);
    assert_true(hours > 0);
}

/* What retention does: no row is left of the windows before that second. */
static void drop_rows(struct lab *l, unsigned second)
{
    struct manifest *m = lab_store(l)->manifest;
    struct manifest_list *list = manifest_view(m);
    struct errmsg why;

    for (size_t i = 0; i < manifest_segments(list); i++) {
        const struct seg_info *info = manifest_segment(list, i);

        if (info->kind == SEG_RAW && info->window_ns < LAB_NS(second)) {
            assert_ok(manifest_change(m, NULL, 0, &info->number, 1, &why));
        }
    }
    manifest_publish(m);
    manifest_list_release(list);
}

/* Rows of the host in [since, until), a growth of 3 ms a second in all but the first if that has
 * nothing before it, and whether samples are said to be gone. */
static void expect_rows(struct lab *l, const char *host, unsigned since, unsigned until,
                        size_t rows, bool gone)
{
    for (unsigned step = 0; step < 2; step++) { /* each sample, and steps shorter than the tiers' */
        struct wire_query q = {.host = str_make(host),
                               .since_ns = LAB_NS(since),
                               .until_ns = LAB_NS(until),
                               .step_ns = step * CLK_S};
        struct query_answer a;
        int64_t sum = 0;
        bool have;

        ask_run(&a, l, QUERY_HISTORY, &q, NULL);
        if (a.data.n_rows != rows || ask_note(&a.data, "samples are gone") != gone) {
            fail_msg("%s from %u to %u, step %u s: %zu rows, gone: %d", host, since, until, step,
                     a.data.n_rows, ask_note(&a.data, "samples are gone"));
        }
        for (size_t i = 0; i < a.data.n_rows; i++) {
            assert_true(i == 0 || a.data.rows[i].when_ns > a.data.rows[i - 1].when_ns);
            sum += ask_value(&a.data, &a.data.rows[i], M_CPU_TIME, &have);
        }
        assert_true(sum >= 3 * MS * (until - since - 10) && sum <= 3 * MS * (until - since));
        query_answer_fini(&a);
    }
}

static void the_first_hour_of_a_store_has_every_sample(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.step_ns = CLK_S};
    struct query_answer a;

    put_sealed(l, 1, 100, 1000); /* from 22:15 on */
    put_sealed(l, 2, 400, 1000); /* joins later */
    expect_rows(l, "host-1", 100, 1000, 900, false);
    make_hour(l);
    expect_rows(l, "host-1", 100, 1000, 900, false);
    expect_rows(l, "host-1", 330, 777, 447, false);
    expect_rows(l, "host-2", 400, 1000, 600, false);
    q.host = str_make("host-2");
    q.since_ns = LAB_NS(500) + 1; /* between two steps */
    q.until_ns = LAB_NS(600) + 1;
    ask_run(&a, l, QUERY_HISTORY, &q, NULL);
    assert_int_equal(a.data.n_rows, 100);
    query_answer_fini(&a);
    lab_close(l);
}

static void at_the_edge_of_retention_every_sample_that_is_held_is_given(void **state)
{
    struct lab *l = lab_open(NULL, NULL);

    put_sealed(l, 1, 100, 1300);
    put_sealed(l, 2, 700, 1300); /* has all its rows */
    put_sealed(l, 3, 100, 700);  /* has none */
    drop_rows(l, 700);
    for (unsigned hour = 0; hour < 2; hour++) {
        expect_rows(l, "host-1", 700, 1300, 600, false);
        expect_rows(l, "host-1", 100, 1300, 60 + 600, true);
        expect_rows(l, "host-1", 400, 1000, 30 + 300, true);
        expect_rows(l, "host-2", 700, 1300, 600, false);
        expect_rows(l, "host-3", 100, 700, 60, true);
        if (!hour) {
            make_hour(l);
        }
    }
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
        cmocka_unit_test(the_first_hour_of_a_store_has_every_sample),
        cmocka_unit_test(at_the_edge_of_retention_every_sample_that_is_held_is_given),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
