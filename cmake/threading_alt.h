/* A mutex of mbedTLS on Windows (MBEDTLS_THREADING_ALT, common/pki/pki_threads_win32.c). */
#ifndef PROCFLEET_CMAKE_THREADING_ALT_H
#define PROCFLEET_CMAKE_THREADING_ALT_H

typedef struct mbedtls_threading_mutex_t {
    void *lock; /* an SRWLOCK */
} mbedtls_threading_mutex_t;

#endif
