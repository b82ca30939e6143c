#include "common/text/value_text.h"

#include <math.h>

#include "tests/support/t.h"

static const uint8_t ip6_local[16] = {[15] = 1};
static const uint8_t ip6[16] = {0x20, 1, 0x0d, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5};
static const uint8_t ip6_any[16] = {0};
static const uint8_t ip6_tail[16] = {0xfe, 0x80};
static const uint8_t ip4[4] = {192, 0, 2, 7};
static const uint8_t guid[16] = {0xd4, 0xa8, 0x6f, 0x3d, 0x05, 0xfe, 0xd0, 0x11,
                                 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c};

#define NAMED .name = {"v", 1}

static const struct {
    struct value v;
    const char *people, *json;
} table[] = {
    {{NAMED, .kind = VALUE_INT, .v.i = -5}, "v=-5", "{\"v\": -5}"},
    {{NAMED, .kind = VALUE_UINT, .v.u = UINT64_MAX},
     "v=18446744073709551615",
     "{\"v\": \"18446744073709551615\"}"},
    {{NAMED, .kind = VALUE_HEX, .v.u = 0x1f}, "v=0x1f", "{\"v\": \"0x1f\"}"},
    {{NAMED, .kind = VALUE_BOOL, .v.u = 1}, "v=true", "{\"v\": true}"},
    {{NAMED, .kind = VALUE_FLOAT, .bits = 32, .v.f = 0.5}, "v=0.5", "{\"v\": 0.5}"},
    {{NAMED, .kind = VALUE_FLOAT, .bits = 64, .v.f = (double)INFINITY},
     "v=inf",
     "{\"v\": \"inf\"}"},
    {{NAMED, .kind = VALUE_TEXT, .v.text = {"a\x1b\"", 3}},
     "v=\"a\\x1b\"\"",
     "{\"v\": \"a\\u001b\\\"\"}"},
    {{NAMED, .kind = VALUE_SID, .v.text = {"S-1-5-18", 8}}, "v=S-1-5-18", "{\"v\": \"S-1-5-18\"}"},
    {{NAMED, .kind = VALUE_TIME, .v.i = 1500000000},
     "v=1970-01-01T00:00:01.500000000Z",
     "{\"v\": \"1970-01-01T00:00:01.500000000Z\"}"},
    {{NAMED, .kind = VALUE_GUID, .v.bytes = {guid, 16}},
     "v=3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c",
     "{\"v\": \"3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c\"}"},
    {{NAMED, .kind = VALUE_ADDRESS, .v.bytes = {ip4, 4}}, "v=192.0.2.7", "{\"v\": \"192.0.2.7\"}"},
    {{NAMED, .kind = VALUE_ADDRESS, .v.bytes = {ip6, 16}},
     "v=2001:db8:0:1::5",
     "{\"v\": \"2001:db8:0:1::5\"}"},
    {{NAMED, .kind = VALUE_ADDRESS, .v.bytes = {ip6_local, 16}}, "v=::1", "{\"v\": \"::1\"}"},
    {{NAMED, .kind = VALUE_ADDRESS, .v.bytes = {ip6_any, 16}}, "v=::", "{\"v\": \"::\"}"},
    {{NAMED, .kind = VALUE_ADDRESS, .v.bytes = {ip6_tail, 16}}, "v=fe80::", "{\"v\": \"fe80::\"}"},
    {{NAMED, .kind = VALUE_BYTES, .v.bytes = {ip4, 4}}, "v=c0000207", "{\"v\": \"c0000207\"}"},
    {{NAMED, .kind = VALUE_BYTES, .v.bytes = {NULL, 0}}, "v=", "{\"v\": \"\"}"},
};

static void every_kind_of_value_is_written(void **state)
{
    struct buf b;

    buf_init(&b, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct value_people people;
        struct value_sink sink = value_text_people(&people, &b);
        struct value_json names;
        struct jsonw j;

        buf_reset(&b);
        sink.value(sink.ctx, &table[i].v);
        assert_string_equal(buf_cstr(&b), table[i].people);

        buf_reset(&b);
        jsonw_init_buf(&j, &b);
        sink = value_text_json(&names, &j);
        jsonw_object(&j, NULL);
        sink.value(sink.ctx, &table[i].v);
        jsonw_end(&j);
        assert_string_equal(buf_cstr(&b), table[i].json);
    }
    buf_fini(&b);
}

static void give_nested(const struct value_sink *s)
{
    struct value one = {.kind = VALUE_UINT, .v.u = 1}, named = {NAMED, .kind = VALUE_UINT};
    struct str none = {"", 0};

    s->value(s->ctx, &named);
    s->begin(s->ctx, str_make("list"), VALUE_ARRAY);
    s->value(s->ctx, &one);
    s->begin(s->ctx, none, VALUE_STRUCT);
    s->value(s->ctx, &named);
    s->value(s->ctx, &named);
    s->end(s->ctx);
    s->end(s->ctx);
    s->value(s->ctx, &named);
}

static void structs_and_arrays_are_enclosed(void **state)
{
    struct value_people people;
    struct value_sink sink;
    struct value_json names;
    struct jsonw j;
    struct buf b;

    buf_init(&b, 1 << 16);
    sink = value_text_people(&people, &b);
    give_nested(&sink);
    assert_string_equal(buf_cstr(&b), "v=0 list=[1 {v=0 v=0}] v=0");
    buf_reset(&b);
    jsonw_init_buf(&j, &b);
    sink = value_text_json(&names, &j);
    jsonw_object(&j, NULL);
    give_nested(&sink);
    jsonw_end(&j);
    assert_string_equal(buf_cstr(&b),
                        "{\"v\": 0, \"list\": [1, {\"v\": 0, \"v#2\": 0}], \"v#2\": 0}");
    buf_fini(&b);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_is_written),
        cmocka_unit_test(structs_and_arrays_are_enclosed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
