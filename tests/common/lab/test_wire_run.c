#include "common/wire/wire_run.h"

#include <string.h>

#include "tests/support/t.h"

#define OUT_MAX (32u << 20)

static const struct wire_label labels[] = {{{"build", 5}, {"4711", 4}},
                                           {{"branch", 6}, {"größe", 7}}};
static const struct str hosts[] = {{"lab-*", 5}, {"vm", 2}};
static const struct wire_run_host run_hosts[] = {{{{1}}, {"lab-1", 5}, false, 5, 9},
                                                 {{{2}}, {"vm", 2}, true, -1, 0}};
static const struct str notes[] = {{"one", 3}};

static struct wire_run run(void)
{
    return (struct wire_run){.id = {{1, 2}},
                             .parent = {{3}},
                             .boot = {{4}},
                             .number = UINT64_MAX,
                             .name = str_make("nightly-412"),
                             .owner = str_make("ci"),
                             .state = WIRE_RUN_FAILED,
                             .began_ns = 7,
                             .ended_ns = 8,
                             .ttl_ns = INT64_MAX,
                             .error_ns = 3,
                             .has_exit = true,
                             .exit_code = UINT32_MAX,
                             .late = true,
                             .root_pid = 9,
                             .root_start = UINT64_MAX,
                             .n_labels = 2,
                             .labels = labels,
                             .n_asked = 2,
                             .asked = hosts,
                             .n_hosts = 2,
                             .hosts = run_hosts,
                             .n_notes = 1,
                             .notes = notes,
                             .hosts_asked = 20,
                             .hosts_in = 19,
                             .revision = 2,
                             .file_bytes = 100,
                             .coverage = 999999,
                             .classes = str_make("win11 ×20")};
}

static void assert_same(enum wire_run_kind kind, const void *in)
{
    struct buf first, second;
    void *out;

    buf_init(&first, OUT_MAX);
    buf_init(&second, OUT_MAX);
    assert_ok(wire_run_encode(&first, kind, in));
    assert_ok(wire_run_decode(&out, kind, first.p, first.n));
    assert_ok(wire_run_encode(&second, kind, out));
    assert_int_equal(first.n, second.n);
    assert_memory_equal(first.p, second.p, first.n);
    for (size_t n = 0; n < first.n; n++) { /* no shorter one does harm */
        void *cut;

        if (wire_run_decode(&cut, kind, first.p, n) == ERR_OK) {
            wire_run_free(cut);
        }
    }
    wire_run_free(out);
    buf_fini(&first);
    buf_fini(&second);
}

static void marks_come_back_as_they_were(void **state)
{
    const struct wire_run_mark in = {.id = {{1}},
                                     .boot = {{2}},
                                     .parent = {{3}},
                                     .key = str_make("job-1"),
                                     .name = str_make("a.b_c-d"),
                                     .n_hosts = 2,
                                     .hosts = hosts,
                                     .n_labels = 2,
                                     .labels = labels,
                                     .when_ns = -5,
                                     .now_ns = 6,
                                     .root_pid = 7,
                                     .root_start = 8,
                                     .ttl_ns = 9,
                                     .has_exit = true,
                                     .late = true};
    struct wire_run_mark *out;
    struct buf b;

    buf_init(&b, OUT_MAX);
    assert_ok(wire_run_encode(&b, WIRE_RUN_MARK, &in));
    assert_ok(wire_run_decode(&out, WIRE_RUN_MARK, b.p, b.n));
    assert_memory_equal(&out->id, &in.id, sizeof in.id);
    assert_memory_equal(&out->parent, &in.parent, sizeof in.parent);
    assert_true(str_eq(out->key, in.key) && str_eq(out->name, in.name));
    assert_int_equal(out->n_hosts, 2);
    assert_true(str_eq(out->hosts[1], hosts[1]));
    assert_true(str_eq(out->labels[1].value, labels[1].value));
    assert_true(out->when_ns == -5 && out->now_ns == 6 && out->root_pid == 7);
    assert_true(out->root_start == 8 && out->ttl_ns == 9 && out->has_exit && out->late);
    assert_int_equal(out->exit_code, 0);
    wire_run_free(out);
    buf_fini(&b);
    assert_same(WIRE_RUN_MARK, &in);
}

static void runs_come_back_as_they_were(void **state)
{
    const struct wire_run in[] = {run(), {.state = WIRE_RUN_OPEN}};
    const struct str keys[] = {str_make("os_build"), str_make("cpu_model")};
    const struct wire_runs list = {2, in, 12, 2, keys};
    struct wire_runs *out;
    struct buf b;

    buf_init(&b, OUT_MAX);
    assert_ok(wire_run_encode(&b, WIRE_RUN_LIST, &list));
    assert_ok(wire_run_decode(&out, WIRE_RUN_LIST, b.p, b.n));
    assert_int_equal(out->n, 2);
    assert_int_equal(out->next, 12);
    assert_true(str_eq(out->runs[0].classes, in[0].classes));
    assert_true(str_eq(out->runs[0].hosts[1].name, run_hosts[1].name));
    assert_true(out->runs[0].hosts[1].added && out->runs[0].hosts[0].until_ns == 9);
    assert_int_equal(out->runs[0].exit_code, UINT32_MAX);
    assert_false(out->runs[1].has_exit);
    wire_run_free(out);
    buf_fini(&b);
    assert_same(WIRE_RUN_LIST, &list);
    assert_same(WIRE_RUN_RUN, &in[0]);
}

static void questions_and_pieces_come_back_as_they_were(void **state)
{
    const struct wire_runs_ask ask = {str_make("main-*"),   2,    labels, 1,   2,
                                      1u << WIRE_RUN_READY, 1024, 5,      true};
    const struct wire_run_get get = {.name = str_make("a@3"), .offset = 1u << 20, .revision = 2};
    const struct wire_run_part part = {
        .id = {{1}}, .offset = 2, .total = 5, .hash = 4, .data = {"\0\1\2", 3}, .revision = 5};

    assert_same(WIRE_RUN_ASK, &ask);
    assert_same(WIRE_RUN_FETCH, &get);
    assert_same(WIRE_RUN_PART, &part);
}

static void what_is_over_a_limit_is_refused(void **state)
{
    static struct str many[WIRE_RUN_PATTERNS + 1];
    const struct wire_run_mark mark = {.n_hosts = COUNT_OF(many), .hosts = many};
    const struct wire_run_part behind = {.offset = 4, .total = 5, .data = {"abc", 3}};
    const struct wire_run wrong = {.state = WIRE_RUN_STATES};
    struct buf b;
    void *out;

    buf_init(&b, OUT_MAX);
    assert_err(wire_run_encode(&b, WIRE_RUN_MARK, &mark), ERR_INVALID);
    buf_reset(&b);
    assert_ok(wire_run_encode(&b, WIRE_RUN_PART, &behind));
    assert_err(wire_run_decode(&out, WIRE_RUN_PART, b.p, b.n), ERR_FULL);
    buf_reset(&b);
    assert_ok(wire_run_encode(&b, WIRE_RUN_RUN, &wrong));
    assert_err(wire_run_decode(&out, WIRE_RUN_RUN, b.p, b.n), ERR_CORRUPT);
    buf_fini(&b);
}

static void names_and_labels_keep_their_rules(void **state)
{
    static const struct {
        const char *name;
        bool ok;
    } names[] = {{"a", true},
                 {"nightly-412.x_Y", true},
                 {"", false},
                 {"a b", false},
                 {"a@1", false},
                 {"a*", false},
                 {"0123456789012345678901234567890123456789012345678901234567890123", true},
                 {"01234567890123456789012345678901234567890123456789012345678901234", false}};
    static const struct {
        const char *key, *value;
        bool ok;
    } pairs[] = {{"rack", "3", true},      {"a_b.c-1", "", true}, {"Rack", "3", false},
                 {"1a", "3", false},       {"", "3", false},      {"a", "x\ny", false},
                 {"a", "x\x7f", false},    {"a=b", "c", false},   {"a", "\xff", false},
                 {"a", "größe 12 %", true}};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_int_equal(wire_run_name_ok(str_make(names[i].name)), names[i].ok);
    }
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        const struct wire_label l = {str_make(pairs[i].key), str_make(pairs[i].value)};

        assert_int_equal(wire_run_label_ok(&l), pairs[i].ok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_come_back_as_they_were),
        cmocka_unit_test(runs_come_back_as_they_were),
        cmocka_unit_test(questions_and_pieces_come_back_as_they_were),
        cmocka_unit_test(what_is_over_a_limit_is_refused),
        cmocka_unit_test(names_and_labels_keep_their_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
