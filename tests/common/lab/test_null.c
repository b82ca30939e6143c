/* How often a gate is wrong, on run files written to disk and found by name: of builds that are the
 * same, of builds that are slower, of runs with losses or on other hosts. Chance comes from seeds:
 * every run of this test is the same. PROCFLEET_NULL=2000 makes so many null comparisons. With
 * PROCFLEET_PLANT=DIR it writes the planted regression there instead. */
#include <math.h>
#include <string.h>

#include "common/lab/compare.h"
#include "common/lab/run_set.h"
#include "common/lab/stat.h"
#include "common/os/os.h"
#include "tests/common/lab/run_made.h"
#include "tests/support/draw.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define PLANTED "tests/common/fixtures/planted"
#define DAY     86400

static struct run_made made;
static char dir[256];
static uint64_t chance;

static double normal(void)
{
    return stat_normal_quantile((draw(&chance, 1u << 30) + 0.5) / (1u << 30));
}

/* -- runs on disk -- */

static void put(const char *where, size_t number)
{
    char path[400];
    struct buf b;
    FILE *to;

    buf_init(&b, RUN_FILE_MAX);
    assert_ok(run_file_encode(&b, &made.f));
    (void)snprintf(path, sizeof path, "%s/%03zu.pfr", where, number);
    to = os_fopen(path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(b.p, 1, b.n, to), b.n);
    assert_int_equal(fclose(to), 0);
    buf_fini(&b);
}

static enum err remove_one(void *ctx, const char *name)
{
    char path[400];

    (void)snprintf(path, sizeof path, "%s/%s", (const char *)ctx, name);
    return os_remove(path);
}

static void clear(void)
{
    assert_ok(os_list_dir(dir, remove_one, dir));
}

/* What a gate on the directory's runs says: its exit code. *says is the first limit's word. */
static int gate(const char *where, const char *fail_on, unsigned *says)
{
    const char *const a[] = {"main-*"}, *const b[] = {"pr-*"};
    const struct run_file *of_a[64], *of_b[64], *history[64];
    const struct run_file *const *all;
    struct compare_ask ask = {.a = of_a, .b = of_b, .history = history};
    struct quantity_limit limit;
    struct compare *c;
    struct run_set *set;
    struct errmsg why;
    int code;

    assert_ok(quantity_limit_parse(&limit, str_make(fail_on), &why));
    assert_ok(run_set_create(&set));
    assert_ok(run_set_add_dir(set, where, &why));
    assert_true(run_set_list(set, &all) <= 64);
    assert_ok(run_set_find(set, a, 1, false, RUN_FILE_TABLE, of_a, &ask.n_a, &why));
    assert_ok(run_set_find(set, b, 1, false, RUN_FILE_TABLE, of_b, &ask.n_b, &why));
    assert_ok(run_set_find(set, a, 1, true, RUN_FILE_TABLE, history, &ask.n_history, &why));
    ask.limits = &limit;
    ask.n_limits = 1;
    assert_ok(compare_runs(&c, &ask));
    code = compare_exit(c);
    *says = c->rows[0].says;
    compare_free(c);
    run_set_destroy(set);
    return code;
}

/* -- what kinds of runs there are -- */

enum kind { SAME_HOSTS, TIES, ZEROS, POOL, DRIFT, KINDS };

struct world {
    enum kind kind;
    double spread, change;
    size_t runs; /* a side */
};

/* One run of b or a, after all that is made, is written by its caller. */
static void make_run(const struct world *w, size_t i, bool b, double day)
{
    size_t hosts = w->kind == POOL ? 1 : 4;
    unsigned first = w->kind == POOL ? (unsigned)(i / 2 % 6) + 1 : 1;
    double run = day + w->spread * normal();
    char name[32];

    (void)snprintf(name, sizeof name, "%s-%zu", b ? "pr" : "main", i);
    run_made_init(&made, name, (int64_t)i * DAY / 4, hosts, first);
    for (size_t k = 0; k < hosts; k++) {
        double host = w->kind == POOL ? 0.2 * first : 0.1 * (double)k;
        double factor = exp(host + run + w->spread / 4 * normal()) * (b ? 1 + w->change : 1);

        if (w->kind == TIES) {
            factor = floor(factor * 50 + 0.5) / 50;
        }
        run_made_scale(&made, k, factor);
        if (w->kind == ZEROS && draw(&chance, 3) == 0) {
            made.rows[k * (RUN_MADE_ROWS + 1) + RUN_MADE_LD].image = str_make("conftest");
        }
    }
}

/* By turns; with drift each day is a pair's own. */
static void make_interleaved(const struct world *w)
{
    for (size_t i = 0; i < w->runs; i++) {
        double day = w->kind == DRIFT ? 0.02 * normal() : 0;

        for (size_t k = 0; k < 2; k++) {
            make_run(w, 2 * i + k, k == 1, day);
            put(dir, 2 * i + k);
        }
    }
}

/* All of a, then all of b, days that differ, and a past long enough for a floor. */
static void make_in_blocks(const struct world *w, size_t past)
{
    for (size_t i = 0; i < past + 2 * w->runs; i++) {
        make_run(w, i, i >= past + w->runs, 0.02 * normal());
        put(dir, i);
    }
}

/* -- null -- */

static void builds_that_are_the_same_seldom_fail(void **state)
{
    static const char *const limits[] = {"cpu_time > 0.5%", "cpu_time > 2%", "cpu_time > 5%",
                                         "cpu_time of cc1 > 1%"};
    const char *wanted = getenv("PROCFLEET_NULL");
    unsigned n = wanted ? (unsigned)strtoul(wanted, NULL, 10) : 200, failed = 0, verdicts = 0, says;

    chance = 11;
    for (unsigned i = 0; i < n; i++) {
        struct world w = {(enum kind)(i % KINDS), 0.01 + 0.01 * (i / KINDS % 5), 0, 0};
        const char *limit = w.kind == ZEROS ? "cpu_time of conftest > 1%" : limits[i / 25 % 4];

        clear();
        w.runs = w.kind == POOL ? 12 : 6 + i % 3;
        if (w.kind == DRIFT && i / KINDS % 2) {
            make_in_blocks(&w, 12);
        } else {
            make_interleaved(&w);
        }
        failed += gate(dir, limit, &says) == 6;
        verdicts += says == COMPARE_OK || says == COMPARE_UNDECIDED || says == COMPARE_REGRESSION;
    }
    print_message("%u null comparisons: %u regressions\n", n, failed);
    assert_int_equal(verdicts, n); /* none was refused */
    assert_true(failed <= n / 20);
    assert_true(failed > 0 || n < 200); /* a gate that never fails shows nothing here */
}

/* -- slower builds -- */

static void builds_that_are_8_percent_slower_fail(void **state)
{
    unsigned failed = 0, ok = 0, says;

    chance = 12;
    for (unsigned i = 0; i < 200; i++) {
        struct world w = {SAME_HOSTS, 0.005 + 0.005 * (i % 5), 0.08, 8};

        clear();
        make_interleaved(&w);
        failed += gate(dir, "cpu_time > 5%", &says) == 6;
        ok += says == COMPARE_OK;
    }
    print_message("200 comparisons with +8 %%: %u regressions, %u ok\n", failed, ok);
    assert_true(failed >= 190);
    assert_int_equal(ok, 0);
}

/* -- no verdict -- */

static void runs_with_losses_get_no_verdict(void **state)
{
    unsigned says;

    chance = 13;
    for (unsigned i = 0; i < 100; i++) {
        struct world w = {SAME_HOSTS, 0.01, i % 2 ? 0.08 : 0, 8};

        clear();
        for (size_t k = 0; k < 16; k++) {
            make_run(&w, k, k % 2, 0);
            for (size_t h = 0; h < 4 && k % 2 == i / 2 % 2; h++) {
                made.hosts[h].ppm = 980000;
            }
            put(dir, k);
        }
        assert_int_equal(gate(dir, "cpu_time > 5%", &says), 5);
        assert_int_equal(says, COMPARE_SAYS_NOTHING);
    }
}

static void a_host_of_another_class_gets_no_verdict(void **state)
{
    unsigned says;

    chance = 14;
    for (unsigned i = 0; i < 100; i++) {
        struct world w = {SAME_HOSTS, 0.01, i % 2 ? 0.08 : 0, 8};
        size_t host = i / 4 % 4, from = 1 + 2 * (i / 16 % 8);

        clear();
        for (size_t k = 0; k < 16; k++) {
            make_run(&w, k, k % 2, 0);
            if (k % 2 == i / 2 % 2 && k >= from - 1) {
                made.facts[host][2].value = str_make("i9-13900");
            }
            put(dir, k);
        }
        assert_int_equal(gate(dir, "cpu_time > 5%", &says), 5);
        assert_int_equal(says, COMPARE_SAYS_NOTHING);
    }
}

/* -- what must fail in every run of the suite: eight runs against eight slower ones, on disk -- */

static void the_planted_regression_is_found(void **state)
{
    unsigned says;

    assert_int_equal(gate(PLANTED, "cpu_time > 5%", &says), 6);
    assert_int_equal(says, COMPARE_REGRESSION);
    assert_int_equal(gate(PLANTED, "read_bytes > 5%", &says), 0); /* not in this */
    assert_int_equal(gate(PLANTED, "cpu_time > 20%", &says), 0);
}

static int plant(const char *where)
{
    struct world w = {SAME_HOSTS, 0.01, 0.08, 8};

    chance = 15;
    for (size_t i = 0; i < 16; i++) {
        make_run(&w, i, i % 2, 0);
        put(where, i);
    }
    return 0;
}

static int open_dir(void **state)
{
    support_temp_dir(dir, sizeof dir);
    return 0;
}

static int close_dir(void **state)
{
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builds_that_are_the_same_seldom_fail),
        cmocka_unit_test(builds_that_are_8_percent_slower_fail),
        cmocka_unit_test(runs_with_losses_get_no_verdict),
        cmocka_unit_test(a_host_of_another_class_gets_no_verdict),
        cmocka_unit_test(the_planted_regression_is_found),
    };
    const char *where = getenv("PROCFLEET_PLANT");

    return where ? plant(where) : cmocka_run_group_tests(tests, open_dir, close_dir);
}
