#include "common/tls/mbedtls_x25519.h"

#include <sodium/core.h>
#include <sodium/crypto_scalarmult_curve25519.h>

/* sodium_init picks the fastest code there is; it may be called any number of times. */
bool mbedtls_x25519_public(unsigned char public[32], const unsigned char private[32])
{
    return sodium_init() >= 0 && crypto_scalarmult_curve25519_base(public, private) == 0;
}

bool mbedtls_x25519_shared(unsigned char secret[32], const unsigned char private[32],
                           const unsigned char theirs[32])
{
    return sodium_init() >= 0 && crypto_scalarmult_curve25519(secret, private, theirs) == 0;
}
