/* The whole store on generated data (fleetgen: 150 processes x 30 metrics): what it takes in, what
 * that costs on disk, and how long questions take; the goals are those of the design. Beside it the
 * same data as column chunks in SQLite, so that ratios are known on any machine.
 *
 *   hour     --hosts, --seconds at 1 Hz, batches of 10 s: window by window put, sealed, and given
 *            to SQLite; then questions, cold and warm; then all rows dropped
 *   wide     many hosts, two windows: the same questions; memory of a further host
 *   live     many hosts, nothing sealed: questions about the last minute
 *   second   batches of one second
 *   wal      closing with a full log, and opening it, as a clean end leaves it and as a kill does
 *   churn    7.5 times the process starts: bytes per value
 *   readers  1 M values a second, with and without 8 threads that ask
 *
 * CPU is that of the whole process while it puts and seals; bytes written are those of write calls
 * (/proc/self/io). Data is made between the measurements. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clk.h"
#include "common/mem.h"
#include "common/opt.h"
#include "common/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/store_ask.h"
#include "tests/bench/store_sqlite.h"
#include "tests/support/support.h"

#define WINDOW  (300 * CLK_S)
#define READERS 8u

static const struct opt options[] = {
    {"only", 0, "PART", "hour, wide, live, second, wal, churn or readers; may be repeated", true},
    {"hosts", 'n', "N", "of the hour (20)", false},
    {"seconds", 's', "S", "of the hour, whole windows of 300 s (3600)", false},
    {"wide-hosts", 0, "N", "(200)", false},
    {"wide-seconds", 0, "S", "(600)", false},
    {"wal-mb", 0, "MB", "log to open with (256)", false},
    {"readers-seconds", 0, "S", "measured, once with and once without them (30)", false},
    {"rounds", 0, "N", "of each question (9)", false},
    {"quick", 0, NULL, "a small form of everything", false},
    {"json", 0, NULL, "a line for each figure", false},
};

static const struct opt_command command = {
    .program = "bench_store",
    .brief = "the store beside its design's figures, and SQLite with the same data",
    .opts = options,
    .n_opts = sizeof options / sizeof *options,
    .examples = "  bench_store\n"
                "  bench_store --only wal --wal-mb 1024\n",
};

static struct {
    const char *only[8];
    size_t n_only;
    unsigned hosts, wide_hosts, wal_mb, readers_s, rounds;
    int64_t span_ns, wide_ns;
} o;

static void die(const char *what)
{
    fprintf(stderr, "bench_store: %s\n", what);
    exit(2);
}

/* Bytes of write calls so far, in the whole process. */
static uint64_t written(void)
{
    FILE *f = fopen("/proc/self/io", "r");
    unsigned long long n = 0;
    char line[128];

    while (f && fgets(line, sizeof line, f)) {
        (void)sscanf(line, "wchar: %llu", &n);
    }
    if (f) {
        fclose(f);
    }
    return n;
}

struct cost {
    int64_t cpu_ns, wall_ns;
    uint64_t written;
};

static struct cost cost_now(void)
{
    return (struct cost){os_cpu_ns(), os_mono_ns(), written()};
}

static void cost_add(struct cost *sum, const struct cost *since)
{
    struct cost now = cost_now();

    sum->cpu_ns += now.cpu_ns - since->cpu_ns;
    sum->wall_ns += now.wall_ns - since->wall_ns;
    sum->written += now.written - since->written;
}

static double per_cpu(uint64_t values, int64_t cpu_ns)
{
    return (double)values * 1e3 / (double)cpu_ns; /* M per second */
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

/* -- filling -- */

struct filled {
    struct cost put, seal, sql_put, sql_window;
};

static struct fill *fill_of(unsigned hosts, size_t ticks, unsigned starts_per_hour)
{
    struct fill_conf conf = {
        .hosts = hosts, .ticks = ticks, .host = {.starts_per_hour = starts_per_hour}};

    return fill_create(&conf);
}

/* Window by window; y may be NULL. */
static struct filled fill_all(struct fill *f, int64_t span_ns, struct store_sqlite *y)
{
    struct filled c = {.put = {0}};

    for (int64_t w = FILL_T0; w < FILL_T0 + span_ns; w += WINDOW) {
        struct cost begin;

        fill_make(f, w + WINDOW);
        begin = cost_now();
        fill_put(f, SIZE_MAX);
        cost_add(&c.put, &begin);
        begin = cost_now();
        fill_seal(f, w + WINDOW);
        cost_add(&c.seal, &begin);
        if (y) {
            begin = cost_now();
            store_sqlite_batches(y, f);
            cost_add(&c.sql_put, &begin);
            begin = cost_now();
            store_sqlite_window(y, f->store, w);
            cost_add(&c.sql_window, &begin);
        }
        fill_forget(f);
    }
    return c;
}

/* The hour's end and what follows: its tier, small segments joined. */
static void settle(struct fill *f, struct cost *sum)
{
    struct cost begin = cost_now();

    fill_set_now((fill_now() / (3600 * CLK_S) + 1) * 3600 * CLK_S + 700 * CLK_S);
    fill_seal(f, f->until_ns);
    cost_add(sum, &begin);
}

static uint64_t tell_bytes(struct fill *f, const char *name, bool goals)
{
    static const char *const kinds[SEG_KINDS] = {"", "raw", "10s", "1min", "1h", "rest"};
    static const double goal[SEG_KINDS] = {0, 0.65, 0.236, 0.061, 0.008, 0};
    struct store_room room;
    char text[96];

    store_room(f->store, &room);
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        snprintf(text, sizeof text, "%s_sealed_%s", name, kinds[k]);
        bench_figure(text, (double)room.kind[k].bytes / (double)f->values, "B/value",
                     goals ? goal[k] : 0, BENCH_LESS);
        if (goals && k >= SEG_10S && k <= SEG_1H && room.kind[k].values) {
            snprintf(text, sizeof text, "%s_point_%s", name, kinds[k]);
            bench_figure(text, (double)room.kind[k].bytes / (double)room.kind[k].values, "B/point",
                         k == SEG_10S    ? 2.32
                         : k == SEG_1MIN ? 3.32
                                         : 4.11,
                         BENCH_LESS);
        }
    }
    snprintf(text, sizeof text, "%s_catalogue", name);
    bench_figure(text, (double)room.catalogue_bytes / (double)f->values, "B/value", 0, BENCH_LESS);
    return room.kind[SEG_RAW].bytes;
}

static void tell_costs(const char *name, const struct fill *f, const struct filled *c, double goal)
{
    int64_t cpu_ns = c->put.cpu_ns + c->seal.cpu_ns;
    char text[96];

    snprintf(text, sizeof text, "%s_values_per_cpu_second", name);
    bench_figure(text, per_cpu(f->values, cpu_ns), "M", goal, BENCH_MORE);
    snprintf(text, sizeof text, "%s_put", name);
    bench_figure(text, (double)c->put.cpu_ns / (double)f->values, "ns/value", 0, BENCH_LESS);
    snprintf(text, sizeof text, "%s_seal", name);
    bench_figure(text, (double)c->seal.cpu_ns / (double)f->values, "ns/value", 0, BENCH_LESS);
}

/* -- questions -- */

static struct store_ask_times ask(struct fill *f, const struct store_conf *conf, const char *name,
                                  enum query_kind kind, const struct wire_query *q, double cold,
                                  double warm)
{
    struct store_ask_times t = store_ask_both(f, conf, kind, q, o.rounds);
    char text[96];

    snprintf(text, sizeof text, "%s_cold", name);
    bench_figure(text, t.cold_ms, "ms", cold, BENCH_LESS);
    snprintf(text, sizeof text, "%s_warm", name);
    bench_figure(text, t.warm_ms, "ms", warm, BENCH_LESS);
    snprintf(text, sizeof text, "%s_warm_cpu", name);
    bench_figure(text, t.warm_cpu_ms, "ms", 0, BENCH_LESS);
    return t;
}

static void ask_all(struct fill *f, const struct store_conf *conf, int64_t span_ns)
{
    struct wire_query top = store_ask_top(FILL_T0, FILL_T0 + span_ns), q;
    struct wire_query tree = {.host = str_make("gen-1"), .at_ns = FILL_T0 + span_ns / 2};
    struct store_ask_process p;
    struct store_ask_times t;

    ask(f, conf, "top10", QUERY_TOP, &top, 5, 0);
    store_ask_first(f->store, &top, &p);
    q = store_ask_history(&p, 1, FILL_T0, FILL_T0 + span_ns);
    t = ask(f, conf, "history_1_metric", QUERY_HISTORY, &q, 6, 0);
    bench_figure("history_rows", (double)t.rows, "", 0, BENCH_MORE);
    q = store_ask_history(&p, 24, FILL_T0, FILL_T0 + span_ns);
    ask(f, conf, "history_24_metrics", QUERY_HISTORY, &q, 0, 5);
    q = store_ask_history(&p, 24, FILL_T0, FILL_T0 + span_ns);
    q.step_ns = 60 * CLK_S;
    ask(f, conf, "history_24_metrics_by_minute", QUERY_HISTORY, &q, 0, 0);
    tree.limit = WIRE_ROWS_MAX;
    t = ask(f, conf, "tree_at", QUERY_TREE, &tree, 0, 4.7);
    bench_figure("tree_rows", (double)t.rows, "", 0, BENCH_MORE);
}

/* Medians of fetching alone, own and SQLite; cold as store_ask_both. */
static void fetch_both(struct fill *f, const struct store_conf *conf, const char *dir,
                       struct store_sqlite **y, const char *name, bool sums)
{
    double own[2][64], sql[2][64];
    uint64_t bytes[2];
    char text[96];

    for (unsigned i = 0; i < o.rounds * 2; i++) {
        unsigned warm = i % 2, at = i / 2;

        if (!warm) {
            fill_close(f);
            store_sqlite_close(*y);
            fill_open(f, conf);
            *y = store_sqlite_open(dir);
            store_ask_forget(conf->dir);
            store_ask_forget(dir);
        }
        own[warm][at] = sums ? store_own_sums_ms(f->store, M_CPU_TIME, &bytes[0])
                             : store_own_column_ms(f->store, M_CPU_TIME, 0, &bytes[0]);
        sql[warm][at] = sums ? store_sqlite_sums_ms(*y, M_CPU_TIME, &bytes[1])
                             : store_sqlite_column_ms(*y, M_CPU_TIME, 0, &bytes[1]);
    }
    if (bytes[0] != bytes[1]) {
        die("SQLite fetched other bytes than the store");
    }
    for (unsigned warm = 0; warm < 2; warm++) {
        double a = bench_median(own[warm], o.rounds), b = bench_median(sql[warm], o.rounds);

        snprintf(text, sizeof text, "%s_%s", name, warm ? "warm" : "cold");
        bench_figure(text, a, "ms", 0, BENCH_LESS);
        snprintf(text, sizeof text, "%s_%s_sqlite_ratio", name, warm ? "warm" : "cold");
        bench_figure(text, b / a, "x", 0, BENCH_MORE);
    }
}

/* Every row too old at once, both ways. */
static void drop_all(struct fill *f, const struct store_conf *conf, struct store_sqlite *y)
{
    struct store_conf old = *conf;
    uint64_t sql_bytes = store_sqlite_bytes(y);
    struct store_room before, after;
    int64_t began_ns;
    double own_ms, sql_ms;

    store_room(f->store, &before);
    fill_close(f);
    old.retain.age_ns[SEG_RAW] = CLK_S;
    fill_set_now(fill_now() + 2 * 3600 * CLK_S);
    began_ns = os_mono_ns();
    fill_open(f, &old);
    fill_seal(f, f->until_ns);
    own_ms = ms(os_mono_ns() - began_ns);
    store_room(f->store, &after);
    sql_ms = store_sqlite_drop_ms(y);
    bench_figure("drop_rows_with_opening", own_ms, "ms", 0, BENCH_LESS);
    bench_figure("drop_rows_given_back",
                 100 * (1 - (double)after.kind[SEG_RAW].bytes / (double)before.kind[SEG_RAW].bytes),
                 "%", 0, BENCH_MORE);
    bench_figure("drop_rows_sqlite_ratio", sql_ms / own_ms, "x", 0, BENCH_MORE);
    bench_figure("drop_rows_given_back_sqlite",
                 100 * (1 - (double)store_sqlite_bytes(y) / (double)sql_bytes), "%", 0, BENCH_MORE);
}

static void part_hour(void)
{
    char dir[256], sql_dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = fill_of(o.hosts, 10, 0);
    struct store_sqlite *y = store_sqlite_open(support_temp_dir(sql_dir, sizeof sql_dir));
    struct filled c;
    int64_t began_ns;
    double own, sql;

    fill_open(f, &conf);
    c = fill_all(f, o.span_ns, y);
    tell_costs("hour", f, &c, 60);
    settle(f, &c.seal);
    own = (double)tell_bytes(f, "hour", true);
    sql = (double)store_sqlite_bytes(y);
    bench_figure("hour_wire", (double)f->bytes / (double)f->values, "B/value", 1.05, BENCH_LESS);
    bench_figure("hour_written", (double)(c.put.written + c.seal.written) / (double)f->values,
                 "B/value", 2.2, BENCH_LESS);
    bench_figure("hour_values_per_cpu_second_all", per_cpu(f->values, c.put.cpu_ns + c.seal.cpu_ns),
                 "M", 0, BENCH_MORE);
    bench_figure("sqlite_bytes_ratio_rows", sql / own, "x", 0, BENCH_MORE);
    bench_figure("sqlite_written_ratio_rows_to_all",
                 (double)(c.sql_put.written + c.sql_window.written) /
                     (double)(c.put.written + c.seal.written),
                 "x", 0, BENCH_MORE);
    bench_figure("sqlite_written",
                 (double)(c.sql_put.written + c.sql_window.written) / (double)f->values, "B/value",
                 0, BENCH_LESS);
    bench_figure("sqlite_keeping",
                 (double)(c.sql_put.cpu_ns + c.sql_window.cpu_ns) / (double)f->values, "ns/value",
                 0, BENCH_LESS);
    fill_close(f);
    began_ns = os_mono_ns();
    fill_open(f, &conf);
    bench_figure("open_sealed", ms(os_mono_ns() - began_ns), "ms", 0, BENCH_LESS);
    ask_all(f, &conf, o.span_ns);
    fetch_both(f, &conf, sql_dir, &y, "fetch_summaries", true);
    fetch_both(f, &conf, sql_dir, &y, "fetch_column", false);
    drop_all(f, &conf, y);
    store_sqlite_close(y);
    fill_destroy(f);
    support_remove_dir(dir);
    support_remove_dir(sql_dir);
}

/* -- many hosts -- */

/* The first window in two halves of the hosts: what the second adds. */
static void memory_per_host(void)
{
    double per_host[2];
    char dir[256];

    for (unsigned i = 0; i < 2; i++) {
        unsigned hosts = o.wide_hosts / (2 - i);
        struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
        struct fill *f = fill_of(hosts, 10, 0);
        int64_t before;

        fill_make(f, FILL_T0 + WINDOW);
        before = os_resident_bytes();
        fill_open(f, &conf);
        fill_put(f, SIZE_MAX);
        per_host[i] = (double)(os_resident_bytes() - before);
        fill_destroy(f);
        support_remove_dir(dir);
    }
    bench_figure("memory_per_further_host",
                 (per_host[1] - per_host[0]) / (o.wide_hosts - o.wide_hosts / 2) / 1048576, "MiB",
                 2, BENCH_LESS);
}

static void part_wide(void)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = fill_of(o.wide_hosts, 10, 0);
    struct wire_query top = store_ask_top(FILL_T0, FILL_T0 + o.wide_ns);
    struct filled c;

    fill_open(f, &conf);
    c = fill_all(f, o.wide_ns, NULL);
    tell_costs("wide", f, &c, 60);
    tell_bytes(f, "wide", false);
    ask(f, &conf, "wide_top10", QUERY_TOP, &top, 0, 0);
    fill_destroy(f);
    support_remove_dir(dir);
    memory_per_host();
}

/* Nothing sealed: what `top`, and what /metrics asks, cost of each host. */
static void part_live(void)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = fill_of(o.wide_hosts, 10, 0);
    struct store_stats stats;
    struct store_ask_cpu t;

    fill_open(f, &conf);
    fill_make(f, FILL_T0 + 180 * CLK_S);
    fill_put(f, SIZE_MAX);
    fill_forget(f);
    fill_set_now(f->until_ns);
    store_stats(f->store, &stats);
    t = store_ask_live(f->store, o.rounds);
    bench_figure("live_top10", t.top_us / o.wide_hosts, "us/host", 75, BENCH_LESS);
    bench_figure("live_hot", (double)stats.hot_bytes / o.wide_hosts / 1024, "KiB/host", 0,
                 BENCH_LESS);
    bench_figure("live_head", (double)stats.head_bytes / o.wide_hosts / 1024, "KiB/host", 0,
                 BENCH_LESS);
    bench_figure("live_images", t.images_us / o.wide_hosts, "us/host", 0, BENCH_LESS);
    fill_destroy(f);
    support_remove_dir(dir);
}

static void part_second(void)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = fill_of(o.hosts, 1, 0);
    struct filled c;

    fill_open(f, &conf);
    c = fill_all(f, WINDOW, NULL);
    tell_costs("second", f, &c, 0);
    tell_bytes(f, "second", false);
    fill_destroy(f);
    support_remove_dir(dir);
}

/* The index of the log's newest file, which a clean end leaves and a kill does not. */
static enum err newest_index(void *ctx, const char *name)
{
    char *newest = ctx;
    size_t n = strlen(name);

    if (n > 4 && n < 64 && strcmp(name + n - 4, ".idx") == 0 && strcmp(name, newest) > 0) {
        memcpy(newest, name, n + 1);
    }
    return ERR_OK;
}

static void leave_as_killed(const char *dir)
{
    char log[320], newest[64] = "", path[400];

    snprintf(log, sizeof log, "%s/wal", dir);
    if (os_list_dir(log, newest_index, newest) != ERR_OK || !newest[0]) {
        die("the clean end left no index");
    }
    snprintf(path, sizeof path, "%s/%s", log, newest);
    err_ignore(os_remove(path));
}

/* Opens with nothing in memory. */
static void opening(struct fill *f, const struct store_conf *conf, const char *name,
                    uint64_t log_bytes)
{
    int64_t took_ns, cpu_ns;
    char text[96];

    store_ask_forget(conf->dir);
    took_ns = os_mono_ns();
    cpu_ns = os_cpu_ns();
    fill_open(f, conf);
    took_ns = os_mono_ns() - took_ns;
    cpu_ns = os_cpu_ns() - cpu_ns;
    snprintf(text, sizeof text, "restart_%s_cold", name);
    bench_figure(text, ms(took_ns), "ms", 0, BENCH_LESS);
    snprintf(text, sizeof text, "restart_%s_cpu", name);
    bench_figure(text, ms(cpu_ns), "ms", 0, BENCH_LESS);
    snprintf(text, sizeof text, "restart_%s_cold_per_gib", name);
    bench_figure(text, (double)took_ns / CLK_S * 1073741824 / (double)log_bytes, "s", 0.1,
                 BENCH_LESS);
}

static void part_wal(void)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = fill_of(20, 10, 0);
    struct store_stats stats;
    int64_t began_ns;

    fill_open(f, &conf);
    while (f->bytes < (uint64_t)o.wal_mb << 20) { /* the clock stands still: nothing is sealed */
        fill_make(f, f->until_ns + 60 * CLK_S);
        fill_put(f, SIZE_MAX);
        fill_forget(f);
    }
    store_stats(f->store, &stats);
    bench_figure("restart_log", (double)stats.log_bytes / 1048576, "MiB", 0, BENCH_MORE);
    began_ns = os_mono_ns();
    fill_close(f);
    bench_figure("restart_close", ms(os_mono_ns() - began_ns), "ms", 0, BENCH_LESS);
    opening(f, &conf, "clean", stats.log_bytes);
    fill_close(f);
    leave_as_killed(dir);
    opening(f, &conf, "kill", stats.log_bytes);
    fill_destroy(f);
    support_remove_dir(dir);
}

/* -- churn -- */

static void churned(unsigned starts_per_hour, double *raw, double *all)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = fill_of(o.hosts < 5 ? o.hosts : 5, 10, starts_per_hour);
    struct store_room room;
    struct cost unused = {0};

    fill_open(f, &conf);
    (void)fill_all(f, o.span_ns < 4 * WINDOW ? o.span_ns : 4 * WINDOW, NULL);
    settle(f, &unused);
    store_room(f->store, &room);
    *raw = (double)room.kind[SEG_RAW].bytes / (double)f->values;
    *all = 0;
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        *all += (double)room.kind[k].bytes / (double)f->values;
    }
    fill_destroy(f);
    support_remove_dir(dir);
}

static void part_churn(void)
{
    double raw[2], all[2];

    churned(960, &raw[0], &all[0]);
    churned(7200, &raw[1], &all[1]);
    bench_figure("churn_raw_usual", raw[0], "B/value", 0, BENCH_LESS);
    bench_figure("churn_raw_7.5x_starts", raw[1], "B/value", 0, BENCH_LESS);
    bench_figure("churn_raw_ratio", raw[1] / raw[0], "x", 1.15, BENCH_LESS);
    bench_figure("churn_all_kinds_ratio", all[1] / all[0], "x", 0, BENCH_LESS);
}

/* -- readers beside the writer -- */

static _Atomic bool ended;
static _Atomic int64_t readers_cpu_ns;
static _Atomic uint64_t asked;

static void read_on(void *arg)
{
    struct fill *f = arg;
    struct wire_query top = store_ask_top(0, 0), events = {.limit = 1000}, hosts = {.limit = 1000};
    unsigned me = (unsigned)(atomic_fetch_add(&asked, 0) % READERS);

    top.last_ns = 15 * 60 * CLK_S;
    for (unsigned i = me; !atomic_load(&ended); i++) {
        static const enum query_kind kinds[] = {QUERY_TOP, QUERY_HOSTS, QUERY_EVENTS, QUERY_TOP};
        enum query_kind kind = kinds[i % 4];

        (void)store_ask_ms(f->store, kind,
                           kind == QUERY_TOP      ? &top
                           : kind == QUERY_EVENTS ? &events
                                                  : &hosts,
                           NULL);
        atomic_fetch_add(&asked, 1);
    }
    atomic_fetch_add(&readers_cpu_ns, os_thread_cpu_ns());
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static double percentile(const struct fill *f, unsigned percent)
{
    int64_t *took = mem_array(f->n_put, sizeof *took);
    double v;

    if (!took) {
        die("out of memory");
    }
    for (size_t i = 0; i < f->n_put; i++) {
        took[i] = f->batches[i].took_ns;
    }
    qsort(took, f->n_put, sizeof *took, by_time);
    v = ms(took[f->n_put * percent / 100]);
    mem_free(took);
    return v;
}

/* CPU per value without the readers' own. 10 hosts make 1 M values a second as their time passes 22
 * times as fast as ours: windows end all the time. */
static double steady(const char *name, bool readers)
{
    char dir[256], text[96];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = fill_of(10, 10, 0);
    struct os_thread *threads[READERS] = {NULL};
    int64_t cpu_ns, start_ns;
    double v;

    conf.seal_poll_ns = 100 * CLK_MS;
    fill_open(f, &conf);
    fill_make(f, FILL_T0 + (int64_t)o.readers_s * CLK_S * 22);
    atomic_store(&ended, false);
    atomic_store(&readers_cpu_ns, 0);
    atomic_store(&asked, 0);
    cpu_ns = os_cpu_ns();
    start_ns = os_mono_ns();
    for (unsigned i = 0; readers && i < READERS; i++) {
        if (os_thread_start(&threads[i], "reader", read_on, f)) {
            die("cannot start a thread");
        }
    }
    for (size_t i = 0; i < f->n_batches; i++) {
        double at_s = (double)i * (double)f->values / (double)f->n_batches / 1e6;

        os_sleep_ns(start_ns + (int64_t)(at_s * 1e9) - os_mono_ns());
        fill_set_now(f->batches[i].made_ns + CLK_S);
        fill_put_next(f);
    }
    fill_wait(f);
    start_ns = os_mono_ns() - start_ns;
    atomic_store(&ended, true);
    for (unsigned i = 0; i < READERS; i++) {
        os_thread_join(threads[i]);
    }
    cpu_ns = os_cpu_ns() - cpu_ns - atomic_load(&readers_cpu_ns);
    v = (double)cpu_ns / (double)f->values;
    snprintf(text, sizeof text, "%s_values_per_second", name);
    bench_figure(text, (double)f->values * 1e3 / (double)start_ns, "M", 0, BENCH_MORE);
    snprintf(text, sizeof text, "%s_ack_p50", name);
    bench_figure(text, percentile(f, 50), "ms", 25, BENCH_LESS);
    snprintf(text, sizeof text, "%s_ack_p99", name);
    bench_figure(text, percentile(f, 99), "ms", 250, BENCH_LESS);
    snprintf(text, sizeof text, "%s_cpu", name);
    bench_figure(text, v, "ns/value", 0, BENCH_LESS);
    if (readers) {
        bench_figure("readers_questions", (double)atomic_load(&asked) * 1e9 / (double)start_ns,
                     "1/s", 0, BENCH_MORE);
    }
    fill_destroy(f);
    support_remove_dir(dir);
    return v;
}

static void part_readers(void)
{
    double alone = steady("alone", false), with = steady("readers", true);

    bench_figure("readers_cpu_growth", 100 * (with / alone - 1), "%", 15, BENCH_LESS);
}

/* -- options -- */

static void take_options(const struct opt_args *args)
{
    bool quick = opt_flag(args, "quick");
    double s = bench_number(args, "seconds", 300, 86400, quick ? 600 : 3600);

    o.n_only = opt_values(args, "only", o.only, sizeof o.only / sizeof *o.only);
    o.hosts = (unsigned)bench_number(args, "hosts", 1, 2000, quick ? 2 : 20);
    o.span_ns = (int64_t)(s / 300) * WINDOW;
    o.wide_hosts = (unsigned)bench_number(args, "wide-hosts", 2, 5000, quick ? 8 : 200);
    s = bench_number(args, "wide-seconds", 300, 86400, quick ? 300 : 600);
    o.wide_ns = (int64_t)(s / 300) * WINDOW;
    o.wal_mb = (unsigned)bench_number(args, "wal-mb", 1, 8192, quick ? 8 : 256);
    o.readers_s = (unsigned)bench_number(args, "readers-seconds", 1, 3600, quick ? 2 : 30);
    o.rounds = (unsigned)bench_number(args, "rounds", 1, 60, quick ? 2 : 9);
}

static bool wanted(const char *part)
{
    for (size_t i = 0; i < o.n_only; i++) {
        if (strcmp(o.only[i], part) == 0) {
            return true;
        }
    }
    return o.n_only == 0;
}

static void begin(bool json)
{
    char name[] = "bench_store", flag[] = "--json", about[160];
    char *argv[] = {name, flag, NULL};

    (void)snprintf(about, sizeof about,
                   "150 processes x 30 metrics at 1 Hz; %u hosts x %d s, %u x %d s", o.hosts,
                   (int)(o.span_ns / CLK_S), o.wide_hosts, (int)(o.wide_ns / CLK_S));
    bench_begin(json ? 2 : 1, argv, name, about);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"hour", part_hour},      {"wide", part_wide}, {"live", part_live},
                 {"second", part_second},  {"wal", part_wal},   {"churn", part_churn},
                 {"readers", part_readers}};
    struct opt_args *args = bench_options(&command, argc, argv);

    take_options(args);
    begin(opt_flag(args, "json"));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (wanted(parts[i].name)) {
            parts[i].run();
        }
    }
    opt_free(args);
    return bench_end();
}
