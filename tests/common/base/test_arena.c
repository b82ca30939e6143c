#include "tests/support/t.h"

#include <string.h>

#include "common/base/arena.h"
#include "common/base/mem.h"

static void memory_is_zeroed_and_aligned(void **state)
{
    struct arena a;

    arena_init(&a, 1 << 20);
    for (size_t n = 0; n < 300; n++) {
        unsigned char *p = arena_alloc(&a, n);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(p[i], 0);
            p[i] = 0xff;
        }
    }
    arena_fini(&a);
}

static void the_limit_holds_and_reset_gives_room_again(void **state)
{
    struct arena a;
    size_t n = 0;

    arena_init(&a, 256 << 10);
    while (arena_alloc(&a, 1000)) {
        n++;
    }
    assert_in_range(n, 240, 262);
    assert_true(a.used <= a.max_bytes);
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_array(&a, SIZE_MAX / 4, 16));
    arena_reset(&a);
    assert_non_null(arena_alloc(&a, 1000));
    arena_fini(&a);
}

static void an_unset_array_keeps_the_limit_too(void **state)
{
    struct arena a;
    unsigned char *p;

    (void)state;
    arena_init(&a, 256 << 10);
    p = arena_array_unset(&a, 100, 10);
    assert_non_null(p);
    memset(p, 0xa5, 1000); /* what an array after a reset is made of */
    arena_reset(&a);
    p = arena_array(&a, 100, 10);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(p[i], 0);
    }
    assert_null(arena_array_unset(&a, SIZE_MAX / 16 + 2, 16));
    assert_null(arena_array_unset(&a, 1, 256 << 10));
    arena_fini(&a);
}

static void nothing_is_left_after_a_failed_allocation(void **state)
{
    struct arena a;
    long live = mem_live();

    arena_init(&a, 1 << 20);
    assert_non_null(arena_dup(&a, "abc", 4));
    mem_fail_after(0);
    assert_null(arena_alloc(&a, 100000));
    mem_fail_after(-1);
    arena_fini(&a);
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(the_limit_holds_and_reset_gives_room_again),
        cmocka_unit_test(an_unset_array_keeps_the_limit_too),
        cmocka_unit_test(nothing_is_left_after_a_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
