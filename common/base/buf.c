#include "common/base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

void buf_init(struct buf *b, size_t max_bytes)
{
    memset(b, 0, sizeof *b);
    b->max = max_bytes;
}

void buf_fini(struct buf *b)
{
    mem_free(b->p);
    buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
    b->n = 0;
    b->bad = ERR_OK;
}

/* Makes room for n more bytes: doubling, never above the maximum. */
static enum err buf_reserve(struct buf *b, size_t n)
{
    size_t cap = b->cap ? b->cap : 256;
    uint8_t *p;

    if (n > b->max || b->n > b->max - n) {
        return ERR_FULL;
    }
    if (b->n + n <= b->cap) {
        return ERR_OK;
    }
    while (cap < b->n + n) {
        cap = cap > b->max / 2 ? b->max : cap * 2;
    }
    p = mem_realloc_array(b->p, cap, 1);
    if (!p) {
        return ERR_NOMEM;
    }
    assert(cap > b->cap && b->n <= b->cap);
    b->p = p;
    b->cap = cap;
    return ERR_OK;
}

uint8_t *buf_grow(struct buf *b, size_t n)
{
    if (b->bad) {
        return NULL;
    }
    b->bad = buf_reserve(b, n);
    if (b->bad) {
        return NULL;
    }
    b->n += n;
    return b->p ? b->p + b->n - n : NULL;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
    uint8_t *to = n ? buf_grow(b, n) : NULL;

    if (to) {
        memcpy(to, p, n);
    }
}

void buf_put_u8(struct buf *b, uint8_t v)
{
    buf_put(b, &v, 1);
}

/* The low n bytes of v, little end first. */
static void put_le(struct buf *b, uint64_t v, size_t n)
{
    uint8_t bytes[8];

    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)(v >> 8 * i);
    }
    buf_put(b, bytes, n);
}

void buf_put_u16le(struct buf *b, uint16_t v)
{
    put_le(b, v, 2);
}

void buf_put_u32le(struct buf *b, uint32_t v)
{
    put_le(b, v, 4);
}

void buf_put_u64le(struct buf *b, uint64_t v)
{
    put_le(b, v, 8);
}

void buf_put_varint(struct buf *b, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;

    while (v >= 0x80) {
        bytes[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    bytes[n++] = (uint8_t)v;
    buf_put(b, bytes, n);
}

void buf_put_svarint(struct buf *b, int64_t v)
{
    buf_put_varint(b, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

void buf_put_str(struct buf *b, const char *s)
{
    buf_put(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (b->bad || n <= 0) {
        return;
    }
    b->bad = buf_reserve(b, (size_t)n + 1);
    if (b->bad) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf((char *)b->p + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
}

static void put_utf8(struct buf *b, uint32_t c)
{
    uint8_t u[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};

    for (size_t i = n; i-- > 1;) {
        u[i] = (uint8_t)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    u[0] = (uint8_t)(lead[n == 1 ? 0 : n] | c);
    buf_put(b, u, n);
}

void buf_put_utf16le(struct buf *b, const void *utf16le, size_t n_units)
{
    const uint8_t *p = utf16le;

    for (size_t i = 0; i < n_units; i++) {
        uint32_t c = (uint32_t)(p[2 * i] | p[2 * i + 1] << 8);

        if (c >= 0xD800 && c < 0xDC00 && i + 1 < n_units && (p[2 * i + 3] & 0xFC) == 0xDC) {
            uint32_t low = (uint32_t)(p[2 * i + 2] | p[2 * i + 3] << 8);

            c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
            i++;
        } else if (c >= 0xD800 && c < 0xE000) {
            c = 0xFFFD;
        }
        put_utf8(b, c);
    }
}

const char *buf_cstr(struct buf *b)
{
    if (b->bad || buf_reserve(b, 1)) {
        return "";
    }
    b->p[b->n] = '\0';
    return (const char *)b->p;
}
