#include "common/base/buf.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/mem.h"
#include "tests/support/t.h"

static void what_is_put_is_read_back(void **state)
{
    static const uint64_t values[] = {0, 1, 127, 128, 300, UINT32_MAX, UINT64_MAX};
    struct buf b;
    struct cur c;

    buf_init(&b, 4096);
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        buf_put_varint(&b, values[i]);
        buf_put_svarint(&b, (int64_t)values[i]);
        buf_put_svarint(&b, -(int64_t)(values[i] / 2));
        buf_put_u64le(&b, values[i]);
    }
    assert_ok(b.bad);
    c = cur_make(b.p, b.n);
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        assert_true(cur_varint(&c) == values[i]);
        assert_true(cur_svarint(&c) == (int64_t)values[i]);
        assert_true(cur_svarint(&c) == -(int64_t)(values[i] / 2));
        assert_true(cur_u64le(&c) == values[i]);
    }
    assert_false(c.bad);
    assert_int_equal(cur_left(&c), 0);
    buf_fini(&b);
}

static void the_maximum_is_never_exceeded(void **state)
{
    struct buf b;

    buf_init(&b, 300);
    for (int i = 0; i < 301; i++) {
        buf_put_u8(&b, 'x');
    }
    assert_err(b.bad, ERR_FULL);
    assert_int_equal(b.n, 300);
    buf_reset(&b);
    buf_printf(&b, "%s", "back again");
    assert_ok(b.bad);
    assert_string_equal(buf_cstr(&b), "back again");
    buf_fini(&b);
}

static void running_out_of_memory_latches(void **state)
{
    struct buf b;

    buf_init(&b, 1 << 20);
    mem_fail_after(0);
    buf_put_str(&b, "lost");
    buf_put_str(&b, "also lost");
    mem_fail_after(-1);
    assert_err(b.bad, ERR_NOMEM);
    assert_int_equal(b.n, 0);
    buf_fini(&b);
}

static void utf16_becomes_utf8(void **state)
{
    static const struct {
        uint16_t units[4];
        size_t n;
        const char *utf8;
    } table[] = {
        {{'a', 0xE9, 0x20AC}, 3, "a\xC3\xA9\xE2\x82\xAC"},
        {{0xD83D, 0xDE00}, 2, "\xF0\x9F\x98\x80"},
        {{0xD83D, 'x'}, 2, "\xEF\xBF\xBDx"},
        {{0xDE00}, 1, "\xEF\xBF\xBD"},
        {{0xD83D}, 1, "\xEF\xBF\xBD"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct buf b;

        buf_init(&b, 64);
        buf_put_utf16le(&b, table[i].units, table[i].n);
        assert_string_equal(buf_cstr(&b), table[i].utf8);
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_read_back),
        cmocka_unit_test(the_maximum_is_never_exceeded),
        cmocka_unit_test(running_out_of_memory_latches),
        cmocka_unit_test(utf16_becomes_utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
