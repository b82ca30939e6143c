/* A read cursor over bytes from outside. Failure latches: reading past the end returns zeros, sets
 * `bad`; the caller checks once at the end and publishes only a complete result. */
#ifndef PROCFLEET_COMMON_BASE_CUR_H
#define PROCFLEET_COMMON_BASE_CUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Loads at fixed places, for hot paths that have checked the length once. */
static inline uint16_t cur_at16le(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t cur_at32le(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t cur_at64le(const uint8_t *p)
{
    return cur_at32le(p) | (uint64_t)cur_at32le(p + 4) << 32;
}

struct cur {
    const uint8_t *p;
    const uint8_t *end;
    bool bad;
};

static inline struct cur cur_make(const void *p, size_t n)
{
    struct cur c = {p, p, false};

    if (n) { /* p may be NULL otherwise */
        c.end = c.p + n;
    }
    return c;
}

static inline size_t cur_left(const struct cur *c)
{
    return (size_t)(c->end - c->p);
}

/* n bytes as they stand; NULL (and bad) when fewer are left. */
static inline const uint8_t *cur_bytes(struct cur *c, size_t n)
{
    const uint8_t *p = c->p;

    if (c->bad || cur_left(c) < n) {
        c->bad = true;
        return NULL;
    }
    c->p += n;
    return p;
}

static inline void cur_skip(struct cur *c, size_t n)
{
    (void)cur_bytes(c, n);
}

static inline uint8_t cur_u8(struct cur *c)
{
    const uint8_t *p = cur_bytes(c, 1);

    return p ? p[0] : 0;
}

static inline uint16_t cur_u16le(struct cur *c)
{
    const uint8_t *p = cur_bytes(c, 2);

    return p ? cur_at16le(p) : 0;
}

static inline uint32_t cur_u32le(struct cur *c)
{
    const uint8_t *p = cur_bytes(c, 4);

    return p ? cur_at32le(p) : 0;
}

static inline uint64_t cur_u64le(struct cur *c)
{
    uint64_t lo = cur_u32le(c);

    return lo | (uint64_t)cur_u32le(c) << 32;
}

static inline uint16_t cur_u16be(struct cur *c)
{
    const uint8_t *p = cur_bytes(c, 2);

    return (uint16_t)(p ? p[0] << 8 | p[1] : 0);
}

/* A pointer-sized value: 4 or 8 bytes. */
static inline uint64_t cur_uptr(struct cur *c, unsigned pointer_size)
{
    return pointer_size == 8 ? cur_u64le(c) : cur_u32le(c);
}

/* Of a number in LEB128 whose first 8 bytes are x, the value; *n = its bytes, 0 when it is longer.
 * Without a branch on the length: that is what a processor cannot predict. */
static inline uint64_t cur_varint8(uint64_t x, unsigned *n)
{
    uint64_t stop = ~x & 0x8080808080808080;

    *n = stop ? ((unsigned)__builtin_ctzll(stop) + 1) / 8 : 0;
    x &= stop ^ (stop - 1); /* up to and with the byte that ends it */
    x = (x & 0x007f007f007f007f) | (x & 0x7f007f007f007f00) >> 1;
    x = (x & 0x00003fff00003fff) | (x & 0x3fff00003fff0000) >> 2;
    return (x & 0x000000000fffffff) | (x & 0x0fffffff00000000) >> 4;
}

/* Byte by byte: near the end, and what is longer than 8. */
static inline uint64_t cur_varint_slow(struct cur *c)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t b = cur_u8(c);

        if (c->bad || (shift == 63 && b > 1)) {
            break;
        }
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            return v;
        }
    }
    c->bad = true;
    return 0;
}

/* LEB128, at most 10 bytes; longer or overflowing input is bad. */
static inline uint64_t cur_varint(struct cur *c)
{
    unsigned n = 0;
    uint64_t v = 0;

    if (!c->bad && cur_left(c) >= 8) {
        v = cur_varint8(cur_at64le(c->p), &n);
        c->p += n;
    }
    return n ? v : cur_varint_slow(c);
}

static inline int64_t cur_svarint(struct cur *c)
{
    uint64_t u = cur_varint(c);

    return (int64_t)(u >> 1 ^ (0 - (u & 1)));
}

/* NUL-terminated 8-bit text: returns its start and sets *n to its length without the NUL. */
static inline const char *cur_cstr(struct cur *c, size_t *n)
{
    const uint8_t *nul = c->bad || c->p == c->end ? NULL : memchr(c->p, 0, cur_left(c));
    const char *s = (const char *)c->p;

    *n = 0;
    if (!nul) {
        c->bad = true;
        return NULL;
    }
    *n = (size_t)(nul - c->p);
    c->p = nul + 1;
    return s;
}

/* NUL-terminated UTF-16LE text: returns its first byte and sets *n_units to its length in units.
 * Four units at a time: payloads are mostly text. */
static inline const uint8_t *cur_wstr(struct cur *c, size_t *n_units)
{
    const uint8_t *start = c->p, *p = start;

    while (!c->bad && c->end - p >= 8) {
        uint64_t x = cur_at64le(p);
        uint64_t zero = (x - 0x0001000100010001) & ~x & 0x8000800080008000; /* lowest is exact */

        if (zero) {
            p += (size_t)__builtin_ctzll(zero) / 16 * 2;
            break;
        }
        p += 8;
    }
    for (; !c->bad && c->end - p >= 2 && (p[0] || p[1]); p += 2) {
    }
    c->bad |= c->end - p < 2;
    c->p = c->bad ? start : p + 2;
    *n_units = c->bad ? 0 : (size_t)(p - start) / 2;
    return c->bad ? NULL : start;
}

#endif
