#include "tests/bench/ch_far.h"

#include <stdio.h>

#include "collector/clickhouse/ch_view.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/store_ask.h"
#include "tests/support/ch_fill.h"
#include "tests/support/support.h"

#define DATABASE "bench_far"
#define HOSTS    20u
#define FULL     60000u /* cells of a block */
#define ROUNDS   5u
#define HOUR_S   3600

static struct ch_http *http;
static struct ch_rows *rows;

static void on_stored(void *ctx, const struct store_stored *s)
{
    static const struct host_offset unknown;
    const struct ch_rows_batch b = {.rest = s->batch,
                                    .rows = s->batch,
                                    .clock = &unknown,
                                    .received_ns = s->received_ns,
                                    .host_name = s->host_name};

    (void)ctx;
    bench_check(ch_rows_add(rows, &b), "ch_rows_add");
    if (ch_native_rows(ch_rows_block(rows, CH_CELL)) >= FULL) {
        ch_fill_rows(http, rows, false);
    }
}

static enum err far_ask(void *ctx, const char *sql, int64_t timeout_ns, struct buf *reply,
                        struct errmsg *why)
{
    (void)ctx;
    return ch_http_ask(http, sql, timeout_ns, reply, why);
}

static double far_ms(enum query_kind kind, const struct wire_query *q, size_t *n)
{
    const struct ch_view_conf conf = {
        .ask = far_ask, .dialect = ch_http_dialect(http), .database = DATABASE};
    int64_t began_ns = os_mono_ns();
    struct query_env env = {.now_ns = fill_now()};
    struct errmsg why = {""};
    struct query_answer a;
    struct store_view *v;

    ch_fill_check(ch_view_open(&v, &conf, &why), "ch_view_open", &why);
    env.view = v;
    ch_fill_check(query_run(&a, kind, &env, q, &why), "a question", &why);
    *n = a.data.n_rows;
    query_answer_fini(&a);
    store_view_close(v);
    return (double)(os_mono_ns() - began_ns) / 1e6;
}

static void compare(struct store *s, const char *what, enum query_kind kind,
                    const struct wire_query *q, double goal)
{
    double far[ROUNDS], local[ROUNDS];
    size_t n_far = 0, n_local = 0;
    char name[80];

    for (unsigned i = 0; i < ROUNDS; i++) {
        far[i] = far_ms(kind, q, &n_far);
        local[i] = store_ask_ms(s, kind, q, &n_local);
    }
    if (!n_far || !n_local) {
        bench_fail("a question has no rows");
    }
    (void)snprintf(name, sizeof name, "%s: far", what);
    bench_figure(name, bench_median(far, ROUNDS), "ms", 0, BENCH_LESS);
    (void)snprintf(name, sizeof name, "%s: local", what);
    bench_figure(name, bench_median(local, ROUNDS), "ms", 0, BENCH_LESS);
    (void)snprintf(name, sizeof name, "%s: far : local", what);
    bench_figure(name, bench_median(far, ROUNDS) / bench_median(local, ROUNDS), "", goal,
                 BENCH_LESS);
}

void ch_far_figures(const char *url)
{
    /* A third of the processes of an ordinary host, so that it is filled in half a minute. */
    const struct fill_conf conf = {.hosts = HOSTS, .ticks = 10, .host.processes = 50};
    const int64_t until_ns = FILL_T0 + HOUR_S * CLK_S;
    struct wire_query top = store_ask_top(FILL_T0, until_ns), history;
    struct fill *f = fill_create(&conf);
    struct store_ask_process p;
    struct store_conf store;
    char dir[256];

    http = ch_fill_open(url, DATABASE);
    ch_fill_make(http, DATABASE);
    bench_check(ch_rows_create(&rows, "bench"), NULL);
    store = fill_store_conf(support_temp_dir(dir, sizeof dir));
    store.on_stored = on_stored;
    fill_open(f, &store);
    for (int64_t at = FILL_T0 + 300 * CLK_S; at <= until_ns; at += 300 * CLK_S) {
        fill_make(f, at);
        fill_put(f, SIZE_MAX);
        fill_forget(f);
    }
    fill_seal(f, until_ns + 300 * CLK_S);
    ch_fill_rows(http, rows, false);
    compare(f->store, "top 10 of 20 hosts, an hour", QUERY_TOP, &top, 20);
    store_ask_first(f->store, &top, &p);
    history = store_ask_history(&p, 24, FILL_T0, until_ns);
    history.step_ns = 10 * CLK_S;
    compare(f->store, "a process-hour, 24 metrics", QUERY_HISTORY, &history, 10);
    fill_close(f);
    fill_destroy(f);
    support_remove_dir(dir);
    ch_rows_destroy(rows);
    ch_fill_drop(http, DATABASE);
    ch_http_close(http);
}
