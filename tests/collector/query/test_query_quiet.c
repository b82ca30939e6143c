/* Stretches without a tick, from batches as they come. */
#include "tests/support/t.h"
#include "collector/query/query_quiet.h"
#include "common/base/clk.h"

#define T(s) ((int64_t)(1700000000 + (s)) * CLK_S)

static const struct query_span window = {.since_ns = T(0), .until_ns = T(60)};

static void batch_of(struct query_quiet *x, const int *seconds, size_t n)
{
    int64_t ns[16];
    struct batch b = {.n_ticks = n, .wall_ns = ns, .mono_ns = ns};

    assert_true(n <= COUNT_OF(ns));
    for (size_t i = 0; i < n; i++) {
        ns[i] = T(seconds[i]);
    }
    query_quiet_batch(x, &b);
}

static void is_quiet(struct query_quiet *x, size_t n, int since, int until)
{
    static struct query q;

    assert_ok(query_quiet_end(x, &q, &window));
    assert_int_equal(x->n, n);
    if (n) {
        assert_int_equal(x->spans[0].since_ns, T(since));
        assert_int_equal(x->spans[0].until_ns, T(until));
    }
}

/* A tick each 5 s; of the first batch there is one in the window, which says nothing of that. */
static void a_first_batch_of_one_tick_makes_no_stretch(void **state)
{
    static const int rest[] = {11, 16, 21, 26, 31, 36, 41, 46, 51, 56};
    struct query_quiet x;

    query_quiet_init(&x, &window, CLK_S);
    batch_of(&x, (const int[]){6}, 1);
    batch_of(&x, rest, COUNT_OF(rest));
    is_quiet(&x, 0, 0, 0);
}

static void a_beginning_without_ticks_is_one(void **state)
{
    static const int rest[] = {25, 30, 35, 40, 45, 50, 55};
    struct query_quiet x;

    query_quiet_init(&x, &window, CLK_S);
    batch_of(&x, (const int[]){20}, 1);
    batch_of(&x, rest, COUNT_OF(rest));
    is_quiet(&x, 1, 0, 20);
}

static void of_one_tick_alone_all_else_is_quiet(void **state)
{
    struct query_quiet x;

    query_quiet_init(&x, &window, CLK_S);
    batch_of(&x, (const int[]){20}, 1);
    is_quiet(&x, 2, 0, 20);
}

static void ticks_that_come_late_fill_the_beginning(void **state)
{
    static const int late[] = {0, 5, 10, 15}, rest[] = {25, 30, 35, 40, 45, 50, 55};
    struct query_quiet x;

    query_quiet_init(&x, &window, CLK_S);
    batch_of(&x, (const int[]){20}, 1);
    batch_of(&x, late, COUNT_OF(late));
    batch_of(&x, rest, COUNT_OF(rest));
    is_quiet(&x, 0, 0, 0);
}

/* As if they had come in their order: 5.7 s before the first tick are no stretch, nor are 9. */
static void what_late_ticks_leave_must_be_long_enough(void **state)
{
    static const int first[] = {0, 5, 10}, behind[] = {50, 55}, late[] = {19, 24, 29, 34, 39, 44};
    struct query_quiet x;

    query_quiet_init(&x, &window, CLK_S);
    batch_of(&x, behind, COUNT_OF(behind));
    batch_of(&x, (const int[]){6, 11, 16, 21, 26, 31, 36, 41, 46}, 9);
    is_quiet(&x, 0, 0, 0);
    query_quiet_init(&x, &window, CLK_S);
    batch_of(&x, first, COUNT_OF(first));
    batch_of(&x, behind, COUNT_OF(behind));
    batch_of(&x, late, COUNT_OF(late));
    is_quiet(&x, 0, 0, 0);
    query_quiet_init(&x, &window, CLK_S);
    batch_of(&x, first, COUNT_OF(first));
    batch_of(&x, behind, COUNT_OF(behind));
    batch_of(&x, late + 1, COUNT_OF(late) - 1);
    is_quiet(&x, 1, 15, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_batch_of_one_tick_makes_no_stretch),
        cmocka_unit_test(a_beginning_without_ticks_is_one),
        cmocka_unit_test(of_one_tick_alone_all_else_is_quiet),
        cmocka_unit_test(ticks_that_come_late_fill_the_beginning),
        cmocka_unit_test(what_late_ticks_leave_must_be_long_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
