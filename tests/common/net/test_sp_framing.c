#include "common/net/sp_framing.h"

#include <string.h>

#include "tests/support/t.h"

#define GREETING "\0SP\0\0\x30\0\0"

static const struct {
    const char *bytes;
    size_t n;
    uint64_t max;
    const char *words; /* NULL: nothing is wrong */
} rows[] = {
    {GREETING, 8, 10, NULL},
    {GREETING "\0\0\0\0\0\0\0\x02zy\0\0\0\0\0\0\0\x01"
              "c",
     27, 2, NULL},
    {GREETING "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01x", 25, 1, NULL},
    {GREETING "\0\0\0\0\0\0\0\x03", 16, 2, "message too large"},
    {GREETING "\0\0\0\0\0\0\0\x01", 16, 0, "message too large"},
    {GREETING "\0\0\0\x04\0\0\0\0", 16, 1 << 20, "message too large"},
    {GREETING "\xff\xff\xff\xff\xff\xff\xff\xff", 16, 1 << 20, "message too large"},
    {"\0SP\0\0\x31\0\0", 8, 10, "other SP protocol"},
    {"\0SP\0\x30\0\0\0", 8, 10, "other SP protocol"},
    {"\0SP\0\0\x30\0\1", 8, 10, "other SP protocol"},
    {"\0SP\1\0\x30\0\0", 8, 10, "garbage instead of SP"},
    {"GET / HT", 8, 10, "garbage instead of SP"},
};

/* Feeds in pieces of `piece` bytes until something is wrong. */
static const char *feed(const char *bytes, size_t n, uint64_t max, size_t piece)
{
    struct sp_framing m = {.have = 0};
    const char *words = NULL;

    for (size_t at = 0; at < n && !words; at += piece) {
        size_t part = n - at < piece ? n - at : piece;

        words = sp_framing_feed(&m, SP_FRAMING_REQ, max, (const uint8_t *)bytes + at, part);
    }
    return words;
}

static void assert_words(const char *got, const char *wanted)
{
    if (!wanted) {
        assert_null(got);
    } else {
        assert_non_null(got);
        assert_string_equal(got, wanted);
    }
}

static void the_verdict_does_not_depend_on_the_cuts(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t piece = 1; piece <= rows[i].n; piece++) {
            assert_words(feed(rows[i].bytes, rows[i].n, rows[i].max, piece), rows[i].words);
        }
    }
}

/* All rows go wrong with their last byte, or never. */
static void every_shorter_input_is_waited_for(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t n = 0; n < rows[i].n; n++) {
            assert_words(feed(rows[i].bytes, n, rows[i].max, n + 1), NULL);
        }
    }
}

static void the_declared_length_is_told(void **state)
{
    struct sp_framing m = {.have = 0};

    assert_non_null(sp_framing_feed(&m, SP_FRAMING_REQ, 100, (const uint8_t *)rows[5].bytes, 16));
    assert_true(m.left == 1ull << 34);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verdict_does_not_depend_on_the_cuts),
        cmocka_unit_test(every_shorter_input_is_waited_for),
        cmocka_unit_test(the_declared_length_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
