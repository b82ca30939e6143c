/* An argument is read by the type its message file gives, handed on as a value, and kept for the
 * message's text. */
#include "agent/decode/schema/describe_wpp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/os/uuid.h"

/* ---- the text of a message ---- */

/* The text of a WPP message from what its message file says and the arguments that were read.
 * A message's text refers to its arguments by number: %10!d! is number 10 shown by %d, %10 alone
 * by its own text. Below ten are things of the record: %1 component, %2 file and line, %3 thread,
 * %4 time, %7 sequence, %8 process, %9 CPU; %0 is nothing. %!FUNC!, %!LEVEL! and %!FLAGS! are told
 * by the message file. */

#define WIDTH_MAX 1024 /* of a format; larger ones are cut */

struct format {
    bool minus, zero, plus, blank, alternate;
    unsigned width, precision;
    bool has_precision;
    char conversion;
};

static const char *wpp_text_digits(const char *p, const char *end, unsigned *out)
{
    *out = 0;
    while (p < end && *p >= '0' && *p <= '9') {
        *out = *out < WIDTH_MAX ? *out * 10 + (unsigned)(*p - '0') : *out;
        p++;
    }
    *out = *out < WIDTH_MAX ? *out : WIDTH_MAX;
    return p;
}

/* Flags, width, precision, a length that does not matter (the argument knows its own), conversion.
 */
static struct format wpp_text_format(const char *p, const char *end)
{
    struct format f = {.conversion = 's'};

    for (; p < end && *p && strchr("-0+ #", *p); p++) {
        f.minus |= *p == '-';
        f.zero |= *p == '0';
        f.plus |= *p == '+';
        f.blank |= *p == ' ';
        f.alternate |= *p == '#';
    }
    p = wpp_text_digits(p, end, &f.width);
    if (p < end && *p == '.') {
        f.has_precision = true;
        p = wpp_text_digits(p + 1, end, &f.precision);
    }
    if (p < end) {
        f.conversion = end[-1];
    }
    return f;
}

static void wpp_text_repeat(struct buf *out, char c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_put_u8(out, (uint8_t)c);
    }
}

static void wpp_text_padded(struct buf *out, const struct format *f, const char *p, size_t n)
{
    size_t pad = f->width > n ? f->width - n : 0;

    if (!f->minus) {
        wpp_text_repeat(out, ' ', pad);
    }
    buf_put(out, p, n);
    if (f->minus) {
        wpp_text_repeat(out, ' ', pad);
    }
}

static void wpp_text_str(struct buf *out, const struct format *f, struct str s)
{
    size_t n = f->has_precision && f->precision < s.n ? f->precision : s.n;

    while (n > 0 && n < s.n && ((uint8_t)s.p[n] & 0xc0) == 0x80) {
        n--; /* not within a character */
    }
    wpp_text_padded(out, f, s.p, n);
}

/* Digits of a number, the last first; gives how many. */
static size_t wpp_text_digits_of(char *out, uint64_t u, unsigned base, bool upper)
{
    size_t n = 0;

    do {
        out[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
        u /= base;
    } while (u);
    return n;
}

static void wpp_text_put_digits(struct buf *out, const struct format *f, const char *prefix,
                                uint64_t u, unsigned base)
{
    char reversed[24];
    size_t n = wpp_text_digits_of(reversed, u, base, f->conversion == 'X' || f->conversion == 'p');
    size_t least = f->has_precision ? f->precision : 1;
    size_t zeros = least > n ? least - n : 0;
    size_t size = strlen(prefix) + zeros + n;
    size_t pad = f->width > size ? f->width - size : 0;

    if (f->zero && !f->minus && !f->has_precision) {
        zeros += pad;
        pad = 0;
    }
    if (!f->minus) {
        wpp_text_repeat(out, ' ', pad);
    }
    buf_put_str(out, prefix);
    wpp_text_repeat(out, '0', zeros);
    while (n-- > 0) {
        buf_put_u8(out, (uint8_t)reversed[n]);
    }
    if (f->minus) {
        wpp_text_repeat(out, ' ', pad);
    }
}

static uint64_t wpp_text_cut(uint64_t u, unsigned bits)
{
    return bits < 64 ? u & ((UINT64_C(1) << bits) - 1) : u;
}

static void wpp_text_signed(struct buf *out, const struct format *f, const struct wpp_argument *a)
{
    uint64_t sign = UINT64_C(1) << (a->bits - 1);
    uint64_t u = (wpp_text_cut(a->u, a->bits) ^ sign) - sign;
    bool negative = u >> 63;

    wpp_text_put_digits(out, f,
                        negative   ? "-"
                        : f->plus  ? "+"
                        : f->blank ? " "
                                   : "",
                        negative ? 0 - u : u, 10);
}

static void wpp_text_char(struct buf *out, const struct format *f, uint64_t u)
{
    uint8_t unit[2] = {(uint8_t)u, (uint8_t)(u >> 8)};
    struct buf one;

    buf_init(&one, 16);
    buf_put_utf16le(&one, unit, 1);
    wpp_text_padded(out, f, (const char *)one.p, one.n);
    buf_fini(&one);
}

static void wpp_text_number(struct buf *out, const struct format *f, const struct wpp_argument *a)
{
    struct format pointer = *f;
    uint64_t u = wpp_text_cut(a->u, a->bits);

    switch (f->conversion) {
    case 'd':
    case 'i':
        wpp_text_signed(out, f, a);
        return;
    case 'u':
        wpp_text_put_digits(out, f, "", u, 10);
        return;
    case 'o':
        wpp_text_put_digits(out, f, f->alternate ? "0" : "", u, 8);
        return;
    case 'x':
        wpp_text_put_digits(out, f, f->alternate ? "0x" : "", u, 16);
        return;
    case 'X':
        wpp_text_put_digits(out, f, f->alternate ? "0X" : "", u, 16);
        return;
    case 'p':
        pointer.has_precision = true;
        pointer.precision = a->bits / 4;
        wpp_text_put_digits(out, &pointer, "", u, 16);
        return;
    case 'c':
    case 'C':
        wpp_text_char(out, f, u);
        return;
    default:
        break;
    }
    if (a->type == TMF_STATUS || a->type == TMF_PTR) {
        wpp_text_put_digits(
            out, &(struct format){.conversion = 'x', .has_precision = true, .precision = 8}, "0x",
            u, 16);
    } else if (a->type == TMF_I8 || a->type == TMF_I16 || a->type == TMF_I32 ||
               a->type == TMF_I64 || a->type == TMF_DELTA) {
        wpp_text_signed(out, f, a);
    } else {
        wpp_text_put_digits(out, f, "", u, 10);
    }
}

static void wpp_text_float(struct buf *out, const struct format *f, const struct wpp_argument *a)
{
    char text[400];
    int precision = f->has_precision && f->precision < 60 ? (int)f->precision : 6;

    if (f->conversion == 'f' && fabs(a->f) < 1e300) {
        (void)snprintf(text, sizeof text, "%.*f", precision, a->f);
    } else if (f->conversion == 'e') {
        (void)snprintf(text, sizeof text, "%.*e", precision, a->f);
    } else {
        (void)snprintf(text, sizeof text, "%g", a->f);
    }
    wpp_text_padded(out, f, text, strlen(text));
}

static void wpp_text_argument(struct wpp *w, const struct tmf_message *m, unsigned number,
                              const struct format *f)
{
    for (size_t i = 0; i < w->n_arguments; i++) {
        const struct wpp_argument *a = &w->arguments[i];

        if (m->items[i].number != number) {
            continue;
        }
        if (a->type == TMF_F32 || a->type == TMF_F64) {
            wpp_text_float(&w->message, f, a);
        } else if (a->bits && (a->text.n == 0 || !strchr("sS", f->conversion))) {
            wpp_text_number(&w->message, f, a);
        } else {
            wpp_text_str(&w->message, f, a->text);
        }
        return;
    }
    buf_put_str(&w->message, "<missing>");
}

/* Below ten: of the record itself. */
static void wpp_text_standard(struct wpp *w, const struct tmf_message *m,
                              const struct raw_event *raw, unsigned number)
{
    char text[CLK_TEXT];

    switch (number) {
    case 1:
        buf_put(&w->message, m->component.p, m->component.n);
        break;
    case 2:
        buf_put(&w->message, m->name.p, m->name.n);
        break;
    case 3:
        buf_printf(&w->message, "%04X", (unsigned)raw->tid);
        break;
    case 4:
        buf_put_str(&w->message, clk_format_utc(text, sizeof text, raw->wall_ns, 6));
        break;
    case 7:
        buf_printf(&w->message, "%08x", (unsigned)raw->sequence);
        break;
    case 8:
        buf_printf(&w->message, "%04X", (unsigned)raw->pid);
        break;
    case 9:
        buf_printf(&w->message, "%u", (unsigned)raw->cpu);
        break;
    default:
        break;
    }
}

/* %!NAME!: gives what stands behind it, or `p` where it is none of these. */
static const char *wpp_text_named(struct wpp *w, const struct tmf_message *m, const char *p,
                                  const char *end)
{
    const char *close = memchr(p + 1, '!', (size_t)(end - p - 1));
    struct str name = {p + 1, close ? (size_t)(close - p - 1) : 0};
    struct str text = {"", 0};

    if (!close) {
        return p;
    }
    if (str_eq(name, str_make("FUNC"))) {
        text = m->function;
    } else if (str_eq(name, str_make("LEVEL"))) {
        text = m->level;
    } else if (str_eq(name, str_make("FLAGS"))) {
        text = m->flags;
    }
    buf_put(&w->message, text.p, text.n);
    return close + 1;
}

/* `p` is behind a percent sign; gives what stands behind the reference. */
static const char *wpp_text_reference(struct wpp *w, const struct tmf_message *m,
                                      const struct raw_event *raw, const char *p, const char *end)
{
    struct format f = {.conversion = 's'};
    const char *close = NULL;
    unsigned number;

    if (*p == '%') {
        buf_put_u8(&w->message, '%');
        return p + 1;
    }
    if (*p == '!') {
        return wpp_text_named(w, m, p, end);
    }
    if (*p < '0' || *p > '9') {
        buf_put_u8(&w->message, '%');
        return p;
    }
    p = wpp_text_digits(p, end, &number);
    if (p < end && *p == '!') {
        close = memchr(p + 1, '!', (size_t)(end - p - 1));
    }
    if (close) {
        f = wpp_text_format(p + 1, close);
        p = close + 1;
    }
    if (number < 10) {
        wpp_text_standard(w, m, raw, number);
    } else {
        wpp_text_argument(w, m, number, &f);
    }
    return p;
}

/* Writes w->message from w->arguments (of them n_arguments) and the record itself; a text that
 * has no room is cut. */
static void wpp_text_make(struct wpp *w, const struct tmf_message *m, const struct raw_event *raw)
{
    const char *p = m->text.p, *end = p + m->text.n;

    buf_reset(&w->message);
    while (p < end && !w->message.bad) {
        const char *percent = memchr(p, '%', (size_t)(end - p));
        size_t plain = percent ? (size_t)(percent - p) : (size_t)(end - p);

        buf_put(&w->message, p, plain);
        p += plain;
        if (percent && ++p < end) {
            p = wpp_text_reference(w, m, raw, p, end);
        }
    }
}

struct reader {
    struct cur c;
    struct wpp *w;
    const struct raw_event *raw;
    const struct value_sink *sink;
};

void describe_wpp_init(struct wpp *w)
{
    buf_init(&w->message, WPP_TEXT_MAX);
}

void describe_wpp_fini(struct wpp *w)
{
    buf_fini(&w->message);
}

static void wpp_give(struct reader *r, const struct value *v)
{
    if (!r->c.bad) {
        r->sink->value(r->sink->ctx, v);
    }
}

static void wpp_give_bytes(struct reader *r, const char *name, size_t n)
{
    struct value v = {.name = str_make(name), .kind = VALUE_BYTES};

    v.v.bytes.p = cur_bytes(&r->c, n);
    v.v.bytes.n = n;
    wpp_give(r, &v);
}

/* ---- arguments ---- */

/* Text of our own making, kept beside the texts of the record and cut where these fill the room. */
static struct str wpp_keep_str(struct reader *r, struct str text)
{
    struct decode_text *t = &r->w->text;
    struct str s = {t->p + t->n, text.n};

    if (s.n > sizeof t->p - t->n) {
        s.n = sizeof t->p - t->n;
    }
    memcpy(t->p + t->n, text.p, s.n);
    t->n += s.n;
    return s;
}

static struct str wpp_keep(struct reader *r, const char *text)
{
    return wpp_keep_str(r, str_make(text));
}

static void wpp_set(struct wpp_argument *a, struct value *v, enum value_kind kind, unsigned bits,
                    uint64_t u)
{
    a->bits = (uint8_t)bits;
    a->u = u;
    v->kind = (uint8_t)kind;
    v->bits = (uint8_t)bits;
    if (kind == VALUE_INT) {
        v->v.i = (int64_t)u;
    } else {
        v->v.u = u;
    }
}

/* True when the type is a plain number. */
static bool wpp_read_number(struct reader *r, struct wpp_argument *a, struct value *v)
{
    struct cur *c = &r->c;
    unsigned pointer = r->raw->pointer_size;

    switch (a->type) {
    case TMF_I8:
        wpp_set(a, v, VALUE_INT, 8, (uint64_t)(int8_t)cur_u8(c));
        return true;
    case TMF_U8:
        wpp_set(a, v, VALUE_UINT, 8, cur_u8(c));
        return true;
    case TMF_I16:
        wpp_set(a, v, VALUE_INT, 16, (uint64_t)(int16_t)cur_u16le(c));
        return true;
    case TMF_U16:
        wpp_set(a, v, VALUE_UINT, 16, cur_u16le(c));
        return true;
    case TMF_PORT:
        wpp_set(a, v, VALUE_UINT, 16, cur_u16be(c));
        return true;
    case TMF_I32:
        wpp_set(a, v, VALUE_INT, 32, (uint64_t)(int32_t)cur_u32le(c));
        return true;
    case TMF_U32:
    case TMF_ERROR:
        wpp_set(a, v, VALUE_UINT, 32, cur_u32le(c));
        return true;
    case TMF_HEX32:
    case TMF_STATUS:
        wpp_set(a, v, VALUE_HEX, 32, cur_u32le(c));
        return true;
    case TMF_I64:
    case TMF_DELTA:
        wpp_set(a, v, VALUE_INT, 64, cur_u64le(c));
        return true;
    case TMF_U64:
        wpp_set(a, v, VALUE_UINT, 64, cur_u64le(c));
        return true;
    case TMF_HEX64:
        wpp_set(a, v, VALUE_HEX, 64, cur_u64le(c));
        return true;
    case TMF_PTR:
        wpp_set(a, v, VALUE_HEX, 8 * pointer, cur_uptr(c, pointer));
        return true;
    default:
        return false;
    }
}

static void wpp_set_text(struct wpp_argument *a, struct value *v, enum value_kind kind,
                         struct str text)
{
    a->text = text;
    v->kind = (uint8_t)kind;
    v->v.text = text;
}

/* True when the type is a text. */
static bool wpp_read_text(struct reader *r, struct wpp_argument *a, struct value *v)
{
    struct decode_text *t = &r->w->text;
    struct str s = {"", 0};
    const uint8_t *w;
    const char *p;
    size_t n;

    switch (a->type) {
    case TMF_TEXT8:
        p = cur_cstr(&r->c, &n);
        s = p ? decode_text_8bit(t, p, n, DECODE_TEXT_BYTES) : s;
        break;
    case TMF_TEXT16:
        w = cur_wstr(&r->c, &n);
        s = w ? decode_text_utf16(t, w, n, DECODE_TEXT_BYTES, NULL) : s;
        break;
    case TMF_COUNTED8:
        n = cur_u16le(&r->c);
        p = (const char *)cur_bytes(&r->c, n);
        s = p ? decode_text_8bit(t, p, n, DECODE_TEXT_BYTES) : s;
        break;
    case TMF_COUNTED16:
        n = cur_u16le(&r->c);
        w = cur_bytes(&r->c, n);
        s = w ? decode_text_utf16(t, w, n / 2, DECODE_TEXT_BYTES, NULL) : s;
        break;
    case TMF_CHAR4:
        p = (const char *)cur_bytes(&r->c, 4);
        s = p ? decode_text_8bit(t, p, 4, DECODE_TEXT_BYTES) : s;
        break;
    case TMF_SID:
        wpp_set_text(a, v, VALUE_SID, decode_text_sid_at(t, &r->c));
        return true;
    default:
        return false;
    }
    wpp_set_text(a, v, VALUE_TEXT, s);
    return true;
}

static struct str wpp_hex(struct reader *r, const uint8_t *p, size_t n, const char *between)
{
    struct decode_text *t = &r->w->text;
    struct str s = {t->p + t->n, 0};
    char two[4];

    for (size_t i = 0; p && i < n; i++) {
        (void)snprintf(two, sizeof two, "%s%02X", i ? between : "", p[i]);
        s.n += wpp_keep(r, two).n;
    }
    return s;
}

static struct str wpp_ip4(struct reader *r, const uint8_t *p)
{
    char text[20];

    (void)snprintf(text, sizeof text, "%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
    return wpp_keep(r, text);
}

static struct str wpp_ip6(struct reader *r, const uint8_t *p)
{
    char text[48];
    size_t n = 0;

    for (size_t i = 0; i < 16; i += 2) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%x", i ? ":" : "",
                              (unsigned)(p[i] << 8 | p[i + 1]));
    }
    return wpp_keep(r, text);
}

static struct str wpp_guid(struct reader *r, const uint8_t *p)
{
    char text[UUID_TEXT];

    return wpp_keep(r, uuid_format_guid(text, p));
}

/* True when the type is some bytes with a form of their own. */
static bool wpp_read_bytes(struct reader *r, struct wpp_argument *a, struct value *v)
{
    static const uint8_t sizes[] = {[TMF_GUID] = 16, [TMF_IP4] = 4, [TMF_IP6] = 16, [TMF_MAC] = 6};
    size_t n = a->type < sizeof sizes ? sizes[a->type] : 0;
    const uint8_t *p;

    if (a->type == TMF_HEX_DUMP) {
        n = cur_u16le(&r->c);
    } else if (n == 0) {
        return false;
    }
    p = cur_bytes(&r->c, n);
    v->v.bytes.p = p;
    v->v.bytes.n = n;
    v->kind = a->type == TMF_GUID                        ? VALUE_GUID
              : a->type == TMF_IP4 || a->type == TMF_IP6 ? VALUE_ADDRESS
                                                         : VALUE_BYTES;
    if (!p) {
        return true;
    }
    a->text = a->type == TMF_GUID  ? wpp_guid(r, p)
              : a->type == TMF_IP4 ? wpp_ip4(r, p)
              : a->type == TMF_IP6 ? wpp_ip6(r, p)
                                   : wpp_hex(r, p, n, a->type == TMF_MAC ? "-" : " ");
    return true;
}

/* Names of the bits that are set; a bit without name is its number. */
static struct str wpp_set_names(struct reader *r, struct str list, uint64_t u, unsigned bits)
{
    struct decode_text *t = &r->w->text;
    struct str s = {t->p + t->n, 0};
    char number[8];

    for (unsigned i = 0; i < bits; i++) {
        struct str name = tmf_list_name(list, i);

        if (!(u >> i & 1)) {
            continue;
        }
        s.n += s.n ? wpp_keep(r, "|").n : 0;
        if (name.n == 0) {
            (void)snprintf(number, sizeof number, "%u", i);
            s.n += wpp_keep(r, number).n;
        } else {
            s.n += wpp_keep_str(r, name).n;
        }
    }
    return s;
}

/* True when the type is a number with names. */
static bool wpp_read_named(struct reader *r, const struct tmf_item *it, struct wpp_argument *a,
                           struct value *v)
{
    bool list = it->type == TMF_LIST8 || it->type == TMF_LIST16 || it->type == TMF_LIST32;
    struct str text;

    switch (it->type) {
    case TMF_LIST8:
    case TMF_SET8:
        wpp_set(a, v, VALUE_UINT, 8, cur_u8(&r->c));
        break;
    case TMF_LIST16:
    case TMF_SET16:
        wpp_set(a, v, VALUE_UINT, 16, cur_u16le(&r->c));
        break;
    case TMF_LIST32:
    case TMF_SET32:
        wpp_set(a, v, VALUE_UINT, 32, cur_u32le(&r->c));
        break;
    default:
        return false;
    }
    text = list ? tmf_list_name(it->list, a->u) : wpp_set_names(r, it->list, a->u, a->bits);
    if (text.n > 0) {
        wpp_set_text(a, v, VALUE_TEXT, text);
    }
    return true;
}

static void wpp_read_time(struct reader *r, struct wpp_argument *a, struct value *v)
{
    uint64_t filetime = cur_u64le(&r->c);
    char text[CLK_TEXT];
    int64_t ns = clk_from_filetime(filetime);

    wpp_set(a, v, VALUE_UINT, 64, filetime);
    if (filetime && clk_to_filetime(ns) == filetime) {
        v->kind = VALUE_TIME;
        v->v.i = clk_add(ns, r->raw->shift_ns);
        a->text = wpp_keep(r, clk_format_utc(text, sizeof text, v->v.i, 6));
    }
}

static void wpp_read_float(struct reader *r, struct wpp_argument *a, struct value *v)
{
    uint64_t u = a->type == TMF_F64 ? cur_u64le(&r->c) : cur_u32le(&r->c);
    uint32_t u32 = (uint32_t)u;
    char text[40];
    float f;

    if (a->type == TMF_F64) {
        memcpy(&a->f, &u, sizeof a->f);
    } else {
        memcpy(&f, &u32, sizeof f);
        a->f = (double)f;
    }
    (void)snprintf(text, sizeof text, "%g", a->f);
    a->text = wpp_keep(r, text);
    v->kind = VALUE_FLOAT;
    v->bits = a->type == TMF_F64 ? 64 : 32;
    v->v.f = a->f;
}

static void wpp_read_argument(struct reader *r, const struct tmf_item *it, struct wpp_argument *a)
{
    struct value v = {.name = it->name};

    *a = (struct wpp_argument){.type = it->type, .text = {"", 0}};
    if (it->type == TMF_TIME) {
        wpp_read_time(r, a, &v);
    } else if (it->type == TMF_F32 || it->type == TMF_F64) {
        wpp_read_float(r, a, &v);
    } else if (!wpp_read_number(r, a, &v) && !wpp_read_text(r, a, &v) &&
               !wpp_read_bytes(r, a, &v)) {
        (void)wpp_read_named(r, it, a, &v);
    }
    wpp_give(r, &v);
}

/* ---- a record ---- */

static void wpp_give_header(struct reader *r)
{
    struct value v = {.kind = VALUE_UINT, .bits = 32};

    if (r->raw->has_sequence) {
        v.name = str_make("Sequence");
        v.v.u = r->raw->sequence;
        wpp_give(r, &v);
    }
    if (r->raw->has_component) {
        v.name = str_make("Component");
        v.v.u = r->raw->component;
        wpp_give(r, &v);
    }
}

enum err describe_wpp_read(struct wpp *w, const struct tmf_message *m, const struct raw_event *raw,
                           const struct value_sink *sink, size_t *left)
{
    struct reader r = {cur_make(raw->payload, raw->payload_n), w, raw, sink};
    struct value text = {.name = {"Message", 7}, .kind = VALUE_TEXT};

    wpp_give_header(&r);
    *left = raw->payload_n;
    if (!m) {
        wpp_give_bytes(&r, "Payload", raw->payload_n);
        return ERR_OK;
    }
    decode_text_reset(&w->text);
    w->n_arguments = 0;
    while (w->n_arguments < m->n_items && m->items[w->n_arguments].type != TMF_UNKNOWN) {
        wpp_read_argument(&r, &m->items[w->n_arguments], &w->arguments[w->n_arguments]);
        if (r.c.bad) {
            return ERR_CORRUPT;
        }
        w->n_arguments++;
    }
    wpp_text_make(w, m, raw);
    text.v.text = (struct str){(const char *)w->message.p, w->message.n};
    if (w->message.n > 0) {
        wpp_give(&r, &text);
    }
    *left = cur_left(&r.c);
    if (w->n_arguments<m->n_items && * left> 0) {
        wpp_give_bytes(&r, "Rest", *left);
    }
    return ERR_OK;
}
