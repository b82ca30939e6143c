/* X25519 for mbedTLS (cmake/patches/mbedtls/02-x25519.patch, Linux only): libsodium's, some ten
 * times as fast as mbedTLS's own. Numbers of 32 bytes as in RFC 7748. Any thread. */
#ifndef PROCFLEET_COMMON_TLS_MBEDTLS_X25519_H
#define PROCFLEET_COMMON_TLS_MBEDTLS_X25519_H

#include <stdbool.h>

/* The public half of a private key. */
bool mbedtls_x25519_public(unsigned char public[32], const unsigned char private[32]);

/* The secret of two sides; false when the other's public key is none that has one. */
bool mbedtls_x25519_shared(unsigned char secret[32], const unsigned char private[32],
                           const unsigned char theirs[32]);

#endif
