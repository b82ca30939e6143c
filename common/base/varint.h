/* Numbers of variable length on their way out: seven bits a byte, lowest first (LEB128), as
 * protobuf has them. The way in is in cur.h. The caller has made room. No state. */
#ifndef PROCFLEET_COMMON_BASE_VARINT_H
#define PROCFLEET_COMMON_BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/bits.h"

#define VARINT_MOST 10u /* bytes */

static inline uint64_t varint_zigzag(uint64_t v)
{
    return v << 1 ^ (0 - (v >> 63));
}

static inline uint64_t varint_little_endian(uint64_t x)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? x : __builtin_bswap64(x);
}

static inline uint8_t *varint_put(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* Bytes that varint_put writes: bits / 7 rounded up, as bits × 9 / 64 has it for all of 1 to 64. */
static inline size_t varint_size(uint64_t v)
{
    return (((unsigned)__builtin_clzll(v | 1) ^ 63) * 9 + 73) >> 6;
}

/* As varint_put without a branch, for v below 2^56: how long the numbers are is what a processor
 * cannot predict. Always writes 8 bytes. */
static inline uint8_t *varint_put_short(uint8_t *p, uint64_t v)
{
    unsigned n = (unsigned)varint_size(v); /* 1 to 8 */
    uint64_t x = v;

    x = (x & 0x000000000fffffff) | (x & 0x00fffffff0000000) << 4;
    x = (x & 0x00003fff00003fff) | (x & 0x0fffc0000fffc000) << 2;
    x = (x & 0x007f007f007f007f) | (x & 0x3f803f803f803f80) << 1;
    x |= 0x8080808080808080 & ((UINT64_C(1) << 8 * (n - 1)) - 1);
    x = varint_little_endian(x);
    memcpy(p, &x, sizeof x);
    return p + n;
}

/* The same where bits_quick says yes. */
static inline uint8_t *varint_put_quick(uint8_t *p, uint64_t v)
{
    unsigned n = (unsigned)varint_size(v);
    uint64_t x = bits_scatter(v, 0x7f7f7f7f7f7f7f7f);

    x |= 0x8080808080808080 & ((UINT64_C(1) << 8 * (n - 1)) - 1);
    x = varint_little_endian(x);
    memcpy(p, &x, sizeof x);
    return p + n;
}

#endif
