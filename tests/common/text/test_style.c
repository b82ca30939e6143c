#include "common/text/style.h"

#include "tests/support/t.h"

static void expect(unsigned style, bool colours, const char *expected)
{
    struct buf b;

    buf_init(&b, 64);
    style_put(&b, style, colours);
    assert_string_equal(buf_cstr(&b), expected);
    buf_fini(&b);
}

static void styles_are_sequences(void **state)
{
    expect(STYLE_PLAIN, true, "\x1b[0m");
    expect(STYLE_BOLD | STYLE_RED, true, "\x1b[0;1;31m");
    expect(STYLE_DIM | STYLE_REVERSE | STYLE_CYAN, true, "\x1b[0;2;7;36m");
    expect(STYLE_BOLD | STYLE_RED, false, "\x1b[0;1m");
}

static void the_choice_is_one_of_three_words(void **state)
{
    assert_err(style_choose("yes"), ERR_USAGE);
    assert_ok(style_choose("always"));
    assert_true(style_wanted());
    assert_ok(style_choose("never"));
    assert_false(style_wanted());
    assert_err(style_choose(""), ERR_USAGE);
    assert_false(style_wanted());
    assert_ok(style_choose("auto"));
}

static void states_that_need_somebody_stand_out(void **state)
{
    assert_true(style_of_state("silent") & STYLE_BOLD);
    assert_true(style_of_state("expired") & STYLE_RED);
    assert_int_equal(style_of_state("anything"), STYLE_PLAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(styles_are_sequences),
        cmocka_unit_test(the_choice_is_one_of_three_words),
        cmocka_unit_test(states_that_need_somebody_stand_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
