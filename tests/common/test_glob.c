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

    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        bool got = glob_match(str_make(table[i].pattern), str_make(table[i].text));

        if (got != table[i].match) {
            fail_msg("\"%s\" against \"%s\" gives %d", table[i].pattern, table[i].text, got);
        }
    }
}

static void only_stars_and_question_marks_make_a_pattern(void **state)
{
    (void)state;
    assert_true(glob_is_pattern(str_make("a*")));
    assert_true(glob_is_pattern(str_make("a?")));
    assert_false(glob_is_pattern(str_make("a[b]")));
    assert_false(glob_is_pattern(str_make("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_the_table_says),
        cmocka_unit_test(only_stars_and_question_marks_make_a_pattern),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
