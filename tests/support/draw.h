/* Chance that comes the same in every run with the same seed: Knuth's linear congruential
 * generator, of whose state only the high bits are used. */
#ifndef PROCFLEET_TESTS_SUPPORT_DRAW_H
#define PROCFLEET_TESTS_SUPPORT_DRAW_H

#include <stdint.h>

/* The next number, from 0 to below - 1; *state begins as the seed. */
static inline uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % below;
}

#endif
