#include "common/lab/stat_u.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/lab/stat.h"
#include "tests/support/draw.h"
#include "tests/support/t.h"

#define NEAR 1e-12

static double unit(uint64_t *d)
{
    return (draw(d, 1u << 30) + 0.5) / (1u << 30);
}

static struct stat_u test_of(const double *a, size_t n_a, const double *b, size_t n_b)
{
    struct stat_u_stratum s = {a, b, n_a, n_b};
    struct stat_u r;

    assert_ok(stat_u_test(&r, &s, 1, 0.05));
    return r;
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= NEAR * (1 + fabs(b)))) {
        print_error("%.17g is not %.17g\n", a, b);
        fail();
    }
}

/* -- what benchstat prints of its own test data (golang.org/x/perf, cmd/benchstat/testdata) and
 * asserts in its unit test -- */

static void it_gives_the_p_that_benchstat_prints(void **state)
{
    static const struct {
        double a[10], b[10];
        size_t n;
        const char *p; /* as printed */
    } rows[] = {
        {{115, 114, 115, 115, 115}, {78.8, 78.8, 78.8, 78.8, 78.8}, 5, "0.008"},
        {{100}, {101}, 1, "1.000"},
        {{100, 100, 100, 100, 100, 100}, {100, 100, 100, 100, 100, 100}, 6, "1.000"},
        {{1726, 1723, 1707, 1707, 1713, 1729, 1736, 1707, 1705, 1774},
         {1423, 1416, 1411, 1413, 1412, 1426, 1422, 1424, 1447, 1425},
         10,
         "0.000"},
        {{3069, 3075, 3069, 3067, 3207, 3064, 3064, 3058, 3059, 3062},
         {3075, 3065, 3059, 3065, 3060, 3081, 3186, 3135, 3087, 3062},
         10,
         "0.446"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[16];

        (void)snprintf(text, sizeof text, "%.3f",
                       test_of(rows[i].a, rows[i].n, rows[i].b, rows[i].n).p);
        assert_string_equal(text, rows[i].p);
    }
}

static void it_gives_the_p_that_benchstat_asserts(void **state)
{
    static const double low[] = {-1, -1, -1, -1}, high[] = {1, 1, 1, 1};
    static const double mixed_a[] = {1, -1, -1, -1}, mixed_b[] = {-1, 1, 1, 1};
    static const double least[] = {0,
                                   1,
                                   0.3333333333333333,
                                   0.1,
                                   0.02857142857142857,
                                   0.007936507936507936,
                                   0.0021645021645021645,
                                   0.0005827505827505828,
                                   0.0001554001554001554,
                                   4.113533525298231e-05};

    assert_near(test_of(low, 3, high, 3).p, 0.1);
    assert_near(test_of(low, 4, high, 4).p, 0.02857142857142857);
    assert_near(test_of(mixed_a, 4, mixed_b, 4).p, 0.4857142857142857);
    assert_near(test_of(high, 4, high, 4).p, 1);
    for (size_t n = 1; n < COUNT_OF(least); n++) {
        assert_near(stat_u_least(n, n), least[n]);
    }
}

/* -- against enumeration -- */

/* Twice U of the values whose bit is set against the others. */
static unsigned half_steps(const double *all, unsigned n, unsigned chosen)
{
    unsigned u = 0;

    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = 0; k < n; k++) {
            if ((chosen >> i & 1) && !(chosen >> k & 1)) {
                u += all[i] > all[k] ? 2 : !(all[i] < all[k]);
            }
        }
    }
    return u;
}

/* Ways of each U, of all choices of n_b among the n values. */
static double enumerate(double *ways, const double *all, unsigned n, unsigned n_b)
{
    double total = 0;

    memset(ways, 0, 129 * sizeof *ways);
    for (unsigned chosen = 0; chosen < 1u << n; chosen++) {
        if ((unsigned)__builtin_popcount(chosen) == n_b) {
            ways[half_steps(all, n, chosen)]++;
            total++;
        }
    }
    return total;
}

static double two_sided(const double *ways, size_t n, double total, size_t at)
{
    double low = 0, high = 0, p;

    for (size_t i = 0; i < n; i++) {
        low += i <= at ? ways[i] : 0;
        high += i >= at ? ways[i] : 0;
    }
    p = 2 * (low < high ? low : high) / total;
    return p < 1 ? p : 1;
}

static void every_size_to_8_and_8_agrees_with_enumeration(void **state)
{
    uint64_t d = 1;

    for (unsigned n_a = 1; n_a <= 8; n_a++) {
        for (unsigned n_b = 1; n_b <= 8; n_b++) {
            for (unsigned kinds = 2; kinds <= 32; kinds *= 4) { /* many ties, some, few */
                double all[16], ways[129], total;
                struct stat_u r;

                for (unsigned i = 0; i < n_a + n_b; i++) {
                    all[i] = draw(&d, kinds);
                }
                total = enumerate(ways, all, n_a + n_b, n_b);
                r = test_of(all + n_b, n_a, all, n_b);
                assert_true(r.exact);
                assert_near(
                    r.p, two_sided(ways, 129, total, half_steps(all, n_a + n_b, (1u << n_b) - 1)));
            }
        }
    }
}

static void strata_agree_with_enumeration(void **state)
{
    static const unsigned sizes[][2] = {{2, 2}, {3, 1}, {1, 2}, {4, 4}};
    uint64_t d = 2;

    for (unsigned kinds = 2; kinds <= 32; kinds *= 2) {
        double values[4][8], sum[257] = {1}, total = 1;
        struct stat_u_stratum s[5];
        size_t at = 0;
        struct stat_u r;

        for (unsigned i = 0; i < 4; i++) {
            unsigned n_a = sizes[i][0], n_b = sizes[i][1];
            double ways[129], next[257] = {0};

            for (unsigned k = 0; k < n_a + n_b; k++) {
                values[i][k] = draw(&d, kinds) + 1000 * i; /* strata are far apart */
            }
            total *= enumerate(ways, values[i], n_a + n_b, n_b);
            for (size_t x = 0; x < 257; x++) {
                for (size_t y = 0; y < 129 && x + y < 257; y++) {
                    next[x + y] += sum[x] * ways[y];
                }
            }
            memcpy(sum, next, sizeof sum);
            at += half_steps(values[i], n_a + n_b, (1u << n_b) - 1);
            s[i] = (struct stat_u_stratum){values[i] + n_b, values[i], n_a, n_b};
        }
        s[4] = (struct stat_u_stratum){values[0], NULL, 3, 0}; /* says nothing */
        assert_ok(stat_u_test(&r, s, 5, 0.05));
        assert_near(r.p, two_sided(sum, 257, total, at));
        assert_near(r.p_least, 2.0 / (6 * 4 * 3 * 70));
        assert_int_equal(r.pairs, 4 + 3 + 2 + 16);
    }
}

static void no_level_rejects_more_often_than_it_says(void **state)
{
    static const unsigned sizes[][2] = {{4, 4}, {5, 3}, {2, 7}, {1, 8}};
    uint64_t d = 3;

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        unsigned n_a = sizes[i][0], n = n_a + sizes[i][1];
        double all[16], p[512];
        size_t count = 0;

        for (unsigned k = 0; k < n; k++) {
            all[k] = draw(&d, i % 2 ? 4 : 1000);
        }
        for (unsigned chosen = 0; chosen < 1u << n; chosen++) {
            double a[16], b[16];
            size_t at_a = 0, at_b = 0;

            if ((unsigned)__builtin_popcount(chosen) != n_a) {
                continue;
            }
            for (unsigned k = 0; k < n; k++) {
                if (chosen >> k & 1) {
                    a[at_a++] = all[k];
                } else {
                    b[at_b++] = all[k];
                }
            }
            p[count++] = test_of(a, at_a, b, at_b).p;
        }
        stat_sort(p, count);
        for (size_t k = 0; k < count; k++) { /* alpha = p[k] */
            size_t rejected = k + 1;

            while (rejected < count && p[rejected] <= p[k] * (1 + NEAR)) {
                rejected++;
            }
            assert_true((double)rejected / (double)count <= p[k] * (1 + NEAR));
        }
    }
}

/* -- effect and interval -- */

static void the_effect_is_the_median_of_all_differences(void **state)
{
    static const double a[] = {1, 2, 4}, b[] = {11, 12};
    struct stat_u r = test_of(a, 3, b, 2); /* 7 8 9 10 10 11 */

    assert_near(r.effect, 9.5);
    assert_near(r.u, 6);
    assert_int_equal(r.pairs, 6);
    assert_true(isinf(r.low) && r.low < 0 && isinf(r.high) && r.high > 0); /* p is 0.2 at least */
}

static void the_interval_excludes_0_exactly_when_p_is_alpha_or_less(void **state)
{
    static const double alphas[] = {0.001, 0.01, 0.05, 0.0286, 0.1, 0.3};
    uint64_t d = 4;
    size_t excluded = 0;

    for (unsigned trial = 0; trial < 4000; trial++) {
        double a[3][9], b[3][9], alpha = alphas[trial % COUNT_OF(alphas)];
        size_t strata = 1 + trial % 3;
        struct stat_u_stratum s[3];
        struct stat_u r;

        for (size_t i = 0; i < strata; i++) {
            s[i] = (struct stat_u_stratum){a[i], b[i], 1 + draw(&d, 8), 1 + draw(&d, 8)};
            for (size_t k = 0; k < 9; k++) {
                a[i][k] = unit(&d);
                b[i][k] = unit(&d) + (trial % 5) * 0.1;
            }
        }
        assert_ok(stat_u_test(&r, s, strata, alpha));
        assert_int_equal(r.p <= alpha * (1 + NEAR), r.low > 0 || r.high < 0);
        assert_true(r.low <= r.effect && r.effect <= r.high);
        excluded += r.low > 0 || r.high < 0;
    }
    assert_true(excluded > 400 && excluded < 3600);
}

static void swapping_sides_turns_the_sign_and_nothing_else(void **state)
{
    uint64_t d = 5;

    for (unsigned trial = 0; trial < 500; trial++) {
        double a[8], b[8];
        size_t n_a = 1 + draw(&d, 8), n_b = 1 + draw(&d, 8);
        struct stat_u x, y;

        for (size_t k = 0; k < 8; k++) {
            a[k] = draw(&d, trial % 2 ? 6 : 100000);
            b[k] = draw(&d, trial % 2 ? 6 : 100000);
        }
        x = test_of(a, n_a, b, n_b);
        y = test_of(b, n_b, a, n_a);
        assert_near(x.p, y.p);
        assert_near(x.effect, -y.effect);
        assert_true(x.low == -y.high && x.high == -y.low);
    }
}

static void many_values_are_judged_by_the_normal_distribution(void **state)
{
    uint64_t d = 6;

    for (unsigned trial = 0; trial < 20; trial++) {
        double a[60], b[60];
        struct stat_u exact, normal;

        for (size_t k = 0; k < 60; k++) {
            a[k] = draw(&d, trial % 2 ? 30 : 100000);
            b[k] = draw(&d, trial % 2 ? 30 : 100000) * (1 + trial * 0.02);
        }
        exact = test_of(a, 50, b, 50);
        normal = test_of(a, 51, b, 50);
        assert_true(exact.exact && !normal.exact);
        normal = test_of(a, 60, b, 60);
        assert_true(normal.p >= 0 && normal.p <= 1 && normal.low <= normal.effect &&
                    normal.effect <= normal.high);
    }
}

/* 50 and 51 values of the same quantiles: the ways meet. */
static void the_normal_and_the_exact_way_agree_where_they_meet(void **state)
{
    for (double shift = 0; shift < 0.3; shift += 0.05) {
        double a[51], b[51];
        struct stat_u exact, normal;

        for (size_t k = 0; k < 51; k++) {
            a[k] = (double)k / 50;
            b[k] = (double)k / 50 + shift + 0.001;
        }
        exact = test_of(a, 50, b, 50);
        normal = test_of(a, 51, b, 51);
        assert_true(exact.exact && !normal.exact);
        assert_true(fabs(exact.p - normal.p) < 0.01);
        assert_true(fabs(exact.low - normal.low) < 0.01 && fabs(exact.high - normal.high) < 0.01);
    }
}

static void no_pairs_say_nothing_and_too_many_are_refused(void **state)
{
    static double many[4097];
    struct stat_u_stratum none = {many, many, 0, 5}, full = {many, many, 4097, 1024};
    struct stat_u r;

    assert_ok(stat_u_test(&r, &none, 1, 0.05));
    assert_true(r.p == 1 && r.pairs == 0 && r.effect == 0 && isinf(r.low) && isinf(r.high));
    assert_err(stat_u_test(&r, &full, 1, 0.05), ERR_FULL);
}

static void running_out_of_memory_is_survived(void **state)
{
    static const double a[] = {1, 2, 3, 4}, b[] = {2, 3, 4, 5};
    struct stat_u_stratum s[] = {{a, b, 4, 4}, {a, b, 2, 2}};
    long before = mem_live();
    enum err e = ERR_NOMEM;
    struct stat_u r;

    for (long n = 0; e; n++) {
        mem_fail_after(n);
        e = stat_u_test(&r, s, 2, 0.05);
        mem_fail_after(-1);
        assert_true(e == ERR_NOMEM || (e == ERR_OK && n > 5));
        assert_int_equal(mem_live(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gives_the_p_that_benchstat_prints),
        cmocka_unit_test(it_gives_the_p_that_benchstat_asserts),
        cmocka_unit_test(every_size_to_8_and_8_agrees_with_enumeration),
        cmocka_unit_test(strata_agree_with_enumeration),
        cmocka_unit_test(no_level_rejects_more_often_than_it_says),
        cmocka_unit_test(the_effect_is_the_median_of_all_differences),
        cmocka_unit_test(the_interval_excludes_0_exactly_when_p_is_alpha_or_less),
        cmocka_unit_test(swapping_sides_turns_the_sign_and_nothing_else),
        cmocka_unit_test(many_values_are_judged_by_the_normal_distribution),
        cmocka_unit_test(the_normal_and_the_exact_way_agree_where_they_meet),
        cmocka_unit_test(no_pairs_say_nothing_and_too_many_are_refused),
        cmocka_unit_test(running_out_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
