/* Any bytes as a trace file (etl_shape.h), read through the whole source. Every byte it hands on is
 * read; times never go back; a second reading gives the same. */
#include <stdlib.h>
#include <string.h>

#include "agent/source/trace/etl_census.h"
#include "agent/source/trace/etl_file.h"
#include "tests/fuzz/etl_shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

struct seen {
    uint64_t records, early, lost, bytes;
    int64_t now_ns;
    bool times; /* the recording's own, without rebasing */
};

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

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
    s->early += ev->early;
    must(ev->early || ev->wall_ns == s->now_ns);
    must(ev->pointer_size == 4 || ev->pointer_size == 8);
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct seen *s = ctx;

    if (ev->kind == EV_GROUPS) {
        return;
    }
    must(ev->kind == EV_LOST);
    s->lost++;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct seen *s = ctx;

    (void)mono_ns;
    must(wall_ns > s->now_ns);
    s->now_ns = wall_ns;
}

static bool read_it(struct seen *seen, const char *const paths[2], size_t n_paths, bool rebase)
{
    struct etl_file_conf conf = {
        .paths = paths, .n_paths = n_paths, .rebase = rebase, .schemas = true};
    struct source_sink sink = {.ctx = seen, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    static struct etl_census census;
    struct source_stats stats;
    struct source *src;

    *seen = (struct seen){.now_ns = INT64_MIN};
    if (etl_file_open(&src, &conf, sink, NULL)) {
        return false;
    }
    must(etl_file_census(src, 0, &census) == ERR_OK);
    must(etl_file_census(src, n_paths, &census) == ERR_NOTFOUND);
    must(src->ops->run(src) == ERR_END);
    src->ops->stats(src, &stats);
    must(stats.in >= seen->records);
    src->ops->close(src);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    const char *paths[2];
    size_t n_paths = etl_shape_files(paths, p, n);
    struct seen first, again;

    if (!read_it(&first, paths, n_paths, true)) {
        return 0;
    }
    must(read_it(&again, paths, n_paths, false));
    must(first.records == again.records && first.early == again.early);
    must(first.lost == again.lost && first.bytes == again.bytes);
    return 0;
}
