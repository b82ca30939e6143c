/* What the console's questions cost the collector: CPU of the thread that asks, from opening a view
 * to the encoded answer, medians of some rounds, over stores that generated fleets filled.
 *
 *   hour       one host with --processes at 1 Hz for an hour
 *   day        20 hosts at one sample in 10 s for --hours
 *   lives      one host that starts 20,000 processes in 40 minutes
 *   fleet      --hosts with ten processes each for ten minutes
 *
 * Everything but the last five minutes of each is sealed. With --fill the store stays, its newest
 * data of now, for a collector to be started on it: tests/bench/console_page.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/query/pulse.h"
#include "collector/query/query.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/wire/wire_lifetimes.h"
#include "common/wire/wire_series.h"
#include "tests/bench/bench.h"
#include "tests/support/store_fill.h"

#define ROUNDS_MAX     1000
#define WINDOW         (300 * CLK_S)
#define HOUR_NS        (3600 * CLK_S)
#define LIVES_PER_HOUR 60000u

static unsigned rounds; /* of each question */

struct filled {
    char dir[256];
    struct fill *fill;
    struct pulse *pulse;
    int64_t since_ns, until_ns;
};

static const char *fill_dir; /* of --fill, or NULL */

static void filled_make(struct filled *f, struct fill_conf *conf, int64_t span_ns)
{
    struct store_conf store;

    (void)snprintf(f->dir, sizeof f->dir, "%s", fill_dir ? fill_dir : "/tmp/bench_console-XXXXXX");
    if (fill_dir) {
        conf->host.begin_ns = os_utc_ns() - span_ns;
    } else if (!mkdtemp(f->dir)) {
        bench_fail("there is no directory under /tmp");
    }
    bench_check(pulse_create(&f->pulse, conf->hosts), "the pulse");
    store = fill_store_conf(f->dir);
    store.on_stored = pulse_stored;
    store.ctx = f->pulse;
    f->fill = fill_create(conf);
    fill_open(f->fill, &store);
    f->since_ns = f->fill->until_ns;
    f->until_ns = f->since_ns + span_ns;
    for (int64_t at = f->since_ns + WINDOW; at <= f->until_ns; at += WINDOW) {
        fill_make(f->fill, at);
        fill_put(f->fill, SIZE_MAX);
        fill_forget(f->fill);
        if (at < f->until_ns) {
            fill_seal(f->fill, at);
        }
    }
}

static void filled_free(struct filled *f)
{
    char command[288];

    fill_close(f->fill);
    fill_destroy(f->fill);
    pulse_destroy(f->pulse);
    if (fill_dir) {
        return;
    }
    (void)snprintf(command, sizeof command, "rm -rf %s", f->dir);
    if (system(command) != 0) {
        bench_fail("the directory under /tmp could not be removed");
    }
}

struct asked {
    double cpu_ms;
    size_t bytes, rows, lives, pages;
};

/* Every page. */
static struct asked ask_once(const struct filled *f, enum query_kind kind, struct wire_query q)
{
    char cursor[WIRE_CURSOR_MAX];
    struct asked sum = {.pages = 0};
    int64_t began_ns = os_thread_cpu_ns();
    bool more = true;

    while (more) {
        struct query_env env = {.now_ns = fill_now(), .pulse = f->pulse};
        struct errmsg why = {""};
        struct query_answer a;
        struct store_view *v;
        struct buf out;

        bench_check(store_view_open(&v, f->fill->store), "a view");
        env.view = v;
        bench_check(query_run(&a, kind, &env, &q, &why), why.text);
        buf_init(&out, QUERY_REPLY_MAX);
        bench_check(wire_answer_encode(&out, &a.data), "the answer");
        sum.bytes += out.n;
        sum.rows += kind == QUERY_HOSTS ? a.data.n_hosts : a.data.n_rows;
        sum.lives += a.data.lifetimes ? a.data.lifetimes->n : 0;
        sum.pages++;
        more = a.more;
        memcpy(cursor, a.cursor, a.cursor_n);
        q.cursor = (struct str){cursor, a.cursor_n};
        buf_fini(&out);
        query_answer_fini(&a);
        store_view_close(v);
    }
    sum.cpu_ms = bench_ms(os_thread_cpu_ns() - began_ns);
    return sum;
}

static struct asked ask(const struct filled *f, enum query_kind kind, const struct wire_query *q)
{
    double ms[ROUNDS_MAX];
    struct asked x = {0};

    for (size_t i = 0; i < rounds; i++) {
        x = ask_once(f, kind, *q);
        ms[i] = x.cpu_ms;
    }
    x.cpu_ms = bench_median(ms, rounds);
    return x;
}

static struct wire_query of_window(const struct filled *f)
{
    return (struct wire_query){
        .since_ns = f->since_ns, .until_ns = f->until_ns, .limit = WIRE_ROWS_MAX};
}

static struct wire_query series_of(const struct filled *f, uint32_t buckets)
{
    struct wire_query q = of_window(f);

    q.limit = 12;
    q.group_by = WIRE_GROUP_IMAGE;
    q.buckets = buckets;
    q.n_metrics = 1;
    q.metrics[0] = M_CPU_PERCENT;
    return q;
}

static struct fill_conf hour_conf(unsigned processes)
{
    return (struct fill_conf){
        .hosts = 1, .host = {.processes = processes, .metrics = 8}, .ticks = 10};
}

static void hour(unsigned processes)
{
    struct fill_conf conf = hour_conf(processes);
    struct filled f;
    struct wire_query q;

    filled_make(&f, &conf, bench_quick() ? HOUR_NS / 6 : HOUR_NS);
    q = series_of(&f, 1000);
    bench_figure("series_1_host_1h_12_groups_5s", ask(&f, QUERY_SERIES, &q).cpu_ms, "ms", 20,
                 BENCH_LESS);
    q = series_of(&f, 400);
    bench_figure("series_1_host_1h_12_groups_10s", ask(&f, QUERY_SERIES, &q).cpu_ms, "ms", 20,
                 BENCH_LESS);
    filled_free(&f);
}

static void day(unsigned processes, unsigned hours)
{
    struct fill_conf conf = {.hosts = bench_quick() ? 2 : 20,
                             .host = {.processes = processes, .metrics = 8, .tick_ns = 10 * CLK_S},
                             .ticks = 30};
    struct filled f;
    struct wire_query q;
    struct asked x;

    filled_make(&f, &conf, bench_quick() ? HOUR_NS : hours * HOUR_NS);
    q = series_of(&f, hours < 24 ? (400 * hours + 23) / 24 : 400); /* steps of five minutes */
    x = ask(&f, QUERY_SERIES, &q);
    bench_figure("series_20_hosts_24h_12_groups", x.cpu_ms, "ms", 100, BENCH_LESS);
    filled_free(&f);
}

static struct fill_conf lives_conf(unsigned processes)
{
    return (struct fill_conf){.hosts = 1,
                              .host = {.processes = 4 * processes,
                                       .metrics = 8,
                                       .starts_per_hour = bench_quick() ? 6000 : LIVES_PER_HOUR},
                              .ticks = 10};
}

static void lives(unsigned processes)
{
    struct fill_conf conf = lives_conf(processes);
    struct filled f;
    struct wire_query q;
    struct asked x;

    filled_make(&f, &conf, bench_quick() ? 2 * WINDOW : 8 * WINDOW);
    q = of_window(&f);
    q.buckets = 1000;
    x = ask(&f, QUERY_LIFETIMES, &q);
    bench_figure("lifetimes_20000", x.cpu_ms, "ms", 80, BENCH_LESS);
    bench_figure("lifetimes_rows", (double)x.lives, "rows", 0, BENCH_MORE);
    bench_figure("lifetimes_row_bytes", (double)x.bytes / (double)(x.lives ? x.lives : 1), "B", 0,
                 BENCH_LESS);
    filled_free(&f);
}

static struct fill_conf fleet_conf(unsigned hosts)
{
    return (struct fill_conf){.hosts = hosts,
                              .host = {.processes = 10, .metrics = 8, .tick_ns = 10 * CLK_S},
                              .ticks = 30};
}

static void fleet(unsigned hosts)
{
    struct fill_conf conf = fleet_conf(hosts);
    struct wire_query q = {.limit = WIRE_ROWS_MAX};
    struct pulse_stats s;
    struct asked x;
    struct filled f;

    filled_make(&f, &conf, 2 * WINDOW);
    bench_figure("hosts_4000", ask(&f, QUERY_HOSTS, &q).cpu_ms, "ms", 40, BENCH_LESS);
    x = ask(&f, QUERY_PULSE, &q);
    bench_figure("pulse_4000", x.cpu_ms, "ms", 0, BENCH_LESS);
    bench_figure("pulse_4000_pages", (double)x.pages, "pages", 0, BENCH_LESS);
    pulse_stats(f.pulse, &s);
    bench_figure("pulse_host_bytes", (double)s.bytes / (double)hosts, "B", 0, BENCH_LESS);
    filled_free(&f);
}

/* A store for a collector; the fleet's has two hours, as the console's first view shows them. */
static void fill(const char *what, unsigned hosts, unsigned processes)
{
    bool lives = strcmp(what, "lives") == 0, fleet = strcmp(what, "fleet") == 0;
    struct fill_conf conf = lives   ? lives_conf(processes)
                            : fleet ? fleet_conf(hosts)
                                    : hour_conf(processes);
    struct filled f;

    if (!lives && !fleet) {
        conf.host.metrics = 0; /* all: every plot has values */
    }
    if (fleet) {
        conf.host.tick_ns = 60 * CLK_S;
        conf.host.processes = 5;
        conf.ticks = 10;
    }
    filled_make(&f, &conf, lives ? 8 * WINDOW : fleet ? 2 * HOUR_NS : HOUR_NS);
    filled_free(&f);
}

struct counting {
    const struct filled *f;
    enum query_kind kind;
    struct wire_query q;
};

static void count_pass(void *arg)
{
    const struct counting *c = arg;

    (void)ask_once(c->f, c->kind, c->q);
}

/* Instructions, of small stores. */
static void count(unsigned processes)
{
    struct fill_conf conf = hour_conf(30);
    struct counting c = {.kind = QUERY_SERIES};
    struct filled f;

    c.f = &f;
    filled_make(&f, &conf, HOUR_NS / 2);
    c.q = series_of(&f, 500);
    bench_count("series_5s", 360, "step", 0, count_pass, &c);
    filled_free(&f);
    conf = (struct fill_conf){.hosts = 1,
                              .host = {.processes = processes, .metrics = 8, .tick_ns = 10 * CLK_S},
                              .ticks = 30};
    filled_make(&f, &conf, 3 * HOUR_NS);
    c.q = series_of(&f, 50);
    bench_count("series_day", 36, "window of a host", 0, count_pass, &c);
    filled_free(&f);
    conf = lives_conf(30);
    filled_make(&f, &conf, 2 * WINDOW);
    c.kind = QUERY_LIFETIMES;
    c.q = of_window(&f);
    c.q.buckets = 1000;
    bench_count("lifetimes", (double)ask_once(&f, c.kind, c.q).lives, "process", 0, count_pass, &c);
    filled_free(&f);
}

static const struct opt opts[] = {
    {"hosts", 0, "N", "hosts of the fleet (4000)", 0},
    {"processes", 0, "N", "of a host, in all but the fleet (150)", 0},
    {"hours", 0, "N", "of the day (24)", 0},
    {"only", 0, "hour|lives|fleet|day", "that one alone (all)", 0},
    {"fill", 0, "DIR",
     "measure nothing: fill the store of --only hour|lives|fleet there, up to now", 0},
    {"rounds", 0, "N", "of each question, of which the median is told (5)", 0},
    {"json", 0, NULL, "one line a figure", 0},
    {"quick", 0, NULL, "a small run, for trying it out", 0},
    {"count", 0, NULL, "instructions, for scripts/bench", 0},
};

static const struct opt_command command = {
    .program = "bench_console",
    .brief = "CPU of the questions that the console asks",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
};

static bool is_asked(const struct opt_args *args, const char *what)
{
    const char *only = opt_value(args, "only");

    return !only || strcmp(only, what) == 0;
}

int main(int argc, char **argv)
{
    struct opt_args *args = bench_options(&command, argc, argv);
    unsigned hosts = (unsigned)bench_number(args, "hosts", 1, 10000, 4000);
    unsigned processes = (unsigned)bench_number(args, "processes", 1, 4096, 150);
    unsigned hours = (unsigned)bench_number(args, "hours", 1, 48, 24);
    char *words[] = {argv[0], "--json", "--quick", "--count", NULL};
    int n = 1;

    rounds = (unsigned)bench_number(args, "rounds", 1, ROUNDS_MAX, 5);
    if (opt_flag(args, "json")) {
        words[n++] = "--json";
    }
    if (opt_flag(args, "quick")) {
        words[n++] = "--quick";
    }
    if (opt_flag(args, "count")) {
        words[n++] = "--count";
    }
    fill_dir = opt_value(args, "fill");
    if (fill_dir) {
        fill(opt_value(args, "only") ? opt_value(args, "only") : "fleet", hosts, processes);
        opt_free(args);
        return 0;
    }
    bench_begin(n, words, "bench_console", "CPU of the questions that the console asks");
    if (bench_counts()) {
        count(processes);
        opt_free(args);
        return 0;
    }
    if (is_asked(args, "hour")) {
        hour(processes);
    }
    if (is_asked(args, "lives")) {
        lives(processes);
    }
    if (is_asked(args, "fleet")) {
        fleet(bench_quick() ? hosts / 100 + 1 : hosts);
    }
    if (is_asked(args, "day")) {
        day(processes, hours);
    }
    opt_free(args);
    return bench_end();
}
