/* The manifest when bytes, operations and the power fail; rebuilding it; open segments. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/manifest/manifest.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/store/segment/seg_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define CHANGES (FIO_CREATE | FIO_WRITE | FIO_SYNC | FIO_TRUNCATE | FIO_RENAME | FIO_SYNC_DIR)

static char dir[256];

static const char *path_in(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static const char *path_of(const struct seg_info *s)
{
    char name[SEG_NAME_MAX];

    seg_name(name, s);
    return path_in(name);
}

static enum err open_with(struct manifest **m, const struct fio *fio)
{
    struct manifest_conf conf = {.dir = dir, .fio = fio};

    return manifest_open(m, &conf, NULL);
}

/* Any file will do: the manifest does not look inside. */
static enum err new_file(struct manifest *m, const struct fio *fio, struct seg_info *s)
{
    struct fio_file *f;
    enum err e;

    *s = (struct seg_info){.number = manifest_number(m),
                           .kind = SEG_RAW,
                           .n_windows = 1,
                           .window_ns = 5,
                           .span_ns = 10,
                           .bytes = 1};
    e = fio->create(fio->ctx, &f, path_of(s));
    if (e) {
        return e;
    }
    e = fio->write(fio->ctx, f, 0, "x", 1);
    e = e ? e : fio->sync(fio->ctx, f);
    fio->close(fio->ctx, f);
    return e ? e : fio->sync_dir(fio->ctx, dir);
}

/* The numbers in the list as bits. */
static uint64_t numbers(struct manifest *m)
{
    struct manifest_list *l = manifest_view(m);
    uint64_t bits = 0;

    assert_non_null(l);
    for (size_t i = 0; i < manifest_segments(l); i++) {
        assert_true(manifest_segment(l, i)->number < 64);
        bits |= UINT64_C(1) << manifest_segment(l, i)->number;
    }
    manifest_list_release(l);
    return bits;
}

/* What was asked for since the last success: any of it may be what a power cut shows. */
struct tried {
    uint64_t bits[16];
    size_t n;
};

/* Adds one, and drops the one before the last: some records of both. */
static enum err step(struct manifest *m, const struct fio *fio, uint64_t *acked,
                     struct tried *tried)
{
    uint64_t after;
    uint64_t drop = 0;
    struct seg_info s;
    enum err e = new_file(m, fio, &s);

    if (e) {
        return e;
    }
    for (uint64_t k = s.number; k-- > 0 && !drop;) {
        drop = k > 0 && *acked & UINT64_C(1) << k && s.number % 3 ? k : 0;
    }
    after = (*acked | UINT64_C(1) << s.number) & ~(drop ? UINT64_C(1) << drop : 0);
    e = manifest_change(m, &s, 1, &drop, drop != 0, NULL);
    if (e) {
        manifest_discard(m, &s);
        tried->bits[tried->n++ % COUNT_OF(tried->bits)] = after;
        return e;
    }
    manifest_publish(m);
    *acked = after;
    tried->n = 0;
    return ERR_OK;
}

/* A manifest with a few records; its bytes. */
static uint64_t made(uint8_t **p, size_t *n)
{
    struct manifest *m = NULL;
    struct tried tried = {.n = 0};
    uint64_t acked = 0;

    assert_ok(open_with(&m, fio_unsynced()));
    for (unsigned i = 0; i < 6; i++) {
        assert_ok(step(m, fio_unsynced(), &acked, &tried));
    }
    assert_int_equal(numbers(m), acked);
    manifest_close(m);
    assert_ok(os_read_file(p, n, path_in("manifest"), 1u << 20));
    while (*n > 0 && (*p)[*n - 1] == 0) { /* the room behind */
        (*n)--;
    }
    for (uint64_t i = 1; i <= 6; i++) { /* those dropped too, for earlier states */
        struct seg_info s = {.number = i, .kind = SEG_RAW, .window_ns = 5};

        assert_ok(os_write_file(path_of(&s), "x", 1, true));
    }
    return acked;
}

static enum err look(uint64_t *bits, const uint8_t *p, size_t n)
{
    struct manifest_conf conf = {.dir = dir, .fio = fio_unsynced()};
    struct manifest *m = NULL;
    enum err e;

    assert_ok(os_write_file(path_in("manifest"), p, n, true));
    e = manifest_open_reader(&m, &conf, NULL);
    if (!e) {
        *bits = numbers(m);
    }
    manifest_close(m);
    return e;
}

/* -- bytes -- */

static void no_damage_of_one_byte_loses_anything(void **state)
{
    uint8_t *p;
    size_t n;
    uint64_t all = made(&p, &n), bits;

    for (size_t i = 0; i < n; i++) {
        uint8_t was = p[i];

        p[i] ^= (uint8_t)(1u << i % 8);
        bits = 0;
        assert_ok(look(&bits, p, n));
        if (bits != all) {
            fail_msg("byte %zu of %zu", i, n);
        }
        p[i] = was;
    }
    mem_free(p);
}

static void a_shorter_file_is_an_earlier_state_or_refused(void **state)
{
    uint64_t seen[8] = {0}, bits;
    size_t n, n_seen = 0;
    uint8_t *p;
    uint64_t all = made(&p, &n);

    for (size_t k = 0; k <= n; k++) {
        enum err e = look(&bits, p, k);

        if (e) { /* its checkpoint is not whole */
            assert_err(e, ERR_CORRUPT);
            assert_int_equal(n_seen, 0);
        } else if (n_seen == 0 || seen[n_seen - 1] != bits) {
            assert_true(n_seen < COUNT_OF(seen));
            seen[n_seen++] = bits;
        }
    }
    assert_int_equal(n_seen, 7);
    assert_int_equal(seen[6], all);
    mem_free(p);
}

static void both_copies_damaged_in_the_middle_are_refused(void **state)
{
    uint8_t *p;
    size_t n;
    uint64_t bits;

    (void)made(&p, &n);
    memset(p + n / 2 - 150, 0, 300);
    assert_err(look(&bits, p, n), ERR_CORRUPT);
    mem_free(p);
}

static void a_newer_version_is_told_apart(void **state)
{
    struct manifest_conf conf = {.dir = dir, .fio = fio_unsynced()};
    static const uint8_t newer[64] = {'P', 'F', 'M', 'A', 'N', 0x1a, '\r', '\n', 2};
    struct manifest *m = NULL;

    assert_ok(os_write_file(path_in("manifest"), newer, sizeof newer, true));
    /* Its checksum is wrong, so it is damage, not a version. */
    assert_err(manifest_open(&m, &conf, NULL), ERR_CORRUPT);
}

/* -- operations -- */

static void a_change_that_fails_changes_nothing(void **state)
{
    static const enum err errors[] = {ERR_IO, ERR_NOSPACE};

    for (unsigned i = 0; i < 2 * 8; i++) {
        struct tried tried = {.n = 0};
        uint64_t acked = 0;
        struct manifest *m = NULL;
        struct fio_fault *f;
        struct seg_info s;
        enum err e;

        assert_ok(fio_fault_create(&f));
        assert_ok(open_with(&m, fio_fault_fio(f)));
        assert_ok(step(m, fio_fault_fio(f), &acked, &tried));
        assert_ok(new_file(m, fio_fault_fio(f), &s));
        fio_fault_fail(f, CHANGES, i / 2 % 4, errors[i % 2], i >= 8);
        e = manifest_change(m, &s, 1, NULL, 0, NULL);
        assert_true(!e || e == errors[i % 2]);
        assert_int_equal(numbers(m), acked);
        fio_fault_fail(f, 0, -1, ERR_OK, false);
        if (e) {
            manifest_discard(m, &s);
        } else {
            manifest_publish(m);
            acked |= UINT64_C(1) << s.number;
        }
        assert_ok(step(m, fio_fault_fio(f), &acked, &tried));
        assert_ok(step(m, fio_fault_fio(f), &acked, &tried));
        assert_int_equal(numbers(m), acked);
        manifest_close(m);
        assert_ok(open_with(&m, fio_fault_fio(f)));
        assert_int_equal(numbers(m), acked);
        manifest_close(m);
        fio_fault_destroy(f);
        support_empty_dir(dir);
    }
}

/* Everything fails from some operation on, the owner cleans up as far as it gets, the power goes.
 * What was acknowledged is there; what was not may be there only with its files. */
static void a_power_cut_shows_all_of_a_change_or_none(void **state)
{
    for (unsigned i = 0; i < 3 * 40; i++) {
        struct tried tried = {.n = 0};
        uint64_t acked = 0, now;
        bool known;
        struct manifest_stats st;
        struct manifest *m = NULL;
        struct fio_fault *f;
        enum err e;

        assert_ok(fio_fault_create(&f));
        assert_ok(open_with(&m, fio_fault_fio(f)));
        fio_fault_fail(f, CHANGES, i / 3, ERR_IO, i % 2);
        for (unsigned k = 0; k < 7; k++) {
            e = step(m, fio_fault_fio(f), &acked, &tried);
            if (e && k % 2) {
                break;
            }
        }
        fio_fault_power_cut(f, (enum fio_fault_keep)(i % 3), i + 1);
        manifest_close(m);
        fio_fault_destroy(f);
        m = NULL;
        assert_ok(open_with(&m, fio_unsynced()));
        now = numbers(m);
        manifest_stats(m, &st);
        known = now == acked;
        for (size_t k = 0; k < tried.n; k++) {
            known = known || now == tried.bits[k];
        }
        if (!known || st.missing > 0) {
            fail_msg("cut %u: %llx, acknowledged %llx, %llu missing", i, (unsigned long long)now,
                     (unsigned long long)acked, (unsigned long long)st.missing);
        }
        acked = now;
        assert_ok(step(m, fio_unsynced(), &acked, &tried));
        manifest_close(m);
        support_empty_dir(dir);
    }
}

static void the_file_does_not_grow_for_ever(void **state)
{
    struct manifest *m = NULL;
    struct seg_info s, last = {0};
    uint8_t *p;
    size_t n;

    assert_ok(open_with(&m, fio_unsynced()));
    for (unsigned i = 0; i < 9000; i++) {
        s = (struct seg_info){.number = manifest_number(m), .kind = SEG_RAW, .n_windows = 1};
        assert_ok(manifest_change(m, &s, 1, &last.number, i > 0, NULL));
        manifest_publish(m);
        last = s;
    }
    manifest_close(m);
    assert_ok(os_read_file(&p, &n, path_in("manifest"), 8u << 20));
    assert_true(n < 3u << 19);
    mem_free(p);
    assert_ok(os_write_file(path_of(&last), "x", 1, true));
    assert_ok(open_with(&m, fio_unsynced()));
    {
        struct manifest_list *l = manifest_view(m);

        assert_int_equal(manifest_segments(l), 1);
        assert_int_equal(manifest_segment(l, 0)->number, last.number);
        manifest_list_release(l);
    }
    manifest_close(m);
}

static void what_is_dropped_is_noted_on_a_full_disk(void **state)
{
    struct manifest *m = NULL;
    struct seg_info s[40];
    struct fio_fault *f;

    assert_ok(fio_fault_create(&f));
    assert_ok(open_with(&m, fio_fault_fio(f)));
    for (unsigned i = 0; i < COUNT_OF(s); i++) {
        assert_ok(new_file(m, fio_fault_fio(f), &s[i]));
        assert_ok(manifest_change(m, &s[i], 1, NULL, 0, NULL));
        manifest_publish(m);
    }
    fio_fault_disk_full(f, 0);
    for (unsigned i = 0; i < COUNT_OF(s); i++) {
        assert_ok(manifest_change(m, NULL, 0, &s[i].number, 1, NULL));
        manifest_publish(m);
    }
    manifest_close(m);
    assert_ok(open_with(&m, fio_fault_fio(f)));
    assert_int_equal(numbers(m), 0);
    manifest_close(m);
    fio_fault_destroy(f);
}

static void every_allocation_may_fail(void **state)
{
    struct tried tried = {.n = 0};
    uint64_t acked = 0;
    struct manifest *m = NULL;
    enum err e = ERR_NOMEM;

    assert_ok(open_with(&m, fio_unsynced()));
    for (unsigned i = 0; i < 4; i++) {
        assert_ok(step(m, fio_unsynced(), &acked, &tried));
    }
    manifest_close(m);
    for (long i = 0; e == ERR_NOMEM; i++) {
        long live = mem_live();

        m = NULL;
        mem_fail_after(i);
        e = open_with(&m, fio_unsynced());
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        if (!e) {
            assert_int_equal(numbers(m), acked);
        }
        manifest_close(m);
        assert_int_equal(mem_live(), live);
    }
    assert_ok(open_with(&m, fio_unsynced()));
    e = ERR_NOMEM;
    for (long i = 0; e == ERR_NOMEM && i < 100; i++) {
        struct seg_info s;

        assert_ok(new_file(m, fio_unsynced(), &s));
        mem_fail_after(i);
        e = manifest_change(m, &s, 1, NULL, 0, NULL);
        mem_fail_after(-1);
        assert_int_equal(numbers(m), acked);
    }
    assert_ok(e);
    manifest_close(m);
}

/* -- rebuilding -- */

static struct seg_info real(struct manifest *m, unsigned kind, int64_t window_ns, int64_t t0_ns,
                            unsigned hosts)
{
    struct seg_info s = {.number = manifest_number(m),
                         .kind = (uint8_t)kind,
                         .n_windows = 1,
                         .window_ns = window_ns,
                         .span_ns = kind == SEG_1H ? 12 * SEG_RIG_WINDOW : SEG_RIG_WINDOW};
    struct seg_writer *w;

    assert_ok(seg_writer_create(&w, fio_unsynced(), dir, &s, &window_ns, NULL));
    for (unsigned h = 0; h < hosts; h++) {
        struct uuid id = seg_rig_id(h);
        uint32_t index;

        assert_ok(seg_writer_host(w, &index, &id, "h", 0, t0_ns, t0_ns + 5));
        assert_ok(seg_writer_add(w, (struct seg_key){SEG_PART_ROWS, 0, 0, index}, "rows", 4));
    }
    assert_ok(seg_writer_finish(w, 1, &s, NULL));
    return s;
}

static void it_is_made_anew_from_the_segments(void **state)
{
    struct manifest_conf conf = {.dir = dir, .fio = fio_unsynced()};
    struct manifest_stats st;
    struct manifest *m = NULL;
    struct seg_info input, joined, patch, minute, hour, late, torn;
    struct manifest_list *l;
    uint64_t found = 0;
    char bad[600];

    assert_ok(open_with(&m, fio_unsynced()));
    input = real(m, SEG_RAW, 0, 10, 3);
    patch = real(m, SEG_RAW, 0, 200, 3); /* not inside what follows */
    joined = real(m, SEG_RAW, 0, 10, 4);
    minute = real(m, SEG_1MIN, SEG_RIG_WINDOW, 10, 3);
    hour = real(m, SEG_1H, 0, 10, 3);
    late = real(m, SEG_1MIN, SEG_RIG_WINDOW, 50, 3);
    torn = real(m, SEG_REST, 0, 10, 3);
    manifest_close(m);
    assert_ok(os_write_file(path_of(&torn), "torn", 4, true));
    assert_ok(os_write_file(path_in("manifest"), "what?", 5, true));
    assert_err(open_with(&m, fio_unsynced()), ERR_CORRUPT);
    assert_ok(manifest_rebuild(&conf, &found, NULL));
    assert_int_equal(found, 5);
    snprintf(bad, sizeof bad, "%s.bad", path_of(&torn));
    assert_true(os_exists(bad));

    assert_ok(open_with(&m, fio_unsynced()));
    manifest_stats(m, &st);
    assert_int_equal(st.leftovers, 1);
    assert_false(os_exists(path_of(&input)));
    assert_true(manifest_number(m) > late.number);
    l = manifest_view(m);
    assert_int_equal(manifest_segments(l), 5);
    assert_int_equal(manifest_segment(l, 0)->number, patch.number);
    assert_int_equal(manifest_segment(l, 1)->number, joined.number);
    assert_int_equal(manifest_segment(l, 1)->bytes, joined.bytes);
    assert_int_equal(manifest_segment(l, 1)->t0_ns, 10);
    assert_int_equal(manifest_segment(l, 2)->number, minute.number);
    assert_true(manifest_segment(l, 2)->in_hour);
    assert_int_equal(manifest_segment(l, 3)->number, late.number);
    assert_false(manifest_segment(l, 3)->in_hour);
    assert_int_equal(manifest_segment(l, 4)->number, hour.number);
    manifest_list_release(l);
    manifest_close(m);
}

/* -- open segments -- */

static enum err count_name(void *ctx, const char *name)
{
    (void)name;
    (*(size_t *)ctx)++;
    return ERR_OK;
}

static size_t descriptors(void)
{
    size_t n = 0;

    assert_ok(os_list_dir("/proc/self/fd", count_name, &n));
    return n;
}

static void open_segments_are_bounded(void **state)
{
    struct manifest_conf conf = {.dir = dir, .fio = fio_unsynced()};
    struct manifest_list *l;
    struct manifest_stats st;
    struct manifest *m;
    size_t before;

    assert_ok(manifest_open(&m, &conf, NULL));
    manifest_keep_open(m, 20000);
    before = descriptors();
    for (unsigned i = 0; i < 200; i++) {
        struct seg_info s = real(m, SEG_RAW, i * SEG_RIG_WINDOW, 5, 8);

        assert_ok(manifest_change(m, &s, 1, NULL, 0, NULL));
        manifest_publish(m);
    }
    l = manifest_view(m);
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < 200; i++) {
            const struct seg *s;

            assert_ok(manifest_seg(l, i, &s));
            assert_int_equal(seg_info_of(s)->number, manifest_segment(l, i)->number);
            assert_int_equal(seg_hosts(s), 8);
            if (round > 0) {
                manifest_seg_done(l, i);
            }
        }
        manifest_stats(m, &st);
        assert_true(descriptors() <= before + MANIFEST_OPEN_FILES);
        assert_true(round == 0 ? st.opened == 200 : st.open_bytes <= 20000);
    }
    assert_true(st.opened > 0);
    manifest_list_release(l);
    manifest_close(m);
}

/* -- readers beside the thread that changes the manifest: what a list names stays readable -- */

#define READERS 4
#define ROUNDS  60
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
    struct manifest_conf conf = {dir, fio_unsynced()};
    uint64_t numbers[ROUNDS];

    assert_ok(manifest_open(&rig.m, &conf, NULL));
    manifest_keep_open(rig.m, 40000);
    for (unsigned i = 0; i < READERS; i++) {
        assert_ok(os_thread_start(&threads[i], "reader", read_all, &rig));
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
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
}

int main(void)
{
#define T(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)
    const struct CMUnitTest tests[] = {
        T(no_damage_of_one_byte_loses_anything),
        T(a_shorter_file_is_an_earlier_state_or_refused),
        T(both_copies_damaged_in_the_middle_are_refused),
        T(a_newer_version_is_told_apart),
        T(a_change_that_fails_changes_nothing),
        T(a_power_cut_shows_all_of_a_change_or_none),
        T(the_file_does_not_grow_for_ever),
        T(what_is_dropped_is_noted_on_a_full_disk),
        T(every_allocation_may_fail),
        T(it_is_made_anew_from_the_segments),
        T(open_segments_are_bounded),
        T(readers_are_never_left_without_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
