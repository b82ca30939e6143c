#include "common/os/uuid.h"

#include "tests/support/t.h"

static void uuids_are_read_exactly(void **state)
{
    static const char text[] = "01234567-89ab-cdef-0123-456789abcdef";
    static const char *const bad[] = {
        "", "01234567-89ab-cdef-0123-456789abcde", "01234567-89ab-cdef-0123-456789abcdef0",
        "01234567+89ab-cdef-0123-456789abcdef", "0123456g-89ab-cdef-0123-456789abcdef"};
    char out[UUID_TEXT];
    struct uuid u, v;

    assert_ok(uuid_parse(&u, text));
    assert_string_equal(uuid_format(out, &u), text);
    assert_ok(uuid_parse(&v, "01234567-89AB-CDEF-0123-456789ABCDEF"));
    assert_memory_equal(&u, &v, sizeof u);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(uuid_parse(&u, bad[i]), ERR_INVALID);
    }
    assert_ok(uuid_random(&u));
    assert_ok(uuid_random(&v));
    assert_memory_not_equal(&u, &v, sizeof u);
    assert_int_equal(u.b[6] >> 4, 4);
}

static const struct uuid *at(const void *ids, size_t i)
{
    return (const struct uuid *)ids + i;
}

static void a_place_in_the_order_is_found(void **state)
{
    static const struct uuid ids[] = {{{1}}, {{1, 0, 1}}, {{2}}, {{255, 255}}};
    static const struct {
        struct uuid id;
        size_t at;
    } rows[] = {
        {{{0}}, 0}, {{{1}}, 0},   {{{1, 0, 0, 9}}, 1}, {{{1, 0, 1}}, 1},        {{{1, 255}}, 2},
        {{{2}}, 2}, {{{128}}, 3}, {{{255, 255}}, 3},   {{{255, 255, 0, 1}}, 4},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(uuid_search(&rows[i].id, COUNT_OF(ids), at, ids), rows[i].at);
    }
    assert_int_equal(uuid_search(&ids[0], 0, at, ids), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uuids_are_read_exactly),
        cmocka_unit_test(a_place_in_the_order_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
