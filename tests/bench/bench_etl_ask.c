/* What questions to recordings cost, in memory, on one core; CPU time, the best of several rounds.
 * Records of .NET's runtime to figures: those of a recording in the corpus, decoded, paired and
 * counted as `etl clr` does it, with the list that costs most. Samples and their stacks to a tree,
 * keys resolved, as `etl stacks` does it. Packets of full size to a capture, as `etl pcap`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/decode/decode_class.h"
#include "agent/etl/etl_clr_figures.h"
#include "agent/etl/etl_packets.h"
#include "agent/etl/etl_pcapng.h"
#include "agent/etl/stack/etl_stack_join.h"
#include "agent/etl/symbol/etl_images.h"
#include "agent/source/etw_guid.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/arena.h"
#include "common/base/cur.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/corpus.h"
#include "tests/support/support.h"

#define RECORDS_MAX (1u << 18)
#define BYTES_MAX   (256u << 20)
#define ROUNDS      20

static struct raw_event *records;
static size_t n_records;
static struct arena payloads;

static bool is_clr(const struct raw_event *raw)
{
    return memcmp(raw->guid, decode_clr_class.guid, sizeof raw->guid) == 0;
}

/* Samples, stacks, images. */
static bool is_for_stacks(const struct raw_event *raw)
{
    static const uint8_t stack[16] = ETW_CLASS_STACK_WALK, perf[16] = ETW_CLASS_PERF_INFO;
    static const uint8_t image[16] = ETW_CLASS_IMAGE;

    return memcmp(raw->guid, stack, 16) == 0 || memcmp(raw->guid, image, 16) == 0 ||
           (memcmp(raw->guid, perf, 16) == 0 && raw->opcode == 46);
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    bool (*const *wanted)(const struct raw_event *) = ctx;
    struct raw_event *r;

    if (raw->early || !(*wanted)(raw) || n_records == RECORDS_MAX) {
        return;
    }
    r = &records[n_records++];
    *r = *raw;
    r->payload = arena_dup(&payloads, raw->payload, raw->payload_n);
    if (!r->payload) {
        bench_fail("out of memory");
    }
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static void load(const char *name, bool (*wanted)(const struct raw_event *))
{
    char path[1024];
    const char *paths[1] = {corpus_recording(path, sizeof path, name)};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct source_sink sink = {.ctx = &wanted, .raw = on_raw, .advance = on_advance};
    struct source *source;

    n_records = 0;
    arena_reset(&payloads);
    bench_check(etl_file_open(&source, &conf, sink, NULL), name);
    (void)source->ops->run(source);
    source->ops->close(source);
}

/* One pass over all records; ns of CPU time. */
static int64_t pass(enum etl_clr_list list)
{
    static struct etl_range all;
    struct instances_conf conf = {.instances_max = 64, .threads_max = 64, .text_max = 4096};
    struct etl_walk walk = {0};
    struct etl_clr_figures *f;
    struct decode *d;
    int64_t took_ns;

    bench_check(instances_create(&walk.table, &conf), NULL);
    bench_check(decode_create(&d), NULL);
    bench_check(etl_clr_figures_create(&f, list, &all), NULL);
    f->walk = &walk;
    took_ns = os_cpu_ns();
    for (size_t i = 0; i < n_records; i++) {
        struct event ev;
        struct etl_walk_record r = {.raw = &records[i], .meant = true};

        r.decoded = decode_event(d, &records[i], &ev);
        r.ev = r.decoded == ERR_OK ? &ev : NULL;
        etl_clr_figures_record(f, &r);
    }
    took_ns = os_cpu_ns() - took_ns;
    if (f->records != n_records) {
        bench_fail("records are missing");
    }
    etl_clr_figures_destroy(f);
    decode_destroy(d);
    instances_destroy(walk.table);
    return took_ns;
}

static double best_rate(enum etl_clr_list list)
{
    int64_t best_ns = INT64_MAX;

    for (int i = 0; i < (bench_quick() ? 2 : ROUNDS); i++) {
        int64_t ns = pass(list);

        best_ns = ns < best_ns ? ns : best_ns;
    }
    return (double)n_records * 1e3 / (double)best_ns;
}

/* -- stacks -- */

struct stacks {
    struct etl_images *images;
    struct etl_stack_tree tree;
    struct etl_stack_join *join;
};

static uint32_t frame_of(void *ctx, uint32_t pid, uint64_t address, int64_t wall_ns)
{
    struct stacks *s = ctx;
    const struct etl_images_one *i = etl_images_find(s->images, pid, address, wall_ns);

    return i ? etl_stack_tree_frame(&s->tree, ETL_STACK_IMAGE, i->module, address - i->base)
             : etl_stack_tree_frame(&s->tree, ETL_STACK_ADDRESS, 0, address);
}

static bool is_kernel(void *ctx, uint64_t address, uint8_t pointer_size)
{
    (void)ctx;
    (void)pointer_size;
    return address >> 63;
}

static void stack_record(struct stacks *s, const struct raw_event *raw)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct etl_stack_part part = {.pointer_size = raw->pointer_size};
    bool defines = raw->opcode == 35 || raw->opcode == 36;
    int64_t ticks = defines ? 0 : (int64_t)cur_u64le(&c);
    uint64_t key = 0;
    uint32_t tid = 0;

    if (!defines) {
        cur_skip(&c, 4);
        tid = cur_u32le(&c);
    }
    if (raw->opcode != 32) {
        key = cur_uptr(&c, raw->pointer_size);
    }
    part.p = c.p;
    part.n = cur_left(&c) / raw->pointer_size;
    if (defines) {
        etl_stack_join_define(s->join, key, raw->wall_ns, &part);
    } else if (raw->opcode == 32) {
        etl_stack_join_part(s->join, ticks, tid, raw->cpu, &part);
    } else {
        etl_stack_join_key(s->join, ticks, tid, raw->cpu, key, raw->opcode == 38);
    }
}

static void stacks_learn(struct stacks *s, struct decode *d)
{
    bench_check(etl_images_create(&s->images), NULL);
    for (size_t i = 0; i < n_records; i++) {
        struct event ev;

        if (decode_event(d, &records[i], &ev) == ERR_OK) {
            etl_images_event(s->images, &ev);
        }
    }
    etl_images_done(s->images);
}

/* Records of stacks a second, in millions; their samples go the same way. */
static double stacks_rate(void)
{
    static const uint8_t walk[16] = ETW_CLASS_STACK_WALK;
    struct etl_stack_join_conf conf = {.frame = frame_of, .is_kernel = is_kernel};
    struct stacks s;
    struct decode *d;
    uint64_t stacks = 0;
    int64_t took_ns;

    bench_check(decode_create(&d), NULL);
    stacks_learn(&s, d);
    bench_check(etl_stack_tree_init(&s.tree, 1), NULL);
    conf.ctx = &s;
    conf.tree = &s.tree;
    bench_check(etl_stack_join_create(&s.join, &conf), NULL);
    took_ns = os_cpu_ns();
    for (size_t i = 0; i < n_records; i++) {
        const struct raw_event *raw = &records[i];
        struct event ev;

        if (memcmp(raw->guid, walk, sizeof walk) == 0) {
            stack_record(&s, raw);
            stacks++;
        } else if (decode_event(d, raw, &ev) == ERR_OK && ev.kind == EV_CPU_SAMPLE &&
                   ev.u.sample.tid) {
            etl_stack_join_event(s.join, &(struct etl_stack_event){.ticks = raw->ticks,
                                                                   .wall_ns = raw->wall_ns,
                                                                   .tid = ev.u.sample.tid,
                                                                   .cpu = raw->cpu,
                                                                   .ip = ev.u.sample.ip,
                                                                   .weight = 1});
        }
    }
    etl_stack_join_end(s.join);
    took_ns = os_cpu_ns() - took_ns;
    etl_stack_join_destroy(s.join);
    etl_stack_tree_fini(&s.tree);
    etl_images_destroy(s.images);
    decode_destroy(d);
    return (double)stacks * 1e3 / (double)took_ns;
}

/* -- packets -- */

#define PACKET 1500

/* MB of packets a second. */
static double packets_rate(const char *path)
{
    static const uint8_t pktmon[16] = {0xd9, 0x80, 0x4f, 0x4d, 0xbd, 0xc8, 0x73, 0x4d,
                                       0xbb, 0x5b, 0x19, 0xc9, 0x04, 0x02, 0xc5, 0xac};
    static uint8_t payload[34 + PACKET] = {[8] = 1,    [10] = 1, [12] = 3,   [14] = 1, [16] = 9,
                                           [30] = 220, [31] = 5, [32] = 220, [33] = 5};
    const struct etl_pcapng_interface interface = {.link = 1, .name = {"nic", 3}};
    struct raw_event raw = {
        .form = RAW_MANIFEST, .id = 160, .payload = payload, .payload_n = sizeof payload};
    size_t n = bench_quick() ? 20000 : 200000;
    struct etl_packets *packets;
    struct etl_packets_one one;
    struct etl_pcapng *to;
    int64_t took_ns;

    memcpy(raw.guid, pktmon, sizeof pktmon);
    bench_check(etl_packets_create(&packets), NULL);
    bench_check(etl_pcapng_open(&to, path, NULL), path);
    took_ns = os_cpu_ns();
    etl_pcapng_section(to, (struct str){"", 0}, (struct str){"", 0});
    etl_pcapng_interface(to, &interface);
    for (size_t i = 0; i < n; i++) {
        raw.wall_ns++;
        if (!etl_packets_take(packets, &raw, &one)) {
            bench_fail("a packet is not read");
        }
        etl_pcapng_packet(to, &(struct etl_pcapng_packet){.wall_ns = raw.wall_ns,
                                                          .original = one.original,
                                                          .bytes = one.bytes,
                                                          .n = one.n,
                                                          .way = one.way,
                                                          .has_id = one.grouped,
                                                          .id = one.group});
    }
    bench_check(etl_pcapng_close(to), path);
    took_ns = os_cpu_ns() - took_ns;
    etl_packets_destroy(packets);
    return (double)n * PACKET * 1e3 / (double)took_ns;
}

static void ask_packets(void)
{
    char dir[256], path[300];
    double best = 0;

    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.pcapng", dir);
    for (int i = 0; i < (bench_quick() ? 1 : 3); i++) {
        double rate = packets_rate(path);

        best = rate > best ? rate : best;
    }
    support_remove_dir(dir);
    bench_figure("packets to a capture", best, "MB/s", 300, BENCH_MORE);
}

static void ask_stacks(const char *name, const char *figure)
{
    double best = 0;

    load(name, is_for_stacks);
    for (int i = 0; i < (bench_quick() ? 2 : ROUNDS); i++) {
        double rate = stacks_rate();

        best = rate > best ? rate : best;
    }
    bench_figure(figure, best, "M records/s", 2, BENCH_MORE);
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv, "bench_etl_ask", "questions to recordings, one core");
    ask_packets();
    if (!corpus_dir()) {
        return bench_end();
    }
    records = calloc(RECORDS_MAX, sizeof *records);
    arena_init(&payloads, BYTES_MAX);
    if (!records) {
        bench_fail("out of memory");
    }
    load("net.4.5.x86-win7", is_clr);
    bench_figure("sums of each process", best_rate(ETL_CLR_PROCESSES), "M records/s", 3,
                 BENCH_MORE);
    bench_figure("allocations by type", best_rate(ETL_CLR_ALLOC), "M records/s", 3, BENCH_MORE);
    bench_figure("records by id and version", best_rate(ETL_CLR_EVENTS), "M records/s", 3,
                 BENCH_MORE);
    ask_stacks("net.4.5.2.x64", "stacks by keys");
    ask_stacks("net.4.5.x86-win7", "stacks of 7 frames");
    arena_fini(&payloads);
    free(records);
    return bench_end();
}
