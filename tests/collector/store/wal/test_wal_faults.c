/* What a log does when the disk or memory fails it. */ #include "collector/store/wal/wal.h"

#include <string.h>

#include "collector/store/wal/wal_source.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/store/wal/wal_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define WINDOW WAL_RIG_WINDOW

    static void
    any_failing_operation_is_fatal_and_is_not_tried_again(void **state)
{
    static const unsigned ops[] = {FIO_CREATE, FIO_WRITE, FIO_SYNC, FIO_SYNC_DIR};

    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        struct wal_rig_seen seen = {0};
        struct wal_conf conf = wal_rig_seeing(&seen);
        struct wal_record r = wal_rig_batch(2, "lost");
        struct fio_fault *f;
        struct wal *w;
        long before;

        support_empty_dir(wal_rig_dir);
        assert_ok(fio_fault_create(&f));
        conf.fio = fio_fault_fio(f);
        assert_ok(wal_open(&w, &conf, NULL));
        wal_rig_commit_one(w, 1, 10);
        fio_fault_fail(f, ops[i], 0, ERR_IO, false);
        assert_ok(wal_add(w, &r, WINDOW, NULL)); /* begins a file, so that all four happen */
        assert_err(wal_commit(w, NULL), ERR_IO);
        before = fio_fault_count(f, FIO_WRITE | FIO_SYNC);
        assert_err(wal_commit(w, NULL), ERR_IO);
        assert_err(wal_add(w, &r, WINDOW, NULL), ERR_IO);
        assert_int_equal(fio_fault_count(f, FIO_WRITE | FIO_SYNC), before);
        wal_close(w);
        fio_fault_destroy(f);
        seen = (struct wal_rig_seen){0};
        w = wal_rig_reopen(&seen);
        assert_true(seen.batches >= 1);
        assert_int_equal(seen.seqs[0], 1);
        wal_close(w);
    }
}

/* Whichever step meets it, in a file that is begun or goes on: all of the commit becomes durable
 * later, once. */
static void a_commit_that_finds_no_room_is_tried_again(void **state)
{
    static const unsigned ops[] = {FIO_CREATE, FIO_WRITE, FIO_SYNC, FIO_SYNC_DIR};

    for (size_t i = 0; i < COUNT_OF(ops) * 2; i++) {
        struct wal_rig_seen seen = {0};
        struct wal_conf conf = wal_rig_seeing(&seen);
        struct wal_record r = wal_rig_batch(2, "waits"), more = wal_rig_batch(3, "joins it");
        int64_t now_ns = i % 2 ? WINDOW : 10; /* begins a file or not */
        bool met = i % 2 || ops[i / 2] == FIO_WRITE || ops[i / 2] == FIO_SYNC;
        struct fio_fault *f;
        struct wal *w;

        support_empty_dir(wal_rig_dir);
        assert_ok(fio_fault_create(&f));
        conf.fio = fio_fault_fio(f);
        assert_ok(wal_open(&w, &conf, NULL));
        wal_rig_commit_one(w, 1, 10);
        fio_fault_fail(f, ops[i / 2], 0, ERR_NOSPACE, true);
        assert_ok(wal_add(w, &r, now_ns, NULL));
        for (int tries = 0; tries < 3; tries++) {
            assert_err(wal_commit(w, NULL), met ? ERR_NOSPACE : ERR_OK);
        }
        assert_err(wal_turn(w, now_ns, NULL), ERR_NOSPACE);
        assert_ok(wal_add(w, &more, now_ns, NULL));
        fio_fault_fail(f, FIO_ALL, -1, ERR_OK, false);
        assert_ok(wal_commit(w, NULL));
        assert_ok(wal_commit(w, NULL));
        wal_rig_commit_one(w, 4, now_ns);
        fio_fault_power_cut(f, FIO_KEEP_NOTHING, 1);
        wal_close(w);
        fio_fault_destroy(f);
        seen = (struct wal_rig_seen){0};
        w = wal_rig_reopen(&seen);
        assert_int_equal(seen.batches, 4);
        for (uint64_t k = 0; k < 4; k++) {
            assert_int_equal(seen.seqs[k], k + 1);
        }
        assert_int_equal(wal_rig_stats(w).bad_records + wal_rig_stats(w).torn_bytes, 0);
        wal_close(w);
    }
}

static void a_failing_read_stops_opening(void **state)
{
    static const unsigned ops[] = {FIO_OPEN, FIO_READ, FIO_SYNC, FIO_SYNC_DIR};
    struct wal_rig_seen seen = {0};
    struct wal *w = wal_rig_reopen(&seen);

    wal_rig_commit_one(w, 1, 10);
    wal_close(w);
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        struct wal_conf conf = wal_rig_seeing(&seen);
        struct errmsg why = {""};
        struct fio_fault *f;

        assert_ok(fio_fault_create(&f));
        fio_fault_fail(f, ops[i], 0, ERR_IO, false);
        conf.fio = fio_fault_fio(f);
        assert_err(wal_open(&w, &conf, &why), ERR_IO);
        assert_non_null(strstr(why.text, wal_rig_dir));
        fio_fault_destroy(f);
    }
}

static void opening_and_adding_survive_every_allocation_failing(void **state)
{
    long held = mem_live();

    for (long n = 0;; n++) {
        struct wal_rig_seen seen = {0};
        struct wal_conf conf = wal_rig_seeing(&seen);
        struct wal_record r = wal_rig_batch((uint64_t)n + 1, "x");
        struct wal *w;
        enum err e;

        support_empty_dir(wal_rig_dir);
        w = wal_rig_reopen(&seen);
        wal_rig_commit_one(w, 1, 10);
        wal_close(w);
        w = NULL;
        mem_fail_after(n);
        e = wal_open(&w, &conf, NULL);
        if (!e) {
            e = wal_add(w, &r, 10, NULL);
        }
        mem_fail_after(-1);
        if (w && e) { /* once memory is back, the same log goes on */
            assert_ok(wal_add(w, &r, 10, NULL));
            assert_ok(wal_commit(w, NULL));
        }
        wal_close(w);
        assert_int_equal(mem_live(), held);
        if (e == ERR_OK) {
            assert_true(n >= 7);
            break;
        }
        assert_err(e, ERR_NOMEM);
    }
}

/* -- the end of the newest file: what an unfinished write can leave, and what it cannot -- */

#define LAST (WAL_RECORD_FIXED + 4 + 13 + 8) /* bytes of a record */

static struct wal *open_again(struct wal_rig_seen *seen)
{
    *seen = (struct wal_rig_seen){0};
    return wal_rig_reopen(seen);
}

/* One file with five batches: its number and bytes. */
static uint64_t five_batches(uint8_t **p, size_t *n)
{
    uint64_t file = 0;
    struct wal_rig_seen seen;
    struct wal *w;

    support_empty_dir(wal_rig_dir);
    w = open_again(&seen);
    for (uint64_t i = 1; i <= 5; i++) {
        struct wal_record r = wal_rig_batch(i, "encoded batch");

        file = wal_rig_commit(w, &r, 10);
    }
    wal_close(w);
    assert_ok(os_read_file(p, n, wal_rig_path(file, ".log"), 1 << 20));
    return file;
}

/* A write that was never finished leaves its own bytes or zeros. Anything else at the newest file's
 * end was written over what was acknowledged: told of at every opening, and kept. */
static void an_end_that_no_write_left_is_damage(void **state)
{
    static const struct {
        int fill;
        bool damage;
    } rows[] = {{0, false}, {0xa5, true}, {'P', true}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct wal_rig_seen seen;
        size_t n;
        uint8_t *p;
        uint64_t file = five_batches(&p, &n);

        memset(p + n - LAST, rows[i].fill, LAST);
        support_write_file(wal_rig_path(file, ".log"), p, n);
        mem_free(p);
        for (int life = 0; life < 2; life++) {
            struct wal *w = open_again(&seen);

            assert_int_equal(seen.batches, 4);
            assert_int_equal(wal_rig_stats(w).bad_records, rows[i].damage);
            assert_int_equal(wal_rig_stats(w).torn_bytes, rows[i].damage || life ? 0 : LAST);
            wal_close(w);
        }
    }
}

/* The newest file written over from its beginning holds no record, but was no file that never
 * began: such a one has zeros, or less than a header. */
static void a_newest_file_of_strange_bytes_is_set_aside(void **state)
{
    static const struct {
        int fill;
        size_t bytes; /* 0: all */
        unsigned aside;
    } rows[] = {
        {0xa5, 0, 1}, {0, 0, 0}, {0xa5, WAL_HEADER_BYTES, 0}, {0xa5, WAL_HEADER_BYTES + 1, 1}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct wal_rig_seen seen;
        size_t n;
        uint8_t *p;
        uint64_t file = five_batches(&p, &n);
        struct wal *w;

        memset(p, rows[i].fill, n);
        support_write_file(wal_rig_path(file, ".log"), p, rows[i].bytes ? rows[i].bytes : n);
        mem_free(p);
        w = open_again(&seen);
        assert_int_equal(seen.batches, 0);
        assert_int_equal(wal_rig_stats(w).aside, rows[i].aside);
        wal_close(w);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, wal_rig_setup, wal_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(any_failing_operation_is_fatal_and_is_not_tried_again),
        T(a_commit_that_finds_no_room_is_tried_again),
        T(a_failing_read_stops_opening),
        T(opening_and_adding_survive_every_allocation_failing),
        T(an_end_that_no_write_left_is_damage),
        T(a_newest_file_of_strange_bytes_is_set_aside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
