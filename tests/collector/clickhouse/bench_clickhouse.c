/* What a batch costs on its way to ClickHouse: making its rows, laying out the block, compressing
 * it; bytes and CPU per value, beside what the collector's own store takes of the same hosts.
 *
 * With --url also the server's side, in databases of its own: bytes of its tables (codecs are those
 * of servers from 22.8 on; older ones have none), far questions beside the local store's, and with
 * --pid of that server its CPU. What needs a fleet is in tests/clickhouse/bench_clickhouse.py,
 * which runs this program, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

#include "collector/clickhouse/ch_http.h"
#include "collector/clickhouse/ch_rows.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/ch_far.h"
#include "tests/bench/ingest_tls.h"
#include "tests/support/ch_fill.h"
#include "tests/support/store_fill.h"
#include "tests/support/support.h"

#define ROUNDS  3
#define HOSTS   10
#define BATCHES 400 /* of all hosts: some 64 Ki cells, one block */
#define TICKS   10

#define DATABASE "bench_clickhouse"
#define EACH     40u /* batches that are inserted one by one, too */

static struct batch *batches[BATCHES];
static uint64_t values;

/* Decoded, as the store hands them on. */
static void input_make(void)
{
    struct wire_encoder *enc;
    struct buf out;

    bench_check(wire_batch_encoder_create(&enc), NULL);
    buf_init(&out, WIRE_BATCH_BYTES_MAX);
    for (size_t h = 0; h < HOSTS; h++) {
        const struct fleetgen_conf conf = {.seed = h + 1};
        struct fleetgen *g = fleetgen_create(&conf);

        for (size_t i = h; i < BATCHES; i += HOSTS) {
            buf_reset(&out);
            bench_check(wire_batch_encode(enc, &out, fleetgen_batch(g, TICKS)), NULL);
            bench_check(wire_batch_decode(&batches[i], out.p, out.n), NULL);
        }
        fleetgen_destroy(g);
    }
    buf_fini(&out);
    wire_batch_encoder_destroy(enc);
}

struct result {
    double make_ns, pack_ns, bytes, packed; /* per value */
};

static struct result round_of(struct ch_rows *r, enum ch_table table)
{
    static struct buf sql = {.max = 1u << 20}, body = {.max = (size_t)1 << 30},
                      packed = {.max = (size_t)1 << 30}; /* kept, as the sink keeps them */
    const struct host_offset clock = {.known = true};
    struct result out = {0};
    int64_t t0 = os_thread_cpu_ns(), t1;
    uint8_t *to;
    size_t bound, n;

    ch_rows_reset(r);
    for (size_t i = 0; i < BATCHES; i++) {
        const struct ch_rows_batch b = {.rest = batches[i],
                                        .rows = batches[i],
                                        .clock = &clock,
                                        .host_name = "bench",
                                        .samples = table == CH_SAMPLE};

        bench_check(ch_rows_add(r, &b), NULL);
    }
    values = ch_rows_values(r);
    buf_reset(&sql);
    buf_reset(&body);
    buf_reset(&packed);
    bench_check(ch_native_encode(ch_rows_block(r, table), CH_NARROW, &sql, &body), NULL);
    t1 = os_thread_cpu_ns();
    bound = ZSTD_compressBound(body.n);
    to = buf_grow(&packed, bound);
    if (!to) {
        bench_fail("no memory");
    }
    n = ZSTD_compress(to, bound, body.p, body.n,
                      table == CH_CELL ? CH_HTTP_PACK_QUICK : CH_HTTP_PACK);
    out.pack_ns = (double)(os_thread_cpu_ns() - t1) / (double)values;
    out.make_ns = (double)(t1 - t0) / (double)values;
    out.bytes = (double)body.n / (double)values;
    out.packed = (double)n / (double)values;
    return out;
}

/* Returns what both take, ns per value. */
static double figures_of(struct ch_rows *r, enum ch_table table, double goal)
{
    double make[ROUNDS], pack[ROUNDS], both;
    struct result last = {0};
    char name[64];

    for (size_t i = 0; i < ROUNDS; i++) {
        last = round_of(r, table);
        make[i] = last.make_ns;
        pack[i] = last.pack_ns;
    }
    (void)snprintf(name, sizeof name, "%s: rows and block", ch_schema_table(table));
    bench_figure(name, bench_median(make, ROUNDS), "ns/value", 0, BENCH_LESS);
    (void)snprintf(name, sizeof name, "%s: zstd", ch_schema_table(table));
    bench_figure(name, bench_median(pack, ROUNDS), "ns/value", 0, BENCH_LESS);
    both = bench_median(make, ROUNDS) + bench_median(pack, ROUNDS);
    (void)snprintf(name, sizeof name, "%s: both", ch_schema_table(table));
    bench_figure(name, both, "ns/value", goal, BENCH_LESS);
    (void)snprintf(name, sizeof name, "%s: block", ch_schema_table(table));
    bench_figure(name, last.bytes, "B/value", 0, BENCH_LESS);
    (void)snprintf(name, sizeof name, "%s: as it travels", ch_schema_table(table));
    bench_figure(name, last.packed, "B/value", 0, BENCH_LESS);
    return both;
}

/* -- the collector's own store -- */

struct own {
    double ingest_ns, raw_bytes; /* per value */
};

/* Ten minutes of the same hosts, from a batch's bytes to durable; then sealed. */
static struct own own_measure(void)
{
    const struct fill_conf conf = {.hosts = HOSTS, .ticks = TICKS};
    struct fill *f = fill_create(&conf);
    struct store_room room;
    struct store_conf store;
    struct own out;
    char dir[256];
    int64_t cpu_ns;

    store = fill_store_conf(support_temp_dir(dir, sizeof dir));
    fill_open(f, &store);
    fill_make(f, FILL_T0 + 600 * CLK_S);
    cpu_ns = os_cpu_ns();
    fill_put(f, SIZE_MAX);
    out.ingest_ns = (double)(os_cpu_ns() - cpu_ns) / (double)f->values;
    fill_seal(f, FILL_T0 + 900 * CLK_S);
    store_room(f->store, &room);
    out.raw_bytes = (double)room.kind[SEG_RAW].bytes / (double)f->values;
    fill_close(f);
    fill_destroy(f);
    support_remove_dir(dir);
    return out;
}

/* -- a server -- */

static struct ch_http *http;
static long server_pid;

static double number(const char *sql)
{
    struct errmsg why = {""};
    struct buf reply;
    double v;

    buf_init(&reply, 4096);
    ch_fill_check(ch_http_ask(http, sql, 120 * CLK_S, &reply, &why), sql, &why);
    v = strtod(buf_cstr(&reply), NULL);
    buf_fini(&reply);
    return v;
}

/* CPU of the server so far, ns. */
static double server_cpu_ns(void)
{
    unsigned long user = 0, system = 0;
    char path[64];
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", server_pid);
    f = fopen(path, "r");
    if (!f || fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                     &system) != 2) {
        bench_fail("--pid is no process");
    }
    fclose(f);
    return (double)(user + system) * 1e9 / (double)sysconf(_SC_CLK_TCK);
}

static void rows_of(struct ch_rows *r, size_t from, size_t n, bool samples)
{
    static const struct host_offset clock = {.known = true};

    ch_rows_reset(r);
    for (size_t i = from; i < from + n; i++) {
        const struct ch_rows_batch b = {.rest = batches[i],
                                        .rows = batches[i],
                                        .clock = &clock,
                                        .host_name = "bench",
                                        .samples = samples};

        bench_check(ch_rows_add(r, &b), NULL);
    }
}

static double table_bytes(const char *table)
{
    char sql[256];

    (void)snprintf(sql, sizeof sql, "OPTIMIZE TABLE " DATABASE ".%s FINAL", table);
    ch_fill_statement(http, sql);
    (void)snprintf(sql, sizeof sql,
                   "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = "
                   "'" DATABASE "' AND table = '%s'",
                   table);
    return number(sql);
}

/* -- beside one row per metric -- */

#define LONG_SQL "(host_id,pid,start,ts,metric,value) FORMAT Native"

static void long_column(struct buf *out, const char *name, const char *type)
{
    buf_put_varint(out, strlen(name));
    buf_put_str(out, name);
    buf_put_varint(out, strlen(type));
    buf_put_str(out, type);
}

/* One column of the batch's values, metric by metric, run by run, tick by tick. */
static void long_put(struct buf *out, const struct batch *b, unsigned what)
{
    for (size_t c = 0; c < b->n_columns; c++) {
        const int64_t *v = b->columns[c].values;

        for (const struct batch_run *run = b->runs; run < b->runs + b->n_runs; run++) {
            if (!(run->mask & METRIC_BIT(b->columns[c].metric))) {
                continue;
            }
            for (size_t k = 0; k < run->n_ticks; k++, v++) {
                switch (what) {
                case 0:
                    buf_put(out, b->head.host.b, sizeof b->head.host.b);
                    break;
                case 1:
                    buf_put_u32le(out, run->id.pid);
                    break;
                case 2:
                    buf_put_u64le(out, run->id.start);
                    break;
                case 3:
                    buf_put_u64le(out, (uint64_t)b->wall_ns[run->first_tick + k]);
                    break;
                case 4:
                    buf_put_u16le(out, b->columns[c].metric);
                    break;
                default:
                    buf_put_u64le(out, (uint64_t)*v);
                }
            }
        }
    }
}

static void long_insert(size_t n_batches)
{
    static const char *const columns[][2] = {{"host_id", "UUID"},  {"pid", "UInt32"},
                                             {"start", "UInt64"},  {"ts", "Int64"},
                                             {"metric", "UInt16"}, {"value", "Int64"}};
    struct ch_http_insert in = {.sql = "INSERT INTO `long` " LONG_SQL, .token = "long"};
    struct errmsg why = {""};
    struct buf body;
    size_t n = 0;

    for (size_t i = 0; i < n_batches; i++) {
        for (size_t c = 0; c < batches[i]->n_columns; c++) {
            n += batches[i]->columns[c].n_values;
        }
    }
    buf_init(&body, (size_t)1 << 30);
    buf_put_varint(&body, sizeof columns / sizeof *columns);
    buf_put_varint(&body, n);
    for (unsigned c = 0; c < sizeof columns / sizeof *columns; c++) {
        long_column(&body, columns[c][0], columns[c][1]);
        for (size_t i = 0; i < n_batches; i++) {
            long_put(&body, batches[i], c);
        }
    }
    in.body = body.p;
    in.n = body.n;
    bench_check(body.bad, "a body");
    ch_fill_check(ch_http_insert(http, &in, 120 * CLK_S, &why), "insert", &why);
    buf_fini(&body);
}

/* CPU with merging, ns; of the table's bytes the sum. */
static double long_measure(struct ch_rows *r, bool wide, double *bytes)
{
    double begin = server_cpu_ns();

    if (wide) {
        rows_of(r, 0, EACH, true);
        ch_fill_block(http, ch_rows_block(r, CH_SAMPLE));
    } else {
        ch_fill_statement(http, "CREATE TABLE " DATABASE
                                ".`long` (host_id UUID, pid UInt32, start UInt64, ts Int64, metric "
                                "UInt16, value Int64) ENGINE = ReplacingMergeTree() PARTITION BY "
                                "intDiv(ts, 86400000000000) ORDER BY (host_id, pid, start, metric, "
                                "ts)");
        long_insert(EACH);
    }
    *bytes = table_bytes(wide ? "sample" : "long");
    return server_cpu_ns() - begin;
}

static void long_figures(struct ch_rows *r)
{
    double wide_bytes, long_bytes, wide_ns, long_ns;

    ch_fill_make(http, DATABASE);
    wide_ns = long_measure(r, true, &wide_bytes);
    long_ns = long_measure(r, false, &long_bytes);
    bench_figure("samples' bytes : one row per metric", wide_bytes / long_bytes, "", 0.5,
                 BENCH_LESS);
    bench_figure("samples' CPU at the server : one row per metric", wide_ns / long_ns, "", 0.4,
                 BENCH_LESS);
}

/* Of the same batches, the first EACH: as one insert, and one by one. */
static void server_cpu(struct ch_rows *r)
{
    double begin, gathered, single;

    rows_of(r, 0, EACH, false);
    begin = server_cpu_ns();
    ch_fill_block(http, ch_rows_block(r, CH_CELL));
    gathered = server_cpu_ns() - begin;
    ch_fill_make(http, DATABASE);
    begin = server_cpu_ns();
    for (size_t i = 0; i < EACH; i++) {
        rows_of(r, i, 1, false);
        ch_fill_block(http, ch_rows_block(r, CH_CELL));
    }
    single = server_cpu_ns() - begin;
    bench_figure("server's CPU, gathered : one insert a batch", gathered / single, "", 0.2,
                 BENCH_LESS);
}

static void server_figures(struct ch_rows *r, const char *url, const struct own *own)
{
    http = ch_fill_open(url, DATABASE);
    ch_fill_make(http, DATABASE);
    rows_of(r, 0, BATCHES, true);
    ch_fill_block(http, ch_rows_block(r, CH_CELL));
    ch_fill_block(http, ch_rows_block(r, CH_SAMPLE));
    bench_figure("cells' bytes : own raw segments'",
                 table_bytes("cell") / (double)values / own->raw_bytes, "", 0.75, BENCH_LESS);
    bench_figure("samples' bytes : own raw segments'",
                 table_bytes("sample") / (double)values / own->raw_bytes, "", 1.4, BENCH_LESS);
    if (server_pid) {
        ch_fill_make(http, DATABASE);
        server_cpu(r);
        long_figures(r);
    }
    ch_fill_drop(http, DATABASE);
    ch_http_close(http);
}

static void pass(void *arg)
{
    (void)round_of(arg, CH_CELL);
}

static const struct opt options[] = {
    {"json", 0, NULL, "a line for each figure", false},
    {"quick", 0, NULL, "as without: it is quick", false},
    {"count", 0, NULL, "one pass for callgrind", false},
    {"url", 0, "URL", "a ClickHouse to fill, database " DATABASE, false},
    {"pid", 0, "PID", "of that server, for its CPU", false},
};

static const struct opt_command command = {
    .program = "bench_clickhouse",
    .brief = "batches as rows of ClickHouse's tables",
    .opts = options,
    .n_opts = sizeof options / sizeof *options,
};

static void figures(struct ch_rows *r, const char *url)
{
    /* Of the same fleet, before anything of the network: server and agents are forked. */
    double ingest_ns =
        1e3 / ingest_tls_run(20, bench_quick() ? 6 : 60, TICKS).values_per_cpu_second;
    double cells = figures_of(r, CH_CELL, 10);
    struct own own;

    (void)figures_of(r, CH_SAMPLE, 16); /* their cells are made, too */
    bench_figure("ingest, TLS to durable", ingest_ns, "ns/value", 0, BENCH_LESS);
    bench_figure("cell: sink's CPU : ingest's", cells / ingest_ns, "", 0.5, BENCH_LESS);
    own = own_measure();
    bench_figure("own: ingest without TLS", own.ingest_ns, "ns/value", 0, BENCH_LESS);
    bench_figure("own: raw segments", own.raw_bytes, "B/value", 0, BENCH_LESS);
    if (url) {
        server_figures(r, url, &own);
        ch_far_figures(url);
    }
}

int main(int argc, char **argv)
{
    static char *const own_words[] = {"--json", "--quick", "--count"};
    struct opt_args *args = bench_options(&command, argc, argv);
    char *words[4] = {argv[0]};
    struct ch_rows *r;
    int n = 1;

    for (size_t i = 0; i < sizeof own_words / sizeof *own_words; i++) {
        if (opt_flag(args, own_words[i] + 2)) {
            words[n++] = own_words[i];
        }
    }
    bench_begin(n, words, "bench_clickhouse", "batches as rows of ClickHouse's tables");
    server_pid = opt_value(args, "pid") ? strtol(opt_value(args, "pid"), NULL, 10) : 0;
    bench_check(ch_rows_create(&r, "bench"), NULL);
    input_make();
    if (bench_counts()) {
        (void)round_of(r, CH_CELL);
        bench_count("cells", (double)values, "value", 0, pass, r);
    } else {
        figures(r, opt_value(args, "url"));
    }
    ch_rows_destroy(r);
    for (size_t i = 0; i < BATCHES; i++) {
        wire_batch_free(batches[i]);
    }
    opt_free(args);
    return bench_end();
}
