#include "common/model/event_values.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/text/value_text.h"
#include "tests/support/t.h"

static const uint8_t guid[16] = {0xd4, 0xa8, 0x6f, 0x3d, 0x05, 0xfe, 0xd0, 0x11,
                                 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c};
static const uint8_t ip4[4] = {192, 0, 2, 7};

#define TEXT(s) str_make(s)

static void put(const struct value_sink *s, struct value v)
{
    s->value(s->ctx, &v);
}

static void put_uint(const struct value_sink *s, const char *name, uint64_t u)
{
    put(s, (struct value){.name = str_make(name), .kind = VALUE_UINT, .v.u = u});
}

/* One of every kind, a struct with an array in it, and an array of structs. */
static void put_all(const struct value_sink *s)
{
    put(s, (struct value){.name = TEXT("int"), .kind = VALUE_INT, .v.i = INT64_MIN});
    put_uint(s, "uint", UINT64_MAX);
    put(s, (struct value){.name = TEXT("hex"), .kind = VALUE_HEX, .v.u = 0x1f});
    put(s, (struct value){.name = TEXT("f64"), .kind = VALUE_FLOAT, .bits = 64, .v.f = 0.1});
    put(s, (struct value){.name = TEXT("f32"), .kind = VALUE_FLOAT, .bits = 32, .v.f = 0.5});
    put(s, (struct value){.name = TEXT("bool"), .kind = VALUE_BOOL, .v.u = 1});
    put(s, (struct value){.name = TEXT("text"), .kind = VALUE_TEXT, .v.text = {"a\0\xc3\xa4", 4}});
    put(s, (struct value){.name = TEXT("time"), .kind = VALUE_TIME, .v.i = 1500000000});
    put(s, (struct value){.name = TEXT("guid"), .kind = VALUE_GUID, .v.bytes = {guid, 16}});
    put(s, (struct value){.name = TEXT("sid"), .kind = VALUE_SID, .v.text = TEXT("S-1-5-18")});
    put(s, (struct value){.name = TEXT("address"), .kind = VALUE_ADDRESS, .v.bytes = {ip4, 4}});
    put(s, (struct value){.name = TEXT("bytes"), .kind = VALUE_BYTES, .v.bytes = {NULL, 0}});
    s->begin(s->ctx, TEXT("outer"), VALUE_STRUCT);
    put_uint(s, "member", 7);
    s->begin(s->ctx, TEXT("list"), VALUE_ARRAY);
    put_uint(s, "", 1);
    put_uint(s, "", 300);
    s->end(s->ctx);
    s->end(s->ctx);
    s->begin(s->ctx, TEXT("pairs"), VALUE_ARRAY);
    s->begin(s->ctx, TEXT(""), VALUE_STRUCT);
    put_uint(s, "k", 8);
    s->end(s->ctx);
    s->end(s->ctx);
    s->begin(s->ctx, TEXT("none"), VALUE_ARRAY);
    s->end(s->ctx);
    put_uint(s, "a.b", 9);
}

static struct str values_of(const struct event_values *w)
{
    return (struct str){(const char *)w->bytes, w->n};
}

/* As JSON, by the printer that prints recordings. */
static const char *direct(struct buf *b)
{
    struct value_json names;
    struct value_sink s;
    struct jsonw j;

    buf_reset(b);
    jsonw_init_buf(&j, b);
    jsonw_object(&j, NULL);
    s = value_text_json(&names, &j);
    put_all(&s);
    jsonw_end(&j);
    return buf_cstr(b);
}

static const char *read_back(struct buf *b, const struct event_values *w)
{
    struct value_json names;
    struct value_sink s;
    struct jsonw j;

    buf_reset(b);
    jsonw_init_buf(&j, b);
    jsonw_object(&j, NULL);
    s = value_text_json(&names, &j);
    assert_ok(event_values_read(w->fields, w->n_fields, values_of(w), &s));
    jsonw_end(&j);
    return buf_cstr(b);
}

static void every_value_comes_back_as_it_was(void **state)
{
    static struct event_values w;
    struct value_sink s = event_values_begin(&w);
    struct buf a, b;

    (void)state;
    buf_init(&a, 1u << 16);
    buf_init(&b, 1u << 16);
    put_all(&s);
    assert_false(w.cut);
    assert_int_equal(w.n_fields, 16);
    assert_true(event_values_ok(w.n_fields, values_of(&w)));
    assert_string_equal(direct(&a), read_back(&b, &w));
    buf_fini(&a);
    buf_fini(&b);
}

static void every_shorter_and_longer_input_is_refused(void **state)
{
    static struct event_values w;
    struct value_sink s = event_values_begin(&w);

    (void)state;
    put_all(&s);
    for (size_t n = 0; n < w.n; n++) {
        uint8_t *copy = malloc(n + 1);

        assert_non_null(copy);
        memcpy(copy, w.bytes, n);
        assert_false(event_values_ok(w.n_fields, (struct str){(const char *)copy, n}));
        free(copy);
    }
    w.bytes[w.n] = 0;
    assert_false(event_values_ok(w.n_fields, (struct str){(const char *)w.bytes, w.n + 1}));
    assert_false(event_values_ok(w.n_fields - 1, values_of(&w)));
    assert_false(event_values_ok(EVENT_VALUES_FIELDS + 1, values_of(&w)));
}

static void what_no_writer_writes_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
    } bad[] = {
        {"\x0d", 1},                                      /* no kind */
        {"\x10", 1},                                      /* no kind */
        {"\x05\x02", 2},                                  /* a truth of 2 */
        {"\x06\x01\xff", 3},                              /* no UTF-8 */
        {"\x06\x81\x08", 3},                              /* 1,025 bytes of text */
        {"\x0e\xff\xff\x01", 4},                          /* more elements than a group has */
        {"\x0f\x01\x81\x01", 4},                          /* a name of 129 bytes */
        {"\x0e\x01\x0e\x01\x0e\x01\x0e\x01\x0e\x00", 10}, /* five groups in each other */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(event_values_ok(1, (struct str){bad[i].bytes, bad[i].n}));
    }
    assert_true(event_values_ok(1, (struct str){"\x0e\x01\x0e\x01\x0e\x01\x0e\x00", 8}));
}

static void what_has_no_room_is_cut_and_the_rest_can_be_read(void **state)
{
    static struct event_values w;
    static char text[4096];
    struct value_sink s = event_values_begin(&w);
    struct value v;
    struct event_type type;

    (void)state;
    memset(text, 'x', sizeof text);
    memcpy(text + EVENT_VALUES_TEXT - 1, "\xc3\xa4", 2); /* across the limit */
    put(&s, (struct value){.name = TEXT("t"), .kind = VALUE_TEXT, .v.text = {text, sizeof text}});
    assert_true(w.cut);
    for (int i = 0; i < 100; i++) {
        put(&s, (struct value){.name = TEXT("more"),
                               .kind = VALUE_TEXT,
                               .v.text = {text, EVENT_VALUES_TEXT - 1}});
    }
    s.begin(s.ctx, TEXT("late"), VALUE_STRUCT);
    put_uint(&s, "x", 1);
    s.end(s.ctx);
    assert_int_equal(w.n_fields, EVENT_VALUES_FIELDS);
    assert_true(w.n <= EVENT_VALUES_MAX);
    assert_true(event_values_ok(w.n_fields, values_of(&w)));
    type = (struct event_type){.fields = w.fields, .n_fields = w.n_fields};
    assert_true(event_values_find(&v, &type, values_of(&w), TEXT("t")));
    assert_int_equal(v.v.text.n, EVENT_VALUES_TEXT - 1);
}

static void groups_that_are_too_deep_or_too_long_are_left_out(void **state)
{
    static struct event_values w;
    struct value_sink s = event_values_begin(&w);

    (void)state;
    for (int i = 0; i < 6; i++) {
        s.begin(s.ctx, TEXT("g"), VALUE_STRUCT);
    }
    put_uint(&s, "deep", 1);
    for (int i = 0; i < 6; i++) {
        s.end(s.ctx);
    }
    assert_true(w.cut);
    s.begin(s.ctx, TEXT("list"), VALUE_ARRAY);
    for (int i = 0; i < 40000; i++) {
        put_uint(&s, "", 1);
    }
    s.end(s.ctx);
    put_uint(&s, "last", 1);
    assert_int_equal(w.n_fields, 3);
    assert_true(event_values_ok(w.n_fields, values_of(&w)));
}

static void a_value_is_found_by_name_or_path(void **state)
{
    static struct event_values w;
    struct value_sink s = event_values_begin(&w);
    struct event_type type;
    struct value v;

    (void)state;
    put_all(&s);
    type = (struct event_type){.fields = w.fields, .n_fields = w.n_fields};
    assert_true(event_values_find(&v, &type, values_of(&w), TEXT("hex")));
    assert_int_equal(v.v.u, 0x1f);
    assert_true(event_values_find(&v, &type, values_of(&w), TEXT("outer.member")));
    assert_int_equal(v.v.u, 7);
    assert_true(event_values_find(&v, &type, values_of(&w), TEXT("a.b")));
    assert_int_equal(v.v.u, 9);
    assert_false(event_values_find(&v, &type, values_of(&w), TEXT("outer")));
    assert_false(event_values_find(&v, &type, values_of(&w), TEXT("outer.list")));
    assert_false(event_values_find(&v, &type, values_of(&w), TEXT("member")));
    assert_false(event_values_find(&v, &type, values_of(&w), TEXT("pairs.k")));
    assert_false(event_values_find(&v, &type, values_of(&w), TEXT("")));
    assert_false(event_values_find(&v, &type, values_of(&w), TEXT("a.b.c.d.e.f.g")));
}

/* What a program writes may be no UTF-8, also as a name: the rest of its event arrives. */
static void what_is_no_utf8_is_cut_there(void **state)
{
    static struct event_values w;
    const struct value_sink s = event_values_begin(&w);
    struct event_type type = {.fields = w.fields};
    struct value v;

    (void)state;
    put(&s, (struct value){.name = TEXT("t\xff"), .kind = VALUE_TEXT, .v.text = TEXT("ab\x80z")});
    s.begin(s.ctx, TEXT("o"), VALUE_STRUCT);
    put_uint(&s, "m\xff", 7);
    put_uint(&s, "n", 8);
    s.end(s.ctx);
    assert_true(w.cut);
    assert_true(event_values_ok(w.n_fields, values_of(&w)));
    type.n_fields = w.n_fields;
    assert_true(event_values_find(&v, &type, values_of(&w), TEXT("t")));
    assert_true(str_eq(v.v.text, TEXT("ab")));
    assert_true(event_values_find(&v, &type, values_of(&w), TEXT("o.m")) && v.v.u == 7);
    assert_true(event_values_find(&v, &type, values_of(&w), TEXT("o.n")) && v.v.u == 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_utf8_is_cut_there),
        cmocka_unit_test(every_value_comes_back_as_it_was),
        cmocka_unit_test(every_shorter_and_longer_input_is_refused),
        cmocka_unit_test(what_no_writer_writes_is_refused),
        cmocka_unit_test(what_has_no_room_is_cut_and_the_rest_can_be_read),
        cmocka_unit_test(groups_that_are_too_deep_or_too_long_are_left_out),
        cmocka_unit_test(a_value_is_found_by_name_or_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
