#include "tests/support/t.h"

#include "common/base/glob.h"

static void patterns_match_as_the_table_says(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool match;
    } table[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "anything", true},
        {"web-*", "web-17", true},
        {"web-*", "db-1", false},
        {"WEB-?", "web-1", true},
        {"web-?", "web-12", false},
        {"*.example", "a.b.example", true},
        {"*a*b*c*", "xxaxxbxxcxx", true},
        {"*a*b*c*", "xxaxxcxxbxx", false},
        {"a*b", "ab", true},
        {"a*b", "acbc", false},
        {"caf?", "caf\xc3\xa9", true},
        {"[a]", "a", false},
        {"a**b", "axb", true},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        bool got = glob_match(str_make(table[i].pattern), str_make(table[i].text));

        if (got != table[i].match) {
            fail_msg("\"%s\" against \"%s\" gives %d", table[i].pattern, table[i].text, got);
        }
    }
}

static void a_name_that_was_cut_may_match_with_its_end(void **state)
{
    static const struct {
        const char *pattern, *beginning;
        bool may;
    } table[] = {
        {"my-secret-service", "my-secret", true},
        {"my-secret-service", "MY-SECRET-SERVICE", true},
        {"my-secret", "my-secret-s", false},
        {"my-secret*", "my-secret-s", true},
        {"other*", "my-secret", false},
        {"*.exe", "my-secret", true},
        {"my-?ecret-x", "my-secret", true},
        {"", "a", false},
        {"a", "", true},
        {"caf?x", "caf\xc3\xa9", true},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_int_equal(glob_may_match(str_make(table[i].pattern), str_make(table[i].beginning)),
                         table[i].may);
    }
}

static void only_stars_and_question_marks_make_a_pattern(void **state)
{
    assert_true(glob_is_pattern(str_make("a*")));
    assert_true(glob_is_pattern(str_make("a?")));
    assert_false(glob_is_pattern(str_make("a[b]")));
    assert_false(glob_is_pattern(str_make("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_the_table_says),
        cmocka_unit_test(a_name_that_was_cut_may_match_with_its_end),
        cmocka_unit_test(only_stars_and_question_marks_make_a_pattern),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
