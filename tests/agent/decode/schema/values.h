/* Values as one line of text, so that a test can be a table: a=1 b='x' c=[1 2] d={e=0x5}. */
#ifndef PROCFLEET_TESTS_AGENT_DECODE_SCHEMA_VALUES_H
#define PROCFLEET_TESTS_AGENT_DECODE_SCHEMA_VALUES_H

#include <inttypes.h>

#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/model/value.h"
#include "tests/support/t.h"

struct values {
    struct buf text;
    int depth, deepest;
    uint64_t n;
};

static inline void values_name(struct values *v, struct str name)
{
    char last = v->text.n ? (char)v->text.p[v->text.n - 1] : '[';

    if (last != '[' && last != '{') {
        buf_put_u8(&v->text, ' ');
    }
    if (name.n) {
        buf_put(&v->text, name.p, name.n);
        buf_put_u8(&v->text, '=');
    }
}

static inline void values_bytes(struct buf *out, const struct value *v, const char *left)
{
    buf_put_str(out, left);
    for (size_t i = 0; i < v->v.bytes.n; i++) {
        buf_printf(out, "%02x", v->v.bytes.p[i]);
    }
}

static inline void values_value(void *ctx, const struct value *v)
{
    struct values *vs = ctx;
    struct buf *out = &vs->text;
    char when[CLK_TEXT];

    vs->n++;
    values_name(vs, v->name);
    switch (v->kind) {
    case VALUE_INT:
        buf_printf(out, "%" PRId64, v->v.i);
        break;
    case VALUE_UINT:
        buf_printf(out, "%" PRIu64, v->v.u);
        break;
    case VALUE_HEX:
        buf_printf(out, "0x%" PRIx64, v->v.u);
        break;
    case VALUE_FLOAT:
        buf_printf(out, "%g", v->v.f);
        break;
    case VALUE_BOOL:
        buf_put_str(out, v->v.u ? "true" : "false");
        break;
    case VALUE_TEXT:
        buf_put_u8(out, '\'');
        buf_put(out, v->v.text.p, v->v.text.n);
        buf_put_u8(out, '\'');
        break;
    case VALUE_SID:
        buf_put(out, v->v.text.p, v->v.text.n);
        break;
    case VALUE_TIME:
        buf_put_str(out, clk_format_utc(when, sizeof when, v->v.i, 3));
        break;
    case VALUE_GUID:
        values_bytes(out, v, "guid:");
        break;
    case VALUE_ADDRESS:
        values_bytes(out, v, "ip:");
        break;
    default:
        values_bytes(out, v, "#");
        break;
    }
}

static inline void values_begin(void *ctx, struct str name, enum value_group group)
{
    struct values *v = ctx;

    values_name(v, name);
    buf_put_u8(&v->text, group == VALUE_ARRAY ? '[' : '{');
    v->depth++;
    v->deepest = v->depth > v->deepest ? v->depth : v->deepest;
}

static inline void values_end(void *ctx)
{
    struct values *v = ctx;

    buf_put_u8(&v->text, ']');
    assert_true(v->depth > 0);
    v->depth--;
}

static inline void values_init(struct values *v)
{
    *v = (struct values){0};
    buf_init(&v->text, (size_t)64 << 20);
}

/* Emptied; gives the sink. */
static inline struct value_sink values_sink(struct values *v)
{
    buf_reset(&v->text);
    v->depth = v->deepest = 0;
    v->n = 0;
    return (struct value_sink){v, values_value, values_begin, values_end};
}

static inline void values_fini(struct values *v)
{
    buf_fini(&v->text);
}

/* Literal bytes with their length; the NUL of the literal is not counted. */
#define BYTES(literal) (const uint8_t *)(literal), sizeof(literal) - 1

#endif
