/* AES-GCM as mbedTLS gives it to us: whole messages, which go through cmake/mbedtls_gcm_x86.c
 * where the processor can, against a published vector and against the same message in pieces that
 * are too short for it. */
#include <string.h>

#include <mbedtls/gcm.h>

#include "tests/support/t.h"

#define MOST 1100u

struct sealed {
    uint8_t text[MOST], tag[16];
};

static const uint8_t nonce[12] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2};
static const uint8_t besides[13] = {1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233};

static void begin(mbedtls_gcm_context *g, unsigned bits)
{
    uint8_t key[32];

    for (size_t i = 0; i < sizeof key; i++) {
        key[i] = (uint8_t)(i * 7 + bits);
    }
    mbedtls_gcm_init(g);
    assert_int_equal(mbedtls_gcm_setkey(g, MBEDTLS_CIPHER_ID_AES, key, bits), 0);
}

/* In pieces of at most `piece` bytes. */
static void code(mbedtls_gcm_context *g, int mode, struct sealed *out, const uint8_t *in, size_t n,
                 size_t piece)
{
    size_t some, left_over;

    assert_int_equal(mbedtls_gcm_starts(g, mode, nonce, sizeof nonce), 0);
    assert_int_equal(mbedtls_gcm_update_ad(g, besides, sizeof besides), 0);
    for (size_t at = 0; at < n; at += some) {
        some = n - at < piece ? n - at : piece;
        assert_int_equal(mbedtls_gcm_update(g, in + at, some, out->text + at, some, &left_over), 0);
    }
    assert_int_equal(mbedtls_gcm_finish(g, NULL, 0, &left_over, out->tag, sizeof out->tag), 0);
}

static void every_length_is_sealed_as_in_small_pieces_and_opens_again(void **state)
{
    static const unsigned sizes[] = {128, 192, 256};
    static uint8_t plain[MOST];
    static struct sealed whole, pieces, opened;
    mbedtls_gcm_context g;

    (void)state;
    for (size_t i = 0; i < sizeof plain; i++) {
        plain[i] = (uint8_t)(i * i + i / 3);
    }
    for (size_t k = 0; k < 3; k++) {
        begin(&g, sizes[k]);
        for (size_t n = 1; n <= MOST; n++) {
            code(&g, MBEDTLS_GCM_ENCRYPT, &whole, plain, n, n);
            code(&g, MBEDTLS_GCM_ENCRYPT, &pieces, plain, n, 64);
            assert_memory_equal(whole.text, pieces.text, n);
            assert_memory_equal(whole.tag, pieces.tag, sizeof whole.tag);
            memcpy(opened.text, whole.text, n);
            code(&g, MBEDTLS_GCM_DECRYPT, &opened, opened.text, n, n); /* in place */
            assert_memory_equal(opened.text, plain, n);
            assert_memory_equal(opened.tag, whole.tag, sizeof whole.tag);
        }
        mbedtls_gcm_free(&g);
    }
}

static void pieces_that_end_inside_a_block_are_sealed_alike(void **state)
{
    static uint8_t plain[MOST];
    static struct sealed whole, pieces;
    mbedtls_gcm_context g;

    (void)state;
    begin(&g, 128);
    code(&g, MBEDTLS_GCM_ENCRYPT, &whole, plain, MOST, 16);
    for (size_t piece = 1; piece <= MOST; piece++) {
        code(&g, MBEDTLS_GCM_ENCRYPT, &pieces, plain, MOST, piece);
        assert_memory_equal(whole.text, pieces.text, MOST);
        assert_memory_equal(whole.tag, pieces.tag, sizeof whole.tag);
    }
    mbedtls_gcm_free(&g);
}

static void the_counter_wraps_in_its_last_four_bytes(void **state)
{
    static uint8_t plain[MOST];
    static struct sealed whole, pieces;
    mbedtls_gcm_context g;
    uint8_t iv[16] = {0};
    size_t left_over;

    (void)state;
    begin(&g, 128);
    for (size_t piece = 64; piece <= MOST; piece = piece < MOST ? MOST : MOST + 1) {
        struct sealed *to = piece == 64 ? &pieces : &whole;

        assert_int_equal(mbedtls_gcm_starts(&g, MBEDTLS_GCM_ENCRYPT, iv, 12), 0);
        memset(g.MBEDTLS_PRIVATE(y) + 12, 0xff, 4);
        g.MBEDTLS_PRIVATE(y)[15] = 0xf5; /* wraps in the second group */
        for (size_t at = 0; at < MOST; at += piece) {
            size_t some = MOST - at < piece ? MOST - at : piece;

            assert_int_equal(
                mbedtls_gcm_update(&g, plain + at, some, to->text + at, some, &left_over), 0);
        }
        assert_int_equal(mbedtls_gcm_finish(&g, NULL, 0, &left_over, to->tag, sizeof to->tag), 0);
    }
    assert_memory_equal(whole.text, pieces.text, MOST);
    assert_memory_equal(whole.tag, pieces.tag, sizeof whole.tag);
    mbedtls_gcm_free(&g);
}

/* Of 256 bytes of zeros under a key and a nonce of zeros: made with OpenSSL 3. */
static void a_message_is_sealed_as_elsewhere(void **state)
{
    static const uint8_t zeros[256];
    static const uint8_t tag[16] = {0x27, 0x2e, 0x30, 0xbe, 0x5d, 0x09, 0x74, 0xbe,
                                    0xab, 0xc0, 0xc1, 0x2d, 0xe2, 0xff, 0xd4, 0x82};
    static struct sealed out;
    mbedtls_gcm_context g;

    (void)state;
    mbedtls_gcm_init(&g);
    assert_int_equal(mbedtls_gcm_setkey(&g, MBEDTLS_CIPHER_ID_AES, zeros, 128), 0);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(&g, MBEDTLS_GCM_ENCRYPT, sizeof zeros, zeros, 12,
                                               NULL, 0, zeros, out.text, sizeof out.tag, out.tag),
                     0);
    assert_memory_equal(out.tag, tag, sizeof tag);
    mbedtls_gcm_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_is_sealed_as_in_small_pieces_and_opens_again),
        cmocka_unit_test(pieces_that_end_inside_a_block_are_sealed_alike),
        cmocka_unit_test(the_counter_wraps_in_its_last_four_bytes),
        cmocka_unit_test(a_message_is_sealed_as_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
