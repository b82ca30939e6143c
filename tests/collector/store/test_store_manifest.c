#include "collector/store/manifest/manifest.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define MIN_NS INT64_C(60000000000)

static char dir[256];

static struct manifest *open_with(const struct fio *fio)
{
    struct manifest_conf conf = {dir, fio};
    struct errmsg why = {""};
    struct manifest *m = NULL;

    if (manifest_open(&m, &conf, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    return m;
}

static const char *path_of(const struct seg_info *s)
{
    static char path[512];
    char name[SEG_NAME_MAX];

    seg_name(name, s);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Any file will do: the manifest does not look inside. */
static struct seg_info file_of(struct manifest *m, const struct fio *fio, unsigned kind,
                               int64_t window_ns)
{
    struct seg_info s = {.number = manifest_number(m),
                         .kind = (uint8_t)kind,
                         .n_windows = 1,
                         .window_ns = window_ns,
                         .span_ns = 5 * MIN_NS,
                         .bytes = 100,
                         .values = 7};
    struct fio_file *f;

    assert_ok(fio->create(fio->ctx, &f, path_of(&s)));
    assert_ok(fio->write(fio->ctx, f, 0, "x", 1));
    assert_ok(fio->sync(fio->ctx, f));
    fio->close(fio->ctx, f);
    assert_ok(fio->sync_dir(fio->ctx, dir));
    return s;
}

static void change(struct manifest *m, const struct seg_info *add, size_t n_add,
                   const uint64_t *drop, size_t n_drop)
{
    assert_ok(manifest_change(m, add, n_add, drop, n_drop, NULL));
    manifest_publish(m);
}

static size_t count(struct manifest *m)
{
    struct manifest_list *l = manifest_view(m);
    size_t n = manifest_segments(l);

    manifest_list_release(l);
    return n;
}

static void what_is_added_is_there_after_opening_again(void **state)
{
    struct manifest *m = open_with(fio_unsynced());
    struct seg_info s[4];
    struct manifest_list *l;

    assert_int_equal(count(m), 0);
    for (size_t i = 0; i < 4; i++) {
        s[i] =
            file_of(m, fio_unsynced(), i % 2 ? SEG_RAW : SEG_REST, (int64_t)(4 - i) * 5 * MIN_NS);
    }
    s[2].patch = true;
    change(m, s, 3, NULL, 0);
    change(m, s + 3, 1, &s[0].number, 1);
    manifest_close(m);

    m = open_with(fio_unsynced());
    l = manifest_view(m);
    assert_int_equal(manifest_segments(l), 3);
    assert_memory_equal(manifest_segment(l, 0), &s[3], sizeof s[3]);
    assert_memory_equal(manifest_segment(l, 1), &s[1], sizeof s[1]);
    assert_memory_equal(manifest_segment(l, 2), &s[2], sizeof s[2]);
    assert_int_equal(manifest_lower(l, SEG_RAW, s[3].window_ns + 1), 1);
    assert_int_equal(manifest_lower(l, SEG_10S, 0), 2);
    assert_int_equal(manifest_lower(l, SEG_REST, INT64_MAX), 3);
    manifest_list_release(l);
    assert_true(manifest_number(m) > s[3].number);
    manifest_close(m);
}

static void a_removed_file_stays_until_no_list_names_it(void **state)
{
    struct manifest *m = open_with(fio_unsynced());
    struct seg_info s = file_of(m, fio_unsynced(), SEG_RAW, 0);
    struct manifest_list *l;

    change(m, &s, 1, NULL, 0);
    l = manifest_view(m);
    change(m, NULL, 0, &s.number, 1);
    assert_int_equal(count(m), 0);
    assert_true(os_exists(path_of(&s)));
    manifest_list_release(l);
    assert_false(os_exists(path_of(&s)));
    manifest_close(m);
}

static void a_number_dropped_and_added_keeps_its_file(void **state)
{
    struct manifest *m = open_with(fio_unsynced());
    struct seg_info s = file_of(m, fio_unsynced(), SEG_1MIN, 0);
    struct manifest_list *l;

    change(m, &s, 1, NULL, 0);
    l = manifest_view(m);
    s.in_hour = true;
    change(m, &s, 1, &s.number, 1);
    assert_false(manifest_segment(l, 0)->in_hour);
    manifest_list_release(l);
    assert_true(os_exists(path_of(&s)));
    manifest_close(m);
    m = open_with(fio_unsynced());
    l = manifest_view(m);
    assert_true(manifest_segment(l, 0)->in_hour);
    manifest_list_release(l);
    manifest_close(m);
}

static void leftovers_are_removed_at_opening_and_strangers_are_not(void **state)
{
    struct manifest *m = open_with(fio_unsynced());
    struct seg_info kept = file_of(m, fio_unsynced(), SEG_RAW, 0);
    struct seg_info left = file_of(m, fio_unsynced(), SEG_10S, 0);
    struct manifest_stats st;
    char tmp[512], own[512];

    change(m, &kept, 1, NULL, 0);
    manifest_close(m);
    snprintf(tmp, sizeof tmp, "%s/raw-19700101T0000Z-9.seg.tmp", dir);
    snprintf(own, sizeof own, "%s/notes.txt", dir);
    assert_ok(os_write_file(tmp, "x", 1, false));
    assert_ok(os_write_file(own, "x", 1, false));
    m = open_with(fio_unsynced());
    manifest_stats(m, &st);
    assert_int_equal(st.leftovers, 2);
    assert_int_equal(st.files[SEG_RAW], 1);
    assert_true(os_exists(path_of(&kept)));
    assert_false(os_exists(path_of(&left)));
    assert_false(os_exists(tmp));
    assert_true(os_exists(own));
    assert_true(manifest_number(m) > left.number);
    manifest_close(m);
}

static void segments_without_a_manifest_are_never_removed(void **state)
{
    struct manifest_conf conf = {dir, fio_unsynced()};
    struct manifest *m = open_with(fio_unsynced());
    struct seg_info s = file_of(m, fio_unsynced(), SEG_RAW, 0);
    struct errmsg why;
    char path[512];

    change(m, &s, 1, NULL, 0);
    manifest_close(m);
    snprintf(path, sizeof path, "%s/manifest", dir);
    assert_ok(os_remove(path));
    m = NULL;
    assert_err(manifest_open(&m, &conf, &why), ERR_CORRUPT);
    assert_non_null(strstr(why.text, "--repair"));
    assert_true(os_exists(path_of(&s)));
}

static void wrong_changes_are_refused(void **state)
{
    struct manifest *m = open_with(fio_unsynced());
    struct seg_info s = file_of(m, fio_unsynced(), SEG_RAW, 0), far = s;
    uint64_t twice[2] = {s.number, s.number}, unknown = 99;
    struct errmsg why;

    change(m, &s, 1, NULL, 0);
    far.number = 1000;
    assert_err(manifest_change(m, &s, 1, NULL, 0, &why), ERR_INVALID);
    assert_err(manifest_change(m, &far, 1, NULL, 0, &why), ERR_INVALID);
    assert_err(manifest_change(m, NULL, 0, twice, 2, &why), ERR_INVALID);
    assert_err(manifest_change(m, NULL, 0, &unknown, 1, &why), ERR_INVALID);
    assert_int_equal(count(m), 1);
    manifest_close(m);
}

int main(void)
{
#define T(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)
    const struct CMUnitTest tests[] = {
        T(what_is_added_is_there_after_opening_again),
        T(a_removed_file_stays_until_no_list_names_it),
        T(a_number_dropped_and_added_keeps_its_file),
        T(leftovers_are_removed_at_opening_and_strangers_are_not),
        T(segments_without_a_manifest_are_never_removed),
        T(wrong_changes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
