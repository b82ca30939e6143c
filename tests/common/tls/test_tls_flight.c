#include "common/tls/tls_flight.h"

#include <string.h>

#include "tests/support/t.h"

#define KEY_EXCHANGE     \
    "\x16\x03\x03\0\x03" \
    "abc"
#define SIGNATURE        \
    "\x16\x03\x03\0\x02" \
    "de"
#define CHANGE "\x14\x03\x03\0\x01\x01"
#define FINISHED         \
    "\x16\x03\x03\0\x04" \
    "fghi"
#define ALERT "\x15\x03\x03\0\x02\x02\x30"

/* All rows are over with their last byte. */
static const struct {
    const char *bytes;
    size_t n;
} rows[] = {
    {KEY_EXCHANGE SIGNATURE CHANGE FINISHED, 8 + 7 + 6 + 9},
    {CHANGE FINISHED, 6 + 9},
    {KEY_EXCHANGE CHANGE KEY_EXCHANGE, 8 + 6 + 8},
    {"\x16\x03\x03\0\0" CHANGE "\x16\x03\x03\0\0", 5 + 6 + 5}, /* empty records */
    {KEY_EXCHANGE ALERT, 8 + 7},
    {KEY_EXCHANGE "\x17\x03\x03\0\0", 8 + 5}, /* data in a handshake */
    {"GET /", 5},
};

/* How many bytes were taken until it was over, in pieces of `piece`; 0: it is not. */
static size_t feed(const char *bytes, size_t n, size_t piece)
{
    struct tls_flight p = {.n_head = 0};

    for (size_t at = 0; at < n; at += piece) {
        size_t part = n - at < piece ? n - at : piece;

        if (tls_flight_feed(&p, (const uint8_t *)bytes + at, part)) {
            return at + part;
        }
    }
    return 0;
}

static void the_end_does_not_depend_on_the_cuts(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t piece = 1; piece <= rows[i].n; piece++) {
            assert_int_equal(feed(rows[i].bytes, rows[i].n, piece), rows[i].n);
        }
    }
}

static void every_shorter_input_is_waited_for(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t n = 0; n < rows[i].n; n++) {
            assert_int_equal(feed(rows[i].bytes, n, n + 1), 0);
        }
    }
}

static void nobody_is_listened_to_for_ever(void **state)
{
    static const uint8_t endless[5] = {22, 3, 3, 0, 0};
    struct tls_flight p = {.n_head = 0};
    size_t n = 0;

    while (!tls_flight_feed(&p, endless, sizeof endless)) {
        n += sizeof endless;
        assert_true(n <= TLS_FLIGHT_MAX);
    }
    assert_true(n > TLS_FLIGHT_MAX - sizeof endless);
}

static void what_cannot_be_read_is_skipped_up_to_the_same_size(void **state)
{
    struct tls_flight p = {.n_head = 0};

    assert_false(tls_flight_skip(&p, TLS_FLIGHT_MAX - 1));
    assert_false(tls_flight_skip(&p, 1));
    assert_false(tls_flight_skip(&p, 0));
    assert_true(tls_flight_skip(&p, 1));
    assert_true(tls_flight_skip(&p, SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_does_not_depend_on_the_cuts),
        cmocka_unit_test(every_shorter_input_is_waited_for),
        cmocka_unit_test(nobody_is_listened_to_for_ever),
        cmocka_unit_test(what_cannot_be_read_is_skipped_up_to_the_same_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
