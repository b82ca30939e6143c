/* What sealing does with the rows of a host's window: joining batches, coding, and decoding for a
 * reader; bytes and CPU per value. */
#include <stdio.h>
#include <stdlib.h>

#include "collector/store/segment/raw.h"
#include "collector/store/segment/seg.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/fleetgen.h"

#define ROUNDS_MAX 9
#define BATCHES    300
#define MEMORY     (256u << 20)
#define READERS    24 /* metrics of a history */

struct result {
    double bytes, rows, unpack, join, encode, decode, one; /* B and ns per value; us per column */
};

/* The batches of one window as sealing gets them. */
struct input {
    struct batch *batches[BATCHES];
    struct window_batch in[BATCHES];
    size_t n;
    int64_t unpack_ns;
};

static void input_make(struct input *input, struct fleetgen *g, size_t ticks, size_t n)
{
    struct wire_encoder *enc;
    struct buf out;

    bench_check(wire_batch_encoder_create(&enc), NULL);
    buf_init(&out, WIRE_BATCH_BYTES_MAX);
    *input = (struct input){.n = n};
    for (size_t i = 0; i < n; i++) {
        int64_t t0;

        buf_reset(&out);
        bench_check(wire_batch_encode(enc, &out, fleetgen_batch(g, ticks)), NULL);
        t0 = os_thread_cpu_ns();
        bench_check(wire_batch_decode(&input->batches[i], out.p, out.n), NULL);
        input->unpack_ns += os_thread_cpu_ns() - t0;
        input->in[i].batch = input->batches[i];
    }
    buf_fini(&out);
    wire_batch_encoder_destroy(enc);
}

static void input_free(struct input *input)
{
    for (size_t i = 0; i < input->n; i++) {
        wire_batch_free(input->batches[i]);
    }
}

/* A window's values as they would stand in a segment. */
struct coded {
    struct buf rows, columns[METRIC_COLS], scratch;
    metric_mask metrics;
    uint64_t values;
};

static void encode(struct coded *c, struct packer *p, const struct host_window *hw)
{
    c->values = 0;
    c->metrics = 0;
    buf_reset(&c->rows);
    raw_rows_put(p, &c->rows, hw);
    bench_check(c->rows.bad, NULL);
    for (size_t i = 0; i < hw->n_parts; i++) {
        for (size_t k = 0; k < hw->parts[i].rows.n_columns; k++) {
            c->metrics |= METRIC_BIT(hw->parts[i].rows.columns[k].metric);
        }
    }
    for (struct metric_mask_walk each = metric_mask_walk(c->metrics);
         metric_mask_walk_next(&each);) {
        struct buf *to = &c->columns[each.id];

        buf_reset(to);
        raw_column_put(p, to, &c->scratch, hw, each.id, &c->values);
        bench_check(to->bad, NULL);
    }
}

/* All columns, or those of one process in the middle. */
static void decode(struct arena *memory, struct coded *c, struct packer *p, bool one,
                   unsigned columns)
{
    struct batch_column room[METRIC_COLS];
    struct window_part *parts;
    const struct uuid host = {{0}};
    size_t n_parts;

    bench_check(raw_rows_get(p, memory, &host, c->rows.p, c->rows.n, &parts, &n_parts), NULL);
    if (n_parts != 1) {
        bench_check(ERR_INVALID, NULL);
    }
    for (struct metric_mask_walk each = metric_mask_walk(c->metrics);
         columns > 0 && metric_mask_walk_next(&each); columns--) {
        unsigned metric = each.id;
        struct raw_part part = {parts, {0, parts->rows.n_runs}, room};

        if (one) {
            part.wanted = (struct raw_runs){parts->rows.n_runs / 2, 1};
        }
        bench_check(
            raw_column_get(p, memory, &part, 1, metric, c->columns[metric].p, c->columns[metric].n),
            NULL);
    }
}

static struct result round_of(const struct fleetgen_conf *conf, size_t ticks, size_t n,
                              unsigned windows)
{
    struct fleetgen *g = fleetgen_create(conf);
    struct result r = {0};
    struct coded c = {0};
    struct arena memory;
    struct packer *p;
    double values = 0;

    bench_check(packer_create(&p), NULL);
    arena_init(&memory, MEMORY);
    buf_init(&c.rows, SEG_VALUE_MAX);
    buf_init(&c.scratch, 2u * SEG_VALUE_MAX);
    for (size_t i = 0; i < METRIC_COLS; i++) {
        buf_init(&c.columns[i], SEG_VALUE_MAX);
    }
    for (unsigned i = 0; i < windows; i++) {
        struct host_window hw;
        struct input input;
        int64_t t[5];

        input_make(&input, g, ticks, n);
        arena_reset(&memory);
        t[0] = os_thread_cpu_ns();
        bench_check(window_join(&hw, &memory, input.in, n, "host"), NULL);
        t[1] = os_thread_cpu_ns();
        encode(&c, p, &hw);
        t[2] = os_thread_cpu_ns();
        input_free(&input);
        arena_reset(&memory);
        t[3] = os_thread_cpu_ns();
        decode(&memory, &c, p, false, METRIC_COLS);
        t[4] = os_thread_cpu_ns();
        r.unpack += (double)input.unpack_ns;
        r.join += (double)(t[1] - t[0]);
        r.encode += (double)(t[2] - t[1]);
        r.decode += (double)(t[4] - t[3]);
        arena_reset(&memory);
        t[0] = os_thread_cpu_ns();
        decode(&memory, &c, p, true, READERS);
        r.one += (double)(os_thread_cpu_ns() - t[0]) / READERS / 1e3;
        values += (double)c.values;
        r.rows += (double)c.rows.n;
        for (size_t k = 0; k < METRIC_COLS; k++) {
            r.bytes += c.metrics >> k & 1 ? (double)c.columns[k].n : 0;
        }
    }
    for (size_t i = 0; i < METRIC_COLS; i++) {
        buf_fini(&c.columns[i]);
    }
    buf_fini(&c.scratch);
    buf_fini(&c.rows);
    packer_destroy(p);
    arena_fini(&memory);
    fleetgen_destroy(g);
    return (struct result){
        (r.bytes + r.rows) / values, r.rows / values,   r.unpack / values, r.join / values,
        r.encode / values,           r.decode / values, r.one / windows};
}

/* Medians over several rounds of the same data. */
static struct result measure(const struct fleetgen_conf *conf, size_t ticks, size_t n)
{
    unsigned rounds = bench_quick() ? 1 : ROUNDS_MAX, windows = bench_quick() ? 1 : 4;
    double unpack[ROUNDS_MAX], join[ROUNDS_MAX], enc[ROUNDS_MAX], dec[ROUNDS_MAX], one[ROUNDS_MAX];
    struct result r = {0};

    for (unsigned i = 0; i < rounds; i++) {
        r = round_of(conf, ticks, n, windows);
        unpack[i] = r.unpack;
        join[i] = r.join;
        enc[i] = r.encode;
        dec[i] = r.decode;
        one[i] = r.one;
    }
    r.unpack = bench_median(unpack, rounds);
    r.join = bench_median(join, rounds);
    r.encode = bench_median(enc, rounds);
    r.decode = bench_median(dec, rounds);
    r.one = bench_median(one, rounds);
    return r;
}

int main(int argc, char **argv)
{
    struct fleetgen_conf second = {.seed = 1}, tenth = {.seed = 1, .tick_ns = 100000000},
                         churn = {.seed = 1, .starts_per_hour = 7200};
    struct result r;

    bench_begin(argc, argv, "bench_window",
                "sealing windows of 150 processes x 30 metrics (fleetgen)");
    r = measure(&second, 10, 30);
    bench_figure("window_bytes", r.bytes, "B/value", 0.65, BENCH_LESS);
    bench_figure("window_table_bytes", r.rows, "B/value", 0, BENCH_LESS);
    bench_figure("window_unpack", r.unpack, "ns/value", 0, BENCH_LESS);
    bench_figure("window_join", r.join, "ns/value", 0, BENCH_LESS);
    bench_figure("window_encode", r.encode, "ns/value", 4.8, BENCH_LESS);
    bench_figure("window_decode", r.decode, "ns/value", 3.4, BENCH_LESS);
    bench_figure("window_one_process", r.one, "us/column", 0, BENCH_LESS);
    r = measure(&churn, 10, 30);
    bench_figure("window_bytes_churn", r.bytes, "B/value", 0, BENCH_LESS);
    r = measure(&tenth, 10, 300);
    bench_figure("window_bytes_10hz", r.bytes, "B/value", 0, BENCH_LESS);
    bench_figure("window_encode_10hz", r.encode, "ns/value", 0, BENCH_LESS);
    bench_figure("window_decode_10hz", r.decode, "ns/value", 0, BENCH_LESS);
    r = measure(&second, 1, 300);
    bench_figure("window_join_1_tick", r.join, "ns/value", 0, BENCH_LESS);
    return bench_end();
}
