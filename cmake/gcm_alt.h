/* The key of AES-GCM, as mbedTLS's gcm.h takes it in when MBEDTLS_GCM_ALT is set (common/tls/mbedtls_gcm.c). */
#ifndef PROCFLEET_CMAKE_GCM_ALT_H
#define PROCFLEET_CMAKE_GCM_ALT_H

struct mbedtls_gcm_plain_context; /* mbedTLS's own */

typedef struct mbedtls_gcm_context {
    void *fast;                              /* libsodium's expanded key, or NULL */
    struct mbedtls_gcm_plain_context *plain; /* mbedTLS's own, or NULL; both NULL: no key yet */
} mbedtls_gcm_context;

#endif
