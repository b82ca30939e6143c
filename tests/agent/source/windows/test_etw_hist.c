#include "agent/source/windows/etw_hist.h"

#include <string.h>

#include "tests/support/t.h"

static void a_bound_is_at_most_an_eighth_too_high(void **state)
{
    for (uint64_t ns = 0; ns <= UINT32_MAX; ns = ns * 17 / 16 + 1) {
        struct etw_hist h = {0};
        int64_t bound;

        etw_hist_add(&h, (int64_t)ns);
        bound = etw_hist_bound_ns(&h, 990);
        assert_true(bound >= (int64_t)ns);
        assert_true(bound <= (int64_t)(ns + ns / 8));
    }
}

static void what_is_beyond_the_range_counts_as_its_end(void **state)
{
    struct etw_hist h = {0};

    assert_int_equal(etw_hist_bound_ns(&h, 990), 0); /* nothing was added */
    etw_hist_add(&h, INT64_MAX);
    assert_true(etw_hist_bound_ns(&h, 990) == UINT32_MAX);
    memset(&h, 0, sizeof h);
    etw_hist_add(&h, -5);
    assert_int_equal(etw_hist_bound_ns(&h, 990), 0);
}

static void the_slowest_hundredth_is_left_out(void **state)
{
    struct etw_hist h = {0};

    for (int i = 0; i < 990; i++) {
        etw_hist_add(&h, 100);
    }
    for (int i = 0; i < 10; i++) {
        etw_hist_add(&h, 100000);
    }
    assert_in_range(etw_hist_bound_ns(&h, 990), 100, 112);
    assert_in_range(etw_hist_bound_ns(&h, 991), 100000, 112500);
    assert_in_range(etw_hist_bound_ns(&h, 1000), 100000, 112500);
}

static void a_roll_forgets_what_came_before(void **state)
{
    struct etw_hist h = {0};

    etw_hist_add(&h, 1000000);
    etw_hist_roll(&h);
    assert_int_equal(etw_hist_bound_ns(&h, 990), 0);
    etw_hist_add(&h, 5);
    assert_int_equal(etw_hist_bound_ns(&h, 990), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bound_is_at_most_an_eighth_too_high),
        cmocka_unit_test(what_is_beyond_the_range_counts_as_its_end),
        cmocka_unit_test(the_slowest_hundredth_is_left_out),
        cmocka_unit_test(a_roll_forgets_what_came_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
