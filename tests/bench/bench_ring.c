/* The callback's path: what one ring_put costs the thread that logs, and how many records a second
 * go through ring and pump to a sink that looks at each. Context switches (24 bytes of payload), a
 * ring of the default size, the consumer on another core.
 *
 * Cost comes twice. Mean: a burst between two readings of the clock. Percentiles: each call between
 * two readings, less what two readings cost with nothing between (also printed): below that cost
 * they are no better than the clock, but they show the calls that wake the consumer. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/ring/ring.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/ring_pump.h"

#define BURST      4096
#define BURSTS_MAX 2000

static _Atomic uint64_t seen_records;
static uint64_t seen_bytes;

static void give_up(const char *what)
{
    fprintf(stderr, "bench_ring: %s\n", what);
    exit(1);
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    (void)ctx;
    for (size_t i = 0; i < raw->payload_n; i += 8) {
        seen_bytes += raw->payload[i];
    }
    atomic_store_explicit(&seen_records,
                          atomic_load_explicit(&seen_records, memory_order_relaxed) + 1,
                          memory_order_release);
}

static void on_fact(void *ctx, const struct event *ev)
{
    (void)ctx;
    (void)ev;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

struct rig {
    struct ring *ring;
    struct ring_pump pump;
    bool consumed;
    uint64_t put;
    struct raw_event raw;
    uint8_t payload[24];
};

static void rig_open(struct rig *g, bool wait, bool consumed)
{
    static const uint8_t thread[16] = ETW_CLASS_THREAD;
    struct ring_conf conf = {.bytes = RING_BYTES, .wait = wait};

    memset(g, 0, sizeof *g);
    atomic_store(&seen_records, 0);
    if (ring_create(&g->ring, &conf)) {
        give_up("no ring");
    }
    g->pump = (struct ring_pump){.ring = g->ring,
                                 .sink = {.raw = on_raw, .fact = on_fact, .advance = on_advance},
                                 .batch = RING_PUMP_BATCH};
    g->consumed = consumed;
    if (consumed && ring_pump_start(&g->pump)) {
        give_up("no thread");
    }
    g->raw = (struct raw_event){.form = RAW_CLASSIC,
                                .opcode = 36,
                                .version = 4,
                                .pointer_size = 8,
                                .frequency = 10000000,
                                .payload = g->payload,
                                .payload_n = sizeof g->payload};
    memcpy(g->raw.guid, thread, sizeof thread);
}

static void rig_close(struct rig *g)
{
    if (g->consumed) {
        ring_pump_stop(&g->pump);
    }
    ring_destroy(g->ring);
}

static void put(struct rig *g)
{
    g->raw.mono_ns += 1000;
    g->raw.wall_ns += 1000;
    g->raw.ticks += 10;
    g->raw.cpu = (uint16_t)(g->put & 7);
    g->payload[0] = (uint8_t)g->put++;
    err_ignore(ring_put(g->ring, &g->raw));
}

static void wait_until_empty(const struct rig *g)
{
    while (atomic_load_explicit(&seen_records, memory_order_acquire) < g->put) {
        os_sleep_ns(100000);
    }
}

static double mean_cost(void)
{
    static double values[BURSTS_MAX];
    size_t bursts = bench_quick() ? 50 : BURSTS_MAX;
    struct rig g;

    rig_open(&g, false, true);
    for (size_t i = 0; i < bursts; i++) {
        int64_t began = os_mono_ns();

        for (int k = 0; k < BURST; k++) {
            put(&g);
        }
        values[i] = (double)(os_mono_ns() - began) / BURST;
        wait_until_empty(&g);
    }
    rig_close(&g);
    return bench_median(values, bursts);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Sorted times of n calls; nothing == true: of two readings of the clock alone. */
static int64_t *call_times(size_t n, bool nothing)
{
    int64_t *ns = calloc(n, sizeof *ns);
    struct rig g;

    if (!ns) {
        give_up("no memory");
    }
    rig_open(&g, false, true);
    for (size_t i = 0; i < n; i++) {
        int64_t began = os_mono_ns();

        if (!nothing) {
            put(&g);
        }
        ns[i] = os_mono_ns() - began;
        if (i % BURST == BURST - 1) {
            wait_until_empty(&g);
        }
    }
    rig_close(&g);
    qsort(ns, n, sizeof *ns, by_value);
    return ns;
}

static void percentiles(void)
{
    static const struct {
        const char *name;
        unsigned per_100k;
    } rows[] = {{"ring_put_p50", 50000},
                {"ring_put_p99", 99000},
                {"ring_put_p999", 99900},
                {"ring_put_p9999", 99990}};
    size_t n = (bench_quick() ? 50 : BURSTS_MAX) * (size_t)BURST;
    int64_t *calls = call_times(n, false), *clock = call_times(n, true);
    int64_t clock_ns = clock[n / 2];

    bench_figure("ring_clock_p50", (double)clock_ns, "ns", 0, BENCH_LESS);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t ns = calls[n * rows[i].per_100k / 100000] - clock_ns;

        bench_figure(rows[i].name, (double)(ns > 0 ? ns : 0), "ns", 0, BENCH_LESS);
    }
    free(calls);
    free(clock);
}

/* A full ring that nobody empties: what a record costs that is dropped. */
static double drop_cost(void)
{
    size_t n = (bench_quick() ? 50 : BURSTS_MAX) * (size_t)BURST;
    struct rig g;
    int64_t began;

    rig_open(&g, false, false);
    while (ring_fill_permille(g.ring) < 870) {
        put(&g);
    }
    began = os_mono_ns();
    for (size_t i = 0; i < n; i++) {
        put(&g);
    }
    began = os_mono_ns() - began;
    rig_close(&g);
    return (double)began / (double)n;
}

static double throughput(void)
{
    size_t n = (bench_quick() ? 50 : BURSTS_MAX) * (size_t)BURST;
    struct rig g;
    int64_t began = os_mono_ns();

    rig_open(&g, true, true);
    for (size_t i = 0; i < n; i++) {
        put(&g);
    }
    rig_close(&g);
    return (double)n * 1e3 / (double)(os_mono_ns() - began);
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv, "bench_ring",
                "From the callback through ring and pump, context switches, 1 MiB.");
    bench_figure("ring_put_mean", mean_cost(), "ns", 0, BENCH_LESS);
    percentiles();
    bench_figure("ring_put_dropped", drop_cost(), "ns", 0, BENCH_LESS);
    bench_figure("ring_throughput", throughput(), "M records/s", 0, BENCH_MORE);
    return bench_end();
}
