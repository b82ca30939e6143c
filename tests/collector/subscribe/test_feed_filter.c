#include "collector/subscribe/feed_filter.h"

#include <string.h>

#include "tests/support/t.h"

#define ROOM             \
    {                    \
        1000, (1u << 20) \
    }

static const int64_t values[][3] = {{1, 2, 3}, {4, 5, 6}};

/* Four events and two rows of host web-1, items 0 to 5. */
static struct wire_update update(void)
{
    static struct wire_host host;
    static struct wire_event events[4];
    static struct wire_row rows[2];

    host = (struct wire_host){.name = str_make("web-1")};
    events[0].event = (struct life_event){.kind = LIFE_PROCESS_START,
                                          .info = {.id = {1, 0}, .name = str_make("sh")}};
    events[1].event = (struct life_event){.kind = LIFE_THREAD_START,
                                          .info = {.id = {2, 0}, .name = str_make("app.exe")}};
    events[2].event = (struct life_event){.kind = LIFE_LEVEL, .text = str_make("less")};
    events[3].event = (struct life_event){.kind = LIFE_PROCESS_STOP,
                                          .info = {.id = {4, 0}, .name = str_make("APP.EXE")}};
    rows[0] = (struct wire_row){
        .info = {.id = {5, 0}, .name = str_make("app.exe")}, .have = 3, .values = values[0]};
    rows[1] = (struct wire_row){
        .info = {.id = {6, 0}, .name = str_make("sh")}, .have = 6, .values = values[1]};
    return (struct wire_update){
        .name = str_make("web-1"),
        .data = {.n_hosts = 1,
                 .hosts = &host,
                 .n_events = 4,
                 .events = events,
                 .n_rows = 2,
                 .rows = rows,
                 .n_metrics = 3,
                 .metrics = {M_CPU_TIME, M_THREAD_COUNT, M_WORKING_SET_SIZE}}};
}

static void records_are_chosen_by_topic_host_and_scope(void **state)
{
    static const struct {
        struct wire_filter filter;
        const char *scope;
        bool event, sample, rule; /* of host web-1 */
    } cases[] = {
        {{0}, "", true, false, false},
        {{.samples = true}, "", true, true, false},
        {{.no_events = true}, "", false, false, false},
        {{.no_events = true, .samples = true}, "", false, true, false},
        {{.n_hosts = 1, .hosts = {{"web-1", 5}}}, "", true, false, false},
        {{.n_hosts = 1, .hosts = {{"web-", 4}}}, "", false, false, false},
        {{.n_hosts = 1, .hosts = {{"web-10", 6}}}, "", false, false, false},
        {{.n_hosts = 2, .hosts = {{"db-*", 4}, {"WEB-?", 5}}}, "", true, false, false},
        {{.n_hosts = 2, .hosts = {{"db-*", 4}, {"x", 1}}}, "", false, false, false},
        {{0}, "web-*", true, false, false},
        {{0}, "web", false, false, false},
        {{.n_hosts = 1, .hosts = {{"*", 1}}}, "db-*", false, false, false},
        {{.n_hosts = 1, .hosts = {{"web-1", 5}}}, "web-1", true, false, false},
        {{.rules = true}, "", true, false, true},
        {{.kinds = 1u << LIFE_RULE, .no_events = true}, "web-*", false, false, true},
        {{.rules = true}, "db-*", false, false, false},
    };
    struct journal_record r = {.name = "web-1"};

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        r.topic = FEED_EVENT;
        assert_int_equal(feed_filter_record(&cases[i].filter, cases[i].scope, &r), cases[i].event);
        r.topic = FEED_SAMPLE;
        assert_int_equal(feed_filter_record(&cases[i].filter, cases[i].scope, &r), cases[i].sample);
        r.topic = FEED_RULE;
        assert_int_equal(feed_filter_record(&cases[i].filter, cases[i].scope, &r), cases[i].rule);
    }
}

/* The pids of what came, as a text of digits; those of the host's agent are 0. */
static const char *cut_text(const struct wire_filter *f, uint32_t *from,
                            struct feed_filter_room *room)
{
    static char text[16];
    const struct wire_update in = update();
    struct wire_update out;
    struct arena memory;
    size_t n = 0;

    arena_init(&memory, 1u << 20);
    assert_ok(feed_filter_cut(&out, &in, f, from, room, &memory));
    for (size_t i = 0; i < out.data.n_events; i++) {
        text[n++] = (char)('0' + out.data.events[i].event.info.id.pid);
    }
    for (size_t i = 0; i < out.data.n_rows; i++) {
        text[n++] = (char)('0' + out.data.rows[i].info.id.pid);
    }
    text[n] = '\0';
    arena_fini(&memory);
    return text;
}

static void items_are_chosen_by_kind_program_and_metric(void **state)
{
    static const struct {
        struct wire_filter filter;
        const char *pids;
    } cases[] = {
        {{0}, "10456"},
        {{.kinds = UINT32_MAX}, "120456"},
        {{.kinds = 1u << LIFE_THREAD_START}, "256"},
        {{.kinds = 1u << 31}, "56"},
        {{.program = {"app*", 4}}, "45"},
        {{.program = {"sh", 2}, .kinds = UINT32_MAX}, "16"},
        {{.program = {"*", 1}, .kinds = UINT32_MAX}, "12456"},
        {{.n_metrics = 1, .metrics = {M_CPU_TIME}}, "1045"},
        {{.n_metrics = 1, .metrics = {M_THREAD_COUNT}}, "10456"},
        {{.n_metrics = 2, .metrics = {M_WORKING_SET_SIZE, M_PRIORITY}}, "1046"},
        {{.n_metrics = 1, .metrics = {M_PRIORITY}}, "104"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct feed_filter_room room = ROOM;
        uint32_t from = 0;

        assert_string_equal(cut_text(&cases[i].filter, &from, &room), cases[i].pids);
        assert_int_equal(from, UINT32_MAX);
        assert_int_equal(room.items, 1000 - strlen(cases[i].pids));
    }
}

static void an_update_is_cut_where_the_room_ends_and_goes_on_there(void **state)
{
    static const struct wire_filter all = {.n_hosts = 0};
    struct feed_filter_room room = {2, 1u << 20};
    uint32_t from = 0;

    assert_string_equal(cut_text(&all, &from, &room), "10");
    assert_int_equal(from, 3);
    room = (struct feed_filter_room){2, 1u << 20};
    assert_string_equal(cut_text(&all, &from, &room), "45");
    room = (struct feed_filter_room){2, 1000}; /* bytes for one */
    assert_string_equal(cut_text(&all, &from, &room), "6");
    assert_int_equal(from, UINT32_MAX);
    room = (struct feed_filter_room)ROOM;
    from = 4000000000;
    assert_string_equal(cut_text(&all, &from, &room), "");
    assert_int_equal(from, UINT32_MAX);
}

static void nothing_is_taken_when_there_is_no_room(void **state)
{
    static const struct wire_filter all = {.n_hosts = 0};
    struct feed_filter_room room = {5, 100};
    uint32_t from = 0;

    assert_string_equal(cut_text(&all, &from, &room), "");
    assert_int_equal(from, 0);
    assert_int_equal(room.items, 0);
}

static void values_keep_their_metric(void **state)
{
    static const struct wire_filter f = {
        .no_events = true, .n_metrics = 2, .metrics = {M_WORKING_SET_SIZE, M_CPU_TIME}};
    const struct wire_update in = update();
    struct feed_filter_room room = ROOM;
    struct wire_update out;
    struct arena memory;
    uint32_t from = 4; /* the rows */

    arena_init(&memory, 1u << 20);
    assert_ok(feed_filter_cut(&out, &in, &f, &from, &room, &memory));
    assert_int_equal(out.data.n_metrics, 2);
    assert_int_equal(out.data.metrics[0], M_CPU_TIME);
    assert_int_equal(out.data.metrics[1], M_WORKING_SET_SIZE);
    assert_int_equal(out.data.n_rows, 2);
    assert_int_equal(out.data.rows[0].have, 1);
    assert_int_equal(out.data.rows[0].values[0], 1);
    assert_int_equal(out.data.rows[1].have, 2);
    assert_int_equal(out.data.rows[1].values[1], 6);
    assert_true(str_eq(out.data.hosts[0].name, str_make("web-1")));
    arena_fini(&memory);
}

static void filters_differ_in_any_member(void **state)
{
    static const struct wire_filter base = {.n_hosts = 1,
                                            .hosts = {{"a", 1}},
                                            .program = {"p", 1},
                                            .kinds = 1,
                                            .n_metrics = 1,
                                            .metrics = {9},
                                            .min_interval_ns = 1};
    struct wire_filter f[9];

    for (size_t i = 0; i < COUNT_OF(f); i++) {
        f[i] = base;
    }
    assert_true(feed_filter_same(&base, &f[0]));
    f[0].n_hosts = 0;
    f[1].hosts[0] = str_make("b");
    f[2].program = str_make("");
    f[3].kinds = 2;
    f[4].no_events = true;
    f[5].samples = true;
    f[6].n_metrics = 0;
    f[7].metrics[0] = 10;
    f[8].min_interval_ns = 2;
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        assert_false(feed_filter_same(&base, &f[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_chosen_by_topic_host_and_scope),
        cmocka_unit_test(items_are_chosen_by_kind_program_and_metric),
        cmocka_unit_test(an_update_is_cut_where_the_room_ends_and_goes_on_there),
        cmocka_unit_test(nothing_is_taken_when_there_is_no_room),
        cmocka_unit_test(values_keep_their_metric),
        cmocka_unit_test(filters_differ_in_any_member),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
