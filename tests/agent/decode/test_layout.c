#include "tests/support/t.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/decode/decode_class.h"
#include "agent/decode/layout.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define OUT_BYTES 4096

/* What was given, as text: name=value, elements without name, groups in brackets. */
struct out {
    char text[OUT_BYTES];
    size_t n;
    unsigned depth;
};

static void say(struct out *o, const char *text)
{
    size_t n = strlen(text);

    assert_true(o->n + n < sizeof o->text);
    memcpy(o->text + o->n, text, n + 1);
    o->n += n;
}

static void say_bytes(struct out *o, const uint8_t *p, size_t n)
{
    char byte[3];

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(byte, sizeof byte, "%02x", p[i]);
        say(o, byte);
    }
}

static void on_value(void *ctx, const struct value *v)
{
    struct out *o = ctx;
    char line[256];

    (void)snprintf(line, sizeof line, "%s%.*s%s", o->n ? " " : "", (int)v->name.n, v->name.p,
                   v->name.n ? "=" : "");
    say(o, line);
    switch (v->kind) {
    case VALUE_INT:
        (void)snprintf(line, sizeof line, "i%u:%" PRId64, v->bits, v->v.i);
        break;
    case VALUE_UINT:
        (void)snprintf(line, sizeof line, "u%u:%" PRIu64, v->bits, v->v.u);
        break;
    case VALUE_HEX:
        (void)snprintf(line, sizeof line, "x%u:%" PRIx64, v->bits, v->v.u);
        break;
    case VALUE_BOOL:
        (void)snprintf(line, sizeof line, "b%u:%" PRIu64, v->bits, v->v.u);
        break;
    case VALUE_TIME:
        (void)snprintf(line, sizeof line, "t:%" PRId64, v->v.i);
        break;
    case VALUE_TEXT:
    case VALUE_SID:
        (void)snprintf(line, sizeof line, "%s%.*s%s", v->kind == VALUE_SID ? "" : "'",
                       (int)v->v.text.n, v->v.text.p, v->kind == VALUE_SID ? "" : "'");
        break;
    default:
        say_bytes(o, v->v.bytes.p, v->v.bytes.n);
        line[0] = 0;
        break;
    }
    say(o, line);
}

static void on_begin(void *ctx, struct str name, enum value_group group)
{
    struct out *o = ctx;
    char line[64];

    (void)snprintf(line, sizeof line, "%s%.*s%c", o->n ? " " : "", (int)name.n, name.p,
                   group == VALUE_ARRAY ? '[' : '{');
    say(o, line);
    o->depth++;
}

static void on_end(void *ctx)
{
    struct out *o = ctx;

    assert_true(o->depth > 0);
    o->depth--;
    say(o, " )");
}

struct row {
    struct layout_field fields[8];
    uint8_t version, pointer;
    const char *payload;
    size_t n, left;
    const char *expected;
    enum err e;
};

#define S(text) text, sizeof text - 1

static const struct row rows[] = {
    {{{"a", LAYOUT_U8, 0, 0, 0},
      {"b", LAYOUT_I8, 0, 0, 0},
      {"c", LAYOUT_U16, 0, 0, 0},
      {"d", LAYOUT_I16, 0, 0, 0},
      {"e", LAYOUT_U32, 0, 0, 0},
      {"f", LAYOUT_I32, 0, 0, 0},
      {0}},
     0,
     8,
     S("\xff\xfe\1\2\xff\xff\4\3\2\1\xfd\xff\xff\xff"),
     0,
     "a=u8:255 b=i8:-2 c=u16:513 d=i16:-1 e=u32:16909060 f=i32:-3",
     ERR_OK},
    {{{"a", LAYOUT_U64, 0, 0, 0},
      {"b", LAYOUT_I64, 0, 0, 0},
      {"c", LAYOUT_HEX32, 0, 0, 0},
      {"d", LAYOUT_HEX64, 0, 0, 0},
      {0}},
     0,
     8,
     S("\1\0\0\0\0\0\0\x80\xff\xff\xff\xff\xff\xff\xff\xff\4\3\2\1\x8\7\6\5\4\3\2\1"),
     0,
     "a=u64:9223372036854775809 b=i64:-1 c=x32:1020304 d=x64:102030405060708",
     ERR_OK},
    {{{"p", LAYOUT_PTR, 0, 0, 0}, {"s", LAYOUT_SIZE, 0, 0, 0}, {0}},
     0,
     4,
     S("\1\2\0\0\3\0\0\0"),
     0,
     "p=x32:201 s=u32:3",
     ERR_OK},
    {{{"p", LAYOUT_PTR, 0, 0, 0}, {"s", LAYOUT_SIZE, 0, 0, 0}, {0}},
     0,
     8,
     S("\1\2\0\0\0\0\0\x80\3\0\0\0\0\0\0\0"),
     0,
     "p=x64:8000000000000201 s=u64:3",
     ERR_OK},
    {{{"b", LAYOUT_BOOL32, 0, 0, 0}, {"c", LAYOUT_BOOL8, 0, 0, 0}, {0}},
     0,
     8,
     S("\0\1\0\0\0"),
     0,
     "b=b32:1 c=b8:0",
     ERR_OK},
    {{{"w", LAYOUT_W, 0, 0, 0}, {"a", LAYOUT_A, 0, 0, 0}, {0}},
     0,
     8,
     S("h\0\xe9\0\0\0x\xe9\0"),
     0,
     "w='h\xc3\xa9' a='x\xc3\xa9'",
     ERR_OK},
    {{{"w", LAYOUT_W, 0, 0, 0}, {0}}, 0, 8, S("h\0i\0"), 0, "", ERR_CORRUPT},
    {{{"n", LAYOUT_U8, 0, 0, 0}, {"w", LAYOUT_W_OPT, 0, 0, 0}, {0}},
     0,
     8,
     S("\1h\0i\0"),
     4,
     "n=u8:1",
     ERR_OK},
    {{{"f", LAYOUT_W_FIXED, 0, 0, 3}, {"n", LAYOUT_U8, 0, 0, 0}, {0}},
     0,
     8,
     S("h\0\0\0x\0\7"),
     0,
     "f='h' n=u8:7",
     ERR_OK},
    {{{"f", LAYOUT_W_FIXED, 0, 0, 2}, {0}}, 0, 8, S("h\0i\0"), 0, "f='hi'", ERR_OK},
    {{{"l", LAYOUT_W_REST, 0, 0, 0}, {0}},
     0,
     8,
     S("a\0\0\0b\0c\0\0\0"),
     0,
     "l[ 'a' 'bc' )",
     ERR_OK},
    {{{"l", LAYOUT_W_REST, 0, 0, 0}, {0}}, 0, 8, S("a\0\0\0b\0"), 0, "l[ 'a' )", ERR_CORRUPT},
    {{{"a", LAYOUT_A_REST, 0, 0, 0}, {0}}, 0, 8, S("no end"), 0, "a='no end'", ERR_OK},
    {{{"a", LAYOUT_A_REST, 0, 0, 0}, {0}}, 0, 8, S("end\0pad"), 3, "a='end'", ERR_OK},
    {{{"u", LAYOUT_USER, 0, 0, 0}, {"n", LAYOUT_U8, 0, 0, 0}, {0}},
     0,
     8,
     S("\0\0\0\0\7"),
     0,
     "u= n=u8:7",
     ERR_OK},
    {{{"u", LAYOUT_USER, 0, 0, 0}, {0}},
     0,
     4,
     S("xxxxyyyy\1\1\0\0\0\0\0\5\x12\0\0\0"),
     0,
     "u=S-1-5-18",
     ERR_OK},
    {{{"s", LAYOUT_SID, 0, 0, 0}, {0}},
     0,
     8,
     S("\1\1\0\0\0\0\0\x10\0\x30\0\0"),
     0,
     "s=S-1-16-12288",
     ERR_OK},
    {{{"s", LAYOUT_SID, 0, 0, 0}, {0}},
     0,
     8,
     S("\1\2\0\0\0\0\0\x10\0\x30\0\0"),
     0,
     "",
     ERR_CORRUPT},
    {{{"g", LAYOUT_GUID, 0, 0, 0}, {"i", LAYOUT_IP4, 0, 0, 0}, {"p", LAYOUT_PORT, 0, 0, 0}, {0}},
     0,
     8,
     S("0123456789abcdef\x7f\0\0\1\0\x50"),
     0,
     "g=30313233343536373839616263646566 i=7f000001 p=u16:80",
     ERR_OK},
    {{{"v", LAYOUT_IP6, 0, 0, 0}, {"b", LAYOUT_BYTES, 0, 0, 2}, {"r", LAYOUT_REST, 0, 0, 0}, {0}},
     0,
     8,
     S("0123456789abcdefxyz!"),
     0,
     "v=30313233343536373839616263646566 b=7879 r=7a21",
     ERR_OK},
    {{{"a", LAYOUT_U16, 0, 0, 3}, {0}},
     0,
     8,
     S("\1\0\2\0\3\0"),
     0,
     "a[ u16:1 u16:2 u16:3 )",
     ERR_OK},
    {{{"a", LAYOUT_U16, 0, 0, 3}, {0}}, 0, 8, S("\1\0\2\0\3"), 0, "a[ u16:1 u16:2 )", ERR_CORRUPT},
    {{{"n", LAYOUT_U8, 0, 0, 0}, {"a", LAYOUT_U16, 0, 0, LAYOUT_TO_END}, {0}},
     0,
     8,
     S("\2\1\0\2\0\3"),
     1,
     "n=u8:2 a[ u16:1 u16:2 )",
     ERR_OK},
    {{{"s", LAYOUT_PTR_REST, 0, 0, 0}, {0}},
     0,
     4,
     S("\1\0\0\0\2\0\0\0"),
     0,
     "s[ x32:1 x32:2 )",
     ERR_OK},
    {{{"s", LAYOUT_BEGIN, 0, 0, 0}, {"a", LAYOUT_U8, 0, 0, 0}, {"s", LAYOUT_END, 0, 0, 0}, {0}},
     0,
     8,
     S("\1"),
     0,
     "s{ a=u8:1 )",
     ERR_OK},
    {{{"s", LAYOUT_BEGIN, 0, 0, 0}, {"a", LAYOUT_U16, 0, 0, 0}, {"s", LAYOUT_END, 0, 0, 0}, {0}},
     0,
     8,
     S("\1"),
     0,
     "s{ )",
     ERR_CORRUPT},
    {{{"d", LAYOUT_SYSTEMTIME, 0, 0, 0}, {0}},
     0,
     8,
     S("\xea\7\1\0\2\0\3\0\4\0\5\0\6\0\7\0"),
     0,
     "d{ Year=u16:2026 Month=u16:1 DayOfWeek=u16:2 Day=u16:3 Hour=u16:4 Minute=u16:5 Second=u16:6 "
     "Milliseconds=u16:7 )",
     ERR_OK},
    {{{"d", LAYOUT_SYSTEMTIME, 0, 0, 0}, {0}},
     0,
     8,
     S("\xea\7\1\0\2\0\3\0\4\0\5\0\6\0\7"),
     0,
     "",
     ERR_CORRUPT},
    {{{"a", LAYOUT_U8, 0, 0, 0}, {"", LAYOUT_ALIGN8, 0, 0, 0}, {"b", LAYOUT_U8, 0, 0, 0}, {0}},
     0,
     8,
     S("\1.......\2"),
     0,
     "a=u8:1 b=u8:2",
     ERR_OK},
    {{{"a", LAYOUT_U8, 0, 0, 0}, {"", LAYOUT_ALIGN8, 0, 0, 0}, {0}},
     0,
     8,
     S("\1..."),
     0,
     "a=u8:1",
     ERR_OK},
    {{{"", LAYOUT_SKIP, 0, 0, 3}, {"b", LAYOUT_U8, 0, 0, 0}, {0}},
     0,
     8,
     S("...\2!"),
     1,
     "b=u8:2",
     ERR_OK},
    {{{"old", LAYOUT_U8, 0, 2, 0}, {"mid", LAYOUT_U8, 2, 3, 0}, {"new", LAYOUT_U8, 3, 0, 0}, {0}},
     2,
     8,
     S("\1\2"),
     0,
     "old=u8:1 mid=u8:2",
     ERR_OK},
    {{{"old", LAYOUT_U8, 0, 2, 0}, {"mid", LAYOUT_U8, 2, 3, 0}, {"new", LAYOUT_U8, 3, 0, 0}, {0}},
     9,
     8,
     S("\1"),
     0,
     "new=u8:1",
     ERR_OK},
};

static enum err read(const struct layout_field *fields, const struct raw_event *whole, size_t n,
                     struct out *o, size_t *left)
{
    struct layout l = {.name = "x", .fields = fields};
    struct value_sink sink = {o, on_value, on_begin, on_end};
    static struct decode_text text;
    struct raw_event raw = *whole;
    uint8_t *exact = mem_dup(whole->payload, n); /* so that a read beyond it is seen */
    enum err e;

    memset(o, 0, sizeof *o);
    raw.payload = exact;
    raw.payload_n = n;
    e = layout_read(&l, &raw, &sink, &text, left);
    assert_int_equal(o->depth, 0);
    mem_free(exact);
    return e;
}

static void every_type_is_read(void **state)
{
    struct out o;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        struct raw_event raw = {.version = r->version,
                                .pointer_size = r->pointer,
                                .payload = (const uint8_t *)r->payload,
                                .payload_n = r->n};
        size_t left = 99;

        assert_err(read(r->fields, &raw, r->n, &o, &left), r->e);
        assert_string_equal(o.text, r->expected);
        assert_int_equal(left, r->left);
        for (size_t n = 0; n < r->n; n++) { /* gives what is there, or says that it is not */
            char whole[OUT_BYTES];

            memcpy(whole, o.text, sizeof whole);
            assert_true(read(r->fields, &raw, n, &o, &left) == ERR_OK || left == 0);
            memcpy(o.text, whole, sizeof whole);
        }
    }
}

/* Times of the payload move with the replay; what ns cannot say stays a number. */
static void times_are_utc(void **state)
{
    static const struct layout_field fields[] = {
        {"f", LAYOUT_FILETIME, 0, 0, 0}, {"t", LAYOUT_TICKS, 0, 0, 0}, {0}};
    struct raw_event raw = {.pointer_size = 8,
                            .wall_ns = 5000 * CLK_S,
                            .shift_ns = 2 * CLK_S,
                            .ticks = 1000,
                            .frequency = 10};
    uint8_t payload[16] = {0};
    struct out o;
    size_t left;

    raw.payload = payload;
    for (int i = 0; i < 8; i++) {
        payload[i] = (uint8_t)((uint64_t)(CLK_FILETIME_UNIX_DIFF + 30000000) >> 8 * i);
    }
    payload[8] = 0xde; /* 990: one second before the record */
    payload[9] = 3;
    assert_ok(read(fields, &raw, 16, &o, &left));
    assert_string_equal(o.text, "f=t:5000000000 t=t:4999000000000");
    raw.frequency = 0;
    memset(payload, 0, 8);
    assert_ok(read(fields, &raw, 16, &o, &left));
    assert_string_equal(o.text, "f=u64:0 t=u64:990");
}

static void the_first_layout_that_fits_is_taken(void **state)
{
    static const struct layout_field none[] = {{0}};
    static const struct layout list[] = {{1, 3, 0, "since 3", none},
                                         {1, 1, 2, "1 to 2", none},
                                         {1, 0, 0, "0", none},
                                         {300, 0, 0, "an id", none}};

    assert_string_equal(layout_find(list, 4, 1, 0)->name, "0");
    assert_string_equal(layout_find(list, 4, 1, 1)->name, "1 to 2");
    assert_string_equal(layout_find(list, 4, 1, 2)->name, "1 to 2");
    assert_string_equal(layout_find(list, 4, 1, 3)->name, "since 3");
    assert_string_equal(layout_find(list, 4, 1, 255)->name, "since 3");
    assert_string_equal(layout_find(list, 4, 300, 0)->name, "an id");
    assert_null(layout_find(list, 4, 2, 0));
    assert_null(layout_find(NULL, 0, 1, 0));
}

/* Whatever is in the tables of all classes: names, types, order of structs. */
static void tables_are_well_formed(void **state)
{
    for (size_t c = 0; c < decode_classes_n; c++) {
        const struct decode_class *k = decode_classes[c];

        assert_true(k->n_layouts > 0);
        for (size_t i = 0; i < k->n_layouts; i++) {
            const struct layout *l = &k->layouts[i];
            int depth = 0;

            assert_true(l->name && l->fields && (!l->last || l->first <= l->last));
            assert_ptr_equal(layout_find(k->layouts, k->n_layouts, l->opcode, l->first), l);
            for (const struct layout_field *f = l->fields; f->name; f++) {
                assert_true(f->type <= LAYOUT_ALIGN8 && (!f->last || f->first <= f->last));
                depth += (f->type == LAYOUT_BEGIN) - (f->type == LAYOUT_END);
                assert_true(depth >= 0);
            }
            assert_int_equal(depth, 0);
        }
        for (size_t i = 0; i < k->n_ops; i++) { /* who makes facts can name fields */
            assert_non_null(
                layout_find(k->layouts, k->n_layouts, k->ops[i].opcode, k->ops[i].first_version));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(times_are_utc),
        cmocka_unit_test(the_first_layout_that_fits_is_taken),
        cmocka_unit_test(tables_are_well_formed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
