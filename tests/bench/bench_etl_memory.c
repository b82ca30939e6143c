/* Memory and time of reading large trace files: 4 GiB, made here, read from open to close, plain
 * and compressed; 64 MiB with --quick. Run it where the temporary directory has room (TMPDIR). */
#include <stdio.h>
#include <stdlib.h>

#include "agent/source/trace/etl_file.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/etl_load.h"
#include "tests/support/support.h"

#define GOAL_MIB 32

static void on_raw(void *ctx, const struct raw_event *ev)
{
    uint64_t *n = ctx;

    *n += !ev->early;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static uint64_t read_file(const char *path)
{
    struct etl_file_conf conf = {.paths = &path, .n_paths = 1};
    uint64_t n = 0;
    struct source_sink sink = {.ctx = &n, .raw = on_raw, .advance = on_advance};
    struct source *src;

    if (etl_file_open(&src, &conf, sink, NULL) || src->ops->run(src) != ERR_END) {
        fprintf(stderr, "bench_etl_memory: cannot read %s\n", path);
        exit(1);
    }
    src->ops->close(src);
    return n;
}

static void measure(const char *path, uint64_t bytes, bool compress)
{
    uint64_t made = etl_load_make(path, bytes, compress), n;
    int64_t began = os_cpu_ns();
    double seconds;

    n = read_file(path);
    seconds = (double)(os_cpu_ns() - began) / 1e9;
    if (n != made) {
        fprintf(stderr, "bench_etl_memory: %llu records instead of %llu\n", (unsigned long long)n,
                (unsigned long long)made);
        exit(1);
    }
    bench_figure(compress ? "etl_large_compressed_records" : "etl_large_records", (double)n / 1e6,
                 "M", 0, BENCH_MORE);
    bench_figure(compress ? "etl_large_compressed_read" : "etl_large_read",
                 (double)n / 1e6 / seconds, "M records/s", 0, BENCH_MORE);
    /* The most this process ever held: making the file too, which needs less. */
    bench_figure(compress ? "etl_large_compressed_peak" : "etl_large_peak",
                 (double)os_resident_peak() / (1 << 20), "MiB resident", GOAL_MIB, BENCH_LESS);
}

int main(int argc, char **argv)
{
    uint64_t bytes, room, total;
    char dir[256], path[300];

    bench_begin(argc, argv, "bench_etl_memory", "Trace files of 4 GiB, resident memory.");
    bytes = bench_quick() ? UINT64_C(64) << 20 : UINT64_C(4) << 30;
    support_temp_dir(dir, sizeof dir);
    if (os_disk_free(dir, &room, &total) || room < bytes + bytes / 4) {
        printf("skipped: %s has too little room (TMPDIR names another place)\n", dir);
        support_remove_dir(dir);
        return 77;
    }
    (void)snprintf(path, sizeof path, "%s/large.etl", dir);
    measure(path, bytes, false);
    measure(path, bytes, true);
    support_remove_dir(dir);
    return bench_end();
}
