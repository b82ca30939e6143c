/* Every real recording, cut at random lengths and with random bits flipped: no crash, no hang, no
 * unbounded memory, and what is missing shows. 1,000 cuts and 1,000 flips of each file with
 * PROCFLEET_TRIALS=1000 (`ctest -C long`), else as many as take a minute under sanitizers.
 *
 * What must show. A file that ends before its size, when it can be opened at all, counts damage,
 * unless it ends between two buffers and its header gives no number of buffers to miss (never
 * closed, or circular). Flipped bits are seen where they break the structure; a flipped length that
 * happens to fit, or bits of a payload, no reader can see. So, where flips cost records, that must
 * show in the counters in all but a few per cent of the trials; the test prints how many. */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/decode/decode.h"
#include "agent/source/trace/etl_census.h"
#include "agent/source/trace/etl_file.h"
#include "agent/source/trace/etl_input.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/corpus.h"
#include "tests/support/support.h"

#define SHORT_BYTES    (24u << 20) /* of each file in the short form, read again and again */
#define SHORT_TRIALS   150
#define MANY_FLIPS     1000
#define SILENT_PERCENT 2

/* Resident. Sanitizers keep freed memory, and a shadow of all of it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GROWTH_MAX (INT64_C(2) << 30)
#else
#define GROWTH_MAX (INT64_C(128) << 20)
#endif

static char dir[256], path[300];

static struct tally {
    unsigned cuts, refused, flips, fewer, silent;
} all;

struct got {
    struct decode *decode;
    uint64_t records, events, limit; /* limit: more records than bytes can hold are a hang */
    int64_t now_ns;
};

struct result {
    enum err opened;
    uint64_t records;
    struct source_stats stats;
};

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct got *g = ctx;
    struct event ev;

    assert_true(raw->early || raw->wall_ns == g->now_ns);
    assert_true(++g->events <= 2 * g->limit);
    g->records += !raw->early;
    err_ignore(decode_event(g->decode, raw, &ev));
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct got *g = ctx;

    if (ev->kind == EV_GROUPS) {
        return; /* before all else */
    }
    assert_int_equal(ev->kind, EV_LOST);
    assert_int_equal(ev->wall_ns, g->now_ns);
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct got *g = ctx;

    (void)mono_ns;
    assert_true(wall_ns > g->now_ns);
    g->now_ns = wall_ns;
}

/* `bytes`: unpacked, of all buffers of the undamaged file. */
static struct result read_it(uint64_t bytes)
{
    const char *paths[1] = {path};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1, .schemas = true};
    struct got g = {.limit = 4 * (bytes / 8) + 100000, .now_ns = INT64_MIN};
    struct source_sink sink = {.ctx = &g, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct result r = {ERR_OK, 0, {0}};
    long live = mem_live();
    struct source *src;

    assert_ok(decode_create(&g.decode));
    r.opened = etl_file_open(&src, &conf, sink, NULL);
    if (!r.opened) {
        assert_err(src->ops->run(src), ERR_END);
        src->ops->stats(src, &r.stats);
        src->ops->close(src);
    } else {
        assert_true(r.opened == ERR_CORRUPT || r.opened == ERR_FULL);
    }
    decode_destroy(g.decode);
    assert_int_equal(mem_live(), live);
    r.records = g.records;
    return r;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 16;
}

/* A recording unpacked into memory and into `path`. */
struct file {
    uint8_t *p;
    size_t n;
    uint64_t unpacked;
    bool counts_buffers; /* its header gives a number of buffers to compare with */
    uint64_t records;
    unsigned trials;
    uint64_t seed;
};

static uint32_t at32(const struct file *f, size_t at)
{
    uint32_t v = 0;

    memcpy(&v, f->p + at, at + 4 <= f->n ? 4 : 0);
    return v;
}

static bool between_buffers(const struct file *f, size_t length)
{
    size_t at = 0;

    while (at < length && at32(f, at) > 0) {
        at += at32(f, at);
    }
    return at == length;
}

static int downwards(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x < y) - (x > y);
}

/* From long to short, so that the file never has to be written again. */
static void read_cut(struct file *f)
{
    size_t *lengths = calloc(f->trials, sizeof *lengths);

    assert_non_null(lengths);
    for (unsigned i = 0; i < f->trials; i++) {
        lengths[i] = (size_t)(next_random(&f->seed) % f->n);
    }
    qsort(lengths, f->trials, sizeof *lengths, downwards);
    for (unsigned i = 0; i < f->trials; i++) {
        struct result r;

        assert_int_equal(truncate(path, (off_t)lengths[i]), 0);
        r = read_it(f->unpacked);
        all.cuts++;
        all.refused += r.opened != ERR_OK;
        if (!r.opened) {
            assert_true(r.records <= f->records);
            assert_true(r.stats.damaged > 0 ||
                        (!f->counts_buffers && between_buffers(f, lengths[i])));
        }
    }
    free(lengths);
}

static void flip(FILE *out, const struct file *f, size_t at, uint8_t mask)
{
    assert_int_equal(fseek(out, (long)at, SEEK_SET), 0);
    assert_int_equal(fputc(f->p[at] ^ mask, out) == EOF, 0);
}

static void count_flips(const struct file *f, const struct result *r)
{
    const struct source_stats *s = &r->stats;

    all.flips++;
    if (!r->opened && r->records < f->records) {
        all.fewer++;
        all.silent += s->damaged + s->skipped_bytes == 0;
    }
}

/* One bit, or every tenth time a thousand of them. */
static void read_flipped(struct file *f)
{
    static size_t places[MANY_FLIPS];
    FILE *out = fopen(path, "rb+");

    assert_non_null(out);
    for (unsigned i = 0; i < f->trials; i++) {
        size_t n = i % 10 == 9 ? MANY_FLIPS : 1;
        struct result r;

        for (size_t k = 0; k < n; k++) {
            /* Half of them where headers stand: at the start of one of the first buffers. */
            size_t below = next_random(&f->seed) % 2 ? f->n : f->n < 4096 ? f->n : 4096;

            places[k] = (size_t)(next_random(&f->seed) % below);
            flip(out, f, places[k], (uint8_t)(1u << next_random(&f->seed) % 8));
        }
        assert_int_equal(fflush(out), 0);
        r = read_it(f->unpacked);
        count_flips(f, &r);
        for (size_t k = 0; k < n; k++) {
            flip(out, f, places[k], 0);
        }
        assert_int_equal(fflush(out), 0);
    }
    assert_int_equal(fclose(out), 0);
}

static void load(struct file *f, const char *recording)
{
    const char *paths[1] = {recording};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct source_sink none = {0};
    struct etl_census census;
    struct etl_input *in;
    struct source *src;
    size_t got;

    assert_ok(etl_input_open(&in, recording, NULL));
    f->n = (size_t)etl_input_size(in);
    f->p = malloc(f->n);
    assert_non_null(f->p);
    assert_ok(etl_input_read(in, 0, f->p, f->n, &got));
    etl_input_close(in);
    assert_ok(etl_file_open(&src, &conf, none, NULL));
    assert_ok(etl_file_census(src, 0, &census));
    src->ops->close(src);
    f->counts_buffers = census.end_time && !(census.mode & 2);
    f->unpacked = (census.compressed + 1) * census.buffer_size + f->n;
}

static void survives(const char *name, const json_t *figures)
{
    const char *trials = getenv("PROCFLEET_TRIALS");
    struct file f = {.seed = 0x2545f4914f6cdd1d};
    char recording[1024];

    load(&f, corpus_recording(recording, sizeof recording, name));
    f.records = (uint64_t)json_integer_value(json_object_get(figures, "events_total"));
    f.trials = 1 + (unsigned)(SHORT_BYTES / f.unpacked);
    f.trials = f.trials < SHORT_TRIALS ? f.trials : SHORT_TRIALS;
    f.trials = trials ? (unsigned)strtoul(trials, NULL, 10) : f.trials;
    assert_ok(os_write_file(path, f.p, f.n, false));
    assert_int_equal(read_it(f.unpacked).records, f.records);
    read_flipped(&f);
    read_cut(&f);
    free(f.p);
}

static void every_recording_survives_cuts_and_flips(void **state)
{
    int64_t before = os_resident_peak();

    (void)corpus_each(survives);
    print_message("%u cuts, %u of them refused; %u flips, %u cost records, %u of these silently\n",
                  all.cuts, all.refused, all.flips, all.fewer, all.silent);
    print_message("resident: %lld MiB at most, %lld before\n",
                  (long long)(os_resident_peak() >> 20), (long long)(before >> 20));
    assert_true(all.silent * 100 <= all.flips * SILENT_PERCENT);
    assert_true(os_resident_peak() - before < GROWTH_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_recording_survives_cuts_and_flips)};
    int failed;

    if (!corpus_dir()) {
        return CORPUS_SKIP;
    }
    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/hostile.etl", dir);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_remove_dir(dir);
    return failed;
}
