/* Readers beside the one who changes the manifest: what a list names stays readable. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collector/store/manifest/manifest.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/seg_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define READERS 4
#define CHANGES 60
#define KEPT    5u /* segments at a time */

struct rig {
    struct manifest *m;
    atomic_bool stop;
    _Atomic uint64_t reads, failures;
};

static bool read_one(const struct seg *s, struct arena *a, unsigned i)
{
    struct seg_key keys[8];
    const uint8_t *p[8];
    size_t n[8];

    for (unsigned k = 0; k < 8; k++) {
        keys[k] = (struct seg_key){SEG_PART_COLUMN, (uint8_t)((i + k) % SEG_RIG_METRICS),
                                   (uint8_t)(i % SEG_RIG_WINDOWS), (i + 5) % SEG_RIG_HOSTS};
    }
    arena_reset(a);
    if (seg_read_many(s, a, keys, 8, p, n) != ERR_OK) {
        return false;
    }
    for (unsigned k = 0; k < 8; k++) {
        if (seg_rig_exists(keys[k]) ? !p[k] || !seg_rig_is(keys[k], p[k], n[k]) : p[k] != NULL) {
            return false;
        }
    }
    return true;
}

static void read_all(void *ctx)
{
    struct rig *rig = ctx;
    struct arena a;

    arena_init(&a, 1u << 20);
    for (unsigned round = 0; !atomic_load(&rig->stop); round++) {
        struct manifest_list *l = manifest_view(rig->m);

        for (size_t i = 0; l && i < manifest_segments(l); i++) {
            const struct seg *s;
            bool right = manifest_seg(l, i, &s) == ERR_OK && read_one(s, &a, round + (unsigned)i);

            atomic_fetch_add(right ? &rig->reads : &rig->failures, 1);
            if (round % 2) {
                manifest_seg_done(l, i);
            }
        }
        manifest_list_release(l);
    }
    arena_fini(&a);
}

static void readers_are_never_left_without_a_file(void **state)
{
    struct os_thread *threads[READERS];
    struct rig rig = {.m = NULL};
    struct manifest_stats st;
    char dir[256];
    struct manifest_conf conf = {support_temp_dir(dir, sizeof dir), fio_unsynced()};
    uint64_t numbers[CHANGES];

    (void)state;
    assert_ok(manifest_open(&rig.m, &conf, NULL));
    manifest_keep_open(rig.m, 40000);
    for (unsigned i = 0; i < READERS; i++) {
        assert_ok(os_thread_start(&threads[i], "reader", read_all, &rig));
    }
    for (unsigned i = 0; i < CHANGES; i++) {
        struct seg_info info = seg_rig_info(manifest_number(rig.m));

        assert_ok(seg_rig_write(fio_unsynced(), dir, &info));
        numbers[i] = info.number;
        assert_ok(
            manifest_change(rig.m, &info, 1, &numbers[i < KEPT ? 0 : i - KEPT], i >= KEPT, NULL));
        manifest_publish(rig.m);
        manifest_stats(rig.m, &st);
    }
    while (atomic_load(&rig.reads) < 100 && atomic_load(&rig.failures) == 0) {
        os_sleep_ns(1000000);
    }
    atomic_store(&rig.stop, true);
    for (unsigned i = 0; i < READERS; i++) {
        os_thread_join(threads[i]);
    }
    assert_int_equal(atomic_load(&rig.failures), 0);
    manifest_stats(rig.m, &st);
    assert_int_equal(st.files[SEG_RAW], KEPT);
    assert_int_equal(st.unreadable, 0);
    assert_true(st.open_bytes <= 40000);
    manifest_close(rig.m);
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_are_never_left_without_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
