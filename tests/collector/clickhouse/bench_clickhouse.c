/* What a batch costs on its way to ClickHouse: making its rows, laying out the block, compressing
 * it; bytes and CPU per value. The server's side is not here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "collector/clickhouse/ch_rows.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/fleetgen.h"

#define ROUNDS  3
#define HOSTS   10
#define BATCHES 400 /* of all hosts: some 64 Ki cells, one block */
#define TICKS   10

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
    const struct host_offset clock = {.known = true};
    struct buf sql, body;
    struct result out = {0};
    int64_t t0 = os_thread_cpu_ns(), t1;
    uint8_t *packed;
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
    buf_init(&sql, 1u << 20);
    buf_init(&body, (size_t)1 << 30);
    bench_check(ch_native_encode(ch_rows_block(r, table), CH_FULL, &sql, &body), NULL);
    t1 = os_thread_cpu_ns();
    bound = ZSTD_compressBound(body.n);
    packed = malloc(bound);
    if (!packed) {
        bench_fail("no memory");
    }
    n = ZSTD_compress(packed, bound, body.p, body.n, -1);
    out.pack_ns = (double)(os_thread_cpu_ns() - t1) / (double)values;
    out.make_ns = (double)(t1 - t0) / (double)values;
    out.bytes = (double)body.n / (double)values;
    out.packed = (double)n / (double)values;
    free(packed);
    buf_fini(&body);
    buf_fini(&sql);
    return out;
}

static void figures_of(struct ch_rows *r, enum ch_table table, double goal)
{
    double make[ROUNDS], pack[ROUNDS];
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
    (void)snprintf(name, sizeof name, "%s: both", ch_schema_table(table));
    bench_figure(name, bench_median(make, ROUNDS) + bench_median(pack, ROUNDS), "ns/value", goal,
                 BENCH_LESS);
    (void)snprintf(name, sizeof name, "%s: block", ch_schema_table(table));
    bench_figure(name, last.bytes, "B/value", 0, BENCH_LESS);
    (void)snprintf(name, sizeof name, "%s: as it travels", ch_schema_table(table));
    bench_figure(name, last.packed, "B/value", 0, BENCH_LESS);
}

static void pass(void *arg)
{
    (void)round_of(arg, CH_CELL);
}

int main(int argc, char **argv)
{
    struct ch_rows *r;

    bench_begin(argc, argv, "bench_clickhouse", "batches as rows of ClickHouse's tables");
    bench_check(ch_rows_create(&r, "bench"), NULL);
    input_make();
    if (bench_counts()) {
        (void)round_of(r, CH_CELL);
        bench_count("cells", (double)values, "value", 0, pass, r);
    } else {
        figures_of(r, CH_CELL, 10);
        figures_of(r, CH_SAMPLE, 16); /* their cells are made, too */
    }
    ch_rows_destroy(r);
    for (size_t i = 0; i < BATCHES; i++) {
        wire_batch_free(batches[i]);
    }
    return bench_end();
}
