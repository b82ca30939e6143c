/* The tree at a moment, and the overview. */
#include "tests/support/t.h"

#include <stdio.h>

#include "common/wire/wire_overview.h"
#include "tests/collector/query/ask.h"

static void put(struct lab *l, unsigned host, uint64_t seq, double from, uint32_t first,
                uint32_t last)
{
    lab_begin(l, host, 7, seq);
    for (unsigned i = 0; i < 10; i++) {
        lab_tick(l, from + i);
    }
    for (uint32_t pid = first; pid <= last; pid++) {
        int64_t v[10];

        for (unsigned i = 0; i < 10; i++) {
            v[i] = (int64_t)(pid * (seq * 10 + i));
        }
        lab_cpu(l, pid, false, 0, 10, v);
        lab_info(l, &(struct proc_info){.id = {pid, pid},
                                        .have = INFO_PARENT,
                                        .parent_pid = pid / 2,
                                        .name = str_make(pid == 3 ? "three" : "other")});
    }
    lab_put(l);
}

/* pid:depth of every row, "1:0 2:1 …" */
static void check(struct lab *l, struct wire_query *q, const char *want, uint32_t limit)
{
    uint8_t cursor[WIRE_CURSOR_MAX];
    char text[512] = "";
    size_t n = 0;
    bool more = true;

    q->limit = limit;
    q->cursor = (struct str){NULL, 0};
    for (unsigned page = 0; more; page++) {
        struct query_answer a;

        assert_in_range(page, 0, 100);
        ask_run(&a, l, QUERY_TREE, q, NULL);
        for (size_t i = 0; i < a.data.n_rows; i++) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%u:%u", n ? " " : "",
                                  (unsigned)a.data.rows[i].info.id.pid,
                                  (unsigned)a.data.rows[i].depth);
        }
        more = a.more;
        memcpy(cursor, a.cursor, a.cursor_n);
        q->cursor = (struct str){(const char *)cursor, a.cursor_n};
        query_answer_fini(&a);
    }
    assert_string_equal(text, want);
}

static void parents_come_before_their_children_on_every_page_size(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};

    put(l, 1, 1, 100, 1, 7);
    put(l, 2, 1, 100, 2, 4);
    for (uint32_t limit = 1; limit <= 11; limit++) {
        check(l, &q, "1:0 2:1 4:2 5:2 3:1 6:2 7:2 2:0 4:1 3:0", limit);
    }
    q.name = str_make("three");
    check(l, &q, "3:0 6:1 7:1 3:0", 100);
    q = (struct wire_query){.has_pid = true, .pid = 2};
    check(l, &q, "2:0 4:1 5:1 2:0 4:1", 100);
    lab_close(l);
}

static void the_tree_is_that_of_the_moment(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.at_ns = LAB_NS(109)};
    struct query_answer a;
    bool have;

    put(l, 1, 1, 100, 1, 3);
    put(l, 1, 2, 200, 1, 2);
    check(l, &q, "1:0 2:1 3:1", 100);
    q.at_ns = LAB_NS(205);
    check(l, &q, "1:0 2:1", 100);
    q.at_ns = 0;
    check(l, &q, "1:0 2:1", 100);
    q.at_ns = LAB_NS(205);
    q.cursor = (struct str){NULL, 0};
    ask_run(&a, l, QUERY_TREE, &q, NULL);
    assert_int_equal(ask_value(&a.data, &a.data.rows[1], M_CPU_TIME, &have), 2 * 25 * 1000000);
    assert_int_equal(a.data.rows[1].when_ns, LAB_NS(205));
    query_answer_fini(&a);
    lab_close(l);
}

/* A make that began cc1, which ended, and all of which is over before the run is asked for. */
static void a_run_s_finished_tree_has_all_that_were_in_it(void **state)
{
    const struct query_run_host host = {lab_host(1), LAB_NS(100), LAB_NS(120)};
    struct query_run run = {1, &host, .has_root = true, .root = {2, 2}};
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.limit = 0};
    struct query_env env = {.run = &run, .now_ns = LAB_NS(300)};
    struct errmsg why = {""};
    struct query_answer a;
    bool have;

    memset(run.boot.b, 1, sizeof run.boot.b);
    put(l, 1, 1, 100, 1, 5); /* 1 has 2 and 3, 2 has 4 and 5 */
    lab_begin(l, 1, 7, 2);
    lab_tick(l, 110);
    for (uint32_t pid = 4; pid >= 2; pid -= 2) { /* 5 goes on */
        lab_event(l,
                  &(struct life_event){.kind = LIFE_PROCESS_STOP,
                                       .wall_ns = LAB_NS(pid == 4 ? 105 : 109.5),
                                       .info = {.id = {pid, pid},
                                                .have = INFO_PARENT | INFO_EXITED | INFO_EXIT_TIME,
                                                .parent_pid = pid / 2,
                                                .exit_ns = LAB_NS(pid == 4 ? 105 : 109.5),
                                                .name = str_make("other")}});
    }
    lab_cpu(l, 5, false, 0, 1, (int64_t[]){1000});
    lab_put(l);
    put(l, 1, 3, 200, 1, 1);
    env.view = lab_view(l);
    assert_ok(query_run(&a, QUERY_TREE, &env, &q, &why));
    assert_int_equal(a.data.n_rows, 3);
    for (unsigned i = 0; i < 3; i++) {
        static const uint32_t pids[] = {2, 4, 5}, depths[] = {0, 1, 1};

        assert_int_equal(a.data.rows[i].info.id.pid, pids[i]);
        assert_int_equal(a.data.rows[i].depth, depths[i]);
    }
    assert_true(ask_value(&a.data, &a.data.rows[1], M_CPU_TIME, &have) > 0 && have);
    query_answer_fini(&a);
    q.at_ns = LAB_NS(108); /* a moment of it */
    assert_ok(query_run(&a, QUERY_TREE, &env, &q, &why));
    assert_int_equal(a.data.n_rows, 2);
    query_answer_fini(&a);
    lab_close(l);
}

static void a_circle_of_parents_is_shown_once(void **state)
{
    static const uint32_t parents[] = {0, 2, 3, 1, 2, 0};
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {0};

    lab_begin(l, 1, 7, 1);
    lab_tick(l, 100);
    for (uint32_t pid = 1; pid <= 5; pid++) {
        lab_cpu(l, pid, false, 0, 1, (int64_t[]){1});
        lab_info(l, &(struct proc_info){.id = {pid, pid},
                                        .have = INFO_PARENT,
                                        .parent_pid = parents[pid],
                                        .parent_start = parents[pid]});
    }
    lab_put(l);
    check(l, &q, "5:0 1:0 3:1 2:2 4:3", 100);
    lab_close(l);
}

static bool sealed;

static int seal_all(void **state)
{
    sealed = true;
    return lab_seal_all(state);
}

static void the_overview_counts_hosts_and_names_what_is_kept(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct store_stats stats;
    struct store_room room = {
        .kind = {[SEG_RAW] = {1, 2, 3, 4, 5, 6, 7, 8}, [SEG_REST] = {.files = 9}},
        .log_bytes = 10,
        .total_bytes = 11,
        .next_kind = SEG_1MIN,
        .next_in_ns = 12};
    struct query_env env = {.now_ns = LAB_NS(1000), .stats = &stats, .room = &room};
    const struct wire_query q = {0};
    const struct wire_overview *o;
    struct query_answer a;
    struct errmsg why;

    put(l, 1, 1, 100, 0, 3);
    put(l, 2, 1, 150, 1, 4);
    store_stats(lab_store(l), &stats);
    env.view = lab_view(l);
    assert_ok(query_run(&a, QUERY_OVERVIEW, &env, &q, &why));
    o = a.data.overview;
    assert_non_null(o);
    assert_int_equal(o->hosts, 2);
    assert_int_equal(o->silent, 2);
    assert_int_equal(o->connected + o->ended + o->clones, 0);
    assert_int_equal(o->processes, 7);
    assert_int_equal(o->cpus, 8);
    assert_int_equal(o->batches, 2);
    assert_int_equal(o->first_ns, LAB_NS(100));
    assert_int_equal(o->last_ns, LAB_NS(159));
    assert_true((o->head_bytes > 0) == !sealed && o->log_bytes == 10 && o->total_bytes == 11);
    assert_int_equal(o->n_tiers, 6);
    assert_true(str_eq(o->tiers[0].name, str_make("raw")));
    assert_int_equal(o->tiers[0].values, 3);
    assert_int_equal(o->tiers[0].dropped_bytes, 8);
    assert_int_equal(o->tiers[4].files, 9);
    assert_true(str_eq(o->tiers[o->next_tier - 1].name, str_make("1min")));
    assert_true(ask_note(&a.data, "coverage"));
    query_answer_fini(&a);
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parents_come_before_their_children_on_every_page_size),
        cmocka_unit_test(the_tree_is_that_of_the_moment),
        cmocka_unit_test(a_run_s_finished_tree_has_all_that_were_in_it),
        cmocka_unit_test(a_circle_of_parents_is_shown_once),
        cmocka_unit_test(the_overview_counts_hosts_and_names_what_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, seal_all, NULL);
}
