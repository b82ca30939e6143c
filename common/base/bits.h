/* Bits of a number brought together, or spread out, as a mask says: one instruction where the
 * processor has it (x86-64 with BMI2) and does it at once; AMD's before family 19h take a hundred
 * cycles. What is built for any processor asks bits_quick first. No state. */
#ifndef PROCFLEET_COMMON_BASE_BITS_H
#define PROCFLEET_COMMON_BASE_BITS_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)

static inline bool bits_quick(void)
{
    return __builtin_cpu_supports("bmi2") &&
           (__builtin_cpu_is("intel") || __builtin_cpu_is("amdfam19h"));
}

/* The bits of x that mask has, side by side from the lowest place on. */
static inline uint64_t bits_gather(uint64_t x, uint64_t mask)
{
    __asm__("pext %2, %1, %0" : "=r"(x) : "r"(x), "r"(mask));
    return x;
}

/* The lowest bits of x, one to each place that mask has. */
static inline uint64_t bits_scatter(uint64_t x, uint64_t mask)
{
    __asm__("pdep %2, %1, %0" : "=r"(x) : "r"(x), "r"(mask));
    return x;
}

#else

static inline bool bits_quick(void)
{
    return false;
}

/* Never called: bits_quick says no. */
static inline uint64_t bits_gather(uint64_t x, uint64_t mask)
{
    return x & mask;
}

static inline uint64_t bits_scatter(uint64_t x, uint64_t mask)
{
    return x & mask;
}

#endif

#endif
