#include "common/text/jsonw.h"

#include <math.h>

#include <jansson.h>

#include "tests/support/hostile.h"
#include "tests/support/t.h"

static const char *text_of(struct str s)
{
    static char out[512];
    struct jsonw j;
    struct buf b;

    buf_init(&b, 1 << 16);
    jsonw_init_buf(&j, &b);
    jsonw_text(&j, NULL, s);
    (void)snprintf(out, sizeof out, "%s", buf_cstr(&b));
    buf_fini(&b);
    return out;
}

static void text_always_parses_and_steers_no_terminal(void **state)
{
    static const struct {
        const char *in;
        size_t n;
        const char *out;
    } table[] = {
        {"plain", 5, "\"plain\""},
        {"a\"b\\c", 5, "\"a\\\"b\\\\c\""},
        {"\x1b[1m\n", 5, "\"\\u001b[1m\\u000a\""},
        {"\x7f\xc2\x9b", 3, "\"\\u007f\\u009b\""},
        {"a\0b", 3, "\"a\\u0000b\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xff", 1, "\"\\ufffd\""},
        {"x\xe2\x82", 3, "\"x\\ufffd\\ufffd\""},
        {"\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\""}, /* a surrogate */
        {"\xc0\x80", 2, "\"\\ufffd\\ufffd\""},            /* overlong */
        {"\xf5\x80\x80\x80", 4, "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
        {"a\xe2\x80\xae\xf3\xa0\x81\x81", 8, "\"a\\u202e\\udb40\\udc41\""},
        {NULL, 0, "\"\""},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        json_t *j;

        assert_string_equal(text_of((struct str){table[i].in, table[i].n}), table[i].out);
        j = json_loads(table[i].out, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(j);
        json_decref(j);
    }
    for (size_t i = 0; i < HOSTILE_TEXTS; i++) {
        const char *text = text_of(str_make(hostile_texts[i]));

        assert_false(hostile_shown(text, strlen(text), 0));
    }
}

static void put_all(struct jsonw *j)
{
    jsonw_object(j, NULL);
    jsonw_uint(j, "u", UINT64_MAX);
    jsonw_int(j, "i", INT64_MIN);
    jsonw_uint(j, "e", UINT64_C(1) << 53);
    jsonw_int(j, "f", -(INT64_C(1) << 53) - 1);
    jsonw_wide(j, "w", 5);
    jsonw_bool(j, "b", true);
    jsonw_null(j, "z");
    jsonw_array(j, "a");
    jsonw_uint(j, NULL, 1);
    jsonw_object(j, NULL);
    jsonw_end(j);
    jsonw_end(j);
    jsonw_object(j, "o");
    jsonw_text(j, "t", str_make("x"));
    jsonw_end(j);
    jsonw_end(j);
}

static void members_are_separated_and_nested(void **state)
{
    struct jsonw j;
    struct buf b;

    buf_init(&b, 1 << 16);
    jsonw_init_buf(&j, &b);
    put_all(&j);
    assert_string_equal(buf_cstr(&b),
                        "{\"u\": \"18446744073709551615\", \"i\": \"-9223372036854775808\", "
                        "\"e\": 9007199254740992, \"f\": \"-9007199254740993\", \"w\": \"5\", "
                        "\"b\": true, \"z\": null, \"a\": [1, {}], \"o\": {\"t\": \"x\"}}");
    buf_reset(&b);
    j.pretty = 1;
    put_all(&j);
    assert_string_equal(buf_cstr(&b),
                        "{\n \"u\": \"18446744073709551615\",\n \"i\": "
                        "\"-9223372036854775808\",\n \"e\": 9007199254740992,\n \"f\": "
                        "\"-9007199254740993\",\n \"w\": \"5\",\n \"b\": true,\n \"z\": null,\n "
                        "\"a\": [1, {}],\n \"o\": {\"t\": \"x\"}\n}");
    buf_fini(&b);
}

static void what_is_too_deep_is_left_out_whole(void **state)
{
    struct jsonw j;
    struct buf b;
    json_t *parsed;

    buf_init(&b, 1 << 16);
    jsonw_init_buf(&j, &b);
    for (unsigned i = 0; i < JSONW_DEPTH + 5; i++) {
        jsonw_array(&j, NULL);
    }
    jsonw_uint(&j, NULL, 7);
    for (unsigned i = 0; i < JSONW_DEPTH + 5; i++) {
        jsonw_end(&j);
    }
    assert_int_equal(j.depth, 0);
    assert_null(strchr(buf_cstr(&b), '7'));
    parsed = json_loads(buf_cstr(&b), 0, NULL);
    assert_non_null(parsed);
    json_decref(parsed);
    buf_fini(&b);
}

static void a_compact_document_has_no_spaces_and_short_escapes(void **state)
{
    struct jsonw j;
    struct buf b;

    buf_init(&b, 1 << 16);
    jsonw_init_buf(&j, &b);
    j.compact = true;
    jsonw_object(&j, NULL);
    jsonw_array(&j, "a");
    jsonw_uint(&j, NULL, 1);
    jsonw_text(&j, NULL, str_make("\b\t\n\v\f\r\x1b\x7f\xc2\x9b"));
    jsonw_end(&j);
    jsonw_null(&j, "z");
    jsonw_end(&j);
    assert_string_equal(buf_cstr(&b),
                        "{\"a\":[1,\"\\b\\t\\n\\u000B\\f\\r\\u001B\\u007f\\u009b\"],\"z\":null}");
    buf_fini(&b);
}

static void bytes_that_are_not_utf_8_stay_visible(void **state)
{
    static const struct {
        const char *in, *out;
    } table[] = {{"caf\xc3\xa9\n", "\"caf\xc3\xa9\\u000a\""},
                 {"caf\xe9 \"\xc3\xa9\"\n", "\"caf\\\\xe9 \\\"\xc3\xa9\\\"\\\\x0a\""},
                 {"", "\"\""}};

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct jsonw j;
        struct buf b;

        buf_init(&b, 1 << 16);
        jsonw_init_buf(&j, &b);
        jsonw_bytes(&j, NULL, str_make(table[i].in));
        assert_string_equal(buf_cstr(&b), table[i].out);
        buf_fini(&b);
    }
}

static void a_real_number_shows_that_it_is_one(void **state)
{
    static const struct {
        double v;
        const char *text;
    } table[] = {
        {0, "0.0"},     {-2, "-2.0"},       {0.1, "0.1"},         {1.0 / 3, "0.333333333333333"},
        {1e20, "1e20"}, {1.5e-7, "1.5e-7"}, {-1e-300, "-1e-300"}, {INFINITY, "null"},
        {NAN, "null"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct jsonw j;
        struct buf b;

        buf_init(&b, 1 << 16);
        jsonw_init_buf(&j, &b);
        jsonw_real(&j, NULL, table[i].v);
        assert_string_equal(buf_cstr(&b), table[i].text);
        buf_fini(&b);
    }
}

static void milliseconds_are_rounded(void **state)
{
    static const struct {
        int64_t ns;
        int digits;
        const char *text;
    } table[] = {
        {0, 3, "0.000"},
        {1, 6, "0.000001"},
        {499, 3, "0.000"},
        {500, 3, "0.001"},
        {2733175800, 3, "2733.176"},
        {999999999, 3, "1000.000"},
        {-1500000, 3, "-1.500"},
        {-1, 3, "0.000"},
        {INT64_MIN, 6, "-9223372036854.775808"},
    };
    char text[JSONW_MS_TEXT];

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_string_equal(jsonw_ms(text, table[i].ns, table[i].digits), table[i].text);
    }
}

static void on_leaf(void *ctx, struct str path, struct str value)
{
    buf_printf(ctx, "%.*s=%.*s;", (int)path.n, path.p, (int)value.n, value.p);
}

static void leaves_carry_the_path_that_leads_to_them(void **state)
{
    struct buf out;
    struct jsonw_leaves l = {.leaf = on_leaf, .ctx = &out};
    struct jsonw j;

    buf_init(&out, 1 << 16);
    buf_init(&l.path, 16);
    jsonw_init_leaves(&j, &l);
    jsonw_object(&j, NULL);
    jsonw_text(&j, "a", str_make("x\"\n"));
    jsonw_array(&j, "b");
    jsonw_uint(&j, NULL, 7);
    jsonw_object(&j, NULL);
    jsonw_wide(&j, "c", 8);
    jsonw_array(&j, "none");
    jsonw_end(&j);
    jsonw_bool(&j, "d", true);
    jsonw_end(&j);
    jsonw_array(&j, NULL);
    jsonw_int(&j, NULL, -1);
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_null(&j, "e");
    jsonw_real(&j, "f", 0.5);
    assert_string_equal(buf_cstr(&out), "a=x\"\n;b.0=7;b.1.c=8;b.1.d=true;b.2.0=-1;e=;f=0.5;");
    assert_int_equal(l.path.bad, ERR_OK);
    jsonw_text(&j, "a path beyond its limit", str_make("left out"));
    assert_int_equal(l.path.bad, ERR_FULL);
    jsonw_end(&j);
    assert_null(strstr(buf_cstr(&out), "left out"));
    buf_fini(&l.path);
    buf_fini(&out);
}

static void leaves_that_are_too_deep_are_left_out(void **state)
{
    struct buf out;
    struct jsonw_leaves l = {.leaf = on_leaf, .ctx = &out};
    struct jsonw j;

    buf_init(&out, 1 << 16);
    buf_init(&l.path, 1 << 16);
    jsonw_init_leaves(&j, &l);
    for (int i = 0; i < JSONW_DEPTH + 2; i++) {
        jsonw_array(&j, NULL);
    }
    jsonw_uint(&j, NULL, 1);
    jsonw_null(&j, NULL);
    for (int i = 0; i < JSONW_DEPTH + 1; i++) {
        jsonw_end(&j);
    }
    jsonw_uint(&j, NULL, 2);
    jsonw_end(&j);
    assert_string_equal(buf_cstr(&out), "1=2;");
    buf_fini(&l.path);
    buf_fini(&out);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_always_parses_and_steers_no_terminal),
        cmocka_unit_test(members_are_separated_and_nested),
        cmocka_unit_test(what_is_too_deep_is_left_out_whole),
        cmocka_unit_test(a_compact_document_has_no_spaces_and_short_escapes),
        cmocka_unit_test(bytes_that_are_not_utf_8_stay_visible),
        cmocka_unit_test(a_real_number_shows_that_it_is_one),
        cmocka_unit_test(milliseconds_are_rounded),
        cmocka_unit_test(leaves_carry_the_path_that_leads_to_them),
        cmocka_unit_test(leaves_that_are_too_deep_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
