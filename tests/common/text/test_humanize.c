#include "common/text/humanize.h"

#include <string.h>

#include "common/base/clk.h"
#include "tests/support/hostile.h"
#include "tests/support/t.h"

static void spans_sizes_and_shares_are_readable(void **state)
{
    static const struct {
        void (*format)(struct buf *out, int64_t v);
        int64_t v;
        const char *text;
    } table[] = {
        {humanize_ns, 0, "0us"},
        {humanize_ns, 512 * CLK_US, "512us"},
        {humanize_ns, 5106 * CLK_MS, "5.106s"},
        {humanize_ns, 999999, "999us"},
        {humanize_ns, CLK_MS, "1.00ms"},
        {humanize_ns, 8685 * CLK_US, "8.69ms"},
        {humanize_ns, 100 * CLK_MS, "0.100s"},
        {humanize_ns, 59999 * CLK_MS, "59.999s"},
        {humanize_ns, 200 * CLK_S, "3m20s"},
        {humanize_ns, 7500 * CLK_S, "2h05m"},
        {humanize_ns, 356400 * CLK_S, "4d03h"},
        {humanize_ns, -1500 * CLK_MS, "-1.500s"},
        {humanize_bytes, 0, "0B"},
        {humanize_bytes, 1023, "1023B"},
        {humanize_bytes, 1024, "1.0KiB"},
        {humanize_bytes, 64 << 20, "64.0MiB"},
        {humanize_bytes, (1 << 20) - 1, "1.0MiB"},
        {humanize_bytes, INT64_MAX, "8.0EiB"},
        {humanize_permille, 123, "12.3%"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct buf b;

        buf_init(&b, 64);
        table[i].format(&b, table[i].v);
        assert_string_equal(buf_cstr(&b), table[i].text);
        buf_fini(&b);
    }
}

static void text_from_outside_cannot_steer_the_terminal(void **state)
{
    static const struct {
        const char *in;
        const char *out;
    } table[] = {
        {"plain \xC3\xA9 \xE2\x82\xAC", "plain \xC3\xA9 \xE2\x82\xAC"},
        {"\x1b[2J", "\\x1b[2J"},
        {"a\nb\tc", "a\\x0ab\\x09c"},
        {"\xC2\x9b"
         "31m",
         "\\x9b31m"},
        {"exe\xE2\x80\xAEgpj", "exe\\u202egpj"},
        {"caf\xE9", "caf\\xe9"},                      /* Latin-1 */
        {"\xC3\x1b[31m", "\\xc3\\x1b[31m"},           /* no escape hides behind half a character */
        {"\xC0\x9B", "\\xc0\\x9b"},                   /* nor in two bytes where one would do */
        {"\xED\xA0\x80", "\\xed\\xa0\\x80"},          /* half a pair */
        {"\xF4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* beyond the last character */
        {"\xE2\x82", "\\xe2\\x82"},                   /* cut */
        {"pay\u200bpal", "pay\\u200bpal"},            /* nothing to see */
        {"x\U000e0041", "x\\U000e0041"},              /* a tag */
        {"z\u0301\u0302\u0303\u0304\u0305\u0306", "z\u0301\u0302\u0303\u0304\\u0305\\u0306"},
        {"\u0301z", "\\u0301z"}, /* nothing below it */
        {"e\u0301", "e\u0301"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct buf b;

        buf_init(&b, 128);
        humanize_text(&b, str_make(table[i].in));
        assert_string_equal(buf_cstr(&b), table[i].out);
        buf_fini(&b);
    }
}

static void hostile_texts_are_harmless_and_stay_so(void **state)
{
    for (size_t i = 0; i < HOSTILE_TEXTS; i++) {
        struct errmsg why = {""};
        struct buf b, again;
        char clean[64];

        buf_init(&b, 512);
        humanize_text(&b, str_make(hostile_texts[i]));
        assert_true(b.n > 0);
        assert_false(hostile_shown(buf_cstr(&b), b.n, 0));
        buf_init(&again, 512);
        humanize_text(&again, str_make(buf_cstr(&b)));
        assert_string_equal(buf_cstr(&again), buf_cstr(&b));
        assert_err(errmsg_set(&why, ERR_USAGE, "host %s is not known", hostile_texts[i]),
                   ERR_USAGE);
        assert_non_null(strstr(why.text, " is not known"));
        assert_false(hostile_shown(why.text, strlen(why.text), 0));
        for (size_t size = 1; size < sizeof clean; size++) { /* cut behind something whole */
            size_t n = utf8_clean(clean, size, hostile_texts[i], strlen(hostile_texts[i]));

            assert_true(n < size && n == strlen(clean) && utf8_harmless(clean, n) == n);
            assert_memory_equal(clean, buf_cstr(&b), n);
            assert_true(n == b.n || n + UTF8_ESCAPE > size);
        }
        buf_fini(&b);
        buf_fini(&again);
    }
}

static void a_line_is_one_whatever_is_named_in_it(void **state)
{
    for (size_t i = 0; i < HOSTILE_TEXTS; i++) {
        char out[1024];
        FILE *f = tmpfile();
        size_t n;

        humanize_line(f, "%s is %d", hostile_texts[i], 7);
        rewind(f);
        n = fread(out, 1, sizeof out, f);
        assert_false(hostile_shown(out, n, 1));
        assert_true(n > 6 && memcmp(out + n - 6, " is 7\n", 6) == 0);
        fclose(f);
    }
}

static void widths_are_columns_and_prefixes_never_split_a_character(void **state)
{
    static const char text[] = "a\u00e9\u20ac\U0001f600z"; /* the fourth is wide */

    assert_int_equal(humanize_width(text, strlen(text)), 6);
    assert_int_equal(humanize_prefix(text, strlen(text), 0), 0);
    assert_int_equal(humanize_prefix(text, strlen(text), 2), 3);
    assert_int_equal(humanize_prefix(text, strlen(text), 4), 6); /* half of it does not fit */
    assert_int_equal(humanize_prefix(text, strlen(text), 5), 10);
    assert_int_equal(humanize_prefix(text, strlen(text), 99), strlen(text));
}

static void wide_and_combining_characters_have_their_width(void **state)
{
    static const struct {
        const char *text;
        size_t width;
    } table[] = {
        {"", 0},
        {"\u65e5\u672c", 4},       /* ideographs */
        {"\uac01", 2},             /* a Korean syllable, and one in its parts */
        {"\u1100\u1161\u11a8", 2}, /* first part wide, the others within */
        {"e\u0301", 1},            /* an accent of its own */
        {"\uff21", 2},             /* a letter in full width */
        {"\u200d", 0},             /* joiner */
        {"\xff\xfe", 2},           /* no UTF-8: a byte, a column */
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_int_equal(humanize_width(table[i].text, strlen(table[i].text)), table[i].width);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_sizes_and_shares_are_readable),
        cmocka_unit_test(text_from_outside_cannot_steer_the_terminal),
        cmocka_unit_test(hostile_texts_are_harmless_and_stay_so),
        cmocka_unit_test(a_line_is_one_whatever_is_named_in_it),
        cmocka_unit_test(widths_are_columns_and_prefixes_never_split_a_character),
        cmocka_unit_test(wide_and_combining_characters_have_their_width),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
