/* PSA's random numbers (MBEDTLS_PSA_CRYPTO_EXTERNAL_RNG), which are few: of the system, so that
 * there is no state to lock or to repeat after a fork. Part of mbedcrypto. */
#include <entropy_poll.h>
#include <psa/crypto.h>

psa_status_t mbedtls_psa_external_get_random(mbedtls_psa_external_random_context_t *unused,
                                             uint8_t *out, size_t n, size_t *n_out)
{
    (void)unused;
    *n_out = 0;
    return mbedtls_platform_entropy_poll(NULL, out, n, n_out) == 0 && *n_out == n
               ? PSA_SUCCESS
               : PSA_ERROR_INSUFFICIENT_ENTROPY;
}
