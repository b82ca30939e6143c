/* The hour: what it costs, what it takes on disk, questions cold and warm, all rows dropped at
 * once; beside it SQLite. And the same hosts with batches of one second. */
#include "tests/bench/store_parts.h"

#include <stdio.h>

#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/store_ask.h"
#include "tests/bench/store_cost.h"
#include "tests/support/support.h"

struct hour {
    char dir[256], sql_dir[256];
    struct store_conf conf;
    struct fill *f;
    struct store_sqlite *y;
    const struct store_sizes *sizes;
};

static struct store_ask_times ask(struct hour *h, struct store_ask_figures what)
{
    return store_ask_tell(h->f, &h->conf, &what, h->sizes->rounds);
}

static void ask_all(struct hour *h)
{
    int64_t end_ns = FILL_T0 + h->sizes->span_ns;
    struct wire_query top = store_ask_top(FILL_T0, end_ns), q;
    struct wire_query tree = {.host = str_make("gen-1"),
                              .at_ns = FILL_T0 + h->sizes->span_ns / 2,
                              .limit = WIRE_ROWS_MAX};
    struct store_ask_process p;
    struct store_ask_times t;

    ask(h, (struct store_ask_figures){"top10", QUERY_TOP, &top, 8, 3});
    store_ask_first(h->f->store, &top, &p);
    q = store_ask_history(&p, 1, FILL_T0, end_ns);
    t = ask(h, (struct store_ask_figures){"history_1_metric", QUERY_HISTORY, &q, 6, 0});
    bench_figure("history_rows", (double)t.rows, "", 0, BENCH_MORE);
    q = store_ask_history(&p, 24, FILL_T0, end_ns);
    ask(h, (struct store_ask_figures){"history_24_metrics", QUERY_HISTORY, &q, 10, 4});
    q.step_ns = 60 * CLK_S;
    ask(h, (struct store_ask_figures){"history_24_metrics_by_minute", QUERY_HISTORY, &q, 0, 0});
    t = ask(h, (struct store_ask_figures){"tree_at", QUERY_TREE, &tree, 0, 4.7});
    bench_figure("tree_rows", (double)t.rows, "", 0, BENCH_MORE);
}

/* Medians of fetching alone, own and SQLite; cold as store_ask_both. */
static void fetch_both(struct hour *h, const char *name, bool sums)
{
    unsigned rounds = h->sizes->rounds;
    double own[2][64], sql[2][64];
    uint64_t bytes[2];
    char text[96];

    for (unsigned i = 0; i < rounds * 2; i++) {
        unsigned warm = i % 2, at = i / 2;

        if (!warm) {
            fill_close(h->f);
            store_sqlite_close(h->y);
            fill_open(h->f, &h->conf);
            h->y = store_sqlite_open(h->sql_dir);
            store_ask_forget(h->dir);
            store_ask_forget(h->sql_dir);
        }
        own[warm][at] = sums ? store_own_sums_ms(h->f->store, M_CPU_TIME, &bytes[0])
                             : store_own_column_ms(h->f->store, M_CPU_TIME, 0, &bytes[0]);
        sql[warm][at] = sums ? store_sqlite_sums_ms(h->y, M_CPU_TIME, &bytes[1])
                             : store_sqlite_column_ms(h->y, M_CPU_TIME, 0, &bytes[1]);
    }
    if (bytes[0] != bytes[1]) {
        bench_fail("SQLite fetched other bytes than the store");
    }
    for (unsigned warm = 0; warm < 2; warm++) {
        double a = bench_median(own[warm], rounds), b = bench_median(sql[warm], rounds);

        snprintf(text, sizeof text, "%s_%s", name, warm ? "warm" : "cold");
        bench_figure(text, a, "ms", 0, BENCH_LESS);
        snprintf(text, sizeof text, "%s_%s_sqlite_ratio", name, warm ? "warm" : "cold");
        bench_figure(text, b / a, "x", 0, BENCH_MORE);
    }
}

/* Every row too old at once, both ways. */
static void drop_all(struct hour *h)
{
    struct store_conf old = h->conf;
    uint64_t sql_bytes = store_sqlite_bytes(h->y);
    struct store_room before, after;
    int64_t began_ns;
    double own_ms, sql_ms;

    store_room(h->f->store, &before);
    fill_close(h->f);
    old.retain.age_ns[SEG_RAW] = CLK_S;
    fill_set_now(fill_now() + 2 * 3600 * CLK_S);
    began_ns = os_mono_ns();
    fill_open(h->f, &old);
    fill_seal(h->f, h->f->until_ns);
    own_ms = bench_ms(os_mono_ns() - began_ns);
    store_room(h->f->store, &after);
    sql_ms = store_sqlite_drop_ms(h->y);
    bench_figure("drop_rows_with_opening", own_ms, "ms", 0, BENCH_LESS);
    bench_figure("drop_rows_given_back",
                 100 * (1 - (double)after.kind[SEG_RAW].bytes / (double)before.kind[SEG_RAW].bytes),
                 "%", 0, BENCH_MORE);
    bench_figure("drop_rows_sqlite_ratio", sql_ms / own_ms, "x", 0, BENCH_MORE);
    bench_figure("drop_rows_given_back_sqlite",
                 100 * (1 - (double)store_sqlite_bytes(h->y) / (double)sql_bytes), "%", 0,
                 BENCH_MORE);
}

/* What putting and sealing cost, and what they leave on disk; the same of SQLite. */
static void keep(struct hour *h)
{
    struct fill *f = h->f;
    struct store_costs c = store_cost_windows(f, h->sizes->span_ns, h->y);
    double values, own, sql;

    store_cost_tell("hour", f, &c, 0);
    store_cost_settle(f, &c.seal);
    own = (double)store_cost_tell_bytes(f, "hour", true);
    sql = (double)store_sqlite_bytes(h->y);
    values = (double)f->values;
    bench_figure("hour_wire", (double)f->bytes / values, "B/value", 0, BENCH_LESS);
    bench_figure("hour_written", (double)(c.put.written + c.seal.written) / values, "B/value", 2.2,
                 BENCH_LESS);
    bench_figure("hour_values_per_cpu_second_all",
                 store_cost_per_cpu(f->values, c.put.cpu_ns + c.seal.cpu_ns), "M", 40, BENCH_MORE);
    bench_figure("sqlite_bytes_ratio_rows", sql / own, "x", 0, BENCH_MORE);
    bench_figure("sqlite_written_ratio_rows_to_all",
                 (double)(c.sql_put.written + c.sql_window.written) /
                     (double)(c.put.written + c.seal.written),
                 "x", 0, BENCH_MORE);
    bench_figure("sqlite_written", (double)(c.sql_put.written + c.sql_window.written) / values,
                 "B/value", 0, BENCH_LESS);
    bench_figure("sqlite_keeping", (double)(c.sql_put.cpu_ns + c.sql_window.cpu_ns) / values,
                 "ns/value", 0, BENCH_LESS);
}

void store_hour(const struct store_sizes *o)
{
    struct hour h = {.sizes = o};
    int64_t began_ns;

    h.conf = fill_store_conf(support_temp_dir(h.dir, sizeof h.dir));
    h.y = store_sqlite_open(support_temp_dir(h.sql_dir, sizeof h.sql_dir));
    h.f = store_cost_fill(o->hosts, 10, 0);
    fill_open(h.f, &h.conf);
    keep(&h);
    fill_close(h.f);
    began_ns = os_mono_ns();
    fill_open(h.f, &h.conf);
    bench_figure("open_sealed", bench_ms(os_mono_ns() - began_ns), "ms", 0, BENCH_LESS);
    ask_all(&h);
    fetch_both(&h, "fetch_summaries", true);
    fetch_both(&h, "fetch_column", false);
    drop_all(&h);
    store_sqlite_close(h.y);
    fill_destroy(h.f);
    support_remove_dir(h.dir);
    support_remove_dir(h.sql_dir);
}

static void count_put(void *ctx)
{
    fill_put(ctx, SIZE_MAX);
}

static void count_seal(void *ctx)
{
    struct fill *f = ctx;

    fill_seal(f, f->until_ns);
}

void store_count(void)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = store_cost_fill(2, 10, 0);

    fill_open(f, &conf);
    fill_make(f, FILL_T0 + STORE_COST_WINDOW);
    bench_count("hour_put", (double)f->values, "value", 0, count_put, f);
    bench_count("hour_seal", (double)f->values, "value", 180, count_seal, f);
    fill_destroy(f);
    support_remove_dir(dir);
}

void store_second(const struct store_sizes *o)
{
    char dir[256];
    struct store_conf conf = fill_store_conf(support_temp_dir(dir, sizeof dir));
    struct fill *f = store_cost_fill(o->hosts, 1, 0);
    struct store_costs c;

    fill_open(f, &conf);
    c = store_cost_windows(f, STORE_COST_WINDOW, NULL);
    store_cost_tell("second", f, &c, 0);
    store_cost_tell_bytes(f, "second", false);
    fill_destroy(f);
    support_remove_dir(dir);
}
