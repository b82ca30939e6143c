#include "agent/decode/schema/describe_tracelogging.h"

#include <stdlib.h>
#include <string.h>

#include "agent/decode/describe.h"
#include "common/base/mem.h"
#include "tests/agent/decode/schema/values.h"
#include "tests/support/t.h"

#define RECORD_MAX 65536

/* An event as a source hands it over; `ext` is exactly as large as it says. */
struct event_bytes {
    uint8_t *ext;
    struct raw_event raw;
};

static void put_item(struct buf *out, unsigned type, bool more, const struct buf *data)
{
    size_t size = (8 + data->n + 7) / 8 * 8;

    buf_put_u16le(out, (uint16_t)size);
    buf_put_u16le(out, (uint16_t)type);
    buf_put_u16le(out, more);
    buf_put_u16le(out, (uint16_t)data->n);
    buf_put(out, data->p, data->n);
    while (out->n % 8) {
        buf_put_u8(out, 0);
    }
}

/* Extended items of a schema with these fields and of traits, in memory of exactly their size. */
static struct event_bytes event_make(const uint8_t *fields, size_t n_fields, const uint8_t *payload,
                                     size_t n)
{
    static const char traits[] = "\x21\0Vendor.Tool\0\x13\0\x01GROUPGROUPGROUP!";
    struct event_bytes e = {.raw = {.form = RAW_MANIFEST, .pointer_size = 8}};
    struct buf data, ext;

    buf_init(&data, RECORD_MAX);
    buf_init(&ext, RECORD_MAX);
    buf_put_u16le(&data, (uint16_t)(2 + 1 + 6 + n_fields));
    buf_put(&data, "\0Event", 7);
    buf_put(&data, fields, n_fields);
    put_item(&ext, 11, true, &data);
    buf_reset(&data);
    buf_put(&data, traits, sizeof traits - 1);
    put_item(&ext, 12, false, &data);
    assert_ok(ext.bad);
    e.ext = mem_dup(ext.p, ext.n);
    e.raw.ext = e.ext;
    e.raw.ext_n = ext.n;
    e.raw.payload = payload;
    e.raw.payload_n = n;
    buf_fini(&data);
    buf_fini(&ext);
    return e;
}

static void event_free(struct event_bytes *e)
{
    mem_free(e->ext);
}

static struct describe *describe;
static struct values values;

static int set_up(void **state)
{
    values_init(&values);
    return describe_create(&describe, &(struct describe_conf){0}, NULL) != ERR_OK;
}

static int tear_down(void **state)
{
    describe_destroy(describe);
    values_fini(&values);
    return 0;
}

static const struct row {
    const uint8_t *fields;
    size_t n_fields;
    const uint8_t *payload;
    size_t n;
    const char *expected;
} rows[] = {
    {BYTES(""), BYTES(""), ""},
    {BYTES("w\0\x01"), BYTES("h\0i\0\0\0"), "w='hi'"},
    {BYTES("a\0\x02"), BYTES("hi\0"), "a='hi'"},
    {BYTES("a\0\x02"), BYTES("\xe4\0"), "a='\xc3\xa4'"},
    {BYTES("a\0\x82\x23"), BYTES("\xc3\xa4\0"), "a='\xc3\xa4'"},
    {BYTES("json\0\x82\x0c"), BYTES("{}\0"), "json='{}'"},
    {BYTES("v\0\x03"), BYTES("\xff"), "v=-1"},
    {BYTES("v\0\x04"), BYTES("\xff"), "v=255"},
    {BYTES("v\0\x84\x03"), BYTES("\x01"), "v=true"},
    {BYTES("v\0\x84\x04"), BYTES("\x1f"), "v=0x1f"},
    {BYTES("v\0\x84\x02"), BYTES("M"), "v='M'"},
    {BYTES("v\0\x05"), BYTES("\xfe\xff"), "v=-2"},
    {BYTES("v\0\x06"), BYTES("\xfe\xff"), "v=65534"},
    {BYTES("v\0\x86\x07"), BYTES("\x01\xbb"), "v=443"},
    {BYTES("v\0\x86\x02"), BYTES("\xe4\0"), "v='\xc3\xa4'"},
    {BYTES("v\0\x07"), BYTES("\xfd\xff\xff\xff"), "v=-3"},
    {BYTES("v\0\x87\x0e"), BYTES("\x22\0\0\xc0"), "v=0xc0000022"},
    {BYTES("v\0\x87\x0f"), BYTES("\x05\0\x07\x80"), "v=0x80070005"},
    {BYTES("v\0\x88\x0d"), BYTES("\x05\0\0\0"), "v=5"},
    {BYTES("v\0\x08"), BYTES("\xff\xff\xff\xff"), "v=4294967295"},
    {BYTES("v\0\x88\x05"), BYTES("\x04\0\0\0"), "v=4"},
    {BYTES("v\0\x88\x08"), BYTES("\x0a\0\0\x01"), "v=ip:0a000001"},
    {BYTES("v\0\x88\x11"), BYTES("\xff\xff\xff\xff"), "v=-1"},
    {BYTES("v\0\x09"), BYTES("\xff\xff\xff\xff\xff\xff\xff\xff"), "v=-1"},
    {BYTES("v\0\x0a"), BYTES("\xff\xff\xff\xff\xff\xff\xff\xff"), "v=18446744073709551615"},
    {BYTES("v\0\x8a\x25"), BYTES("\0\x10\0\0\0\0\0\0"), "v=0x1000"},
    {BYTES("v\0\x0b"), BYTES("\0\0\0\x3f"), "v=0.5"},
    {BYTES("v\0\x0c"), BYTES("\0\0\0\0\0\0\xe0\xbf"), "v=-0.5"},
    {BYTES("v\0\x0d"), BYTES("\x02\0\0\0"), "v=true"},
    {BYTES("v\0\x0e"), BYTES("\x03\0\x01\x02\x03"), "v=#010203"},
    {BYTES("v\0\x8e\x09"), BYTES("\x10\0\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"),
     "v=ip:20010db8000000000000000000000001"},
    {BYTES("v\0\x8e\x0a"), BYTES("\x10\0\x02\0\x01\xbb\x0a\0\0\x01\0\0\0\0\0\0\0\0"),
     "v={address=ip:0a000001 port=443]"},
    {BYTES("v\0\x8e\x0a"),
     BYTES("\x1c\0\x17\0\0\x35\0\0\0\0\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0"),
     "v={address=ip:fe800000000000000000000000000001 port=53]"},
    {BYTES("v\0\x8e\x0a"), BYTES("\x04\0\x11\0\x01\x02"), "v=#11000102"},
    {BYTES("v\0\x0f"), BYTES("0123456789abcdef"), "v=guid:30313233343536373839616263646566"},
    {BYTES("v\0\x10"), BYTES("\x01\0\0\0\xff\xff\xff\xff"), "v=0xffffffff00000001"},
    {BYTES("v\0\x11"), BYTES("\0\x80\x3e\xd5\xde\xb1\x9d\x01"), "v=1970-01-01T00:00:00.000Z"},
    {BYTES("v\0\x91\x26"), BYTES("\0\x80\x3e\xd5\xde\xb1\x9d\x01"), "v=1970-01-01T00:00:00.000Z"},
    {BYTES("v\0\x8a\x10"), BYTES("\0\x80\x3e\xd5\xde\xb1\x9d\x01"), "v=1970-01-01T00:00:00.000Z"},
    {BYTES("v\0\x11"), BYTES("\0\0\0\0\0\0\0\0"), "v=0"},
    {BYTES("v\0\x12"), BYTES("\xe8\x07\x02\0\x04\0\x1d\0\x17\0\x3b\0\x3a\0\x07\0"),
     "v=2024-02-29T23:59:58.007Z"},
    {BYTES("v\0\x12"), BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
     "v=#00000000000000000000000000000000"},
    {BYTES("v\0\x13"), BYTES("\x01\x01\0\0\0\0\0\x05\x12\0\0\0"), "v=S-1-5-18"},
    {BYTES("v\0\x14"), BYTES("\xef\xbe\xad\xde"), "v=0xdeadbeef"},
    {BYTES("v\0\x15"), BYTES("\xef\xbe\xad\xde\0\0\0\x80"), "v=0x80000000deadbeef"},
    {BYTES("v\0\x16"), BYTES("\x04\0h\0i\0"), "v='hi'"},
    {BYTES("v\0\x17"), BYTES("\x02\0hi"), "v='hi'"},
    {BYTES("v\0\x19"), BYTES("\x02\0hi"), "v=#6869"},
    /* arrays: constant, variable, of texts, of characters */
    {BYTES("v\0\x26\x02\0"), BYTES("\x01\0\x02\0"), "v=[1 2]"},
    {BYTES("v\0\x46"), BYTES("\x03\0\x01\0\x02\0\x03\0"), "v=[1 2 3]"},
    {BYTES("v\0\x46"), BYTES("\0\0"), "v=[]"},
    {BYTES("v\0\x42"), BYTES("\x02\0x\0yz\0"), "v=['x' 'yz']"},
    {BYTES("v\0\xc6\x02"), BYTES("\x02\0h\0i\0"), "v='hi'"},
    {BYTES("v\0\xc4\x04"), BYTES("\x02\0\x01\x10"), "v=[0x1 0x10]"},
    {BYTES("v\0\x56"), BYTES("\x01\0\x02\0x\0"), "v=['x']"},
    /* a type of its own: two bytes about it, then three of it */
    {BYTES("v\0\x64\x02\0??"), BYTES("\x03\0\x01\x02\x03"), "v=#010203"},
    {BYTES("v\0\xe4\x04\x02\0??"
           "w\0\x04"),
     BYTES("\x01\0\x09\x05"), "v=#09 w=5"},
    /* tags of one and of three bytes */
    {BYTES("v\0\x84\x84\x01"
           "w\0\x84\x80\x81\x82\x03"),
     BYTES("\x0f\x05"), "v=0xf w=5"},
    /* a struct, one of structs, an array of them, and what follows */
    {BYTES("s\0\x98\x02"
           "a\0\x04"
           "b\0\x04"
           "c\0\x04"),
     BYTES("\x01\x02\x03"), "s={a=1 b=2] c=3"},
    {BYTES("s\0\x98\x02"
           "t\0\x98\x01"
           "a\0\x04"
           "b\0\x04"
           "c\0\x04"),
     BYTES("\x01\x02\x03"), "s={t={a=1] b=2] c=3"},
    {BYTES("s\0\xd8\x01"
           "a\0\x02"
           "c\0\x04"),
     BYTES("\x02\0x\0y\0\x07"), "s=[{a='x'] {a='y']] c=7"},
    {BYTES("s\0\xb8\x01\x02\0"
           "t\0\xd8\x01"
           "a\0\x04"),
     BYTES("\x01\0\x05\x02\0\x06\x07"), "s=[{t=[{a=5]]] {t=[{a=6] {a=7]]]]"},
    {BYTES("s\0\xd8\x01"
           "a\0\x04"
           "c\0\x04"),
     BYTES("\0\0\x07"), "s=[] c=7"},
    {BYTES("s\0\x98\x80\x01"
           "c\0\x04"),
     BYTES("\x07"), "s={] c=7"},
};

static void every_type_is_given_as_it_is_meant(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct event_bytes e =
            event_make(rows[i].fields, rows[i].n_fields, rows[i].payload, rows[i].n);
        const struct value_sink sink = values_sink(&values);
        struct described d;

        assert_ok(describe_values(describe, &e.raw, &sink, &d));
        assert_string_equal(buf_cstr(&values.text), rows[i].expected);
        assert_int_equal(d.left, 0);
        assert_int_equal(d.by, DESCRIBE_TRACELOGGING);
        assert_int_equal(values.depth, 0);
        event_free(&e);
    }
}

static void provider_group_and_name_come_with_the_record(void **state)
{
    struct event_bytes e = event_make(BYTES("v\0\x04"), BYTES("\x01"));
    struct described d;

    describe_name(describe, &e.raw, &d);
    assert_true(str_eq(d.provider, str_make("Vendor.Tool")));
    assert_true(str_eq(d.name, str_make("Event")));
    assert_int_equal(d.task.n, 0);
    assert_memory_equal(d.group, "GROUPGROUPGROUP!", 16);
    event_free(&e);
}

static void every_shorter_payload_is_damaged_and_groups_are_closed(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t n = 0; n < rows[i].n; n++) {
            uint8_t *exact = mem_dup(rows[i].payload, n);
            struct event_bytes e = event_make(rows[i].fields, rows[i].n_fields, exact, n);
            const struct value_sink sink = values_sink(&values);
            struct described d;

            assert_err(describe_values(describe, &e.raw, &sink, &d), ERR_CORRUPT);
            assert_int_equal(values.depth, 0);
            event_free(&e);
            mem_free(exact);
        }
    }
}

static void trailing_bytes_are_told(void **state)
{
    struct event_bytes e = event_make(BYTES("v\0\x04"), BYTES("\x01\x02\x03"));
    const struct value_sink sink = values_sink(&values);
    struct described d;

    assert_ok(describe_values(describe, &e.raw, &sink, &d));
    assert_int_equal(d.left, 2);
    event_free(&e);
}

static void every_shorter_schema_is_damaged_or_smaller(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t n = 0; n < rows[i].n_fields; n++) {
            struct event_bytes e = event_make(rows[i].fields, n, rows[i].payload, rows[i].n);
            const struct value_sink sink = values_sink(&values);
            struct described d;
            enum err err = describe_values(describe, &e.raw, &sink, &d);

            assert_true(err == ERR_OK || err == ERR_CORRUPT);
            assert_int_equal(values.depth, 0);
            event_free(&e);
        }
    }
}

static void every_shorter_chain_of_items_is_survived(void **state)
{
    const struct row *row = &rows[COUNT_OF(rows) - 1];
    struct event_bytes e = event_make(row->fields, row->n_fields, row->payload, row->n);

    for (size_t n = 0; n < e.raw.ext_n; n++) {
        const struct value_sink sink = values_sink(&values);
        struct raw_event raw = e.raw;
        uint8_t *exact = mem_dup(e.ext, n);
        struct described d;
        enum err err;

        raw.ext = exact;
        raw.ext_n = n;
        err = describe_values(describe, &raw, &sink, &d);
        assert_true(err == ERR_OK || err == ERR_NOTFOUND || err == ERR_CORRUPT);
        mem_free(exact);
    }
    event_free(&e);
}

static void unknown_types_are_damage(void **state)
{
    for (unsigned in = 26; in < 32; in++) {
        uint8_t fields[] = {'v', 0, (uint8_t)in};
        struct event_bytes e = event_make(fields, sizeof fields, BYTES("\0\0\0\0"));
        const struct value_sink sink = values_sink(&values);
        struct described d;

        assert_err(describe_values(describe, &e.raw, &sink, &d), ERR_CORRUPT);
        event_free(&e);
    }
}

/* Structs within structs, as deep as asked, with one number in the innermost. */
static enum err nested(unsigned depth)
{
    struct event_bytes e;
    struct value_sink sink = values_sink(&values);
    struct described d;
    struct buf fields;
    enum err err;

    buf_init(&fields, RECORD_MAX);
    for (unsigned i = 0; i < depth; i++) {
        buf_put(&fields, "s\0\x98\x01", 4);
    }
    buf_put(&fields, "v\0\x04", 3);
    e = event_make(fields.p, fields.n, BYTES("\x01"));
    err = describe_values(describe, &e.raw, &sink, &d);
    assert_int_equal(values.depth, 0);
    event_free(&e);
    buf_fini(&fields);
    return err;
}

static void structs_nest_up_to_a_limit(void **state)
{
    assert_ok(nested(15));
    assert_err(nested(16), ERR_CORRUPT);
    assert_err(nested(200), ERR_CORRUPT);
}

/* 65535 × 65535 elements of no bytes would take hours. */
static void arrays_of_nothing_end(void **state)
{
    struct event_bytes e = event_make(BYTES("s\0\xb8\x01\xff\xff"
                                            "t\0\xb8\x01\xff\xff"
                                            "v\0\x20\xff\xff"),
                                      BYTES(""));
    const struct value_sink sink = values_sink(&values);
    struct described d;

    assert_err(describe_values(describe, &e.raw, &sink, &d), ERR_CORRUPT);
    assert_true(values.n < 200000);
    assert_int_equal(values.depth, 0);
    event_free(&e);
}

static void too_many_fields_are_damage(void **state)
{
    struct event_bytes e;
    const struct value_sink sink = values_sink(&values);
    struct described d;
    struct buf fields;

    buf_init(&fields, RECORD_MAX);
    for (unsigned i = 0; i < SCHEMA_FIELDS_MAX + 1; i++) {
        buf_put(&fields, "v\0\0", 3);
    }
    e = event_make(fields.p, fields.n, BYTES(""));
    assert_err(describe_values(describe, &e.raw, &sink, &d), ERR_CORRUPT);
    event_free(&e);
    e = event_make(fields.p, fields.n - 3, BYTES(""));
    assert_ok(describe_values(describe, &e.raw, &sink, &d));
    event_free(&e);
    buf_fini(&fields);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_given_as_it_is_meant),
        cmocka_unit_test(provider_group_and_name_come_with_the_record),
        cmocka_unit_test(every_shorter_payload_is_damaged_and_groups_are_closed),
        cmocka_unit_test(trailing_bytes_are_told),
        cmocka_unit_test(every_shorter_schema_is_damaged_or_smaller),
        cmocka_unit_test(every_shorter_chain_of_items_is_survived),
        cmocka_unit_test(unknown_types_are_damage),
        cmocka_unit_test(structs_nest_up_to_a_limit),
        cmocka_unit_test(arrays_of_nothing_end),
        cmocka_unit_test(too_many_fields_are_damage),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
