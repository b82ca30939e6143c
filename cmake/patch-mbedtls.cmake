# The change to mbedTLS 3.6, applied where the sources are unpacked (run there).
#
# Its AES-GCM codes one block of 16 bytes after the other: 0.35 GB/s on a processor that can do 4, so that TLS took more of the live
# stream's processor time than everything else (bench_feed). Here whole groups of eight blocks in the middle of a message go through
# cmake/mbedtls_gcm_x86.c where the processor has the instructions that mbedTLS itself asks for. Keys, nonces, what is authenticated
# besides, the ends of a message and the tag are mbedTLS's as before.

function(change before after)
  string(FIND "${text}" "${before}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "cmake/patch-mbedtls.cmake does not fit this mbedTLS: not found in ${file}:\n${before}")
  endif()
  string(REPLACE "${before}" "${after}" text "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()

set(file library/gcm.c)
file(READ ${file} text)
if(text MATCHES "procfleet")
  return()
endif()

change("#if defined(MBEDTLS_AESNI_C)
#include \"aesni.h\"
#endif
" "#if defined(MBEDTLS_AESNI_C)
#include \"aesni.h\"
#endif

/* Changed by procfleet, see cmake/patch-mbedtls.cmake. */
#if defined(MBEDTLS_AESNI_HAVE_CODE) && defined(__x86_64__) && !defined(MBEDTLS_BLOCK_CIPHER_C)
#include \"cmake/mbedtls_gcm_x86.h\"

/* The only cipher of 16-byte blocks in this configuration is AES. */
static size_t gcm_groups(mbedtls_gcm_context *ctx, unsigned char *out, const unsigned char *in,
                         size_t n)
{
    const mbedtls_aes_context *aes = ctx->cipher_ctx.cipher_ctx;
    const struct gcm_x86 g = {
        .round_keys = (const unsigned char *) (aes->buf + aes->rk_offset),
        .rounds = (unsigned) aes->nr,
        .h = (const unsigned char *) ctx->H[MBEDTLS_GCM_HTABLE_SIZE / 2],
        .counter = ctx->y,
        .hash = ctx->buf,
        .decrypt = ctx->mode == MBEDTLS_GCM_DECRYPT,
    };

    return n >= GCM_X86_LEAST && ctx->acceleration == 2 /* AESNI */ &&
           mbedtls_aesni_has_support(MBEDTLS_AESNI_AES)
               ? gcm_x86_code(&g, out, in, n)
               : 0;
}
#else
static size_t gcm_groups(mbedtls_gcm_context *ctx, unsigned char *out, const unsigned char *in,
                         size_t n)
{
    (void) ctx;
    (void) out;
    (void) in;
    (void) n;
    return 0;
}
#endif
")
change("    while (input_length >= 16) {
        gcm_incr(ctx->y);" "    {
        size_t done = gcm_groups(ctx, out_p, p, input_length);

        input_length -= done;
        p += done;
        out_p += done;
    }

    while (input_length >= 16) {
        gcm_incr(ctx->y);")
file(WRITE ${file} "${text}")
