#include "collector/cli/plot/plot.h"

#include <stdio.h>
#include <string.h>

#include "collector/cli/plot/history_plot.h"
#include "common/base/clk.h"
#include "tests/support/hostile.h"
#include "tests/support/t.h"

#define NOON (INT64_C(1795348800) * CLK_S) /* 2026-11-22 12:00:00 */

/* Sixty seconds of a triangle; nothing from 20 to 29. */
static size_t triangle(struct plot_point *out, bool gap)
{
    size_t n = 0;

    for (int i = 0; i < 60; i++) {
        if (!gap || i < 20 || i >= 30) {
            out[n++] = (struct plot_point){NOON + i * CLK_S,
                                           (i % 20 < 10 ? i % 20 : 20 - i % 20) * 10, true};
        }
    }
    return n;
}

static void expect_graph(const struct plot *p, const char *expected)
{
    struct buf b;

    buf_init(&b, 1 << 16);
    assert_ok(plot_graph(&b, p));
    assert_string_equal(buf_cstr(&b), expected);
    buf_fini(&b);
}

static void expect_spark(const struct plot *p, const char *expected)
{
    struct buf b;

    buf_init(&b, 1 << 16);
    assert_ok(plot_spark(&b, p));
    assert_string_equal(buf_cstr(&b), expected);
    buf_fini(&b);
}

static void a_graph_has_axes_and_dots(void **state)
{
    struct plot_point points[60];
    struct plot p = {
        .title = "cpu_percent", .unit = TABLE_PERMILLE, .points = points, .columns = 40, .rows = 4};

    p.n = triangle(points, false);
    expect_graph(&p, "cpu_percent  min 0.0%  max 10.0%  last 1.0%\n"
                     "10.0% ┤    ⢀⠎⢢        ⢀⠎⢢        ⢀⠎⢢\n"
                     "      │   ⡠⠃  ⠱⣀     ⡠⠃  ⠱⣀     ⡠⠃  ⠱⣀\n"
                     "      │ ⢠⠊      ⠣⡀ ⢠⠊      ⠣⡀ ⢠⠊      ⠣⡀\n"
                     " 0.0% ┤⡰⠁        ⠑⡴⠁        ⠑⡴⠁        ⠑\n"
                     "      └─────────────────────────────────\n"
                     "       12:00:00                 12:00:59\n");
}

static void gaps_are_gaps(void **state)
{
    struct plot_point points[60];
    struct plot p = {
        .title = "cpu_percent", .unit = TABLE_PERMILLE, .points = points, .columns = 40, .rows = 4};

    p.n = triangle(points, true);
    expect_graph(&p, "cpu_percent  min 0.0%  max 10.0%  last 1.0%\n"
                     "10.0% ┤    ⢀⠎⢢         ⠈⢢        ⢀⠎⢢\n"
                     "      │   ⡠⠃  ⠱⣀         ⠱⣀     ⡠⠃  ⠱⣀\n"
                     "      │ ⢠⠊      ⠣⡀         ⠣⡀ ⢠⠊      ⠣⡀\n"
                     " 0.0% ┤⡰⠁        ⠑          ⠑⡴⠁        ⠑\n"
                     "      └─────────────────────────────────\n"
                     "       12:00:00                 12:00:59\n");
    p.ascii = true;
    expect_graph(&p, "cpu_percent  min 0.0%  max 10.0%  last 1.0%\n"
                     "10.0% +     **         **         **\n"
                     "      |   **  **        ***    *** ***\n"
                     "      | **      **         ** **     **\n"
                     " 0.0% +**        *          **         *\n"
                     "      +---------------------------------\n"
                     "       12:00:00                 12:00:59\n");
    p.columns = 30;
    expect_spark(&p, "cpu_percent  min 0.0%  max 10.0%  last 1.0%\n"
                     ".:=+*#*=-.     #*=-..:=+*#*=-.\n");
    p.ascii = false;
    expect_spark(&p, "cpu_percent  min 0.0%  max 10.0%  last 1.0%\n"
                     "▂▃▅▆▇█▇▅▄▂     █▇▅▄▂▂▃▅▆▇█▇▅▄▂\n");
}

static void absent_values_are_gaps_too(void **state)
{
    struct plot_point points[60];
    struct plot p = {.title = "x", .unit = TABLE_COUNT, .points = points, .n = 60, .columns = 30};

    for (int i = 0; i < 60; i++) {
        points[i] = (struct plot_point){NOON + i * CLK_S, 5, i < 30};
    }
    p.ascii = true;
    expect_spark(&p, "x  min 5  max 5  last 5\n"
                     "###############               \n");
}

static void without_values_it_says_so(void **state)
{
    struct plot_point point = {NOON, 1, false};
    struct plot p = {.title = "x", .points = &point, .n = 1, .columns = 40, .rows = 3};

    expect_graph(&p, "x  no values\n");
    p.n = 0;
    expect_spark(&p, "x  no values\n");
}

static void a_single_point_and_extreme_values_are_drawn(void **state)
{
    const struct plot_point points[] = {
        {INT64_MIN, INT64_MIN, true}, {0, INT64_MAX, true}, {INT64_MAX, 0, true}};
    struct buf b;

    for (size_t n = 1; n <= COUNT_OF(points); n++) {
        for (unsigned columns = 0; columns < 60; columns += 7) {
            struct plot p = {.title = "x",
                             .unit = TABLE_BYTES,
                             .points = points,
                             .n = n,
                             .columns = columns,
                             .rows = 3};

            buf_init(&b, 1 << 16);
            assert_ok(plot_graph(&b, &p));
            assert_ok(plot_bars(&b, &p));
            assert_int_equal(b.bad, ERR_OK);
            buf_fini(&b);
        }
    }
}

/* A double has 53 bits: these values are one number to it. */
static void large_values_that_differ_by_little_are_a_line(void **state)
{
    const struct plot_point points[] = {{NOON, INT64_MAX - 1, true},
                                        {NOON + CLK_S, INT64_MAX, true}};
    const struct plot_point below[] = {{NOON, INT64_MIN, true},
                                       {NOON + CLK_S, INT64_MIN + 1, true}};
    struct plot p = {
        .title = "x", .unit = TABLE_ID, .points = points, .n = 2, .columns = 4, .ascii = true};

    expect_spark(&p,
                 "x  min 9223372036854775806  max 9223372036854775807  last 9223372036854775807\n"
                 "####\n");
    p.points = below;
    expect_spark(
        &p, "x  min -9223372036854775808  max -9223372036854775807  last -9223372036854775807\n"
            "____\n");
}

static void days_are_named_when_there_are_several(void **state)
{
    const struct plot_point points[] = {
        {NOON, 1, true}, {NOON + 86400 * CLK_S, 2, true}, {NOON + 2 * 86400 * CLK_S, 3, true}};
    struct plot p = {.title = "threads",
                     .unit = TABLE_COUNT,
                     .points = points,
                     .n = 3,
                     .columns = 40,
                     .rows = 2,
                     .ascii = true};

    expect_graph(&p, "threads  min 1  max 3  last 3\n"
                     "3 +         ****************************\n"
                     "0 +*********\n"
                     "  +-------------------------------------\n"
                     "   11-22 12:00               11-24 12:00\n");
}

/* Names of processes and hosts stand above their plots. */
static void no_name_above_a_plot_steers_a_terminal(void **state)
{
    static const enum history_plot_how hows[] = {HISTORY_PLOT_BRAILLE, HISTORY_PLOT_SPARK};

    for (size_t i = 0; i < HOSTILE_TEXTS * COUNT_OF(hows); i++) {
        struct wire_host host = {.name = str_make(hostile_texts[i % HOSTILE_TEXTS])};
        struct wire_answer a = {
            .n_hosts = 1, .hosts = &host, .n_metrics = 1, .metrics = {M_THREAD_COUNT}};
        char out[16384];
        size_t n, lines = 0;
        struct history_plot *h;
        FILE *f = tmpfile();

        assert_ok(history_plot_create(&h, hows[i / HOSTILE_TEXTS], 0));
        for (int64_t v = 0; v < 9; v++) {
            const struct wire_row row = {.info = {.id = {7, 1}, .name = host.name},
                                         .when_ns = NOON + v * CLK_S,
                                         .have = 1,
                                         .values = &v};

            history_plot_row(h, &a, &row);
        }
        assert_ok(history_plot_print(h, f, 80, false));
        rewind(f);
        n = fread(out, 1, sizeof out, f);
        for (size_t at = 0; at < n; at++) {
            lines += out[at] == '\n';
        }
        assert_in_range(lines, 1, 40); /* none but its own */
        assert_false(hostile_shown(out, n, lines));
        fclose(f);
        history_plot_destroy(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_has_axes_and_dots),
        cmocka_unit_test(gaps_are_gaps),
        cmocka_unit_test(absent_values_are_gaps_too),
        cmocka_unit_test(without_values_it_says_so),
        cmocka_unit_test(a_single_point_and_extreme_values_are_drawn),
        cmocka_unit_test(large_values_that_differ_by_little_are_a_line),
        cmocka_unit_test(no_name_above_a_plot_steers_a_terminal),
        cmocka_unit_test(days_are_named_when_there_are_several),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
