#include "tests/support/t.h"

#include "agent/process/u32map.h"
#include "common/base/mem.h"

static uint32_t living_generation = 1;

static bool other_generation(const struct u32map_entry *e)
{
    return e->generation != living_generation;
}

static struct u32map *map_of(size_t max)
{
    struct u32map *m;

    assert_ok(u32map_create(&m, max, other_generation));
    return m;
}

static bool put(struct u32map *m, uint32_t key, uint32_t generation)
{
    struct u32map_entry *e = u32map_put(m, key);

    if (!e) {
        return false;
    }
    e->owner = m;
    e->generation = generation;
    return true;
}

static void what_was_put_is_found_after_growing(void **state)
{
    struct u32map *m = map_of(100000);

    for (uint32_t k = 0; k < 50000; k++) {
        assert_true(put(m, k * 4, 1));
    }
    for (uint32_t k = 0; k < 50000; k++) {
        assert_non_null(u32map_get(m, k * 4));
        assert_int_equal(u32map_get(m, k * 4)->key, k * 4);
        assert_null(u32map_get(m, k * 4 + 1));
    }
    u32map_destroy(m);
}

static void an_entry_dies_with_its_owner(void **state)
{
    struct u32map *m = map_of(100);

    assert_true(put(m, 7, 1));
    assert_true(put(m, 8, 2));
    assert_non_null(u32map_get(m, 7));
    assert_null(u32map_get(m, 8));
    assert_null(u32map_put(m, 8)->owner); /* its place is free again */
    u32map_destroy(m);
}

static void dead_entries_make_room_and_living_ones_do_not(void **state)
{
    struct u32map *m = map_of(1000);

    for (uint32_t k = 0; k < 1000; k++) {
        assert_true(put(m, k, k < 500 ? 2 : 1));
    }
    for (uint32_t k = 1000; k < 1500; k++) {
        assert_true(put(m, k, 1));
    }
    assert_false(put(m, 9999, 1));
    for (uint32_t k = 500; k < 1500; k++) {
        assert_non_null(u32map_get(m, k));
    }
    u32map_destroy(m);
}

/* The next number after *number that falls on `place`. */
static uint32_t key_on(const struct u32map *m, size_t place, uint32_t *number)
{
    uint32_t key;

    do {
        (*number)++;
        key = *number << 2 | *number >> 30;
    } while (u32map_place(m, key) != place);
    return key;
}

static void a_look_up_passes_no_more_than_the_furthest_entry(void **state)
{
    struct u32map *m = map_of(100000);
    uint32_t number = 0;

    for (size_t place = 0; place < 100; place++) { /* side by side, each on its own place */
        assert_true(put(m, key_on(m, place, &number), 1));
    }
    assert_int_equal(m->reach, 0);
    assert_null(u32map_find(m, key_on(m, 0, &number)));
    assert_true(put(m, key_on(m, 90, &number), 1));
    assert_int_equal(m->reach, 10);
    assert_non_null(u32map_get(m, number << 2 | number >> 30));
    number = 0;
    for (size_t place = 0; place < 100; place++) {
        assert_non_null(u32map_get(m, key_on(m, place, &number)));
    }
    u32map_destroy(m);
}

static void a_full_map_is_not_swept_for_every_entry_that_dies(void **state)
{
    struct u32map *m = map_of(1600);

    for (uint32_t k = 0; k < 1600; k++) {
        assert_true(put(m, k, 1));
    }
    u32map_get(m, 0)->generation = 2;
    assert_false(put(m, 5000, 1));
    for (uint32_t k = 1; k <= 100; k++) {
        u32map_get(m, k)->generation = 2;
    }
    for (size_t i = 0; i < m->cap; i++) { /* by and by it is looked at again */
        (void)put(m, 5000, 1);
    }
    for (uint32_t k = 6000; k < 6100; k++) {
        assert_true(put(m, k, 1));
    }
    u32map_destroy(m);
}

static void a_cleared_map_is_empty(void **state)
{
    struct u32map *m = map_of(10);

    assert_true(put(m, 1, 1));
    u32map_clear(m);
    assert_null(u32map_get(m, 1));
    u32map_destroy(m);
}

/* Places between where the key should be and where it is. */
static size_t distance(const struct u32map *m, uint32_t key)
{
    return ((size_t)(u32map_get(m, key) - m->at) - u32map_place(m, key)) & (m->cap - 1);
}

static void numbers_chosen_to_fall_on_one_place_are_spread_anew(void **state)
{
    enum { CHOSEN = 1500 };
    static uint32_t chosen[CHOSEN];
    struct u32map *m = map_of(100000);
    size_t n = 0, longest = 0;

    for (uint32_t k = 4; n < CHOSEN; k += 4) {
        if ((k / 4 * UINT64_C(0x9E3779B97F4A7C15)) >> 51 == 0) {
            chosen[n++] = k; /* place 0 of a table of up to 8,192 */
        }
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(put(m, chosen[i], 1));
    }
    for (size_t i = 0; i < n; i++) {
        assert_non_null(u32map_get(m, chosen[i]));
        longest = distance(m, chosen[i]) > longest ? distance(m, chosen[i]) : longest;
    }
    assert_true(longest < 400); /* 1,499 otherwise */
    u32map_destroy(m);
}

static void creation_survives_every_failing_allocation(void **state)
{
    struct u32map *m;
    long before = mem_live();

    for (long n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_err(u32map_create(&m, 10, NULL), ERR_NOMEM);
        assert_int_equal(mem_live(), before);
    }
    mem_fail_after(-1);
}

static void a_map_that_cannot_grow_keeps_what_it_has(void **state)
{
    struct u32map *m = map_of(100000);
    uint32_t k = 0;

    mem_fail_after(0);
    while (put(m, k, 1)) {
        k++;
    }
    mem_fail_after(-1);
    assert_true(k > 100);
    for (uint32_t i = 0; i < k; i++) {
        assert_non_null(u32map_get(m, i));
    }
    assert_true(put(m, k, 1));
    u32map_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_found_after_growing),
        cmocka_unit_test(an_entry_dies_with_its_owner),
        cmocka_unit_test(dead_entries_make_room_and_living_ones_do_not),
        cmocka_unit_test(a_look_up_passes_no_more_than_the_furthest_entry),
        cmocka_unit_test(a_full_map_is_not_swept_for_every_entry_that_dies),
        cmocka_unit_test(a_cleared_map_is_empty),
        cmocka_unit_test(numbers_chosen_to_fall_on_one_place_are_spread_anew),
        cmocka_unit_test(creation_survives_every_failing_allocation),
        cmocka_unit_test(a_map_that_cannot_grow_keeps_what_it_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
