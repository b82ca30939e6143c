#include "common/lab/stat.h"

#include <math.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * (1 + fabs(b)))) {
        print_error("%.17g is not %.17g\n", a, b);
        fail();
    }
}

/* What benchstat prints of its own test data: the median, and how far its interval of 95 % reaches
 * in whole percents of it. */
static void it_gives_the_medians_and_intervals_that_benchstat_prints(void **state)
{
    static const struct {
        double values[10];
        size_t n;
        double median;
        int percent; /* -1: without end */
    } rows[] = {
        {{1726, 1723, 1707, 1707, 1713, 1729, 1736, 1707, 1705, 1774}, 10, 1718, 1},
        {{1423, 1416, 1411, 1413, 1412, 1426, 1422, 1424, 1447, 1425}, 10, 1422.5, 1},
        {{3069, 3075, 3069, 3067, 3207, 3064, 3064, 3058, 3059, 3062}, 10, 3065.5, 0},
        {{3075, 3065, 3059, 3065, 3060, 3081, 3186, 3135, 3087, 3062}, 10, 3070, 2},
        {{44.6, 47.3, 44.6, 46.3, 50.7, 45.8, 46.8, 44.3, 47.7, 50.6}, 10, 46.55, 9},
        {{46.8, 44.0, 44.6, 44.1, 44.5, 44.0, 44.2, 45.1, 44.0, 45.8}, 10, 44.35, 3},
        {{41.0, 43.0, 40.9, 42.3, 41.0, 41.0, 41.3, 40.8, 41.1, 41.2}, 10, 41.05, 3},
        {{42.9, 40.9, 41.4, 41.2, 41.1, 40.8, 40.9, 40.9, 41.5, 41.0}, 10, 41.05, 1},
        {{249, 248, 232, 238, 234, 237, 241, 231, 231, 239}, 10, 237.5, 4},
        {{238, 232, 230, 233, 231, 238, 242, 241, 230, 240}, 10, 235.5, 2},
        {{435, 461, 446, 448, 448, 464, 456, 457, 461, 449}, 10, 452.5, 2},
        {{436, 452, 443, 446, 436, 445, 451, 450, 441, 436}, 10, 444, 2},
        {{1698, 1667, 1694, 1654, 1704, 1876, 1790, 1812, 1828, 1677}, 10, 1701, 7},
        {{1679, 1705, 1665, 1678, 1819, 1871, 1878, 1782, 1797, 1769}, 10, 1775.5, 5},
        {{14964, 14612, 14258, 15641, 14653, 15101, 15065, 15801, 15459, 13975}, 10, 15014.5, 5},
        {{13567, 14515, 14510, 15133, 14383, 14983, 13519, 13154, 13594, 14530}, 10, 14446.5, 6},
        {{18.0, 16.4, 16.6, 16.3, 16.0, 16.6, 16.0, 16.6, 16.1, 16.8}, 10, 16.5, 3},
        {{17.0, 17.5, 17.1, 17.5, 17.2, 17.0, 17.1, 17.2, 18.6, 17.4}, 10, 17.2, 2},
        {{17.3, 17.6, 17.5, 17.2, 17.7, 17.5, 17.2, 17.2, 17.4, 17.7}, 10, 17.45, 1},
        {{20.3, 19.3, 19.1, 19.8, 19.9, 19.6, 20.1, 19.5, 19.8, 19.7}, 10, 19.75, 2},
        {{40.4, 39.7, 40.3, 40.0, 40.1, 39.7, 40.8, 40.8, 40.2, 39.7}, 10, 40.15, 2},
        {{100, 100, 100, 100, 100, 100}, 6, 100, 0},
        {{115, 114, 115, 115, 115}, 5, 115, -1},
        {{78.8, 78.8, 78.8, 78.8, 78.8}, 5, 78.8, -1},
        {{100}, 1, 100, -1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        double sorted[10], low, high, median;

        for (size_t k = 0; k < rows[i].n; k++) {
            sorted[k] = rows[i].values[k];
        }
        stat_sort(sorted, rows[i].n);
        median = stat_median(sorted, rows[i].n);
        assert_near(median, rows[i].median);
        if (rows[i].percent < 0) {
            assert_false(stat_median_interval(&low, &high, sorted, rows[i].n, 0.95));
            assert_true(isinf(low) && low < 0 && isinf(high) && high > 0);
            continue;
        }
        assert_true(stat_median_interval(&low, &high, sorted, rows[i].n, 0.95));
        assert_int_equal(lround(100 * fmax(high / median - 1, 1 - low / median)), rows[i].percent);
    }
}

/* Its unit test: how many values each confidence needs, and an interval. */
static void it_needs_as_many_values_as_benchstat(void **state)
{
    static const double six[] = {-10, 2, 3, 4, 5, 6, 7, 8}, two[] = {1, 2};
    double low, high;

    assert_true(stat_median_interval(&low, &high, six, 6, 0.95));
    assert_true(low == -10 && high == 6);
    assert_near(stat_median(six, 6), 3.5);
    assert_false(stat_median_interval(&low, &high, six, 5, 0.95));
    assert_false(stat_median_interval(&low, &high, six, 6, 0.99));
    assert_false(stat_median_interval(&low, &high, six, 7, 0.99));
    assert_true(stat_median_interval(&low, &high, six, 8, 0.99));
    assert_false(stat_median_interval(&low, &high, six, 8, 1));
    assert_true(stat_median_interval(&low, &high, two, 2, 0));
    assert_true(low == 1 && high == 2);
    assert_false(stat_median_interval(&low, &high, two, 1, 0));
}

static void the_interval_of_many_values_goes_on_from_that_of_few(void **state)
{
    static double values[1001];
    double low, high, low_1, high_1;

    for (size_t i = 0; i < COUNT_OF(values); i++) {
        values[i] = (double)i;
    }
    assert_true(stat_median_interval(&low, &high, values, 1000, 0.95));
    assert_true(stat_median_interval(&low_1, &high_1, values, 1001, 0.95));
    assert_true(fabs(low - low_1) <= 1 && fabs(high - high_1) <= 2);
    assert_true(low > 460 && low < 475 && high > 525 && high < 540);
}

static void the_normal_quantile_is_right_to_the_last_digits(void **state)
{
    assert_near(stat_normal_quantile(0.975), 1.959963984540054);
    assert_near(stat_normal_quantile(0.5), 0);
    assert_near(stat_normal_quantile(0.3), -0.5244005127080407);
    assert_near(stat_normal_quantile(1e-10), -6.361340902404056);
    assert_near(stat_normal_quantile(0.025 / 4000), -4.368679592974);
    for (double p = 0.001; p < 1; p += 0.013) {
        assert_near(1 - stat_normal_tail(stat_normal_quantile(p)), p);
    }
}

static void mad_of_values_is_the_spread_of_most_of_them(void **state)
{
    static const double values[] = {1, 2, 3, 4, 1000};
    double room[5];

    assert_near(stat_mad(values, 5, room), 1.4826022185056018);
    assert_true(isnan(stat_median(NULL, 0)));
}

static void the_slope_does_not_follow_outliers(void **state)
{
    double x[32], y[32], slope;
    long before = mem_live();

    for (size_t i = 0; i < 32; i++) {
        x[i] = (double)i;
        y[i] = 5 + 3 * x[i] + (i % 7 == 3 ? 1e6 : 0);
    }
    assert_ok(stat_theil_sen(&slope, x, y, 32));
    assert_near(slope, 3);
    x[1] = x[0];
    assert_ok(stat_theil_sen(&slope, x, y, 2));
    assert_true(isnan(slope));
    mem_fail_after(0);
    assert_err(stat_theil_sen(&slope, x, y, 32), ERR_NOMEM);
    mem_fail_after(-1);
    assert_int_equal(mem_live(), before);
}

/* Benjamini and Hochberg 1995, section 3.2: of these 15, four are rejected at 0.05. */
static void false_ones_among_many_tests_are_kept_few(void **state)
{
    double p[] = {0.0278, 0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0298, 0.0344,
                  0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000};
    double q[15];
    size_t order[15], rejected = 0;

    stat_bh(q, p, 15, order);
    for (size_t i = 0; i < 15; i++) {
        rejected += q[i] <= 0.05;
        assert_true(q[i] >= p[i] && q[i] <= 1);
    }
    assert_int_equal(rejected, 4);
    assert_near(q[1], 0.0015);
    assert_near(q[0], 0.0298 * 15 / 7); /* the least of itself and all above */
    stat_bh(p, p, 15, order);           /* in place */
    for (size_t i = 0; i < 15; i++) {
        assert_true(p[i] == q[i]);
    }
    stat_bh(q, q, 0, order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gives_the_medians_and_intervals_that_benchstat_prints),
        cmocka_unit_test(it_needs_as_many_values_as_benchstat),
        cmocka_unit_test(the_interval_of_many_values_goes_on_from_that_of_few),
        cmocka_unit_test(the_normal_quantile_is_right_to_the_last_digits),
        cmocka_unit_test(mad_of_values_is_the_spread_of_most_of_them),
        cmocka_unit_test(the_slope_does_not_follow_outliers),
        cmocka_unit_test(false_ones_among_many_tests_are_kept_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
