/* A file of each format that was ever written is still read. They are made once, by this program
 * with PROCFLEET_MAKE_FIXTURES=1 when a format is new, and never again: what is there stays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/manifest/manifest_log.h"
#include "collector/store/segment/seg_scan.h"
#include "collector/store/segment/window.h"
#include "collector/store/wal/wal_source.h"
#include "collector/subscribe/journal_format.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/store/segment/seg_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define FIXTURES "tests/collector/fixtures/"

static char dir[256];

static const char *path_in(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static const char *name_of(const struct seg_info *info)
{
    static char name[SEG_NAME_MAX];

    seg_name(name, info);
    return name;
}

static void copy(const char *to, const char *from)
{
    uint8_t *p;
    size_t n;

    if (os_exists(to)) {
        return;
    }
    assert_ok(os_read_file(&p, &n, from, 1u << 20));
    assert_ok(os_write_file(to, p, n, false));
    mem_free(p);
}

/* What is written has not changed, byte for byte, since the fixture was made. */
static void same(const char *name, const struct buf *b)
{
    uint8_t *p;
    size_t n;

    assert_ok(b->bad);
    if (getenv("PROCFLEET_MAKE_FIXTURES") && !os_exists(name)) {
        assert_ok(os_write_file(name, b->p, b->n, false));
    }
    assert_ok(os_read_file(&p, &n, name, 1u << 20));
    assert_int_equal(n, b->n);
    assert_memory_equal(p, b->p, n);
    mem_free(p);
}

/* -- the log -- */

struct records {
    size_t n;
    bool clocks;
};

static enum err check_record(void *ctx, const struct wal_record *r)
{
    struct records *seen = ctx;

    seen->n++;
    assert_int_equal(r->kind, WAL_BATCH);
    assert_int_equal(r->seq, seen->n);
    assert_int_equal(r->stream, 77);
    assert_true(str_eq(r->host_name, str_make("host")));
    assert_int_equal(r->n, 13);
    assert_memory_equal(r->bytes, "encoded batch", 13);
    assert_int_equal(r->clock.known, r->seq > 1);
    assert_int_equal(r->clock.bounded, r->seq > 2);
    assert_true(r->clock.offset_ns == (r->seq > 1 ? -5 : 0));
    assert_int_equal(r->clock.error_ns, r->seq > 2 ? 7 : 0);
    return ERR_OK;
}

static void put_log(struct buf *b)
{
    struct wal_record r = {.kind = WAL_BATCH,
                           .host = {{1, 2, 3}},
                           .stream = 77,
                           .host_name = str_make("host"),
                           .bytes = "encoded batch",
                           .n = 13};

    wal_source_header_put(b, 1, 99, 0);
    for (r.seq = 1; r.seq <= 3; r.seq++) {
        r.clock = (struct host_offset){.known = r.seq > 1,
                                       .bounded = r.seq > 2,
                                       .offset_ns = r.seq > 1 ? -5 : 0,
                                       .error_ns = r.seq > 2 ? 7 : 0};
        wal_record_put(b, &r, 99);
    }
}

static void check_log(const char *name, unsigned version)
{
    const struct fio *fio = fio_os();
    struct records seen = {0};
    struct wal_header header;
    struct wal_replay job = {.fio = fio, .header = &header, .each = check_record, .ctx = &seen};
    struct wal_replayed done;
    struct fio_file *f;

    copy(path_in("log"), name);
    assert_ok(fio->open(fio->ctx, &f, path_in("log")));
    assert_ok(fio->size(fio->ctx, f, &job.size));
    assert_ok(wal_source_header(&header, fio, f, 1));
    assert_int_equal(header.version, version);
    assert_int_equal(header.damaged, 0);
    job.f = f;
    assert_ok(wal_source_replay(&done, &job));
    fio->close(fio->ctx, f);
    assert_int_equal(seen.n, 3);
    assert_int_equal(done.bad_records, 0);
    assert_int_equal(done.end, job.size);
}

static void format_2_of_the_log_is_read(void **state)
{
    check_log(FIXTURES "wal-format2.log", 2);
}

static void format_3_of_the_log_is_read_and_written(void **state)
{
    struct buf b;

    check_log(FIXTURES "wal-format3.log", 3);
    buf_init(&b, 4096);
    put_log(&b);
    same(FIXTURES "wal-format3.log", &b);
    buf_fini(&b);
}

/* -- a segment -- */

static enum err check_stream(void *ctx, const struct dedup_stream *st)
{
    (*(size_t *)ctx)++;
    assert_int_equal(st->n_ranges, 2);
    assert_int_equal(st->ranges[0].first, 1);
    assert_int_equal(st->ranges[0].last, 7);
    assert_int_equal(st->ranges[1].first, 9);
    assert_int_equal(st->ranges[1].last, 12);
    return ERR_OK;
}

static void check_values(const struct seg *s)
{
    struct arena a;

    arena_init(&a, 1u << 20);
    for (size_t i = 0; i < seg_values(s); i++) {
        uint32_t length;
        struct seg_key k = seg_key_at(s, i, &length);
        const uint8_t *p;
        size_t n;

        assert_ok(seg_read(s, &a, k, &p, &n));
        assert_true(seg_rig_is(k, p, n));
    }
    arena_fini(&a);
}

static void format_1_of_segments_is_read(void **state)
{
    struct seg_info info = seg_rig_info(17);
    struct seg *s;
    uint64_t values, damaged;
    size_t streams = 0;

    copy(path_in(name_of(&info)), FIXTURES "segment-format1.seg");
    assert_ok(seg_open(&s, fio_os(), dir, &info, NULL));
    assert_int_equal(seg_info_of(s)->number, 17);
    assert_int_equal(seg_info_of(s)->kind, SEG_RAW);
    assert_int_equal(seg_info_of(s)->values, SEG_RIG_SAMPLES);
    assert_int_equal(seg_info_of(s)->t0_ns, 1);
    assert_int_equal(seg_info_of(s)->t1_ns, 2 * SEG_RIG_WINDOW + 100);
    assert_ok(seg_scan_verify(s, &values, &damaged));
    assert_int_equal(values, seg_rig_values());
    assert_int_equal(damaged, 0);
    assert_int_equal(seg_hosts(s), SEG_RIG_HOSTS);
    assert_string_equal(seg_host(s, 1)->name, "host-1");
    assert_int_equal(seg_window(s, 2), 1002 * SEG_RIG_WINDOW);
    assert_ok(seg_each_ranges(s, check_stream, &streams));
    assert_int_equal(streams, SEG_RIG_HOSTS);
    check_values(s);
    seg_close(s);
}

/* -- the manifest -- */

static struct seg_info listed(unsigned i)
{
    struct seg_info s = {.number = i,
                         .kind = (uint8_t)i,
                         .n_windows = (uint8_t)(i * 3),
                         .patch = i == 2,
                         .in_hour = i == 3,
                         .window_ns = (int64_t)i * SEG_RIG_WINDOW,
                         .span_ns = SEG_RIG_WINDOW,
                         .t0_ns = -(int64_t)i,
                         .t1_ns = (int64_t)i * 1000,
                         .bytes = 100 + i,
                         .values = 7 * i};

    return s;
}

/* A checkpoint, an addition, and one of both. */
static void put_manifest(struct buf *b, uint64_t seed)
{
    struct manifest_record r = {.checkpoint = true, .next_number = 1};
    struct seg_info s[6];
    uint64_t drop = 1;

    for (unsigned i = 1; i < 6; i++) {
        s[i] = listed(i);
    }
    manifest_log_header(b, seed);
    manifest_log_record(b, &r, seed);
    r = (struct manifest_record){.seq = 1, .next_number = 6, .add = s + 1, .n_add = 3};
    manifest_log_record(b, &r, seed);
    r = (struct manifest_record){
        .seq = 2, .next_number = 6, .add = s + 4, .n_add = 2, .drop = &drop, .n_drop = 1};
    manifest_log_record(b, &r, seed);
}

static void format_1_of_the_manifest_is_written(void **state)
{
    struct manifest_loaded old;
    struct buf b;
    uint8_t *p;
    size_t n;

    assert_ok(os_read_file(&p, &n, FIXTURES "manifest-format1", 1u << 20));
    assert_ok(manifest_log_read(&old, p, n, NULL, NULL));
    buf_init(&b, 4096);
    put_manifest(&b, old.seed);
    same(FIXTURES "manifest-format1", &b);
    buf_fini(&b);
    mem_free(old.segments);
    mem_free(p);
}

static void format_1_of_the_manifest_is_read(void **state)
{
    struct manifest_conf conf = {dir, fio_os()};
    struct manifest *m;
    struct manifest_list *l;
    struct manifest_stats st;

    copy(path_in("manifest"), FIXTURES "manifest-format1");
    for (unsigned i = 2; i < 6; i++) {
        struct seg_info s = listed(i);

        assert_ok(os_write_file(path_in(name_of(&s)), "x", 1, false));
    }
    assert_ok(manifest_open(&m, &conf, NULL));
    l = manifest_view(m);
    manifest_stats(m, &st);
    assert_int_equal(manifest_segments(l), 4);
    assert_int_equal(st.missing + st.torn_bytes + st.damaged_records + st.leftovers, 0);
    for (unsigned i = 2; i < 6; i++) {
        const struct seg_info *s = manifest_segment(l, i - 2);
        struct seg_info want = listed(i);

        assert_int_equal(s->number, want.number);
        assert_int_equal(s->kind, want.kind);
        assert_int_equal(s->n_windows, want.n_windows);
        assert_int_equal(s->patch, want.patch);
        assert_int_equal(s->in_hour, want.in_hour);
        assert_true(s->window_ns == want.window_ns && s->span_ns == want.span_ns);
        assert_true(s->t0_ns == want.t0_ns && s->t1_ns == want.t1_ns);
        assert_true(s->bytes == want.bytes && s->values == want.values);
    }
    assert_int_equal(manifest_number(m), 6);
    manifest_list_release(l);
    manifest_close(m);
}

/* -- a store: values of every kind of segment -- */

#define STORE   FIXTURES "store-format1"
#define BATCHES 40
/* As told when it was made: */
#define STORE_SAMPLES 2400u
#define STORE_DIGEST  UINT64_C(15947210962598920549)

static struct rig rig;

/* Samples and what they are, whatever their order. */
struct samples {
    uint64_t n, digest;
};

static enum err add_rows(void *ctx, const struct store_block *b)
{
    struct samples *all = ctx;
    const struct batch *rows = b->batch;

    for (size_t c = 0; c < rows->n_columns; c++) {
        size_t at = 0;

        for (size_t i = 0; i < rows->n_runs; i++) {
            const struct batch_run *run = &rows->runs[i];

            if (!(run->mask & METRIC_BIT(rows->columns[c].metric))) {
                continue;
            }
            for (size_t k = 0; k < run->n_ticks; k++, at++, all->n++) {
                int64_t sample[4] = {rows->wall_ns[run->first_tick + k], (int64_t)run->id.pid,
                                     rows->columns[c].metric, rows->columns[c].values[at]};

                all->digest += hash_bytes(sample, sizeof sample, 0);
            }
        }
    }
    return ERR_OK;
}

static enum err add_cells(void *ctx, const struct store_cell_row *row)
{
    struct samples *all = ctx;
    size_t at = 0;

    for (unsigned m = 0; m < METRIC_COLS; m++) {
        if (row->mask & METRIC_BIT(m)) {
            const struct cell *c = &row->cells[at++];

            all->n += row->before ? 0 : c->count;
            all->digest += (uint64_t)(c->max + c->min);
        }
    }
    return ERR_OK;
}

/* Everything of the one host, from blocks or from cells. */
static struct samples read_store(bool cells, struct store_used *used)
{
    struct store_range range = {.since_ns = 0,
                                .until_ns = INT64_MAX / 2,
                                .made_since_ns = INT64_MIN,
                                .metrics = ~UINT64_C(0),
                                .used = used};
    struct store_cells ask = {.since_ns = 0,
                              .until_ns = INT64_MAX / 2,
                              .metrics = ~UINT64_C(0),
                              .folded = true,
                              .used = used};
    struct samples all = {0, 0};
    struct store_view *v;

    memset(used, 0, sizeof *used);
    assert_ok(store_view_open(&v, rig.store));
    assert_int_equal(store_view_hosts(v), 1);
    assert_string_equal(store_view_host(v, 0)->name, "gen-1");
    if (cells) {
        assert_ok(store_cells_scan(v, 0, &ask, add_cells, &all, NULL));
    } else {
        assert_ok(store_blocks_scan(v, 0, &range, add_rows, &all));
    }
    store_view_close(v);
    return all;
}

static enum err copy_one(void *ctx, const char *name)
{
    const char *const *dirs = ctx;
    char to[600], from[600];

    snprintf(to, sizeof to, "%s/%s", dirs[0], name);
    snprintf(from, sizeof from, "%s/%s", dirs[1], name);
    copy(to, from);
    return ERR_OK;
}

static void copy_all(const char *to, const char *from)
{
    const char *dirs[2] = {to, from};

    assert_ok(os_mkdirs(to, false));
    assert_ok(os_list_dir(from, copy_one, dirs));
}

/* Copies the fixture and takes all segments but those of this kind and the rests out of it. */
static void open_only(unsigned kind)
{
    struct manifest_conf conf = {.fio = fio_unsynced()};
    char segments[300];
    struct manifest_list *l;
    struct manifest *m;
    uint64_t drop[16];
    size_t n = 0;

    rig_init(&rig);
    rig_set_now(RIG_T0 + 24 * WINDOW_NS);
    snprintf(segments, sizeof segments, "%s/segments", rig.dir);
    copy_all(segments, STORE);
    conf.dir = segments;
    assert_ok(manifest_open(&m, &conf, NULL));
    l = manifest_view(m);
    for (size_t i = 0; i < manifest_segments(l); i++) {
        if (manifest_segment(l, i)->kind != kind && manifest_segment(l, i)->kind != SEG_REST) {
            drop[n++] = manifest_segment(l, i)->number;
        }
    }
    manifest_list_release(l);
    assert_ok(manifest_change(m, NULL, 0, drop, n, NULL));
    manifest_publish(m);
    manifest_close(m);
    rig_open(&rig);
}

static void values_of_format_1_are_read(void **state)
{
    static const struct {
        unsigned kind; /* that is left */
        enum store_tier used;
    } rows[] = {
        {SEG_RAW, STORE_SUMMARY},
        {SEG_10S, STORE_10S},
        {SEG_1MIN, STORE_1MIN},
        {SEG_1H, STORE_1H},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct store_used used;
        struct samples all;

        open_only(rows[i].kind);
        assert_int_equal(rig_count_all(&rig), BATCHES);
        all = read_store(false, &used);
        assert_int_equal(all.n, i ? 0 : STORE_SAMPLES);
        assert_true(all.digest == (i ? 0 : STORE_DIGEST));
        all = read_store(true, &used);
        assert_int_equal(all.n, STORE_SAMPLES);
        assert_true(used.windows[rows[i].used] > 0);
        assert_int_equal(used.damaged, 0);
        rig_fini(&rig);
    }
}

static void make_store(void)
{
    struct fleetgen *g = rig_host(1);
    struct store_used used;
    struct samples all;
    char segments[300];

    rig_init(&rig);
    rig_open(&rig);
    rig_put_next(&rig, g, BATCHES);
    rig_set_now(RIG_T0 + 24 * WINDOW_NS);
    assert_ok(store_seal_now(rig.store, rig_now()));
    all = read_store(false, &used);
    print_message("STORE_SAMPLES %llu\nSTORE_DIGEST %llu\n", (unsigned long long)all.n,
                  (unsigned long long)all.digest);
    all = read_store(true, &used);
    print_message("cells: %llu\n", (unsigned long long)all.n);
    rig_close(&rig);
    snprintf(segments, sizeof segments, "%s/segments", rig.dir);
    if (!os_exists(STORE)) {
        copy_all(STORE, segments);
    }
    rig_fini(&rig);
    fleetgen_destroy(g);
}

static void make(void **state)
{
    struct seg_info info = seg_rig_info(17);
    struct buf b;

    buf_init(&b, 4096);
    put_log(&b);
    assert_ok(os_write_file(path_in("log"), b.p, b.n, false));
    copy(FIXTURES "wal-format3.log", path_in("log"));
    assert_ok(os_remove(path_in("log")));
    assert_ok(seg_rig_write(fio_unsynced(), dir, &info));
    copy(FIXTURES "segment-format1.seg", path_in(name_of(&info)));
    assert_ok(os_remove(path_in(name_of(&info))));
    buf_reset(&b);
    put_manifest(&b, 99);
    assert_ok(os_write_file(path_in("manifest"), b.p, b.n, false));
    buf_fini(&b);
    copy(FIXTURES "manifest-format1", path_in("manifest"));
    make_store();
}

/* -- the journal -- */

#define SEED UINT64_C(0x0123456789abcdef)

static void format_2_of_the_journal_is_written(void **state)
{
    const struct journal_header h = {.number = 5, .epoch = 11, .seed = SEED, .position = 42};
    const struct journal_topic topic = {.name = str_make("host"), .seq = {3, 4}};
    struct journal_part part = {.kind = JOURNAL_TOPICS};
    struct buf b, topics;

    buf_init(&b, 1u << 16);
    buf_init(&topics, 1u << 10);
    journal_format_put_header(&b, &h);
    journal_format_put_topic(&topics, JOURNAL_TOPICS, &topic);
    part.about.n = part.content_n = topics.n;
    part.content = topics.p;
    journal_format_put_part(&b, &part, SEED);
    part = (struct journal_part){.kind = JOURNAL_MESSAGE,
                                 .about = {.position = 42,
                                           .seq = 5,
                                           .topic = FEED_SAMPLE,
                                           .host = {{9, 8, 7}},
                                           .name = "host",
                                           .stream = 77,
                                           .batch = 1,
                                           .last_batch = 3,
                                           .more = true,
                                           .stored_ns = 1000,
                                           .first_ns = 2000,
                                           .last_ns = 3000,
                                           .n = 14},
                                 .content = "encoded update",
                                 .content_n = 14};
    journal_format_put_part(&b, &part, SEED);
    part.packed = true;
    part.about.more = false;
    part.about.position++;
    part.content_n = 9;
    journal_format_put_part(&b, &part, SEED);
    same(FIXTURES "feed-bytes2.log", &b);
    buf_fini(&topics);
    buf_fini(&b);
}

int main(void)
{
#define T(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)
    const struct CMUnitTest maker[] = {T(make)};
    const struct CMUnitTest tests[] = {
        T(format_2_of_the_log_is_read),         T(format_3_of_the_log_is_read_and_written),
        T(format_1_of_segments_is_read),        T(format_1_of_the_manifest_is_read),
        T(values_of_format_1_are_read),         T(format_2_of_the_journal_is_written),
        T(format_1_of_the_manifest_is_written),
    };

    if (getenv("PROCFLEET_MAKE_FIXTURES")) {
        return cmocka_run_group_tests(maker, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
