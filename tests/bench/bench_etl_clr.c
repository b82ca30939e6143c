/* Records of .NET's runtime to figures, in memory, on one core: those of a recording in the corpus,
 * decoded, paired and counted as `etl clr` does it, with the list that costs most. Time is CPU time
 * and the best of several rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/decode/decode_class.h"
#include "agent/etl/etl_clr_figures.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/arena.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/corpus.h"

#define RECORDS_MAX (1u << 18)
#define BYTES_MAX   (256u << 20)
#define ROUNDS      20

static struct raw_event *records;
static size_t n_records;
static struct arena payloads;

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct raw_event *r;

    (void)ctx;
    if (raw->early || memcmp(raw->guid, decode_clr_class.guid, sizeof raw->guid) != 0 ||
        n_records == RECORDS_MAX) {
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

static void load(const char *name)
{
    char path[1024];
    const char *paths[1] = {corpus_recording(path, sizeof path, name)};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct source_sink sink = {.raw = on_raw, .advance = on_advance};
    struct source *source;

    bench_check(etl_file_open(&source, &conf, sink, NULL), name);
    (void)source->ops->run(source);
    source->ops->close(source);
}

/* One pass over all records; ns of CPU time. */
static int64_t pass(enum etl_clr_list list)
{
    struct instances_conf conf = {.instances_max = 64, .threads_max = 64, .text_max = 4096};
    struct etl_walk walk = {0};
    struct etl_clr_figures *f;
    struct decode *d;
    int64_t took_ns;

    bench_check(instances_create(&walk.table, &conf), NULL);
    bench_check(decode_create(&d), NULL);
    bench_check(etl_clr_figures_create(&f, list, NULL), NULL);
    f->walk = &walk;
    took_ns = os_cpu_ns();
    for (size_t i = 0; i < n_records; i++) {
        struct event ev;
        struct etl_walk_record r = {.raw = &records[i]};

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

int main(int argc, char **argv)
{
    bench_begin(argc, argv, "bench_etl_clr", "records of .NET to figures, one core");
    if (!corpus_dir()) {
        return 0;
    }
    records = calloc(RECORDS_MAX, sizeof *records);
    arena_init(&payloads, BYTES_MAX);
    if (!records) {
        bench_fail("out of memory");
    }
    load("net.4.5.x86-win7");
    bench_figure("sums of each process", best_rate(ETL_CLR_PROCESSES), "M records/s", 3,
                 BENCH_MORE);
    bench_figure("allocations by type", best_rate(ETL_CLR_ALLOC), "M records/s", 3, BENCH_MORE);
    bench_figure("records by id and version", best_rate(ETL_CLR_EVENTS), "M records/s", 3,
                 BENCH_MORE);
    arena_fini(&payloads);
    free(records);
    return bench_end();
}
