#include "common/base/divisor.h"
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
        cmocka_unit_test(what_divides_all_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
