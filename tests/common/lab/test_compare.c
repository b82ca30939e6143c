#include "common/lab/compare.h"

#include <math.h>

#include "common/base/mem.h"
#include "common/lab/host_class.h"
#include "common/lab/stat.h"
#include "tests/common/lab/run_made.h"
#include "tests/support/draw.h"
#include "tests/support/t.h"

#define SIDE 16u

/* -- two sides, interleaved, and what is asked -- */

struct scene {
    struct run_made *made; /* 2 * SIDE */
    const struct run_file *a[SIDE], *b[SIDE];
    struct compare_ask ask;
    struct quantity_limit limits[4];
    struct compare *c;
    uint64_t chance;
};

static double normal(uint64_t *d)
{
    return stat_normal_quantile((draw(d, 1u << 30) + 0.5) / (1u << 30));
}

static struct run_made *of_a(struct scene *s, size_t i)
{
    return &s->made[2 * i];
}

static struct run_made *of_b(struct scene *s, size_t i)
{
    return &s->made[2 * i + 1];
}

static void limit(struct scene *s, size_t i, const char *text)
{
    struct errmsg why;

    assert_ok(quantity_limit_parse(&s->limits[i], str_make(text), &why));
    s->ask.limits = s->limits;
    s->ask.n_limits = i + 1;
}

/* n + n runs of `hosts` hosts each, one after the other; each run is by chance this much faster or
 * slower as a whole, b is slower by `change`. */
static void open_scene(struct scene *s, size_t n, size_t hosts, double spread, double change)
{
    *s = (struct scene){.made = calloc(2 * (size_t)SIDE, sizeof *s->made), .chance = 7};
    assert_non_null(s->made);
    for (size_t i = 0; i < 2 * n; i++) {
        double factor = exp(spread * normal(&s->chance)) * (i % 2 ? 1 + change : 1);
        char name[32];

        (void)snprintf(name, sizeof name, "%s-%zu", i % 2 ? "pr" : "main", i / 2);
        run_made_init(&s->made[i], name, (int64_t)i * 1000, hosts, 1);
        for (size_t k = 0; k < hosts; k++) {
            run_made_scale(&s->made[i], k, factor * exp(spread / 4 * normal(&s->chance)));
        }
        (i % 2 ? s->b : s->a)[i / 2] = &s->made[i].f;
    }
    s->ask = (struct compare_ask){.a = s->a, .b = s->b, .n_a = n, .n_b = n};
    limit(s, 0, "cpu_time > 5%");
}

static const struct compare_row *judge(struct scene *s)
{
    compare_free(s->c);
    s->c = NULL;
    assert_ok(compare_runs(&s->c, &s->ask));
    assert_true(s->c->n_rows > 0);
    return &s->c->rows[0];
}

static void close_scene(struct scene *s)
{
    compare_free(s->c);
    free(s->made);
}

static bool has_note(const struct scene *s, enum compare_code code)
{
    for (size_t i = 0; i < s->c->n_notes; i++) {
        if (s->c->notes[i].code == code && s->c->notes[i].text.n > 10) {
            return true;
        }
    }
    return false;
}

/* No verdict at all, for this reason. */
static void refused(struct scene *s, enum compare_code code)
{
    const struct compare_row *row = judge(s);

    assert_int_equal(row->says, COMPARE_SAYS_NOTHING);
    assert_true(has_note(s, code));
    assert_int_equal(compare_exit(s->c), 5);
}

/* -- verdicts -- */

static void a_rise_above_the_limit_is_a_regression(void **state)
{
    struct scene s;
    const struct compare_row *row;

    open_scene(&s, 8, 20, 0.01, 0.08);
    row = judge(&s);
    assert_int_equal(row->says, COMPARE_REGRESSION);
    assert_int_equal(compare_exit(s.c), 6);
    assert_true(row->effect > 0.06 && row->effect < 0.10);
    assert_true(row->low > 0.04 && row->low < row->effect && row->high > row->effect);
    assert_true(row->p < 0.001 && row->q >= row->p && isnan(row->floor) && row->exact);
    assert_int_equal(row->n_a, 8);
    assert_true(row->a > 20 * 4000e9 && row->a < 20 * 4250e9 && row->b > row->a);
    assert_true(row->a_low <= row->a && row->a <= row->a_high);
    assert_true(s.c->interleaved && !s.c->pool && !s.c->refused);
    assert_int_equal(s.c->n_hosts, 20);
    close_scene(&s);
}

static void no_change_is_ok_and_that_is_shown(void **state)
{
    struct scene s;

    open_scene(&s, 8, 20, 0.01, 0);
    assert_int_equal(judge(&s)->says, COMPARE_OK);
    assert_true(s.c->rows[0].high < 0.05);
    assert_int_equal(compare_exit(s.c), 0);
    close_scene(&s);
}

static void what_is_too_wide_is_undecided_and_says_how_many_runs_it_takes(void **state)
{
    struct scene s;
    const struct compare_row *row;

    open_scene(&s, 8, 20, 0.10, 0);
    row = judge(&s);
    assert_int_equal(row->says, COMPARE_UNDECIDED);
    assert_true(row->high >= 0.05);
    assert_int_equal(row->runs_wanted,
                     ceil(8 * pow((row->high - row->low) / 2 / fabs(0.05 - row->effect), 2) - 8));
    assert_int_equal(compare_exit(s.c), 5);
    close_scene(&s);
}

static void a_regression_counts_more_than_what_is_undecided(void **state)
{
    struct scene s;

    open_scene(&s, 8, 4, 0.005, 0.2);
    limit(&s, 1, "read_bytes > 5%");
    for (size_t i = 0; i < 16; i++) {
        run_made_values(&s.made[i], 0, 0)[4] = (int64_t)(4000 + 3000 * ((i * 7) % 11));
    }
    judge(&s);
    assert_int_equal(s.c->rows[0].says, COMPARE_REGRESSION);
    assert_int_equal(s.c->rows[1].says, COMPARE_UNDECIDED);
    assert_int_equal(compare_exit(s.c), 6);
    close_scene(&s);
}

static void a_fall_is_looked_for_with_less_than(void **state)
{
    struct scene s;

    open_scene(&s, 8, 4, 0.01, -0.08);
    assert_int_equal(judge(&s)->says, COMPARE_OK);
    limit(&s, 0, "cpu_time < -5%");
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    assert_true(s.c->rows[0].effect < -0.06 && s.c->rows[0].low < s.c->rows[0].effect &&
                s.c->rows[0].high < 0);
    limit(&s, 0, "cpu_time < -20%");
    assert_int_equal(judge(&s)->says, COMPARE_OK);
    close_scene(&s);
}

static void limits_may_be_absolute(void **state)
{
    struct scene s;

    open_scene(&s, 8, 1, 0.01, 0);
    for (size_t i = 0; i < 8; i++) {
        of_a(&s, i)->rows[0].starts = 100 + i % 2;
        of_b(&s, i)->rows[0].starts = 115 + i % 3;
    }
    limit(&s, 0, "starts > 10");
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    assert_true(s.c->rows[0].effect >= 14 && s.c->rows[0].effect <= 16);
    limit(&s, 0, "starts of cc1 > 20");
    assert_int_equal(judge(&s)->says, COMPARE_OK);
    limit(&s, 0, "starts of \"ld\" > 1");
    assert_int_equal(judge(&s)->says, COMPARE_OK);
    limit(&s, 0, "cpu_time > 3000s"); /* not in shares, in seconds of a host */
    assert_int_equal(judge(&s)->says, COMPARE_OK);
    close_scene(&s);
}

/* -- what changes nothing -- */

static void swapping_sides_turns_the_sign_and_nothing_else(void **state)
{
    struct scene s;
    struct compare_row x;
    const struct compare_row *y;

    open_scene(&s, 7, 5, 0.02, 0.03);
    s.ask.n_limits = 0;
    s.ask.metrics = &(struct quantity){QUANTITY_TOTAL, M_CPU_TIME};
    s.ask.n_metrics = 1;
    x = *judge(&s);
    s.ask.a = s.b;
    s.ask.b = s.a;
    y = judge(&s);
    assert_true(fabs(log1p(x.effect) + log1p(y->effect)) < 1e-12);
    assert_true(fabs(log1p(x.low) + log1p(y->high)) < 1e-12);
    assert_true(fabs(x.p - y->p) < 1e-12 && x.a == y->b && x.b == y->a);
    close_scene(&s);
}

static void units_order_and_names_change_nothing(void **state)
{
    struct scene s;
    struct compare_row x;
    const struct compare_row *y;
    const struct run_file *first;

    open_scene(&s, 8, 5, 0.03, 0.05);
    x = *judge(&s);
    for (size_t i = 0; i < 16; i++) {
        struct run_made *m = &s.made[i];

        for (size_t k = 0; k < 5; k++) {
            run_made_scale(m, k, 16);
        }
        m->f.head.name = str_make(i % 3 ? "x" : "y");
    }
    first = s.a[0];
    s.a[0] = s.a[5];
    s.a[5] = first;
    y = judge(&s);
    assert_true(fabs(x.effect - y->effect) < 1e-9 && fabs(x.low - y->low) < 1e-9 &&
                fabs(x.high - y->high) < 1e-9 && fabs(x.p - y->p) < 1e-12);
    assert_int_equal(x.says, y->says);
    close_scene(&s);
}

/* -- how many runs -- */

static void too_few_runs_are_refused_and_it_says_how_many_it_takes(void **state)
{
    struct scene s;

    open_scene(&s, 3, 20, 0.001, 0.5);
    refused(&s, COMPARE_FEW_RUNS);
    assert_true(s.c->notes[0].text.n > 0 && strstr(s.c->notes[0].text.p, "3+3 runs"));
    assert_true(strstr(s.c->notes[0].text.p, "4 on each side"));
    close_scene(&s);
    open_scene(&s, 4, 20, 0.001, 0.5);
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    limit(&s, 1, "duration > 5%"); /* two tests take five runs */
    refused(&s, COMPARE_FEW_RUNS);
    assert_true(strstr(s.c->notes[0].text.p, "5 on each side"));
    limit(&s, 0, "cpu_time > 5%");
    s.ask.looks = 2; /* and so do two looks */
    refused(&s, COMPARE_FEW_RUNS);
    close_scene(&s);
    open_scene(&s, 8, 20, 0.001, 0.5);
    s.ask.n_a = 3; /* 3+8 could show something, and are refused all the same */
    s.ask.assume_stable = true;
    refused(&s, COMPARE_FEW_RUNS);
    close_scene(&s);
}

static void a_diff_makes_as_many_tests_as_its_runs_can_carry(void **state)
{
    static const struct {
        size_t runs, tests;
    } rows[] = {{3, 0}, {4, 1}, {5, 6}, {6, 23}, {7, 85}, {8, 321}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t tested = 0;
        struct scene s;

        open_scene(&s, rows[i].runs, 2, 0.01, 0.08);
        s.ask.n_limits = 0;
        s.ask.group_by = COMPARE_BY_IMAGE;
        judge(&s);
        assert_int_equal(s.c->can_carry, rows[i].tests);
        for (size_t k = 0; k < s.c->n_rows; k++) {
            tested += s.c->rows[k].says != COMPARE_NOT_TESTED &&
                      s.c->rows[k].says != COMPARE_SAYS_NOTHING;
        }
        assert_int_equal(tested, s.c->made);
        /* duration, cpu_time, private, read; of the last three cc1 and ld; write is not measured */
        assert_int_equal(s.c->n_rows, 10);
        assert_int_equal(s.c->made, rows[i].tests < 10 ? rows[i].tests : 10);
        close_scene(&s);
    }
}

static void a_diff_says_more_less_the_same_or_that_nothing_is_shown(void **state)
{
    struct scene s;

    open_scene(&s, 8, 4, 0.01, 0.08);
    s.ask.n_limits = 0;
    s.ask.group_by = COMPARE_BY_IMAGE;
    judge(&s);
    assert_int_equal(s.c->rows[0].says, COMPARE_NOT_SHOWN); /* duration: all are ten minutes */
    assert_int_equal(s.c->rows[1].says, COMPARE_MORE);
    assert_false(s.c->rows[1].of_group);
    assert_true(s.c->rows[2].of_group && str_eq(s.c->rows[2].group, str_make("cc1")));
    assert_true(str_eq(s.c->rows[3].group, str_make("ld")));
    assert_int_equal(s.c->rows[3].says, COMPARE_MORE);
    s.ask.same = 0.02;
    judge(&s);
    assert_int_equal(s.c->rows[0].says, COMPARE_SAME);
    s.ask.a = s.b;
    s.ask.b = s.a;
    judge(&s);
    assert_int_equal(s.c->rows[1].says, COMPARE_LESS);
    close_scene(&s);
}

/* -- loss -- */

static void hosts_whose_data_are_lost_leave_their_run(void **state)
{
    struct scene s;

    open_scene(&s, 8, 4, 0.01, 0.08);
    of_b(&s, 2)->hosts[1].ppm = 989999;
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION); /* on the other three */
    assert_true(has_note(&s, COMPARE_COVERAGE) && has_note(&s, COMPARE_HOSTS));
    assert_int_equal(s.c->n_hosts, 3);
    of_b(&s, 2)->hosts[1].ppm = 990000;
    judge(&s);
    assert_int_equal(s.c->n_hosts, 4);
    assert_int_equal(s.c->n_notes, 0);
    assert_int_equal(s.c->b.ppm, 990000);
    limit(&s, 0, "cpu_time > 2%"); /* a third of that is less than what is lost */
    judge(&s);
    assert_int_equal(s.c->n_hosts, 3);
    limit(&s, 0, "cpu_time > 5%");
    of_b(&s, 2)->hosts[1].absent = true;
    judge(&s);
    assert_int_equal(s.c->n_hosts, 3);
    assert_true(has_note(&s, COMPARE_ABSENT));
    close_scene(&s);
}

static void an_unknown_number_of_lost_events_counts_from_a_second_on(void **state)
{
    struct scene s;
    struct run_host *h;

    open_scene(&s, 8, 4, 0.01, 0);
    h = &of_a(&s, 3)->hosts[0];
    h->spans = of_a(&s, 3)->spans;
    h->n_spans = 1;
    of_a(&s, 3)->spans[0] = (struct run_span){RUN_MADE_T0, RUN_MADE_T0 + RUN_MADE_S, 0, 0, true};
    judge(&s);
    assert_int_equal(s.c->n_hosts, 4);
    of_a(&s, 3)->spans[0].last_ns++;
    judge(&s);
    assert_int_equal(s.c->n_hosts, 3);
    assert_true(has_note(&s, COMPARE_AT_MOST));
    of_a(&s, 3)->spans[0].at_most = false;
    judge(&s);
    assert_int_equal(s.c->n_hosts, 4);
    close_scene(&s);
}

static void a_run_that_loses_more_than_half_of_its_hosts_leaves(void **state)
{
    struct scene s;

    open_scene(&s, 4, 4, 0.01, 0.08);
    for (size_t k = 0; k < 3; k++) {
        of_b(&s, 0)->hosts[k].ppm = 900000;
    }
    refused(&s, COMPARE_FEW_RUNS);
    assert_true(has_note(&s, COMPARE_COVERAGE));
    assert_int_equal(s.c->b.n_judged, 3);
    assert_int_equal(s.c->b.n_given, 4);
    for (size_t i = 0; i < 4; i++) {
        of_b(&s, i)->hosts[0].ppm = of_b(&s, i)->hosts[1].ppm = of_b(&s, i)->hosts[2].ppm = 1;
    }
    refused(&s, COMPARE_NO_RUNS);
    close_scene(&s);
}

/* -- unlike sides -- */

static void another_class_is_refused(void **state)
{
    struct scene s;

    open_scene(&s, 8, 4, 0.01, 0.08);
    of_b(&s, 2)->facts[1][5].value = str_make("9999"); /* a revision is no class */
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    of_b(&s, 7)->facts[1][5].value = str_make("2700");
    judge(&s);
    assert_int_equal(s.c->n_facts, 1);
    assert_true(str_eq(s.c->facts[0].b, str_make("2700")) && s.c->facts[0].hosts == 1);
    of_b(&s, 2)->facts[1][2].value = str_make("i9-13900");
    refused(&s, COMPARE_CLASS);
    close_scene(&s);
}

static void hosts_that_tell_nothing_equal_themselves(void **state)
{
    struct scene s;

    open_scene(&s, 8, 4, 0.01, 0.08);
    for (size_t i = 0; i < 16; i++) {
        for (size_t k = 0; k < 4; k++) {
            s.made[i].hosts[k].n_facts = 0;
        }
    }
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    assert_int_equal(s.c->a.class.n, 0);
    close_scene(&s);
}

static void another_way_of_measuring_is_refused(void **state)
{
    struct scene s;

    open_scene(&s, 8, 2, 0.01, 0.08);
    of_b(&s, 0)->hosts[0].cpu_origin = CPU_ORIGIN_TIMES;
    refused(&s, COMPARE_CPU_ORIGIN);
    of_b(&s, 0)->hosts[0].cpu_origin = CPU_ORIGIN_CSWITCH;
    of_b(&s, 0)->hosts[0].polled = true;
    refused(&s, COMPARE_SOURCE);
    of_b(&s, 0)->hosts[0].polled = false;
    of_b(&s, 0)->hosts[0].source = str_make("proc");
    refused(&s, COMPARE_SOURCE);
    of_b(&s, 0)->hosts[0].source = str_make("etw");
    of_b(&s, 0)->hosts[0].agent = str_make("0.4.0");
    refused(&s, COMPARE_AGENT);
    of_b(&s, 0)->hosts[0].agent = str_make("0.3.7");
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    close_scene(&s);
}

static void other_rates_of_samples_refuse_peaks_alone(void **state)
{
    struct scene s;

    open_scene(&s, 8, 2, 0.01, 0.08);
    limit(&s, 1, "peak(private_bytes) > 5%");
    of_b(&s, 0)->hosts[0].step_ns = RUN_MADE_S * 14 / 10; /* some came late */
    judge(&s);
    assert_int_equal(s.c->rows[1].says, COMPARE_OK);
    of_b(&s, 0)->hosts[0].step_ns = 2 * RUN_MADE_S;
    judge(&s);
    assert_int_equal(s.c->rows[0].says, COMPARE_REGRESSION);
    assert_int_equal(s.c->rows[1].says, COMPARE_SAYS_NOTHING);
    assert_int_equal(s.c->rows[1].code, COMPARE_RATE);
    assert_int_equal(compare_exit(s.c), 6);
    close_scene(&s);
}

/* -- runs that do not count -- */

static void runs_that_failed_or_have_not_ended_are_left_out(void **state)
{
    struct scene s;

    open_scene(&s, 6, 2, 0.01, 0.08);
    of_a(&s, 0)->f.head.state = RUN_FAILED;
    of_a(&s, 1)->f.head.has_exit = true;
    of_a(&s, 1)->f.head.exit_code = 2;
    of_b(&s, 0)->f.head.state = RUN_OPEN;
    of_b(&s, 1)->f.head.state = RUN_EXPIRED;
    of_b(&s, 2)->f.head.state = RUN_IMPORTED;
    s.ask.assume_stable = true;
    judge(&s);
    assert_int_equal(s.c->a.n_judged, 4);
    assert_int_equal(s.c->b.n_judged, 4);
    assert_true(has_note(&s, COMPARE_FAILED) && has_note(&s, COMPARE_NOT_READY));
    s.ask.failed = true;
    judge(&s);
    assert_int_equal(s.c->a.n_judged, 6);
    close_scene(&s);
}

static void runs_that_are_too_short_for_their_clock_or_samples_are_left_out(void **state)
{
    struct scene s;

    open_scene(&s, 6, 2, 0.01, 0.08);
    of_a(&s, 0)->hosts[1].clock_error_ns = 12 * RUN_MADE_S; /* 600 s are 50 of them */
    judge(&s);
    assert_int_equal(s.c->a.n_judged, 6);
    of_a(&s, 0)->hosts[1].clock_error_ns++;
    of_a(&s, 1)->hosts[0].step_ns = 21 * RUN_MADE_S; /* and less than 30 of these */
    of_a(&s, 2)->hosts[0].step_ns = 21 * RUN_MADE_S;
    of_a(&s, 2)->f.head.has_root = true; /* a tree's totals are exact all the same */
    s.ask.assume_stable = true;
    judge(&s);
    assert_int_equal(s.c->a.n_judged, 4);
    assert_true(has_note(&s, COMPARE_SHORT));
    close_scene(&s);
}

static void runs_that_met_others_leave_unless_they_are_trees(void **state)
{
    struct scene s;

    open_scene(&s, 8, 2, 0.01, 0.08);
    of_a(&s, 0)->hosts[0].overlapped = true;
    judge(&s);
    assert_int_equal(s.c->n_hosts, 1);
    assert_true(has_note(&s, COMPARE_OVERLAP));
    s.ask.overlap = true;
    judge(&s);
    assert_int_equal(s.c->n_hosts, 2);
    s.ask.overlap = false;
    of_a(&s, 0)->f.head.has_root = true;
    judge(&s);
    assert_int_equal(s.c->n_hosts, 2);
    close_scene(&s);
}

static void a_run_is_never_compared_with_itself(void **state)
{
    struct scene s;

    open_scene(&s, 8, 2, 0.01, 0.08);
    s.ask.b = s.a;
    refused(&s, COMPARE_NO_RUNS);
    close_scene(&s);
}

/* -- drift -- */

/* All of a's runs before all of b's. */
static void one_after_the_other(struct scene *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        of_a(s, i)->f.head.begin_ns = RUN_MADE_T0 + (int64_t)i * 1000 * RUN_MADE_S;
        of_b(s, i)->f.head.begin_ns = RUN_MADE_T0 + (int64_t)(n + i) * 1000 * RUN_MADE_S;
        of_a(s, i)->f.head.end_ns = of_a(s, i)->f.head.begin_ns + 600 * RUN_MADE_S;
        of_b(s, i)->f.head.end_ns = of_b(s, i)->f.head.begin_ns + 600 * RUN_MADE_S;
    }
}

static void drift_that_cannot_be_told_from_change_is_refused(void **state)
{
    struct scene s;

    open_scene(&s, 8, 2, 0.01, 0.08);
    one_after_the_other(&s, 8);
    refused(&s, COMPARE_DRIFT);
    s.ask.assume_stable = true;
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    assert_false(s.c->interleaved);
    close_scene(&s);
}

static void as_many_changes_of_side_as_the_smaller_side_has_runs_are_interleaved(void **state)
{
    struct scene s;

    open_scene(&s, 4, 2, 0.001, 0.08); /* a b a b a b a b */
    judge(&s);
    assert_true(s.c->interleaved);
    /* a a b b a a b b: three changes */
    for (size_t i = 0; i < 8; i++) {
        static const int64_t at[] = {0, 2, 1, 3, 4, 6, 5, 7};

        s.made[i].f.head.begin_ns = RUN_MADE_T0 + at[i] * 1000 * RUN_MADE_S;
        s.made[i].f.head.end_ns = s.made[i].f.head.begin_ns + 600 * RUN_MADE_S;
    }
    refused(&s, COMPARE_DRIFT);
    close_scene(&s);
}

/* The past of a: runs that differ by so much from one to the next. */
static void past(struct scene *s, struct run_made *made, const struct run_file **files, size_t n,
                 double step)
{
    for (size_t i = 0; i < n; i++) {
        run_made_init(&made[i], "main-0", -86400 + (int64_t)i * 1000, s->made[0].f.n_hosts, 1);
        for (size_t k = 0; k < made[i].f.n_hosts; k++) {
            run_made_scale(&made[i], k, i % 2 ? 1 + step : 1);
        }
        files[i] = &made[i].f;
    }
    s->ask.history = files;
    s->ask.n_history = n;
}

static void a_change_within_the_noise_floor_is_no_regression(void **state)
{
    static struct run_made made[33];
    const struct run_file *files[33];
    struct scene s;

    open_scene(&s, 8, 2, 0.005, 0.08);
    one_after_the_other(&s, 8);
    past(&s, made, files, 10, 0.1);
    refused(&s, COMPARE_DRIFT); /* ten runs make nine differences */
    past(&s, made, files, 11, 0.1);
    assert_int_equal(judge(&s)->says, COMPARE_UNDECIDED);
    assert_true(fabs(s.c->rows[0].floor - 0.1) < 1e-9);
    past(&s, made, files, 11, 0.04);
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    assert_true(fabs(s.c->rows[0].floor - 0.04) < 1e-9);
    /* 33 runs: groups of three, which differ less from each other */
    past(&s, made, files, 33, 0.1);
    judge(&s);
    assert_true(s.c->rows[0].floor < 0.1 + 1e-9);
    /* what is older than 90 days or of another class is none of it */
    past(&s, made, files, 11, 0.04);
    made[0].f.head.begin_ns -= INT64_C(91) * 86400 * RUN_MADE_S;
    refused(&s, COMPARE_DRIFT);
    past(&s, made, files, 11, 0.04);
    made[3].facts[1][2].value = str_make("i9-13900");
    refused(&s, COMPARE_DRIFT);
    past(&s, made, files, 11, 0.04);
    made[3].f.n_hosts = 1; /* lacks one of the hosts */
    made[3].f.n_rows = RUN_MADE_ROWS + 1;
    refused(&s, COMPARE_DRIFT);
    past(&s, made, files, 11, 0.04);
    made[3].f.head.state = RUN_EXPIRED;
    refused(&s, COMPARE_DRIFT);
    assert_false(has_note(&s, COMPARE_NOT_READY)); /* of neither side */
    close_scene(&s);
}

static void the_sides_own_runs_may_be_the_history(void **state)
{
    struct scene s;

    open_scene(&s, 12, 2, 0.005, 0.08);
    one_after_the_other(&s, 12);
    s.ask.history = s.a;
    s.ask.n_history = 12;
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    assert_true(s.c->rows[0].floor > 0 && s.c->rows[0].floor < 0.03);
    assert_int_equal(s.c->floor_runs, 12);
    close_scene(&s);
}

/* -- designs -- */

static void hosts_that_not_every_run_has_are_left_out_and_named(void **state)
{
    struct scene s;

    open_scene(&s, 8, 4, 0.01, 0.08);
    of_b(&s, 3)->f.n_hosts = 3;
    of_b(&s, 3)->f.n_rows = 3 * (RUN_MADE_ROWS + 1);
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    assert_int_equal(s.c->n_hosts, 3);
    assert_true(has_note(&s, COMPARE_HOSTS) && strstr(s.c->notes[0].text.p, "lab-4"));
    close_scene(&s);
}

/* Each run on one host of six, which differ by 20 %; a and b both twice on each. */
static void pool(struct scene *s, double change)
{
    open_scene(s, 12, 1, 0, 0);
    for (size_t i = 0; i < 24; i++) {
        unsigned host = (unsigned)(i / 2 % 6);

        run_made_init(&s->made[i], i % 2 ? "pr" : "main", (int64_t)i * 1000, 1, host + 1);
        run_made_scale(&s->made[i], 0,
                       (1 + 0.2 * host) * exp(0.005 * normal(&s->chance)) *
                           (i % 2 ? 1 + change : 1));
    }
}

static void runs_of_a_pool_are_compared_host_by_host(void **state)
{
    struct scene s;

    pool(&s, 0.08);
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    assert_true(s.c->pool && s.c->rows[0].effect > 0.07 && s.c->rows[0].effect < 0.09);
    close_scene(&s);
    pool(&s, 0);
    assert_int_equal(judge(&s)->says, COMPARE_OK);
    assert_true(fabs(s.c->rows[0].effect) < 0.01);
    close_scene(&s);
}

static void hosts_of_one_class_stand_for_each_other_if_asked(void **state)
{
    struct scene s;

    pool(&s, 0.5);
    for (size_t i = 0; i < 12; i++) { /* b on other hosts */
        unsigned host = (unsigned)(i % 6);

        run_made_host(of_b(&s, i), 0, host + 10);
    }
    refused(&s, COMPARE_HOSTS);
    s.ask.pair = COMPARE_PAIR_CLASS;
    judge(&s);
    assert_true(s.c->rows[0].effect > 0.3 && s.c->rows[0].p < 0.01);
    for (size_t i = 0; i < 12; i++) {
        of_b(&s, i)->facts[0][2].value = str_make("i9-13900");
    }
    refused(&s, COMPARE_CLASS);
    close_scene(&s);
}

static void a_floor_of_a_pool_takes_ten_differences_on_the_same_host(void **state)
{
    static struct run_made made[11];
    const struct run_file *files[11];
    struct scene s;

    pool(&s, 0.08);
    one_after_the_other(&s, 12);
    past(&s, made, files, 11, 0.01); /* all on lab-1 */
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    run_made_host(&made[10], 0, 2);
    refused(&s, COMPARE_DRIFT); /* nine */
    close_scene(&s);
}

static void runs_on_half_common_hosts_are_refused(void **state)
{
    struct scene s;

    open_scene(&s, 4, 4, 0.01, 0.08);
    for (size_t k = 0; k < 4; k++) {
        run_made_host(of_b(&s, 0), k, 4 + (unsigned)k);
    }
    refused(&s, COMPARE_HOSTS);
    close_scene(&s);
}

static void hosts_as_replicates_take_a_known_floor(void **state)
{
    static struct run_made made[11];
    const struct run_file *files[11];
    struct scene s;

    open_scene(&s, 1, 20, 0.01, 0.08);
    s.ask.replicate = COMPARE_REPLICATE_HOST;
    refused(&s, COMPARE_FLOOR);
    past(&s, made, files, 11, 0.01);
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    assert_int_equal(s.c->rows[0].n_a, 20);
    close_scene(&s);
}

/* -- values -- */

static void a_group_that_a_run_lacks_counts_zero_there(void **state)
{
    struct scene s;

    open_scene(&s, 8, 2, 0.01, 0);
    limit(&s, 0, "cpu_time of conftest > 5%");
    for (size_t i = 0; i < 8; i++) {
        of_b(&s, i)->rows[1].image = str_make("conftest"); /* ld on one of the hosts */
    }
    assert_int_equal(judge(&s)->says, COMPARE_REGRESSION);
    assert_true(s.c->rows[0].zeros && s.c->rows[0].a == 0 && s.c->rows[0].b > 0);
    assert_int_equal(s.c->n_only, 1);
    assert_true(s.c->only[0].in_b && s.c->only[0].runs == 8);
    limit(&s, 0, "cpu_time of nothing > 5%"); /* zero on both sides */
    assert_int_equal(judge(&s)->says, COMPARE_OK);
    assert_true(s.c->rows[0].p == 1 && s.c->rows[0].effect == 0);
    close_scene(&s);
}

static void what_was_not_measured_is_not_zero(void **state)
{
    struct scene s;

    open_scene(&s, 8, 2, 0.01, 0);
    limit(&s, 0, "write_bytes > 5%");
    judge(&s);
    assert_int_equal(s.c->rows[0].code, COMPARE_NOT_MEASURED);
    assert_int_equal(s.c->rows[0].says, COMPARE_SAYS_NOTHING);
    assert_int_equal(compare_exit(s.c), 5);
    close_scene(&s);
}

static void peaks_are_those_of_the_sum(void **state)
{
    struct scene s;

    open_scene(&s, 8, 2, 0.01, 0);
    limit(&s, 0, "peak(private_bytes) > 5%");
    limit(&s, 1, "max(private_bytes) > 5%");
    limit(&s, 2, "peak(private_bytes) of cc1 > 5%");
    limit(&s, 3, "avg(private_bytes) > 5%");
    judge(&s);
    assert_true(s.c->rows[0].a == 2 * (double)(850 << 20)); /* not 900: never at one moment */
    assert_true(s.c->rows[1].a == 2 * (double)(300 << 20));
    assert_true(s.c->rows[2].a == 2 * (double)(800 << 20));
    assert_true(s.c->rows[3].a == 2 * (double)(550 << 20));
    close_scene(&s);
}

static void of_a_run_of_a_tree_the_tree_counts(void **state)
{
    struct scene s;

    open_scene(&s, 8, 1, 0.001, 0);
    for (size_t i = 0; i < 16; i++) {
        s.made[i].f.head.has_root = true;
        s.made[i].f.head.root_pid = 4711;
        s.made[i].rows[RUN_MADE_CC1].in_tree = true;
        run_made_values(&s.made[i], 0, RUN_MADE_LD)[0] *= (int64_t)(1 + i % 2); /* not in it */
    }
    assert_int_equal(judge(&s)->says, COMPARE_OK);
    assert_true(s.c->rows[0].a < 3950e9);
    limit(&s, 0, "peak(private_bytes) > 5%");
    judge(&s);
    assert_true(s.c->rows[0].a == 800 << 20); /* not the host's */
    s.ask.n_limits = 0;
    s.ask.group_by = COMPARE_BY_TREE;
    judge(&s);
    assert_true(s.c->rows[1].a > 4000e9);
    assert_int_equal(s.c->rows[3].says, COMPARE_MORE); /* the rest of the host */
    assert_true(str_eq(s.c->rows[3].group, str_make("rest")));
    close_scene(&s);
}

static void groups_may_be_users_and_hosts(void **state)
{
    struct scene s;

    open_scene(&s, 8, 3, 0.01, 0.08);
    s.ask.n_limits = 0;
    s.ask.group_by = COMPARE_BY_HOST;
    judge(&s);
    assert_int_equal(s.c->n_rows, 1 + 3 * (1 + 3));
    assert_int_equal(s.c->rows[2].says, COMPARE_MORE);
    assert_true(s.c->rows[2].a < s.c->rows[1].a / 2);
    s.ask.group_by = COMPARE_BY_USER;
    judge(&s);
    assert_int_equal(s.c->n_rows, 1 + 3 * 2);
    assert_true(s.c->rows[2].a == s.c->rows[1].a);
    close_scene(&s);
}

/* -- words -- */

static void quantities_and_limits_are_read(void **state)
{
    static const struct {
        const char *text, *name, *group;
        double value;
        bool relative, below;
    } good[] = {
        {"cpu_time > 5%", "cpu_time", NULL, 0.05, true, false},
        {"cpu_time>5%", "cpu_time", NULL, 0.05, true, false},
        {"peak(private_bytes) of \"a b > c\" > 10%", "peak(private_bytes)", "a b > c", 0.1, true,
         false},
        {"  duration > 1.5s ", "duration", NULL, 1.5e9, false, false},
        {"starts of cc1>10", "starts", "cc1", 10, false, false},
        {"read_bytes < -5%", "read_bytes", NULL, 0.05, true, true},
        {"avg(private_bytes) > 10MiB", "avg(private_bytes)", NULL, 10485760, false, false},
        {"crashes > 0", "crashes", NULL, 0, false, false},
    };
    static const char *const bad[] = {"",
                                      "cpu_time",
                                      "cpu_time >",
                                      "cpu_time > x",
                                      "cpu_time > -5%",
                                      "cpu_time < 5%",
                                      "cpu_time > 5% more",
                                      "cpu_time > 5MiB",
                                      "private_bytes > 5%",
                                      "peak(cpu_time) > 5%",
                                      "peak() > 5%",
                                      "cpu_tim > 5%",
                                      "cpu_time of > 5%",
                                      "cpu_time of \"cc1 > 5%",
                                      "cpu_time of \"\" > 5%",
                                      "duration of cc1 > 5%",
                                      "name > 5%",
                                      "cpu_percent > 5%",
                                      "cpu_time > nan",
                                      "cpu_time > inf%",
                                      "cpu_time > 1e999%",
                                      "read_bytes < -100%"};
    struct quantity_limit l;
    struct errmsg why;

    for (size_t i = 0; i < COUNT_OF(good); i++) {
        char name[QUANTITY_TEXT];

        assert_ok(quantity_limit_parse(&l, str_make(good[i].text), &why));
        assert_string_equal(quantity_name(name, l.quantity), good[i].name);
        assert_true(l.of_group == (good[i].group != NULL) &&
                    (!good[i].group || str_eq(l.group, str_make(good[i].group))));
        assert_true(fabs(l.value - good[i].value) < 1e-9);
        assert_true(l.relative == good[i].relative && l.below == good[i].below);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(quantity_limit_parse(&l, str_make(bad[i]), &why), ERR_USAGE);
        assert_true(strlen(why.text) > 10);
    }
    assert_err(quantity_limit_parse(&l, str_make("private_bytes > 5%"), &why), ERR_USAGE);
    assert_non_null(strstr(why.text, "peak(private_bytes)"));
}

static void a_class_is_what_hosts_have_in_common(void **state)
{
    static struct run_made m;
    char text[HOST_CLASS_TEXT];

    run_made_init(&m, "x", 0, 1, 1);
    assert_string_equal(host_class_text(text, m.facts[0], 6, host_class_default),
                        "Windows 11/26100/i7-12700/12c/32G");
    m.facts[0][1].value = str_make("26100.2605");
    assert_string_equal(host_class_text(text, m.facts[0], 6, host_class_default),
                        "Windows 11/26100/i7-12700/12c/32G");
    assert_string_equal(host_class_text(text, m.facts[0], 1, host_class_default),
                        "Windows 11/-/-/-/-");
    assert_string_equal(host_class_text(text, m.facts[0], 0, host_class_default), "");
    assert_true(host_class_id("a") < 65536 && host_class_id("a") != host_class_id("b"));
}

static void running_out_of_memory_is_survived(void **state)
{
    long before = mem_live();
    enum err e = ERR_NOMEM;
    struct scene s;

    open_scene(&s, 5, 3, 0.01, 0.08);
    for (long n = 0; e; n++) {
        mem_fail_after(n);
        e = compare_runs(&s.c, &s.ask);
        mem_fail_after(-1);
        assert_true(e == ERR_NOMEM || (e == ERR_OK && n > 4));
    }
    close_scene(&s);
    assert_int_equal(mem_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rise_above_the_limit_is_a_regression),
        cmocka_unit_test(no_change_is_ok_and_that_is_shown),
        cmocka_unit_test(what_is_too_wide_is_undecided_and_says_how_many_runs_it_takes),
        cmocka_unit_test(a_regression_counts_more_than_what_is_undecided),
        cmocka_unit_test(a_fall_is_looked_for_with_less_than),
        cmocka_unit_test(limits_may_be_absolute),
        cmocka_unit_test(swapping_sides_turns_the_sign_and_nothing_else),
        cmocka_unit_test(units_order_and_names_change_nothing),
        cmocka_unit_test(too_few_runs_are_refused_and_it_says_how_many_it_takes),
        cmocka_unit_test(a_diff_makes_as_many_tests_as_its_runs_can_carry),
        cmocka_unit_test(a_diff_says_more_less_the_same_or_that_nothing_is_shown),
        cmocka_unit_test(hosts_whose_data_are_lost_leave_their_run),
        cmocka_unit_test(an_unknown_number_of_lost_events_counts_from_a_second_on),
        cmocka_unit_test(a_run_that_loses_more_than_half_of_its_hosts_leaves),
        cmocka_unit_test(another_class_is_refused),
        cmocka_unit_test(hosts_that_tell_nothing_equal_themselves),
        cmocka_unit_test(another_way_of_measuring_is_refused),
        cmocka_unit_test(other_rates_of_samples_refuse_peaks_alone),
        cmocka_unit_test(runs_that_failed_or_have_not_ended_are_left_out),
        cmocka_unit_test(runs_that_are_too_short_for_their_clock_or_samples_are_left_out),
        cmocka_unit_test(runs_that_met_others_leave_unless_they_are_trees),
        cmocka_unit_test(a_run_is_never_compared_with_itself),
        cmocka_unit_test(drift_that_cannot_be_told_from_change_is_refused),
        cmocka_unit_test(as_many_changes_of_side_as_the_smaller_side_has_runs_are_interleaved),
        cmocka_unit_test(a_change_within_the_noise_floor_is_no_regression),
        cmocka_unit_test(the_sides_own_runs_may_be_the_history),
        cmocka_unit_test(hosts_that_not_every_run_has_are_left_out_and_named),
        cmocka_unit_test(runs_of_a_pool_are_compared_host_by_host),
        cmocka_unit_test(hosts_of_one_class_stand_for_each_other_if_asked),
        cmocka_unit_test(a_floor_of_a_pool_takes_ten_differences_on_the_same_host),
        cmocka_unit_test(runs_on_half_common_hosts_are_refused),
        cmocka_unit_test(hosts_as_replicates_take_a_known_floor),
        cmocka_unit_test(a_group_that_a_run_lacks_counts_zero_there),
        cmocka_unit_test(what_was_not_measured_is_not_zero),
        cmocka_unit_test(peaks_are_those_of_the_sum),
        cmocka_unit_test(of_a_run_of_a_tree_the_tree_counts),
        cmocka_unit_test(groups_may_be_users_and_hosts),
        cmocka_unit_test(quantities_and_limits_are_read),
        cmocka_unit_test(a_class_is_what_hosts_have_in_common),
        cmocka_unit_test(running_out_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
