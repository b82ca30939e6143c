/* Windows: mbedTLS's own AES-GCM, which is no faster than its ChaCha20. */
#include "common/tls/mbedtls_gcm.h"

bool mbedtls_gcm_is_fast(void)
{
    return false;
}

bool mbedtls_gcm_in_hardware(void)
{
    return __builtin_cpu_supports("aes");
}
