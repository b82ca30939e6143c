#include "common/codec.h"

#include <stdbool.h>
#include <string.h>

/* A column, in three sections without padding between them:
 *
 *   bases    for each run its first value: zigzag LEB128
 *   bitmaps  for each run one bit per further value, lowest bit first, rounded up to whole bytes:
 *            1 = differs from the value before it
 *   numbers  for each bit that is set, in order, the difference: LEB128, zigzag when moving
 *
 * Differences are taken modulo 2^64, so every value survives. Sections instead of one run after
 * the other, because what follows compresses: like bytes stand beside like. */

#define VARINT_MAX 10u
#define MAP_BITS   64u /* values whose bits are handled at once */
#define SLACK      8u  /* bytes behind the end that put_short may touch */

static inline uint64_t zigzag(uint64_t v)
{
    return v << 1 ^ (0 - (v >> 63));
}

static inline uint64_t unzigzag(uint64_t u)
{
    return u >> 1 ^ (0 - (u & 1));
}

static inline uint64_t little_endian(uint64_t x)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? x : __builtin_bswap64(x);
}

static inline uint8_t *put_varint(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* The same without a branch for v below 2^56: how long the numbers are is what a processor cannot
 * predict. Always writes 8 bytes. */
static inline uint8_t *put_short(uint8_t *p, uint64_t v)
{
    unsigned n = (64u - (unsigned)__builtin_clzll(v | 1) + 6) / 7; /* bytes, 1 to 8 */
    uint64_t x = v;

    x = (x & 0x000000000fffffff) | (x & 0x00fffffff0000000) << 4;
    x = (x & 0x00003fff00003fff) | (x & 0x0fffc0000fffc000) << 2;
    x = (x & 0x007f007f007f007f) | (x & 0x3f803f803f803f80) << 1;
    x |= 0x8080808080808080 & ((UINT64_C(1) << 8 * (n - 1)) - 1);
    x = little_endian(x);
    memcpy(p, &x, sizeof x);
    return p + n;
}

/* Reads one number; NULL when it does not end before `end` or has more than 64 bits. */
static const uint8_t *get_varint(uint64_t *v, const uint8_t *p, const uint8_t *end)
{
    uint64_t u = 0;

    for (unsigned shift = 0; p < end && shift < 70; shift += 7) {
        uint8_t b = *p++;

        u |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *v = u;
            return shift == 63 && b > 1 ? NULL : p;
        }
    }
    return NULL;
}

/* The same, without a branch on the length when it is at most 8 bytes and 8 are there. */
static inline const uint8_t *get_fast(uint64_t *v, const uint8_t *p, const uint8_t *end)
{
    uint64_t x, stop;

    if (end - p < 8) {
        return get_varint(v, p, end);
    }
    memcpy(&x, p, sizeof x);
    x = little_endian(x);
    stop = ~x & 0x8080808080808080;
    if (!stop) {
        return get_varint(v, p, end);
    }
    x &= stop ^ (stop - 1); /* up to and with the byte that ends it */
    x = (x & 0x007f007f007f007f) | (x & 0x7f007f007f007f00) >> 1;
    x = (x & 0x00003fff00003fff) | (x & 0x3fff00003fff0000) >> 2;
    x = (x & 0x000000000fffffff) | (x & 0x0fffffff00000000) >> 4;
    *v = x;
    return p + ((unsigned)__builtin_ctzll(stop) + 1) / 8;
}

static inline size_t bitmap_bytes(uint32_t count)
{
    return ((size_t)count + 6) / 8;
}

size_t codec_bound(size_t n_values, size_t n_runs)
{
    return n_values * (VARINT_MAX + 1) + n_runs + SLACK;
}

/* One run's bitmap to `map` and its numbers to `p`; gives the end of the numbers. */
static inline uint8_t *encode_run(uint8_t *p, uint8_t *map, const int64_t *values, uint32_t count,
                                  bool moving)
{
    for (uint32_t i = 1; i < count; i += MAP_BITS) {
        uint32_t n = count - i < MAP_BITS ? count - i : MAP_BITS;
        const int64_t *v = values + i;
        uint64_t bits = 0;

        for (uint32_t k = 0; k < n; k++) {
            bits |= (uint64_t)(v[k] != v[(int64_t)k - 1]) << k;
        }
        for (uint32_t k = 0; k < n; k += 8) {
            *map++ = (uint8_t)(bits >> k);
        }
        for (; bits; bits &= bits - 1) {
            const int64_t *now = v + __builtin_ctzll(bits);
            uint64_t d = (uint64_t)now[0] - (uint64_t)now[-1];

            d = moving ? zigzag(d) : d;
            p = d >> 56 ? put_varint(p, d) : put_short(p, d);
        }
    }
    return p;
}

size_t codec_encode(uint8_t *out, const int64_t *values, const uint32_t *counts, size_t n_runs,
                    enum codec_mode mode)
{
    const int64_t *v = values;
    uint8_t *p = out, *map;

    for (size_t r = 0; r < n_runs; r++) {
        p = put_varint(p, zigzag((uint64_t)*v));
        v += counts[r];
    }
    map = p;
    for (size_t r = 0; r < n_runs; r++) {
        p += bitmap_bytes(counts[r]);
    }
    v = values;
    for (size_t r = 0; r < n_runs; r++) {
        p = encode_run(p, map, v, counts[r], mode == CODEC_MOVING);
        map += bitmap_bytes(counts[r]);
        v += counts[r];
    }
    return (size_t)(p - out);
}

/* Fills the values behind the first one of a run; NULL when the numbers end too soon, or when there
 * are bits behind the last value. */
static inline const uint8_t *decode_run(int64_t *values, uint32_t count, bool moving,
                                        const uint8_t *map, const uint8_t *p, const uint8_t *end)
{
    uint64_t v = (uint64_t)values[0];

    for (uint32_t i = 1; i < count; i += MAP_BITS) {
        uint32_t n = count - i < MAP_BITS ? count - i : MAP_BITS;
        uint64_t bits = 0;

        for (uint32_t k = 0; k < n; k += 8) {
            bits |= (uint64_t)*map++ << k;
        }
        if (n < MAP_BITS && bits >> n) {
            return NULL;
        }
        memset(values + i, 0, n * sizeof *values);
        for (; bits; bits &= bits - 1) {
            uint64_t d;

            p = get_fast(&d, p, end);
            if (!p) {
                return NULL;
            }
            values[i + (unsigned)__builtin_ctzll(bits)] = (int64_t)(moving ? unzigzag(d) : d);
        }
        for (uint32_t k = 0; k < n; k++) {
            v += (uint64_t)values[i + k];
            values[i + k] = (int64_t)v;
        }
    }
    return p;
}

enum err codec_decode(int64_t *values, const uint32_t *counts, size_t n_runs, enum codec_mode mode,
                      const void *data, size_t n)
{
    const uint8_t *p = data, *end = p + n, *map;
    int64_t *v = values;
    size_t maps = 0;

    for (size_t r = 0; r < n_runs; r++) {
        uint64_t base;

        p = get_varint(&base, p, end);
        if (!p) {
            return ERR_CORRUPT;
        }
        *v = (int64_t)unzigzag(base);
        v += counts[r];
        maps += bitmap_bytes(counts[r]);
    }
    if ((size_t)(end - p) < maps) {
        return ERR_CORRUPT;
    }
    map = p;
    p += maps;
    v = values;
    for (size_t r = 0; r < n_runs && p; r++) {
        p = decode_run(v, counts[r], mode == CODEC_MOVING, map, p, end);
        map += bitmap_bytes(counts[r]);
        v += counts[r];
    }
    return p == end ? ERR_OK : ERR_CORRUPT;
}
