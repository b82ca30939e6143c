/* The header of a journal's file is there twice, and files with one are still read. */
#include <stdio.h>
#include <string.h>

#include "collector/subscribe/feed_check.h"
#include "collector/subscribe/journal_record.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/journal_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define COPY_BYTES (JOURNAL_HEADER_BYTES / 2)
#define OLD        "tests/collector/fixtures/feed-format1.log" /* file 1 with batches 1 to 3 */

static const char *path_of(unsigned number)
{
    static char path[400];

    (void)snprintf(path, sizeof path, "%s/feed-%016x.log", journal_rig_dir, number);
    return path;
}

static void write_flipped(unsigned number, const uint8_t *p, size_t n, size_t bit)
{
    uint8_t *flipped = mem_alloc(n);

    assert_non_null(flipped);
    memcpy(flipped, p, n);
    flipped[bit / 8] ^= (uint8_t)(1u << bit % 8);
    support_write_file(path_of(number), flipped, n);
    mem_free(flipped);
}

static struct journal_stats stats_of(struct journal *j)
{
    struct journal_stats s;

    journal_stats(j, &s);
    return s;
}

/* Records that are told to be there and cannot be read. */
static size_t count_missing(struct journal *j)
{
    struct journal_record r;
    uint64_t from = 0;
    size_t n = 0;
    enum err e;

    while ((e = journal_next(j, &from, NULL, NULL, &r, NULL)) == ERR_OK || e == ERR_CORRUPT) {
        n += e == ERR_CORRUPT;
    }
    return n;
}

static void count_damaged(void *ctx, const struct feed_check_file *f)
{
    *(unsigned *)ctx += f->damaged > 0;
}

static unsigned damaged_files(void)
{
    unsigned n = 0;

    assert_ok(feed_check(fio_unsynced(), journal_rig_dir, count_damaged, &n));
    return n;
}

static void a_flipped_bit_in_either_copy_costs_nothing_and_is_told(void **state)
{
    struct journal *j = journal_rig_open();
    uint64_t epoch = journal_epoch(j);
    uint8_t *p;
    size_t n;

    (void)state;
    for (uint64_t b = 1; b <= 3; b++) {
        journal_rig_add_synced(j, 1, b);
    }
    journal_close(j);
    assert_ok(os_read_file(&p, &n, path_of(1), 1 << 20));
    for (size_t bit = 0; bit < JOURNAL_HEADER_BYTES * 8; bit += 3) {
        struct journal_record r;

        support_empty_dir(journal_rig_dir);
        write_flipped(1, p, n, bit);
        assert_int_equal(damaged_files(), 1);
        j = journal_rig_open();
        assert_int_equal(journal_epoch(j), epoch);
        assert_int_equal(journal_rig_count(j), 3);
        assert_int_equal(stats_of(j).damaged_bytes, COPY_BYTES);
        assert_int_equal(stats_of(j).damaged_records, 0);
        r = journal_rig_add(j, 1, 4);
        assert_int_equal(r.seq, 4);
        assert_int_equal(r.position, 4);
        journal_close(j);
        j = journal_rig_open();
        assert_int_equal(journal_rig_count(j), 4);
        assert_int_equal(count_missing(j), 0);
        journal_close(j);
    }
    mem_free(p);
}

/* Nothing in it can be read; the files around it say how many records it held. */
static void an_older_file_without_a_header_is_told(void **state)
{
    enum { RECORDS = 20 };
    struct journal *j = journal_rig_open();
    uint64_t epoch = journal_epoch(j);
    size_t n, missing;
    uint8_t *p;

    (void)state;
    for (uint64_t b = 1; b <= RECORDS; b++) {
        assert_ok(journal_rig_add_noise(j, 1, b, 60000));
    }
    assert_true(stats_of(j).files >= 3);
    journal_close(j);
    assert_ok(os_read_file(&p, &n, path_of(2), 1 << 20));
    p[COPY_BYTES + 1] ^= 1;
    write_flipped(2, p, n, 1);
    mem_free(p);
    assert_int_equal(damaged_files(), 1);
    j = journal_rig_open();
    assert_int_equal(journal_epoch(j), epoch);
    missing = count_missing(j);
    assert_in_range(missing, 2, RECORDS / 2);
    assert_int_equal(journal_rig_count(j) + missing, RECORDS);
    assert_int_equal(stats_of(j).damaged_records, missing);
    assert_int_equal(stats_of(j).damaged_bytes, n);
    journal_close(j);
}

/* -- version 1 -- */

static void an_old_file_is_read_and_written_on(void **state)
{
    struct journal *j;
    struct journal_record r;
    uint8_t *p;
    size_t n;

    (void)state;
    assert_ok(os_read_file(&p, &n, OLD, 1 << 20));
    assert_int_equal(p[8], 1);
    support_write_file(path_of(1), p, n);
    assert_int_equal(damaged_files(), 0);
    j = journal_rig_open();
    for (uint64_t b = 1; b <= 3; b++) {
        assert_int_equal(journal_rig_count_batch(j, b), 1);
    }
    assert_int_equal(stats_of(j).damaged_bytes + stats_of(j).torn_bytes, 0);
    r = journal_rig_add(j, 1, 4);
    assert_int_equal(r.seq, 4);
    assert_int_equal(r.position, 4);
    journal_close(j);
    j = journal_rig_open();
    assert_int_equal(journal_rig_count(j), 4);
    journal_close(j);
    mem_free(p);
}

static void a_flipped_bit_in_an_old_file_is_counted(void **state)
{
    uint8_t *p;
    size_t n;

    (void)state;
    assert_ok(os_read_file(&p, &n, OLD, 1 << 20));
    for (size_t bit = 0; bit < n * 8; bit += 13) {
        struct journal *j;
        size_t came;

        support_empty_dir(journal_rig_dir);
        write_flipped(1, p, n, bit);
        j = journal_rig_open();
        came = journal_rig_count(j);
        assert_in_range(came, bit / 8 < COPY_BYTES ? 0 : 2, bit / 8 < COPY_BYTES ? 0 : 3);
        assert_true(stats_of(j).damaged_bytes + stats_of(j).torn_bytes > 0);
        journal_close(j);
    }
    mem_free(p);
}

/* -- a newer one -- */

static void a_newer_version_is_refused_by_either_copy_and_named(void **state)
{
    struct journal_conf conf = journal_rig_conf(fio_unsynced());
    struct journal_header h = {.number = 1, .epoch = 2, .seed = 3, .position = 4};
    struct buf b, once;

    (void)state;
    buf_init(&b, 4096);
    buf_init(&once, 4096);
    journal_header_put(&once, &h);
    once.p[8] = 9;
    once.n = COPY_BYTES - 8;
    buf_put_u64le(&once, hash_bytes(once.p, COPY_BYTES - 8, 0));
    buf_put(&b, once.p, once.n);
    buf_put(&b, once.p, once.n);
    for (unsigned copy = 0; copy < 2; copy++) {
        struct errmsg why = {""};
        struct journal *j;

        write_flipped(1, b.p, b.n, copy * COPY_BYTES * 8 + 80);
        assert_err(journal_open(&j, &conf, &why), ERR_VERSION);
        assert_non_null(strstr(why.text, path_of(1)));
        assert_true(os_exists(path_of(1)));
    }
    buf_fini(&once);
    buf_fini(&b);
}

#define T(f) cmocka_unit_test_setup_teardown(f, journal_rig_setup, journal_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_flipped_bit_in_either_copy_costs_nothing_and_is_told),
        T(an_older_file_without_a_header_is_told),
        T(an_old_file_is_read_and_written_on),
        T(a_flipped_bit_in_an_old_file_is_counted),
        T(a_newer_version_is_refused_by_either_copy_and_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
