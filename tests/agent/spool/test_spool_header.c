/* A segment's header is there twice, and segments with one are still read. */
#include "agent/spool/spool_disk.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/spool/spool_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"

#define NOW_NS     (1700000000 * CLK_S)
#define AGE_NS     (3600 * CLK_S)
#define COPY_BYTES (SPOOL_HEADER_BYTES / 2)
#define OLD        "tests/agent/fixtures/spool-format1.seg" /* segment 1: */
#define NEW        "tests/agent/fixtures/spool-bytes2.seg"  /* of segment 5 */
#define OLD_STREAM 0x5072u
#define OLD_HELD   3u

static void put(struct spool_disk *d, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct buf b;

        buf_init(&b, SPOOL_BATCH_MAX);
        rig_batch(&b, spool_disk_stream(d), spool_disk_next_seq(d));
        assert_ok(spool_disk_add(d, NOW_NS, b.p, b.n));
        assert_ok(spool_disk_commit(d));
        buf_fini(&b);
    }
}

/* Takes `n` batches, numbered from `first` on, as rig_batch makes them. */
static void take(struct spool_disk *d, uint64_t first, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct spool_taken t;
        struct batch *b;

        assert_ok(spool_disk_next(d, &rig_content, &t));
        assert_int_equal(t.seq, first + i);
        assert_ok(wire_batch_decode(&b, t.p, t.n));
        assert_int_equal(b->n_columns, 1);
        assert_int_equal(b->columns[0].values[0], t.seq * 7919);
        wire_batch_free(b);
        spool_disk_ack(d, &t);
    }
}

static void assert_empty(struct spool_disk *d)
{
    struct spool_taken t;

    assert_err(spool_disk_next(d, &rig_content, &t), ERR_END);
}

static void write_flipped(const char *path, const uint8_t *p, size_t n, size_t bit)
{
    uint8_t *flipped = mem_alloc(n);

    assert_non_null(flipped);
    memcpy(flipped, p, n);
    flipped[bit / 8] ^= (uint8_t)(1u << bit % 8);
    support_write_file(path, flipped, n);
    mem_free(flipped);
}

static uint8_t *left_behind(unsigned batches, uint64_t *stream, size_t *n)
{
    struct spool_disk *d = rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
    uint8_t *p;

    put(d, batches);
    *stream = spool_disk_stream(d);
    spool_disk_close(d);
    assert_ok(os_read_file(&p, n, rig_segment_path(1), 1 << 20));
    return p;
}

static void a_flipped_bit_in_either_copy_costs_nothing_and_is_counted(void **state)
{
    uint64_t stream;
    size_t n;
    uint8_t *p = left_behind(3, &stream, &n);

    assert_memory_equal(p, p + COPY_BYTES, COPY_BYTES);
    for (size_t bit = 0; bit < SPOOL_HEADER_BYTES * 8; bit += 3) {
        struct spool_disk *d;

        write_flipped(rig_segment_path(1), p, n, bit);
        d = rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
        assert_int_equal(rig_disk_stats(d).damaged_headers, 1);
        assert_int_equal(rig_disk_stats(d).unreadable, 0);
        assert_int_equal(spool_disk_stream(d), stream);
        assert_int_equal(spool_disk_next_seq(d), 4);
        take(d, 1, 3);
        put(d, 1);
        take(d, 4, 1);
        assert_empty(d);
        spool_disk_close(d);
        support_empty_dir(rig_dir);
    }
    mem_free(p);
}

static void without_a_sound_copy_the_file_is_kept_aside_and_counted(void **state)
{
    uint64_t stream;
    size_t n;
    uint8_t *p = left_behind(3, &stream, &n);
    struct spool_disk *d;
    char bad[400];

    p[20] ^= 1;
    write_flipped(rig_segment_path(1), p, n, (COPY_BYTES + 40) * 8);
    d = rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
    assert_int_equal(rig_disk_stats(d).unreadable, 1);
    assert_int_equal(rig_disk_stats(d).damaged_headers, 0);
    assert_int_not_equal(spool_disk_stream(d), stream);
    assert_empty(d);
    (void)snprintf(bad, sizeof bad, "%s/spool-0000000000000001.bad", rig_dir);
    assert_true(os_exists(bad));
    spool_disk_close(d);
    mem_free(p);
}

static void a_header_of_another_file_is_none(void **state)
{
    uint64_t stream;
    size_t n;
    uint8_t *p = left_behind(1, &stream, &n);
    struct spool_disk *d;

    assert_ok(os_remove(rig_segment_path(1)));
    support_write_file(rig_segment_path(2), p, n);
    d = rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
    assert_int_equal(rig_disk_stats(d).unreadable, 1);
    assert_empty(d);
    spool_disk_close(d);
    mem_free(p);
}

/* Nothing was durable of it, so its numbers come under another stream. */
static void a_file_cut_in_its_header_was_never_begun(void **state)
{
    uint64_t stream;
    size_t n;
    uint8_t *p = left_behind(2, &stream, &n);

    for (size_t cut = 0; cut < SPOOL_HEADER_BYTES; cut++) {
        struct spool_disk *d;

        support_empty_dir(rig_dir);
        support_write_file(rig_segment_path(1), p, cut);
        d = rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
        assert_int_equal(rig_disk_stats(d).torn_bytes, cut);
        assert_int_equal(rig_disk_stats(d).unreadable, 0);
        assert_int_equal(rig_disk_stats(d).segments, 0);
        assert_false(os_exists(rig_segment_path(1)));
        assert_int_not_equal(spool_disk_stream(d), stream);
        spool_disk_close(d);
    }
    mem_free(p);
}

/* -- version 1 -- */

static void read_old(uint8_t **p, size_t *n)
{
    assert_ok(os_read_file(p, n, OLD, 1 << 20));
    assert_int_equal((*p)[8], 1);
    support_write_file(rig_segment_path(1), *p, *n);
}

static void an_old_segment_is_sent_and_writing_goes_on_in_a_new_one(void **state)
{
    struct spool_disk *d;
    uint8_t *p, *after;
    size_t n, after_n;

    read_old(&p, &n);
    d = rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
    assert_int_equal(rig_disk_stats(d).held, OLD_HELD);
    assert_int_equal(rig_disk_stats(d).damaged_headers, 0);
    assert_int_equal(spool_disk_stream(d), OLD_STREAM);
    assert_int_equal(spool_disk_next_seq(d), OLD_HELD + 1);
    put(d, 2);
    take(d, 1, 1);
    spool_disk_close(d);
    assert_ok(os_read_file(&after, &after_n, rig_segment_path(1), 1 << 20));
    assert_int_equal(after_n, n);
    assert_memory_equal(after, p, n);
    mem_free(after);
    assert_ok(os_read_file(&after, &after_n, rig_segment_path(2), 1 << 20));
    assert_int_equal(after[8], SPOOL_VERSION);
    mem_free(after);
    d = rig_disk_open(fio_unsynced(),
                      SPOOL_BYTES_MIN); /* what was done is not written down: all come again */
    take(d, 1, OLD_HELD + 2);
    assert_empty(d);
    assert_false(os_exists(rig_segment_path(1)));
    spool_disk_close(d);
    mem_free(p);
}

/* Rewritten for want of room it is of the new version, and keeps what it told. */
static void an_old_segment_that_must_shrink_becomes_a_new_one(void **state)
{
    uint64_t seq = 1, rows = 0, told = 0;
    struct spool_disk *d;
    struct spool_taken t;
    uint8_t *p;
    size_t n;

    read_old(&p, &n);
    mem_free(p);
    d = rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
    take(d, 1, 1); /* the place in it is in the old file's bytes */
    while (rig_disk_stats(d).reduced.batches < OLD_HELD - 1) {
        put(d, 1);
        assert_in_range(rig_disk_stats(d).batches, 0, 10000);
    }
    assert_ok(os_read_file(&p, &n, rig_segment_path(1), 1 << 20));
    assert_int_equal(p[8], SPOOL_VERSION);
    assert_memory_equal(p, p + COPY_BYTES, COPY_BYTES);
    mem_free(p);
    while (spool_disk_next(d, &rig_content, &t) == ERR_OK) {
        struct batch *b;

        assert_ok(wire_batch_decode(&b, t.p, t.n));
        rows += b->n_columns ? RIG_ROWS : 0;
        told += rig_told(b, "metrics_dropped");
        wire_batch_free(b);
        spool_disk_ack(d, &t);
        seq++;
    }
    assert_int_equal(seq, OLD_HELD + rig_disk_stats(d).batches);
    assert_int_equal(rows + told, (seq - 1) * RIG_ROWS);
    assert_int_equal(rig_disk_stats(d).unreadable, 0);
    spool_disk_close(d);
}

static void a_flipped_bit_in_an_old_segment_is_counted(void **state)
{
    uint8_t *p;
    size_t n;

    read_old(&p, &n);
    for (size_t bit = 0; bit < n * 8; bit += 31) {
        struct spool_disk *d;
        struct spool_taken t;
        unsigned came = 0;

        write_flipped(rig_segment_path(1), p, n, bit);
        d = rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
        while (spool_disk_next(d, &rig_content, &t) == ERR_OK) {
            struct batch *b;

            assert_ok(wire_batch_decode(&b, t.p, t.n));
            wire_batch_free(b);
            spool_disk_ack(d, &t);
            came++;
        }
        assert_int_equal(came, bit / 8 < COPY_BYTES ? 0 : OLD_HELD - 1);
        assert_true(rig_disk_stats(d).unreadable + rig_disk_stats(d).torn_bytes > 0);
        spool_disk_close(d);
        support_empty_dir(rig_dir);
    }
    mem_free(p);
}

/* -- a newer one -- */

static void a_newer_version_is_refused_by_either_copy_and_kept(void **state)
{
    struct spool_disk_conf conf = {rig_dir, fio_unsynced(), SPOOL_BYTES_MIN, AGE_NS};
    struct buf b;

    buf_init(&b, 1 << 10);
    spool_segment_put_header(&b, &(struct spool_header){.detail = 9, .number = 1, .first_seq = 1});
    for (unsigned copy = 0; copy < 2; copy++) {
        struct spool_disk *d;
        struct errmsg why;

        write_flipped(rig_segment_path(1), b.p, b.n, copy * COPY_BYTES * 8 + 70);
        assert_err(spool_disk_open(&d, &conf, &why), ERR_VERSION);
        assert_non_null(strstr(why.text, "newer version"));
        assert_true(os_exists(rig_segment_path(1)));
    }
    buf_fini(&b);
}

/* -- faults -- */

/* The first commit of a file, killed or cut off at each of its steps: nothing before it is lost. */
static void a_power_cut_while_a_file_begins_loses_nothing_committed(void **state)
{
    static const enum fio_fault_keep keeps[] = {FIO_KEEP_NOTHING, FIO_KEEP_PREFIX,
                                                FIO_KEEP_SECTORS};

    for (unsigned round = 0; round < 60; round++) {
        struct spool_disk_conf conf = {rig_dir, NULL, SPOOL_BYTES_MIN, AGE_NS};
        struct spool_disk *d = rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
        struct fio_fault *fault;
        struct errmsg why = {""};
        struct buf b;
        uint64_t held;

        put(d, 2);
        spool_disk_close(d);
        assert_ok(fio_fault_create(&fault));
        conf.fio = fio_fault_fio(fault);
        assert_ok(spool_disk_open(&d, &conf, &why));
        buf_init(&b, SPOOL_BATCH_MAX);
        rig_batch(&b, spool_disk_stream(d), 3);
        assert_ok(spool_disk_add(d, NOW_NS, b.p, b.n));
        buf_fini(&b);
        fio_fault_fail(fault, FIO_CREATE | FIO_WRITE | FIO_SYNC | FIO_SYNC_DIR, round % 4, ERR_IO,
                       true);
        assert_true(spool_disk_commit(d) != ERR_OK);
        fio_fault_power_cut(fault, keeps[round % 3], round);
        spool_disk_close(d);
        fio_fault_destroy(fault);
        d = rig_disk_open(fio_unsynced(), SPOOL_BYTES_MIN);
        held = rig_disk_stats(d).held;
        assert_in_range(held, 2, 3);
        take(d, 1, (unsigned)held);
        assert_empty(d);
        spool_disk_close(d);
        support_empty_dir(rig_dir);
    }
}

/* The same, byte for byte, as the release before wrote it. */
static void a_segment_is_written_in_format_2(void **state)
{
    struct buf b;
    uint8_t *p;
    size_t n;

    buf_init(&b, 1u << 16);
    spool_segment_put_header(&b, &(struct spool_header){.detail = SPOOL_EVENTS,
                                                        .number = 5,
                                                        .stream = 77,
                                                        .first_seq = 9,
                                                        .seed = UINT64_C(0x0123456789abcdef)});
    spool_segment_put_record(&b, UINT64_C(0x0123456789abcdef), 9, 1000, "encoded batch", 13);
    spool_segment_put_record(&b, UINT64_C(0x0123456789abcdef), 10, 2000, "", 0);
    assert_ok(b.bad);
    if (getenv("PROCFLEET_MAKE_FIXTURES") && !os_exists(NEW)) {
        assert_ok(os_write_file(NEW, b.p, b.n, false));
    }
    assert_ok(os_read_file(&p, &n, NEW, 1u << 20));
    assert_int_equal(n, b.n);
    assert_memory_equal(p, b.p, n);
    mem_free(p);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
        T(a_flipped_bit_in_either_copy_costs_nothing_and_is_counted),
        T(without_a_sound_copy_the_file_is_kept_aside_and_counted),
        T(a_header_of_another_file_is_none),
        T(a_file_cut_in_its_header_was_never_begun),
        T(an_old_segment_is_sent_and_writing_goes_on_in_a_new_one),
        T(an_old_segment_that_must_shrink_becomes_a_new_one),
        T(a_flipped_bit_in_an_old_segment_is_counted),
        T(a_newer_version_is_refused_by_either_copy_and_kept),
        T(a_power_cut_while_a_file_begins_loses_nothing_committed),
        T(a_segment_is_written_in_format_2),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
