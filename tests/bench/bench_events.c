/* What records of ETW cost an agent between the callback and the batch, on one core: through the
 * ring, decoded or described, charged, limited. Two streams as a live session would deliver them:
 *
 *   gc_network   5,000 records a second, of which 200 are of .NET's collections and the rest of the
 *                kernel's network, of 100 processes: etw.clr gc and etw.enable_network
 *   flood        100,000 events a second of one provider that is chosen, under the usual rates
 *
 * The sample of each second is part of it, the batch and the network are not. Time is CPU time. */
#include <stdlib.h>
#include <string.h>

#include "agent/monitor.h"
#include "agent/source/etw_guid.h"
#include "agent/source/ring/ring.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"

enum { PROCESSES = 100, RING = 4 << 20, STEP_MS = 100, COLLECTIONS = 50, EXT = 128, PAYLOAD = 64 };
enum { GC_NETWORK = 5000, FLOOD = 100000 };

struct made {
    struct source base;
    struct source_sink sink;
    struct ring *ring;
    unsigned per_s, seconds;
    bool flood;
    uint64_t n; /* records so far */
    uint8_t ext[EXT], payload[PAYLOAD];
    size_t ext_n;
};

static void put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static void put_item(struct made *m, unsigned type, const void *data, size_t n)
{
    const size_t size = (8 + n + 7) / 8 * 8;
    const uint16_t head[4] = {(uint16_t)size, (uint16_t)type, type == 11, (uint16_t)n};

    memcpy(m->ext + m->ext_n, head, sizeof head);
    memcpy(m->ext + m->ext_n + 8, data, n);
    m->ext_n += size;
}

static uint32_t pid_of(uint64_t n)
{
    return 400 + 4 * (uint32_t)(n % PROCESSES);
}

/* Four records a collection: the start, who waits, who goes on, what is left. */
static void make_clr(struct made *m, struct raw_event *raw, uint64_t nth)
{
    static const uint8_t guid[16] = ETW_PROVIDER_CLR;
    static const struct {
        uint16_t id;
        uint8_t version, bytes;
    } kinds[] = {{1, 1, 18}, {9, 1, 10}, {3, 1, 2}, {2, 1, 10}};
    unsigned kind = nth % 4;

    memset(m->payload, 0, sizeof m->payload);
    put32(m->payload, kind == 1 ? 1 : (uint32_t)(nth / 4));
    raw->form = RAW_MANIFEST;
    raw->id = kinds[kind].id;
    raw->version = kinds[kind].version;
    raw->payload_n = kinds[kind].bytes;
    raw->pid = pid_of(nth / 4);
    memcpy(raw->guid, guid, sizeof guid);
}

/* TcpIp: sent and received over IPv4. */
static void make_network(struct made *m, struct raw_event *raw, uint64_t nth)
{
    static const uint8_t guid[16] = ETW_CLASS_TCP_IP;

    memset(m->payload, 0, sizeof m->payload);
    put32(m->payload, pid_of(nth));
    put32(m->payload + 4, 1460);
    raw->form = RAW_CLASSIC;
    raw->version = 2;
    raw->opcode = nth % 2 ? 11 : 10;
    raw->payload_n = 40;
    raw->pid = raw->tid = EVENT_NO_ID;
    memcpy(raw->guid, guid, sizeof guid);
}

static void make_loud(struct made *m, struct raw_event *raw, uint64_t nth)
{
    memcpy(m->payload, &nth, sizeof nth);
    memset(raw->guid, 0x11, sizeof raw->guid);
    raw->form = RAW_MANIFEST;
    raw->level = 4;
    raw->pid = pid_of(nth);
    raw->ext = m->ext;
    raw->ext_n = m->ext_n;
    raw->payload_n = sizeof nth;
}

/* Who lives, as at the start of a session. */
static void make_processes(struct made *m)
{
    static const uint8_t guid[16] = ETW_CLASS_PROCESS;

    for (unsigned i = 0; i < PROCESSES; i++) {
        struct raw_event raw = {.form = RAW_CLASSIC, .pointer_size = 8, .version = 4, .opcode = 3};

        memset(m->payload, 0, sizeof m->payload);
        put32(m->payload + 8, pid_of(i));
        memcpy(m->payload + 44, "app.exe", 8);
        memcpy(raw.guid, guid, sizeof guid);
        raw.payload = m->payload;
        raw.payload_n = PAYLOAD;
        raw.pid = raw.tid = EVENT_NO_ID;
        raw.frequency = 10000000;
        bench_check(ring_put(m->ring, &raw), "a process");
    }
}

static enum err made_run(struct source *s)
{
    struct made *m = (struct made *)s;
    unsigned per_clr = m->per_s / (4 * COLLECTIONS);

    make_processes(m);
    for (unsigned step = 0; step < m->seconds * (1000 / STEP_MS); step++) {
        unsigned n = m->per_s * STEP_MS / 1000;
        int64_t from_ns = (int64_t)step * STEP_MS * CLK_MS;

        for (unsigned i = 0; i < n; i++, m->n++) {
            int64_t ns = from_ns + (int64_t)i * STEP_MS * CLK_MS / n;
            struct raw_event raw = {.pointer_size = 8,
                                    .payload = m->payload,
                                    .tid = 8,
                                    .wall_ns = ns,
                                    .mono_ns = ns,
                                    .ticks = ns / 100,
                                    .frequency = 10000000};

            if (m->flood) {
                make_loud(m, &raw, m->n);
            } else if (m->n % per_clr == 0) {
                make_clr(m, &raw, m->n / per_clr);
            } else {
                make_network(m, &raw, m->n);
            }
            bench_check(ring_put(m->ring, &raw), "the ring");
        }
        (void)ring_drain(m->ring, SIZE_MAX, &m->sink);
        m->sink.advance(m->sink.ctx, from_ns + STEP_MS * CLK_MS, from_ns + STEP_MS * CLK_MS);
    }
    return ERR_END;
}

static void made_stop(struct source *s)
{
    (void)s;
}

static void made_stats(const struct source *s, struct source_stats *out)
{
    *out = (struct source_stats){.in = ((const struct made *)s)->n};
}

static void made_close(struct source *s)
{
    (void)s; /* the caller's */
}

static const struct source_ops ops = {
    .run = made_run, .stop = made_stop, .stats = made_stats, .close = made_close};

static enum err made_open(void *ctx, struct source **out, struct source_sink sink,
                          struct errmsg *why)
{
    struct made *m = ctx;

    (void)why;
    m->base.ops = &ops;
    m->base.about = (struct source_about){.name = "made", .cpus = 4, .replay = true};
    m->sink = sink;
    *out = &m->base;
    return ERR_OK;
}

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    *(uint64_t *)ctx += tick->n_rows;
}

static void on_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static void run(struct made *m)
{
    static const char *const chosen[] = {"procfleet-Loud"};
    const struct forward_conf events = {.providers = chosen,
                                        .n_providers = 1,
                                        .rate = 100,
                                        .burst = 1000,
                                        .host_rate = 1000,
                                        .host_bytes = 256 << 10};
    struct ring_conf ring = {.bytes = RING};
    uint64_t rows = 0;
    struct monitor_conf conf = {.open = made_open,
                                .open_ctx = m,
                                .period_ns = CLK_S,
                                .processes_max = 1000,
                                .events = m->flood ? &events : NULL,
                                .tick = on_tick,
                                .life = on_life,
                                .ctx = &rows};
    struct monitor_stats stats;
    struct monitor *monitor;

    bench_check(ring_create(&m->ring, &ring), "the ring");
    bench_check(monitor_create(&monitor, &conf, NULL), "the monitor");
    if (monitor_run(monitor) != ERR_END) {
        bench_fail("the stream did not end");
    }
    monitor_stats(monitor, &stats);
    if (m->flood ? stats.forward.in != m->n || stats.forward.out < 100ull * m->seconds ||
                       stats.forward.in != stats.forward.out + stats.forward.rate
                 : stats.decode.unknown || stats.decode.corrupt ||
                       stats.aggregate.charged < m->n * 9 / 10) {
        bench_fail("the stream was not understood");
    }
    monitor_destroy(monitor);
    ring_destroy(m->ring);
}

static struct made made_stream(bool flood, unsigned seconds)
{
    static const char schema[] = "\x0d\0\0Tick\0seq\0\x0a", traits[] = "\x11\0procfleet-Loud";
    struct made m = {.per_s = flood ? FLOOD : GC_NETWORK, .seconds = seconds, .flood = flood};

    put_item(&m, 11, schema, sizeof schema - 1);
    put_item(&m, 12, traits, sizeof traits);
    return m;
}

static void pass(void *arg)
{
    run(arg);
}

/* Percent of a core, of a stream that lasts so many seconds: the best of five. */
static double share(bool flood, unsigned seconds)
{
    double best = 0;

    for (int i = 0; i < (bench_quick() ? 1 : 5); i++) {
        struct made m = made_stream(flood, seconds);
        int64_t began_ns = os_cpu_ns();
        double percent;

        run(&m);
        percent = 100.0 * (double)(os_cpu_ns() - began_ns) / (double)(seconds * CLK_S);
        best = i == 0 || percent < best ? percent : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    unsigned seconds = 20;

    bench_begin(argc, argv, "bench_events", "Records of ETW to counters and events, one core.");
    if (bench_counts()) {
        struct made gc = made_stream(false, seconds), loud = made_stream(true, 2);

        bench_count("gc_network_5000_per_s", (double)GC_NETWORK * seconds, "record", 2000, pass,
                    &gc);
        bench_count("flood_100000_per_s", (double)FLOOD * 2, "event", 1000, pass, &loud);
        return bench_end();
    }
    seconds = bench_quick() ? 5 : 200;
    bench_figure("gc_network_5000_per_s", share(false, seconds), "% of a core", 1, BENCH_LESS);
    bench_figure("flood_100000_per_s", share(true, seconds / 10 ? seconds / 10 : 1), "% of a core",
                 0, BENCH_LESS);
    return bench_end();
}
