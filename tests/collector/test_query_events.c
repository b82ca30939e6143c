#include "tests/support/t.h"

#include "tests/collector/ask.h"

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

    (void)state;
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

    (void)state;
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
        .kind = LIFE_IMAGE_LOAD, .wall_ns = LAB_NS(110), .path = {"a.dll", 5}};
    struct lab *l = lab_open(NULL, NULL);

    (void)state;
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

static void pages_give_every_event_once_even_at_one_moment(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    bool seen[2][60] = {{false}};
    size_t n = 0;
    struct wire_query q = {.limit = 7};
    uint8_t cursor[WIRE_CURSOR_MAX];
    bool more = true;

    (void)state;
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
        cmocka_unit_test(a_stop_is_completed_from_what_is_known),
        cmocka_unit_test(filters_by_kind_pid_name_and_time_work),
        cmocka_unit_test(pages_give_every_event_once_even_at_one_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
