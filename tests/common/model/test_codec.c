#include "common/model/codec.h"

#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_come_back_as_they_were),
        cmocka_unit_test(every_other_length_is_refused),
        cmocka_unit_test(any_runs_are_read_without_the_others),
        cmocka_unit_test(the_bytes_are_those_of_the_protocol),
        cmocka_unit_test(what_no_encoder_writes_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
