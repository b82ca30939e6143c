/* What a batch costs: bytes on the wire and CPU per value, agent's and collector's side. */
#include <stdio.h>
#include <stdlib.h>

#include "common/os/os.h"
#include "common/wire/wire_batch.h"
#include "tests/bench/bench.h"
#include "tests/support/fleetgen.h"

#define ROUNDS_MAX 15

struct result {
    double bytes, encode_ns, decode_ns, part_ns, changed;
};

static size_t values_of(const struct batch *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->n_columns; i++) {
        n += b->columns[i].n_values;
    }
    return n;
}

/* `batches` batches of `ticks` ticks; CPU time of this thread, generation not counted. */
static struct result round_of(const struct fleetgen_conf *conf, size_t ticks, unsigned batches)
{
    struct fleetgen *g = fleetgen_create(conf);
    struct wire_encoder *enc;
    uint64_t made, same;
    int64_t encode = 0, decode = 0, part = 0;
    size_t bytes = 0, values = 0;
    struct buf out;

    bench_check(wire_batch_encoder_create(&enc), NULL);
    buf_init(&out, WIRE_BATCH_BYTES_MAX);
    for (unsigned i = 0; i < batches; i++) {
        const struct batch *b = fleetgen_batch(g, ticks);
        struct batch *back;
        int64_t t0, t1, t2;

        buf_reset(&out);
        t0 = os_thread_cpu_ns();
        bench_check(wire_batch_encode(enc, &out, b), NULL);
        t1 = os_thread_cpu_ns();
        bench_check(wire_batch_decode(&back, out.p, out.n), NULL);
        wire_batch_free(back);
        t2 = os_thread_cpu_ns();
        bench_check(wire_batch_decode_part(&back, METRIC_BIT(M_CPU_TIME), out.p, out.n), NULL);
        wire_batch_free(back);
        part += os_thread_cpu_ns() - t2;
        decode += t2 - t1;
        encode += t1 - t0;
        bytes += out.n;
        values += values_of(b);
    }
    fleetgen_counts(g, &made, &same);
    buf_fini(&out);
    wire_batch_encoder_destroy(enc);
    fleetgen_destroy(g);
    return (struct result){(double)bytes / (double)values, (double)encode / (double)values,
                           (double)decode / (double)values, (double)part / (double)values,
                           100 - 100 * (double)same / (double)made};
}

/* Median of the times over several rounds of the same data. */
static struct result measure(const struct fleetgen_conf *conf, size_t ticks)
{
    unsigned rounds = bench_quick() ? 1 : ROUNDS_MAX, batches = 60;
    double encode[ROUNDS_MAX], decode[ROUNDS_MAX], part[ROUNDS_MAX];
    struct result r = {0};

    for (unsigned i = 0; i < rounds; i++) {
        r = round_of(conf, ticks, batches);
        encode[i] = r.encode_ns;
        decode[i] = r.decode_ns;
        part[i] = r.part_ns;
    }
    r.encode_ns = bench_median(encode, rounds);
    r.decode_ns = bench_median(decode, rounds);
    r.part_ns = bench_median(part, rounds);
    return r;
}

/* -- instructions -- */

#define COUNTED 12

struct counted {
    struct wire_encoder *enc;
    struct batch *batches[COUNTED];
    struct buf out[COUNTED];
};

static void count_encode(void *ctx)
{
    struct counted *c = ctx;

    for (size_t i = 0; i < COUNTED; i++) {
        bench_check(wire_batch_encode(c->enc, &c->out[i], c->batches[i]), NULL);
    }
}

static void count_decode(void *ctx)
{
    struct counted *c = ctx;

    for (size_t i = 0; i < COUNTED; i++) {
        struct batch *back;

        bench_check(wire_batch_decode(&back, c->out[i].p, c->out[i].n), NULL);
        wire_batch_free(back);
    }
}

/* The generator's batches are borrowed until the next: they are encoded and decoded to be kept. */
static void count(const struct fleetgen_conf *conf)
{
    struct fleetgen *g = fleetgen_create(conf);
    struct counted c;
    size_t values = 0;

    bench_check(wire_batch_encoder_create(&c.enc), NULL);
    for (size_t i = 0; i < COUNTED; i++) {
        buf_init(&c.out[i], WIRE_BATCH_BYTES_MAX);
        bench_check(wire_batch_encode(c.enc, &c.out[i], fleetgen_batch(g, 10)), NULL);
        bench_check(wire_batch_decode(&c.batches[i], c.out[i].p, c.out[i].n), NULL);
        values += values_of(c.batches[i]);
        buf_reset(&c.out[i]);
    }
    bench_count("batch_encode", (double)values, "value", 0, count_encode, &c);
    bench_count("batch_decode", (double)values, "value", 0, count_decode, &c);
    for (size_t i = 0; i < COUNTED; i++) {
        wire_batch_free(c.batches[i]);
        buf_fini(&c.out[i]);
    }
    wire_batch_encoder_destroy(c.enc);
    fleetgen_destroy(g);
}

int main(int argc, char **argv)
{
    struct fleetgen_conf second = {.seed = 1}, tenth = {.seed = 1, .tick_ns = 100000000};
    struct result r;

    bench_begin(argc, argv, "bench_batch", "batches of 150 processes x 30 metrics (fleetgen)");
    if (bench_counts()) {
        count(&second);
        return bench_end();
    }
    r = measure(&second, 10);
    bench_figure("batch_wire_bytes", r.bytes, "B/value", 0.80, BENCH_LESS);
    bench_figure("batch_encode", r.encode_ns, "ns/value", 7.5, BENCH_LESS);
    bench_figure("batch_decode", r.decode_ns, "ns/value", 5.5, BENCH_LESS);
    bench_figure("batch_decode_1_metric", r.part_ns, "ns/value of all", 0, BENCH_LESS);
    bench_figure("fleetgen_changed", r.changed, "%", 0, BENCH_LESS);
    r = measure(&second, 1);
    bench_figure("batch_wire_bytes_1_tick", r.bytes, "B/value", 0, BENCH_LESS);
    bench_figure("batch_encode_1_tick", r.encode_ns, "ns/value", 0, BENCH_LESS);
    bench_figure("batch_decode_1_tick", r.decode_ns, "ns/value", 0, BENCH_LESS);
    r = measure(&tenth, 10);
    bench_figure("batch_wire_bytes_10hz", r.bytes, "B/value", 0, BENCH_LESS);
    bench_figure("batch_encode_10hz", r.encode_ns, "ns/value", 0, BENCH_LESS);
    bench_figure("batch_decode_10hz", r.decode_ns, "ns/value", 0, BENCH_LESS);
    return bench_end();
}
