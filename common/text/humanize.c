#include "common/text/humanize.h"

#include <stdarg.h>

#include "common/base/clk.h"
#include "common/base/utf8.h"

void humanize_ns(struct buf *out, int64_t ns)
{
    int64_t s = ns / CLK_S;

    if (ns < 0) {
        buf_put_u8(out, '-');
        ns = ns == INT64_MIN ? INT64_MAX : -ns;
        s = ns / CLK_S;
    }
    if (ns < CLK_MS) {
        buf_printf(out, "%dus", (int)(ns / CLK_US));
    } else if (ns < 100 * CLK_MS) {
        int part = (int)((ns + 5 * CLK_US) / (10 * CLK_US));

        buf_printf(out, "%d.%02dms", part / 100, part % 100);
    } else if (s < 60) {
        int ms = (int)((ns + CLK_MS / 2) / CLK_MS);

        buf_printf(out, "%d.%03ds", ms / 1000, ms % 1000);
    } else if (s < 3600) {
        buf_printf(out, "%dm%02ds", (int)(s / 60), (int)(s % 60));
    } else if (s < 86400) {
        buf_printf(out, "%dh%02dm", (int)(s / 3600), (int)(s / 60 % 60));
    } else {
        buf_printf(out, "%lldd%02dh", (long long)(s / 86400), (int)(s / 3600 % 24));
    }
}

void humanize_bytes(struct buf *out, int64_t bytes)
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

void humanize_permille(struct buf *out, int64_t permille)
{
    buf_printf(out, "%.1f%%", (double)permille / 10);
}

void humanize_text(struct buf *out, struct str text)
{
    for (size_t at = 0, len; at < text.n; at += len) {
        char escape[UTF8_ESCAPE];

        len = utf8_harmless(text.p + at, text.n - at);
        if (len > 0) {
            buf_put(out, text.p + at, len);
        } else {
            len = utf8_escape(escape, text.p + at, text.n - at);
            buf_put_str(out, escape);
        }
    }
}

void humanize_line(FILE *to, const char *fmt, ...)
{
    char text[4096];
    struct buf line;
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_init(&line, 16u << 10);
    humanize_text(&line, str_make(text));
    fprintf(to, "%s\n", buf_cstr(&line));
    buf_fini(&line);
}

size_t humanize_width(const char *text, size_t n)
{
    size_t width = 0;

    for (size_t at = 0, len; at < n; at += len) {
        width += utf8_width(utf8_decode(text + at, n - at, &len));
    }
    return width;
}

size_t humanize_prefix(const char *text, size_t n, size_t width)
{
    size_t at = 0;

    for (size_t len, takes; at < n; at += len, width -= takes) {
        takes = utf8_width(utf8_decode(text + at, n - at, &len));
        if (takes > width) {
            break;
        }
    }
    return at;
}
