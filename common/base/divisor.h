/* A number to divide by, without dividing: what is a multiple of 2^shift × odd is shifted, then
 * multiplied by the odd part's inverse modulo 2^64. For columns whose values have a common divisor.
 * Plain data. Threads: any. */
#ifndef PROCFLEET_COMMON_BASE_DIVISOR_H
#define PROCFLEET_COMMON_BASE_DIVISOR_H

#include <stdbool.h>
#include <stdint.h>

struct divisor {
    uint64_t by;      /* 0: none yet, and nothing else holds */
    uint64_t inverse; /* of the odd part */
    uint64_t most;    /* v is a multiple of the odd part when v × inverse is at most this */
    unsigned shift;
};

/* by: not 0. */
static inline struct divisor divisor_make(uint64_t by)
{
    unsigned shift = (unsigned)__builtin_ctzll(by);
    uint64_t odd = by >> shift, x = odd * 3 ^ 2; /* right in the lowest 5 bits */

    for (unsigned bits = 5; bits < 64; bits *= 2) {
        x *= 2 - odd * x;
    }
    return (struct divisor){by, x, UINT64_MAX / odd, shift};
}

static inline bool divisor_divides(const struct divisor *d, uint64_t v)
{
    return !(v & ((UINT64_C(1) << d->shift) - 1)) && v * d->inverse <= d->most;
}

/* Of all of so many values at once; false: perhaps not of all. A multiple's quotient by the odd
 * part lies between -2^63 and 2^63 divided by it, and what lies there is a multiple. */
#define DIVISOR_MANY 8

static inline bool divisor_divides_many(const struct divisor *d, const int64_t *values)
{
    uint64_t most = d->most / 2, all = 0;
    bool beyond = false;

#pragma GCC unroll 8
    for (unsigned i = 0; i < DIVISOR_MANY; i++) {
        all |= (uint64_t)values[i];
        beyond |= (uint64_t)values[i] * d->inverse + most > 2 * most;
    }
    return !beyond && !(all & ((UINT64_C(1) << d->shift) - 1));
}

/* v / by for its multiples. */
static inline uint64_t divisor_unsigned(const struct divisor *d, uint64_t v)
{
    return (v >> d->shift) * d->inverse;
}

static inline int64_t divisor_signed(const struct divisor *d, int64_t v)
{
    return (int64_t)((uint64_t)(v >> d->shift) * d->inverse); /* the sign is shifted in */
}

/* a / by - b / by of multiples, modulo 2^64. */
static inline uint64_t divisor_difference(const struct divisor *d, int64_t a, int64_t b)
{
    return ((uint64_t)(a >> d->shift) - (uint64_t)(b >> d->shift)) * d->inverse;
}

/* The largest number that divides by what d does, and value. */
static inline void divisor_add(struct divisor *d, int64_t value)
{
    uint64_t a = value < 0 ? 0 - (uint64_t)value : (uint64_t)value, b = d->by;

    if (a == 0 || b == 1 || (b && divisor_divides(d, a))) {
        return;
    }
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    *d = divisor_make(a);
}

#endif
