/* The ciphers of TLS records in one thread, by the CPU time they take: AES-256-GCM as programs use
 * it, mbedTLS's own, and ChaCha20-Poly1305. On a busy machine the ratios hold where the figures do
 * not. */
#include <stdio.h>
#include <string.h>

#include <mbedtls/chachapoly.h>
#include <mbedtls/gcm.h>

#include "common/os/os.h"
#include "common/tls/mbedtls_gcm.h"
#include "common/tls/mbedtls_gcm_plain.h"
#include "tests/bench/bench.h"

static mbedtls_gcm_context fast;
static struct mbedtls_gcm_plain_context *plain;
static mbedtls_chachapoly_context chacha;
static uint8_t record[16384], tag[16], nonce[12], header[13];

static int seal_fast(size_t n)
{
    return mbedtls_gcm_crypt_and_tag(&fast, MBEDTLS_GCM_ENCRYPT, n, nonce, 12, header, 13, record,
                                     record, 16, tag);
}

static int seal_plain(size_t n)
{
    return mbedtls_gcm_plain_crypt_and_tag(plain, MBEDTLS_GCM_ENCRYPT, n, nonce, 12, header, 13,
                                           record, record, 16, tag);
}

static int seal_chacha(size_t n)
{
    return mbedtls_chachapoly_encrypt_and_tag(&chacha, n, nonce, header, 13, record, record, tag);
}

/* GB/s of CPU time, the best of five turns. */
static double rate(int (*seal)(size_t n), size_t n)
{
    size_t times = (bench_quick() ? 1u << 20 : 64u << 20) / n;
    double best = 0;

    for (unsigned turn = 0; turn < 5; turn++) {
        int64_t begun_ns = os_cpu_ns(), ns;
        double got;

        for (size_t i = 0; i < times; i++) {
            nonce[i % 12]++;
            if (seal(n)) {
                bench_fail("a record was not sealed");
            }
        }
        ns = os_cpu_ns() - begun_ns;
        got = (double)(times * n) / (double)(ns > 0 ? ns : 1);
        best = got > best ? got : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {256, 1024, 16384};
    static const uint8_t key[32] = {7};

    bench_begin(argc, argv, "bench_cipher",
                "TLS records sealed in one thread, GB a second of CPU time.");
    mbedtls_gcm_init(&fast);
    mbedtls_chachapoly_init(&chacha);
    plain = mbedtls_gcm_plain_new();
    if (!plain || mbedtls_gcm_plain_key(plain, MBEDTLS_CIPHER_ID_AES, key, 256) ||
        mbedtls_gcm_setkey(&fast, MBEDTLS_CIPHER_ID_AES, key, 256) ||
        mbedtls_chachapoly_setkey(&chacha, key)) {
        bench_fail("no keys");
    }
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double aes = rate(seal_fast, sizes[i]), own = rate(seal_plain, sizes[i]),
               other = rate(seal_chacha, sizes[i]);
        char name[64];

        snprintf(name, sizeof name, "aes_256_gcm_%zu", sizes[i]);
        bench_figure(name, aes, "GB/s", 0, BENCH_MORE);
        snprintf(name, sizeof name, "aes_256_gcm_mbedtls_%zu", sizes[i]);
        bench_figure(name, own, "GB/s", 0, BENCH_MORE);
        snprintf(name, sizeof name, "chacha20_poly1305_%zu", sizes[i]);
        bench_figure(name, other, "GB/s", 0, BENCH_MORE);
        snprintf(name, sizeof name, "aes_to_chacha20_%zu", sizes[i]);
        bench_figure(name, aes / other, "times", mbedtls_gcm_is_fast() ? 3 : 0, BENCH_MORE);
    }
    mbedtls_gcm_plain_delete(plain);
    mbedtls_gcm_free(&fast);
    mbedtls_chachapoly_free(&chacha);
    return bench_end();
}
