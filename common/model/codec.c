#include "common/model/codec.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/cur.h"
#include "common/base/divisor.h"
#include "common/base/varint.h"

/* A column, in sections without padding between them:
 *
 *   scale    LEB128, at least 1: every value is a multiple of it, and all that follows is divided
 * by it. Scheduler ticks, pages and clock units shrink to small numbers. bases    for each run its
 * first value: zigzag LEB128 bitmaps  for each run one bit per further value, lowest bit first,
 * rounded up to whole bytes: 1 = differs from the value before it numbers  for each bit that is
 * set, in order, the difference: LEB128, zigzag when moving
 *
 * Differences and products are taken modulo 2^64, so every value survives. Sections instead of one
 * run after the other, because of what compresses them: like bytes stand beside like. */

#define MAP_BITS  64u /* values whose bits are handled at once */
#define SHORT_RUN 16u
#define SLACK     8u /* bytes behind the end that varint_put_short may touch */

/* What is done for each number is built twice: for any processor, and for those that gather and
 * scatter bits at once (`quick`, a constant wherever it is looked at). */
#define TWICE __attribute__((always_inline)) static inline

static bool codec_plain; /* by tests, before anybody codes */

void codec_only_plain(bool plain)
{
    codec_plain = plain;
}

static inline bool codec_quick(void)
{
    return bits_quick() && !codec_plain;
}

static inline uint64_t unzigzag(uint64_t u)
{
    return u >> 1 ^ (0 - (u & 1));
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

/* As cur_varint8, where bits_quick says yes. */
static inline uint64_t varint8_quick(uint64_t x, unsigned *n)
{
    uint64_t stop = ~x & 0x8080808080808080;

    *n = stop ? ((unsigned)__builtin_ctzll(stop) + 1) / 8 : 0;
    return bits_gather(x & (stop ^ (stop - 1)), 0x7f7f7f7f7f7f7f7f);
}

/* The same, without a branch on the length when it is at most 8 bytes and 8 are there. */
TWICE const uint8_t *get_fast(uint64_t *v, const uint8_t *p, const uint8_t *end, bool quick)
{
    uint64_t x;
    unsigned n;

    if (end - p < 8) {
        return get_varint(v, p, end);
    }
    memcpy(&x, p, sizeof x);
    x = quick ? varint8_quick(x, &n) : cur_varint8(varint_little_endian(x), &n);
    if (!n) {
        return get_varint(v, p, end);
    }
    *v = x;
    return p + n;
}

static inline size_t bitmap_bytes(uint32_t count)
{
    return ((size_t)count + 6) / 8;
}

size_t codec_bound(size_t n_values, size_t n_runs)
{
    return VARINT_MOST + n_values * (VARINT_MOST + 1) + n_runs + SLACK;
}

/* The largest number that divides all values; 1 when they are all 0, or when the quotients would
 * not be worth it. Most columns show within a few values that it is 1. */
static struct divisor common_divisor(const int64_t *values, size_t n)
{
    struct divisor d = {0};

    for (size_t i = 0; i < n && d.by != 1;) {
        size_t end = i + DIVISOR_MANY < n ? i + DIVISOR_MANY : n;

        if (d.by && end == i + DIVISOR_MANY && divisor_divides_many(&d, values + i)) {
            i = end;
            continue;
        }
        for (; i < end; i++) {
            divisor_add(&d, values[i]); /* also of repeats: that no processor foresees */
        }
    }
    return d.by == 0 || d.by > INT64_MAX ? divisor_make(1) : d;
}

/* One bit for each of n values, at most 64, that differs from the one before it. */
static inline uint64_t differing(const int64_t *v, uint32_t n)
{
    uint64_t bits = 0;
    uint32_t k = 0;

    for (; n - k >= 8; k += 8) {
        unsigned eight = 0;

#pragma GCC unroll 8
        for (unsigned i = 0; i < 8; i++) {
            eight |= (unsigned)(v[k + i] != v[(int64_t)(k + i) - 1]) << i;
        }
        bits |= (uint64_t)eight << k;
    }
    for (; k < n; k++) {
        bits |= (uint64_t)(v[k] != v[(int64_t)k - 1]) << k;
    }
    return bits;
}

/* One run's bitmap to `map` and its numbers to `p`; returns the end of the numbers. */
TWICE uint8_t *encode_run(uint8_t *p, uint8_t *map, const int64_t *values, uint32_t count,
                          const struct divisor *scale, bool moving, bool quick)
{
    for (uint32_t i = 1; i < count; i += MAP_BITS) {
        uint32_t n = count - i < MAP_BITS ? count - i : MAP_BITS;
        const int64_t *v = values + i;
        uint64_t bits = differing(v, n);

        for (uint32_t k = 0; k < n; k += 8) {
            *map++ = (uint8_t)(bits >> k);
        }
        for (; bits; bits &= bits - 1) {
            const int64_t *now = v + __builtin_ctzll(bits);
            uint64_t d = divisor_difference(scale, now[0], now[-1]);

            d = moving ? varint_zigzag(d) : d;
            p = d >> 56 ? varint_put(p, d)
                : quick ? varint_put_quick(p, d)
                        : varint_put_short(p, d);
        }
    }
    return p;
}

TWICE size_t encode(uint8_t *out, const int64_t *values, const uint32_t *counts, size_t n_runs,
                    enum codec_mode mode, bool quick)
{
    const int64_t *v = values;
    uint8_t *p = out, *map;
    struct divisor scale;
    size_t n_values = 0;

    for (size_t r = 0; r < n_runs; r++) {
        n_values += counts[r];
    }
    scale = common_divisor(values, n_values);
    p = varint_put(p, scale.by);
    for (size_t r = 0; r < n_runs; r++) {
        p = varint_put(p, varint_zigzag((uint64_t)divisor_signed(&scale, *v)));
        v += counts[r];
    }
    map = p;
    for (size_t r = 0; r < n_runs; r++) {
        p += bitmap_bytes(counts[r]);
    }
    v = values;
    for (size_t r = 0; r < n_runs; r++) {
        p = encode_run(p, map, v, counts[r], &scale, mode == CODEC_MOVING, quick);
        map += bitmap_bytes(counts[r]);
        v += counts[r];
    }
    return (size_t)(p - out);
}

static size_t encode_quickly(uint8_t *out, const int64_t *values, const uint32_t *counts,
                             size_t n_runs, enum codec_mode mode)
{
    return encode(out, values, counts, n_runs, mode, true);
}

size_t codec_encode(uint8_t *out, const int64_t *values, const uint32_t *counts, size_t n_runs,
                    enum codec_mode mode)
{
    return codec_quick() ? encode_quickly(out, values, counts, n_runs, mode)
                         : encode(out, values, counts, n_runs, mode, false);
}

/* Where a column is being read. */
struct reader {
    const uint8_t *p, *end; /* the numbers left */
    const uint8_t *map;     /* the bitmaps left */
    uint64_t scale;
    bool moving;
};

/* The bits of the next n values, n at most 64; false when there are any behind the last. */
static inline bool take_bits(uint64_t *bits, struct reader *r, uint32_t n)
{
    uint32_t bytes = (n + 7) / 8;
    uint64_t b = 0;

    if (r->end - r->map >= 8) { /* what follows the bitmaps is read, too, and cut off */
        memcpy(&b, r->map, sizeof b);
        b = varint_little_endian(b) & UINT64_MAX >> (64 - 8 * bytes);
    } else {
        for (uint32_t k = 0; k < bytes; k++) {
            b |= (uint64_t)r->map[k] << 8 * k;
        }
    }
    r->map += bytes;
    *bits = b;
    return n == MAP_BITS || b >> n == 0;
}

/* Two values at once, which every processor of 64 bits can. */
typedef int64_t codec_pair __attribute__((vector_size(16), aligned(8), may_alias));

static inline void fill(int64_t *to, const int64_t *end, int64_t v)
{
    const codec_pair two = {v, v};

    for (; end - to >= 4; to += 4) {
        ((codec_pair *)to)[0] = two;
        ((codec_pair *)to)[1] = two;
    }
    for (; to < end; to++) {
        *to = v;
    }
}

/* As decode_run, for runs of at most SHORT_RUN values: how long each of theirs repeats is harder to
 * foresee than all are to add up. */
TWICE bool decode_short_run(int64_t *values, uint32_t count, struct reader *r, bool quick)
{
    uint64_t v = (uint64_t)values[0] * r->scale, scale = r->scale, bits, d;
    const uint8_t *p = r->p;

    values[0] = (int64_t)v;
    if (count == 1) {
        return true;
    }
    if (!take_bits(&bits, r, count - 1)) {
        return false;
    }
    if (!bits) {
        for (uint32_t i = 1; i < count; i++) {
            values[i] = (int64_t)v;
        }
        return true;
    }
    for (uint32_t i = 1; i < count; i++) {
        values[i] = 0;
    }
    for (; bits; bits &= bits - 1) {
        p = get_fast(&d, p, r->end, quick);
        if (!p) {
            return false;
        }
        values[1 + __builtin_ctzll(bits)] = (int64_t)(r->moving ? unzigzag(d) : d);
    }
    for (uint32_t i = 1; i < count; i++) {
        v += (uint64_t)values[i] * scale;
        values[i] = (int64_t)v;
    }
    r->p = p;
    return true;
}

/* Fills a run, whose first place holds its base; false when the numbers end too soon, or when there
 * are bits behind the last value. Most values repeat the one before them. */
TWICE bool decode_run(int64_t *values, uint32_t count, struct reader *r, bool quick)
{
    uint64_t v = (uint64_t)values[0], scale = r->scale;
    int64_t *to = values + 1, *end = values + count;
    const uint8_t *p = r->p;

    v *= scale;
    values[0] = (int64_t)v;
    while (to < end) {
        uint32_t n = end - to < MAP_BITS ? (uint32_t)(end - to) : MAP_BITS;
        int64_t *block = to;
        uint64_t bits, d;

        if (!take_bits(&bits, r, n)) {
            return false;
        }
        for (; bits; bits &= bits - 1) {
            int64_t *moved = block + __builtin_ctzll(bits);

            p = get_fast(&d, p, r->end, quick);
            if (!p) {
                return false;
            }
            for (; to < moved; to++) {
                *to = (int64_t)v;
            }
            v += (r->moving ? unzigzag(d) : d) * scale;
            *to++ = (int64_t)v;
        }
        fill(to, block + n, (int64_t)v);
        to = block + n;
    }
    r->p = p;
    return true;
}

TWICE enum err decode(int64_t *values, const uint32_t *counts, size_t n_runs, enum codec_mode mode,
                      const void *data, size_t n, bool quick)
{
    struct reader r = {.p = data, .moving = mode == CODEC_MOVING};
    int64_t *v = values;
    size_t maps = 0;

    r.end = r.p + n;
    r.p = get_varint(&r.scale, r.p, r.end);
    for (size_t i = 0; i < n_runs && r.p; i++) {
        uint64_t base = 0;

        r.p = get_fast(&base, r.p, r.end, quick);
        *v = (int64_t)unzigzag(base);
        v += counts[i];
        maps += bitmap_bytes(counts[i]);
    }
    if (!r.p || r.scale == 0 || (size_t)(r.end - r.p) < maps) {
        return ERR_CORRUPT;
    }
    r.map = r.p;
    r.p += maps;
    v = values;
    for (size_t i = 0; i < n_runs; i++) {
        if (!(counts[i] <= SHORT_RUN ? decode_short_run(v, counts[i], &r, quick)
                                     : decode_run(v, counts[i], &r, quick))) {
            return ERR_CORRUPT;
        }
        v += counts[i];
    }
    return r.p == r.end ? ERR_OK : ERR_CORRUPT;
}

static enum err decode_quickly(int64_t *values, const uint32_t *counts, size_t n_runs,
                               enum codec_mode mode, const void *data, size_t n)
{
    return decode(values, counts, n_runs, mode, data, n, true);
}

enum err codec_decode(int64_t *values, const uint32_t *counts, size_t n_runs, enum codec_mode mode,
                      const void *data, size_t n)
{
    return codec_quick() ? decode_quickly(values, counts, n_runs, mode, data, n)
                         : decode(values, counts, n_runs, mode, data, n, false);
}

/* -- a part of the runs -- */

/* Bits set in n bytes. */
static size_t count_bits(const uint8_t *p, size_t n)
{
    size_t bits = 0;

    for (; n >= 8; n -= 8, p += 8) {
        uint64_t x;

        memcpy(&x, p, sizeof x);
        bits += (size_t)__builtin_popcountll(x);
    }
    for (; n > 0; n--) {
        bits += (size_t)__builtin_popcount(*p++);
    }
    return bits;
}

/* Behind the next n numbers, whatever they are; NULL when they do not end before `end`. */
static const uint8_t *skip_varints(const uint8_t *p, const uint8_t *end, size_t n)
{
    while (n >= 8 && end - p >= 8) {
        uint64_t x;

        memcpy(&x, p, sizeof x);
        n -= (size_t)__builtin_popcountll(~x & 0x8080808080808080);
        p += 8;
    }
    /* Whole eights may end inside a number: its rest is skipped with the numbers left. */
    for (; n > 0 && p < end; p++) {
        n -= !(*p & 0x80);
    }
    return n == 0 ? p : NULL;
}

/* Reads scale and bases, those in the range to the beginnings of their runs; false when they are
 * not all there. Sets r->map to the range's bitmaps and r->p to its numbers. */
static bool seek_range(struct reader *r, int64_t *values, const uint32_t *counts, size_t n_runs,
                       struct codec_range range)
{
    size_t before = 0, maps = 0;
    uint64_t base = 0;

    r->p = get_varint(&r->scale, r->p, r->end);
    for (size_t i = 0; i < n_runs && r->p; i++) {
        if (i - range.first < range.n) { /* below the first: wraps, and is not less */
            r->p = get_fast(&base, r->p, r->end, false);
            *values = (int64_t)unzigzag(base);
            values += counts[i];
        } else {
            r->p = skip_varints(r->p, r->end, 1);
        }
        before += i < range.first ? bitmap_bytes(counts[i]) : 0;
        maps += bitmap_bytes(counts[i]);
    }
    if (!r->p || r->scale == 0 || (size_t)(r->end - r->p) < maps) {
        return false;
    }
    r->map = r->p + before;
    r->p = skip_varints(r->p + maps, r->end, count_bits(r->p, before));
    return r->p != NULL;
}

enum err codec_decode_range(int64_t *values, const uint32_t *counts, size_t n_runs,
                            struct codec_range range, enum codec_mode mode, const void *data,
                            size_t n)
{
    struct reader r = {.p = data, .moving = mode == CODEC_MOVING};
    bool quick = codec_quick();

    r.end = r.p + n;
    if (!seek_range(&r, values, counts, n_runs, range)) {
        return ERR_CORRUPT;
    }
    for (size_t i = range.first; i < range.first + range.n; i++) {
        if (!(quick ? decode_run(values, counts[i], &r, true)
                    : decode_run(values, counts[i], &r, false))) {
            return ERR_CORRUPT;
        }
        values += counts[i];
    }
    return ERR_OK;
}
