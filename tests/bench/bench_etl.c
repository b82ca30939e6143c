/* A whole real trace file, from open to close: through the reader alone, through reader and
 * decoders, and to per-process totals, once a second of the recording. The file is unpacked from
 * .xz before the clock starts: that is no part of the format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/monitor.h"
#include "agent/source/trace/etl_file.h"
#include "agent/source/trace/etl_input.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/corpus.h"
#include "tests/support/support.h"

#define ROUNDS_MAX 31

static void give_up(const char *what)
{
    fprintf(stderr, "bench_etl: %s\n", what);
    exit(1);
}

struct seen {
    struct decode *decode;
    uint64_t records, events;
};

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct seen *s = ctx;
    struct event ev;

    s->records += !raw->early;
    s->events += s->decode && decode_event(s->decode, raw, &ev) == ERR_OK;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static void unpack(const char *from, const char *to)
{
    struct etl_input *in;
    uint8_t *p;
    size_t n, got;

    if (etl_input_open(&in, from, NULL)) {
        give_up("cannot open the recording");
    }
    n = (size_t)etl_input_size(in);
    p = malloc(n);
    if (!p || etl_input_read(in, 0, p, n, &got) || os_write_file(to, p, n, false)) {
        give_up("cannot unpack the recording");
    }
    free(p);
    etl_input_close(in);
}

/* Records per second of CPU time, so that what else the machine does hardly counts. */
static double once(const char *path, bool decode)
{
    const char *paths[1] = {path};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct seen s = {0};
    struct source_sink sink = {.ctx = &s, .raw = on_raw, .advance = on_advance};
    struct source *src;
    int64_t began = os_cpu_ns();

    if ((decode && decode_create(&s.decode)) || etl_file_open(&src, &conf, sink, NULL) ||
        src->ops->run(src) != ERR_END) {
        give_up("cannot replay the recording");
    }
    src->ops->close(src);
    decode_destroy(s.decode);
    return (double)s.records * 1e9 / (double)(os_cpu_ns() - began);
}

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    (void)ctx;
    (void)tick;
}

static void on_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static double to_totals(char *path, uint64_t *records)
{
    const char *paths[1] = {path};
    struct etl_file_conf file = {.paths = paths, .n_paths = 1};
    struct monitor_conf conf = {.open = etl_file_open_conf,
                                .open_ctx = &file,
                                .period_ns = CLK_S,
                                .processes_max = MODEL_PROCESSES_MAX,
                                .tick = on_tick,
                                .life = on_life};
    struct monitor_stats stats;
    struct monitor *m;
    int64_t began = os_cpu_ns();

    if (monitor_create(&m, &conf, NULL) || monitor_run(m) != ERR_END) {
        give_up("cannot replay the recording");
    }
    monitor_stats(m, &stats);
    monitor_destroy(m);
    if (records) {
        *records = stats.source.in;
    }
    return (double)stats.source.in * 1e9 / (double)(os_cpu_ns() - began);
}

struct counted {
    char *path;
    uint64_t records;
};

static void count_read(void *ctx)
{
    (void)once(((struct counted *)ctx)->path, false);
}

static void count_decoded(void *ctx)
{
    (void)once(((struct counted *)ctx)->path, true);
}

static void count_totals(void *ctx)
{
    struct counted *c = ctx;

    (void)to_totals(c->path, &c->records);
}

enum stage { READ, DECODED, TOTALS };

static double measure(char *path, enum stage stage)
{
    double values[ROUNDS_MAX];
    size_t rounds = bench_quick() ? 5 : ROUNDS_MAX;

    for (size_t i = 0; i < rounds; i++) {
        values[i] = (stage == TOTALS ? to_totals(path, NULL) : once(path, stage == DECODED)) / 1e6;
    }
    return bench_median(values, rounds);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *recording, *read, *decoded, *totals;
        double goal;
    } rows[] = {
        {"net.4.5.2.x64", "etl_read_compressed", "etl_decode_compressed", "etl_totals_compressed",
         10},
        {"net.4.5.x86-win7", "etl_read_plain", "etl_decode_plain", "etl_totals_plain", 0},
    };
    char dir[256], from[1024], to[300];

    bench_begin(argc, argv, "bench_etl", "Whole trace files, from open to close, one core.");
    if (!corpus_dir()) {
        return CORPUS_SKIP;
    }
    support_temp_dir(dir, sizeof dir);
    (void)snprintf(to, sizeof to, "%s/bench.etl", dir);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unpack(corpus_recording(from, sizeof from, rows[i].recording), to);
        if (bench_counts()) {
            struct counted c = {to, 0};

            (void)to_totals(to, &c.records); /* how many there are is to be known first */
            bench_count(rows[i].read, (double)c.records, "record", 0, count_read, &c);
            bench_count(rows[i].decoded, (double)c.records, "record", 0, count_decoded, &c);
            bench_count(rows[i].totals, (double)c.records, "record", 0, count_totals, &c);
            continue;
        }
        bench_figure(rows[i].read, measure(to, READ), "M records/s", 0, BENCH_MORE);
        bench_figure(rows[i].decoded, measure(to, DECODED), "M records/s", 0, BENCH_MORE);
        bench_figure(rows[i].totals, measure(to, TOTALS), "M records/s", rows[i].goal, BENCH_MORE);
    }
    support_remove_dir(dir);
    return bench_end();
}
