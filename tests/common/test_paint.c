#include "common/text/paint.h"

#include "tests/support/t.h"

static void expect(unsigned style, bool colours, const char *expected)
{
    struct buf b;

    buf_init(&b, 64);
    paint_put(&b, style, colours);
    assert_string_equal(buf_cstr(&b), expected);
    buf_fini(&b);
}

static void styles_are_sequences(void **state)
{
    (void)state;
    expect(PAINT_PLAIN, true, "\x1b[0m");
    expect(PAINT_BOLD | PAINT_RED, true, "\x1b[0;1;31m");
    expect(PAINT_DIM | PAINT_REVERSE | PAINT_CYAN, true, "\x1b[0;2;7;36m");
    expect(PAINT_BOLD | PAINT_RED, false, "\x1b[0;1m");
}

static void the_choice_is_one_of_three_words(void **state)
{
    (void)state;
    assert_err(paint_choose("yes"), ERR_USAGE);
    assert_ok(paint_choose("always"));
    assert_true(paint_wanted());
    assert_ok(paint_choose("never"));
    assert_false(paint_wanted());
    assert_err(paint_choose(""), ERR_USAGE);
    assert_false(paint_wanted());
    assert_ok(paint_choose("auto"));
}

static void states_that_need_somebody_stand_out(void **state)
{
    (void)state;
    assert_true(paint_of_state("silent") & PAINT_BOLD);
    assert_true(paint_of_state("expired") & PAINT_RED);
    assert_int_equal(paint_of_state("anything"), PAINT_PLAIN);
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
