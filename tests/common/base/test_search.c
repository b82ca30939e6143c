#include "tests/support/t.h"

#include <stdbool.h>

#include "common/base/search.h"

static void the_first_that_is_not_less_is_found_in_every_length(void **state)
{
    for (size_t n = 0; n < 70; n++) {
        unsigned list[70];

        for (size_t k = 0; k < n; k++) {
            list[k] = 2 * (unsigned)(k / 3) + 1; /* each three times: 1 1 1 3 3 3 5 … */
        }
        for (unsigned key = 0; key < 50; key++) {
            size_t at, behind, want = 0;

            SEARCH_LOWER(at, n, list[at] < key);
            while (want < n && list[want] < key) {
                want++;
            }
            assert_int_equal(at, want);
            SEARCH_LOWER(behind, n, list[behind] <= key);
            while (want < n && list[want] <= key) {
                want++;
            }
            assert_int_equal(behind, want);
        }
    }
}

static bool looked_at(unsigned *count, bool before)
{
    (*count)++;
    return before;
}

static void a_search_looks_at_few_elements(void **state)
{
    unsigned count;
    size_t i;

    for (size_t place = 0; place <= 1000; place += 50) {
        count = 0;
        SEARCH_LOWER(i, 1000, looked_at(&count, i < place));
        assert_int_equal(i, place);
        assert_in_range(count, 9, 10);
    }
    SEARCH_LOWER(i, SIZE_MAX, i < SIZE_MAX - 1);
    assert_true(i == SIZE_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_is_not_less_is_found_in_every_length),
        cmocka_unit_test(a_search_looks_at_few_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
