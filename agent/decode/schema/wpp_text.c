/* A message's text refers to its arguments by number: %10!d! is number 10 shown by %d, %10 alone
 * by its own text. Below ten are things of the record: %1 component, %2 file and line, %3 thread,
 * %4 time, %7 sequence, %8 process, %9 CPU; %0 is nothing. %!FUNC!, %!LEVEL! and %!FLAGS! are told
 * by the message file. */
#include "agent/decode/schema/wpp_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"

#define WIDTH_MAX 1024 /* of a format; larger ones are cut */

struct format {
    bool minus, zero, plus, blank, alternate;
    unsigned width, precision;
    bool has_precision;
    char conversion;
};

static const char *digits(const char *p, const char *end, unsigned *out)
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
static struct format format_read(const char *p, const char *end)
{
    struct format f = {.conversion = 's'};

    for (; p < end && *p && strchr("-0+ #", *p); p++) {
        f.minus |= *p == '-';
        f.zero |= *p == '0';
        f.plus |= *p == '+';
        f.blank |= *p == ' ';
        f.alternate |= *p == '#';
    }
    p = digits(p, end, &f.width);
    if (p < end && *p == '.') {
        f.has_precision = true;
        p = digits(p + 1, end, &f.precision);
    }
    if (p < end) {
        f.conversion = end[-1];
    }
    return f;
}

static void repeat(struct buf *out, char c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_put_u8(out, (uint8_t)c);
    }
}

static void put_padded(struct buf *out, const struct format *f, const char *p, size_t n)
{
    size_t pad = f->width > n ? f->width - n : 0;

    if (!f->minus) {
        repeat(out, ' ', pad);
    }
    buf_put(out, p, n);
    if (f->minus) {
        repeat(out, ' ', pad);
    }
}

static void put_text(struct buf *out, const struct format *f, struct str s)
{
    size_t n = f->has_precision && f->precision < s.n ? f->precision : s.n;

    while (n > 0 && n < s.n && ((uint8_t)s.p[n] & 0xc0) == 0x80) {
        n--; /* not within a character */
    }
    put_padded(out, f, s.p, n);
}

/* Digits of a number, the last first; gives how many. */
static size_t digits_of(char *out, uint64_t u, unsigned base, bool upper)
{
    size_t n = 0;

    do {
        out[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
        u /= base;
    } while (u);
    return n;
}

static void put_digits(struct buf *out, const struct format *f, const char *prefix, uint64_t u,
                       unsigned base)
{
    char reversed[24];
    size_t n = digits_of(reversed, u, base, f->conversion == 'X' || f->conversion == 'p');
    size_t least = f->has_precision ? f->precision : 1;
    size_t zeros = least > n ? least - n : 0;
    size_t size = strlen(prefix) + zeros + n;
    size_t pad = f->width > size ? f->width - size : 0;

    if (f->zero && !f->minus && !f->has_precision) {
        zeros += pad;
        pad = 0;
    }
    if (!f->minus) {
        repeat(out, ' ', pad);
    }
    buf_put_str(out, prefix);
    repeat(out, '0', zeros);
    while (n-- > 0) {
        buf_put_u8(out, (uint8_t)reversed[n]);
    }
    if (f->minus) {
        repeat(out, ' ', pad);
    }
}

static uint64_t cut_to(uint64_t u, unsigned bits)
{
    return bits < 64 ? u & ((UINT64_C(1) << bits) - 1) : u;
}

static void put_signed(struct buf *out, const struct format *f, const struct wpp_argument *a)
{
    uint64_t sign = UINT64_C(1) << (a->bits - 1);
    uint64_t u = (cut_to(a->u, a->bits) ^ sign) - sign;
    bool negative = u >> 63;

    put_digits(out, f,
               negative   ? "-"
               : f->plus  ? "+"
               : f->blank ? " "
                          : "",
               negative ? 0 - u : u, 10);
}

static void put_char(struct buf *out, const struct format *f, uint64_t u)
{
    uint8_t unit[2] = {(uint8_t)u, (uint8_t)(u >> 8)};
    struct buf one;

    buf_init(&one, 16);
    buf_put_utf16le(&one, unit, 1);
    put_padded(out, f, (const char *)one.p, one.n);
    buf_fini(&one);
}

static void put_number(struct buf *out, const struct format *f, const struct wpp_argument *a)
{
    struct format pointer = *f;
    uint64_t u = cut_to(a->u, a->bits);

    switch (f->conversion) {
    case 'd':
    case 'i':
        put_signed(out, f, a);
        return;
    case 'u':
        put_digits(out, f, "", u, 10);
        return;
    case 'o':
        put_digits(out, f, f->alternate ? "0" : "", u, 8);
        return;
    case 'x':
        put_digits(out, f, f->alternate ? "0x" : "", u, 16);
        return;
    case 'X':
        put_digits(out, f, f->alternate ? "0X" : "", u, 16);
        return;
    case 'p':
        pointer.has_precision = true;
        pointer.precision = a->bits / 4;
        put_digits(out, &pointer, "", u, 16);
        return;
    case 'c':
    case 'C':
        put_char(out, f, u);
        return;
    default:
        break;
    }
    if (a->type == TMF_STATUS || a->type == TMF_PTR) {
        put_digits(out, &(struct format){.conversion = 'x', .has_precision = true, .precision = 8},
                   "0x", u, 16);
    } else if (a->type == TMF_I8 || a->type == TMF_I16 || a->type == TMF_I32 ||
               a->type == TMF_I64 || a->type == TMF_DELTA) {
        put_signed(out, f, a);
    } else {
        put_digits(out, f, "", u, 10);
    }
}

static void put_float(struct buf *out, const struct format *f, const struct wpp_argument *a)
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
    put_padded(out, f, text, strlen(text));
}

static void put_argument(struct wpp *w, const struct tmf_message *m, unsigned number,
                         const struct format *f)
{
    for (size_t i = 0; i < w->n_arguments; i++) {
        const struct wpp_argument *a = &w->arguments[i];

        if (m->items[i].number != number) {
            continue;
        }
        if (a->type == TMF_F32 || a->type == TMF_F64) {
            put_float(&w->message, f, a);
        } else if (a->bits && (a->text.n == 0 || !strchr("sS", f->conversion))) {
            put_number(&w->message, f, a);
        } else {
            put_text(&w->message, f, a->text);
        }
        return;
    }
    buf_put_str(&w->message, "<missing>");
}

/* Below ten: of the record itself. */
static void put_standard(struct wpp *w, const struct tmf_message *m, const struct raw_event *raw,
                         unsigned number)
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
static const char *put_named(struct wpp *w, const struct tmf_message *m, const char *p,
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
static const char *put_reference(struct wpp *w, const struct tmf_message *m,
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
        return put_named(w, m, p, end);
    }
    if (*p < '0' || *p > '9') {
        buf_put_u8(&w->message, '%');
        return p;
    }
    p = digits(p, end, &number);
    if (p < end && *p == '!') {
        close = memchr(p + 1, '!', (size_t)(end - p - 1));
    }
    if (close) {
        f = format_read(p + 1, close);
        p = close + 1;
    }
    if (number < 10) {
        put_standard(w, m, raw, number);
    } else {
        put_argument(w, m, number, &f);
    }
    return p;
}

void wpp_text_make(struct wpp *w, const struct tmf_message *m, const struct raw_event *raw)
{
    const char *p = m->text.p, *end = p + m->text.n;

    buf_reset(&w->message);
    while (p < end && !w->message.bad) {
        const char *percent = memchr(p, '%', (size_t)(end - p));
        size_t plain = percent ? (size_t)(percent - p) : (size_t)(end - p);

        buf_put(&w->message, p, plain);
        p += plain;
        if (percent && ++p < end) {
            p = put_reference(w, m, raw, p, end);
        }
    }
}
