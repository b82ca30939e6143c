/* mbedTLS's own AES-GCM under names of its own: the fall-back of mbedtls_gcm.c. Arguments, results
 * and errors are those of mbedTLS's gcm.h. */
#ifndef PROCFLEET_COMMON_TLS_MBEDTLS_GCM_PLAIN_H
#define PROCFLEET_COMMON_TLS_MBEDTLS_GCM_PLAIN_H

#include <stddef.h>

struct mbedtls_gcm_plain_context;

/* A context without a key, or NULL when there is no memory. mbedtls_gcm_plain_delete takes NULL,
 * too. */
struct mbedtls_gcm_plain_context *mbedtls_gcm_plain_new(void);
void mbedtls_gcm_plain_delete(struct mbedtls_gcm_plain_context *ctx);

/* `cipher` is an mbedtls_cipher_id_t. */
int mbedtls_gcm_plain_key(struct mbedtls_gcm_plain_context *ctx, int cipher,
                          const unsigned char *key, unsigned bits);
int mbedtls_gcm_plain_crypt_and_tag(struct mbedtls_gcm_plain_context *ctx, int mode, size_t length,
                                    const unsigned char *iv, size_t iv_len,
                                    const unsigned char *add, size_t add_len,
                                    const unsigned char *input, unsigned char *output,
                                    size_t tag_len, unsigned char *tag);
int mbedtls_gcm_plain_auth_decrypt(struct mbedtls_gcm_plain_context *ctx, size_t length,
                                   const unsigned char *iv, size_t iv_len, const unsigned char *add,
                                   size_t add_len, const unsigned char *tag, size_t tag_len,
                                   const unsigned char *input, unsigned char *output);

#endif
