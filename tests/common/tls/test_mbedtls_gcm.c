/* AES-GCM on Linux: known answers, and the two implementations against each other. */
#include <stdlib.h>
#include <string.h>

#include <mbedtls/error.h>
#include <mbedtls/gcm.h>

#include "common/base/mem.h"
#include "common/tls/mbedtls_gcm.h"
#include "common/tls/mbedtls_gcm_plain.h"
#include "tests/support/t.h"

/* Test cases 13 to 16 of "The Galois/Counter Mode of Operation" (McGrew, Viega): 256-bit keys. */
static const struct {
    const char *key, *nonce, *add, *plain, *cipher, *tag;
} rows[] = {
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000",
     "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000",
     "", "00000000000000000000000000000000", "cea7403d4d606b6e074ec5d3baf39d18",
     "d0d1c8a799996bf0265b98b5d48ab919"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b"
     "525b16aedf5aa0de657ba637b3"
     "91aafd255",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828"
     "838c5f61e6393ba7a0abcc9f66"
     "2898015ad",
     "b094dac5d93471bdec1a502270e3cc6c"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b"
     "525b16aedf5aa0de657ba637b3"
     "9",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828"
     "838c5f61e6393ba7a0abcc9f66"
     "2",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
};

static size_t unhex(const char *text, uint8_t *out)
{
    size_t n = strlen(text) / 2;

    for (size_t i = 0; i < n; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};

        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return n;
}

static void KnownAnswers_BothWays(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t key[32], nonce[12], add[32], plain[64], cipher[64], tag[16], got[64], got_tag[16];
        size_t n = unhex(rows[i].plain, plain), n_add = unhex(rows[i].add, add);
        mbedtls_gcm_context c;

        unhex(rows[i].key, key), unhex(rows[i].nonce, nonce), unhex(rows[i].cipher, cipher),
            unhex(rows[i].tag, tag);
        mbedtls_gcm_init(&c);
        assert_int_equal(mbedtls_gcm_setkey(&c, MBEDTLS_CIPHER_ID_AES, key, 256), 0);
        assert_int_equal(mbedtls_gcm_crypt_and_tag(&c, MBEDTLS_GCM_ENCRYPT, n, nonce, 12, add,
                                                   n_add, plain, got, 16, got_tag),
                         0);
        assert_memory_equal(got, cipher, n);
        assert_memory_equal(got_tag, tag, 16);
        assert_int_equal(mbedtls_gcm_auth_decrypt(&c, n, nonce, 12, add, n_add, tag, 16, got, got),
                         0);
        assert_memory_equal(got, plain, n);
        mbedtls_gcm_free(&c);
    }
}

/* In place: every length from nothing to a few times the widest step, and the largest record. */
static void FastAndPlain_AreEqual_AtEveryLength(void **state)
{
    enum { LARGEST = 16384 };
    static uint8_t fast[LARGEST], plain[LARGEST];
    uint8_t key[32], nonce[12], add[13], tag[2][16];
    struct mbedtls_gcm_plain_context *own = mbedtls_gcm_plain_new();
    mbedtls_gcm_context c;

    (void)state;
    for (unsigned i = 0; i < 32; i++) {
        key[i] = (uint8_t)(i * 37 + 11);
    }
    assert_non_null(own);
    mbedtls_gcm_init(&c);
    assert_int_equal(mbedtls_gcm_setkey(&c, MBEDTLS_CIPHER_ID_AES, key, 256), 0);
    assert_int_equal(mbedtls_gcm_plain_key(own, MBEDTLS_CIPHER_ID_AES, key, 256), 0);
    for (size_t n = 0; n <= LARGEST; n = n == 600 ? LARGEST : n + 1) {
        for (size_t i = 0; i < n; i++) {
            fast[i] = plain[i] = (uint8_t)(i * 131 + n);
        }
        memset(nonce, (int)(n & 255), sizeof nonce);
        memset(add, (int)(n >> 8), sizeof add);
        assert_int_equal(mbedtls_gcm_crypt_and_tag(&c, MBEDTLS_GCM_ENCRYPT, n, nonce, 12, add,
                                                   n % 14, fast, fast, 16, tag[0]),
                         0);
        assert_int_equal(mbedtls_gcm_plain_crypt_and_tag(own, MBEDTLS_GCM_ENCRYPT, n, nonce, 12,
                                                         add, n % 14, plain, plain, 16, tag[1]),
                         0);
        assert_memory_equal(fast, plain, n);
        assert_memory_equal(tag[0], tag[1], 16);
        assert_int_equal(
            mbedtls_gcm_auth_decrypt(&c, n, nonce, 12, add, n % 14, tag[1], 16, fast, fast), 0);
        assert_int_equal(mbedtls_gcm_plain_auth_decrypt(own, n, nonce, 12, add, n % 14, tag[0], 16,
                                                        plain, plain),
                         0);
        assert_memory_equal(fast, plain, n);
    }
    mbedtls_gcm_plain_delete(own);
    mbedtls_gcm_free(&c);
}

static void AFlippedBit_IsRefused(void **state)
{
    uint8_t key[32] = {1}, nonce[12] = {2}, add[13] = {3}, data[40] = {4}, out[40], tag[16];
    uint8_t *const parts[] = {nonce, add, data, tag};
    const size_t sizes[] = {sizeof nonce, sizeof add, sizeof data, sizeof tag};
    mbedtls_gcm_context c;

    (void)state;
    mbedtls_gcm_init(&c);
    assert_int_equal(mbedtls_gcm_setkey(&c, MBEDTLS_CIPHER_ID_AES, key, 256), 0);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(&c, MBEDTLS_GCM_ENCRYPT, 40, nonce, 12, add, 13,
                                               data, data, 16, tag),
                     0);
    for (unsigned p = 0; p < 4; p++) {
        for (size_t bit = 0; bit < sizes[p] * 8; bit++) {
            parts[p][bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(
                mbedtls_gcm_auth_decrypt(&c, 40, nonce, 12, add, 13, tag, 16, data, out),
                MBEDTLS_ERR_GCM_AUTH_FAILED);
            parts[p][bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    mbedtls_gcm_free(&c);
}

/* AES-128 is mbedTLS's own; a context may be keyed again with the other size. */
static void OtherKeys_GoToMbedtls(void **state)
{
    static const uint8_t expected[16] = {
        0x58, 0xe2, 0xfc, 0xce, 0xfa, 0x7e, 0x30, 0x61,
        0x36, 0x7f, 0x1d, 0x57, 0xa4, 0xe7, 0x45, 0x5a}; /* test case 1 */
    uint8_t key[32] = {0}, nonce[12] = {0}, tag[16];
    mbedtls_gcm_context c;

    (void)state;
    mbedtls_gcm_init(&c);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(mbedtls_gcm_setkey(&c, MBEDTLS_CIPHER_ID_AES, key, 256), 0);
        assert_int_equal(mbedtls_gcm_setkey(&c, MBEDTLS_CIPHER_ID_AES, key, 128), 0);
        assert_int_equal(mbedtls_gcm_crypt_and_tag(&c, MBEDTLS_GCM_ENCRYPT, 0, nonce, 12, NULL, 0,
                                                   NULL, NULL, 16, tag),
                         0);
        assert_memory_equal(tag, expected, 16);
    }
    mbedtls_gcm_free(&c);
    mbedtls_gcm_free(&c);
}

/* What TLS never asks for is refused, not done wrongly. */
static void OddNoncesTagsAndPieces_AreRefused(void **state)
{
    uint8_t key[32] = {0}, nonce[16] = {0}, tag[16];
    mbedtls_gcm_context c;

    (void)state;
    mbedtls_gcm_init(&c);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(&c, MBEDTLS_GCM_ENCRYPT, 0, nonce, 12, NULL, 0, NULL,
                                               NULL, 16, tag),
                     MBEDTLS_ERR_GCM_BAD_INPUT); /* no key */
    assert_int_equal(mbedtls_gcm_setkey(&c, MBEDTLS_CIPHER_ID_AES, key, 256), 0);
    if (mbedtls_gcm_is_fast()) {
        assert_int_equal(mbedtls_gcm_crypt_and_tag(&c, MBEDTLS_GCM_ENCRYPT, 0, nonce, 16, NULL, 0,
                                                   NULL, NULL, 16, tag),
                         MBEDTLS_ERR_GCM_BAD_INPUT);
        assert_int_equal(mbedtls_gcm_auth_decrypt(&c, 0, nonce, 12, NULL, 0, tag, 8, NULL, NULL),
                         MBEDTLS_ERR_GCM_BAD_INPUT);
    }
    assert_int_equal(mbedtls_gcm_starts(&c, MBEDTLS_GCM_ENCRYPT, nonce, 12),
                     MBEDTLS_ERR_PLATFORM_FEATURE_UNSUPPORTED);
    mbedtls_gcm_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(KnownAnswers_BothWays),
        cmocka_unit_test(FastAndPlain_AreEqual_AtEveryLength),
        cmocka_unit_test(AFlippedBit_IsRefused),
        cmocka_unit_test(OtherKeys_GoToMbedtls),
        cmocka_unit_test(OddNoncesTagsAndPieces_AreRefused),
    };

    print_message("AES-256-GCM is %s\n",
                  mbedtls_gcm_is_fast() ? "the processor's" : "mbedTLS's own");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
