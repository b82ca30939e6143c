#include "common/model/codec.h"

#include <string.h>

#include "tests/support/draw.h"
#include "tests/support/t.h"

#define VALUES_MAX 64

static uint8_t bytes[VALUES_MAX * 12];

struct column {
    const char *what;
    uint32_t counts[4];
    size_t n_runs;
    int64_t values[24];
    size_t n_values;
};

static const struct column cases[] = {
    {"no run", {0}, 0, {0}, 0},
    {"one value", {1}, 1, {-1}, 1},
    {"nothing changes", {4}, 1, {7, 7, 7, 7}, 4},
    {"extremes", {4}, 1, {INT64_MIN, INT64_MAX, 0, INT64_MIN}, 4},
    {"falling", {3, 2}, 2, {9, 5, 1, 300, 0}, 5},
    {"nine values: one whole bitmap byte", {9}, 1, {0, 1, 3, 6, 10, 15, 21, 28, 36}, 9},
    {"ten values: two bitmap bytes", {10, 1, 2}, 3, {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 4}, 13},
    {"multiples", {3, 2}, 2, {3 * 15625000, 3 * 15625000, -5 * 15625000, 0, 15625000LL << 30}, 5},
    {"multiples of 2^62 and 2^63", {3}, 1, {INT64_MIN, 1LL << 62, 0}, 3},
    {"only 0 and the least", {2}, 1, {0, INT64_MIN}, 2},
    {"long numbers", {3}, 1, {0, 1LL << 62, (1LL << 62) + 128}, 3},
};

static const enum codec_mode modes[] = {CODEC_GROWING, CODEC_MOVING};

static void columns_come_back_as_they_were(void **state)
{
    int64_t out[VALUES_MAX];

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct column *c = &cases[i];

        for (size_t k = 0; k < COUNT_OF(modes); k++) {
            size_t n = codec_encode(bytes, c->values, c->counts, c->n_runs, modes[k]);

            assert_true(n <= codec_bound(c->n_values, c->n_runs));
            assert_ok(codec_decode(out, c->counts, c->n_runs, modes[k], bytes, n));
            assert_memory_equal(out, c->values, c->n_values * sizeof *out);
        }
    }
}

static void every_other_length_is_refused(void **state)
{
    int64_t out[VALUES_MAX];

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct column *c = &cases[i];
        size_t n = codec_encode(bytes, c->values, c->counts, c->n_runs, CODEC_MOVING);

        for (size_t k = 0; k < n; k++) {
            assert_err(codec_decode(out, c->counts, c->n_runs, CODEC_MOVING, bytes, k),
                       ERR_CORRUPT);
        }
        bytes[n] = 0;
        assert_err(codec_decode(out, c->counts, c->n_runs, CODEC_MOVING, bytes, n + 1),
                   ERR_CORRUPT);
    }
}

static void any_runs_are_read_without_the_others(void **state)
{
    enum { RUNS = 7, MOST = 200 };
    static uint8_t coded[RUNS * MOST * 12];
    static const uint32_t counts[RUNS] = {1, MOST, 3, 64, 65, 9, 130};
    static int64_t values[RUNS * MOST], out[RUNS * MOST];
    uint64_t seed = 1;

    for (size_t i = 0; i < COUNT_OF(values); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = (int64_t)(seed >> (seed >> 58)); /* of every length */
        values[i] = i && seed >> 20 & 1 ? values[i - 1] : values[i];
    }
    for (size_t k = 0; k < COUNT_OF(modes); k++) {
        size_t n = codec_encode(coded, values, counts, RUNS, modes[k]), at = 0;

        for (size_t first = 0; first < RUNS; at += counts[first++]) {
            for (size_t many = 0, n_values = 0; many <= RUNS - first; many++) {
                struct codec_range range = {first, many};

                memset(out, 0, sizeof out);
                assert_ok(codec_decode_range(out, counts, RUNS, range, modes[k], coded, n));
                assert_memory_equal(out, values + at, n_values * sizeof *out);
                assert_int_equal(out[n_values], 0);
                n_values += first + many < RUNS ? counts[first + many] : 0;
            }
        }
        for (size_t i = 0; i < n; i++) {
            struct codec_range last = {RUNS - 1, 1};

            assert_err(codec_decode_range(out, counts, RUNS, last, modes[k], coded, i),
                       ERR_CORRUPT);
        }
    }
}

static void the_bytes_are_those_of_the_protocol(void **state)
{
    static const int64_t values[] = {100, 100, 250, 7, 6};
    static const uint32_t counts[] = {3, 2};
    static const uint8_t growing[] = {1,    0xc8, 1,    14,   2,    1,    0x96, 1,    0xff,
                                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
    static const uint8_t moving[] = {1, 0xc8, 1, 14, 2, 1, 0xac, 2, 1};
    static const int64_t pages[] = {8192, 8192, 4096 * 151};
    static const uint8_t scaled[] = {0x80, 0x20, 4, 2, 0xaa, 2};

    assert_int_equal(codec_encode(bytes, values, counts, 2, CODEC_GROWING), sizeof growing);
    assert_memory_equal(bytes, growing, sizeof growing);
    assert_int_equal(codec_encode(bytes, values, counts, 2, CODEC_MOVING), sizeof moving);
    assert_memory_equal(bytes, moving, sizeof moving);
    assert_int_equal(codec_encode(bytes, pages, counts, 1, CODEC_MOVING), sizeof scaled);
    assert_memory_equal(bytes, scaled, sizeof scaled);
}

static void what_no_encoder_writes_is_refused(void **state)
{
    static const struct {
        uint8_t bytes[16];
        size_t n;
    } bad[] = {
        {{0, 2, 0}, 3},       /* scale 0 */
        {{1, 2, 2, 5}, 4},    /* bit behind the last value */
        {{1, 2, 0x80, 5}, 4}, /* the same, further up */
        {{1, 2, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2}, 13}, /* 65 bits */
        {{1, 2, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, 14},
        {{1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2, 0}, 12},
    };
    static const uint32_t counts[] = {2};
    int64_t out[2];

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(codec_decode(out, counts, 1, CODEC_GROWING, bad[i].bytes, bad[i].n),
                   ERR_CORRUPT);
    }
}

static int plainly(void **state)
{
    (void)state;
    codec_only_plain(true);
    return 0;
}

static int as_it_can(void **state)
{
    (void)state;
    codec_only_plain(false);
    return 0;
}

/* Numbers of every length, repeats, and common divisors: both ways give the same bytes, and read
 * them to the same values. */
static void both_ways_write_and_read_the_same(void **state)
{
    static int64_t values[4096], out[4096];
    static uint8_t one[4096 * 12], other[4096 * 12];
    uint64_t random = 5;

    for (size_t round = 0; round < 500; round++) {
        int64_t scale = 1 + (int64_t)draw(&random, 3) * 4096 * draw(&random, 1000);
        uint32_t counts[64];
        size_t n = 0, lengths[2];
        int64_t v = 0;

        for (size_t r = 0; r < COUNT_OF(counts); r++) {
            counts[r] = 1 + draw(&random, 1 + draw(&random, 64));
            for (uint32_t i = 0; i < counts[r]; i++) {
                uint64_t step = ((uint64_t)draw(&random, 1u << 31) << 33) >> draw(&random, 64);

                v = draw(&random, 3) ? v : (int64_t)((uint64_t)v + step * (uint64_t)scale);
                values[n++] = v;
            }
            v = draw(&random, 2) ? v : (int64_t)((uint64_t)scale * draw(&random, 100000));
        }
        for (size_t m = 0; m < COUNT_OF(modes); m++) {
            codec_only_plain(true);
            lengths[0] = codec_encode(one, values, counts, COUNT_OF(counts), modes[m]);
            codec_only_plain(false);
            lengths[1] = codec_encode(other, values, counts, COUNT_OF(counts), modes[m]);
            assert_int_equal(lengths[0], lengths[1]);
            assert_memory_equal(one, other, lengths[0]);
            for (size_t plain = 0; plain < 2; plain++) {
                codec_only_plain(plain == 1);
                memset(out, 0xa5, sizeof out);
                assert_ok(codec_decode(out, counts, COUNT_OF(counts), modes[m], one, lengths[0]));
                assert_memory_equal(out, values, n * sizeof *out);
            }
            codec_only_plain(false);
        }
    }
}

#define BOTH(test) cmocka_unit_test(test), cmocka_unit_test_setup_teardown(test, plainly, as_it_can)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(columns_come_back_as_they_were),
        BOTH(every_other_length_is_refused),
        BOTH(any_runs_are_read_without_the_others),
        BOTH(the_bytes_are_those_of_the_protocol),
        BOTH(what_no_encoder_writes_is_refused),
        cmocka_unit_test(both_ways_write_and_read_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
