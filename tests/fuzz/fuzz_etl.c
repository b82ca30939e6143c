/* Any bytes as a trace file, read through the whole source. Input that is no trace file at all is
 * put behind a good first buffer instead, so that damage further in is reached soon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etl_file.h"
#include "tests/support/etl_writer.h"
#include "tests/support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static char dir[256], path[300];

struct seen {
    uint64_t records, bytes;
    int64_t now_ns;
};

static void on_raw(void *ctx, const struct raw_event *ev)
{
    struct seen *s = ctx;

    for (size_t i = 0; i < ev->payload_n; i++) {
        s->bytes += ev->payload[i];
    }
    for (size_t i = 0; i < ev->ext_n; i++) {
        s->bytes += ev->ext[i];
    }
    s->records += !ev->early;
    if (!ev->early && ev->wall_ns != s->now_ns) {
        abort();
    }
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct seen *s = ctx;

    (void)mono_ns;
    if (wall_ns <= s->now_ns) {
        abort();
    }
    s->now_ns = wall_ns;
}

static enum err read_it(void)
{
    const char *paths[1] = {path};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1, .rebase = true};
    struct seen seen = {.now_ns = INT64_MIN};
    struct source_sink sink = {.ctx = &seen, .raw = on_raw, .advance = on_advance};
    struct source_stats stats;
    struct source *src;
    enum err e = etl_file_open(&src, &conf, sink, NULL);

    if (e) {
        return e;
    }
    e = src->ops->run(src);
    src->ops->stats(src, &stats);
    if (e != ERR_END || stats.in < seen.records) {
        abort();
    }
    src->ops->close(src);
    return ERR_OK;
}

static void remove_dir(void)
{
    support_remove_dir(dir);
}

static void save(const uint8_t *p, size_t n, bool behind_header)
{
    struct etl_writer_conf conf = etl_writer_defaults();
    struct etl_writer w;

    etl_writer_init(&w, &conf);
    etl_writer_close(&w);
    w.file.n = behind_header ? w.file.n : 0;
    buf_put(&w.file, p, n);
    etl_writer_save(&w, path);
    etl_writer_fini(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (!dir[0]) {
        support_temp_dir(dir, sizeof dir);
        (void)snprintf(path, sizeof path, "%s/fuzz.etl", dir);
        (void)atexit(remove_dir);
    }
    save(p, n, false);
    if (read_it()) {
        save(p, n, true);
        if (read_it()) {
            abort();
        }
    }
    return 0;
}
