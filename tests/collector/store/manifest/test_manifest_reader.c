#include "collector/store/manifest/manifest.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static void put_file(const char *dir, const char *name)
{
    char *path = os_path_join(dir, name);

    assert_non_null(path);
    assert_ok(os_write_file(path, "x", 1, false));
    mem_free(path);
}

static bool is_there(const char *dir, const char *name)
{
    char *path = os_path_join(dir, name);
    bool there = path && os_exists(path);

    mem_free(path);
    return there;
}

/* Adds a segment whose file is a byte. */
static struct seg_info add(struct manifest *m, const char *dir)
{
    struct seg_info s = {
        .number = manifest_number(m), .kind = SEG_RAW, .n_windows = 1, .span_ns = 1, .bytes = 1};
    char name[SEG_NAME_MAX];

    seg_name(name, &s);
    put_file(dir, name);
    assert_ok(manifest_change(m, &s, 1, NULL, 0, NULL));
    manifest_publish(m);
    return s;
}

static size_t count(struct manifest *m)
{
    struct manifest_list *l = manifest_view(m);
    size_t n = manifest_segments(l);

    manifest_list_release(l);
    return n;
}

static void a_reader_beside_the_owner_sees_what_there_is(void **state)
{
    char dir[256];
    struct manifest_conf own = {support_temp_dir(dir, sizeof dir), fio_unsynced()};
    struct manifest_conf look = {dir, fio_unsynced()};
    struct manifest *owner, *reader;
    struct seg_info first;

    assert_ok(manifest_open(&owner, &own, NULL));
    first = add(owner, dir);
    add(owner, dir);
    assert_ok(manifest_open_reader(&reader, &look, NULL));
    assert_int_equal(count(reader), 2);
    manifest_close(reader);
    assert_ok(manifest_change(owner, NULL, 0, &first.number, 1, NULL));
    manifest_publish(owner);
    assert_ok(manifest_open_reader(&reader, &look, NULL));
    assert_int_equal(count(reader), 1);
    assert_err(manifest_change(reader, NULL, 0, NULL, 0, NULL), ERR_ACCESS);
    manifest_close(reader);
    manifest_close(owner);
    support_remove_dir(dir);
}

static void a_reader_removes_and_makes_nothing(void **state)
{
    static const char tmp[] = "raw-20261121T2200Z-7.seg.tmp", new[] = "raw-20261121T2200Z-8.seg";
    char dir[256];
    struct manifest_conf look = {support_temp_dir(dir, sizeof dir), fio_unsynced()};
    struct manifest_conf own = {dir, fio_unsynced()};
    struct manifest *m;

    assert_ok(manifest_open_reader(&m, &look, NULL)); /* an empty directory */
    assert_int_equal(count(m), 0);
    manifest_close(m);
    assert_false(is_there(dir, "manifest"));
    assert_ok(manifest_open(&m, &own, NULL));
    manifest_close(m);
    put_file(dir, tmp); /* what the owner is writing */
    put_file(dir, new);
    assert_ok(manifest_open_reader(&m, &look, NULL));
    assert_int_equal(count(m), 0);
    manifest_close(m);
    assert_true(is_there(dir, tmp) && is_there(dir, new));
    assert_ok(manifest_open(&m, &own, NULL)); /* after a crash they are leftovers */
    manifest_close(m);
    assert_false(is_there(dir, tmp) || is_there(dir, new));
    support_remove_dir(dir);
}

static void segments_without_a_manifest_are_an_error(void **state)
{
    char dir[256];
    struct manifest_conf look = {support_temp_dir(dir, sizeof dir), fio_unsynced()};
    struct errmsg why = {""};
    struct manifest *m;

    put_file(dir, "raw-20261121T2200Z-8.seg");
    assert_err(manifest_open_reader(&m, &look, &why), ERR_CORRUPT);
    assert_non_null(strstr(why.text, "store check --repair"));
    support_remove_dir(dir);
}

static void what_is_dropped_counts_until_nobody_needs_it(void **state)
{
    char dir[256];
    struct manifest_conf conf = {support_temp_dir(dir, sizeof dir), fio_unsynced()};
    struct manifest_stats st;
    struct manifest_list *l;
    struct manifest *m;
    struct seg_info s;

    assert_ok(manifest_open(&m, &conf, NULL));
    s = add(m, dir);
    l = manifest_view(m);
    assert_ok(manifest_change(m, NULL, 0, &s.number, 1, NULL));
    manifest_publish(m);
    manifest_stats(m, &st);
    assert_true(st.held_bytes == 1 && st.file_bytes > 0);
    manifest_list_release(l);
    manifest_stats(m, &st);
    assert_true(st.held_bytes == 0);
    manifest_close(m);
    support_remove_dir(dir);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_beside_the_owner_sees_what_there_is),
        cmocka_unit_test(a_reader_removes_and_makes_nothing),
        cmocka_unit_test(what_is_dropped_counts_until_nobody_needs_it),
        cmocka_unit_test(segments_without_a_manifest_are_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
