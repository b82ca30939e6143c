#include "tests/support/t.h"

#include "common/base/clk.h"
#include "tests/collector/query/ask.h"

static void put_events(struct lab *l, unsigned host, unsigned n)
{
    lab_begin(l, host, 7, 1);
    lab_tick(l, 100);
    lab_tick(l, 100 + n);
    for (unsigned i = 0; i < n; i++) {
        lab_life(l, LIFE_PROCESS_START, 100 + i, 1000 + i, i % 2 ? "odd" : "even");
    }
    lab_put(l);
}

static void starts_and_stops_come_in_time_order_over_hosts(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;

    put_events(l, 2, 10);
    put_events(l, 1, 10);
    ask_run(&a, l, QUERY_EVENTS, &q, NULL);
    assert_int_equal(a.data.n_events, 20);
    assert_false(a.more);
    for (unsigned i = 0; i < 20; i++) {
        const struct wire_event *ev = &a.data.events[i];

        assert_int_equal(ev->event.wall_ns, LAB_NS(100 + i / 2));
        assert_int_equal(ev->event.info.id.pid, 1000 + i / 2);
        assert_true(str_eq(a.data.hosts[ev->host].name, str_make(i % 2 ? "host-2" : "host-1")));
    }
    query_answer_fini(&a);
    lab_close(l);
}

/* A host's batches with an event each second of the collector's clock, stamped as its own shows:
 * right, then an hour ahead, then right again. */
static void put_jumping(struct lab *l, unsigned host, uint32_t first_pid)
{
    static const int64_t ahead_s[] = {0, 3600, 0};

    for (unsigned k = 0; k < 3; k++) {
        lab_begin(l, host, 7, 1 + k);
        lab_clock(l, (struct host_offset){true, true, -ahead_s[k] * CLK_S, 250 * CLK_MS});
        for (unsigned i = 0; i < 10; i++) {
            double second = 100 + 10 * k + i + (double)ahead_s[k];

            lab_tick(l, second);
            lab_life(l, LIFE_PROCESS_START, second, first_pid + 10 * k + i, "same");
        }
        lab_put(l);
    }
}

static void order_is_by_the_collectors_clock_on_every_page(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.limit = 7, .since_ns = LAB_NS(0), .until_ns = LAB_NS(9000)};
    uint8_t cursor[WIRE_CURSOR_MAX];
    unsigned n = 0;
    bool more = true;

    put_jumping(l, 1, 1000);
    lab_clock(l, (struct host_offset){0});
    put_events(l, 2, 30);
    while (more) {
        struct query_answer a;

        ask_run(&a, l, QUERY_EVENTS, &q, NULL);
        for (size_t i = 0; i < a.data.n_events; i++, n++) {
            const struct wire_event *ev = &a.data.events[i];
            int64_t jumped_s = n % 2 == 0 && n / 2 >= 10 && n / 2 < 20 ? 3600 : 0;

            assert_int_equal(ev->event.info.id.pid, 1000 + n / 2);
            assert_true(str_eq(a.data.hosts[ev->host].name, str_make(n % 2 ? "host-2" : "host-1")));
            assert_int_equal(ev->event.wall_ns, LAB_NS(100 + n / 2) + jumped_s * CLK_S);
        }
        if (n == 7) {
            assert_true(ask_note(&a.data, "by the collector's clock"));
            assert_true(ask_note(&a.data, "3600.000 s ahead, give or take 0.250 s"));
        }
        more = a.more;
        memcpy(cursor, a.cursor, a.cursor_n);
        q.cursor = (struct str){(const char *)cursor, a.cursor_n};
        query_answer_fini(&a);
    }
    assert_int_equal(n, 60);
    lab_close(l);
}

static void a_stop_is_completed_from_what_is_known(void **state)
{
    struct proc_info info = {
        .id = {5, 5},
        .have = INFO_PARENT | INFO_COMMAND_LINE_KNOWN | INFO_CREATE_TIME,
        .parent_pid = 3,
        .create_ns = LAB_NS(90),
        .name = {"thing", 5},
        .command_line = {"thing --do", 10},
    };
    struct life_event stop = {.kind = LIFE_PROCESS_STOP,
                              .wall_ns = LAB_NS(101),
                              .info = {.id = {5, 5},
                                       .have = INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE,
                                       .exit_ns = LAB_NS(101),
                                       .exit_code = 3}};
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};
    struct query_answer a;
    const struct proc_info *got;

    lab_begin(l, 1, 7, 1);
    lab_tick(l, 100);
    lab_info(l, &info);
    lab_event(l, &stop);
    lab_put(l);
    ask_run(&a, l, QUERY_EVENTS, &q, NULL);
    assert_int_equal(a.data.n_events, 1);
    got = &a.data.events[0].event.info;
    assert_true(str_eq(got->name, str_make("thing")));
    assert_true(str_eq(got->command_line, str_make("thing --do")));
    assert_int_equal(got->parent_pid, 3);
    assert_int_equal(got->exit_code, 3);
    assert_true(got->have & INFO_PARENT && got->have & INFO_EXIT_CODE);
    query_answer_fini(&a);
    lab_close(l);
}

static void filters_by_kind_pid_name_and_time_work(void **state)
{
    static const struct {
        struct wire_query q;
        size_t n;
    } table[] = {
        {{.limit = 0}, 11},
        {{.kinds = 1u << LIFE_PROCESS_START}, 10},
        {{.kinds = 1u << LIFE_PROCESS_STOP}, 1},
        {{.kinds = 1u << LIFE_IMAGE_LOAD}, 1},
        {{.kinds = 1u << LIFE_THREAD_START}, 0},
        {{.has_pid = true, .pid = 1003}, 1},
        {{.name = {"EV*", 3}}, 5},
        {{.since_ns = LAB_NS(103), .until_ns = LAB_NS(105)}, 2},
        {{.last_ns = 1}, 1}, /* the newest moment: the stop */
    };
    struct life_event image = {
        .kind = LIFE_IMAGE_LOAD, .wall_ns = LAB_NS(110), .text = {"a.dll", 5}};
    struct lab *l = lab_open(NULL, NULL);

    image.info.id = (struct proc_id){1000, 1000};
    put_events(l, 1, 10);
    lab_begin(l, 1, 7, 2);
    lab_tick(l, 110);
    lab_event(l, &image);
    lab_life(l, LIFE_PROCESS_STOP, 111, 2000, "other");
    lab_put(l);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct query_answer a;

        ask_run(&a, l, QUERY_EVENTS, &table[i].q, NULL);
        if (a.data.n_events != table[i].n) {
            fail_msg("row %zu: %zu events", i, a.data.n_events);
        }
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void what_agents_tell_belongs_to_no_process(void **state)
{
    static const struct {
        struct wire_query q;
        size_t n;
    } table[] = {
        {{.limit = 0}, 4},
        {{.kinds = 1u << LIFE_LEVEL | 1u << LIFE_SOURCE}, 2},
        {{.kinds = 1u << LIFE_SOURCE}, 1},
        {{.kinds = 1u << LIFE_PROCESS_START}, 2},
        {{.has_pid = true, .pid = 0}, 0},
        {{.has_pid = true, .pid = 1000}, 1},
        {{.name = {"*", 1}}, 2},
        {{.idle = true, .kinds = 1u << LIFE_LEVEL}, 1},
    };
    const struct life_event level = {
        .kind = LIFE_LEVEL, .wall_ns = LAB_NS(100.5), .text = {"less", 4}};
    const struct life_event source = {
        .kind = LIFE_SOURCE, .wall_ns = LAB_NS(101.5), .text = {"polled", 6}};
    struct wire_query all = {.idle = true, .exited = true};
    struct lab *l = lab_open(NULL, NULL);
    struct query_answer a;

    put_events(l, 1, 2);
    lab_begin(l, 1, 7, 2);
    lab_event(l, &level);
    lab_event(l, &source);
    lab_put(l);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        ask_run(&a, l, QUERY_EVENTS, &table[i].q, NULL);
        if (a.data.n_events != table[i].n) {
            fail_msg("row %zu: %zu events", i, a.data.n_events);
        }
        query_answer_fini(&a);
    }
    ask_run(&a, l, QUERY_EVENTS, &all, NULL);
    assert_true(str_eq(a.data.events[1].event.text, str_make("less")));
    assert_true(str_eq(a.data.events[3].event.text, str_make("polled")));
    query_answer_fini(&a);
    ask_run(&a, l, QUERY_PROCESSES, &all, NULL);
    assert_int_equal(a.data.n_rows, 2); /* the two that started, and no process 0 */
    query_answer_fini(&a);
    ask_run(&a, l, QUERY_TOP, &all, NULL);
    for (size_t i = 0; i < a.data.n_rows; i++) {
        assert_int_not_equal(a.data.rows[i].info.id.pid, 0);
    }
    query_answer_fini(&a);
    lab_close(l);
}

static void pages_give_every_event_once_even_at_one_moment(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    bool seen[2][60] = {{false}};
    size_t n = 0;
    struct wire_query q = {.limit = 7};
    uint8_t cursor[WIRE_CURSOR_MAX];
    bool more = true;

    for (unsigned h = 1; h <= 2; h++) {
        lab_begin(l, h, 7, 1);
        lab_tick(l, 100);
        for (uint32_t i = 0; i < 60; i++) {
            lab_life(l, LIFE_PROCESS_START, 100, i, "same");
        }
        lab_put(l);
    }
    q.idle = true;
    while (more) {
        struct query_answer a;

        ask_run(&a, l, QUERY_EVENTS, &q, NULL);
        assert_in_range(a.data.n_events, 1, 7);
        for (size_t i = 0; i < a.data.n_events; i++) {
            const struct wire_event *ev = &a.data.events[i];
            bool *once = &seen[a.data.hosts[ev->host].id.b[15] - 1][ev->event.info.id.pid];

            assert_false(*once);
            *once = true;
            n++;
        }
        more = a.more;
        memcpy(cursor, a.cursor, a.cursor_n);
        q.cursor = (struct str){(const char *)cursor, a.cursor_n};
        query_answer_fini(&a);
    }
    assert_int_equal(n, 120);
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_and_stops_come_in_time_order_over_hosts),
        cmocka_unit_test(order_is_by_the_collectors_clock_on_every_page),
        cmocka_unit_test(a_stop_is_completed_from_what_is_known),
        cmocka_unit_test(filters_by_kind_pid_name_and_time_work),
        cmocka_unit_test(what_agents_tell_belongs_to_no_process),
        cmocka_unit_test(pages_give_every_event_once_even_at_one_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
