/* bench_peers_data DIR HOSTS SECONDS: the data of `bench_store --only hour`, as other databases
 * take it, for tests/bench/peers.py:
 *
 *   DIR/remote/N   bodies of Prometheus's remote write: a host, ten ticks, a series for each
 *                  process and metric; in snappy's framing, all literals (not compressed)
 *   DIR/rows/N     ClickHouse's RowBinary: a row for each process and tick: host, pid, start (ns),
 *                  UTC (ns), and a column for each metric
 *
 * Prints one line of JSON: values, rows, the metrics' names, and since and until in ms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/model/metric.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/fleetgen.h"
#include "tests/support/store_fill.h"

#define TICKS      10u
#define BODY_MAX   (64u << 20)
#define SERIES_MAX 1024u /* processes in ten ticks */
#define LITERAL    65536u

/* A process in the ticks under way. */
struct lived {
    struct proc_id id;
    metric_mask mask;
    size_t n;
    int64_t ms[TICKS], values[TICKS][FLEETGEN_METRICS];
};

static struct lived lives[SERIES_MAX];
static size_t n_lives;
static uint8_t metrics[FLEETGEN_METRICS];
static size_t n_metrics;
static struct buf message, series, part, framed, rows;
static uint64_t n_values, n_rows;

/* -- protobuf -- */

static void put_number(struct buf *b, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;

    for (; v >= 0x80; v >>= 7) {
        bytes[n++] = (uint8_t)(v | 0x80);
    }
    bytes[n++] = (uint8_t)v;
    buf_put(b, bytes, n);
}

static void put_bytes(struct buf *b, unsigned field, const void *p, size_t n)
{
    put_number(b, field << 3 | 2);
    put_number(b, n);
    buf_put(b, p, n);
}

static void put_label(const char *name, const char *value)
{
    buf_reset(&part);
    put_bytes(&part, 1, name, strlen(name));
    put_bytes(&part, 2, value, strlen(value));
    put_bytes(&series, 1, part.p, part.n);
}

static void put_sample(int64_t value, int64_t ms)
{
    double number = (double)value;

    buf_reset(&part);
    put_number(&part, 1 << 3 | 1);
    buf_put(&part, &number, sizeof number); /* little endian, as everything that runs this */
    put_number(&part, 2 << 3);
    put_number(&part, (uint64_t)ms);
    put_bytes(&series, 2, part.p, part.n);
}

/* Neither of them takes the dots of thread_states.running. */
static const char *metric_plain(size_t column)
{
    static char name[64];

    (void)snprintf(name, sizeof name, "%s", metric_by_id(metrics[column])->name);
    for (char *p = name; *p; p++) {
        *p = *p == '.' ? '_' : *p;
    }
    return name;
}

/* Labels in the order of their names. */
static void put_series(const struct lived *l, const char *host, size_t column)
{
    char name[80], pid[16], start[24];

    (void)snprintf(name, sizeof name, "procfleet_%s", metric_plain(column));
    (void)snprintf(pid, sizeof pid, "%u", (unsigned)l->id.pid);
    (void)snprintf(start, sizeof start, "%lld", (long long)l->id.start);
    buf_reset(&series);
    put_label("__name__", name);
    put_label("host", host);
    put_label("pid", pid);
    put_label("start", start);
    for (size_t i = 0; i < l->n; i++) {
        put_sample(l->values[i][column], l->ms[i]);
    }
    put_bytes(&message, 1, series.p, series.n);
}

/* -- files -- */

static void write_body(const char *dir, const char *kind, unsigned n, const struct buf *b)
{
    char path[600];

    bench_check(b->bad, "a body");
    (void)snprintf(path, sizeof path, "%s/%s/%06u", dir, kind, n);
    bench_check(os_write_file(path, b->p, b->n, false), path);
}

/* Snappy: the length, then literals of up to 64 KiB. */
static void frame(void)
{
    buf_reset(&framed);
    put_number(&framed, message.n);
    for (size_t at = 0; at < message.n; at += LITERAL) {
        size_t n = message.n - at < LITERAL ? message.n - at : LITERAL;
        uint8_t head[3] = {61 << 2, (uint8_t)(n - 1), (uint8_t)((n - 1) >> 8)};

        buf_put(&framed, head, sizeof head);
        buf_put(&framed, message.p + at, n);
    }
}

/* -- ticks -- */

static struct lived *lived_of(const struct sample_row *row)
{
    size_t i = 0;

    while (i < n_lives && !proc_id_eq(lives[i].id, row->info->id)) {
        i++;
    }
    if (i == SERIES_MAX) {
        bench_fail("too many processes");
    }
    if (i == n_lives) {
        n_lives++;
        lives[i].id = row->info->id;
        lives[i].n = 0;
    }
    return &lives[i];
}

static void take_row(const struct sample_tick *t, const struct sample_row *row, const char *host)
{
    struct lived *l = lived_of(row);
    uint8_t host_n = (uint8_t)strlen(host);

    buf_put(&rows, &host_n, 1);
    buf_put(&rows, host, host_n);
    buf_put(&rows, &row->info->id.pid, sizeof row->info->id.pid);
    buf_put(&rows, &row->info->id.start, sizeof row->info->id.start);
    buf_put(&rows, &t->wall_ns, sizeof t->wall_ns);
    l->ms[l->n] = t->wall_ns / CLK_MS;
    for (size_t i = 0; i < n_metrics; i++) {
        l->values[l->n][i] = row->values[metrics[i]];
        buf_put(&rows, &row->values[metrics[i]], sizeof row->values[0]);
    }
    l->n++;
    n_rows++;
    n_values += n_metrics;
}

static void write_ticks(struct fleetgen *g, const char *dir, unsigned n)
{
    n_lives = 0;
    buf_reset(&message);
    buf_reset(&rows);
    for (size_t i = 0; i < TICKS; i++) {
        const struct sample_tick *t = fleetgen_tick(g);

        for (size_t k = 0; k < t->n_rows; k++) {
            take_row(t, &t->rows[k], fleetgen_host_name(g));
        }
    }
    for (size_t i = 0; i < n_lives; i++) {
        for (size_t k = 0; k < n_metrics; k++) {
            put_series(&lives[i], fleetgen_host_name(g), k);
        }
    }
    frame();
    write_body(dir, "remote", n, &framed);
    write_body(dir, "rows", n, &rows);
}

/* Every process has the same metrics here. */
static void find_metrics(void)
{
    const struct fleetgen_conf conf = {.seed = 1};
    struct fleetgen *g = fleetgen_create(&conf);
    const struct sample_tick *t = fleetgen_tick(g);

    for (uint8_t id = 0; id < METRIC_COLS && t->n_rows > 0; id++) {
        if (t->rows[0].mask & METRIC_BIT(id)) {
            metrics[n_metrics++] = id;
        }
    }
    fleetgen_destroy(g);
}

int main(int argc, char **argv)
{
    unsigned hosts = argc == 4 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    unsigned seconds = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    struct buf *const all[] = {&message, &series, &part, &framed, &rows};
    struct fleetgen *g[256];
    unsigned n = 0;

    if (hosts == 0 || hosts > 256 || seconds < TICKS) {
        bench_fail("bench_peers_data DIR HOSTS SECONDS");
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_init(all[i], BODY_MAX);
    }
    find_metrics();
    for (unsigned h = 0; h < hosts; h++) {
        const struct fleetgen_conf conf = {.seed = h + 1, .begin_ns = FILL_T0};

        g[h] = fleetgen_create(&conf);
    }
    for (unsigned s = 0; s < seconds / TICKS; s++) {
        for (unsigned h = 0; h < hosts; h++) {
            write_ticks(g[h], argv[1], n++);
        }
    }
    printf("{\"values\": %llu, \"rows\": %llu, \"since_ms\": %lld, \"until_ms\": %lld, "
           "\"metrics\": [",
           (unsigned long long)n_values, (unsigned long long)n_rows, (long long)(FILL_T0 / CLK_MS),
           (long long)(FILL_T0 / CLK_MS + (int64_t)(seconds / TICKS * TICKS) * 1000));
    for (size_t i = 0; i < n_metrics; i++) {
        printf("%s\"%s\"", i ? ", " : "", metric_plain(i));
    }
    printf("]}\n");
    for (unsigned h = 0; h < hosts; h++) {
        fleetgen_destroy(g[h]);
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_fini(all[i]);
    }
    return 0;
}
