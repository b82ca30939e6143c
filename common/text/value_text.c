#include "common/text/value_text.h"

#include <float.h>
#include <stdio.h>

#include "common/base/clk.h"
#include "common/text/humanize.h"

#define SMALL          512 /* bytes of everything but texts and bytes */
#define NAME_MAX_BYTES 128 /* of a name that had to be changed; cut */

const char *value_text_guid(char text[UUID_TEXT], const uint8_t guid[16])
{
    static const uint8_t from[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    struct uuid u;

    for (size_t i = 0; i < 16; i++) {
        u.b[i] = guid[from[i]];
    }
    return uuid_format(text, &u);
}

void value_text_hex(struct buf *out, const uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        buf_put_u8(out, (uint8_t)digits[p[i] >> 4]);
        buf_put_u8(out, (uint8_t)digits[p[i] & 15]);
    }
}

/* The longest run of zero groups is written as "::". */
static void put_ip6(struct buf *out, const uint8_t *p)
{
    size_t best = 8, best_n = 1, at = 0;

    for (size_t i = 0; i < 8; i++) {
        size_t n = 0;

        while (i + n < 8 && p[2 * (i + n)] == 0 && p[2 * (i + n) + 1] == 0) {
            n++;
        }
        if (n > best_n) {
            best = i;
            best_n = n;
        }
    }
    while (at < 8) {
        if (at == best) {
            buf_put_str(out, "::");
            at += best_n;
            continue;
        }
        buf_printf(out, at && at != best + best_n ? ":%x" : "%x", p[2 * at] << 8 | p[2 * at + 1]);
        at++;
    }
}

void value_text_address(struct buf *out, const uint8_t *p, size_t n)
{
    if (n == 4) {
        buf_printf(out, "%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
    } else if (n == 16) {
        put_ip6(out, p);
    } else {
        value_text_hex(out, p, n);
    }
}

/* Everything but text. */
static void put_plain(struct buf *out, const struct value *v)
{
    char text[CLK_TEXT > UUID_TEXT ? CLK_TEXT : UUID_TEXT];

    switch (v->kind) {
    case VALUE_INT:
        buf_printf(out, "%lld", (long long)v->v.i);
        break;
    case VALUE_UINT:
        buf_printf(out, "%llu", (unsigned long long)v->v.u);
        break;
    case VALUE_HEX:
        buf_printf(out, "0x%llx", (unsigned long long)v->v.u);
        break;
    case VALUE_FLOAT:
        buf_printf(out, "%.*g", v->bits == 32 ? 9 : 17, v->v.f);
        break;
    case VALUE_BOOL:
        buf_put_str(out, v->v.u ? "true" : "false");
        break;
    case VALUE_TIME:
        buf_put_str(out, clk_format_utc(text, sizeof text, v->v.i, 9));
        break;
    case VALUE_GUID:
        buf_put_str(out, value_text_guid(text, v->v.bytes.p));
        break;
    case VALUE_ADDRESS:
        value_text_address(out, v->v.bytes.p, v->v.bytes.n);
        break;
    default:
        value_text_hex(out, v->v.bytes.p, v->v.bytes.n);
        break;
    }
}

static bool is_text(const struct value *v)
{
    return v->kind == VALUE_TEXT || v->kind == VALUE_SID;
}

/* -- for people -- */

static void begin_people(struct value_people *p, struct str name)
{
    if (!p->first) {
        buf_put_u8(p->out, ' ');
    }
    p->first = false;
    if (name.n) {
        humanize_text(p->out, name);
        buf_put_u8(p->out, '=');
    }
}

static void people_value(void *ctx, const struct value *v)
{
    struct value_people *p = ctx;

    begin_people(p, v->name);
    if (v->kind == VALUE_TEXT) {
        buf_put_u8(p->out, '"');
        humanize_text(p->out, v->v.text);
        buf_put_u8(p->out, '"');
    } else if (is_text(v)) {
        humanize_text(p->out, v->v.text);
    } else {
        put_plain(p->out, v);
    }
}

static void people_begin(void *ctx, struct str name, enum value_group group)
{
    struct value_people *p = ctx;

    begin_people(p, name);
    buf_put_u8(p->out, group == VALUE_STRUCT ? '{' : '[');
    p->arrays = p->arrays << 1 | (group == VALUE_ARRAY);
    p->first = true;
}

static void people_end(void *ctx)
{
    struct value_people *p = ctx;

    buf_put_u8(p->out, p->arrays & 1 ? ']' : '}');
    p->arrays >>= 1;
    p->first = false;
}

struct value_sink value_text_people(struct value_people *p, struct buf *out)
{
    struct value_sink s = {p, people_value, people_begin, people_end};

    *p = (struct value_people){.out = out, .first = true};
    return s;
}

/* -- JSON -- */

static uint32_t hash(struct str name)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < name.n; i++) {
        h = (h ^ (uint8_t)name.p[i]) * 16777619u;
    }
    return h;
}

/* How many members of the innermost object have had this name, this one included. */
static unsigned nth_of_name(struct value_json *j, struct str name)
{
    uint32_t h = hash(name);
    unsigned nth = 1;

    for (size_t i = j->first[j->depth]; i < j->n; i++) {
        nth += j->names[i] == h;
    }
    if (j->n < VALUE_JSON_NAMES) {
        j->names[j->n++] = h;
    }
    return nth;
}

/* The name to be written; `text` holds it where it had to be changed. */
static struct str unique(struct value_json *j, struct str name, char text[NAME_MAX_BYTES])
{
    unsigned nth = name.n ? nth_of_name(j, name) : 1;
    int n;

    if (nth == 1) {
        return name;
    }
    n = snprintf(text, NAME_MAX_BYTES, "%.*s#%u",
                 (int)(name.n < NAME_MAX_BYTES - 16 ? name.n : NAME_MAX_BYTES - 16), name.p, nth);
    return (struct str){text, n > 0 ? (size_t)n : 0};
}

static void json_value(void *ctx, const struct value *v)
{
    struct value_json *j = ctx;
    bool number = v->kind == VALUE_BOOL ||
                  (v->kind == VALUE_FLOAT && v->v.f >= -DBL_MAX && v->v.f <= DBL_MAX);
    char text[NAME_MAX_BYTES];
    struct str name = unique(j, v->name, text);
    struct buf b;

    if (is_text(v)) {
        jsonw_text_n(j->out, name, v->v.text);
        return;
    }
    if (v->kind == VALUE_INT) {
        jsonw_int_n(j->out, name, v->v.i);
        return;
    }
    if (v->kind == VALUE_UINT) {
        jsonw_uint_n(j->out, name, v->v.u);
        return;
    }
    buf_init(&b, v->kind == VALUE_BYTES ? 2 * v->v.bytes.n + SMALL : SMALL);
    put_plain(&b, v);
    if (number) {
        jsonw_raw_n(j->out, name, buf_cstr(&b));
    } else {
        jsonw_text_n(j->out, name, str_make(buf_cstr(&b)));
    }
    buf_fini(&b);
}

static void json_begin(void *ctx, struct str name, enum value_group group)
{
    struct value_json *j = ctx;
    char text[NAME_MAX_BYTES];

    name = unique(j, name, text);
    if (group == VALUE_STRUCT) {
        jsonw_object_n(j->out, name);
    } else {
        jsonw_array_n(j->out, name);
    }
    if (j->depth + 1 < JSONW_DEPTH) {
        j->first[++j->depth] = j->n;
    } else {
        j->too_deep++;
    }
}

static void json_end(void *ctx)
{
    struct value_json *j = ctx;

    jsonw_end(j->out);
    if (j->too_deep) {
        j->too_deep--;
    } else if (j->depth) {
        j->n = j->first[j->depth--];
    }
}

struct value_sink value_text_json(struct value_json *j, struct jsonw *out)
{
    struct value_sink s = {j, json_value, json_begin, json_end};

    j->out = out;
    j->n = 0;
    j->depth = j->too_deep = 0;
    j->first[0] = 0;
    return s;
}
