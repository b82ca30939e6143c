/* Filters: which hosts, which rows, what is not known; who grew. */
#include "tests/support/t.h"

#include <string.h>

#include "common/model/inventory.h"
#include "common/wire/wire_series.h"
#include "tests/collector/query/ask.h"

/* Of each host two processes that live and two that ended: pid 1 "sh" and 2 "cc1 -quiet" use
 * 100 × pid ns of CPU time in each second; 11 ended with code 3 after half a second, 12 by SIGSEGV
 * after five. Nothing is known of 3 but its figures. */
static void put(struct lab *l, unsigned host)
{
    static const struct {
        uint32_t pid, code, have;
        double began, ended;
    } gone[] = {{11, 3, 0, 100, 100.5}, {12, 139, INFO_SIGNALLED, 101, 106}};
    static const struct proc_info alive[] = {
        {.id = {1, 1}, .name = {"sh", 2}, .user = {"root", 4}},
        {.id = {2, 2},
         .have = INFO_PARENT | INFO_COMMAND_LINE_KNOWN,
         .parent_pid = 1,
         .name = {"cc1", 3},
         .user = {"pg", 2},
         .command_line = {"cc1 -quiet a.c", 14}},
    };

    const uint8_t cpu_time = M_CPU_TIME;

    lab_begin(l, host, 7, 1);
    for (unsigned i = 0; i < 10; i++) {
        lab_tick(l, 100 + i);
    }
    for (uint32_t pid = 1; pid <= 3; pid++) {
        int64_t v[10];

        for (unsigned i = 0; i < 10; i++) {
            v[i] = (int64_t)(100 * pid * i);
        }
        lab_run(l, pid, pid, 0, 10, false, 1, &cpu_time, v);
        if (pid <= COUNT_OF(alive)) {
            lab_info(l, &alive[pid - 1]);
        }
    }
    for (size_t i = 0; i < COUNT_OF(gone); i++) {
        struct life_event stop = {.kind = LIFE_PROCESS_STOP,
                                  .wall_ns = LAB_NS(gone[i].ended),
                                  .info = {.id = {gone[i].pid, gone[i].pid},
                                           .have = INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE |
                                                   INFO_CREATE_TIME | INFO_PARENT | gone[i].have,
                                           .parent_pid = 2,
                                           .name = {"as", 2},
                                           .create_ns = LAB_NS(gone[i].began),
                                           .exit_ns = LAB_NS(gone[i].ended),
                                           .exit_code = gone[i].code}};

        lab_event(l, &stop);
    }
    lab_put(l);
}

/* host-1 is Linux with label rack=3, host-2 Windows without a label; of host-3 nothing is known. */
static const struct facts *facts_of(void *ctx, const struct uuid *host, const char *name,
                                    struct arena *a)
{
    static const struct facts known[] = {
        {.inventory = {.os = {"linux", 5}, .cpu_cores = 8, .memory_bytes = UINT64_C(16) << 30},
         .n_labels = 1,
         .labels = {{{"rack", 4}, {"3", 1}, false}}},
        {.inventory = {.os = {"windows", 7}, .cpu_cores = 4, .memory_bytes = UINT64_C(32) << 30}},
    };

    return strcmp(name, "host-1") == 0 ? &known[0] : strcmp(name, "host-2") == 0 ? &known[1] : NULL;
}

static enum err run(struct query_answer *out, struct lab *l, enum query_kind kind,
                    const struct wire_query *q, struct errmsg *why)
{
    struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(1000), .facts = facts_of};

    return query_run(out, kind, &env, q, why);
}

/* "host-1:2 host-2:2 …" of rows or events, or the hosts' names. */
static void show(const struct wire_answer *a, enum query_kind kind, char *text, size_t size)
{
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < a->n_rows + a->n_events && n < size; i++) {
        bool row = i < a->n_rows;
        uint32_t host = row ? a->rows[i].host : a->events[i].host;
        const struct proc_info *p = row ? &a->rows[i].info : &a->events[i].event.info;

        n += (size_t)snprintf(text + n, size - n, "%s%.*s:%u", n ? " " : "",
                              (int)a->hosts[host].name.n - 5, a->hosts[host].name.p + 5,
                              (unsigned)p->id.pid);
    }
    for (size_t i = 0; kind == QUERY_HOSTS && i < a->n_hosts; i++) {
        n += (size_t)snprintf(text + n, size - n, "%s%.*s", n ? " " : "",
                              (int)a->hosts[i].name.n - 5, a->hosts[i].name.p + 5);
    }
}

struct filter {
    enum query_kind kind;
    const char *where, *want; /* host and pid of the rows */
    const char *note;         /* NULL: none of rows that are unknown */
};

static void rows_are_those_that_fulfil_the_filter(void **state)
{
    static const struct filter table[] = {
        {QUERY_TOP, "name == \"cc1\"", "1:2 2:2 3:2", "3 rows"},
        {QUERY_TOP, "cpu_time > 2us", "1:3 2:3 3:3", NULL},
        {QUERY_TOP, "cpu_time > 1us and cpu_time <= 2us", "1:2 2:2 3:2", NULL},
        {QUERY_TOP, "cpu_time / 100ns == 9 and user == \"root\"", "1:1 2:1 3:1", NULL},
        {QUERY_TOP, "command ~ \"*-quiet*\" and label.rack == \"3\"", "1:2", "rows"},
        {QUERY_TOP, "host == \"host-2\" and pid in [1, 3]", "2:3 2:1", NULL},
        {QUERY_TOP, "os == windows and pid == 1", "2:1", "1 row"},
        {QUERY_TOP, "memory < 32GiB and pid == 1", "1:1", "1 row"},
        {QUERY_TOP, "cores >= 4 and pid == 1", "1:1 2:1", "1 row"},
        {QUERY_PROCESSES, "parent == 1", "1:2 2:2 3:2", "6 rows"},
        {QUERY_PROCESSES, "cpu_time == 900ns and host == \"host-1\"", "1:1", "2 rows"},
        {QUERY_PROCESSES, "ended == crash", "1:12 2:12 3:12", "3 rows"},
        {QUERY_PROCESSES, "exit != 0 and life < 1s", "1:11 2:11 3:11", "rows"},
        {QUERY_TREE, "name == \"cc1\"", "1:2 2:2 3:2", "3 rows"},
        {QUERY_TREE, "cpu_time > 1us and pid < 3", "1:2 2:2 3:2", NULL},
        {QUERY_EVENTS, "ended == crash", "1:12 2:12 3:12", NULL},
        {QUERY_EVENTS, "ended == error and life < 1s", "1:11 2:11 3:11", NULL},
        {QUERY_EVENTS, "exit > 100 and label.rack ~ \"*\"", "1:12", "2 rows"},
        {QUERY_EVENTS, "kind == process_start", "", NULL},
        {QUERY_EVENTS, "user == \"nobody\"", "", "6 rows"},
        {QUERY_HOSTS, "memory > 16GiB", "2", "1 row"},
        {QUERY_HOSTS, "os == linux or host ~ \"*-3\"", "1 3", NULL},
        {QUERY_HOSTS, "not (label.rack == \"3\")", "", "2 rows"},
    };
    struct lab *l = lab_open(NULL, NULL);

    put(l, 1);
    put(l, 2);
    put(l, 3);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct wire_query q = {.events.where = str_make(table[i].where), .exited = true};
        struct query_answer a;
        struct errmsg why = {""};
        char got[256];

        if (run(&a, l, table[i].kind, &q, &why)) {
            fail_msg("%s: %s", table[i].where, why.text);
        }
        show(&a.data, table[i].kind, got, sizeof got);
        if (strcmp(got, table[i].want) != 0) {
            fail_msg("%s gives %s instead of %s", table[i].where, got, table[i].want);
        }
        if (ask_note(&a.data, "of which it is not known") != (table[i].note != NULL) ||
            (table[i].note && !ask_note(&a.data, table[i].note))) {
            fail_msg("%s: what is not known", table[i].where);
        }
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void the_filter_is_judged_before_the_limit_on_every_page(void **state)
{
    static const enum query_kind kinds[] = {QUERY_PROCESSES, QUERY_TREE, QUERY_EVENTS,
                                            QUERY_HISTORY};
    static const char *const wheres[] = {"name == \"cc1\"", "name == \"cc1\"", "ended == crash",
                                         "name == \"cc1\" and cpu_time > 0"};
    struct lab *l = lab_open(NULL, NULL);

    put(l, 1);
    put(l, 2);
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        struct wire_query q = {
            .events.where = str_make(wheres[k]), .limit = 1, .last_ns = 20 * INT64_C(1000000000)};
        uint8_t cursor[WIRE_CURSOR_MAX];
        size_t rows = 0, pages = 0;
        bool more = true;

        for (; more; pages++) {
            struct query_answer a;
            struct errmsg why = {""};

            assert_in_range(pages, 0, 100);
            assert_ok(run(&a, l, kinds[k], &q, &why));
            assert_true(a.data.n_rows + a.data.n_events <= 1);
            for (size_t i = 0; i < a.data.n_rows; i++) {
                assert_int_equal(a.data.rows[i].info.id.pid, 2);
            }
            rows += a.data.n_rows + a.data.n_events;
            more = a.more;
            memcpy(cursor, a.cursor, a.cursor_n);
            q.cursor = (struct str){(const char *)cursor, a.cursor_n};
            query_answer_fini(&a);
        }
        assert_int_equal(rows, kinds[k] == QUERY_HISTORY ? 18 : 2);
    }
    lab_close(l);
}

static void groups_are_of_the_processes_that_fit(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.events.where = str_make("cpu_time > 1us"), .group_by = WIRE_GROUP_HOST};
    struct query_answer a;
    struct errmsg why = {""};

    put(l, 1);
    put(l, 2);
    assert_ok(run(&a, l, QUERY_TOP, &q, &why));
    assert_int_equal(a.data.n_rows, 2);
    assert_int_equal(a.data.rows[0].instances, 2);
    assert_int_equal(a.data.rows[0].values[0], 9 * (200 + 300));
    query_answer_fini(&a);
    q.group_by = WIRE_GROUP_TREE;
    q.events.where = str_make("name == \"sh\" and cpu_time == 2700ns"); /* of it and of cc1 */
    assert_ok(run(&a, l, QUERY_TOP, &q, &why));
    assert_int_equal(a.data.n_rows, 2);
    query_answer_fini(&a);
    lab_close(l);
}

static void hosts_are_named_more_than_once_and_by_labels(void **state)
{
    static const struct {
        struct wire_query q;
        const char *want, *note;
    } table[] = {
        {{.n_hosts = 2, .hosts = {{"host-1", 6}, {"*-3", 3}}}, "1 3", NULL},
        {{.host = {"host-2", 6}, .n_hosts = 1, .hosts = {{"host-1", 6}}}, "1 2", NULL},
        {{.n_hosts = 3, .hosts = {{"host-1", 6}, {"nowhere", 7}, {"no*", 3}}},
         "1",
         "no host matches \"nowhere\", \"no*\""},
        {{.n_labels = 1, .labels = {{{"rack", 4}, {"3*", 2}, false}}}, "1", NULL},
        {{.n_labels = 2,
          .labels = {{{"rack", 4}, {"4", 1}, false}, {{"rack", 4}, {"3", 1}, false}}},
         "1",
         NULL},
        {{.n_labels = 2, .labels = {{{"rack", 4}, {"3", 1}, false}, {{"row", 3}, {"*", 1}, false}}},
         "",
         "no host has these labels"},
    };
    struct lab *l = lab_open(NULL, NULL);

    put(l, 1);
    put(l, 2);
    put(l, 3);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct query_answer a;
        struct errmsg why = {""};
        char got[64];

        assert_ok(run(&a, l, QUERY_HOSTS, &table[i].q, &why));
        show(&a.data, QUERY_HOSTS, got, sizeof got);
        assert_string_equal(got, table[i].want);
        assert_int_equal(a.data.partial, table[i].note && a.data.n_hosts);
        assert_true(!table[i].note || ask_note(&a.data, table[i].note));
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void what_is_wrong_with_a_filter_is_said(void **state)
{
    static const struct {
        enum query_kind kind;
        const char *where, *says;
    } table[] = {
        {QUERY_TOP, "exit_code == 3", "column 1: there is no field exit_code (is exit meant?)"},
        {QUERY_TOP, "cpu_time > 2GiB", "column 12: cpu_time is a time"},
        {QUERY_EVENTS, "cpu_time > 2s", "column 1: there is no field cpu_time"},
        {QUERY_HOSTS, "exit == 3", "column 1: there is no field exit"},
        {QUERY_COVERAGE, "exit == 3", "column 1: there is no field exit"},
        {QUERY_TOP, "label.RACK == \"3\"", "no field label.RACK"},
        {QUERY_EVENTS, "kind == start", "process_start process_stop"},
        {QUERY_TOP, "avg(cpu_time, 5m) > 1s", "there are no functions here"},
    };
    struct lab *l = lab_open(NULL, NULL);

    put(l, 1);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct wire_query q = {.events.where = str_make(table[i].where)};
        struct query_answer a;
        struct errmsg why = {""};

        assert_err(run(&a, l, table[i].kind, &q, &why), ERR_INVALID);
        if (!strstr(why.text, table[i].says)) {
            fail_msg("%s: %s", table[i].where, why.text);
        }
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void values_of_providers_that_are_not_known_are_counted(void **state)
{
    static const struct event_type type = {
        .guid = {1}, .level = 2, .provider = {"MyTool", 6}, .name = {"Done", 4}};
    const struct life_event ev = {
        .kind = LIFE_PROVIDER, .wall_ns = LAB_NS(101), .info = {.id = {2, 2}}, .type = &type};
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.events.provider = str_make("My*"),
                           .events.where = str_make("level < 3 or field.Status == 1")};
    struct query_answer a;
    struct errmsg why = {""};

    lab_begin(l, 1, 7, 1);
    lab_tick(l, 100);
    lab_event(l, &ev);
    lab_put(l);
    assert_ok(run(&a, l, QUERY_EVENTS, &q, &why));
    assert_int_equal(a.data.n_events, 1);
    assert_false(ask_note(&a.data, "not known whether"));
    query_answer_fini(&a);
    q.events.where = str_make("field.Status == 1");
    assert_ok(run(&a, l, QUERY_EVENTS, &q, &why));
    assert_int_equal(a.data.n_events, 0);
    assert_true(ask_note(&a.data, "left out: 1 row of which it is not known whether --where"));
    query_answer_fini(&a);
    lab_close(l);
}

/* One filter speaks of what an event says itself, of its process and of its host. */
static void events_are_judged_by_values_processes_and_hosts(void **state)
{
    static const struct str fields[] = {{"Status", 6}};
    static const struct event_type type = {.guid = {1},
                                           .level = 2,
                                           .provider = {"MyTool", 6},
                                           .name = {"Done", 4},
                                           .n_fields = 1,
                                           .fields = fields};
    static const struct {
        const char *where, *want;
    } table[] = {
        {"field.Status == 1 and os == linux", "1:2"},
        {"field.Status == 1 and name == \"cc1\" and level < 3", "1:2 2:2"},
        {"field.Status == 2 and name == \"cc1\"", ""},
        {"provider ~ \"my*\" and label.rack == \"3\" and kind == \"provider\"", "1:2"},
        {"event == \"Done\" and user != \"root\" and cores < 8", "2:2"},
        {"ended == crash or field.Status == 1", "1:2 2:2 1:12 2:12"},
    };
    struct lab *l = lab_open(NULL, NULL);

    for (unsigned host = 1; host <= 2; host++) {
        const struct life_event ev = {.kind = LIFE_PROVIDER,
                                      .wall_ns = LAB_NS(100),
                                      .info = {.id = {2, 2}},
                                      .type = &type,
                                      .values = {"\2\1", 2}};

        put(l, host);
        lab_begin(l, host, 9, 1);
        lab_tick(l, 100);
        lab_event(l, &ev);
        lab_put(l);
    }
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct wire_query q = {.events.where = str_make(table[i].where),
                               .kinds = 1u << LIFE_PROVIDER | 1u << LIFE_PROCESS_STOP};
        struct query_answer a;
        struct errmsg why = {""};
        char got[128];

        assert_ok(run(&a, l, QUERY_EVENTS, &q, &why));
        show(&a.data, QUERY_EVENTS, got, sizeof got);
        assert_string_equal(got, table[i].want);
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void ancestors_come_with_events_and_trees(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.events.where = str_make("ended == crash"), .ancestors = true};
    struct query_answer a;
    struct errmsg why = {""};

    put(l, 1);
    assert_ok(run(&a, l, QUERY_EVENTS, &q, &why));
    assert_int_equal(a.data.n_events, 1);
    assert_int_equal(a.data.events[0].n_ancestors, 2);
    assert_int_equal(a.data.events[0].ancestors[0].id.pid, 2);
    assert_true(str_eq(a.data.events[0].ancestors[1].name, str_make("sh")));
    query_answer_fini(&a);
    q = (struct wire_query){.has_pid = true, .pid = 2, .ancestors = true};
    assert_ok(run(&a, l, QUERY_TREE, &q, &why));
    assert_int_equal(a.data.n_rows, 2);
    assert_true(a.data.rows[0].info.id.pid == 1 && a.data.rows[0].depth == 0);
    assert_true(a.data.rows[1].info.id.pid == 2 && a.data.rows[1].depth == 1);
    query_answer_fini(&a);
    lab_close(l);
}

/* Gauges over 62 s, in 32 parts of two: pid 1 rises by 10 in each second, 2 falls, 3 rises once,
 * 4 is seen in one part alone. */
static void put_gauges(struct lab *l)
{
    static const uint8_t metric = M_PRIVATE_BYTES;
    int64_t v[4][62];

    lab_begin(l, 1, 7, 1);
    for (unsigned i = 0; i < 62; i++) {
        lab_tick(l, 100 + i);
        v[0][i] = 1000 + 10 * i;
        v[1][i] = 5000 - 10 * i;
        v[2][i] = i < 50 ? 100 : 400;
        v[3][i] = 1000000;
    }
    for (uint32_t pid = 1; pid <= 3; pid++) {
        lab_run(l, pid, pid, 0, 62, false, 1, &metric, v[pid - 1]);
    }
    lab_run(l, 4, 4, 30, 1, false, 1, &metric, v[3]);
    lab_put(l);
}

static void who_grew_comes_first(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.n_metrics = 1,
                           .metrics = {M_PRIVATE_BYTES},
                           .by = WIRE_BY_GROWTH,
                           .since_ns = LAB_NS(100),
                           .until_ns = LAB_NS(162)};
    struct query_answer a;
    struct errmsg why = {""};

    put_gauges(l);
    assert_ok(run(&a, l, QUERY_TOP, &q, &why));
    assert_int_equal(a.data.n_rows, 3);
    assert_int_equal(a.data.rows[0].info.id.pid, 1);
    assert_in_range(a.data.rows[0].values[0], 570, 610);
    assert_in_range(a.data.trends[0].per_hour, 35900, 36100);
    assert_int_equal(a.data.trends[0].steady_permille, 1000);
    assert_int_equal(a.data.rows[1].info.id.pid, 3);
    assert_int_equal(a.data.rows[1].values[0], 300);
    assert_int_equal(a.data.trends[1].per_hour, 0); /* the median pair stands still */
    assert_in_range(a.data.trends[1].steady_permille, 30, 70);
    assert_int_equal(a.data.rows[2].info.id.pid, 2);
    assert_true(a.data.rows[2].values[0] < -560 && a.data.trends[2].per_hour < -35000);
    assert_true(a.data.trends && a.data.trends[2].steady_permille == 0);
    query_answer_fini(&a);
    q.events.where = str_make("private_bytes < 500B");
    q.limit = 1;
    assert_ok(run(&a, l, QUERY_TOP, &q, &why));
    assert_int_equal(a.data.rows[0].info.id.pid, 3);
    query_answer_fini(&a);
    q.events.where = str_make("");
    q.metrics[0] = M_CPU_TIME;
    assert_err(run(&a, l, QUERY_TOP, &q, &why), ERR_INVALID);
    query_answer_fini(&a);
    q.metrics[0] = M_PRIVATE_BYTES;
    q.group_by = WIRE_GROUP_IMAGE;
    assert_err(run(&a, l, QUERY_TOP, &q, &why), ERR_INVALID);
    query_answer_fini(&a);
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_that_fulfil_the_filter),
        cmocka_unit_test(the_filter_is_judged_before_the_limit_on_every_page),
        cmocka_unit_test(groups_are_of_the_processes_that_fit),
        cmocka_unit_test(hosts_are_named_more_than_once_and_by_labels),
        cmocka_unit_test(what_is_wrong_with_a_filter_is_said),
        cmocka_unit_test(values_of_providers_that_are_not_known_are_counted),
        cmocka_unit_test(events_are_judged_by_values_processes_and_hosts),
        cmocka_unit_test(ancestors_come_with_events_and_trees),
        cmocka_unit_test(who_grew_comes_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
