#include "agent/decode/decode_text.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/sid.h"

#define REPLACEMENT 0xfffd

static size_t room(const struct decode_text *t, size_t max_bytes)
{
    size_t left = sizeof t->p - t->n;

    return left < max_bytes ? left : max_bytes;
}

static size_t utf8_put(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* One character of at least one unit that is there. */
static uint32_t utf16_get(struct cur *c)
{
    uint32_t u = cur_u16le(c);
    struct cur ahead = *c;
    uint32_t low;

    if (u < 0xd800 || u > 0xdfff) {
        return u;
    }
    low = cur_u16le(&ahead);
    if (u > 0xdbff || ahead.bad || low < 0xdc00 || low > 0xdfff) {
        return REPLACEMENT;
    }
    *c = ahead;
    return 0x10000 + ((u & 0x3ff) << 10) + (low & 0x3ff);
}

/* Copies what is ASCII, as most texts are, four units at a time. Returns the bytes written. */
static size_t ascii_put(char *out, size_t left, struct cur *c)
{
    const uint8_t *p = c->p;
    size_t n = 0;

    for (; c->end - p >= 8 && left - n >= 4; p += 8, n += 4) {
        uint64_t x = cur_at64le(p);

        if (x & 0xff80ff80ff80ff80) {
            break;
        }
        x |= x >> 8;
        x = (x & 0xffff) | (x >> 16 & 0xffff0000);
        out[n] = (char)x;
        out[n + 1] = (char)(x >> 8);
        out[n + 2] = (char)(x >> 16);
        out[n + 3] = (char)(x >> 24);
    }
    c->p = p;
    return n;
}

struct str decode_text_utf16(struct decode_text *t, const uint8_t *utf16le, size_t n_units,
                             size_t max_bytes, bool *cut)
{
    struct cur c = cur_make(utf16le, 2 * n_units);
    size_t left = room(t, max_bytes);
    struct str s = {t->p + t->n, 0};
    char one[4];
    bool full = false;

    while (cur_left(&c) >= 2 && !full) {
        size_t n;

        s.n += ascii_put(t->p + t->n + s.n, left - s.n, &c);
        if (cur_left(&c) < 2) {
            break;
        }
        n = utf8_put(one, utf16_get(&c));
        full = n > left - s.n;
        if (!full) {
            memcpy(t->p + t->n + s.n, one, n);
            s.n += n;
        }
    }
    t->n += s.n;
    if (cut) {
        *cut = full;
    }
    return s;
}

/* Length of the valid UTF-8 character at s, 0 when it is none. */
static size_t utf8_length(const uint8_t *s, size_t n)
{
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (length == 0 || s[0] > 0xf4 || length > n) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* Overlong forms, surrogates, beyond U+10FFFF. */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) {
        return 0;
    }
    return length;
}

/* Bytes up to max that form whole characters; SIZE_MAX when s is not UTF-8. */
static size_t utf8_prefix(const uint8_t *s, size_t n, size_t max)
{
    size_t at = 0, fits = 0;

    while (at < n) {
        size_t length = utf8_length(s + at, n - at);

        if (length == 0) {
            return SIZE_MAX;
        }
        at += length;
        if (at <= max) {
            fits = at;
        }
    }
    return fits;
}

struct str decode_text_8bit(struct decode_text *t, const char *s, size_t n, size_t max_bytes)
{
    const uint8_t *u = (const uint8_t *)s;
    size_t fits = utf8_prefix(u, n, max_bytes), left;
    struct str out = {s, fits};

    if (fits != SIZE_MAX) {
        return out;
    }
    left = room(t, max_bytes);
    out = (struct str){t->p + t->n, 0};
    for (size_t i = 0; i < n && left - out.n >= 2; i++) {
        out.n += utf8_put(t->p + t->n + out.n, u[i]);
    }
    t->n += out.n;
    return out;
}

struct str decode_text_sid_at(struct decode_text *t, struct cur *c)
{
    size_t size = c->bad ? 0 : sid_bytes(c->p, cur_left(c));
    const uint8_t *sid = size ? cur_bytes(c, size) : NULL;
    struct str out = {t->p + t->n, 0};
    char text[SID_TEXT_SIZE];

    if (!sid) {
        c->bad = true;
        return (struct str){"", 0};
    }
    out.n = sid_text(text, sizeof text, sid, size);
    if (out.n > room(t, sizeof text)) {
        out.n = 0;
    }
    memcpy(t->p + t->n, text, out.n);
    t->n += out.n;
    return out;
}

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i]) {
            return false;
        }
    }
    return true;
}

/* Replayed records have a null TOKEN_USER with a SID all the same; that is believed where the bytes
 * behind it look like one. */
struct str decode_text_user_at(struct decode_text *t, struct cur *c, unsigned pointer_size)
{
    size_t token = 2u * pointer_size;
    struct cur peek = *c;

    if (cur_u32le(&peek) == 0 && (cur_left(c) < token || !all_zero(c->p, token) ||
                                  !sid_bytes(c->p + token, cur_left(c) - token))) {
        cur_skip(c, 4);
        return (struct str){"", 0};
    }
    cur_skip(c, token);
    return decode_text_sid_at(t, c);
}
