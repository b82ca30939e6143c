#include "tests/support/t.h"

#include "common/base/map.h"
#include "common/base/mem.h"

static uint64_t key_of(uint64_t i)
{
    return i % 3 == 0 ? i : i % 3 == 1 ? i << 40 : ~i;
}

static void every_key_keeps_its_value_while_the_map_grows(void **state)
{
    struct map m = {0};

    assert_int_equal(map_get(&m, 0), 0);
    for (uint64_t i = 0; i < 5000; i++) {
        assert_int_equal(map_get(&m, key_of(i)), 0);
        assert_ok(map_reserve(&m));
        assert_int_equal(map_put(&m, key_of(i), i + 1), 0);
    }
    assert_int_equal(m.n, 5000);
    for (uint64_t i = 0; i < 5000; i++) {
        assert_int_equal(map_get(&m, key_of(i)), i + 1);
    }
    map_fini(&m);
}

static void a_value_is_replaced_and_returned(void **state)
{
    struct map m = {0};

    assert_ok(map_reserve(&m));
    assert_int_equal(map_put(&m, 7, 1), 0);
    assert_int_equal(map_put(&m, 7, UINT64_MAX), 1);
    assert_true(map_get(&m, 7) == UINT64_MAX);
    assert_int_equal(m.n, 1);
    map_fini(&m);
}

static void a_cleared_map_is_empty_and_keeps_its_memory(void **state)
{
    struct map m = {0};

    map_clear(&m);
    for (uint64_t i = 1; i < 500; i++) {
        assert_ok(map_reserve(&m));
        (void)map_put(&m, i, i);
    }
    map_clear(&m);
    mem_fail_after(0);
    for (uint64_t i = 1; i < 500; i++) {
        assert_int_equal(map_get(&m, i), 0);
        assert_ok(map_reserve(&m));
        (void)map_put(&m, i, i);
    }
    mem_fail_after(-1);
    map_fini(&m);
}

static void things_of_one_hash_are_told_apart_by_the_next_key(void **state)
{
    uint64_t hash = UINT64_MAX; /* of every thing; the next key is 0 */
    struct map m = {0};

    for (uint64_t thing = 1; thing < 40; thing++) {
        uint64_t key = hash, value;

        while ((value = map_get(&m, key)) != 0) {
            assert_true(value < thing);
            key++;
        }
        assert_ok(map_reserve(&m));
        (void)map_put(&m, key, thing);
    }
    for (uint64_t thing = 1; thing < 40; thing++) {
        assert_int_equal(map_get(&m, hash + thing - 1), thing);
    }
    map_fini(&m);
}

static void the_map_survives_every_failing_allocation(void **state)
{
    struct map m = {0};
    long live = mem_live();

    for (uint64_t i = 1; i < 300; i++) {
        mem_fail_after(0);
        if (map_reserve(&m)) {
            for (uint64_t k = 1; k < i; k++) {
                assert_int_equal(map_get(&m, k), k);
            }
        }
        mem_fail_after(-1);
        assert_ok(map_reserve(&m));
        (void)map_put(&m, i, i);
    }
    map_fini(&m);
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_keeps_its_value_while_the_map_grows),
        cmocka_unit_test(a_value_is_replaced_and_returned),
        cmocka_unit_test(a_cleared_map_is_empty_and_keeps_its_memory),
        cmocka_unit_test(things_of_one_hash_are_told_apart_by_the_next_key),
        cmocka_unit_test(the_map_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
