/* OpenMetrics text, character by character; e2e_metrics reads whole ones as strictly. */
#include "collector/metrics/om.h"

#include "tests/support/t.h"

static void assert_text(struct buf *b, const char *want)
{
    assert_string_equal(buf_cstr(b), want);
    buf_reset(b);
}

static void families_are_named_by_their_kind(void **state)
{
    struct buf b;

    buf_init(&b, 4096);
    om_family(&b, "a_bytes_total", METRICS_COUNTER, "One.");
    assert_text(&b, "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes One.\n");
    om_family(&b, "a_seconds", METRICS_GAUGE, "Two \"x\"\\\n.");
    assert_text(&b, "# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n"
                    "# HELP a_seconds Two \\\"x\\\"\\\\\\n.\n");
    om_family(&b, "build_info", METRICS_GAUGE, "Three.");
    assert_text(&b, "# TYPE build info\n# HELP build Three.\n");
    om_family(&b, "_total", METRICS_COUNTER, "Four.");
    assert_text(&b, "# TYPE _total counter\n# HELP _total Four.\n");
    buf_fini(&b);
}

static void values_are_exact_where_they_are_whole(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0, "a 0\n"},       {-1, "a -1\n"},      {9007199254740.0, "a 9007199254740\n"},
                {0.25, "a 0.25\n"}, {1e18, "a 1e+18\n"}, {1795357258.731, "a 1795357258.731\n"},
                {1e-9, "a 1e-09\n"}};
    struct buf b;

    buf_init(&b, 4096);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        om_sample(&b, "a", "", rows[i].value);
        assert_text(&b, rows[i].text);
    }
    om_sample(&b, "a", "x=\"1\"", 2);
    assert_text(&b, "a{x=\"1\"} 2\n");
    buf_fini(&b);
}

static void labels_hold_any_bytes(void **state)
{
    static const struct {
        struct str value;
        const char *text;
    } rows[] = {
        {{"", 0}, "l=\"\""},
        {{"a\"b\\c\nd", 7}, "l=\"a\\\"b\\\\c\\nd\""},
        {{"gr\xc3\xb6\xc3\x9f", 6}, "l=\"gr\xc3\xb6\xc3\x9f\""},
        {{"a\xff\xfe z", 5}, "l=\"a?? z\""},
        {{"cut\xc3", 4}, "l=\"cut?\""},
        {{"n\0l", 3}, "l=\"n?l\""},
        {{"\xed\xa0\x80", 3}, "l=\"???\""}, /* half of a pair */
    };
    struct buf b;

    buf_init(&b, 4096);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        om_label(&b, "l", rows[i].value);
        assert_text(&b, rows[i].text);
    }
    om_label(&b, "a", (struct str){"1", 1});
    om_label(&b, "b", (struct str){"2", 1});
    assert_text(&b, "a=\"1\",b=\"2\"");
    buf_fini(&b);
}

static void metrics_of_one_name_share_a_header(void **state)
{
    static const struct metrics f = {
        .n = 3,
        .all = {{.name = "a_total", .help = "A.", .labels = "x=\"1\"", .value = 1},
                {.name = "a_total", .help = "A.", .labels = "x=\"2\"", .value = 2},
                {.name = "b", .help = "B.", .kind = METRICS_GAUGE, .value = 3}}};
    struct buf b;

    buf_init(&b, 4096);
    om_metrics(&b, &f);
    om_end(&b);
    assert_text(&b, "# TYPE a counter\n# HELP a A.\na_total{x=\"1\"} 1\na_total{x=\"2\"} 2\n"
                    "# TYPE b gauge\n# HELP b B.\nb 3\n# EOF\n");
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_are_named_by_their_kind),
        cmocka_unit_test(values_are_exact_where_they_are_whole),
        cmocka_unit_test(labels_hold_any_bytes),
        cmocka_unit_test(metrics_of_one_name_share_a_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
