#include "common/lab/report.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/lab/compare.h"
#include "tests/common/lab/run_made.h"
#include "tests/support/hostile.h"
#include "tests/support/t.h"

static struct run_made made[8];
static const struct run_file *of_a[4], *of_b[4];

static struct compare *compared(void)
{
    struct compare_ask ask = {
        .a = of_a, .b = of_b, .n_a = 4, .n_b = 4, .group_by = COMPARE_BY_IMAGE};
    struct compare *c;

    for (size_t i = 0; i < 8; i++) {
        run_made_init(&made[i], i % 2 ? "pr" : "main", (int64_t)i * 1000, 2, 1);
        run_made_scale(&made[i], 0, 1 + 0.001 * (double)i + (i % 2 ? 0.08 : 0));
        (i % 2 ? of_b : of_a)[i / 2] = &made[i].f;
    }
    assert_ok(compare_runs(&c, &ask));
    return c;
}

static struct report report_of(const struct compare *c)
{
    struct report r = {.runs = of_b,
                       .n_runs = 4,
                       .compare = c,
                       .names = "pr",
                       .against = "main",
                       .made_by = "test",
                       .command = "procfleet report"};

    return r;
}

static void write_report(struct buf *b, const struct report *r)
{
    buf_init(b, 2 * REPORT_MAX);
    assert_ok(report_write(b, r));
    assert_true(b->n <= REPORT_MAX);
}

static size_t count(const struct buf *b, const char *what)
{
    size_t n = 0, len = strlen(what);

    for (size_t i = 0; i + len <= b->n; i++) {
        n += memcmp(b->p + i, what, len) == 0;
    }
    return n;
}

static void names_of_strangers_stay_text(void **state)
{
    static const char evil[] = "<script>alert(1)</script>\"'&\x1b[2J\u202e";
    struct run_life life = {.pid = 1,
                            .flags = RUN_LIFE_ENDED | RUN_LIFE_EXIT_KNOWN,
                            .exit_code = 0xc0000005,
                            .begin_ns = RUN_MADE_T0,
                            .end_ns = RUN_MADE_T0 + RUN_MADE_S,
                            .name = RUN_MADE_TEXT(evil),
                            .user = RUN_MADE_TEXT(evil),
                            .parent_name = RUN_MADE_TEXT(evil),
                            .command = RUN_MADE_TEXT(evil)};
    struct run_notice notice = {RUN_MADE_T0, RUN_MADE_TEXT(evil), RUN_MADE_TEXT(evil),
                                RUN_MADE_TEXT(evil), RUN_MADE_TEXT(evil)};
    struct run_pair label = {RUN_MADE_TEXT(evil), RUN_MADE_TEXT(evil)};
    struct compare *c = compared();
    struct report r = report_of(c);
    struct run_made *m = &made[7];
    struct buf b;

    m->hosts[0].name = m->hosts[0].agent = m->hosts[0].source = str_make(evil);
    m->facts[0][2].value = str_make(evil);
    m->hosts[0].labels = m->f.head.labels = &label;
    m->hosts[0].n_labels = m->f.head.n_labels = 1;
    m->rows[0].image = str_make(evil);
    m->f.lives = m->f.crashes = &life;
    m->f.n_lives = m->f.n_crashes = 1;
    m->f.notices = &notice;
    m->f.n_notices = 1;
    r.names = r.against = r.made_by = r.command = evil;
    write_report(&b, &r);
    assert_int_equal(count(&b, "<script"), 0);
    assert_true(count(&b, "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\\x1b[2J\\u202e") >
                15);
    assert_false(hostile_shown((const char *)b.p, b.n, count(&b, "\n")));
    assert_int_equal(count(&b, "ACCESS_VIOLATION 0xc0000005"), 2);
    assert_int_equal(count(&b, "<rect class=\"crash\""), 1);
    buf_fini(&b);
    life.flags |= RUN_LIFE_SIGNALLED;
    life.exit_code = 15; /* no fault of its own */
    write_report(&b, &r);
    assert_int_equal(count(&b, ">SIGTERM<"), 2);
    assert_int_equal(count(&b, "<rect class=\"failed\""), 1);
    buf_fini(&b);
    compare_free(c);
}

static void what_does_not_fit_is_left_out_and_it_says_so(void **state)
{
    static struct run_life lives[RUN_FILE_LIVES_MAX];
    static char name[1000];
    struct compare *c = compared();
    struct report r = report_of(c);
    struct buf few, many;

    memset(name, '&', sizeof name); /* five bytes each */
    for (size_t i = 0; i < RUN_FILE_LIVES_MAX; i++) {
        lives[i] =
            (struct run_life){.pid = (uint32_t)i,
                              .begin_ns = RUN_MADE_T0 + (7000 + (int64_t)i % 500) * RUN_MADE_S,
                              .end_ns = RUN_MADE_T0 + (7001 + (int64_t)i % 500) * RUN_MADE_S,
                              .name = {name, 2}};
    }
    made[7].f.lives = lives;
    made[7].f.n_lives = RUN_FILE_LIVES_MAX;
    made[7].f.lives_left_out = 7;
    write_report(&few, &r);
    assert_int_equal(count(&few, "3007 shorter lives are left out"), 1);
    for (size_t i = 0; i < RUN_FILE_LIVES_MAX; i++) {
        lives[i].name.n = 400; /* 4 MB of them, drawn */
    }
    write_report(&many, &r);
    assert_int_equal(count(&many, "4507 shorter lives are left out"), 1);
    buf_fini(&few);
    buf_fini(&many);
    compare_free(c);
}

static void a_report_of_runs_alone_needs_no_comparison(void **state)
{
    struct compare *c = compared();
    struct report r = report_of(NULL);
    struct buf b;

    write_report(&b, &r);
    assert_int_equal(count(&b, "not compared with others"), 1);
    assert_int_equal(count(&b, "Changes of B"), 0);
    assert_int_equal(count(&b, "<table>"), count(&b, "<caption>"));
    buf_fini(&b);
    compare_free(c);
}

static void running_out_of_memory_is_survived(void **state)
{
    struct compare *c = compared();
    struct report r = report_of(c);
    long before = mem_live();
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        struct buf b;

        buf_init(&b, 2 * REPORT_MAX);
        mem_fail_after(n);
        e = report_write(&b, &r);
        mem_fail_after(-1);
        buf_fini(&b);
        assert_true(e == ERR_NOMEM || e == ERR_OK);
        assert_int_equal(mem_live(), before);
        if (!e) {
            assert_true(n > 2);
        }
    }
    compare_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_strangers_stay_text),
        cmocka_unit_test(what_does_not_fit_is_left_out_and_it_says_so),
        cmocka_unit_test(a_report_of_runs_alone_needs_no_comparison),
        cmocka_unit_test(running_out_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
