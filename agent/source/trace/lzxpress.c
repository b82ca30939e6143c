#include "agent/source/trace/lzxpress.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/cur.h"

/* The stream is a row of groups: a u32 of 32 flags, used from the highest bit down, then one item
 * for each flag. Flag 0: one literal byte. Flag 1: a u16 token, length in its low 3 bits, distance
 * minus one above them. Longer lengths continue in a nibble (two matches share one byte: the first
 * takes its low half and leaves the high half to the next), then a byte, a u16, a u32.
 *
 * Nearly all of a stream is decoded by groups_fast, which reads and writes more than it needs where
 * both ends are far away; the rest by a loop that checks every byte. The first stops before
 * anything that is wrong, so only the second judges.
 *
 * The position of the shared byte is remembered as a pointer into the input, so the state of the
 * decoder is this struct and nothing else. Every read is checked against the end of the input and
 * every copy against both ends of the output. */
struct lzx {
    const uint8_t *in;
    const uint8_t *in_end;
    uint8_t *out;
    uint8_t *out_start;
    uint8_t *out_end;
    const uint8_t *nibble; /* byte whose high half is still unused, or NULL */
};

#define MIN_MATCH 3
#define GROUP_MAX (4 + 32 * 10) /* bytes of input: a flag word and the longest items */
#define WIDE      32            /* bytes read or written at once, needed or not */

static size_t left(const struct lzx *z)
{
    return (size_t)(z->in_end - z->in);
}

/* The length of a match whose token says 7. False: the input ends or the length is impossible. */
static bool long_length(struct lzx *z, size_t *length)
{
    uint32_t v;

    if (z->nibble) {
        v = *z->nibble >> 4;
        z->nibble = NULL;
    } else {
        if (left(z) < 1) {
            return false;
        }
        z->nibble = z->in++;
        v = *z->nibble & 15;
    }
    if (v < 15) {
        *length = 7 + v + MIN_MATCH;
        return true;
    }
    if (left(z) < 1) {
        return false;
    }
    v = *z->in++;
    if (v < 255) {
        *length = 22 + v + MIN_MATCH;
        return true;
    }
    if (left(z) < 2) {
        return false;
    }
    v = cur_at16le(z->in);
    z->in += 2;
    if (v == 0) {
        if (left(z) < 4) {
            return false;
        }
        v = cur_at32le(z->in);
        z->in += 4;
    }
    *length = (size_t)v + MIN_MATCH;
    return v >= 22;
}

/* Repeats `length` bytes from `distance` back; overlapping repeats what has just been written. */
static void copy_match(struct lzx *z, size_t distance, size_t length)
{
    uint8_t *out = z->out;
    const uint8_t *from = out - distance;
    size_t room = (size_t)(z->out_end - out);

    if (length > room) {
        length = room; /* a match may reach beyond the wanted size */
    }
    z->out += length;
    for (size_t i = 0; i < length; i++) {
        out[i] = from[i];
    }
}

static bool match(struct lzx *z)
{
    size_t length, distance;
    uint32_t token;

    if (left(z) < 2) {
        return false;
    }
    token = cur_at16le(z->in);
    z->in += 2;
    distance = (token >> 3) + 1;
    length = (token & 7) + MIN_MATCH;
    if ((token & 7) == 7 && !long_length(z, &length)) {
        return false;
    }
    if (distance > (size_t)(z->out - z->out_start)) {
        return false;
    }
    copy_match(z, distance, length);
    return true;
}

/* The first n items of a flag word, whose flags stand highest. */
static bool group(struct lzx *z, uint32_t flags, unsigned n)
{
    for (; n > 0 && z->out < z->out_end; n--, flags <<= 1) {
        if (flags & UINT32_C(0x80000000)) {
            if (!match(z)) {
                return false;
            }
            continue;
        }
        if (z->in == z->in_end) {
            return false;
        }
        *z->out++ = *z->in++;
    }
    return true;
}

/* Like long_length where the input certainly suffices; 0 = impossible. */
static inline size_t long_length_fast(struct lzx *z)
{
    uint32_t v;

    if (z->nibble) {
        v = *z->nibble >> 4;
        z->nibble = NULL;
    } else {
        z->nibble = z->in++;
        v = *z->nibble & 15;
    }
    if (v < 15) {
        return 7 + v + MIN_MATCH;
    }
    v = *z->in++;
    if (v < 255) {
        return 22 + v + MIN_MATCH;
    }
    v = cur_at16le(z->in);
    z->in += 2;
    if (v == 0) {
        v = cur_at32le(z->in);
        z->in += 4;
    }
    return v >= 22 ? (size_t)v + MIN_MATCH : 0;
}

/* Repeats in steps of 16 or 8 bytes, so up to WIDE bytes too many. A distance below 8 is first
 * written out to 8 bytes; what stands a multiple of the distance further back is then the same. */
static inline void copy_wide(uint8_t *out, size_t distance, size_t length)
{
    static const uint8_t multiple[8] = {0, 8, 8, 9, 8, 10, 12, 14};
    const uint8_t *from = out - distance;
    size_t i = 0;

    if (distance >= 16) {
        memcpy(out, from, 16);
        memcpy(out + 16, from + 16, 16);
        for (i = 32; i < length; i += 16) {
            memcpy(out + i, from + i, 16);
        }
        return;
    }
    if (distance < 8) {
        for (; i < 8; i++) {
            out[i] = from[i];
        }
        from = out - multiple[distance];
    }
    for (; i < length; i += 8) {
        memcpy(out + i, from + i, 8);
    }
}

/* Whole groups as long as neither end is near: a step is a run of literals, perhaps empty, and a
 * match. Below the 32 flags stands one more set bit, which ends the row. Before a match that is
 * corrupt or comes near the end of the output it stops, in the middle of the group: the careful
 * loop goes on with *n items, whose flags are *flags. */
static void groups_fast(struct lzx *caller, uint32_t *flags, unsigned *n)
{
    struct lzx z = *caller; /* its address stays here, so that it lives in registers */
    uint64_t row = 0;
    bool stop = false;

    while (!stop && left(&z) >= GROUP_MAX + WIDE) {
        row = (uint64_t)cur_at32le(z.in) << 32 | UINT64_C(1) << 31;
        z.in += 4;
        while (row << 1 != 0) {
            size_t room = (size_t)(z.out_end - z.out), length, distance;
            int literals = __builtin_clzll(row);
            struct lzx before;
            uint32_t token;

            stop = room < 2 * WIDE;
            if (stop) {
                break;
            }
            memcpy(z.out, z.in, 8);
            if (literals > 8) { /* rare */
                memcpy(z.out + 8, z.in + 8, WIDE - 8);
            }
            z.out += literals;
            z.in += literals;
            row <<= literals;
            if (row << 1 == 0) {
                break;
            }
            before = z;
            token = cur_at16le(z.in);
            z.in += 2;
            distance = (token >> 3) + 1;
            length = (token & 7) + MIN_MATCH;
            if ((token & 7) == 7) {
                length = long_length_fast(&z);
            }
            stop =
                length == 0 || length > room - 2 * WIDE || distance > (size_t)(z.out - z.out_start);
            if (stop) {
                z = before;
                break;
            }
            copy_wide(z.out, distance, length);
            z.out += length;
            row <<= 1;
        }
    }
    *n = stop ? 63u - (unsigned)__builtin_ctzll(row) : 0;
    *flags = (uint32_t)(row >> 32);
    *caller = z;
}

size_t lzxpress_decode(uint8_t *out, size_t out_n, const uint8_t *in, size_t in_n)
{
    struct lzx z = {in, in + in_n, out, out, out + out_n, NULL};
    uint32_t flags;
    unsigned n;

    groups_fast(&z, &flags, &n);
    if (!group(&z, flags, n)) {
        return (size_t)(z.out - z.out_start);
    }
    while (z.out < z.out_end && left(&z) >= 4) {
        flags = cur_at32le(z.in);
        z.in += 4;
        if (!group(&z, flags, 32)) {
            break;
        }
    }
    return (size_t)(z.out - z.out_start);
}
