/* mbedTLS's gcm.c a second time, as if MBEDTLS_GCM_ALT were not set, with other names. */
#include "common/tls/mbedtls_gcm_plain.h"

#define PROCFLEET_PLAIN_GCM       1 /* cmake/mbedtls_user_config.h */
#define mbedtls_gcm_context       mbedtls_gcm_plain_context
#define mbedtls_gcm_init          mbedtls_gcm_plain_init
#define mbedtls_gcm_setkey        mbedtls_gcm_plain_setkey
#define mbedtls_gcm_starts        mbedtls_gcm_plain_starts
#define mbedtls_gcm_update_ad     mbedtls_gcm_plain_update_ad
#define mbedtls_gcm_update        mbedtls_gcm_plain_update
#define mbedtls_gcm_finish        mbedtls_gcm_plain_finish
#define mbedtls_gcm_crypt_and_tag mbedtls_gcm_plain_crypt_and_tag
#define mbedtls_gcm_auth_decrypt  mbedtls_gcm_plain_auth_decrypt
#define mbedtls_gcm_free          mbedtls_gcm_plain_free

#include <gcm.c>

struct mbedtls_gcm_plain_context *mbedtls_gcm_plain_new(void)
{
    struct mbedtls_gcm_plain_context *ctx = mbedtls_calloc(1, sizeof *ctx);

    if (ctx) {
        mbedtls_gcm_plain_init(ctx);
    }
    return ctx;
}

void mbedtls_gcm_plain_delete(struct mbedtls_gcm_plain_context *ctx)
{
    if (ctx) {
        mbedtls_gcm_plain_free(ctx);
        mbedtls_free(ctx);
    }
}

int mbedtls_gcm_plain_key(struct mbedtls_gcm_plain_context *ctx, int cipher,
                          const unsigned char *key, unsigned bits)
{
    return mbedtls_gcm_plain_setkey(ctx, (mbedtls_cipher_id_t)cipher, key, bits);
}
