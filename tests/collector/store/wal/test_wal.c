#include "collector/store/wal/wal.h"

#include <stdio.h>
#include <string.h>

#include "collector/store/wal/wal_source.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/store/wal/wal_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define FIXTURES "tests/collector/fixtures/"
#define WINDOW   WAL_RIG_WINDOW

static void read_log(uint64_t number, uint8_t **p, size_t *n)
{
    assert_ok(os_read_file(p, n, wal_rig_path(number, ".log"), 1 << 20));
}

static void write_log(uint64_t number, const void *p, size_t n)
{
    support_write_file(wal_rig_path(number, ".log"), p, n);
}

/* -- the record -- */

static enum err parse(struct wal_record *r, size_t *used, const uint8_t *p, size_t n, uint64_t seed)
{
    return wal_record_parse(r, used, p, n, seed, WAL_VERSION);
}

static void a_record_is_read_as_it_was_written(void **state)
{
    struct wal_record r = wal_rig_batch(9, "bytes"), back;
    struct buf b;
    size_t used;

    buf_init(&b, 4096);
    wal_record_put(&b, &r, 5);
    assert_ok(parse(&back, &used, b.p, b.n, 5));
    assert_int_equal(used, b.n);
    assert_int_equal(back.kind, WAL_BATCH);
    assert_memory_equal(back.host.b, r.host.b, 16);
    assert_int_equal(back.stream, 77);
    assert_int_equal(back.seq, 9);
    assert_int_equal(back.t0_ns, -5);
    assert_int_equal(back.t1_ns, 6);
    assert_int_equal(back.received_ns, 7);
    assert_true(str_eq(back.host_name, r.host_name));
    assert_int_equal(back.n, 5);
    assert_memory_equal(back.bytes, "bytes", 5);
    assert_false(back.clock.known);
    buf_fini(&b);
}

static void a_record_carries_the_offset_of_the_hosts_clock(void **state)
{
    static const struct host_offset rows[] = {
        {true, false, -5, 0},
        {true, true, INT64_MAX, 7},
        {true, true, INT64_MIN, INT64_MAX},
        {true, true, 0, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct wal_record r = wal_rig_batch(9, "bytes"), back;
        struct buf b;
        size_t used;

        r.clock = rows[i];
        buf_init(&b, 4096);
        wal_record_put(&b, &r, 5);
        assert_ok(parse(&back, &used, b.p, b.n, 5));
        assert_int_equal(used, b.n);
        assert_memory_equal(back.bytes, "bytes", 5);
        assert_true(back.clock.known);
        assert_int_equal(back.clock.bounded, rows[i].bounded);
        assert_true(back.clock.offset_ns == rows[i].offset_ns);
        assert_true(back.clock.error_ns == rows[i].error_ns);
        for (size_t n = 0; n < b.n; n++) {
            assert_err(parse(&back, &used, b.p, n, 5), ERR_CORRUPT);
        }
        buf_fini(&b);
    }
}

static void every_short_or_altered_record_is_refused(void **state)
{
    struct wal_record r = wal_rig_batch(9, "bytes"), back;
    struct buf b;
    size_t used;

    buf_init(&b, 4096);
    wal_record_put(&b, &r, 5);
    for (size_t n = 0; n < b.n; n++) {
        assert_err(parse(&back, &used, b.p, n, 5), ERR_CORRUPT);
    }
    for (size_t bit = 0; bit < b.n * 8; bit++) {
        b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_err(parse(&back, &used, b.p, b.n, 5), ERR_CORRUPT);
        b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_err(parse(&back, &used, b.p, b.n, 6), ERR_CORRUPT); /* another file's */
    assert_ok(parse(&back, &used, b.p, b.n, 5));
    buf_fini(&b);
}

static void a_header_is_read_from_either_copy(void **state)
{
    struct wal_header h;
    struct buf b;

    buf_init(&b, 4096);
    wal_source_header_put(&b, 3, 99, 7);
    assert_int_equal(b.n, WAL_HEADER_BYTES);
    assert_ok(wal_source_header_parse(&h, 3, b.p, b.n));
    assert_int_equal(h.seed, 99);
    assert_int_equal(h.ranges, 7);
    assert_int_equal(h.bytes, WAL_HEADER_BYTES);
    assert_int_equal(h.damaged, 0);
    assert_err(wal_source_header_parse(&h, 4, b.p, b.n), ERR_CORRUPT); /* of another file */
    for (size_t bit = 0; bit < b.n * 8; bit++) {
        b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_ok(wal_source_header_parse(&h, 3, b.p, b.n));
        assert_int_equal(h.seed, 99);
        assert_int_equal(h.damaged, 1);
        b.p[(bit / 8 + WAL_HEADER_BYTES / 2) % b.n] ^= 1; /* the other copy, too */
        assert_err(wal_source_header_parse(&h, 3, b.p, b.n), ERR_CORRUPT);
        b.p[(bit / 8 + WAL_HEADER_BYTES / 2) % b.n] ^= 1;
        b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t n = 0; n < b.n; n++) {
        assert_err(wal_source_header_parse(&h, 3, b.p, n), n < b.n / 2 ? ERR_CORRUPT : ERR_OK);
    }
    buf_fini(&b);
}

static void older_formats_are_still_read(void **state)
{
    static const struct {
        const char *path;
        size_t ranges;
    } rows[] = {{FIXTURES "wal-format1.log", 1}, {FIXTURES "wal-format2.log", 0}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct wal_rig_seen seen = {0};
        struct wal *w;
        uint8_t *p;
        size_t n;

        support_empty_dir(wal_rig_dir);
        assert_ok(os_read_file(&p, &n, rows[i].path, 4096));
        write_log(1, p, n);
        mem_free(p);
        w = wal_rig_reopen(&seen);
        assert_int_equal(seen.ranges, rows[i].ranges);
        assert_int_equal(seen.batches, 3);
        assert_int_equal(seen.seqs[0], 1);
        assert_int_equal(seen.seqs[2], 3);
        assert_int_equal(wal_rig_stats(w).replayed_bytes, n);
        assert_int_equal(wal_rig_stats(w).bad_records + wal_rig_stats(w).torn_bytes, 0);
        wal_close(w);
    }
}

/* -- writing and recovery -- */

static void only_what_was_committed_is_replayed_in_order(void **state)
{
    struct wal_rig_seen seen = {0}, again = {0};
    struct wal_record r = wal_rig_batch(100, "never committed");
    struct wal *w = wal_rig_reopen(&seen);

    for (uint64_t i = 1; i <= 20; i++) {
        wal_rig_commit_one(w, i, 10);
    }
    assert_ok(wal_add(w, &r, 10, NULL));
    wal_close(w);
    w = wal_rig_reopen(&again);
    assert_int_equal(again.batches, 20);
    assert_int_equal(again.ranges, 1);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(again.seqs[i], i + 1);
    }
    wal_close(w);
}

static void one_commit_is_one_write_and_one_sync(void **state)
{
    struct wal_rig_seen seen = {0};
    struct wal_conf conf = wal_rig_seeing(&seen);
    struct fio_fault *f;
    struct wal *w;

    assert_ok(fio_fault_create(&f));
    conf.fio = fio_fault_fio(f);
    assert_ok(wal_open(&w, &conf, NULL));
    for (int commit = 0; commit < 3; commit++) {
        long before = fio_fault_count(f, FIO_WRITE | FIO_SYNC);
        long directory = fio_fault_count(f, FIO_SYNC_DIR);

        for (uint64_t i = 0; i < 5; i++) {
            struct wal_record r = wal_rig_batch(i, "x");

            assert_ok(wal_add(w, &r, 10, NULL));
        }
        assert_ok(wal_commit(w, NULL));
        assert_int_equal(fio_fault_count(f, FIO_WRITE | FIO_SYNC), before + 2);
        assert_int_equal(fio_fault_count(f, FIO_SYNC_DIR), directory + (commit == 0));
    }
    wal_close(w);
    fio_fault_destroy(f);
}

static void a_file_ends_with_its_window_or_its_size_and_begins_with_a_checkpoint(void **state)
{
    struct wal_rig_seen seen = {0};
    struct wal_stats stats;
    struct wal *w = wal_rig_reopen(&seen);
    uint64_t first = wal_rig_commit_one(w, 1, 10), file;

    assert_int_equal(wal_rig_commit_one(w, 2, WINDOW - 1), first);
    assert_int_equal(wal_rig_commit_one(w, 3, WINDOW), first + 1);
    for (uint64_t i = 0; i < 37; i++) { /* 4,096 bytes take 38 of these records */
        file = wal_rig_commit_one(w, 4 + i, WINDOW);
    }
    assert_int_equal(file, first + 1);
    assert_int_equal(wal_rig_commit_one(w, 50, WINDOW), first + 2);
    wal_stats(w, &stats);
    assert_int_equal(stats.files, 3);
    wal_close(w);
    seen = (struct wal_rig_seen){0};
    w = wal_rig_reopen(&seen);
    assert_int_equal(seen.ranges, 3);
    assert_int_equal(seen.batches, 41);
    wal_close(w);
}

static void a_file_goes_when_nothing_holds_it_and_a_newer_one_is_durable(void **state)
{
    struct wal_rig_seen seen = {0};
    struct wal *w = wal_rig_reopen(&seen);
    uint64_t files[3];

    for (uint64_t i = 0; i < 3; i++) {
        files[i] = wal_rig_commit_one(w, i + 1, (int64_t)i * WINDOW);
        wal_hold(w, files[i]);
    }
    wal_release(w, files[1]);
    wal_release(w, files[2]);
    wal_trim(w);
    assert_true(os_exists(wal_rig_path(files[0], ".log")));
    assert_false(os_exists(wal_rig_path(files[1], ".log")));
    assert_true(os_exists(wal_rig_path(files[2], ".log"))); /* the newest holds the checkpoint */
    wal_release(w, files[0]);
    wal_trim(w);
    assert_false(os_exists(wal_rig_path(files[0], ".log")));
    wal_close(w);
    seen = (struct wal_rig_seen){.hold = true};
    w = wal_rig_reopen(&seen);
    assert_int_equal(seen.batches, 1);
    wal_release(w, files[2]);
    wal_trim(w);
    assert_true(os_exists(wal_rig_path(files[2], ".log"))); /* still the newest */
    wal_rig_commit_one(w, 9, 3 * WINDOW);
    wal_trim(w);
    assert_false(os_exists(wal_rig_path(files[2], ".log")));
    wal_close(w);
}

/* Cut anywhere, the last file gives every whole record before the cut, and the next open finds
 * nothing torn any more. */
static void a_torn_tail_is_cut_at_every_length(void **state)
{
    struct wal_rig_seen seen = {0};
    struct wal *w = wal_rig_reopen(&seen);
    uint64_t file = 0;
    uint8_t *p;
    size_t n, record;

    for (uint64_t i = 1; i <= 3; i++) {
        file = wal_rig_commit_one(w, i, 10);
    }
    wal_close(w);
    read_log(file, &p, &n);
    record = WAL_RECORD_FIXED + 4 + 13 + 8;
    for (size_t cut = 0; cut < n; cut++) {
        size_t whole = cut > n - 3 * record ? (cut - (n - 3 * record)) / record : 0;
        struct wal_stats stats;

        for (int life = 0; life < 2; life++) {
            if (life == 0) {
                support_empty_dir(wal_rig_dir);
                write_log(file, p, cut);
            }
            seen = (struct wal_rig_seen){0};
            w = wal_rig_reopen(&seen);
            assert_int_equal(seen.batches, whole);
            wal_stats(w, &stats);
            assert_int_equal(stats.bad_records, 0);
            if (life == 1) {
                assert_int_equal(stats.torn_bytes, 0);
            }
            wal_close(w);
        }
    }
    mem_free(p);
}

/* Five batches in the first file, which is the newest unless `older`; gives its number. */
static uint64_t five_batches(bool older)
{
    struct wal_rig_seen seen = {0};
    struct wal *w = wal_rig_reopen(&seen);
    uint64_t file = 0;

    for (uint64_t i = 1; i <= 5; i++) {
        file = wal_rig_commit_one(w, i, 10);
    }
    if (older) {
        wal_rig_commit_one(w, 6, WINDOW);
    }
    wal_close(w);
    return file;
}

/* Any single altered byte costs at most one record, and is counted, wherever it is: only the last
 * record of the newest file may have been torn. */
static void damage_costs_one_record_and_is_counted(void **state)
{
    for (int older = 0; older < 2; older++) {
        uint64_t file;
        uint8_t *p;
        size_t n, records = older ? 8 : 6, last = WAL_RECORD_FIXED + 4 + 13 + 8;

        support_empty_dir(wal_rig_dir);
        file = five_batches(older);
        read_log(file, &p, &n);
        for (size_t at = 0; at < n; at++) {
            bool lost_end = !older && at >= n - last;
            bool torn = lost_end && at >= n - last + 4; /* no write leaves another magic */
            struct wal_rig_seen seen = {0};
            struct wal *w;

            p[at] ^= 0x40;
            write_log(file, p, n);
            p[at] ^= 0x40;
            w = wal_rig_reopen(&seen);
            assert_int_equal(seen.batches + seen.ranges, records - (at >= WAL_HEADER_BYTES));
            assert_int_equal(seen.seqs[seen.batches - 1], older ? 6 : lost_end ? 4 : 5);
            assert_int_equal(wal_rig_stats(w).bad_records, !torn);
            assert_int_equal(wal_rig_stats(w).torn_bytes, torn ? last : 0);
            wal_close(w);
        }
        mem_free(p);
    }
}

/* A length that lies must not hide what stands behind it. */
static void nothing_sound_behind_damage_is_cut(void **state)
{
    struct wal_rig_seen seen = {0};
    uint64_t file = five_batches(false);
    size_t n, after;
    uint8_t *p;

    read_log(file, &p, &n);
    p[WAL_HEADER_BYTES + 8] = 0xff; /* of the first record */
    p[WAL_HEADER_BYTES + 9] = 0xff;
    write_log(file, p, n);
    mem_free(p);
    for (int life = 0; life < 2; life++) { /* told of at every opening */
        struct wal *w;

        seen = (struct wal_rig_seen){0};
        w = wal_rig_reopen(&seen);
        assert_int_equal(seen.batches, 5);
        assert_int_equal(wal_rig_stats(w).bad_records, 1);
        wal_close(w);
        read_log(file, &p, &after);
        mem_free(p);
        assert_int_equal(after, n);
    }
}

static void bytes_inside_a_batch_cannot_pose_as_a_record(void **state)
{
    struct wal_record forged = wal_rig_batch(666, "forged"), carrier = wal_rig_batch(1, "");
    struct wal_rig_seen seen = {0};
    struct wal *w = wal_rig_reopen(&seen);
    uint64_t file;
    struct buf b;
    uint8_t *p;
    size_t n;

    buf_init(&b, 4096);
    wal_record_put(&b, &forged, 0); /* the peer does not know the file's seed */
    carrier.bytes = b.p;
    carrier.n = b.n;
    assert_ok(wal_add(w, &carrier, 10, &file));
    assert_ok(wal_commit(w, NULL));
    wal_rig_commit_one(w, 2, WINDOW);
    wal_close(w);
    read_log(file, &p, &n);
    p[n - 1] ^= 1; /* the carrier is damaged, the search begins inside it */
    write_log(file, p, n);
    seen = (struct wal_rig_seen){0};
    w = wal_rig_reopen(&seen);
    assert_int_equal(seen.batches, 1);
    assert_int_equal(seen.seqs[0], 2);
    wal_close(w);
    mem_free(p);
    buf_fini(&b);
}

/* What the last opening was told. */
struct told {
    size_t n;
    char name[64];
    bool aside;
};

static struct told told;

static void tell(void *ctx, const struct wal_damage *d)
{
    (void)ctx;
    told.n++;
    told.aside = d->aside;
    snprintf(told.name, sizeof told.name, "%s", d->name);
}

static struct wal *open_told(struct wal_rig_seen *seen)
{
    struct wal_conf conf = wal_rig_seeing(seen);

    told.n = 0;
    *seen = (struct wal_rig_seen){0};
    conf.damaged = tell;
    return wal_rig_open(&conf);
}

static void ruin_header(uint64_t file)
{
    uint8_t *p;
    size_t n;

    read_log(file, &p, &n);
    p[20] ^= 1;
    p[20 + WAL_HEADER_BYTES / 2] ^= 1;
    write_log(file, p, n);
    mem_free(p);
}

static void a_file_whose_seed_is_lost_is_kept_and_told_of(void **state)
{
    for (int older = 0; older < 2; older++) {
        uint64_t file;
        struct wal_rig_seen seen;
        struct wal *w;

        support_empty_dir(wal_rig_dir);
        file = five_batches(older);
        ruin_header(file);
        for (int life = 0; life < 2; life++) {
            w = open_told(&seen);
            assert_int_equal(seen.batches, older);
            assert_int_equal(wal_rig_stats(w).aside, 1);
            assert_int_equal(told.n, 1);
            assert_true(told.aside);
            assert_non_null(strstr(told.name, ".bad"));
            assert_true(os_exists(wal_rig_path(file, ".bad")));
            assert_false(os_exists(wal_rig_path(file, ".log")));
            wal_close(w);
        }
        w = open_told(&seen); /* its number is not given again */
        assert_true(wal_rig_commit_one(w, 9, 5 * WINDOW) > file);
        wal_close(w);
    }
}

static void a_file_that_was_never_begun_goes(void **state)
{
    static const char *const starts[] = {"", "PFW"};
    uint64_t file = five_batches(false);

    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        struct wal_rig_seen seen;
        struct wal *w;

        write_log(file + 1, starts[i], strlen(starts[i]));
        w = open_told(&seen);
        assert_int_equal(seen.batches, 5);
        assert_int_equal(told.n + wal_rig_stats(w).aside + wal_rig_stats(w).bad_records, 0);
        assert_false(os_exists(wal_rig_path(file + 1, ".log")));
        assert_false(os_exists(wal_rig_path(file + 1, ".bad")));
        wal_close(w);
    }
}

static void a_newer_format_is_refused_with_a_reason(void **state)
{
    struct wal_rig_seen seen = {0};
    struct wal_conf conf = wal_rig_seeing(&seen);
    struct errmsg why;
    struct wal *w;
    struct buf b;

    buf_init(&b, 4096);
    wal_source_header_put(&b, 1, 5, 0);
    b.p[8] = WAL_VERSION + 1;
    b.n = WAL_HEADER_BYTES / 2 - 8;
    buf_put_u64le(&b, hash_bytes(b.p, b.n, 0));
    write_log(1, b.p, b.n);
    assert_err(wal_open(&w, &conf, &why), ERR_VERSION);
    assert_non_null(strstr(why.text, "newer"));
    assert_true(os_exists(wal_rig_path(1, ".log")));
    buf_fini(&b);
}

static void a_batch_that_the_store_calls_corrupt_is_counted_and_passed(void **state)
{
    struct wal_rig_seen seen = {0};
    struct wal_stats stats;
    struct wal *w = wal_rig_reopen(&seen);

    wal_rig_commit_one(w, 1, 10);
    wal_rig_commit_one(w, 2, 10);
    wal_close(w);
    seen = (struct wal_rig_seen){.answer = ERR_CORRUPT};
    w = wal_rig_reopen(&seen);
    wal_stats(w, &stats);
    assert_int_equal(stats.bad_records, 2);
    assert_int_equal(seen.batches, 2);
    wal_close(w);
}

static void records_beyond_their_bounds_are_refused(void **state)
{
    static const char name[MODEL_HOST_NAME_MAX + 2] = "";
    struct wal_rig_seen seen = {0};
    struct wal *w = wal_rig_reopen(&seen);
    struct wal_record r = wal_rig_batch(1, "x");

    r.n = WAL_BYTES_MAX + 1;
    assert_err(wal_add(w, &r, 10, NULL), ERR_INVALID);
    r = wal_rig_batch(1, "x");
    r.host_name = (struct str){name, MODEL_HOST_NAME_MAX + 1};
    assert_err(wal_add(w, &r, 10, NULL), ERR_INVALID);
    wal_close(w);
}

#define T(f) cmocka_unit_test_setup_teardown(f, wal_rig_setup, wal_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_read_as_it_was_written),
        cmocka_unit_test(a_record_carries_the_offset_of_the_hosts_clock),
        cmocka_unit_test(every_short_or_altered_record_is_refused),
        cmocka_unit_test(a_header_is_read_from_either_copy),
        T(older_formats_are_still_read),
        T(only_what_was_committed_is_replayed_in_order),
        T(one_commit_is_one_write_and_one_sync),
        T(a_file_ends_with_its_window_or_its_size_and_begins_with_a_checkpoint),
        T(a_file_goes_when_nothing_holds_it_and_a_newer_one_is_durable),
        T(a_torn_tail_is_cut_at_every_length),
        T(damage_costs_one_record_and_is_counted),
        T(nothing_sound_behind_damage_is_cut),
        T(bytes_inside_a_batch_cannot_pose_as_a_record),
        T(a_file_whose_seed_is_lost_is_kept_and_told_of),
        T(a_file_that_was_never_begun_goes),
        T(a_newer_format_is_refused_with_a_reason),
        T(a_batch_that_the_store_calls_corrupt_is_counted_and_passed),
        T(records_beyond_their_bounds_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
