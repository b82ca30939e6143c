/* AES-GCM for mbedTLS (MBEDTLS_GCM_ALT, Linux only). mbedTLS works on one block at a time,
 * libsodium on several at once: some four times as fast. libsodium has AES-256 with nonces of 12
 * bytes and tags of 16, which is what TLS uses; anything else, and processors without the
 * instructions, get mbedTLS's own code (mbedtls_gcm_plain.c).
 *
 * Only whole messages are done: TLS asks for nothing else. The calls that take a message in pieces
 * fail. */
#include "common/tls/mbedtls_gcm.h"

#include <mbedtls/error.h>
#include <mbedtls/gcm.h>
#include <mbedtls/platform.h>
#include <mbedtls/platform_util.h>
#include <sodium/core.h>
#include <sodium/crypto_aead_aes256gcm.h>

#include "common/tls/mbedtls_gcm_plain.h"

enum { GCM_NONCE = crypto_aead_aes256gcm_NPUBBYTES, GCM_TAG = crypto_aead_aes256gcm_ABYTES };

_Static_assert(_Alignof(crypto_aead_aes256gcm_state) <= 16, "calloc aligns an expanded key");

bool mbedtls_gcm_is_fast(void)
{
    return sodium_init() >= 0 &&
           crypto_aead_aes256gcm_is_available() == 1; /* sodium_init: any number of times */
}

bool mbedtls_gcm_in_hardware(void)
{
    return mbedtls_gcm_is_fast();
}

void mbedtls_gcm_init(mbedtls_gcm_context *ctx)
{
    *ctx = (mbedtls_gcm_context){0};
}

void mbedtls_gcm_free(mbedtls_gcm_context *ctx)
{
    if (!ctx) {
        return;
    }
    if (ctx->fast) {
        mbedtls_platform_zeroize(ctx->fast, sizeof(crypto_aead_aes256gcm_state));
        mbedtls_free(ctx->fast);
    }
    mbedtls_gcm_plain_delete(ctx->plain);
    *ctx = (mbedtls_gcm_context){0};
}

int mbedtls_gcm_setkey(mbedtls_gcm_context *ctx, mbedtls_cipher_id_t cipher,
                       const unsigned char *key, unsigned bits)
{
    mbedtls_gcm_free(ctx);
    if (cipher == MBEDTLS_CIPHER_ID_AES && bits == 256 && mbedtls_gcm_is_fast()) {
        ctx->fast = mbedtls_calloc(1, sizeof(crypto_aead_aes256gcm_state));
        return !ctx->fast || crypto_aead_aes256gcm_beforenm(ctx->fast, key)
                   ? MBEDTLS_ERR_CIPHER_ALLOC_FAILED
                   : 0;
    }
    ctx->plain = mbedtls_gcm_plain_new();
    return ctx->plain ? mbedtls_gcm_plain_key(ctx->plain, cipher, key, bits)
                      : MBEDTLS_ERR_CIPHER_ALLOC_FAILED;
}

int mbedtls_gcm_crypt_and_tag(mbedtls_gcm_context *ctx, int mode, size_t length,
                              const unsigned char *iv, size_t iv_len, const unsigned char *add,
                              size_t add_len, const unsigned char *input, unsigned char *output,
                              size_t tag_len, unsigned char *tag)
{
    if (ctx->plain) {
        return mbedtls_gcm_plain_crypt_and_tag(ctx->plain, mode, length, iv, iv_len, add, add_len,
                                               input, output, tag_len, tag);
    }
    if (!ctx->fast || mode != MBEDTLS_GCM_ENCRYPT || iv_len != GCM_NONCE || tag_len != GCM_TAG) {
        return MBEDTLS_ERR_GCM_BAD_INPUT;
    }
    return crypto_aead_aes256gcm_encrypt_detached_afternm(output, tag, NULL, input, length, add,
                                                          add_len, NULL, iv, ctx->fast)
               ? MBEDTLS_ERR_GCM_BAD_INPUT
               : 0;
}

int mbedtls_gcm_auth_decrypt(mbedtls_gcm_context *ctx, size_t length, const unsigned char *iv,
                             size_t iv_len, const unsigned char *add, size_t add_len,
                             const unsigned char *tag, size_t tag_len, const unsigned char *input,
                             unsigned char *output)
{
    if (ctx->plain) {
        return mbedtls_gcm_plain_auth_decrypt(ctx->plain, length, iv, iv_len, add, add_len, tag,
                                              tag_len, input, output);
    }
    if (!ctx->fast || iv_len != GCM_NONCE || tag_len != GCM_TAG) {
        return MBEDTLS_ERR_GCM_BAD_INPUT;
    }
    return crypto_aead_aes256gcm_decrypt_detached_afternm(output, NULL, input, length, tag, add,
                                                          add_len, iv, ctx->fast)
               ? MBEDTLS_ERR_GCM_AUTH_FAILED
               : 0;
}

/* -- messages in pieces -- */

int mbedtls_gcm_starts(mbedtls_gcm_context *ctx, int mode, const unsigned char *iv, size_t iv_len)
{
    (void)ctx, (void)mode, (void)iv, (void)iv_len;
    return MBEDTLS_ERR_PLATFORM_FEATURE_UNSUPPORTED;
}

int mbedtls_gcm_update_ad(mbedtls_gcm_context *ctx, const unsigned char *add, size_t add_len)
{
    (void)ctx, (void)add, (void)add_len;
    return MBEDTLS_ERR_PLATFORM_FEATURE_UNSUPPORTED;
}

int mbedtls_gcm_update(mbedtls_gcm_context *ctx, const unsigned char *input, size_t input_length,
                       unsigned char *output, size_t output_size, size_t *output_length)
{
    (void)ctx, (void)input, (void)input_length, (void)output, (void)output_size,
        (void)output_length;
    return MBEDTLS_ERR_PLATFORM_FEATURE_UNSUPPORTED;
}

int mbedtls_gcm_finish(mbedtls_gcm_context *ctx, unsigned char *output, size_t output_size,
                       size_t *output_length, unsigned char *tag, size_t tag_len)
{
    (void)ctx, (void)output, (void)output_size, (void)output_length, (void)tag, (void)tag_len;
    return MBEDTLS_ERR_PLATFORM_FEATURE_UNSUPPORTED;
}
