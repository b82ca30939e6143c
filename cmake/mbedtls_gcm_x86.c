/* mbedTLS codes and hashes one block after the other, and each step waits for the one before:
 * 0.35 GB/s. Here eight blocks are under way at once, and the eight products of their hash are
 * summed before the one reduction:
 *
 *   hash' = (hash ^ c1) h^8 ^ c2 h^7 ^ ... ^ c8 h
 *
 * The arithmetic is that of mbedTLS's aesni.c (Intel's white paper on carry-less multiplication,
 * algorithms 1 and 5), on blocks whose bytes are reversed. No branch and no address depends on key
 * or data. */
#include "cmake/mbedtls_gcm_x86.h"

#include <immintrin.h>
#include <mbedtls/platform_util.h>

#define WIDE   8
#define TARGET __attribute__((target("aes,pclmul,ssse3")))

/* A product that is not reduced yet: 128 bits low and high, and those that overlap both. */
struct product {
    __m128i low, middle, high;
};

static inline TARGET __m128i load(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline TARGET void store(unsigned char *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)(void *)p, v);
}

static inline TARGET __m128i reversed(__m128i v)
{
    return _mm_shuffle_epi8(v, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

static inline TARGET void add_product(struct product *p, __m128i a, __m128i b)
{
    __m128i middle =
        _mm_xor_si128(_mm_clmulepi64_si128(a, b, 0x10), _mm_clmulepi64_si128(a, b, 0x01));

    p->low = _mm_xor_si128(p->low, _mm_clmulepi64_si128(a, b, 0x00));
    p->high = _mm_xor_si128(p->high, _mm_clmulepi64_si128(a, b, 0x11));
    p->middle = _mm_xor_si128(p->middle, middle);
}

/* high:low one bit to the left: bits are reflected, and a product of 128 by 128 has 255. */
static inline TARGET void shift(__m128i *low, __m128i *high)
{
    __m128i l = _mm_srli_epi64(*low, 63), h = _mm_srli_epi64(*high, 63);

    *high = _mm_or_si128(_mm_slli_epi64(*high, 1),
                         _mm_or_si128(_mm_slli_si128(h, 8), _mm_srli_si128(l, 8)));
    *low = _mm_or_si128(_mm_slli_epi64(*low, 1), _mm_slli_si128(l, 8));
}

/* Modulo x^128 + x^7 + x^2 + x + 1. */
static inline TARGET __m128i reduce(const struct product *p)
{
    __m128i low = _mm_xor_si128(p->low, _mm_slli_si128(p->middle, 8));
    __m128i high = _mm_xor_si128(p->high, _mm_srli_si128(p->middle, 8));
    __m128i a, b;

    shift(&low, &high);
    a = _mm_xor_si128(_mm_xor_si128(_mm_slli_epi64(low, 63), _mm_slli_epi64(low, 62)),
                      _mm_slli_epi64(low, 57));
    low = _mm_xor_si128(low, _mm_slli_si128(a, 8));
    b = _mm_xor_si128(_mm_xor_si128(_mm_slli_epi64(low, 63), _mm_slli_epi64(low, 62)),
                      _mm_slli_epi64(low, 57));
    a = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(low, 1), _mm_srli_epi64(low, 2)),
                      _mm_srli_epi64(low, 7));
    a = _mm_xor_si128(_mm_xor_si128(a, _mm_srli_si128(b, 8)), low);
    return _mm_xor_si128(high, a);
}

static inline TARGET __m128i times(__m128i a, __m128i b)
{
    struct product p = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};

    add_product(&p, a, b);
    return reduce(&p);
}

/* XORs eight blocks with the key stream; *counter is that of the block before them. */
static inline TARGET void code_group(const struct gcm_x86 *g, unsigned char *out,
                                     const unsigned char *in, __m128i *counter)
{
    const __m128i one = _mm_set_epi32(0, 0, 0, 1);
    __m128i key = load(g->round_keys), x[WIDE];

#pragma GCC unroll 8
    for (int i = 0; i < WIDE; i++) {
        *counter = _mm_add_epi32(*counter, one);
        x[i] = _mm_xor_si128(reversed(*counter), key);
    }
    for (unsigned r = 1; r < g->rounds; r++) {
        key = load(g->round_keys + (size_t)16 * r);
#pragma GCC unroll 8
        for (int i = 0; i < WIDE; i++) {
            x[i] = _mm_aesenc_si128(x[i], key);
        }
    }
    key = load(g->round_keys + (size_t)16 * g->rounds);
#pragma GCC unroll 8
    for (int i = 0; i < WIDE; i++) {
        x[i] = _mm_aesenclast_si128(x[i], key);
        store(out + 16 * i, _mm_xor_si128(x[i], load(in + 16 * i)));
    }
}

/* powers: h, h^2, ... h^8 */
static inline TARGET __m128i hash_group(__m128i hash, const __m128i *powers,
                                        const unsigned char *code)
{
    struct product p = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};

    hash = _mm_xor_si128(hash, reversed(load(code)));
    add_product(&p, hash, powers[WIDE - 1]);
#pragma GCC unroll 8
    for (int i = 1; i < WIDE; i++) {
        add_product(&p, reversed(load(code + 16 * i)), powers[WIDE - 1 - i]);
    }
    return reduce(&p);
}

TARGET size_t gcm_x86_code(const struct gcm_x86 *g, unsigned char *out, const unsigned char *in,
                           size_t n)
{
    __m128i counter = reversed(load(g->counter)), hash = reversed(load(g->hash)), powers[WIDE];
    size_t done = 0;

    powers[0] = reversed(load(g->h));
    for (int i = 1; i < WIDE; i++) {
        powers[i] = times(powers[i - 1], powers[0]);
    }
    for (; n - done >= GCM_X86_GROUP; done += GCM_X86_GROUP) {
        if (g->decrypt) { /* first: out may be in */
            hash = hash_group(hash, powers, in + done);
        }
        code_group(g, out + done, in + done, &counter);
        if (!g->decrypt) {
            hash = hash_group(hash, powers, out + done);
        }
    }
    store(g->counter, reversed(counter));
    store(g->hash, reversed(hash));
    mbedtls_platform_zeroize(powers, sizeof powers);
    return done;
}
