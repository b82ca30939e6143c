/* The journal when bytes, operations, memory and the power fail; headers that are there twice. */
#include <stdio.h>
#include <string.h>

#include "collector/subscribe/feed_check.h"
#include "collector/subscribe/journal_format.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "tests/collector/subscribe/journal_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define COPY_BYTES (JOURNAL_HEADER_BYTES / 2)
#define OLD        "tests/collector/fixtures/feed-format1.log" /* file 1 with batches 1 to 3 */

/* The newest file's path. */
static enum err newest_name(void *ctx, const char *name)
{
    uint64_t *newest = ctx, number;

    if (fio_name_parse(&number, name, "feed-", ".log") && number > *newest) {
        *newest = number;
    }
    return ERR_OK;
}

static const char *newest_path(void)
{
    static char path[400];
    uint64_t newest = 0;

    assert_ok(os_list_dir(journal_rig_dir, newest_name, &newest));
    snprintf(path, sizeof path, "%s/feed-%016llx.log", journal_rig_dir, (unsigned long long)newest);
    return path;
}

/* -- damage -- */

static void a_torn_tail_of_any_length_is_cut_off(void **state)
{
    struct journal *j = journal_rig_open();
    struct journal_stats s;
    uint64_t epoch = journal_epoch(j);
    const char *path;
    uint8_t *p;
    size_t n, kept;

    journal_rig_add_synced(j, 1, 1);
    journal_stats(j, &s);
    kept = (size_t)s.bytes;
    journal_rig_add_synced(j, 1, 2);
    journal_close(j);
    path = newest_path();
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    for (size_t cut = kept; cut < n; cut++) {
        support_write_file(path, p, cut);
        j = journal_rig_open();
        assert_int_equal(journal_epoch(j), epoch);
        assert_int_equal(journal_rig_count(j), 1);
        assert_false(
            journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){7, 2, INT64_MIN, 0}));
        journal_stats(j, &s);
        assert_int_equal(s.torn_bytes, cut - kept);
        assert_int_equal(journal_rig_add(j, 1, 2).seq, 2);
        journal_close(j);
        j = journal_rig_open();
        assert_int_equal(journal_rig_count(j), 2);
        journal_close(j);
    }
    mem_free(p);
}

static void a_file_torn_while_it_began_is_as_if_it_never_was(void **state)
{
    struct journal *j = journal_rig_open();
    uint64_t epoch = journal_epoch(j);
    uint8_t *p;
    size_t n;

    journal_rig_add_synced(j, 1, 1);
    journal_close(j);
    assert_ok(os_read_file(&p, &n, newest_path(), 1 << 20));
    for (size_t cut = 0; cut < JOURNAL_HEADER_BYTES + JOURNAL_RECORD_FIXED; cut += 5) {
        char path[400];

        snprintf(path, sizeof path, "%s/feed-00000000000000ff.log", journal_rig_dir);
        support_write_file(path, p, cut);
        j = journal_rig_open();
        assert_int_equal(journal_epoch(j), epoch);
        assert_int_equal(journal_rig_count(j), 1);
        assert_false(os_exists(path));
        journal_close(j);
    }
    mem_free(p);
}

static void an_unfinished_batch_at_the_end_is_cut_off(void **state)
{
    struct journal *j = journal_rig_open();
    struct journal_record r = journal_rig_event(1, 2, 300);

    journal_rig_add_synced(j, 1, 1);
    r.more = true;
    assert_ok(journal_append(j, &r, journal_rig_payload(2, 300)));
    assert_ok(journal_append(j, &r, journal_rig_payload(2, 300)));
    journal_close(j);
    j = journal_rig_open();
    assert_int_equal(journal_rig_count(j), 1);
    r = journal_rig_event(1, 2, 300);
    r.more = true;
    assert_ok(journal_append(j, &r, journal_rig_payload(2, 300)));
    assert_int_equal(r.seq, 2);
    r = journal_rig_event(1, 2, 300);
    assert_ok(journal_append(j, &r, journal_rig_payload(2, 300)));
    journal_close(j);
    j = journal_rig_open();
    assert_int_equal(journal_rig_count(j), 3);
    assert_int_equal(journal_rig_count_batch(j, 2), 2);
    journal_close(j);
}

/* Where the n-th record of the bytes begins, the checkpoint being the first. */
static size_t record_at(const uint8_t *p, size_t n, unsigned nth)
{
    size_t at = JOURNAL_HEADER_BYTES;

    for (;; at++) {
        assert_true(at + 4 <= n);
        if (memcmp(p + at, JOURNAL_RECORD_MAGIC, 4) == 0 && nth-- == 0) {
            return at;
        }
    }
}

/* Reads all of it; told: the positions of what cannot be read, as bits. */
static uint64_t read_all(struct journal *j, uint64_t *told)
{
    struct journal_record r;
    uint64_t from = 0, came = 0;
    struct buf b;
    enum err e;

    *told = 0;
    buf_init(&b, 1 << 20);
    while ((e = journal_next(j, &from, NULL, NULL, &r, &b)) == ERR_OK || e == ERR_CORRUPT) {
        assert_in_range(r.position, 1, 63);
        if (e) {
            *told |= UINT64_C(1) << r.position;
            assert_string_equal(r.name, ""); /* nobody knows whose it was */
        } else {
            assert_int_equal(r.batch, r.position);
            assert_memory_equal(b.p, journal_rig_payload(r.batch, 300), 300);
            came |= UINT64_C(1) << r.position;
        }
        buf_reset(&b);
    }
    assert_err(e, ERR_END);
    buf_fini(&b);
    return came;
}

static void damage_costs_the_records_it_is_in_and_these_are_told(void **state)
{
    enum { RECORDS = 12 };
    struct journal *j = journal_rig_open();
    const uint64_t all = (UINT64_C(2) << RECORDS) - 2;
    uint64_t epoch = journal_epoch(j);
    char path[400];
    uint8_t *p;
    size_t n;

    for (uint64_t b = 1; b <= RECORDS; b++) {
        journal_rig_add_synced(j, 1 + (unsigned)b % 3, b);
    }
    journal_close(j);
    snprintf(path, sizeof path, "%s", newest_path());
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    for (unsigned first = 1; first < RECORDS; first++) {
        for (unsigned last = first; last < RECORDS && last < first + 3; last++) {
            uint64_t told, hit = 0;
            struct journal_stats s;

            support_empty_dir(journal_rig_dir);
            for (unsigned i = first; i <= last; i++) {
                p[record_at(p, n, i) + 40] ^= 8;
                hit |= UINT64_C(1) << i;
            }
            support_write_file(path, p, n);
            for (unsigned i = first; i <= last; i++) {
                p[record_at(p, n, i) + 40] ^= 8;
            }
            j = journal_rig_open();
            assert_int_equal(journal_epoch(j), epoch);
            assert_int_equal(read_all(j, &told), all & ~hit);
            assert_int_equal(told, hit);
            journal_stats(j, &s);
            assert_int_equal(s.records, RECORDS - (last - first + 1));
            assert_int_equal(s.damaged_records, last - first + 1);
            assert_int_equal(s.damaged_bytes, record_at(p, n, last + 1) - record_at(p, n, first));
            assert_int_equal(s.torn_bytes, 0);
            journal_close(j);
            j = journal_rig_open(); /* it is not the newest file any more */
            assert_int_equal(journal_epoch(j), epoch);
            assert_int_equal(read_all(j, &told), all & ~hit);
            assert_int_equal(told, hit);
            journal_close(j);
        }
    }
    mem_free(p);
}

/* The end of an older file is not torn: the next one says how far it went. */
static void damage_at_the_end_of_an_older_file_is_told(void **state)
{
    struct journal *j = journal_rig_open();
    struct journal_stats s;
    uint64_t told;
    char path[400];
    uint8_t *p;
    size_t n;

    for (uint64_t b = 1; b <= 4; b++) {
        journal_rig_add_synced(j, 1, b);
    }
    journal_close(j);
    snprintf(path, sizeof path, "%s", newest_path());
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    p[record_at(p, n, 2) + 50] ^= 1; /* damage inside: writing goes on in another file */
    support_write_file(path, p, n);
    j = journal_rig_open();
    journal_rig_add_synced(j, 1, 5);
    journal_close(j);
    p[n - 30] ^= 1;
    support_write_file(path, p, n);
    j = journal_rig_open();
    assert_int_equal(read_all(j, &told), 1u << 1 | 1u << 3 | 1u << 5);
    assert_int_equal(told, 1u << 2 | 1u << 4);
    journal_stats(j, &s);
    assert_int_equal(s.damaged_records, 2);
    journal_close(j);
    mem_free(p);
}

/* The numbers of topics are not known then: a new epoch. What is in the file is. */
static void a_damaged_checkpoint_costs_no_record(void **state)
{
    struct journal *j = journal_rig_open();
    uint64_t epoch = journal_epoch(j), told;
    uint8_t *p;
    size_t n;

    for (uint64_t b = 1; b <= 4; b++) {
        journal_rig_add_synced(j, 1, b);
    }
    journal_close(j);
    assert_ok(os_read_file(&p, &n, newest_path(), 1 << 20));
    p[record_at(p, n, 0) + 50] ^= 1;
    support_write_file(newest_path(), p, n);
    mem_free(p);
    j = journal_rig_open();
    assert_int_not_equal(journal_epoch(j), epoch);
    epoch = journal_epoch(j);
    assert_int_equal(read_all(j, &told), 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4);
    assert_int_equal(told, 0);
    assert_true(journal_rig_add(j, 1, 5).seq > 4);
    journal_close(j);
    j = journal_rig_open(); /* that of the file which was begun */
    assert_int_equal(journal_epoch(j), epoch);
    assert_int_equal(journal_rig_count(j), 5);
    journal_close(j);
}

/* Whatever bit is wrong: no record is changed, none is twice, no number is given again. */
static void every_bit_flip_is_noticed_and_gives_no_number_twice(void **state)
{
    struct journal *j = journal_rig_open();
    uint64_t epoch = journal_epoch(j);
    char path[400];
    uint8_t *p;
    size_t n, first = 0, last;
    struct journal_stats s;

    for (uint64_t b = 1; b <= 3; b++) {
        journal_stats(j, &s);
        first = b == 1 ? (size_t)s.bytes : first;
        journal_rig_add_synced(j, 1, b);
    }
    last = (size_t)s.bytes; /* the newest record cannot be told from a torn one */
    journal_close(j);
    snprintf(path, sizeof path, "%s", newest_path());
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    for (size_t at = 0; at < n; at++) {
        struct journal_record r;
        uint64_t told;
        size_t got = 0;

        support_empty_dir(journal_rig_dir);
        p[at] ^= (uint8_t)(1 << at % 8);
        support_write_file(path, p, n);
        p[at] ^= (uint8_t)(1 << at % 8);
        j = journal_rig_open();
        for (uint64_t came = read_all(j, &told); came; came &= came - 1) {
            got++;
        }
        assert_int_equal(got, at < first ? 3 : 2);
        journal_stats(j, &s);
        assert_true(s.damaged_bytes + s.torn_bytes > 0);
        assert_int_equal(told != 0, at >= first && at < last);
        r = journal_rig_add(j, 1, 4);
        if (at < last) {
            assert_true(journal_epoch(j) != epoch || r.seq == 4);
            assert_true(r.position > 3);
        }
        journal_close(j);
        j = journal_rig_open();
        assert_int_equal(journal_rig_count(j), got + 1);
        assert_int_equal(journal_rig_count_batch(j, 4), 1);
        journal_close(j);
    }
    mem_free(p);
}

static void a_payload_that_rots_is_told(void **state)
{
    struct journal *j = journal_rig_open();
    struct journal_record r;
    uint64_t from = 0, last;
    struct buf b;
    uint8_t *p;
    size_t n;

    journal_rig_add_synced(j, 1, 1);
    journal_rig_add_synced(j, 1, 2);
    assert_ok(os_read_file(&p, &n, newest_path(), 1 << 20));
    p[n - 20] ^= 4;
    support_write_file(newest_path(), p, n);
    mem_free(p);
    buf_init(&b, 1 << 20);
    assert_ok(journal_next(j, &from, NULL, NULL, &r, &b));
    assert_err(journal_next(j, &from, NULL, NULL, &r, &b), ERR_CORRUPT);
    assert_err(journal_next(j, &from, NULL, NULL, &r, &b), ERR_END);
    assert_err(journal_find(j, FEED_EVENT, "host-1", 2, &r, &b, &last), ERR_CORRUPT);
    buf_fini(&b);
    journal_close(j);
}

/* A bit in the head of the newest record. */
static void rot_newest_head(void)
{
    size_t n, at;
    uint8_t *p;

    assert_ok(os_read_file(&p, &n, newest_path(), 1 << 20));
    for (at = n - 4; memcmp(p + at, JOURNAL_RECORD_MAGIC, 4) != 0; at--) {
        assert_true(at > 0);
    }
    p[at + 60] ^= 4;
    support_write_file(newest_path(), p, n);
    mem_free(p);
}

static void a_head_that_rots_is_told_with_its_number(void **state)
{
    struct journal *j = journal_rig_open();
    struct journal_record r;
    uint64_t from = 0, last;

    journal_rig_add_synced(j, 1, 1);
    journal_rig_add_synced(j, 1, 2);
    rot_newest_head();
    assert_ok(journal_next(j, &from, NULL, NULL, &r, NULL));
    assert_int_equal(r.batch, 1);
    assert_err(journal_next(j, &from, NULL, NULL, &r, NULL), ERR_CORRUPT);
    assert_int_equal(r.position, 2);
    assert_int_equal(r.seq, 2);
    assert_string_equal(r.name, "host-1");
    assert_err(journal_next(j, &from, NULL, NULL, &r, NULL), ERR_END);
    assert_err(journal_find(j, FEED_EVENT, "host-1", 2, &r, NULL, &last), ERR_CORRUPT);
    assert_int_equal(r.seq, 2);
    assert_false(journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){7, 2, INT64_MIN, 0}));
    assert_true(journal_has(j, FEED_EVENT, "host-1", &(struct journal_batch){7, 1, INT64_MIN, 0}));
    journal_close(j);
}

/* -- failures -- */

/* The n-th operation fails: what was said to be synced is there, once; the rest at most once. */
static void after_any_failing_operation_the_next_sync_works(void **state)
{
    for (long n = 0; n < 40; n++) {
        struct fio_fault *fault;
        struct journal_conf conf = journal_rig_conf(NULL);
        struct journal *j;
        bool synced[21] = {false};

        assert_ok(fio_fault_create(&fault));
        conf.fio = fio_fault_fio(fault);
        j = journal_rig_open_with(&conf);
        fio_fault_fail(fault, FIO_CREATE | FIO_WRITE | FIO_SYNC | FIO_SYNC_DIR, n, ERR_IO, false);
        for (uint64_t b = 1; b <= 20; b++) {
            synced[b] = journal_rig_add_noise(j, 1, b, 60000) == ERR_OK;
        }
        journal_close(j);
        j = journal_rig_open_with(&conf);
        for (uint64_t b = 1; b <= 20; b++) {
            size_t count = journal_rig_count_batch(j, b);

            assert_true(count == 1 || (count == 0 && !synced[b]));
        }
        journal_close(j);
        fio_fault_destroy(fault);
        support_empty_dir(journal_rig_dir);
    }
}

static void what_was_synced_survives_loss_of_power(void **state)
{
    for (unsigned round = 0; round < 60; round++) {
        struct fio_fault *fault;
        struct journal_conf conf = journal_rig_conf(NULL);
        struct journal *j;
        uint64_t synced = round;

        assert_ok(fio_fault_create(&fault));
        conf.fio = fio_fault_fio(fault);
        j = journal_rig_open_with(&conf);
        for (uint64_t b = 1; b <= synced; b++) {
            assert_ok(journal_rig_add_noise(j, 1, b, 30000));
        }
        (void)journal_rig_add(j, 1, synced + 1);
        fio_fault_fail(fault, FIO_SYNC, 0, ERR_IO, true);
        assert_err(journal_sync(j), ERR_IO);
        fio_fault_power_cut(fault, (enum fio_fault_keep)(round % 3), round);
        journal_close(j);
        fio_fault_destroy(fault);
        j = journal_rig_open();
        for (uint64_t b = 1; b <= synced; b++) {
            assert_int_equal(journal_rig_count_batch(j, b), 1);
        }
        assert_true(journal_rig_count_batch(j, synced + 1) <= 1);
        journal_close(j);
        support_empty_dir(journal_rig_dir);
    }
}

static void a_full_disk_is_told_and_room_mends_it(void **state)
{
    struct fio_fault *fault;
    struct journal_conf conf = journal_rig_conf(NULL);
    struct journal *j;

    assert_ok(fio_fault_create(&fault));
    conf.fio = fio_fault_fio(fault);
    j = journal_rig_open_with(&conf);
    assert_ok(journal_rig_add_noise(j, 1, 1, 1000));
    fio_fault_disk_full(fault, 500);
    assert_err(journal_rig_add_noise(j, 1, 2, 1000), ERR_NOSPACE);
    assert_err(journal_sync(j), ERR_NOSPACE);
    assert_int_equal(journal_rig_count(j), 1); /* it waits */
    fio_fault_disk_full(fault, UINT64_MAX);
    assert_ok(journal_rig_add_noise(j, 1, 3, 1000));
    assert_int_equal(journal_rig_count(j), 3);
    assert_int_equal(journal_rig_last(j, "host-1"), 3);
    fio_fault_disk_full(fault, 500);
    assert_err(journal_rig_add_noise(j, 1, 4, 1000), ERR_NOSPACE);
    journal_drop(j);
    assert_ok(journal_sync(j));
    fio_fault_disk_full(fault, UINT64_MAX);
    assert_ok(journal_rig_add_noise(j, 1, 5, 1000));
    assert_int_equal(journal_rig_count(j), 4);
    assert_int_equal(journal_rig_last(j, "host-1"), 5);
    fio_fault_power_cut(fault, FIO_KEEP_NOTHING, 1);
    journal_close(j);
    fio_fault_destroy(fault);
    conf.fio = fio_unsynced();
    j = journal_rig_open_with(&conf);
    assert_int_equal(journal_rig_count(j), 4);
    journal_close(j);
}

static void opening_and_writing_survive_every_failing_allocation(void **state)
{
    struct journal_conf conf = journal_rig_conf(fio_unsynced());
    bool done = false;

    for (long n = 0; !done; n++) {
        struct journal *j = NULL;
        long live = mem_live();
        struct journal_record r = journal_rig_event(1, 1, 300);
        enum err e;

        mem_fail_after(n);
        e = journal_open(&j, &conf, NULL);
        if (!e) {
            e = journal_append(j, &r, journal_rig_payload(1, 300));
        }
        if (!e) {
            e = journal_sync(j);
        }
        mem_fail_after(-1);
        done = e == ERR_OK;
        assert_true(done || e == ERR_NOMEM);
        journal_close(j);
        assert_int_equal(mem_live(), live);
        assert_true(n < 200);
        if (!done) {
            support_empty_dir(journal_rig_dir);
        }
    }
}

/* -- the header is there twice; files with one are still read -- */

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

    buf_init(&b, 4096);
    buf_init(&once, 4096);
    journal_format_put_header(&once, &h);
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

#define T(name) cmocka_unit_test_setup_teardown(name, journal_rig_setup, journal_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_torn_tail_of_any_length_is_cut_off),
        T(a_file_torn_while_it_began_is_as_if_it_never_was),
        T(an_unfinished_batch_at_the_end_is_cut_off),
        T(damage_costs_the_records_it_is_in_and_these_are_told),
        T(damage_at_the_end_of_an_older_file_is_told),
        T(a_damaged_checkpoint_costs_no_record),
        T(every_bit_flip_is_noticed_and_gives_no_number_twice),
        T(a_payload_that_rots_is_told),
        T(a_head_that_rots_is_told_with_its_number),
        T(after_any_failing_operation_the_next_sync_works),
        T(what_was_synced_survives_loss_of_power),
        T(a_full_disk_is_told_and_room_mends_it),
        T(opening_and_writing_survive_every_failing_allocation),
        T(a_flipped_bit_in_either_copy_costs_nothing_and_is_told),
        T(an_older_file_without_a_header_is_told),
        T(an_old_file_is_read_and_written_on),
        T(a_flipped_bit_in_an_old_file_is_counted),
        T(a_newer_version_is_refused_by_either_copy_and_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
