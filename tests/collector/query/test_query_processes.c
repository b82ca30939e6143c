#include "tests/support/t.h"

#include "tests/collector/query/ask.h"

#define MS INT64_C(1000000)

/* Twenty seconds of pids 1 to n; pid 2 ends at second 105 (last row at 104). */
static void put_life(struct lab *l, unsigned host, unsigned n)
{
    lab_begin(l, host, 7, 1);
    for (unsigned i = 0; i < 30; i++) {
        lab_tick(l, 100 + i);
    }
    for (uint32_t pid = 1; pid <= n; pid++) {
        int64_t v[30];
        char name[16] = "p";

        for (unsigned i = 0; i < 30; i++) {
            v[i] = 100 * pid + 10 * i;
        }
        lab_cpu(l, pid, false, 0, pid == 2 ? 5 : 30, v);
        name[1] = (char)('0' + pid % 10);
        lab_name(l, pid, name);
    }
    lab_life(l, LIFE_PROCESS_STOP, 105, 2, "p2");
    lab_put(l);
}

static void living_processes_are_shown_with_totals(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;
    bool have;

    put_life(l, 1, 5);
    ask_run(&a, l, QUERY_PROCESSES, &q, NULL);
    assert_int_equal(a.data.n_rows, 4);
    assert_int_equal(a.data.rows[0].info.id.pid, 1);
    assert_int_equal(a.data.rows[1].info.id.pid, 3);
    assert_int_equal(a.data.rows[1].when_ns, LAB_NS(129));
    assert_int_equal(ask_value(&a.data, &a.data.rows[1], M_CPU_TIME, &have), 590 * MS);
    /* 10 ms each second: 1 % of a CPU */
    assert_int_equal(ask_value(&a.data, &a.data.rows[1], M_CPU_PERCENT, &have), 10);
    assert_true(have);
    query_answer_fini(&a);
    lab_close(l);
}

static void ended_processes_appear_when_asked_for(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.exited = true};
    struct query_answer a;

    put_life(l, 1, 5);
    ask_run(&a, l, QUERY_PROCESSES, &q, NULL);
    assert_int_equal(a.data.n_rows, 5);
    assert_int_equal(a.data.rows[1].info.id.pid, 2);
    assert_int_equal(a.data.rows[1].info.exit_code, 7);
    assert_true(a.data.rows[1].info.have & INFO_EXITED);
    query_answer_fini(&a);
    lab_close(l);
}

static void a_moment_in_the_past_shows_who_lived_then(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.until_ns = LAB_NS(104.5)};
    struct query_answer a;
    bool have;

    put_life(l, 1, 3);
    ask_run(&a, l, QUERY_PROCESSES, &q, NULL);
    assert_int_equal(a.data.n_rows, 3);
    assert_int_equal(a.data.rows[1].info.id.pid, 2);
    assert_int_equal(ask_value(&a.data, &a.data.rows[1], M_CPU_TIME, &have), 240 * MS);
    query_answer_fini(&a);
    lab_close(l);
}

static void who_vanished_without_a_word_is_not_alive(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    put_life(l, 1, 3);
    lab_begin(l, 1, 8, 1); /* the agent comes back a minute later: pid 3 is gone */
    lab_tick(l, 190);
    lab_cpu(l, 1, false, 0, 1, (int64_t[]){900});
    lab_put(l);
    ask_run(&a, l, QUERY_PROCESSES, &q, NULL);
    assert_int_equal(a.data.n_rows, 1);
    assert_int_equal(a.data.rows[0].info.id.pid, 1);
    query_answer_fini(&a);
    lab_begin(l, 1, 9, 1); /* and another boot: nobody of the old one */
    lab_boot(l, 2);
    lab_tick(l, 195);
    lab_cpu(l, 44, false, 0, 1, (int64_t[]){900});
    lab_put(l);
    ask_run(&a, l, QUERY_PROCESSES, &q, NULL);
    assert_int_equal(a.data.n_rows, 1);
    assert_int_equal(a.data.rows[0].info.id.pid, 44);
    query_answer_fini(&a);
    lab_close(l);
}

static void a_process_that_was_only_named_is_shown_without_values(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    lab_begin(l, 1, 7, 1);
    lab_tick(l, 100);
    lab_cpu(l, 1, false, 0, 1, (int64_t[]){900});
    lab_name(l, 8, "silent");
    lab_put(l);
    ask_run(&a, l, QUERY_PROCESSES, &q, NULL);
    assert_int_equal(a.data.n_rows, 2);
    assert_true(str_eq(a.data.rows[1].info.name, str_make("silent")));
    assert_int_equal(a.data.rows[1].have, 0);
    query_answer_fini(&a);
    lab_close(l);
}

static void pages_together_are_everything_once(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.limit = 3};
    uint8_t cursor[WIRE_CURSOR_MAX];
    size_t rows = 0;
    uint64_t sum = 0;
    bool more = true;

    for (unsigned h = 1; h <= 3; h++) {
        put_life(l, h, 8);
    }
    while (more) {
        struct query_answer a;

        ask_run(&a, l, QUERY_PROCESSES, &q, NULL);
        assert_in_range(a.data.n_rows, 0, 3);
        for (size_t i = 0; i < a.data.n_rows; i++) {
            sum += a.data.rows[i].info.id.pid;
        }
        rows += a.data.n_rows;
        assert_in_range(rows, 0, 21);
        more = a.more;
        memcpy(cursor, a.cursor, a.cursor_n);
        q.cursor = (struct str){(const char *)cursor, a.cursor_n};
        query_answer_fini(&a);
    }
    assert_int_equal(rows, 21);
    assert_int_equal(sum, 3 * (36 - 2));
    lab_close(l);
}

static void expect_name(struct lab *l, bool exited, const char *name)
{
    struct wire_query q = {.exited = exited};
    struct query_answer a;

    ask_run(&a, l, QUERY_PROCESSES, &q, NULL);
    assert_int_equal(a.data.n_rows, 1);
    assert_true(str_eq(a.data.rows[0].info.name, str_make(name)));
    query_answer_fini(&a);
}

/* A start tells what ran then; an exec behind it is told by the rows. */
static void what_a_process_became_last_is_its_name(void **state)
{
    struct lab *l = lab_open(NULL, NULL);

    lab_begin(l, 1, 7, 1);
    lab_tick(l, 100);
    lab_tick(l, 101);
    lab_cpu(l, 9, true, 0, 2, (int64_t[]){4, 10});
    lab_life(l, LIFE_PROCESS_START, 99.5, 9, "nice");
    lab_name(l, 9, "sleep");
    lab_put(l);
    expect_name(l, false, "sleep");
    lab_begin(l, 1, 7, 2); /* told once more, late */
    lab_tick(l, 102);
    lab_cpu(l, 9, false, 0, 1, (int64_t[]){11});
    lab_life(l, LIFE_PROCESS_START, 99.5, 9, "nice");
    lab_put(l);
    expect_name(l, false, "sleep");
    lab_begin(l, 1, 7, 3); /* another exec, and gone: its end knows best */
    lab_tick(l, 103);
    lab_cpu(l, 9, false, 0, 1, (int64_t[]){12});
    lab_life(l, LIFE_PROCESS_STOP, 104, 9, "last");
    lab_name(l, 9, "middle");
    lab_put(l);
    expect_name(l, true, "last");
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(living_processes_are_shown_with_totals),
        cmocka_unit_test(ended_processes_appear_when_asked_for),
        cmocka_unit_test(a_moment_in_the_past_shows_who_lived_then),
        cmocka_unit_test(who_vanished_without_a_word_is_not_alive),
        cmocka_unit_test(a_process_that_was_only_named_is_shown_without_values),
        cmocka_unit_test(pages_together_are_everything_once),
        cmocka_unit_test(what_a_process_became_last_is_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
