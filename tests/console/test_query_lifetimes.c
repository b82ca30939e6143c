/* Lifetimes: who lived from when to when, how it ended, of whom. */
#include "tests/support/t.h"

#include "common/base/clk.h"
#include "common/wire/wire_lifetimes.h"
#include "tests/collector/query/ask.h"

#define US  INT64_C(1000000)
#define NOT UINT32_MAX

static void ticks(struct lab *l, double from, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        lab_tick(l, from + i);
    }
}

struct born {
    uint32_t pid, parent;
    const char *name;
    double begin, end; /* end 0: not told */
    uint32_t exit_code;
    uint32_t have; /* more of INFO_* */
};

static void announce(struct lab *l, const struct born *b)
{
    struct proc_info info = {.id = {b->pid, b->pid},
                             .have = INFO_CREATE_TIME | b->have,
                             .create_ns = LAB_NS(b->begin),
                             .parent_pid = b->parent,
                             .name = str_make(b->name),
                             .user = str_make("eve")};

    if (b->parent) {
        info.have |= INFO_PARENT;
    }
    lab_info(l, &info);
    if (b->end > 0) {
        info.have |= INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE;
        info.exit_ns = LAB_NS(b->end);
        info.exit_code = b->exit_code;
        lab_event(l, &(struct life_event){.kind = LIFE_PROCESS_STOP,
                                          .wall_ns = info.exit_ns,
                                          .mono_ns = info.exit_ns - LAB_EPOCH_NS,
                                          .info = info});
    }
}

/* One process of each kind on host 1, from 100 to 129. */
static struct lab *zoo(void)
{
    static const struct born born[] = {
        {1, 0, "init", 50, 0, 0, 0},
        {10, 1, "sh", 101, 0, 0, 0},
        {20, 10, "cc1", 105, 105.02, 0, INFO_FINAL_TOTALS},
        {22, 10, "make", 110, 115, 2, 0},
        {21, 22, "cc1", 110, 111, 0, 0},        /* in the tick of its parent, with a lesser pid */
        {23, 99, "orphan", 112, 128.5, 137, 0}, /* of one nobody knows */
        {40, 1, "quiet", 90, 0, 0, 0},          /* nothing is heard of it from 109 on */
        {50, 1, "guess", 102, 107, 0, INFO_EXIT_INFERRED},
        {60, 1, "blink", 103, 0, 0, 0},  /* never sampled, and no end */
        {80, 1, "ghost", 10, 0, 0, 0},   /* long gone */
        {90, 1, "over", 20, 99.9, 0, 0}, /* ended before the window */
    };
    struct lab *l = lab_open(NULL, NULL);
    int64_t cpu_ms[30];

    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 30);
    for (unsigned i = 0; i < 30; i++) {
        cpu_ms[i] = 1000 + 2 * (int64_t)i;
    }
    lab_cpu(l, 1, false, 0, 30, cpu_ms);
    lab_cpu(l, 10, true, 1, 29, cpu_ms);
    lab_cpu(l, 40, false, 0, 10, cpu_ms);
    lab_cpu(l, 70, false, 5, 25, cpu_ms); /* never announced */
    lab_cpu(l, 90, false, 0, 1, cpu_ms);  /* its last figures come in the tick after its end */
    for (size_t i = 0; i < COUNT_OF(born); i++) {
        announce(l, &born[i]);
    }
    lab_put(l);
    return l;
}

static const struct wire_query window = {.buckets = 30};

static struct wire_query whole(void)
{
    struct wire_query q = window;

    q.since_ns = LAB_NS(100);
    q.until_ns = LAB_NS(130);
    return q;
}

static uint32_t row_of(const struct query_answer *a, uint32_t pid)
{
    const struct wire_lifetimes *f = a->data.lifetimes;
    uint32_t i = 0;

    while (i < f->n && f->pid[i] != pid) {
        i++;
    }
    return i < f->n ? i : NOT;
}

struct want {
    uint32_t pid;
    const char *name;
    int64_t start_us, life_us, exit_code, cpu_us;
    int64_t parent; /* pid of the row, or minus the pid */
    uint32_t flags;
};

static void expect(const struct query_answer *a, const struct want *w)
{
    const struct wire_lifetimes *f = a->data.lifetimes;
    uint32_t i = row_of(a, w->pid);
    struct buf b;

    assert_int_not_equal(i, NOT);
    assert_true(str_eq(f->names[f->name[i]], str_make(w->name)));
    assert_int_equal(f->start_us[i], w->start_us);
    assert_int_equal(f->life_us[i], w->life_us);
    assert_int_equal(f->exit_code[i], w->exit_code);
    assert_int_equal(f->cpu_us[i], w->cpu_us);
    assert_int_equal(f->flags[i], w->flags);
    if (w->parent > 0) {
        assert_in_range(f->parent[i], 1, i);
        assert_int_equal(f->pid[f->parent[i] - 1], w->parent);
    } else {
        assert_int_equal(f->parent[i], w->parent);
    }
    buf_init(&b, 1u << 20);
    assert_ok(wire_answer_encode(&b, &a->data)); /* it keeps to the wire's rules */
    buf_fini(&b);
}

static void every_kind_of_life_is_told_as_far_as_it_is_known(void **state)
{
    static const struct want want[] = {
        {1, "init", -50 * US, WIRE_LIFE_LIVES, -1, 58000, 0, 0},
        {10, "sh", 1 * US, WIRE_LIFE_LIVES, -1, 1056000, 1, 0},
        {20, "cc1", 5 * US, 20000, 0, -1, 10, WIRE_LIFE_CPU_EXACT},
        {22, "make", 10 * US, 5 * US, 2, -1, 10, 0},
        {21, "cc1", 10 * US, 1 * US, 0, -1, 22, 0},
        {23, "orphan", 12 * US, 16500000, 137, -1, -99, 0},
        {40, "quiet", -10 * US, 19 * US, -1, 18000, 1, WIRE_LIFE_END_UNKNOWN},
        {50, "guess", 2 * US, 5 * US, 0, -1, 1, WIRE_LIFE_END_INFERRED},
        {60, "blink", 3 * US, WIRE_LIFE_UNKNOWN, -1, -1, 1, WIRE_LIFE_END_UNKNOWN},
        {70, "", 5 * US, WIRE_LIFE_LIVES, -1, 48000, 0, WIRE_LIFE_START_UNKNOWN},
    };
    const struct wire_query q = whole();
    const struct wire_lifetimes *f;
    struct lab *l = zoo();
    struct query_answer a;

    (void)state;
    ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
    f = a.data.lifetimes;
    assert_int_equal(f->t0_ns, LAB_NS(100));
    assert_int_equal(f->n, COUNT_OF(want));
    assert_int_equal(f->left_out, 0);
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        expect(&a, &want[i]);
    }
    assert_true(str_eq(f->names[f->user[row_of(&a, 20)]], str_make("eve")));
    query_answer_fini(&a);
    lab_close(l);
}

static void a_window_that_ends_before_them_sees_them_live(void **state)
{
    struct wire_query q = whole();
    struct lab *l = zoo();
    struct query_answer a;

    (void)state;
    q.until_ns = LAB_NS(112);
    q.step_ns = CLK_S;
    ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
    expect(&a, &(struct want){22, "make", 10 * US, WIRE_LIFE_LIVES, -1, -1, 10, 0});
    expect(&a, &(struct want){21, "cc1", 10 * US, 1 * US, 0, -1, 22, 0});
    assert_int_equal(row_of(&a, 23), NOT); /* begins at 112 */
    query_answer_fini(&a);
    lab_close(l);
}

static void the_density_counts_starts_and_ends_by_image(void **state)
{
    const struct wire_query q = whole();
    const struct wire_lifetimes *f;
    struct lab *l = zoo();
    struct query_answer a;
    uint64_t starts = 0, ends = 0;

    (void)state;
    ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
    f = a.data.lifetimes;
    assert_int_equal(f->n_buckets, 30);
    assert_int_equal(f->step_ns, CLK_S);
    for (uint32_t b = 0; b < f->n_buckets; b++) {
        starts += f->starts[b];
        ends += f->ends[b];
        assert_int_equal(f->present[b], 1000000);
    }
    assert_int_equal(starts, 7);
    assert_int_equal(ends, 5);
    assert_int_equal(f->starts[10], 2);
    assert_int_equal(f->ends[5], 1);
    assert_true(str_eq(f->names[f->images[0].name], str_make("cc1"))); /* two of each */
    assert_int_equal(f->images[0].starts[5], 1);
    assert_int_equal(f->images[0].ends[11], 1);
    query_answer_fini(&a);
    lab_close(l);
}

static void beyond_the_maximum_failures_stay_then_cpu_time_then_the_longest(void **state)
{
    static const uint32_t by_rank[] = {23, 22, 10, 1, 70, 40, 50, 21, 20, 60};
    struct wire_query q = whole();
    struct lab *l = zoo();
    struct query_answer a;

    (void)state;
    for (uint32_t n = 1; n <= COUNT_OF(by_rank); n++) {
        uint64_t starts = 0;

        q.max = n;
        ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
        assert_int_equal(a.data.lifetimes->n, n);
        assert_int_equal(a.data.lifetimes->left_out, COUNT_OF(by_rank) - n);
        for (uint32_t i = 0; i < COUNT_OF(by_rank); i++) {
            assert_true((n <= 2 && i < 2) || (row_of(&a, by_rank[i]) != NOT) == (i < n));
        }
        for (uint32_t b = 0; b < a.data.lifetimes->n_buckets; b++) {
            starts += a.data.lifetimes->starts[b];
        }
        assert_int_equal(starts, 7); /* those left out too */
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void only_those_asked_for_are_told(void **state)
{
    struct wire_query q = whole();
    struct lab *l = zoo();
    struct query_answer a;

    (void)state;
    q.name = str_make("cc*");
    ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
    assert_int_equal(a.data.lifetimes->n, 2);
    assert_int_equal(a.data.lifetimes->parent[1], -22);
    query_answer_fini(&a);
    q.name = str_make("");
    q.has_pid = true;
    q.pid = 70;
    ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
    assert_int_equal(a.data.lifetimes->n, 1);
    query_answer_fini(&a);
    q.host = str_make("nobody");
    ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
    assert_int_equal(a.data.lifetimes->n, 0);
    assert_int_equal(a.data.lifetimes->n_buckets, 0);
    query_answer_fini(&a);
    lab_close(l);
}

static void what_did_not_arrive_is_not_present_and_named(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = whole();
    int64_t cpu_ms[10] = {0};
    struct query_answer a;

    (void)state;
    for (unsigned k = 0; k < 3; k++) { /* the batch from 110 to 119 never comes */
        lab_begin(l, 1, 7, k + 1);
        ticks(l, 100 + 10.0 * k, 10);
        lab_cpu(l, 1, false, 0, 10, cpu_ms);
        if (k != 1) {
            lab_put(l);
        }
    }
    ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
    assert_int_equal(a.data.lifetimes->present[5], 1000000);
    assert_int_equal(a.data.lifetimes->present[15], 0);
    assert_true(a.data.partial);
    assert_int_equal(a.data.n_coverage, 1);
    assert_int_equal(a.data.coverage[0].n_spans, 1);
    assert_in_range(a.data.coverage[0].spans[0].first_ns, LAB_NS(109), LAB_NS(110));
    query_answer_fini(&a);
    lab_close(l);
}

/* The agent of host 1 is stopped from 110 to 120 and loses nothing; that of host 2 runs on. */
static void where_no_agent_ran_is_told_by_host(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = whole();
    int64_t cpu_ms[30] = {0};
    struct query_answer a;
    const struct wire_lifetimes *f;

    (void)state;
    for (unsigned h = 1; h <= 2; h++) {
        lab_begin(l, h, 7, 1);
        ticks(l, 100, 10);
        ticks(l, h == 1 ? 120 : 110, h == 1 ? 10 : 20);
        lab_cpu(l, 1, false, 0, h == 1 ? 20 : 30, cpu_ms);
        lab_put(l);
    }
    ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
    f = a.data.lifetimes;
    assert_int_equal(f->n_buckets, 30);
    assert_int_equal(f->n_measured, 2);
    for (uint32_t b = 0; b < 30; b++) {
        bool stopped = b >= 10 && b < 20;

        assert_int_equal(wire_lifetimes_measured(f, 0, b), !stopped);
        assert_true(wire_lifetimes_measured(f, 1, b));
        assert_int_equal(f->hosts_in[b], 2 - stopped);
        assert_int_equal(f->present[b], stopped ? 500000 : 1000000);
    }
    query_answer_fini(&a);
    lab_close(l);
}

static void hosts_and_boots_are_told_apart(void **state)
{
    static const struct born parent = {5, 0, "a", 100, 0, 0, 0},
                             child = {6, 5, "b", 101, 102, 0, 0};
    struct lab *l = lab_open(NULL, NULL);
    const struct wire_query q = whole();
    int64_t cpu_ms[10] = {0};
    struct query_answer a;

    (void)state;
    for (unsigned h = 1; h <= 2; h++) {
        lab_begin(l, h, 7, 1);
        lab_boot(l, (uint8_t)h);
        ticks(l, 100, 10);
        lab_cpu(l, 5, true, 0, 10, cpu_ms);
        announce(l, h == 1 ? &parent : &child); /* of host 2 nobody knows pid 5 by name */
        lab_put(l);
    }
    ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
    assert_int_equal(a.data.lifetimes->n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct wire_lifetimes *f = a.data.lifetimes;

        if (f->pid[i] == 6) {
            assert_in_range(f->parent[i], 1, i);
            assert_int_equal(f->host[f->parent[i] - 1], f->host[i]);
        }
    }
    query_answer_fini(&a);
    lab_close(l);
}

/* The start lies between the two answers' first buckets, and not on a microsecond. */
static void a_start_is_the_same_moment_whatever_the_buckets_are(void **state)
{
    const int64_t began_ns = LAB_NS(104) + 123456789;
    struct proc_info info = {.id = {5, 5},
                             .have = INFO_CREATE_TIME,
                             .create_ns = began_ns,
                             .name = str_make("early"),
                             .user = str_make("eve")};
    struct lab *l = lab_open(NULL, NULL);
    int64_t cpu_ms[30] = {0};

    (void)state;
    lab_begin(l, 1, 7, 1);
    ticks(l, 100, 30);
    lab_cpu(l, 5, false, 5, 25, cpu_ms);
    lab_info(l, &info);
    lab_put(l);
    for (uint32_t buckets = 1; buckets <= 25; buckets += 24) {
        const struct wire_query q = {
            .buckets = buckets, .since_ns = LAB_NS(105), .until_ns = LAB_NS(130)};
        struct query_answer a;
        const struct wire_lifetimes *f;

        ask_run(&a, l, QUERY_LIFETIMES, &q, NULL);
        f = a.data.lifetimes;
        assert_int_not_equal(row_of(&a, 5), NOT);
        assert_true(buckets == 1 ? f->t0_ns < began_ns : f->t0_ns > began_ns);
        assert_int_equal(f->t0_ns + f->start_us[row_of(&a, 5)] * CLK_US, began_ns - 789);
        query_answer_fini(&a);
    }
    lab_close(l);
}

static void too_much_is_refused_with_the_limit(void **state)
{
    struct wire_query q = whole();
    struct lab *l = zoo();
    struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(1000)};
    struct query_answer a;
    struct errmsg why = {""};

    (void)state;
    q.max = WIRE_LIVES_MAX + 1;
    assert_err(query_run(&a, QUERY_LIFETIMES, &env, &q, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "50000"));
    query_answer_fini(&a);
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_life_is_told_as_far_as_it_is_known),
        cmocka_unit_test(a_window_that_ends_before_them_sees_them_live),
        cmocka_unit_test(the_density_counts_starts_and_ends_by_image),
        cmocka_unit_test(beyond_the_maximum_failures_stay_then_cpu_time_then_the_longest),
        cmocka_unit_test(only_those_asked_for_are_told),
        cmocka_unit_test(what_did_not_arrive_is_not_present_and_named),
        cmocka_unit_test(where_no_agent_ran_is_told_by_host),
        cmocka_unit_test(hosts_and_boots_are_told_apart),
        cmocka_unit_test(a_start_is_the_same_moment_whatever_the_buckets_are),
        cmocka_unit_test(too_much_is_refused_with_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
