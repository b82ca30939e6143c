#include "agent/decode/layout.h"

#include "common/base/clk.h"
#include "common/base/cur.h"

struct reader {
    struct cur c;
    const struct raw_event *raw;
    const struct value_sink *sink;
    struct decode_text *text;
};

const struct layout *layout_find(const struct layout *layouts, size_t n, uint16_t opcode,
                                 uint8_t version)
{
    for (size_t i = 0; i < n; i++) {
        const struct layout *l = &layouts[i];

        if (l->opcode == opcode && version >= l->first && (l->last == 0 || version <= l->last)) {
            return l;
        }
    }
    return NULL;
}

static void give(const struct reader *r, const struct value *v)
{
    if (!r->c.bad) {
        r->sink->value(r->sink->ctx, v);
    }
}

static void give_unsigned(struct reader *r, struct str name, enum value_kind kind, unsigned bits,
                          uint64_t u)
{
    give(r, &(struct value){.name = name, .kind = (uint8_t)kind, .bits = (uint8_t)bits, .v.u = u});
}

static void give_signed(struct reader *r, struct str name, unsigned bits, int64_t i)
{
    give(r, &(struct value){.name = name, .kind = VALUE_INT, .bits = (uint8_t)bits, .v.i = i});
}

static void give_float(struct reader *r, struct str name)
{
    struct value v = {.name = name, .kind = VALUE_FLOAT, .bits = 64};
    uint64_t bits = cur_u64le(&r->c);

    memcpy(&v.v.f, &bits, sizeof bits);
    give(r, &v);
}

static void give_text(struct reader *r, struct str name, enum value_kind kind, struct str text)
{
    give(r, &(struct value){.name = name, .kind = (uint8_t)kind, .v.text = text});
}

static void give_bytes(struct reader *r, struct str name, enum value_kind kind, size_t n)
{
    struct value v = {.name = name, .kind = (uint8_t)kind};

    v.v.bytes.p = cur_bytes(&r->c, n);
    v.v.bytes.n = n;
    give(r, &v);
}

static void read_pointer(struct reader *r, struct str name, enum value_kind kind)
{
    uint64_t u = cur_uptr(&r->c, r->raw->pointer_size);

    give_unsigned(r, name, kind, r->raw->pointer_size == 8 ? 64 : 32, u);
}

/* A time, or the number as stored where UTC ns cannot hold it. */
static void give_time(struct reader *r, struct str name, bool representable, int64_t wall_ns,
                      uint64_t stored)
{
    struct value v = {.name = name, .kind = VALUE_TIME, .bits = 64, .v.i = wall_ns};

    if (!representable) {
        v.kind = VALUE_UINT;
        v.v.u = stored;
    }
    give(r, &v);
}

static void read_filetime(struct reader *r, struct str name)
{
    uint64_t stored = cur_u64le(&r->c);
    int64_t utc_ns = clk_from_filetime(stored);

    give_time(r, name, clk_to_filetime(utc_ns) == stored && stored,
              clk_add(utc_ns, r->raw->shift_ns), stored);
}

/* The record itself was stamped by the same clock. */
static void read_ticks(struct reader *r, struct str name)
{
    uint64_t stored = cur_u64le(&r->c);
    int64_t since = (int64_t)(stored - (uint64_t)r->raw->ticks);

    give_time(r, name, r->raw->frequency != 0,
              clk_add(r->raw->wall_ns, clk_ticks_to_ns(since, r->raw->frequency)), stored);
}

static void read_systemtime(struct reader *r, struct str name)
{
    static const char *const parts[] = {"Year", "Month",  "DayOfWeek", "Day",
                                        "Hour", "Minute", "Second",    "Milliseconds"};
    struct cur ahead = r->c;

    cur_skip(&ahead, 16);
    if (ahead.bad) {
        r->c.bad = true;
        return;
    }
    r->sink->begin(r->sink->ctx, name, VALUE_STRUCT);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        give_unsigned(r, str_make(parts[i]), VALUE_UINT, 16, cur_u16le(&r->c));
    }
    r->sink->end(r->sink->ctx);
}

/* Gives true when `type` is a number. */
static bool read_number(struct reader *r, unsigned type, struct str name)
{
    struct cur *c = &r->c;

    switch (type) {
    case LAYOUT_U8:
        give_unsigned(r, name, VALUE_UINT, 8, cur_u8(c));
        return true;
    case LAYOUT_I8:
        give_signed(r, name, 8, (int8_t)cur_u8(c));
        return true;
    case LAYOUT_U16:
        give_unsigned(r, name, VALUE_UINT, 16, cur_u16le(c));
        return true;
    case LAYOUT_I16:
        give_signed(r, name, 16, (int16_t)cur_u16le(c));
        return true;
    case LAYOUT_U32:
        give_unsigned(r, name, VALUE_UINT, 32, cur_u32le(c));
        return true;
    case LAYOUT_I32:
        give_signed(r, name, 32, (int32_t)cur_u32le(c));
        return true;
    case LAYOUT_U64:
        give_unsigned(r, name, VALUE_UINT, 64, cur_u64le(c));
        return true;
    case LAYOUT_I64:
        give_signed(r, name, 64, (int64_t)cur_u64le(c));
        return true;
    case LAYOUT_HEX32:
        give_unsigned(r, name, VALUE_HEX, 32, cur_u32le(c));
        return true;
    case LAYOUT_HEX64:
        give_unsigned(r, name, VALUE_HEX, 64, cur_u64le(c));
        return true;
    case LAYOUT_BOOL32:
        give_unsigned(r, name, VALUE_BOOL, 32, cur_u32le(c) != 0);
        return true;
    case LAYOUT_BOOL8:
        give_unsigned(r, name, VALUE_BOOL, 8, cur_u8(c) != 0);
        return true;
    case LAYOUT_PTR:
        read_pointer(r, name, VALUE_HEX);
        return true;
    case LAYOUT_SIZE:
        read_pointer(r, name, VALUE_UINT);
        return true;
    case LAYOUT_PORT:
        give_unsigned(r, name, VALUE_UINT, 16, cur_u16be(c));
        return true;
    case LAYOUT_F64:
        give_float(r, name);
        return true;
    default:
        return false;
    }
}

static size_t number_size(const struct reader *r, unsigned type)
{
    switch (type) {
    case LAYOUT_U8:
    case LAYOUT_I8:
    case LAYOUT_BOOL8:
        return 1;
    case LAYOUT_U16:
    case LAYOUT_I16:
    case LAYOUT_PORT:
        return 2;
    case LAYOUT_U32:
    case LAYOUT_I32:
    case LAYOUT_HEX32:
    case LAYOUT_BOOL32:
        return 4;
    case LAYOUT_PTR:
    case LAYOUT_SIZE:
        return r->raw->pointer_size;
    default:
        return 8;
    }
}

static void read_array(struct reader *r, unsigned type, struct str name, size_t n)
{
    if (n == LAYOUT_TO_END) {
        n = cur_left(&r->c) / number_size(r, type);
    }
    r->sink->begin(r->sink->ctx, name, VALUE_ARRAY);
    for (size_t i = 0; i < n && !r->c.bad; i++) {
        (void)read_number(r, type, (struct str){"", 0});
    }
    r->sink->end(r->sink->ctx);
}

static struct str wide(struct reader *r, const uint8_t *units, size_t n)
{
    return decode_text_utf16(r->text, units, n, DECODE_TEXT_BYTES, NULL);
}

static void read_wide(struct reader *r, struct str name, bool optional)
{
    struct cur ahead = r->c;
    size_t n;
    const uint8_t *units = cur_wstr(&ahead, &n);

    if (!units && optional) {
        return;
    }
    r->c = ahead;
    if (units) {
        give_text(r, name, VALUE_TEXT, wide(r, units, n));
    }
}

static void read_wide_list(struct reader *r, struct str name)
{
    r->sink->begin(r->sink->ctx, name, VALUE_ARRAY);
    while (!r->c.bad && cur_left(&r->c)) {
        decode_text_reset(r->text);
        read_wide(r, (struct str){"", 0}, false);
    }
    r->sink->end(r->sink->ctx);
}

static void read_wide_fixed(struct reader *r, struct str name, size_t n)
{
    const uint8_t *units = cur_bytes(&r->c, 2 * n);
    size_t used = 0;

    if (!units) {
        return;
    }
    while (used < n && (units[2 * used] || units[2 * used + 1])) {
        used++;
    }
    give_text(r, name, VALUE_TEXT, wide(r, units, used));
}

static void read_narrow(struct reader *r, struct str name, bool to_end)
{
    struct cur ahead = r->c;
    size_t n;
    const char *s = cur_cstr(&ahead, &n);

    if (!s && to_end) {
        n = cur_left(&r->c);
        s = (const char *)cur_bytes(&r->c, n);
    } else {
        r->c = ahead;
    }
    if (s) {
        give_text(r, name, VALUE_TEXT, decode_text_8bit(r->text, s, n, DECODE_TEXT_BYTES));
    }
}

/* Everything that is not a number. */
static void read_other(struct reader *r, const struct layout_field *f, struct str name)
{
    size_t pointer = r->raw->pointer_size, before = (size_t)(r->c.p - r->raw->payload);

    switch (f->type) {
    case LAYOUT_W:
    case LAYOUT_W_OPT:
        read_wide(r, name, f->type == LAYOUT_W_OPT);
        break;
    case LAYOUT_W_REST:
        read_wide_list(r, name);
        break;
    case LAYOUT_W_FIXED:
        read_wide_fixed(r, name, f->n);
        break;
    case LAYOUT_A:
    case LAYOUT_A_REST:
        read_narrow(r, name, f->type == LAYOUT_A_REST);
        break;
    case LAYOUT_USER:
        give_text(r, name, VALUE_SID, decode_text_user_at(r->text, &r->c, (unsigned)pointer));
        break;
    case LAYOUT_SID:
        give_text(r, name, VALUE_SID, decode_text_sid_at(r->text, &r->c));
        break;
    case LAYOUT_GUID:
        give_bytes(r, name, VALUE_GUID, 16);
        break;
    case LAYOUT_FILETIME:
        read_filetime(r, name);
        break;
    case LAYOUT_TICKS:
        read_ticks(r, name);
        break;
    case LAYOUT_SYSTEMTIME:
        read_systemtime(r, name);
        break;
    case LAYOUT_IP4:
    case LAYOUT_IP6:
        give_bytes(r, name, VALUE_ADDRESS, f->type == LAYOUT_IP4 ? 4 : 16);
        break;
    case LAYOUT_U32_OPT:
        if (cur_left(&r->c) >= 4) {
            give_unsigned(r, name, VALUE_UINT, 32, cur_u32le(&r->c));
        }
        break;
    case LAYOUT_BEGIN:
        r->sink->begin(r->sink->ctx, name, VALUE_STRUCT);
        break;
    case LAYOUT_END:
        r->sink->end(r->sink->ctx);
        break;
    case LAYOUT_BYTES:
        give_bytes(r, name, VALUE_BYTES, f->n);
        break;
    case LAYOUT_REST:
        give_bytes(r, name, VALUE_BYTES, cur_left(&r->c));
        break;
    case LAYOUT_PTR_REST:
        read_array(r, LAYOUT_PTR, name, LAYOUT_TO_END);
        break;
    case LAYOUT_SKIP:
        cur_skip(&r->c, f->n);
        break;
    case LAYOUT_ALIGN8:
        pointer = 8;
        /* fall through */
    case LAYOUT_ALIGN:
        before = pointer ? (pointer - before % pointer) % pointer : 0;
        cur_skip(&r->c, before < cur_left(&r->c) ? before : cur_left(&r->c));
        break;
    default:
        break;
    }
}

static void read_field(struct reader *r, const struct layout_field *f)
{
    struct str name = str_make(f->name);

    decode_text_reset(r->text);
    if (f->n && f->type <= LAYOUT_SIZE) {
        read_array(r, f->type, name, f->n);
    } else if (!read_number(r, f->type, name)) {
        read_other(r, f, name);
    }
}

enum err layout_read(const struct layout *l, const struct raw_event *raw,
                     const struct value_sink *sink, struct decode_text *text, size_t *left)
{
    struct reader r = {cur_make(raw->payload, raw->payload_n), raw, sink, text};
    unsigned depth = 0;

    for (const struct layout_field *f = l->fields; f->name && !r.c.bad; f++) {
        if (raw->version < f->first || (f->last && raw->version > f->last)) {
            continue;
        }
        depth += f->type == LAYOUT_BEGIN;
        depth -= f->type == LAYOUT_END;
        read_field(&r, f);
    }
    for (; depth; depth--) { /* damage within a struct closes it all the same */
        sink->end(sink->ctx);
    }
    *left = r.c.bad ? 0 : cur_left(&r.c);
    return r.c.bad ? ERR_CORRUPT : ERR_OK;
}
