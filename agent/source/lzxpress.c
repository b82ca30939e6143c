#include "agent/source/lzxpress.h"

#include <stdbool.h>
#include <string.h>

/* The stream is a row of groups: a u32 of 32 flags, used from the highest bit down, then one item
 * for each flag. Flag 0: one literal byte. Flag 1: a u16 token, length in its low 3 bits, distance
 * minus one above them. Longer lengths continue in a nibble (two matches share one byte: the first
 * takes its low half and leaves the high half to the next), then a byte, a u16, a u32.
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
#define SAFE_COPY 16 /* bytes a fast copy may write beyond the match's end */

static size_t left(const struct lzx *z)
{
    return (size_t)(z->in_end - z->in);
}

static uint32_t le16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t le32(const uint8_t *p)
{
    return le16(p) | le16(p + 2) << 16;
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
    v = le16(z->in);
    z->in += 2;
    if (v == 0) {
        if (left(z) < 4) {
            return false;
        }
        v = le32(z->in);
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
    if (distance >= 8 && room >= length + SAFE_COPY) {
        for (size_t i = 0; i < length; i += 8) {
            memcpy(out + i, from + i, 8);
        }
        return;
    }
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
    token = le16(z->in);
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

/* The up to 32 items of one flag word. */
static bool group(struct lzx *z, uint32_t flags)
{
    for (unsigned n = 32; n > 0 && z->out < z->out_end; n--, flags <<= 1) {
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

size_t lzxpress_decode(uint8_t *out, size_t out_n, const uint8_t *in, size_t in_n)
{
    struct lzx z = {in, in + in_n, out, out, out + out_n, NULL};

    while (z.out < z.out_end && left(&z) >= 4) {
        uint32_t flags = le32(z.in);

        z.in += 4;
        if (!group(&z, flags)) {
            break;
        }
    }
    return (size_t)(z.out - z.out_start);
}
