#include "common/human.h"

#include <stdbool.h>

#include "common/clk.h"
#include "common/width.h"

void human_ns(struct buf *out, int64_t ns)
{
    int64_t s = ns / CLK_S;

    if (ns < 0) {
        buf_put_u8(out, '-');
        ns = ns == INT64_MIN ? INT64_MAX : -ns;
        s = ns / CLK_S;
    }
    if (ns < CLK_MS) {
        buf_printf(out, "%dus", (int)(ns / CLK_US));
    } else if (s < 60) {
        buf_printf(out, "%d.%03ds", (int)s, (int)(ns % CLK_S / CLK_MS));
    } else if (s < 3600) {
        buf_printf(out, "%dm%02ds", (int)(s / 60), (int)(s % 60));
    } else if (s < 86400) {
        buf_printf(out, "%dh%02dm", (int)(s / 3600), (int)(s / 60 % 60));
    } else {
        buf_printf(out, "%lldd%02dh", (long long)(s / 86400), (int)(s / 3600 % 24));
    }
}

void human_bytes(struct buf *out, int64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes / 1024;
    size_t u = 0;

    if (bytes > -1024 && bytes < 1024) {
        buf_printf(out, "%dB", (int)bytes);
        return;
    }
    while ((v >= 1023.95 || v <= -1023.95) && u + 1 < sizeof units / sizeof *units) {
        v /= 1024;
        u++;
    }
    buf_printf(out, "%.1f%s", v, units[u]);
}

void human_permille(struct buf *out, int64_t permille)
{
    buf_printf(out, "%.1f%%", (double)permille / 10);
}

/* One character's code point and length; bytes that are no UTF-8 stand for themselves. */
static uint32_t decode(const uint8_t *p, size_t n, size_t *len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t need = p[0] < 0x80 ? 1 : p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : p[0] >= 0xC0 ? 2 : 1;
    uint32_t c = need == 1 ? p[0] : p[0] & (0xFFu >> (need + 1));
    bool good = need <= n && p[0] < 0xF8;

    for (size_t i = 1; i < need && good; i++) {
        good = (p[i] & 0xC0) == 0x80;
        c = c << 6 | (p[i] & 0x3F);
    }
    if (!good || c < least[need] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
        *len = 1;
        return p[0];
    }
    *len = need;
    return c;
}

static bool is_dangerous(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

void human_text(struct buf *out, struct str text)
{
    const uint8_t *p = (const uint8_t *)text.p;

    for (size_t at = 0, len; at < text.n; at += len) {
        uint32_t c = decode(p + at, text.n - at, &len);

        bool stray = len == 1 && c >= 0x80;

        if (!stray && !is_dangerous(c)) {
            buf_put(out, p + at, len);
        } else if (c < 0x100) {
            buf_printf(out, "\\x%02x", (unsigned)c);
        } else {
            buf_printf(out, "\\u%04x", (unsigned)c);
        }
    }
}

size_t human_utf8(const char *text, size_t n)
{
    size_t at = 0;

    for (size_t len; at < n; at += len) {
        if (decode((const uint8_t *)text + at, n - at, &len) >= 0x80 && len == 1) {
            break;
        }
    }
    return at;
}

size_t human_width(const char *text, size_t n)
{
    size_t width = 0;

    for (size_t at = 0, len; at < n; at += len) {
        width += width_of(decode((const uint8_t *)text + at, n - at, &len));
    }
    return width;
}

size_t human_prefix(const char *text, size_t n, size_t width)
{
    size_t at = 0;

    for (size_t len, takes; at < n; at += len, width -= takes) {
        takes = width_of(decode((const uint8_t *)text + at, n - at, &len));
        if (takes > width) {
            break;
        }
    }
    return at;
}

uint32_t human_decode(const char *text, size_t n, size_t *len)
{
    return decode((const uint8_t *)text, n, len);
}
