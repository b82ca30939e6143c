/* What comparing runs costs: of two runs, of eight against eight, a gate of three quantities, a
 * report; and how long a mark takes to the disk. Runs of 20 hosts with 40 images of two users each
 * and 24 metrics, as files in memory: reading them is part of every figure, the disk is not but for
 * marks.
 *
 * Then what the collector does with many: a list of 100,000 runs, and which of 4,000 hosts are
 * unlike the others over --hours, all but the last five minutes sealed: processor time of the
 * thread that asks, from opening a view to the encoded answer, files in the page cache. To fill a
 * store for 4,000 hosts takes ten minutes, so it is done for --hosts, and the figure is that times
 * 4,000 / --hosts: the question reads host by host. Each has --processes measured once a minute
 * instead of once a second: the question reads sums of hours, which are as many of either.
 *
 * And a back-test of the ten ready rules (docs/examples/lab-rules.yaml) over 20 hosts of 150
 * processes at 1 Hz, half an hour of it; the figure is that times 336: the goal is of 7 days. */
#include <stdlib.h>
#include <string.h>

#include "collector/lab/runs.h"
#include "collector/lab/runs_trim.h"
#include "collector/query/query.h"
#include "collector/rules/rules_test.h"
#include "common/base/clk.h"
#include "common/lab/compare.h"
#include "common/lab/report.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/draw.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_fill.h"
#include "tests/support/support.h"

#define HOSTS   20u
#define IMAGES  40u
#define ROWS    (HOSTS * (IMAGES * 2 + 1))
#define METRICS 24u
#define RUNS    16u
#define TIMES   9u

static struct buf files[RUNS];
static uint64_t chance = 1;

static uint8_t metrics[METRICS];
static struct run_column columns[METRICS];
static struct run_host hosts[HOSTS];
static struct run_row rows[ROWS];
static int64_t values[ROWS][METRICS * RUN_GAUGE_SLOTS];
static char host_names[HOSTS][16], image_names[IMAGES][32];

static void row_fill(size_t i, size_t n_slots, double factor)
{
    size_t host = i / (IMAGES * 2 + 1), k = i % (IMAGES * 2 + 1);
    bool sum = k == IMAGES * 2;

    for (size_t s = 0; s < n_slots; s++) {
        values[i][s] = (int64_t)((double)draw(&chance, 1u << 30) * factor * (double)(k % 7 + 1));
    }
    rows[i] = (struct run_row){
        .host = (uint32_t)host,
        .of = sum ? RUN_ROW_HOST : RUN_ROW_CELL,
        .image = str_make(sum ? "" : image_names[k / 2]),
        .user = str_make(sum     ? ""
                         : k % 2 ? "SYSTEM"
                                 : "builder"),
        .instances = 1 + k % 9,
        .have = METRIC_ALL,
        .values = values[i],
    };
}

static void run_make(size_t number)
{
    struct run_file f = {.head = {.id = {{1, (uint8_t)number}},
                                  .name = str_make(number % 2 ? "pr" : "main"),
                                  .state = RUN_READY,
                                  .begin_ns = (int64_t)(number + 1) * 1000000000000,
                                  .end_ns = (int64_t)(number + 1) * 1000000000000 + 600000000000},
                         .hosts = hosts,
                         .n_hosts = HOSTS,
                         .columns = columns,
                         .n_columns = METRICS,
                         .rows = rows,
                         .n_rows = ROWS};

    f.n_slots = run_file_layout(columns, metrics, METRICS);
    for (uint32_t i = 0; i < HOSTS; i++) {
        (void)snprintf(host_names[i], sizeof host_names[i], "lab-%u", i);
        hosts[i] = (struct run_host){.id = {{2, (uint8_t)i}},
                                     .name = str_make(host_names[i]),
                                     .begin_ns = f.head.begin_ns,
                                     .end_ns = f.head.end_ns,
                                     .step_ns = 1000000000,
                                     .ppm = 1000000};
    }
    for (uint32_t i = 0; i < IMAGES; i++) {
        (void)snprintf(image_names[i], sizeof image_names[i], "image-%u.exe", i);
    }
    for (size_t i = 0; i < ROWS; i++) {
        row_fill(i, f.n_slots, number % 2 ? 1.08 : 1);
    }
    buf_init(&files[number], RUN_FILE_MAX);
    bench_check(run_file_encode(&files[number], &f), "encode");
}

/* -- what is measured: from the files' bytes to the answer -- */

struct sides {
    struct run_file *all[RUNS];
    const struct run_file *a[RUNS / 2], *b[RUNS / 2];
    size_t n;
};

static void sides_read(struct sides *s, size_t n)
{
    s->n = n;
    for (size_t i = 0; i < 2 * n; i++) {
        bench_check(run_file_decode(&s->all[i], files[i].p, files[i].n, RUN_FILE_TABLE, NULL),
                    "decode");
        (i % 2 ? s->b : s->a)[i / 2] = s->all[i];
    }
}

static void sides_free(struct sides *s)
{
    for (size_t i = 0; i < 2 * s->n; i++) {
        run_file_free(s->all[i]);
    }
}

enum what { DIFF, GATE, REPORT };

static int64_t once(enum what what, size_t n, size_t *bytes)
{
    static struct quantity_limit limits[3];
    struct compare_ask ask = {.group_by = COMPARE_BY_IMAGE};
    int64_t from = os_mono_ns();
    struct compare *c;
    struct sides s;

    sides_read(&s, n);
    ask.a = s.a;
    ask.b = s.b;
    ask.n_a = ask.n_b = n;
    if (what == GATE) {
        static const char *const texts[] = {"cpu_time > 5%", "read_bytes of \"image-3.exe\" > 5%",
                                            "duration > 5%"};

        for (size_t i = 0; i < 3; i++) {
            bench_check(quantity_limit_parse(&limits[i], str_make(texts[i]), NULL), "limit");
        }
        ask.limits = limits;
        ask.n_limits = 3;
    }
    bench_check(compare_runs(&c, &ask), "compare");
    if (what == REPORT) {
        const struct report r = {s.b, n, c, "pr", "main", "bench", "bench", NULL};
        struct buf out;

        buf_init(&out, 2 * REPORT_MAX);
        bench_check(report_write(&out, &r), "report");
        *bytes = out.n;
        buf_fini(&out);
    }
    compare_free(c);
    sides_free(&s);
    return os_mono_ns() - from;
}

static double median_ms(enum what what, size_t n, size_t *bytes)
{
    double times[TIMES];
    size_t count = bench_quick() ? 1 : TIMES;

    for (size_t i = 0; i < count; i++) {
        times[i] = bench_ms(once(what, n, bytes));
    }
    return bench_median(times, count);
}

#define MARKS 400u

static int mark_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Begin and end of runs of 20 hosts, one after the other, each durable when it returns. */
static double mark_p99_ms(void)
{
    static struct wire_run_host on[HOSTS];
    static double times[2 * MARKS];
    const struct runs_who who = {"ci", "", false};
    size_t n = 0, count = bench_quick() ? 20 : MARKS;
    struct lab_db *db;
    char dir[256];

    for (uint8_t i = 0; i < HOSTS; i++) {
        on[i] = (struct wire_run_host){.id = {{i}}, .name = str_make(host_names[i])};
    }
    bench_check(lab_db_open(&db, support_temp_dir(dir, sizeof dir), NULL, NULL), "lab.db");
    for (size_t i = 0; i < count; i++) {
        for (unsigned end = 0; end < 2; end++) {
            struct wire_run_mark m = {.id = {{1, (uint8_t)i, (uint8_t)(i >> 8)}},
                                      .name = str_make("bench")};
            struct runs_mark mark = {
                .m = &m, .when_ns = os_utc_ns(), .n_hosts = end ? 0 : HOSTS, .hosts = on};
            int64_t from = os_mono_ns();
            struct arena memory;
            struct wire_run run;

            arena_init(&memory, 1u << 20);
            bench_check(end ? runs_end(db, &who, &mark, &memory, &run, NULL)
                            : runs_begin(db, &who, &mark, &memory, &run, NULL),
                        "mark");
            times[n++] = bench_ms(os_mono_ns() - from);
            arena_fini(&memory);
        }
    }
    lab_db_close(db);
    support_remove_dir(dir);
    qsort(times, n, sizeof *times, mark_order);
    return times[n - 1 - n / 100];
}

/* -- a list of many runs -- */

static void runs_fill(struct lab_db *db, unsigned n)
{
    static const char *const lists[] = {
        "INSERT INTO run_label SELECT n, 'build', 'b' || n FROM run",
        "WITH RECURSIVE h(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM h LIMIT 20) INSERT INTO"
        " run_host SELECT n, CAST(printf('%016d', i) AS BLOB), 'lab-' || i, 0 FROM run, h",
    };
    struct db *d;
    char sql[640];

    (void)snprintf(sql, sizeof sql,
                   "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT %u)"
                   " INSERT INTO run SELECT i, randomblob(16), 'nightly-' || (i %% 400), 'ci', '',"
                   " 2, i, i + 1000, 1, NULL, NULL, NULL, 0, 0, 0, 0, 0, 1, 130000, 1000000,"
                   " 'Windows 11/26100/i7-12700/20c/32G', 20 FROM c",
                   n);
    bench_check(lab_db_begin(db, &d, LAB_DB_WRITE), "lab.db");
    bench_check(db_run(d, sql), "runs");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        bench_check(db_run(d, lists[i]), "lists");
    }
    bench_check(lab_db_end(db, ERR_OK), "lab.db");
}

/* The first page, of 256, as `run list` asks for it. */
static double list_ms(struct lab_db *db, const char *name, const char *build)
{
    const struct runs_who who = {"reader", "", false};
    const struct wire_label label = {str_make("build"), str_make(build)};
    const struct wire_runs_ask ask = {
        .name = str_make(name), .n_labels = build[0] != '\0', .labels = &label, .limit = 256};
    double times[TIMES];

    for (size_t i = 0; i < TIMES; i++) {
        int64_t from = os_mono_ns();
        struct wire_runs out;
        struct arena memory;

        arena_init(&memory, (size_t)64 << 20);
        bench_check(runs_find(db, &who, &ask, &memory, &out, NULL), "list");
        arena_fini(&memory);
        times[i] = bench_ms(os_mono_ns() - from);
    }
    return bench_median(times, TIMES);
}

static void lists(void)
{
    const struct runs_bounds bounds = {0, RUNS_MAX, UINT64_MAX};
    struct runs_gone gone[4];
    struct lab_db *db;
    char dir[256];
    int64_t from;
    size_t n;

    bench_check(lab_db_open(&db, support_temp_dir(dir, sizeof dir), NULL, NULL), "lab.db");
    runs_fill(db, bench_quick() ? 2000 : RUNS_MAX);
    bench_figure("list_newest", list_ms(db, "", ""), "ms", 50, BENCH_LESS);
    bench_figure("list_of_name", list_ms(db, "nightly-7", ""), "ms", 50, BENCH_LESS);
    bench_figure("list_of_glob", list_ms(db, "nightly-7*", ""), "ms", 50, BENCH_LESS);
    bench_figure("list_of_old_label", list_ms(db, "", "b17"), "ms", 500, BENCH_LESS);
    bench_figure("list_of_none", list_ms(db, "none-*", ""), "ms", 500, BENCH_LESS);
    from = os_mono_ns();
    bench_check(runs_trim(db, &bounds, gone, 4, &n), "trim");
    bench_figure("look_for_room", bench_ms(os_mono_ns() - from), "ms", 50, BENCH_LESS);
    lab_db_close(db);
    support_remove_dir(dir);
}

/* -- outliers -- */

#define WINDOW (300 * CLK_S)
#define FLEET  4000.0 /* hosts that the goals are for */

static void fleet_fill(struct fill *f, const struct store_conf *store, int64_t span_ns)
{
    fill_open(f, store);
    for (int64_t at = FILL_T0 + WINDOW; at <= FILL_T0 + span_ns; at += WINDOW) {
        fill_make(f, at);
        fill_put(f, SIZE_MAX);
        fill_forget(f);
        if (at < FILL_T0 + span_ns) {
            fill_seal(f, at);
        }
    }
}

static struct str bench_class(void *ctx, const struct facts *f, const char *const *keys,
                              struct arena *a)
{
    (void)ctx;
    (void)f;
    (void)keys;
    (void)a;
    return str_make("one class");
}

static const struct facts *bench_facts(void *ctx, const struct uuid *host, const char *name,
                                       struct arena *a)
{
    static const struct facts facts = {.n_labels = 0};

    (void)ctx;
    (void)host;
    (void)name;
    (void)a;
    return &facts;
}

/* Of so many hosts as the goals are for: each costs the same, however many there are. */
static double outliers_ms(const struct fill *f, int64_t span_ns, uint8_t group_by)
{
    const struct wire_query q = {.since_ns = FILL_T0,
                                 .until_ns = FILL_T0 + span_ns,
                                 .n_metrics = 1,
                                 .metrics = {M_CPU_TIME},
                                 .group_by = group_by,
                                 .limit = 100};
    double times[3];

    for (size_t i = 0; i < 3; i++) {
        struct query_env env = {
            .now_ns = fill_now(), .facts = bench_facts, .host_class = bench_class};
        int64_t from = os_thread_cpu_ns();
        struct errmsg why = {""};
        struct query_answer a;
        struct store_view *v;
        struct buf out;

        bench_check(store_view_open(&v, f->store), "a view");
        env.view = v;
        bench_check(query_run(&a, QUERY_OUTLIERS, &env, &q, &why), why.text);
        buf_init(&out, QUERY_REPLY_MAX);
        bench_check(wire_answer_encode(&out, &a.data), "the answer");
        buf_fini(&out);
        query_answer_fini(&a);
        store_view_close(v);
        times[i] = bench_ms(os_thread_cpu_ns() - from);
    }
    return bench_median(times, 3) * FLEET / f->conf.hosts;
}

static void outliers(unsigned n_hosts, unsigned processes, unsigned starts, unsigned hours)
{
    const struct fill_conf conf = {.hosts = n_hosts,
                                   .host = {.processes = processes,
                                            .metrics = 1,
                                            .starts_per_hour = starts,
                                            .tick_ns = 60 * CLK_S},
                                   .ticks = 5};
    int64_t span_ns = hours * 3600 * CLK_S;
    struct fill *f = fill_create(&conf);
    char dir[256];
    struct store_conf store = fill_store_conf(support_temp_dir(dir, sizeof dir));

    store.fio = fio_unsynced(); /* the disk is not what is measured */
    fleet_fill(f, &store, span_ns);
    bench_figure("outliers_hosts", outliers_ms(f, span_ns, WIRE_GROUP_HOST), "ms", 500, BENCH_LESS);
    bench_figure("outliers_images", outliers_ms(f, span_ns, WIRE_GROUP_IMAGE), "ms", 2000,
                 BENCH_LESS);
    fill_destroy(f);
    support_remove_dir(dir);
}

/* -- the back-test -- */

#define WEEK_NS (7 * 24 * 3600 * CLK_S)

static bool back_wants(void *ctx, const struct store_host *h)
{
    (void)ctx;
    (void)h;
    return true;
}

static struct str back_class(void *ctx, const struct facts *f, struct arena *a)
{
    return bench_class(ctx, f, NULL, a);
}

static void back_test(int64_t span_ns)
{
    const struct fill_conf conf = {
        .hosts = 20,
        .host = {.processes = 150, .metrics = 30, .starts_per_hour = 960, .tick_ns = CLK_S},
        .ticks = 10};
    struct fill *f = fill_create(&conf);
    char dir[256], lab[256];
    struct store_conf store = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct rules_test_conf ask = {.since_ns = FILL_T0,
                                  .until_ns = FILL_T0 + span_ns,
                                  .wants = back_wants,
                                  .facts = bench_facts,
                                  .host_class = back_class};
    struct rules_conf *rules;
    struct rules_where at;
    struct errmsg why = {""};
    struct rules_test t;
    struct store_view *v;
    uint8_t *text;
    int64_t from;
    size_t n;

    bench_check(os_read_file(&text, &n, "docs/examples/lab-rules.yaml", RULES_FILE_MAX),
                "docs/examples/lab-rules.yaml");
    bench_check(rules_conf_read(&rules, (const char *)text, n, &at, &why), why.text);
    bench_check(lab_db_open(&ask.db, support_temp_dir(lab, sizeof lab), NULL, NULL), "lab.db");
    store.fio = fio_unsynced();
    fleet_fill(f, &store, span_ns);
    from = os_thread_cpu_ns();
    bench_check(store_view_open(&v, f->store), "a view");
    ask.view = v;
    ask.rules = rules;
    ask.now_ns = fill_now();
    bench_check(rules_test_run(&t, &ask), "the back-test");
    bench_figure("back_test_week",
                 bench_ms(os_thread_cpu_ns() - from) / 1000 * ((double)WEEK_NS / (double)span_ns),
                 "s", 30, BENCH_LESS);
    rules_test_fini(&t);
    store_view_close(v);
    lab_db_close(ask.db);
    rules_conf_free(rules);
    free(text);
    fill_destroy(f);
    support_remove_dir(dir);
    support_remove_dir(lab);
}

static const struct opt opts[] = {
    {"hosts", 0, "N", "that outliers are asked of (400)", 0},
    {"processes", 0, "N", "of each of its hosts (20)", 0},
    {"starts", 0, "N", "of processes an hour on each (20)", 0},
    {"hours", 0, "N", "that it was measured (24)", 0},
    {"only", 0, "compare|list|outliers|back", "that alone (all)", 0},
    {"json", 0, NULL, "one line a figure", 0},
    {"quick", 0, NULL, "a small run, for trying it out", 0},
    {"count", 0, NULL, "instructions, for scripts/bench", 0},
};

static const struct opt_command command = {
    .program = "bench_lab",
    .brief = "what comparing, listing, looking for outliers and a back-test cost",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

static bool is_asked(const struct opt_args *args, const char *what)
{
    const char *only = opt_value(args, "only");

    return !only || strcmp(only, what) == 0;
}

static void compare(void)
{
    const struct metric *m = NULL;
    size_t n = 0, bytes = 0;

    metrics[n++] = M_CPU_TIME;
    while (n < METRICS && (m = metric_next(m)) != NULL) {
        if (m->column && m->id > M_CPU_TIME) {
            metrics[n++] = m->id;
        }
    }
    for (size_t i = 0; i < RUNS; i++) {
        run_make(i);
    }
    bench_figure("run_file", (double)files[0].n / 1024, "KiB", 0, BENCH_LESS);
    bench_figure("diff_1_1", median_ms(DIFF, 1, &bytes), "ms", 100, BENCH_LESS);
    bench_figure("diff_8_8", median_ms(DIFF, 8, &bytes), "ms", 250, BENCH_LESS);
    bench_figure("gate_8_8", median_ms(GATE, 8, &bytes), "ms", 100, BENCH_LESS);
    bench_figure("report_8_8", median_ms(REPORT, 8, &bytes), "ms", 1000, BENCH_LESS);
    bench_figure("mark_p99", mark_p99_ms(), "ms", 50, BENCH_LESS);
    bench_figure("report_size", (double)bytes / 1024, "KiB", 2048, BENCH_LESS);
    for (size_t i = 0; i < RUNS; i++) {
        buf_fini(&files[i]);
    }
}

int main(int argc, char **argv)
{
    struct opt_args *args = bench_options(&command, argc, argv);
    unsigned n_hosts = (unsigned)bench_number(args, "hosts", 8, 10000, 400);
    unsigned processes = (unsigned)bench_number(args, "processes", 1, 4096, 20);
    unsigned starts = (unsigned)bench_number(args, "starts", 1, 10000, 20);
    unsigned hours = (unsigned)bench_number(args, "hours", 1, 48, 24);
    char *words[] = {argv[0], NULL, NULL, NULL, NULL};
    int n = 1;

    if (opt_flag(args, "json")) {
        words[n++] = "--json";
    }
    if (opt_flag(args, "quick")) {
        words[n++] = "--quick";
    }
    if (opt_flag(args, "count")) {
        words[n++] = "--count";
    }
    bench_begin(n, words, "bench_lab", "runs of 20 hosts, 80 rows each, 24 metrics");
    if (is_asked(args, "compare")) {
        compare();
    }
    if (is_asked(args, "list")) {
        lists();
    }
    if (is_asked(args, "outliers")) {
        outliers(bench_quick() ? 40 : n_hosts, processes, starts, bench_quick() ? 1 : hours);
    }
    if (is_asked(args, "back")) {
        back_test((bench_quick() ? 600 : 1800) * CLK_S);
    }
    opt_free(args);
    return bench_end();
}
