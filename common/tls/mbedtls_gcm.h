/* What AES-GCM runs on here; the cipher itself is called through mbedTLS. */
#ifndef PROCFLEET_COMMON_TLS_MBEDTLS_GCM_H
#define PROCFLEET_COMMON_TLS_MBEDTLS_GCM_H

#include <stdbool.h>

/* Whether AES-256-GCM is the fastest cipher: libsodium is linked (not on Windows) and the processor
 * has the instructions. Any thread. */
bool mbedtls_gcm_is_fast(void);

/* Whether the processor has the instructions for AES, whoever's code uses them. Any thread. */
bool mbedtls_gcm_in_hardware(void);

#endif
