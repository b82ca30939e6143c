#include "tests/support/t.h"

#include <string.h>

#include "agent/decode/decode_text.h"
#include "common/base/cur.h"

static struct decode_text text;

static void assert_str(struct str s, const char *expected)
{
    assert_int_equal(s.n, strlen(expected));
    assert_memory_equal(s.p, expected, s.n);
}

static void utf16_becomes_utf8(void **state)
{
    static const struct {
        const char *utf16;
        size_t units;
        const char *utf8;
    } rows[] = {
        {"", 0, ""},
        {"a\0b\0", 2, "ab"},
        {"\xe9\0", 1, "\xc3\xa9"},
        {"\xac\x20", 1, "\xe2\x82\xac"},
        {"\x3d\xd8\x00\xde", 2, "\xf0\x9f\x98\x80"}, /* a pair */
        {"\x3d\xd8", 1, "\xef\xbf\xbd"},             /* high alone, at the end */
        {"\x3d\xd8z\0", 2, "\xef\xbf\xbdz"},         /* high alone, before text */
        {"\x00\xdez\0", 2, "\xef\xbf\xbdz"},         /* low alone */
        {"a\0b\0c\0d\0\xe9\0z\0y\0x\0w\0", 9, "abcd\xc3\xa9zyxw"},
        {"a\0b\0c\0\x80\0z\0y\0x\0w\0v\0", 9, "abc\xc2\x80zyxwv"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool cut = true;

        decode_text_reset(&text);
        assert_str(
            decode_text_utf16(&text, (const uint8_t *)rows[i].utf16, rows[i].units, 100, &cut),
            rows[i].utf8);
        assert_false(cut);
    }
}

static void plain_text_is_cut_anywhere(void **state)
{
    static const uint8_t units[] = "a\0b\0c\0d\0z\0y\0x\0w\0v";

    for (size_t n = 0; n <= 9; n++) {
        for (size_t max = 0; max < 12; max++) {
            size_t least = n < max ? n : max;
            bool cut;
            struct str s;

            decode_text_reset(&text);
            s = decode_text_utf16(&text, units, n, max, &cut);
            assert_int_equal(s.n, least);
            assert_memory_equal(s.p, "abcdzyxwv", least);
            assert_int_equal(cut, n > max);
        }
    }
}

static void cutting_happens_between_characters(void **state)
{
    static const uint8_t euros[6] = {0xac, 0x20, 0xac, 0x20, 0xac, 0x20};
    static const size_t expected[] = {0, 0, 0, 3, 3, 3, 6, 6, 6, 9};

    for (size_t max = 0; max < COUNT_OF(expected); max++) {
        bool cut;

        decode_text_reset(&text);
        assert_int_equal(decode_text_utf16(&text, euros, 3, max, &cut).n, expected[max]);
        assert_int_equal(cut, max < 9);
        assert_int_equal(decode_text_8bit(&text, "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 9, max).n,
                         expected[max]);
    }
}

static void scratch_memory_is_a_limit(void **state)
{
    static uint8_t units[2 * DECODE_TEXT_BYTES];
    struct cur c;
    bool cut;

    memset(units, 'x', sizeof units);
    for (size_t i = 1; i < sizeof units; i += 2) {
        units[i] = 0;
    }
    decode_text_reset(&text);
    assert_int_equal(decode_text_utf16(&text, units, DECODE_TEXT_BYTES, SIZE_MAX, &cut).n,
                     DECODE_TEXT_BYTES);
    assert_false(cut);
    assert_int_equal(decode_text_utf16(&text, units, 1, SIZE_MAX, &cut).n, 0);
    assert_true(cut);
    assert_int_equal(decode_text_8bit(&text, "\xff", 1, 10).n, 0);
    c = cur_make("\1\1\0\0\0\0\0\5\x12\0\0\0", 12);
    assert_int_equal(decode_text_sid_at(&text, &c).n, 0);
    assert_false(c.bad);
}

static void eight_bit_text_is_utf8_or_latin1(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"", ""},
        {"svchost.exe", "svchost.exe"},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"caf\xe9", "caf\xc3\xa9"},
        {"\xc0\x80", "\xc3\x80\xc2\x80"},             /* overlong */
        {"\xed\xa0\x80", "\xc3\xad\xc2\xa0\xc2\x80"}, /* surrogate */
        {"\xe2\x82", "\xc3\xa2\xc2\x82"},             /* cut */
        {"\xf5\x80\x80\x80", "\xc3\xb5\xc2\x80\xc2\x80\xc2\x80"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        decode_text_reset(&text);
        assert_str(decode_text_8bit(&text, rows[i].in, strlen(rows[i].in), 100), rows[i].out);
    }
}

static void sids_are_written_as_windows_writes_them(void **state)
{
    struct cur c = cur_make("\1\1\0\0\0\0\0\5\x12\0\0\0\1\1\0\0\0\0\0\5\x12\0\0", 23);

    decode_text_reset(&text);
    assert_str(decode_text_sid_at(&text, &c), "S-1-5-18");
    assert_false(c.bad);
    assert_str(decode_text_sid_at(&text, &c), "");
    assert_true(c.bad); /* a byte is missing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf16_becomes_utf8),
        cmocka_unit_test(plain_text_is_cut_anywhere),
        cmocka_unit_test(cutting_happens_between_characters),
        cmocka_unit_test(scratch_memory_is_a_limit),
        cmocka_unit_test(eight_bit_text_is_utf8_or_latin1),
        cmocka_unit_test(sids_are_written_as_windows_writes_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
