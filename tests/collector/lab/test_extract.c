#include "collector/lab/extract.h"

#include <string.h>

#include "collector/lab/extract_range.h"
#include "common/base/clk.h"
#include "tests/collector/query/ask.h"
#include "tests/support/t.h"

#define TICKS 40

static const uint8_t metrics[] = {M_CPU_TIME, M_WORKING_SET_SIZE, M_PRIVATE_BYTES, M_READ_BYTES};

/* A process of the load: alive in ticks [first, first + n). */
struct load {
    uint32_t pid, parent;
    const char *name, *user;
    unsigned first, n;
    bool fresh, ends;
    uint32_t exit_code;
    int64_t cpu_step, memory;
};

/* make (10) begets cc1 (11, 12, 13), which overlap; sh (20) does not belong to it, nor does the
 * second cc1 of another user. */
static const struct load loads[] = {
    {10, 1, "make", "u", 5, 30, true, true, 0, 3, 100},
    {11, 10, "cc1", "u", 6, 10, true, true, 0, 1000, 5000},
    {12, 10, "cc1", "u", 10, 10, true, true, 139, 900, 7000},
    {13, 11, "as", "u", 7, 3, true, true, 0, 50, 300},
    {20, 1, "sh", "u", 0, TICKS, false, false, 0, 7, 50},
    {21, 20, "cc1", "v", 12, 20, true, true, 0xC0000005u, 400, 2500},
};

static void load_put(struct lab *l, const struct load *p, int64_t *values)
{
    struct proc_info info = {.id = {p->pid, p->pid},
                             .have = INFO_PARENT | INFO_CREATE_TIME |
                                     (p->ends ? INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE : 0) |
                                     (p->exit_code == 139 ? INFO_SIGNALLED : 0),
                             .parent_pid = p->parent,
                             .parent_start = p->parent == 1 ? 0 : p->parent,
                             .create_ns = LAB_NS(100 + (p->fresh ? (double)p->first - 0.5 : -50)),
                             .exit_ns = LAB_NS(100 + p->first + p->n - 0.5),
                             .exit_code = p->exit_code,
                             .cpu_origin = CPU_ORIGIN_TIMES,
                             .name = str_make(p->name),
                             .user = str_make(p->user)};

    for (unsigned i = 0; i < p->n; i++) {
        values[i] = p->cpu_step * (int64_t)(i + 1) * 1000000;
        values[p->n + i] = p->memory + i % 3;
        values[2 * p->n + i] = p->memory / 2 + i;
        values[3 * p->n + i] = (int64_t)i * p->pid;
    }
    lab_run(l, p->pid, p->pid, p->first, p->n, p->fresh, COUNT_OF(metrics), metrics, values);
    lab_info(l, &info);
}

/* Host 1 and 2 with the same load in one batch each; host 2's clock is an hour behind. */
static struct lab *lab_loaded(void)
{
    static int64_t values[COUNT_OF(metrics) * TICKS];
    struct lab *l = lab_open(NULL, NULL);

    for (unsigned host = 1; host <= 2; host++) {
        lab_clock(l, (struct host_offset){.known = true,
                                          .bounded = true,
                                          .offset_ns = host == 2 ? 3600 * CLK_S : 0,
                                          .error_ns = 5});
        lab_begin(l, host, host, 1);
        for (unsigned t = 0; t < TICKS; t++) {
            lab_tick(l, 100 + t);
        }
        for (size_t i = 0; i < COUNT_OF(loads); i++) {
            load_put(l, &loads[i], values);
        }
        lab_put(l);
    }
    return l;
}

static struct query_run_host window(unsigned host, double since, double until)
{
    return (struct query_run_host){lab_host(host), LAB_NS(since), LAB_NS(until)};
}

static struct run_file *extracted(struct lab *l, const struct query_run *run)
{
    const struct extract_ask ask = {
        .env = {.view = lab_view(l), .now_ns = LAB_NS(1000)},
        .run = run,
        .head = {.name = str_make("r"), .begin_ns = LAB_NS(100), .end_ns = LAB_NS(140)}};
    struct run_file *f = NULL;
    struct errmsg why = {""};

    assert_ok(extract_run(&f, &ask, &why));
    return f;
}

static const struct run_row *row_of(const struct run_file *f, unsigned host, uint8_t of,
                                    const char *image, const char *user, bool in_tree)
{
    for (size_t i = 0; i < f->n_rows; i++) {
        const struct run_row *r = &f->rows[i];

        if (f->hosts[r->host].id.b[15] == host && r->of == of && r->in_tree == in_tree &&
            str_eq(r->image, str_make(image)) && str_eq(r->user, str_make(user))) {
            return r;
        }
    }
    return NULL;
}

static int64_t value_of(const struct run_file *f, const struct run_row *r, uint8_t metric,
                        unsigned slot)
{
    const struct run_column *c = run_file_column(f, metric);

    assert_non_null(r);
    assert_non_null(c);
    assert_true(r->have & METRIC_BIT(metric));
    return r->values[c->slot + slot];
}

/* Sum over all cells of the image. */
static int64_t image_sum(const struct run_file *f, struct str image, uint8_t metric)
{
    const struct run_column *c = run_file_column(f, metric);
    int64_t sum = 0;

    assert_non_null(c);
    for (size_t i = 0; i < f->n_rows; i++) {
        const struct run_row *r = &f->rows[i];

        if (r->of == RUN_ROW_CELL && str_eq(r->image, image) && (r->have & METRIC_BIT(metric))) {
            sum += r->values[c->slot];
        }
    }
    return sum;
}

/* -- the same as Top -- */

static void compare_with_top(struct lab *l, const struct query_run *run, uint8_t metric)
{
    const struct wire_query q = {.n_metrics = 1,
                                 .metrics = {metric},
                                 .limit = 100,
                                 .group_by = WIRE_GROUP_IMAGE,
                                 .by = WIRE_BY_USUAL};
    const struct query_env env = {.view = lab_view(l), .run = run, .now_ns = LAB_NS(1000)};
    struct run_file *f = extracted(l, run);
    struct query_answer a;
    struct errmsg why;
    int64_t all = 0, total = 0;

    assert_ok(query_run(&a, QUERY_TOP, &env, &q, &why));
    assert_true(a.data.n_rows > 0 || !run_file_column(f, metric));
    for (size_t i = 0; i < a.data.n_rows; i++) {
        int64_t sum = 0;

        if (!run->has_root) {
            sum = image_sum(f, a.data.rows[i].info.name, metric);
        } else {
            const struct run_column *c = run_file_column(f, metric);

            for (size_t k = 0; k < f->n_rows; k++) {
                const struct run_row *r = &f->rows[k];

                sum += r->of == RUN_ROW_CELL && r->in_tree &&
                               str_eq(r->image, a.data.rows[i].info.name)
                           ? r->values[c->slot]
                           : 0;
            }
        }
        assert_int_equal(sum, a.data.rows[i].values[0]);
        all += sum;
    }
    for (size_t i = 0; a.data.n_rows && i < f->n_rows; i++) { /* and nothing that Top lacks */
        const struct run_row *r = &f->rows[i];

        total +=
            r->of == RUN_ROW_HOST && r->in_tree == run->has_root ? value_of(f, r, metric, 0) : 0;
    }
    assert_int_equal(all, total);
    query_answer_fini(&a);
    run_file_free(f);
}

static void totals_are_those_of_top(void **state)
{
    static const double windows[][2] = {{99, 141}, {104, 125}, {108, 112}, {100, 101}, {111, 190}};
    static const uint8_t counters[] = {M_CPU_TIME, M_READ_BYTES};
    struct lab *l = lab_loaded();

    for (size_t i = 0; i < COUNT_OF(windows); i++) {
        struct query_run_host hosts[] = {window(1, windows[i][0], windows[i][1]),
                                         window(2, windows[i][0], windows[i][1])};
        const struct query_run run = {2, hosts, .has_root = false};

        for (size_t m = 0; m < COUNT_OF(counters); m++) {
            compare_with_top(l, &run, counters[m]);
        }
    }
    lab_close(l);
}

static struct query_run tree_run(const struct query_run_host *host, uint32_t pid)
{
    struct query_run run = {1, host, .has_root = true, .root = {pid, pid}};

    memset(run.boot.b, 1, sizeof run.boot.b);
    return run;
}

static void totals_of_a_tree_are_those_of_top_of_the_tree(void **state)
{
    struct lab *l = lab_loaded();
    const struct query_run_host host = window(1, 99, 141);
    const struct query_run run = tree_run(&host, 10);
    struct run_file *f = extracted(l, &run);
    const struct run_row *tree = row_of(f, 1, RUN_ROW_HOST, "", "", true);

    compare_with_top(l, &run, M_CPU_TIME);
    /* make 30 × 3, cc1 10 × 1000 and 10 × 900, as 3 × 50 ms: what they ever used, and no more */
    assert_int_equal(value_of(f, tree, M_CPU_TIME, 0), (90 + 10000 + 9000 + 150) * CLK_MS);
    assert_int_equal(tree->instances, 4);
    assert_int_equal(tree->starts, 4);
    assert_int_equal(tree->ends, 4);
    assert_int_equal(tree->failed, 1);
    assert_int_equal(row_of(f, 1, RUN_ROW_HOST, "", "", false)->instances, 6);
    assert_int_equal(f->head.root_pid, 0); /* the test's head names none */
    run_file_free(f);
    lab_close(l);
}

static void a_root_that_was_not_seen_takes_the_whole_host(void **state)
{
    struct lab *l = lab_loaded();
    const struct query_run_host host = window(1, 99, 141);
    const struct query_run run = tree_run(&host, 4711);
    const struct query_run whole = {1, &host, .has_root = false};
    struct run_file *f = extracted(l, &run), *g = extracted(l, &whole);

    assert_null(row_of(f, 1, RUN_ROW_HOST, "", "", true));
    assert_int_equal(value_of(f, row_of(f, 1, RUN_ROW_HOST, "", "", false), M_CPU_TIME, 0),
                     value_of(g, row_of(g, 1, RUN_ROW_HOST, "", "", false), M_CPU_TIME, 0));
    run_file_free(f);
    run_file_free(g);
    lab_close(l);
}

/* -- peaks -- */

/* What the load has at tick t. */
static int64_t memory_at(unsigned t, const char *name, const char *user)
{
    int64_t sum = 0;

    for (size_t i = 0; i < COUNT_OF(loads); i++) {
        const struct load *p = &loads[i];

        if (t >= p->first && t < p->first + p->n && (!name || strcmp(name, p->name) == 0) &&
            (!user || strcmp(user, p->user) == 0)) {
            sum += p->memory + (t - p->first) % 3;
        }
    }
    return sum;
}

static void peaks_are_those_of_the_sum_over_the_living(void **state)
{
    struct lab *l = lab_loaded();
    const struct query_run_host host = window(1, 100, 140);
    const struct query_run run = {1, &host, .has_root = false};
    struct run_file *f = extracted(l, &run);
    const struct {
        const struct run_row *row;
        const char *name, *user;
    } rows[] = {{row_of(f, 1, RUN_ROW_CELL, "cc1", "u", false), "cc1", "u"},
                {row_of(f, 1, RUN_ROW_CELL, "cc1", "v", false), "cc1", "v"},
                {row_of(f, 1, RUN_ROW_IMAGE, "cc1", "", false), "cc1", NULL},
                {row_of(f, 1, RUN_ROW_USER, "", "u", false), NULL, "u"},
                {row_of(f, 1, RUN_ROW_HOST, "", "", false), NULL, NULL}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t peak = 0, sum = 0;

        for (unsigned t = 0; t < TICKS; t++) {
            int64_t v = memory_at(t, rows[i].name, rows[i].user);

            peak = v > peak ? v : peak;
            sum += v;
        }
        assert_int_equal(value_of(f, rows[i].row, M_WORKING_SET_SIZE, RUN_PEAK_SUM), peak);
        /* cells are rounded each, and added */
        assert_in_range(value_of(f, rows[i].row, M_WORKING_SET_SIZE, RUN_MEAN_SUM), sum / TICKS - 4,
                        sum / TICKS);
    }
    assert_int_equal(value_of(f, rows[0].row, M_WORKING_SET_SIZE, RUN_PEAK_ONE), 7002);
    assert_int_equal(f->head.peak_step_ns, CLK_S);
    run_file_free(f);
    lab_close(l);
}

/* -- the rest of the file -- */

static void lives_crashes_and_coverage_are_there(void **state)
{
    struct lab *l = lab_loaded();
    const struct query_run_host host = window(2, 100, 140);
    const struct query_run run = {1, &host, .has_root = false};
    struct run_file *f = extracted(l, &run), *again;
    struct errmsg why = {""};
    struct buf b;

    assert_int_equal(f->n_hosts, 1);
    assert_true(str_eq(f->hosts[0].name, str_make("host-2")));
    assert_int_equal(f->hosts[0].ppm, 1000000);
    assert_int_equal(f->hosts[0].ticks, TICKS);
    assert_false(f->hosts[0].absent);
    assert_int_equal(f->hosts[0].cpu_origin, CPU_ORIGIN_TIMES);
    assert_int_equal(f->n_lives, COUNT_OF(loads));
    assert_int_equal(f->n_crashes, 2);
    assert_int_equal(f->crashes[0].pid, 12); /* SIGSEGV */
    assert_true(f->crashes[0].flags & RUN_LIFE_SIGNALLED);
    assert_int_equal(f->crashes[0].exit_code, 11);
    assert_int_equal(f->crashes[1].pid, 21);
    assert_true(str_eq(f->crashes[1].parent_name, str_make("sh")));
    assert_int_equal(f->lives[0].pid, 21); /* crashed ones come first */
    assert_int_equal(f->lives[1].pid, 12);
    assert_int_equal(f->lives[2].pid, 20); /* then the longest */
    assert_true(f->series.n_groups > 0);
    buf_init(&b, RUN_FILE_MAX);
    assert_ok(run_file_encode(&b, f));
    assert_ok(run_file_decode(&again, b.p, b.n, RUN_FILE_ALL, &why));
    assert_int_equal(again->n_rows, f->n_rows);
    run_file_free(again);
    run_file_free(f);
    buf_fini(&b);
    lab_close(l);
}

static void a_host_without_data_in_the_range_is_absent(void **state)
{
    struct lab *l = lab_loaded();
    struct query_run_host hosts[] = {window(1, 100, 140), window(2, 5000, 5001)};
    const struct query_run run = {2, hosts, .has_root = false};
    struct run_file *f = extracted(l, &run);

    assert_int_equal(f->n_hosts, 2);
    assert_false(f->hosts[0].absent);
    assert_true(f->hosts[1].absent);
    assert_int_equal(f->hosts[1].ppm, 0);
    run_file_free(f);
    lab_close(l);
}

static void what_lies_before_the_data_and_behind_it_is_missing(void **state)
{
    struct lab *l = lab_loaded();
    const struct query_run_host hosts[] = {window(1, 20, 140), window(1, 100, 220)};

    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        struct run_file *f = extracted(l, &(struct query_run){1, &hosts[i], .has_root = false});

        assert_false(f->hosts[0].absent);
        assert_in_range(f->hosts[0].ppm, 320000, 345000); /* 40 s of 120 */
        run_file_free(f);
    }
    lab_close(l);
}

static void a_range_is_by_each_hosts_own_clock(void **state)
{
    struct lab *l = lab_loaded();
    const struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(100000)};
    const struct str both[] = {str_make("host-*")};
    struct run_file *f = NULL;
    struct errmsg why = {""};
    /* host 2 shows an hour less: at the collector's 3700 s it is 100 s there */
    const struct extract_range first = {1, both, LAB_NS(100), LAB_NS(140)},
                               second = {1, both, LAB_NS(3700), LAB_NS(3740)};

    assert_ok(extract_range(&f, &env, &first, str_make("a"), &why));
    assert_false(f->hosts[0].absent);
    assert_true(f->hosts[1].absent);
    assert_int_equal(f->head.origin, RUN_OF_RANGE);
    run_file_free(f);
    assert_ok(extract_range(&f, &env, &second, str_make("b"), &why));
    assert_true(f->hosts[0].absent);
    assert_false(f->hosts[1].absent);
    assert_int_equal(f->hosts[1].begin_ns, LAB_NS(100));
    run_file_free(f);
    lab_close(l);
}

static void late_data_count_when_it_is_extracted_again(void **state)
{
    struct lab *l = lab_loaded();
    const struct query_run_host host = window(1, 100, 180);
    const struct query_run run = {1, &host, .has_root = false};
    struct run_file *before = extracted(l, &run), *after;
    int64_t values[] = {1000000};
    static const uint8_t cpu = M_CPU_TIME;

    lab_clock(l, (struct host_offset){.known = true});
    lab_begin(l, 1, 1, 2);
    lab_tick(l, 150);
    lab_run(l, 77, 77, 0, 1, true, 1, &cpu, values);
    lab_name(l, 77, "late");
    lab_put(l);
    after = extracted(l, &run);
    assert_null(row_of(before, 1, RUN_ROW_CELL, "late", "", false));
    assert_int_equal(
        value_of(after, row_of(after, 1, RUN_ROW_CELL, "late", "", false), M_CPU_TIME, 0), 1000000);
    compare_with_top(l, &run, M_CPU_TIME);
    run_file_free(before);
    run_file_free(after);
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_are_those_of_top),
        cmocka_unit_test(totals_of_a_tree_are_those_of_top_of_the_tree),
        cmocka_unit_test(a_root_that_was_not_seen_takes_the_whole_host),
        cmocka_unit_test(peaks_are_those_of_the_sum_over_the_living),
        cmocka_unit_test(lives_crashes_and_coverage_are_there),
        cmocka_unit_test(a_host_without_data_in_the_range_is_absent),
        cmocka_unit_test(what_lies_before_the_data_and_behind_it_is_missing),
        cmocka_unit_test(a_range_is_by_each_hosts_own_clock),
        cmocka_unit_test(late_data_count_when_it_is_extracted_again),
    };
    int failed = cmocka_run_group_tests_name("in memory", tests, NULL, NULL);

    return failed + cmocka_run_group_tests_name("sealed", tests, lab_seal_all, NULL);
}
