/* AES-GCM over whole groups of eight blocks with the processor's instructions for AES and
 * carry-less multiplication; part of mbedTLS, see cmake/patch-mbedtls.cmake. Tests:
 * tests/common/test_gcm.c. Threads: any; no state. */
#ifndef PROCFLEET_CMAKE_MBEDTLS_GCM_X86_H
#define PROCFLEET_CMAKE_MBEDTLS_GCM_X86_H

#include <stdbool.h>
#include <stddef.h>

#define GCM_X86_LEAST 256u /* bytes; for less, preparing costs more than it saves */
#define GCM_X86_GROUP 128u

/* mbedTLS's state in the middle of a message, between two blocks. */
struct gcm_x86 {
    const unsigned char *round_keys; /* as FIPS 197 has them, rounds + 1 of 16 bytes */
    unsigned rounds;                 /* 10, 12 or 14 */
    const unsigned char *h;          /* the hash's key, 16 bytes */
    unsigned char *counter;          /* of the newest block, 16 bytes; moves on */
    unsigned char *hash;             /* so far, 16 bytes; moves on */
    bool decrypt;
};

/* Codes as many whole groups as n has; gives their bytes. out may be in. */
size_t gcm_x86_code(const struct gcm_x86 *g, unsigned char *out, const unsigned char *in, size_t n);

#endif
