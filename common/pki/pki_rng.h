/* Random bytes for keys, signatures and TLS: one CTR_DRBG per thread, seeded by the system's
 * generator and seeded anew when the process id changes, so that a forked child never repeats its
 * parent's numbers. Threads: any, without locks. */
#ifndef PROCFLEET_COMMON_PKI_PKI_RNG_H
#define PROCFLEET_COMMON_PKI_PKI_RNG_H

#include <stddef.h>

/* In the shape mbedTLS asks for; `unused` is ignored. 0, or a code of mbedTLS when the system's
 * generator failed. */
int pki_rng(void *unused, unsigned char *out, size_t n);

#endif
