/* Questions of many hosts from ClickHouse: as many statements for forty hosts as for three, and the
 * answers of the local store, byte for byte but for where they were read. The hosts' clocks and
 * windows lie a little apart.
 *
 * With --hosts also how long each question takes (and --seconds of data, of so many --processes).
 * Needs a server: --url, or PROCFLEET_CLICKHOUSE_URL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/clickhouse/ch_view.h"
#include "collector/query/query.h"
#include "common/base/clk.h"
#include "common/conf/opt.h"
#include "common/os/os.h"
#include "tests/support/ch_fill.h"
#include "tests/support/store_fill.h"
#include "tests/support/support.h"

#define SKIPPED  77
#define DATABASE "many"
#define FULL     60000u /* cells of a block */
#define TICKS    10
#define APART_NS (5343 * CLK_MS) /* from the first host's first tick to the last one's */

static struct ch_http *http;
static struct ch_rows *rows;
static bool samples, failed;
static unsigned long statements;

static void batch_add(const struct batch *b, const char *name, int64_t received_ns)
{
    static const struct host_offset unknown;
    const struct ch_rows_batch row = {.rest = b,
                                      .rows = b,
                                      .clock = &unknown,
                                      .received_ns = received_ns,
                                      .host_name = name,
                                      .samples = samples};

    ch_fill_check(ch_rows_add(rows, &row), "ch_rows_add", NULL);
    if (ch_native_rows(ch_rows_block(rows, CH_CELL)) >= FULL) {
        ch_fill_rows(http, rows, false);
    }
}

static void on_stored(void *ctx, const struct store_stored *s)
{
    (void)ctx;
    batch_add(s->batch, s->host_name, s->received_ns);
}

/* -- filling -- */

struct fleet {
    unsigned hosts, processes;
    int64_t seconds;
};

static struct fleetgen *host_make(const struct fleet *f, unsigned i)
{
    const struct fleetgen_conf conf = {
        .seed = i + 1,
        .processes = f->processes,
        .starts_per_hour = 60,
        .begin_ns = FILL_T0 + (int64_t)i * APART_NS / (int64_t)(f->hosts > 1 ? f->hosts - 1 : 1)};

    return fleetgen_create(&conf);
}

/* Without a store: as fast as it goes. */
static void server_fill(const struct fleet *f)
{
    for (unsigned i = 0; i < f->hosts; i++) {
        struct fleetgen *g = host_make(f, i);

        for (int64_t s = 0; s < f->seconds; s += TICKS) {
            const struct batch *b = fleetgen_batch(g, TICKS);

            batch_add(b, fleetgen_host_name(g), b->wall_ns[b->n_ticks - 1]);
        }
        fleetgen_destroy(g);
    }
    ch_fill_rows(http, rows, false);
}

static struct fill *both_fill(const struct fleet *f, const char *dir)
{
    const struct fill_conf conf = {.hosts = f->hosts, .ticks = TICKS};
    struct store_conf store = fill_store_conf(dir);
    struct fill *fill = fill_create(&conf);

    for (unsigned i = 0; i < f->hosts; i++) {
        fleetgen_destroy(fill->hosts[i]);
        fill->hosts[i] = host_make(f, i);
    }
    store.on_stored = on_stored;
    fill_open(fill, &store);
    fill_make(fill, FILL_T0 + f->seconds * CLK_S);
    fill_put(fill, SIZE_MAX);
    fill_forget(fill);
    ch_fill_rows(http, rows, false);
    return fill;
}

/* -- asking -- */

static enum err far_ask(void *ctx, const char *sql, int64_t timeout_ns, struct buf *reply,
                        struct errmsg *why)
{
    int64_t began_ns = os_mono_ns();
    enum err e = ch_http_ask(http, sql, timeout_ns, reply, why);

    statements++;
    if (ctx) {
        printf("    %7.1f ms %9zu B  %.300s\n", (double)(os_mono_ns() - began_ns) / 1e6, reply->n,
               sql);
    }
    if (e && e != ERR_FULL) {
        fprintf(stderr, "%s\n%s\n", why->text, sql);
    }
    return e;
}

static struct store_view *far_open(bool tell)
{
    static bool told;
    struct store_view *far = NULL;
    struct errmsg why = {""};

    ch_fill_check(ch_view_open(&far,
                               &(struct ch_view_conf){.ask = far_ask,
                                                      .ctx = tell ? &told : NULL,
                                                      .dialect = ch_http_dialect(http),
                                                      .database = DATABASE},
                               &why),
                  "ch_view_open", &why);
    return far;
}

struct question {
    const char *name;
    enum query_kind kind;
    struct wire_query q;
};

static const struct question questions[] = {
    {"hosts", QUERY_HOSTS, {.limit = 1000}},
    {"overview", QUERY_OVERVIEW, {.limit = 1000}},
    {"coverage", QUERY_COVERAGE, {.limit = 1000}},
    {"coverage --stages", QUERY_COVERAGE, {.limit = 1000, .stages = true}},
    {"top", QUERY_TOP, {.limit = 20}},
    {"top --group-by image",
     QUERY_TOP,
     {.limit = 20, .group_by = WIRE_GROUP_IMAGE, .n_metrics = 1, .metrics = {M_CPU_TIME}}},
    {"ps", QUERY_PROCESSES, {.limit = 1000}},
};

static bool is_note(struct str note, const char *begin)
{
    return note.n >= strlen(begin) && memcmp(note.p, begin, strlen(begin)) == 0;
}

static void ask(struct buf *out, const struct store_view *v, const struct question *x,
                const struct fleet *f)
{
    struct query_env env = {.view = v, .now_ns = FILL_T0 + (f->seconds + 20) * CLK_S};
    struct wire_query q = x->q;
    struct errmsg why = {""};
    struct query_answer a;
    size_t n = 0;

    q.last_ns = f->seconds * CLK_S;
    ch_fill_check(query_run(&a, x->kind, &env, &q, &why), x->name, &why);
    a.data.n_used = 0;
    for (size_t i = 0; i < a.data.n_notes; i++) {
        struct str *notes = (struct str *)a.data.notes;

        if (!is_note(notes[i], "read from windows") && !is_note(notes[i], "samples are gone")) {
            notes[n++] = notes[i];
        }
    }
    a.data.n_notes = n;
    for (size_t i = 0; i < a.data.n_hosts; i++) { /* arrivals are the collector's own to count */
        ((struct wire_host *)&a.data.hosts[i])->duplicates = 0;
    }
    ch_fill_check(wire_answer_encode(out, &a.data), "encode", NULL);
    query_answer_fini(&a);
}

/* Statements of each question but those that list the hosts. */
static void ask_all(const struct fleet *f, const struct store_view *local, unsigned long *counts,
                    bool times, bool tell)
{
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        const struct question *x = &questions[i];
        struct store_view *far = far_open(false);
        int64_t began_ns = os_mono_ns();
        struct buf want, got;

        buf_init(&want, QUERY_REPLY_MAX);
        buf_init(&got, QUERY_REPLY_MAX);
        if (tell) {
            store_view_close(far);
            far = far_open(true);
        }
        statements = 0;
        ask(&got, far, x, f);
        counts[i] = statements;
        if (times) {
            printf("%-22s %4lu statements %8.1f ms %8zu bytes\n", x->name, statements,
                   (double)(os_mono_ns() - began_ns) / 1e6, got.n);
        }
        if (local) {
            ask(&want, local, x, f);
            if (want.n != got.n || memcmp(want.p, got.p, want.n) != 0) {
                printf("%s of %u hosts: another answer than the local store's (%zu bytes instead "
                       "of %zu)\n",
                       x->name, f->hosts, got.n, want.n);
                failed = true;
            }
        }
        buf_fini(&want);
        buf_fini(&got);
        store_view_close(far);
    }
}

/* Both stores have the same; counts: statements of each question. */
static void fleet_compare(const struct fleet *f, unsigned long *counts, bool tell)
{
    struct store_view *local;
    struct fill *fill;
    char dir[256];

    ch_fill_make(http, DATABASE);
    fill = both_fill(f, support_temp_dir(dir, sizeof dir));
    ch_fill_check(store_view_open(&local, fill->store), "store_view_open", NULL);
    ask_all(f, local, counts, tell, tell);
    store_view_close(local);
    fill_close(fill);
    fill_destroy(fill);
    support_remove_dir(dir);
}

static void compare(bool tell)
{
    static const struct fleet few = {.hosts = 3, .processes = 12, .seconds = 900},
                              many = {.hosts = 40, .processes = 12, .seconds = 900};
    const size_t n = sizeof questions / sizeof *questions;
    unsigned long of_few[sizeof questions / sizeof *questions],
        of_many[sizeof questions / sizeof *questions];

    samples = true; /* else windows that cut cells have other answers */
    fleet_compare(&few, of_few, tell);
    fleet_compare(&many, of_many, tell);
    for (size_t i = 0; i < n; i++) {
        printf("%-22s %4lu statements of %u hosts, %4lu of %u\n", questions[i].name, of_few[i],
               few.hosts, of_many[i], many.hosts);
        failed = failed || of_few[i] != of_many[i];
    }
}

static void measure(const struct opt_args *args)
{
    const char *seconds = opt_value(args, "seconds"), *processes = opt_value(args, "processes");
    const struct fleet f = {
        .hosts = (unsigned)strtoul(opt_value(args, "hosts"), NULL, 10),
        .processes = processes ? (unsigned)strtoul(processes, NULL, 10) : 50,
        .seconds = seconds ? strtol(seconds, NULL, 10) : 3600,
    };
    unsigned long counts[sizeof questions / sizeof *questions];

    if (!opt_flag(args, "keep")) {
        ch_fill_make(http, DATABASE);
        server_fill(&f);
    }
    ask_all(&f, NULL, counts, true, opt_flag(args, "tell"));
}

static const struct opt options[] = {
    {"url", 0, "URL", "of ClickHouse; else PROCFLEET_CLICKHOUSE_URL", false},
    {"hosts", 0, "N", "how long questions of so many hosts take", false},
    {"seconds", 0, "N", "of data (3600)", false},
    {"processes", 0, "N", "of each host (50)", false},
    {"samples", 0, NULL, "samples, too", false},
    {"keep", 0, NULL, "ask what the last run with --hosts left there", false},
    {"tell", 0, NULL, "each statement", false},
};

static const struct opt_command command = {
    .program = "test_ch_many",
    .brief = "questions of many hosts from ClickHouse",
    .opts = options,
    .n_opts = sizeof options / sizeof *options,
    .examples = "  test_ch_many --url http://127.0.0.1:8123 --hosts 200\n",
};

int main(int argc, char **argv)
{
    const char *url = getenv("PROCFLEET_CLICKHOUSE_URL");
    struct errmsg why = {""};
    struct opt_args *args;

    if (opt_parse(&args, &command, argc - 1, argv + 1, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return 2;
    }
    url = opt_value(args, "url") ? opt_value(args, "url") : url;
    if (!url || !url[0]) {
        printf("skipped: no ClickHouse: neither --url nor PROCFLEET_CLICKHOUSE_URL\n");
        return SKIPPED;
    }
    samples = opt_flag(args, "samples");
    http = ch_fill_open(url, DATABASE);
    ch_fill_check(ch_rows_create(&rows, "a"), "ch_rows_create", NULL);
    if (opt_value(args, "hosts")) {
        measure(args);
    } else {
        compare(opt_flag(args, "tell"));
    }
    ch_rows_destroy(rows);
    ch_http_close(http);
    opt_free(args);
    return failed;
}
