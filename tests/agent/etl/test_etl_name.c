#include "agent/etl/etl_name.h"

#include <string.h>

#include "tests/support/t.h"

static void expect_labels(const struct etl_name *n, const char *expected)
{
    char text[512] = "";

    for (size_t i = 0; i < n->n_labels; i++) {
        size_t at = strlen(text);

        (void)snprintf(text + at, sizeof text - at, "%s%.*s=%.*s", i ? " " : "",
                       (int)n->labels[i].key.n, n->labels[i].key.p, (int)n->labels[i].value.n,
                       n->labels[i].value.p);
    }
    assert_string_equal(text, expected);
}

static void names_say_case_host_and_labels(void **state)
{
    static const struct {
        const char *pattern, *file, *run, *host, *labels; /* run NULL: it does not fit */
    } table[] = {
        {"{case}_{ms}ms{host}.{time}", "Start_3117msSRV1.20200717-124447.etl", "Start", "SRV1",
         "ms=3117 time=20200717-124447"},
        /* a shorter text for the case leaves no number behind it */
        {"{case}_{ms}ms{host}.{time}", "Call_up_31ms_7msSRV.1.etl.xz", "Call_up", "_7msSRV",
         "ms=31 time=1"},
        {"{case}_{ms}ms{host}.{time}", "Call_up_3117ms.20200717.etl", NULL, "", ""},
        {"{case}_{ms}ms{host}.{time}", "Call_up_ms3117SRV.20200717.etl", NULL, "", ""},
        {"run-{case}", "run-a b/c.ETL", "a-b-c", "", ""},
        {"run-{case}", "ran-a.etl", NULL, "", ""},
        {"{case}-end", "a-end-end.etl", "a-end", "", ""},
        {"{case}-end", "a-en.etl", NULL, "", ""},
        {"{build}.{rack}", "4711.3.etl", "4711.3", "", "build=4711 rack=3"},
        {"same", "same.etl", NULL, "", ""},
        {NULL, "any (1).etl.xz", "any--1-", "", ""},
        {NULL, ".etl", ".etl", "", ""},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct etl_name n;
        bool fits = etl_name_match(&n, table[i].pattern, table[i].file);

        assert_int_equal(fits, table[i].run != NULL);
        if (fits) {
            assert_true(str_eq(n.run, str_make(table[i].run)));
            assert_true(str_eq(n.host, str_make(table[i].host)));
            expect_labels(&n, table[i].labels);
        }
    }
}

static void wrong_patterns_are_refused(void **state)
{
    static const struct {
        const char *pattern, *why;
    } table[] = {{"{case", "'{case' is no field"},
                 {"case}", "a } without its {"},
                 {"{}", "is no field"},
                 {"{Case}", "is no field"},
                 {"{a-b}", "is no field"},
                 {"{{case}}", "is no field"},
                 {"{case}{host}", "nothing tells where one ends"}};
    char many[17 * 5 + 1] = "", long_one[ETL_NAME_MAX + 2] = "";
    struct errmsg why = {""};

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_err(etl_name_check(table[i].pattern, &why), ERR_USAGE);
        assert_non_null(strstr(why.text, table[i].why));
    }
    for (size_t i = 0; i < 17; i++) {
        memcpy(many + 4 * i, "{a}-", 5);
    }
    assert_err(etl_name_check(many, &why), ERR_USAGE);
    memset(long_one, 'x', sizeof long_one - 1);
    assert_err(etl_name_check(long_one, &why), ERR_USAGE);
    assert_ok(etl_name_check("{case}_{ms}ms{host}.{time}", &why));
}

/* Sixteen fields that all may end at any of 250 places. */
static void a_name_that_nearly_fits_takes_no_time(void **state)
{
    char pattern[ETL_NAME_MAX] = "", file[ETL_NAME_MAX + 1];
    struct etl_name n;

    for (size_t i = 0; i < ETL_NAME_FIELDS; i++) {
        size_t at = strlen(pattern);

        (void)snprintf(pattern + at, sizeof pattern - at, "{a}%s", i + 1 < 16 ? "." : "!");
    }
    memset(file, '.', sizeof file - 1);
    file[sizeof file - 1] = '\0';
    assert_false(etl_name_match(&n, pattern, file));
}

static void recordings_end_with_etl(void **state)
{
    assert_true(etl_name_is_recording("a.etl") && etl_name_is_recording("A.ETL.XZ"));
    assert_false(etl_name_is_recording(".etl") || etl_name_is_recording("a.xz") ||
                 etl_name_is_recording("etl") || etl_name_is_recording("a.etl.gz"));
    assert_string_equal(etl_name_base("a/b\\c.etl"), "c.etl");
    assert_int_equal(etl_name_stem("c.etl.xz").n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_say_case_host_and_labels),
        cmocka_unit_test(wrong_patterns_are_refused),
        cmocka_unit_test(a_name_that_nearly_fits_takes_no_time),
        cmocka_unit_test(recordings_end_with_etl),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
