#include "collector/cli/term/screen.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "tests/support/t.h"

static struct screen *make(unsigned rows, unsigned columns, bool ascii)
{
    struct screen *s;

    assert_ok(screen_create(&s, ascii));
    assert_ok(screen_reset(s, rows, columns));
    return s;
}

static void expect_text(const struct screen *s, const char *expected)
{
    struct buf b;

    buf_init(&b, 1 << 16);
    screen_text(&b, s);
    assert_string_equal(buf_cstr(&b), expected);
    buf_fini(&b);
}

/* A terminal that knows what screen_diff writes: movements, styles, clearing, characters of one
 * byte. */
struct glass {
    unsigned row, column;
    char text[8][41];
};

static void glass_show(struct glass *g, const struct buf *b)
{
    const char *p = (const char *)b->p, *end = p + b->n;

    while (p < end) {
        unsigned row, column;
        int n = 0;

        if (*p != '\x1b') {
            assert_in_range(*p, 0x20, 0x7E);
            g->text[g->row][g->column++] = *p++;
            continue;
        }
        if (sscanf(p, "\x1b[%u;%uH%n", &row, &column, &n) == 2 && n) {
            g->row = row - 1;
            g->column = column - 1;
        } else if (strncmp(p, "\x1b[2J", 4) == 0) {
            n = 4;
            memset(g->text, ' ', sizeof g->text);
        } else {
            n = (int)strcspn(p, "m") + 1;
        }
        p += n;
    }
}

static void text_is_cut_where_its_columns_end(void **state)
{
    struct screen *s = make(3, 20, false);

    assert_int_equal(screen_put(s, 0, 0, 5, 0, str_make("abcde")), 5);
    assert_int_equal(screen_put(s, 1, 0, 5, 0, str_make("abcdef")), 5);
    assert_int_equal(screen_put(s, 2, 17, 99, 0, str_make("wxyz")), 3);
    assert_int_equal(screen_put(s, 3, 0, 5, 0, str_make("below")), 0);
    screen_put_right(s, 0, 6, 4, 0, str_make("12"));
    screen_put_right(s, 1, 6, 4, 0, str_make("12345"));
    expect_text(s, "abcde   12\nabcd\u2026 123\u2026\n                 wx\u2026\n");
    screen_destroy(s);
}

static void hostile_names_do_not_reach_the_terminal(void **state)
{
    static const char name[] = "\x1b[2J\x07\xC2\x9b"
                               "31m\xFF\u202Ex\n";
    struct screen *s = make(1, 60, false), *was = make(1, 60, false);
    struct buf b;

    screen_put(s, 0, 0, 60, 0, str_make(name));
    expect_text(s, "\\x1b[2J\\x07\\x9b31m\\xff\\u202ex\\x0a\n");
    buf_init(&b, 1 << 16);
    screen_diff(&b, was, s, true);
    assert_int_equal(strcspn(buf_cstr(&b) + 1, "\x1b\x07\x9b\xFF\n"), b.n - 1);
    buf_fini(&b);
    screen_destroy(s);
    screen_destroy(was);
}

static void wide_characters_take_two_columns_and_are_never_halved(void **state)
{
    struct screen *s = make(4, 6, false);

    assert_int_equal(screen_put(s, 0, 0, 6, 0, str_make("\u65e5\u672c")), 4);
    screen_put(s, 1, 0, 4, 0, str_make("\u65e5\u672c\u8a9e"));
    screen_put(s, 2, 0, 6, 0, str_make("\u65e5\u672c"));
    screen_put(s, 2, 1, 1, 0, str_make("x")); /* onto the right half of the first */
    screen_put(s, 3, 0, 6, 0, str_make("e\u0301\u0301\u0301\u0301z"));
    expect_text(s, "\u65e5\u672c\n\u65e5\u2026\n x\u672c\ne\u0301\u0301\u0301\u0301z\n");
    screen_destroy(s);
}

static void a_pile_of_accents_is_told_and_not_drawn_over_its_neighbours(void **state)
{
    struct screen *s = make(1, 20, false);

    screen_put(s, 0, 0, 20, 0, str_make("e\u0301\u0301\u0301\u0301\u0301\u0301z"));
    expect_text(s, "e\u0301\u0301\u0301\u0301\\u0301\\u0301z\n");
    screen_destroy(s);
}

static void a_terminal_without_utf8_gets_ascii(void **state)
{
    struct screen *s = make(1, 10, true);

    screen_put(s, 0, 0, 8, 0, str_make("caf\u00e9 \u65e5\u672c and more"));
    expect_text(s, "caf? ?~\n");
    screen_destroy(s);
}

static void only_what_changed_is_written(void **state)
{
    struct screen *was = make(4, 40, false), *is = make(4, 40, false);
    struct buf b;

    buf_init(&b, 1 << 16);
    screen_put(was, 1, 3, 20, STYLE_BOLD, str_make("load 12.5"));
    screen_put(is, 1, 3, 20, STYLE_BOLD, str_make("load 13.5"));
    screen_diff(&b, was, is, true);
    assert_string_equal(buf_cstr(&b), "\x1b[2;10H\x1b[0;1m3\x1b[0m");
    buf_reset(&b);
    screen_diff(&b, is, is, true);
    assert_int_equal(b.n, 0);
    buf_fini(&b);
    screen_destroy(was);
    screen_destroy(is);
}

static void styles_are_written_and_colours_only_where_wanted(void **state)
{
    struct screen *was = make(1, 10, false), *is = make(1, 10, false);
    struct buf b;

    buf_init(&b, 1 << 16);
    screen_put(is, 0, 0, 10, STYLE_BOLD | STYLE_RED, str_make("a"));
    screen_paint(is, 0, 0, 1, STYLE_REVERSE);
    screen_diff(&b, was, is, true);
    assert_string_equal(buf_cstr(&b), "\x1b[1;1H\x1b[0;1;7;31ma\x1b[0m");
    buf_reset(&b);
    screen_diff(&b, was, is, false);
    assert_string_equal(buf_cstr(&b), "\x1b[1;1H\x1b[0;1;7ma\x1b[0m");
    buf_fini(&b);
    screen_destroy(was);
    screen_destroy(is);
}

/* Random pictures one after the other on one terminal: each time it shows the last. */
static void differences_lead_to_the_picture(void **state)
{
    struct screen *was = make(8, 40, true), *is = make(8, 40, true);
    struct glass g = {0, 0, {""}};
    unsigned random = 7;
    struct buf b;

    buf_init(&b, 1 << 20);
    screen_diff(&b, NULL, was, true);
    for (int round = 0; round < 300; round++) {
        assert_ok(screen_reset(is, 8, 40));
        for (int i = 0; i < 12; i++) {
            random = random * 1103515245u + 12345u;
            screen_put(is, random >> 16 & 7, random >> 20 & 31, 1 + (random >> 8 & 7),
                       random >> 4 & STYLE_BOLD, str_make("abcdefgh" + (random >> 12 & 7)));
        }
        screen_diff(&b, was, is, true);
        glass_show(&g, &b);
        buf_reset(&b);
        assert_ok(screen_reset(was, 8, 40));
        for (unsigned row = 0; row < 8; row++) {
            g.text[row][40] = '\0';
            screen_put(was, row, 0, 40, 0, str_make(g.text[row]));
        }
        {
            struct buf text;

            buf_init(&text, 1 << 12);
            screen_text(&text, is);
            expect_text(was, buf_cstr(&text));
            buf_fini(&text);
        }
        struct screen *swap = was;

        was = is;
        is = swap;
    }
    buf_fini(&b);
    screen_destroy(was);
    screen_destroy(is);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cut_where_its_columns_end),
        cmocka_unit_test(hostile_names_do_not_reach_the_terminal),
        cmocka_unit_test(wide_characters_take_two_columns_and_are_never_halved),
        cmocka_unit_test(a_pile_of_accents_is_told_and_not_drawn_over_its_neighbours),
        cmocka_unit_test(a_terminal_without_utf8_gets_ascii),
        cmocka_unit_test(only_what_changed_is_written),
        cmocka_unit_test(styles_are_written_and_colours_only_where_wanted),
        cmocka_unit_test(differences_lead_to_the_picture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
