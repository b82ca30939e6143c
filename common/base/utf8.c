#include "common/base/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/width.h"

uint32_t utf8_decode(const char *text, size_t n, size_t *len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *p = (const uint8_t *)text;
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

static bool is_stray(uint32_t c, size_t len)
{
    return c >= 0x80 && len == 1;
}

size_t utf8_whole(const char *text, size_t n)
{
    size_t at = 0;

    for (size_t len; at < n; at += len) {
        uint32_t c = utf8_decode(text + at, n - at, &len);

        if (is_stray(c, len)) {
            break;
        }
    }
    return at;
}

size_t utf8_harmless(const char *text, size_t n)
{
    unsigned marks = UTF8_MARKS_MAX; /* the first has nothing below it */
    size_t at = 0;

    for (size_t len; at < n; at += len) {
        uint32_t c = utf8_decode(text + at, n - at, &len);

        marks = width_of(c) > 0 ? 0 : marks + 1;
        if (is_stray(c, len) || width_is_hidden(c) || marks > UTF8_MARKS_MAX) {
            break;
        }
    }
    return at;
}

size_t utf8_escape(char out[UTF8_ESCAPE], const char *text, size_t n)
{
    size_t len;
    uint32_t c = utf8_decode(text, n, &len);

    (void)snprintf(out, UTF8_ESCAPE,
                   c < 0x100     ? "\\x%02x"
                   : c < 0x10000 ? "\\u%04x"
                                 : "\\U%08x",
                   (unsigned)c);
    return len;
}

size_t utf8_escape_json(char out[UTF8_ESCAPE], const char *text, size_t n)
{
    size_t len;
    uint32_t c = utf8_decode(text, n, &len);

    if (c >= 0x10000) {
        (void)snprintf(out, UTF8_ESCAPE, "\\u%04x\\u%04x", (unsigned)(0xD7C0 + (c >> 10)) & 0xFFFF,
                       (unsigned)(0xDC00 + (c & 0x3FF)));
    } else {
        (void)snprintf(out, UTF8_ESCAPE, "\\u%04x", is_stray(c, len) ? 0xFFFDu : (unsigned)c);
    }
    return len;
}

static size_t clean(char *out, size_t size, const char *text, size_t n,
                    size_t (*make)(char out[UTF8_ESCAPE], const char *text, size_t n))
{
    size_t made = 0;

    for (size_t at = 0, len; at < n; at += len) {
        size_t room = size - 1 - made, put = utf8_harmless(text + at, n - at);
        char escape[UTF8_ESCAPE];
        const char *from = text + at;

        len = put;
        if (put > room) {
            put = utf8_harmless(from, room); /* no half of a character */
            n = at;
        } else if (put == 0) {
            len = make(escape, from, n - at);
            from = escape;
            put = strlen(escape);
        }
        if (put > room) {
            break;
        }
        memcpy(out + made, from, put);
        made += put;
    }
    out[made] = '\0';
    return made;
}

size_t utf8_clean(char *out, size_t size, const char *text, size_t n)
{
    return clean(out, size, text, n, utf8_escape);
}

size_t utf8_clean_json(char *out, size_t size, const char *text, size_t n)
{
    return clean(out, size, text, n, utf8_escape_json);
}
