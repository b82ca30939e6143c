/* What each log writes is the same, byte for byte, as what the release before wrote: header, index
 * and records with a fixed seed against files that were made then. They are made once, by this
 * program with PROCFLEET_MAKE_FIXTURES=1 when a format is new, and never again. */
#include <stdlib.h>
#include <string.h>

#include "collector/store/manifest/manifest_log.h"
#include "collector/store/wal/wal_index.h"
#include "collector/subscribe/journal_record.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define FIXTURES "tests/collector/fixtures/"
#define SEED     UINT64_C(0x0123456789abcdef)

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

static struct wal_record batch(uint64_t seq)
{
    return (struct wal_record){.kind = WAL_BATCH,
                               .host = {{9, 8, 7}},
                               .stream = 77,
                               .seq = seq,
                               .t0_ns = 1000 + (int64_t)seq,
                               .t1_ns = 2000 + (int64_t)seq,
                               .received_ns = 3000 + (int64_t)seq,
                               .clock = {seq > 1, seq > 2, -5, 7},
                               .host_name = str_make("host"),
                               .bytes = "encoded batch",
                               .n = 13,
                               .at = 80 + 100 * seq,
                               .size = 105,
                               .note = "note",
                               .note_n = seq > 1 ? 4 : 0};
}

static void the_write_ahead_log_writes_format_3(void **state)
{
    struct wal_record ranges = batch(1);
    struct buf b;

    (void)state;
    ranges.kind = WAL_RANGES;
    buf_init(&b, 1u << 16);
    wal_header_put(&b, 5, SEED, 1);
    wal_record_put(&b, &ranges, SEED);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        struct wal_record r = batch(seq);

        wal_record_put(&b, &r, SEED);
    }
    same(FIXTURES "wal-bytes3.log", &b);
    buf_fini(&b);
}

static void its_index_is_of_version_2(void **state)
{
    struct wal_record ranges = batch(1);
    const struct fio *fio = fio_os();
    char dir[256], *path;
    struct wal_index x;
    struct buf b;
    uint8_t *p;
    size_t n;

    (void)state;
    path = os_path_join(support_temp_dir(dir, sizeof dir), "index");
    ranges.kind = WAL_RANGES;
    wal_index_init(&x);
    wal_index_begin(&x, SEED, WAL_VERSION);
    wal_index_add(&x, &ranges);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        struct wal_record r = batch(seq);

        wal_index_add(&x, &r);
    }
    assert_ok(wal_index_write(&x, fio, path, 5, 600));
    assert_ok(os_read_file(&p, &n, path, 1u << 20));
    buf_init(&b, 1u << 16);
    buf_put(&b, p, n);
    same(FIXTURES "wal-bytes3.idx", &b);
    buf_fini(&b);
    wal_index_fini(&x);
    mem_free(p);
    mem_free(path);
    support_remove_dir(dir);
}

static void the_journal_writes_format_2(void **state)
{
    const struct journal_header h = {.number = 5, .epoch = 11, .seed = SEED, .position = 42};
    const struct journal_topic topic = {.name = str_make("host"), .seq = {3, 4}};
    struct journal_part part = {.kind = JOURNAL_TOPICS};
    struct buf b, topics;

    (void)state;
    buf_init(&b, 1u << 16);
    buf_init(&topics, 1u << 10);
    journal_header_put(&b, &h);
    journal_topic_put(&topics, &topic);
    part.about.n = part.content_n = topics.n;
    part.content = topics.p;
    journal_part_put(&b, &part, SEED);
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
    journal_part_put(&b, &part, SEED);
    part.packed = true;
    part.about.more = false;
    part.about.position++;
    part.content_n = 9;
    journal_part_put(&b, &part, SEED);
    same(FIXTURES "feed-bytes2.log", &b);
    buf_fini(&topics);
    buf_fini(&b);
}

static void the_manifest_writes_format_1(void **state)
{
    struct seg_info segments[2] = {{.number = 3,
                                    .kind = SEG_RAW,
                                    .n_windows = 1,
                                    .window_ns = 300,
                                    .span_ns = 100,
                                    .bytes = 4096,
                                    .values = 7,
                                    .t0_ns = 301,
                                    .t1_ns = 399},
                                   {.number = 4,
                                    .kind = SEG_1MIN,
                                    .n_windows = 2,
                                    .patch = true,
                                    .in_hour = true,
                                    .window_ns = 400,
                                    .span_ns = 200,
                                    .bytes = 8192,
                                    .values = 9,
                                    .t0_ns = 401,
                                    .t1_ns = 599}};
    const uint64_t drop[1] = {3};
    struct manifest_record r = {
        .checkpoint = true, .seq = 6, .next_number = 5, .add = segments, .n_add = 1};
    struct buf b;

    (void)state;
    buf_init(&b, 1u << 16);
    manifest_header_put(&b, SEED);
    manifest_record_put(&b, &r, SEED);
    r = (struct manifest_record){
        .seq = 7, .next_number = 6, .add = &segments[1], .n_add = 1, .drop = drop, .n_drop = 1};
    manifest_record_put(&b, &r, SEED);
    same(FIXTURES "manifest-bytes1", &b);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_write_ahead_log_writes_format_3),
        cmocka_unit_test(its_index_is_of_version_2),
        cmocka_unit_test(the_journal_writes_format_2),
        cmocka_unit_test(the_manifest_writes_format_1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
