/* The end of the log's newest file: what a write that was never finished can leave, and what it
 * cannot. */
#include <string.h>

#include "collector/store/wal/wal_record.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/wal_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define LAST (WAL_RECORD_FIXED + 4 + 13 + 8) /* bytes of a record */

static enum err count(void *ctx, struct wal *w, uint64_t file, const struct wal_record *r)
{
    (void)w;
    (void)file;
    *(size_t *)ctx += r->kind == WAL_BATCH;
    return ERR_OK;
}

static struct wal *open_log(size_t *batches)
{
    struct wal_conf conf = wal_rig_conf();

    *batches = 0;
    conf.replay = count;
    conf.ctx = batches;
    return wal_rig_open(&conf);
}

static struct wal_stats stats_of(const struct wal *w)
{
    struct wal_stats stats;

    wal_stats(w, &stats);
    return stats;
}

/* One file with five batches: its number and bytes. */
static uint64_t five_batches(uint8_t **p, size_t *n)
{
    uint64_t file = 0;
    size_t batches;
    struct wal *w;

    support_empty_dir(wal_rig_dir);
    w = open_log(&batches);
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

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t n, batches;
        uint8_t *p;
        uint64_t file = five_batches(&p, &n);

        memset(p + n - LAST, rows[i].fill, LAST);
        support_write_file(wal_rig_path(file, ".log"), p, n);
        mem_free(p);
        for (int life = 0; life < 2; life++) {
            struct wal *w = open_log(&batches);

            assert_int_equal(batches, 4);
            assert_int_equal(stats_of(w).bad_records, rows[i].damage);
            assert_int_equal(stats_of(w).torn_bytes, rows[i].damage || life ? 0 : LAST);
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

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t n, batches;
        uint8_t *p;
        uint64_t file = five_batches(&p, &n);
        struct wal *w;

        memset(p, rows[i].fill, n);
        support_write_file(wal_rig_path(file, ".log"), p, rows[i].bytes ? rows[i].bytes : n);
        mem_free(p);
        w = open_log(&batches);
        assert_int_equal(batches, 0);
        assert_int_equal(stats_of(w).aside, rows[i].aside);
        wal_close(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_end_that_no_write_left_is_damage, wal_rig_setup,
                                        wal_rig_teardown),
        cmocka_unit_test_setup_teardown(a_newest_file_of_strange_bytes_is_set_aside, wal_rig_setup,
                                        wal_rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
