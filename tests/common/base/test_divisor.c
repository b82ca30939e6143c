#include "common/base/divisor.h"
#include "tests/support/draw.h"
#include "tests/support/t.h"

static const uint64_t numbers[] = {1,
                                   2,
                                   3,
                                   7,
                                   10,
                                   64,
                                   1000,
                                   4096,
                                   15625,
                                   65536,
                                   1000000,
                                   UINT64_C(10000000),
                                   UINT64_C(1) << 46,
                                   INT64_MAX,
                                   UINT64_C(1) << 63,
                                   UINT64_MAX};
#define N (sizeof numbers / sizeof *numbers)

static void every_multiple_is_divided_as_division_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++) {
        struct divisor d = divisor_make(numbers[i]);

        for (uint64_t k = 0; k < 1000 && k <= UINT64_MAX / numbers[i]; k++) {
            uint64_t v = k * numbers[i];

            assert_true(divisor_divides(&d, v));
            assert_int_equal(divisor_unsigned(&d, v), k);
            if (v <= INT64_MAX) {
                assert_int_equal(divisor_signed(&d, -(int64_t)v), -(int64_t)k);
            }
        }
        for (uint64_t v = 0; v < 20000; v++) {
            assert_int_equal(divisor_divides(&d, v), v % numbers[i] == 0);
        }
    }
}

/* Many at once: said of none that does not divide, and of all that do but for the least number. */
static void many_are_told_as_one_by_one(void **state)
{
    uint64_t random = 3;

    (void)state;
    for (size_t round = 0; round < 20000; round++) {
        uint64_t by = numbers[draw(&random, N)];
        struct divisor d = divisor_make(by);
        bool all = true, least = false;
        int64_t v[DIVISOR_MANY];

        for (size_t i = 0; i < DIVISOR_MANY; i++) {
            uint64_t k = ((uint64_t)draw(&random, 1u << 31) << 33) >> draw(&random, 64);

            k = by <= INT64_MAX ? k % (INT64_MAX / by + 1) * by : 0;
            v[i] = draw(&random, 2) ? (int64_t)k : -(int64_t)k;
            v[i] = draw(&random, 40) ? v[i] : (int64_t)((uint64_t)v[i] + draw(&random, 3));
            v[i] = draw(&random, 200) ? v[i] : INT64_MIN + (int64_t)draw(&random, 3);
            all = all && divisor_divides(&d, v[i] < 0 ? 0 - (uint64_t)v[i] : (uint64_t)v[i]);
            least = least || v[i] == INT64_MIN;
        }
        assert_true(all || !divisor_divides_many(&d, v));
        assert_true(!all || least || divisor_divides_many(&d, v));
    }
}

static void what_divides_all_is_found(void **state)
{
    static const struct {
        int64_t values[4];
        uint64_t by;
    } cases[] = {{{0, 0, 0, 0}, 0},
                 {{0, 12, 18, -6}, 6},
                 {{INT64_MIN, 0, 0, 0}, UINT64_C(1) << 63},
                 {{INT64_MIN, 48, 0, 0}, 16},
                 {{1000, 15625, 250, 0}, 125},
                 {{7, 5, 100, 100}, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct divisor d = {0};

        for (size_t k = 0; k < 4; k++) {
            divisor_add(&d, cases[i].values[k]);
        }
        assert_int_equal(d.by, cases[i].by);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_multiple_is_divided_as_division_does),
        cmocka_unit_test(many_are_told_as_one_by_one),
        cmocka_unit_test(what_divides_all_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
