#include "common/codec.h"

#include <stdbool.h>

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

static inline uint64_t zigzag(uint64_t v)
{
    return v << 1 ^ (0 - (v >> 63));
}

static inline uint64_t unzigzag(uint64_t u)
{
    return u >> 1 ^ (0 - (u & 1));
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

/* Reads one number; NULL when it does not end before `end` or has more than 64 bits. */
static inline const uint8_t *get_varint(uint64_t *v, const uint8_t *p, const uint8_t *end)
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

static inline size_t bitmap_bytes(uint32_t count)
{
    return ((size_t)count + 6) / 8;
}

size_t codec_bound(size_t n_values, size_t n_runs)
{
    return n_values * (VARINT_MAX + 1) + n_runs;
}

/* One run's bitmap to `map` and its numbers to `p`; gives the end of the numbers. */
static uint8_t *encode_run(uint8_t *p, uint8_t *map, const int64_t *values, uint32_t count,
                           bool moving)
{
    uint64_t before = (uint64_t)values[0];

    for (uint32_t i = 1; i < count; i += 8) {
        uint32_t stop = count - i < 8 ? count - i : 8;
        uint8_t bits = 0;

        for (uint32_t k = 0; k < stop; k++) {
            uint64_t now = (uint64_t)values[i + k];
            uint64_t d = now - before;

            if (d) {
                bits |= (uint8_t)(1u << k);
                p = put_varint(p, moving ? zigzag(d) : d);
            }
            before = now;
        }
        *map++ = bits;
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

/* Fills the values behind the first one of a run; NULL when the numbers end too soon. */
static const uint8_t *decode_run(int64_t *values, uint32_t count, bool moving, const uint8_t *map,
                                 const uint8_t *p, const uint8_t *end)
{
    uint64_t v = (uint64_t)values[0];

    for (uint32_t i = 1; i < count; i += 8) {
        uint32_t stop = count - i < 8 ? count - i : 8;
        unsigned bits = *map++;

        for (uint32_t k = 0; k < stop; k++, bits >>= 1) {
            uint64_t d;

            if (bits & 1) {
                if (p < end && *p < 0x80) {
                    d = *p++;
                } else {
                    p = get_varint(&d, p, end);
                    if (!p) {
                        return NULL;
                    }
                }
                v += moving ? unzigzag(d) : d;
            }
            values[i + k] = (int64_t)v;
        }
        if (bits) {
            return NULL; /* bits behind the last value */
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
