/* Top's orders and groups. */
#include "tests/support/t.h"

#include "common/base/clk.h"
#include "tests/collector/query/ask.h"

#define MS INT64_C(1000000)

static const uint8_t both[] = {M_CPU_TIME, M_WORKING_SET_SIZE};

static void ticks(struct lab *l, double from, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        lab_tick(l, from + i);
    }
}

static void person(struct lab *l, uint32_t pid, uint32_t parent, const char *name, const char *user)
{
    lab_info(l, &(struct proc_info){.id = {pid, pid},
                                    .have = INFO_PARENT,
                                    .parent_pid = parent,
                                    .name = str_make(name),
                                    .user = str_make(user)});
}

/* Two hosts from 100 to 109. Process p grows by p ms each second; its working set is 100 p, and
 * from 105 on 200 p. Pids 1 and 2 are "a", 3 is "b"; 2 ends at 106. On host 2 all is ten times as
 * much. 3 is a child of 2, and 2 one of 1. */
static struct lab *fleet(void)
{
    struct lab *l = lab_open(NULL, NULL);

    for (unsigned h = 1; h <= 2; h++) {
        int64_t by = h == 1 ? 1 : 10;

        lab_begin(l, h, 7, 1);
        ticks(l, 100, 10);
        for (uint32_t pid = 1; pid <= 3; pid++) {
            unsigned n = pid == 2 ? 7 : 10;
            int64_t v[20];

            for (unsigned i = 0; i < n; i++) {
                v[i] = by * pid * i * MS;
                v[n + i] = by * pid * (i < 5 ? 100 : 200);
            }
            lab_run(l, pid, pid, 0, n, false, 2, both, v);
        }
        person(l, 1, 0, "a", "root");
        person(l, 2, 1, "a", h == 1 ? "root" : "eve");
        person(l, 3, 2, "b", "eve");
        lab_life(l, LIFE_PROCESS_STOP, 106.5, 2, "a");
        lab_put(l);
    }
    return l;
}

/* Of 10 ticks there are 9 growths, of process 2 there are 6. */
static const int64_t grown[] = {0, 9, 12, 27};

struct want {
    int64_t value;
    const char *name, *user;
    uint32_t pid, instances, hosts;
};

static void check(struct lab *l, struct wire_query *q, const struct want *want, size_t n)
{
    struct query_answer a;

    ask_run(&a, l, QUERY_TOP, q, NULL);
    if (a.data.n_rows != n) {
        fail_msg("%zu rows instead of %zu", a.data.n_rows, n);
    }
    for (size_t i = 0; i < n; i++) {
        const struct wire_row *r = &a.data.rows[i];

        if (!(r->have & 1) || r->values[0] != want[i].value) {
            fail_msg("row %zu: %lld instead of %lld", i, (long long)r->values[0],
                     (long long)want[i].value);
        }
        assert_true(!want[i].name || str_eq(r->info.name, str_make(want[i].name)));
        assert_true(!want[i].user || str_eq(r->info.user, str_make(want[i].user)));
        assert_int_equal(r->info.id.pid, want[i].pid);
        assert_int_equal(r->instances, want[i].instances);
        assert_int_equal(r->hosts, want[i].hosts);
    }
    query_answer_fini(&a);
}

static void images_users_and_hosts_add_up_over_the_fleet(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = ask_metrics(1, both);
    const int64_t *g = grown;

    q.group_by = WIRE_GROUP_IMAGE;
    check(l, &q,
          (struct want[]){{11 * g[3] * MS, "b", "", 0, 2, 2},
                          {11 * (g[1] + g[2]) * MS, "a", "", 0, 4, 2}},
          2);
    q.group_by = WIRE_GROUP_USER;
    check(l, &q,
          (struct want[]){{(11 * g[3] + 10 * g[2]) * MS, "", "eve", 0, 3, 2},
                          {(11 * g[1] + g[2]) * MS, "", "root", 0, 3, 2}},
          2);
    q.group_by = WIRE_GROUP_IMAGE_USER;
    check(l, &q,
          (struct want[]){{11 * g[3] * MS, "b", "eve", 0, 2, 2},
                          {10 * g[2] * MS, "a", "eve", 0, 1, 1},
                          {(11 * g[1] + g[2]) * MS, "a", "root", 0, 3, 2}},
          3);
    q.group_by = WIRE_GROUP_HOST;
    check(l, &q,
          (struct want[]){{10 * (g[1] + g[2] + g[3]) * MS, "", "", 0, 3, 1},
                          {(g[1] + g[2] + g[3]) * MS, "", "", 0, 3, 1}},
          2);
    q.limit = 1;
    check(l, &q, (struct want[]){{10 * (g[1] + g[2] + g[3]) * MS, "", "", 0, 3, 1}}, 1);
    lab_close(l);
}

static void gauges_of_a_group_are_those_of_the_living(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = ask_metrics(1, both + 1);

    q.host = str_make("host-1");
    q.group_by = WIRE_GROUP_IMAGE;
    check(l, &q, (struct want[]){{600, "b", "", 0, 1, 1}, {200, "a", "", 0, 2, 1}}, 2);
    q.by = WIRE_BY_MAX; /* of a single one */
    check(l, &q, (struct want[]){{600, "b", "", 0, 1, 1}, {400, "a", "", 0, 2, 1}}, 2);
    q.by = WIRE_BY_AVG; /* of all together over ten ticks: 1,500 and 1,000 + 800 */
    check(l, &q, (struct want[]){{450, "b", "", 0, 1, 1}, {330, "a", "", 0, 2, 1}}, 2);
    lab_close(l);
}

static void every_order_takes_the_metric_in_its_way(void **state)
{
    static const struct {
        uint8_t metric, by;
        int64_t value[4]; /* by pid */
    } cases[] = {
        {M_CPU_TIME, WIRE_BY_USUAL, {0, 9 * MS, 12 * MS, 27 * MS}},
        {M_CPU_TIME, WIRE_BY_SUM, {0, 9 * MS, 12 * MS, 27 * MS}},
        {M_CPU_TIME, WIRE_BY_MAX, {0, 1 * MS, 2 * MS, 3 * MS}},
        {M_CPU_TIME, WIRE_BY_AVG, {0, 1 * MS, 2 * MS, 3 * MS}},
        {M_CPU_TIME, WIRE_BY_RATE, {0, 1 * MS, 1333333, 3 * MS}}, /* over the host's 9 s */
        {M_CPU_PERCENT, WIRE_BY_AVG, {0, 1, 1, 3}},
        {M_WORKING_SET_SIZE, WIRE_BY_USUAL, {0, 200, 400, 600}},
        {M_WORKING_SET_SIZE, WIRE_BY_SUM, {0, 1500, 1800, 4500}},
        {M_WORKING_SET_SIZE, WIRE_BY_MAX, {0, 200, 400, 600}},
        {M_WORKING_SET_SIZE, WIRE_BY_AVG, {0, 150, 257, 450}},
    };
    struct lab *l = fleet();

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct wire_query q = ask_metrics(1, &cases[i].metric);
        struct query_answer a;

        q.host = str_make("host-1");
        q.by = cases[i].by;
        ask_run(&a, l, QUERY_TOP, &q, NULL);
        assert_int_equal(a.data.n_rows, 3);
        for (size_t r = 0; r < 3; r++) {
            const struct wire_row *row = &a.data.rows[r];

            if (row->values[0] != cases[i].value[row->info.id.pid]) {
                fail_msg("case %zu, pid %u: %lld", i, (unsigned)row->info.id.pid,
                         (long long)row->values[0]);
            }
        }
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void what_lies_before_the_window_is_part_of_the_first_step(void **state)
{
    static const struct {
        uint8_t by;
        int64_t value;
    } cases[] = {{WIRE_BY_SUM, 140 * MS}, {WIRE_BY_MAX, 100 * MS}, {WIRE_BY_AVG, 46666666}};
    struct lab *l = lab_open(NULL, NULL);

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 6);
    lab_cpu(l, 9, false, 0, 6, (int64_t[]){0, 500, 600, 700, 710, 740});
    lab_put(l);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct wire_query q = ask_metrics(1, both);

        q.since_ns = LAB_NS(103);
        q.until_ns = LAB_NS(106);
        q.by = cases[i].by;
        check(l, &q, &(struct want){cases[i].value, NULL, NULL, 9, 0, 0}, 1);
    }
    lab_close(l);
}

static void trees_add_up_their_descendants(void **state)
{
    struct lab *l = fleet();
    struct wire_query q = ask_metrics(2, both);
    const int64_t *g = grown;

    q.host = str_make("host-1");
    q.group_by = WIRE_GROUP_TREE;
    check(l, &q, /* 2 has ended: its child stands alone */
          (struct want[]){{g[3] * MS, "b", "eve", 3, 1, 0}, {g[1] * MS, "a", "root", 1, 1, 0}}, 2);
    q.exited = true;
    check(l, &q,
          (struct want[]){{(g[1] + g[2] + g[3]) * MS, "a", "root", 1, 3, 0},
                          {(g[2] + g[3]) * MS, "a", "root", 2, 2, 0},
                          {g[3] * MS, "b", "eve", 3, 1, 0}},
          3);
    q.has_pid = true;
    q.pid = 2;
    check(l, &q, (struct want[]){{(g[2] + g[3]) * MS, "a", "root", 2, 2, 0}}, 1);
    lab_close(l);
}

static void wrong_parents_count_once(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = ask_metrics(1, both);

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 2);
    for (uint32_t pid = 1; pid <= 4; pid++) {
        lab_cpu(l, pid, false, 0, 2, (int64_t[]){0, pid});
    }
    /* 1 and 2 are said to be each other's parents, 3 its own, 4 a child of 1 */
    for (uint32_t pid = 1; pid <= 4; pid++) {
        static const uint32_t parents[] = {0, 2, 1, 3, 1};

        lab_info(l, &(struct proc_info){.id = {pid, pid},
                                        .have = INFO_PARENT,
                                        .parent_pid = parents[pid],
                                        .parent_start = parents[pid],
                                        .name = str_make("x")});
    }
    lab_put(l);
    q.group_by = WIRE_GROUP_TREE;
    check(l, &q,
          (struct want[]){{7 * MS, "x", NULL, 1, 3, 0},
                          {7 * MS, "x", NULL, 2, 3, 0},
                          {4 * MS, "x", NULL, 4, 1, 0},
                          {3 * MS, "x", NULL, 3, 1, 0}},
          4);
    lab_close(l);
}

static void a_pid_that_was_used_again_has_the_parent_of_its_time(void **state)
{
    static const uint8_t cpu = M_CPU_TIME;
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = ask_metrics(1, both);

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 4);
    lab_run(l, 5, 10, 0, 4, false, 1, &cpu, (int64_t[]){0, 1, 2, 3});
    lab_run(l, 5, 30, 1, 3, false, 1, &cpu, (int64_t[]){0, 10, 20});
    lab_run(l, 6, 20, 0, 4, false, 1, &cpu, (int64_t[]){0, 100, 200, 300});
    lab_run(l, 7, 40, 0, 4, false, 1, &cpu, (int64_t[]){0, 1000, 2000, 3000});
    for (uint32_t pid = 6; pid <= 7; pid++) {
        lab_info(l, &(struct proc_info){
                        .id = {pid, pid == 6 ? 20 : 40}, .have = INFO_PARENT, .parent_pid = 5});
    }
    lab_put(l);
    q.group_by = WIRE_GROUP_TREE;
    check(l, &q,
          (struct want[]){{3020, "", "", 5, 2, 0},
                          {3000, "", "", 7, 1, 0},
                          {303, "", "", 5, 2, 0},
                          {300, "", "", 6, 1, 0}},
          4);
    lab_close(l);
}

static void many_short_lives_are_read_for_some_metrics_at_a_time(void **state)
{
    enum { BATCHES = 12, EACH = 4000, N_METRICS = 18 };
    static const uint8_t asked[N_METRICS] = {9,  14, 17, 18, 19, 20, 21, 22, 25,
                                             31, 32, 33, 34, 35, 37, 54, 55, 13};
    static const uint8_t groups[] = {WIRE_GROUP_IMAGE, WIRE_GROUP_TREE};
    struct lab *l = lab_open(NULL, NULL);
    struct query_answer a;
    bool have;

    for (unsigned b = 0; b < BATCHES; b++) {
        lab_begin(l, 1, 7, b + 1);
        lab_tick(l, 100 + b);
        for (uint32_t i = 0; i < EACH; i++) {
            lab_run(l, 1 + b * EACH + i, 5, 0, 1, true, 2, both, (int64_t[]){1, 3});
        }
        lab_put(l);
    }
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        struct wire_query q = ask_metrics(N_METRICS, asked);

        q.group_by = groups[i];
        q.exited = true;
        ask_run(&a, l, QUERY_TOP, &q, NULL);
        assert_int_equal(a.data.rows[0].values[0], i ? 1 : BATCHES * EACH);
        assert_int_equal(a.data.rows[0].instances, i ? 1 : BATCHES * EACH);
        ask_value(&a.data, &a.data.rows[0], M_THREAD_COUNT, &have);
        assert_false(have);
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void questions_without_sense_are_refused(void **state)
{
    static const struct {
        uint8_t metric, by, group_by;
        const char *says;
    } cases[] = {
        {M_WORKING_SET_SIZE, WIRE_BY_RATE, 0, "has no rate"},
        {M_CPU_PERCENT, WIRE_BY_SUM, 0, "cpu_time"},
        {M_CPU_PERCENT, WIRE_BY_MAX, 0, "cpu_time"},
        {M_CPU_TIME, WIRE_BY_GROWTH, 0, "is a counter"},
        {M_WORKING_SET_SIZE, WIRE_BY_GROWTH, WIRE_GROUP_IMAGE, "not of groups"},
        {M_CPU_TIME, WIRE_BY_GROWTH + 1, 0, "does not know"},
        {M_CPU_TIME, 0, WIRE_GROUP_IMAGE_USER + 1, "does not know"},
    };
    struct lab *l = fleet();

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct wire_query q = ask_metrics(1, &cases[i].metric);
        struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(1000)};
        struct errmsg why = {""};
        struct query_answer a;

        q.by = cases[i].by;
        q.group_by = cases[i].group_by;
        assert_err(query_run(&a, QUERY_TOP, &env, &q, &why), ERR_INVALID);
        assert_non_null(strstr(why.text, cases[i].says));
        query_answer_fini(&a);
    }
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_users_and_hosts_add_up_over_the_fleet),
        cmocka_unit_test(gauges_of_a_group_are_those_of_the_living),
        cmocka_unit_test(every_order_takes_the_metric_in_its_way),
        cmocka_unit_test(what_lies_before_the_window_is_part_of_the_first_step),
        cmocka_unit_test(trees_add_up_their_descendants),
        cmocka_unit_test(wrong_parents_count_once),
        cmocka_unit_test(a_pid_that_was_used_again_has_the_parent_of_its_time),
        cmocka_unit_test(many_short_lives_are_read_for_some_metrics_at_a_time),
        cmocka_unit_test(questions_without_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
