#include "tests/support/t.h"

#include <string.h>

#include "agent/source/trace/lzxpress.h"
#include "tests/support/etl_writer.h"

static void known_streams_give_known_bytes(void **state)
{
    /* The first two are the examples of MS-XCA 3.1. */
    static const struct {
        const char *packed;
        size_t packed_n;
        const char *plain;
        size_t plain_n;
    } rows[] = {
        {"\x3f\0\0\0abcdefghijklmnopqrstuvwxyz", 30, "abcdefghijklmnopqrstuvwxyz", 26},
        {"\xff\xff\xff\x1f"
         "abc\x17\0\x0f\xff\x26\x01",
         13, NULL, 300},
        {"\0\0\0\x40"
         "a\0\0",
         7, "aaaa", 4},
        {"", 0, "", 0},
    };
    uint8_t out[300];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t n = lzxpress_decode(out, rows[i].plain_n, (const uint8_t *)rows[i].packed,
                                   rows[i].packed_n);

        assert_int_equal(n, rows[i].plain_n);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(out[k], rows[i].plain ? rows[i].plain[k] : "abc"[k % 3]);
        }
    }
}

/* Text with runs and repeats, different for each seed. */
static void fill(uint8_t *p, size_t n, uint32_t seed)
{
    uint32_t x = seed * 2654435761u + 1;
    size_t at = 0;

    while (at < n) {
        size_t run = 1 + (x >> 8) % (seed % 7 == 0 ? 70000 : 40);
        uint8_t byte = (uint8_t)(x >> 24);

        for (size_t i = 0; i < run && at < n; i++, at++) {
            p[at] = x & 0x80 && at > 50 ? p[at - 1 - (x & 31)] : (uint8_t)(byte + (x & 1) * i);
        }
        x = x * 1664525 + 1013904223;
    }
}

static void packed_bytes_come_back(void **state)
{
    static uint8_t plain[100000], out[100000];
    struct buf packed;

    for (uint32_t seed = 0; seed < 60; seed++) {
        size_t n = seed < 20 ? seed : 1000 + 1600 * (size_t)seed;

        fill(plain, n, seed);
        buf_init(&packed, 1 << 20);
        etl_writer_compress(&packed, plain, n);
        assert_ok(packed.bad);
        assert_int_equal(lzxpress_decode(out, n, packed.p, packed.n), n);
        assert_memory_equal(out, plain, n);
        buf_fini(&packed);
    }
}

/* Far from both ends, where many bytes are moved at once. */
static void every_distance_repeats_for_every_length(void **state)
{
    static uint8_t plain[9000], out[9000];

    for (size_t distance = 1; distance <= 70; distance++) {
        struct buf packed;

        fill(plain, sizeof plain, (uint32_t)distance);
        for (size_t at = distance, length = 3; at + length + distance < 6000; length++) {
            for (size_t i = 0; i < length; i++) {
                plain[at + i] = plain[at + i - distance];
            }
            at += length + distance; /* between them what `fill` has left */
        }
        buf_init(&packed, 1 << 20);
        etl_writer_compress(&packed, plain, sizeof plain);
        memset(out, 0, sizeof out);
        assert_int_equal(lzxpress_decode(out, sizeof out, packed.p, packed.n), sizeof out);
        assert_memory_equal(out, plain, sizeof out);
        buf_fini(&packed);
    }
}

static void every_prefix_can_be_asked_for(void **state)
{
    static uint8_t plain[3000], out[3000];
    struct buf packed;

    fill(plain, sizeof plain, 7);
    buf_init(&packed, 1 << 20);
    etl_writer_compress(&packed, plain, sizeof plain);
    for (size_t n = 0; n <= sizeof plain; n++) {
        assert_int_equal(lzxpress_decode(out, n, packed.p, packed.n), n);
        assert_memory_equal(out, plain, n);
    }
    buf_fini(&packed);
}

static void every_shorter_stream_gives_a_shorter_result(void **state)
{
    static uint8_t plain[5000], out[5000];
    struct buf packed;

    fill(plain, sizeof plain, 3);
    buf_init(&packed, 1 << 20);
    etl_writer_compress(&packed, plain, sizeof plain);
    for (size_t n = 0; n < packed.n; n++) {
        size_t got = lzxpress_decode(out, sizeof out, packed.p, n);

        assert_true(got < sizeof plain);
        assert_memory_equal(out, plain, got);
    }
    buf_fini(&packed);
}

static void a_match_before_the_start_ends_the_stream(void **state)
{
    static const uint8_t packed[] = {0, 0, 0, 0x60, 'a', 8, 0, 0, 0};
    uint8_t out[16];

    assert_int_equal(lzxpress_decode(out, sizeof out, packed, sizeof packed), 1);
}

static void an_impossible_long_length_ends_the_stream(void **state)
{
    /* Nibble 15, byte 255, u16 21: lengths below 22 have shorter forms. */
    static const uint8_t packed[] = {0, 0, 0, 0x40, 'a', 7, 0, 15, 255, 21, 0};
    uint8_t out[100];

    assert_int_equal(lzxpress_decode(out, sizeof out, packed, sizeof packed), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_streams_give_known_bytes),
        cmocka_unit_test(packed_bytes_come_back),
        cmocka_unit_test(every_distance_repeats_for_every_length),
        cmocka_unit_test(every_prefix_can_be_asked_for),
        cmocka_unit_test(every_shorter_stream_gives_a_shorter_result),
        cmocka_unit_test(a_match_before_the_start_ends_the_stream),
        cmocka_unit_test(an_impossible_long_length_ends_the_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
