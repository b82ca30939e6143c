#include "common/base/clk.h"

#include "tests/support/t.h"

static void filetimes_become_utc_and_back(void **state)
{
    assert_int_equal(clk_from_filetime(116444736000000000ULL), 0);
    assert_int_equal(clk_from_filetime(116444736000000001ULL), 100);
    assert_true(clk_from_filetime(UINT64_MAX) == INT64_MAX);
    assert_true(clk_to_filetime(INT64_MIN) > 0);
    for (int64_t ns = -5000; ns <= 5000; ns += 100) {
        assert_int_equal(clk_from_filetime(clk_to_filetime(ns)), ns);
    }
}

static void ticks_of_any_frequency_become_ns_without_overflow(void **state)
{
    static const struct {
        int64_t ticks;
        uint64_t frequency;
        int64_t ns;
    } table[] = {
        {10000000, 10000000, CLK_S},
        {1, 10000000, 100},
        {2338525, 2338525, CLK_S},
        {1, 3117777, 320},
        {-1, 10000000, -100},
        {INT64_MAX, 1, INT64_MAX},
        {123, 0, 0},
        {INT64_C(3000000000) * 86400 * 365, 3000000000ULL, INT64_C(365) * 86400 * CLK_S},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_true(clk_ticks_to_ns(table[i].ticks, table[i].frequency) == table[i].ns);
    }
}

static void moments_are_read_and_written(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-21T09:39:00Z", INT64_C(1795253940) * CLK_S},
        {"2026-11-21T10:39:00+01:00", INT64_C(1795253940) * CLK_S},
        {"2026-11-21 09:39:00.5Z", INT64_C(1795253940) * CLK_S + CLK_S / 2},
        {"2000-02-29", INT64_C(951782400) * CLK_S},
        {"now", 1000 * CLK_S},
        {"5m", 700 * CLK_S},
        {"1.5s", 1000 * CLK_S - 1500 * CLK_MS},
        {"1h30m", 1000 * CLK_S - 5400 * CLK_S},
        {"00:16", 960 * CLK_S}, /* today */
        {"00:16:40Z", 1000 * CLK_S},
        {"00:16:40.25", 1000 * CLK_S + CLK_S / 4 - 86400 * CLK_S}, /* yesterday */
        {"23:59:59.5", -CLK_S / 2},
    };
    static const char *const bad[] = {"",
                                      "5",
                                      "m",
                                      "5x",
                                      "24:00",
                                      "12:60",
                                      "12:30:60",
                                      "12:3",
                                      "12:30 ",
                                      "12:30:00+01:00",
                                      "2026-13-01",
                                      "2026-11-21T25:00:00Z",
                                      "2026-11-21T09:00:00",
                                      "-5m",
                                      "99999999999999d"};
    char text[CLK_TEXT];
    int64_t ns;

    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_ok(clk_parse_when(&ns, good[i].text, 1000 * CLK_S));
        assert_true(ns == good[i].ns);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(clk_parse_when(&ns, bad[i], 0), ERR_INVALID);
    }
    assert_string_equal(
        clk_format_utc(text, sizeof text, INT64_C(1795253940) * CLK_S + 123456789, 3),
        "2026-11-21T09:39:00.123Z");
    assert_string_equal(clk_format_utc(text, sizeof text, -1, 9), "1969-12-31T23:59:59.999999999Z");
    assert_string_equal(clk_format_utc(text, sizeof text, 0, 0), "1970-01-01T00:00:00Z");
}

static void the_ends_of_time_can_be_written(void **state)
{
    char text[CLK_TEXT];

    assert_string_equal(clk_format_utc(text, sizeof text, INT64_MIN, 9),
                        "1677-09-21T00:12:43.145224192Z");
    assert_string_equal(clk_format_utc(text, sizeof text, INT64_MAX, 9),
                        "2262-04-11T23:47:16.854775807Z");
    assert_string_equal(clk_format_utc(text, sizeof text, -1, 9), "1969-12-31T23:59:59.999999999Z");
}

static void sums_saturate(void **state)
{
    assert_true(clk_add(INT64_MAX, 1) == INT64_MAX);
    assert_true(clk_add(INT64_MIN, -1) == INT64_MIN);
    assert_true(clk_add(40, 2) == 42);
    assert_true(clk_sub(INT64_MAX, -1) == INT64_MAX);
    assert_true(clk_sub(INT64_MIN, 1) == INT64_MIN);
    assert_true(clk_sub(-1, INT64_MAX) == INT64_MIN);
    assert_true(clk_sub(0, INT64_MIN) == INT64_MAX);
    assert_true(clk_sub(44, 2) == 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filetimes_become_utc_and_back),
        cmocka_unit_test(ticks_of_any_frequency_become_ns_without_overflow),
        cmocka_unit_test(moments_are_read_and_written),
        cmocka_unit_test(the_ends_of_time_can_be_written),
        cmocka_unit_test(sums_saturate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
