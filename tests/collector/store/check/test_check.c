#include "collector/store/check/check.h"

#include <stdio.h>
#include <string.h>

#include "collector/store/manifest/manifest.h"
#include "collector/store/wal/wal_source.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/store/segment/seg_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256], segments[300], wal[300];

static const char *path_in(const char *in, const char *name)
{
    static char path[600];

    snprintf(path, sizeof path, "%s/%s", in, name);
    return path;
}

static const char *path_of(uint64_t number)
{
    struct seg_info info = seg_rig_info(number);
    char name[SEG_NAME_MAX];

    seg_name(name, &info);
    return path_in(segments, name);
}

static void write_log(void)
{
    struct wal_record r = {.kind = WAL_BATCH, .host_name = str_make("h"), .bytes = "batch", .n = 5};
    struct buf b;

    for (unsigned i = 1; i < 3; i++) {
        char name[64];

        buf_init(&b, 4096);
        wal_source_header_put(&b, i, 9, 0);
        for (r.seq = 1; r.seq < 4; r.seq++) {
            wal_record_put(&b, &r, 9);
        }
        snprintf(name, sizeof name, "wal-%016x.log", i);
        assert_ok(os_write_file(path_in(wal, name), b.p, b.n, true));
        buf_fini(&b);
    }
}

/* A store with three segments and two files of the log. */
static int setup(void **state)
{
    struct manifest_conf conf = {segments, fio_unsynced()};
    struct manifest *m;

    support_temp_dir(dir, sizeof dir);
    snprintf(segments, sizeof segments, "%s/segments", dir);
    snprintf(wal, sizeof wal, "%s/wal", dir);
    assert_ok(os_mkdirs(segments, true));
    assert_ok(os_mkdirs(wal, true));
    assert_ok(manifest_open(&m, &conf, NULL));
    for (unsigned i = 0; i < 3; i++) {
        struct seg_info info = seg_rig_info(manifest_number(m));

        info.in_hour = i == 1;
        assert_ok(seg_rig_write(fio_unsynced(), segments, &info));
        assert_ok(manifest_change(m, &info, 1, NULL, 0, NULL));
        manifest_publish(m);
    }
    manifest_close(m);
    write_log();
    return 0;
}

static int teardown(void **state)
{
    support_remove_dir(segments);
    support_remove_dir(wal);
    support_remove_dir(dir);
    return 0;
}

struct seen {
    size_t n;
    struct check_file last;
    char name[SEG_NAME_MAX];
    uint64_t done, total;
};

static void see(void *ctx, const struct check_file *f)
{
    struct seen *s = ctx;

    s->n++;
    s->last = *f;
    snprintf(s->name, sizeof s->name, "%s", f->name);
}

static void see_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct seen *s = ctx;

    assert_true(done_bytes >= s->done);
    s->done = done_bytes;
    s->total = total_bytes;
}

static enum err check(struct check_result *r, struct seen *s, bool repair)
{
    struct check_conf conf = {dir, fio_unsynced(), repair, see, see_progress, s};

    *s = (struct seen){.n = 0};
    return check_store(r, &conf, NULL);
}

static void damage(const char *path, size_t at, size_t n)
{
    struct fio_file *f;
    uint8_t zero[512] = {0};

    assert_ok(fio_os()->open(NULL, &f, path));
    assert_ok(fio_os()->write(NULL, f, at, zero, n));
    fio_os()->close(NULL, f);
}

static void assert_sound(size_t n_segments, uint64_t values)
{
    struct check_result r;
    struct seen s;

    assert_ok(check(&r, &s, false));
    assert_int_equal(s.n, 0);
    assert_false(r.damaged);
    assert_false(r.mended);
    assert_int_equal(r.kinds[SEG_RAW].files, n_segments);
    assert_int_equal(r.kinds[SEG_RAW].values, values);
    assert_int_equal(r.kinds[SEG_RAW].damaged, 0);
}

/* -- tests -- */

static void a_sound_store_is_sound(void **state)
{
    struct check_result r;
    struct seen s;

    assert_sound(3, 3 * seg_rig_values());
    assert_ok(check(&r, &s, true));
    assert_int_equal(s.n, 0);
    assert_false(r.mended || r.damaged);
    assert_int_equal(r.log.files, 2);
    assert_int_equal(r.log.values, 6);
    assert_true(s.done >= s.total && s.total == r.kinds[SEG_RAW].bytes);
    assert_int_equal(r.manifest.values, 3);
}

static void a_damaged_segment_is_told_and_mended(void **state)
{
    struct manifest_conf conf = {segments, fio_unsynced()};
    struct manifest_list *l;
    struct manifest *m;
    struct check_result r;
    struct seen s;
    uint64_t lost;

    damage(path_of(2), 3000, 100);
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged && !r.mended);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.last.state, CHECK_DAMAGED);
    assert_true(s.last.damaged > 0);
    assert_int_equal(s.last.values, seg_rig_values());
    assert_non_null(strstr(s.name, "-2.seg"));

    assert_ok(check(&r, &s, true));
    assert_true(r.mended && !r.damaged);
    assert_int_equal(s.last.state, CHECK_MENDED);
    lost = s.last.lost;
    assert_true(lost > 0 && lost < 10);
    assert_sound(3, 3 * seg_rig_values()); /* with an empty one for each that is lost */
    assert_ok(manifest_open(&m, &conf, NULL));
    l = manifest_view(m);
    assert_true(manifest_segment(l, 1)->in_hour);
    assert_true(manifest_segment(l, 1)->bytes < manifest_segment(l, 0)->bytes);
    assert_int_equal(manifest_segment(l, 1)->values, SEG_RIG_SAMPLES);
    manifest_list_release(l);
    manifest_close(m);
}

static void a_segment_without_anything_readable_is_put_aside(void **state)
{
    struct check_result r;
    struct seen s;
    char bad[700];

    assert_ok(os_write_file(path_of(3), "nothing", 7, true));
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged);
    assert_ok(check(&r, &s, true));
    assert_true(r.mended && !r.damaged);
    assert_int_equal(s.last.state, CHECK_ASIDE);
    snprintf(bad, sizeof bad, "%s.bad", path_of(3));
    assert_true(os_exists(bad));
    assert_false(os_exists(path_of(3)));
    assert_sound(2, 2 * seg_rig_values());
}

static void change_names(uint64_t a, uint64_t b)
{
    char first[700], second[700], between[720];

    snprintf(first, sizeof first, "%s", path_of(a));
    snprintf(second, sizeof second, "%s", path_of(b));
    snprintf(between, sizeof between, "%s.between", first);
    assert_ok(fio_os()->rename(NULL, first, between));
    assert_ok(fio_os()->rename(NULL, second, first));
    assert_ok(fio_os()->rename(NULL, between, second));
}

static void segments_with_changed_names_are_told_and_get_their_own(void **state)
{
    struct seg_info info = seg_rig_info(1);
    struct check_result r;
    struct seen s;
    struct seg *seg;

    change_names(1, 3);
    assert_err(seg_open(&seg, fio_unsynced(), segments, &info, NULL), ERR_CORRUPT);
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged && !r.mended);
    assert_int_equal(s.n, 2);
    assert_ok(check(&r, &s, true));
    assert_true(r.mended && !r.damaged);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.last.state, CHECK_MENDED);
    assert_int_equal(s.last.lost, 0);
    assert_sound(3, 3 * seg_rig_values());
}

static void a_missing_segment_is_told_and_forgotten(void **state)
{
    struct check_result r;
    struct seen s;

    assert_ok(os_remove(path_of(1)));
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged);
    assert_int_equal(s.last.state, CHECK_MISSING);
    assert_int_equal(s.last.lost, 1);
    assert_ok(check(&r, &s, true));
    assert_true(r.mended && !r.damaged);
    assert_sound(2, 2 * seg_rig_values());
}

static void half_a_manifest_is_enough(void **state)
{
    struct check_result r;
    struct seen s;

    damage(path_in(segments, "manifest"), 0, 8);
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged);
    assert_string_equal(s.name, "manifest");
    assert_ok(check(&r, &s, true));
    assert_true(r.mended && !r.damaged);
    assert_sound(3, 3 * seg_rig_values());
}

static void a_lost_manifest_is_made_from_mended_segments(void **state)
{
    struct check_result r;
    struct seen s;

    assert_ok(os_remove(path_in(segments, "manifest")));
    damage(path_of(2), 3000, 100);
    damage(path_of(3), 0, 20);
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged && !r.mended);
    assert_int_equal(s.n, 3);
    assert_ok(check(&r, &s, true));
    assert_true(r.mended && !r.damaged);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.name, "manifest");
    /* All three say the same of hosts and stamps: the newest has everything. */
    assert_sound(1, seg_rig_values());
}

static void damage_in_the_log_is_told(void **state)
{
    struct check_result r;
    struct seen s;

    damage(path_in(wal, "wal-0000000000000001.log"), 150, 20);
    assert_ok(check(&r, &s, true));
    assert_true(r.damaged && !r.mended);
    assert_int_equal(r.log.damaged_files, 1);
    assert_int_equal(r.log.values, 5);
    assert_string_equal(s.name, "wal-0000000000000001.log");
}

/* The end of the newest file may be torn, unless its index says that it was finished. What sound
 * records follow is damage in any case. */
static void damage_in_the_newest_file_is_told_unless_it_may_be_torn(void **state)
{
    const char *name = "wal-0000000000000002.log";
    struct check_result r;
    struct seen s;

    damage(path_in(wal, name), 300, 20); /* the last of three records */
    assert_ok(check(&r, &s, false));
    assert_false(r.damaged);
    assert_int_equal(r.log.values, 5);
    assert_ok(os_write_file(path_in(wal, "wal-0000000000000002.idx"), "x", 1, true));
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged);
    assert_int_equal(r.log.damaged_files, 1);
    assert_int_equal(r.indexes.damaged_files, 0); /* torn: it is not synced */
    assert_ok(os_remove(path_in(wal, "wal-0000000000000002.idx")));
    damage(path_in(wal, name), 150, 20); /* the first */
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged);
    assert_int_equal(r.log.values, 4);
    assert_string_equal(s.name, name);
}

static void a_damaged_header_of_the_log_is_told(void **state)
{
    const char *name = "wal-0000000000000002.log";
    struct check_result r;
    struct seen s;

    damage(path_in(wal, name), 0, 4); /* one copy */
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged);
    assert_int_equal(r.log.values, 6);
    damage(path_in(wal, name), 40, 4); /* the other one */
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged);
    assert_int_equal(r.log.values, 3);
    assert_string_equal(s.name, name);
}

static void a_file_of_the_log_that_was_put_aside_is_told(void **state)
{
    struct check_result r;
    struct seen s;

    assert_ok(os_write_file(path_in(wal, "wal-0000000000000000.bad"), "x", 1, true));
    assert_ok(check(&r, &s, false));
    assert_true(r.damaged);
    assert_int_equal(s.last.state, CHECK_KEPT);
    assert_string_equal(s.name, "wal-0000000000000000.bad");
}

/* What can be made anew goes, so that it is. */
static void what_stands_beside_is_told_and_removed(void **state)
{
    static const char *const names[] = {"hosts", "wal/wal-0000000000000001.idx",
                                        "catalogue/2026-01-01.db"};
    char catalogue[300];
    struct check_result r;
    struct seen s;

    snprintf(catalogue, sizeof catalogue, "%s/catalogue", dir);
    assert_ok(os_mkdirs(catalogue, true));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        static const uint8_t page[4096] = {'?'};

        assert_ok(os_write_file(path_in(dir, names[i]), page, sizeof page, true));
        assert_ok(check(&r, &s, false));
        assert_true(r.damaged && !r.mended);
        assert_int_equal(s.n, 1);
        assert_string_equal(s.name, names[i]);
        assert_ok(check(&r, &s, true));
        assert_true(r.mended && !r.damaged);
        assert_int_equal(s.last.state, CHECK_MENDED);
        assert_false(os_exists(path_in(dir, names[i])));
    }
    assert_sound(3, 3 * seg_rig_values());
    support_remove_dir(catalogue);
}

static void repair_wants_the_store_for_itself(void **state)
{
    struct check_conf conf = {.data_dir = dir, .fio = fio_unsynced(), .repair = true};
    struct check_conf nowhere = {.data_dir = wal, .fio = fio_unsynced()};
    struct check_result r;
    struct errmsg why = {""};
    struct os_lock *lock;

    assert_ok(os_lock(&lock, path_in(dir, "lock")));
    assert_err(check_store(&r, &conf, &why), ERR_BUSY);
    assert_non_null(strstr(why.text, "collector"));
    conf.repair = false;
    assert_ok(check_store(&r, &conf, &why));
    os_unlock(lock);
    assert_err(check_store(&r, &nowhere, &why), ERR_NOTFOUND);
}

static void every_allocation_may_fail(void **state)
{
    enum err e = ERR_NOMEM;

    damage(path_of(2), 3000, 100);
    for (long i = 0; e == ERR_NOMEM && i < 3000; i++) {
        struct check_result r;
        struct seen s;
        long live = mem_live();

        mem_fail_after(i);
        e = check(&r, &s, true);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        assert_int_equal(mem_live(), live);
    }
    assert_ok(e);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_sound_store_is_sound),
        T(a_damaged_segment_is_told_and_mended),
        T(a_segment_without_anything_readable_is_put_aside),
        T(segments_with_changed_names_are_told_and_get_their_own),
        T(a_missing_segment_is_told_and_forgotten),
        T(half_a_manifest_is_enough),
        T(a_lost_manifest_is_made_from_mended_segments),
        T(damage_in_the_log_is_told),
        T(damage_in_the_newest_file_is_told_unless_it_may_be_torn),
        T(a_damaged_header_of_the_log_is_told),
        T(a_file_of_the_log_that_was_put_aside_is_told),
        T(what_stands_beside_is_told_and_removed),
        T(repair_wants_the_store_for_itself),
        T(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
