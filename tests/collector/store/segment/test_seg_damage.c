/* Segments that were damaged, and writers that failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/segment/seg.h"
#include "collector/store/segment/seg_scan.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/store/segment/seg_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];

/* -- one file in memory, read as any name -- */

struct fio_file {
    size_t n; /* its length at opening */
};

static uint8_t *bytes;
static size_t n_bytes;

static enum err mem_open(void *ctx, struct fio_file **out, const char *path)
{
    (void)ctx;
    (void)path;
    *out = mem_zalloc(sizeof **out);
    if (!*out) {
        return ERR_NOMEM;
    }
    (*out)->n = n_bytes;
    return ERR_OK;
}

static enum err mem_size(void *ctx, struct fio_file *f, uint64_t *size)
{
    (void)ctx;
    *size = f->n;
    return ERR_OK;
}

static enum err mem_read(void *ctx, struct fio_file *f, uint64_t offset, void *p, size_t n,
                         size_t *got)
{
    size_t left = offset < f->n ? f->n - (size_t)offset : 0;

    (void)ctx;
    *got = n < left ? n : left;
    memcpy(p, bytes + (left ? offset : 0), *got);
    return ERR_OK;
}

static void mem_close(void *ctx, struct fio_file *f)
{
    (void)ctx;
    mem_free(f);
}

static const struct fio memory = {
    .open = mem_open, .size = mem_size, .read = mem_read, .close = mem_close};

static const char *path_in(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Writes the segment and holds its bytes in `bytes` too. */
static struct seg_info made(char name[SEG_NAME_MAX])
{
    struct seg_info info = seg_rig_info(17);

    assert_ok(seg_rig_write(fio_unsynced(), dir, &info));
    seg_name(name, &info);
    assert_ok(os_read_file(&bytes, &n_bytes, path_in(name), 1u << 20));
    return info;
}

static void put_back(const char *name, const uint8_t *p, size_t n)
{
    assert_ok(os_write_file(path_in(name), p, n, true));
}

static size_t marks; /* empty values that stand for lost ones: of what was read last */

/* Reads every value that can be: right or refused, never wrong. Gives how many are right. */
static size_t right_values(const struct seg *s)
{
    size_t right = 0;
    struct arena a;

    marks = 0;
    arena_init(&a, 1u << 20);
    for (unsigned i = 0; i < SEG_RIG_METRICS * SEG_RIG_WINDOWS * SEG_RIG_HOSTS; i++) {
        struct seg_key k = {SEG_PART_COLUMN, (uint8_t)(i / SEG_RIG_WINDOWS / SEG_RIG_HOSTS),
                            (uint8_t)(i % SEG_RIG_WINDOWS), i / SEG_RIG_WINDOWS % SEG_RIG_HOSTS};
        struct uuid id = seg_rig_id(k.host);
        struct seg_key there = k;
        const uint8_t *p;
        size_t n;
        enum err e;

        there.host = (uint32_t)seg_find_host(s, &id);
        e = seg_read(s, &a, there, &p, &n);
        if (!e && n == 0 && !seg_rig_is(k, p, n)) { /* what a repair leaves of a lost one */
            assert_true(seg_rig_exists(k));
            marks++;
        } else if (!e) {
            assert_true(seg_rig_exists(k) && seg_rig_is(k, p, n));
            right++;
        } else {
            assert_true(e == ERR_CORRUPT || e == ERR_NOTFOUND);
        }
    }
    arena_fini(&a);
    return right;
}

/* -- tests -- */

static void a_sound_segment_verifies(void **state)
{
    char name[SEG_NAME_MAX];
    struct seg_info info = made(name);
    uint64_t values, damaged;
    struct seg *s;

    assert_ok(seg_open(&s, fio_unsynced(), dir, &info, NULL));
    assert_ok(seg_scan_verify(s, &values, &damaged));
    assert_int_equal(values, seg_rig_values());
    assert_int_equal(damaged, 0);
    assert_int_equal(right_values(s), seg_rig_values());
    seg_close(s);
    mem_free(bytes);
}

static void every_bit_flip_is_detected(void **state)
{
    const char *many = getenv("PROCFLEET_FLIPS");
    long flips = many ? strtol(many, NULL, 10) : 6000;
    char name[SEG_NAME_MAX];
    struct seg_info info = made(name);
    uint64_t random = 88172645463325252u;

    for (long i = 0; i < flips; i++) {
        size_t bit;
        uint64_t values, damaged;
        struct seg *s;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        bit = (size_t)(random % (n_bytes * 8));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (seg_open(&s, &memory, dir, &info, NULL) == ERR_OK) {
            assert_ok(seg_scan_verify(s, &values, &damaged));
            if (damaged == 0) {
                fail_msg("flip of bit %zu of byte %zu of %zu was not seen", bit % 8, bit / 8,
                         n_bytes);
            }
            if (i % 50 == 0) {
                (void)right_values(s);
            }
            seg_close(s);
        }
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    mem_free(bytes);
}

static void every_shorter_file_is_refused(void **state)
{
    char name[SEG_NAME_MAX];
    struct seg_info info = made(name);
    size_t whole = n_bytes;
    struct seg *s;

    for (n_bytes = 0; n_bytes < whole; n_bytes++) {
        assert_err(seg_open(&s, &memory, dir, &info, NULL), ERR_CORRUPT);
    }
    mem_free(bytes);
}

static enum err count_ranges(void *ctx, const struct dedup_stream *st)
{
    uint64_t *n = ctx;

    for (size_t i = 0; i < st->n_ranges; i++) {
        *n += st->ranges[i].last - st->ranges[i].first + 1;
    }
    return ERR_OK;
}

/* Opens what was salvaged; everything in it must be sound. */
static size_t values_after(const struct seg_info *info, bool all_hosts)
{
    uint64_t values, damaged, numbers = 0;
    struct seg *s;
    size_t right;

    assert_ok(seg_open(&s, fio_unsynced(), dir, info, NULL));
    assert_ok(seg_scan_verify(s, &values, &damaged));
    assert_int_equal(damaged, 0);
    right = right_values(s);
    assert_int_equal(right + marks, values);
    assert_ok(seg_each_ranges(s, count_ranges, &numbers));
    if (all_hosts) {
        assert_int_equal(seg_hosts(s), SEG_RIG_HOSTS);
        assert_int_equal(numbers, SEG_RIG_HOSTS * 11);
        for (unsigned h = 0; h < SEG_RIG_HOSTS; h++) {
            struct uuid id = seg_rig_id(h);

            assert_int_equal(seg_host(s, seg_find_host(s, &id))->at[1].t0_ns, SEG_RIG_WINDOW - 1);
        }
    }
    seg_close(s);
    return right;
}

static void what_is_sound_is_salvaged(void **state)
{
    static const struct {
        const char *what;
        size_t from_begin, n; /* zeroed, from the start */
        size_t from_end, cut; /* zeroed from the end; cut from the end */
        size_t lost;          /* values at most */
        bool all_hosts;
    } rows[] = {
        {"nothing", 0, 0, 0, 0, 0, true},
        {"header", 0, 64, 0, 0, 0, true},
        {"footer", 0, 0, 96, 0, 0, true},
        {"end", 0, 0, 0, 700, 0, true},
        {"a few values", 3000, 400, 0, 0, 12, true},
        {"values and the end", 3000, 400, 0, 96, 12, false},
        {"a host's beginning and the end", 96, 90, 0, 96, 40, false},
    };
    char name[SEG_NAME_MAX];
    struct seg_info info = made(name);
    uint8_t *copy = mem_alloc(n_bytes);

    assert_non_null(copy);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t kept = 0, lost = 0;
        struct seg_info new = {.values = 5};
        struct errmsg why = {""};

        memcpy(copy, bytes, n_bytes);
        memset(copy + rows[i].from_begin, 0, rows[i].n);
        memset(copy + n_bytes - rows[i].from_end, 0, rows[i].from_end);
        put_back(name, copy, n_bytes - rows[i].cut);
        if (seg_scan_salvage(fio_unsynced(), dir, name, &new, &kept, &lost, &why) != ERR_OK) {
            fail_msg("%s: %s", rows[i].what, why.text);
        }
        assert_int_equal(values_after(&info, rows[i].all_hosts), kept);
        assert_true(kept <= seg_rig_values() && kept + rows[i].lost >= seg_rig_values());
        assert_int_equal(new.number, 17);
        assert_int_equal(new.n_windows, SEG_RIG_WINDOWS);
        assert_int_equal(new.values, rows[i].from_end || rows[i].cut ? 5 : SEG_RIG_SAMPLES);
        assert_true(lost > 0 || kept == seg_rig_values());
    }
    mem_free(copy);
    mem_free(bytes);
}

static void after_random_damage_what_is_salvaged_is_right(void **state)
{
    char name[SEG_NAME_MAX];
    struct seg_info info = made(name);
    uint8_t *copy = mem_alloc(n_bytes);
    size_t saved = 0;

    assert_non_null(copy);
    srand(7);
    for (unsigned i = 0; i < 60; i++) {
        uint64_t kept, lost;
        struct seg_info new = {0};

        memcpy(copy, bytes, n_bytes);
        for (unsigned k = 0; k < 1 + i; k++) {
            copy[(size_t)rand() % n_bytes] ^= (uint8_t)(1 + rand() % 255);
        }
        put_back(name, copy, n_bytes - (i % 3 ? 0 : (size_t)rand() % (n_bytes / 2)));
        if (seg_scan_salvage(fio_unsynced(), dir, name, &new, &kept, &lost, NULL) == ERR_OK) {
            /* a lost one may have been empty before */
            assert_in_range(values_after(&info, false), kept, kept + lost);
            saved++;
        }
    }
    assert_true(saved > 40);
    mem_free(copy);
    mem_free(bytes);
}

static void without_any_header_nothing_is_salvaged(void **state)
{
    char name[SEG_NAME_MAX];
    struct seg_info info = made(name), new = {0};
    uint64_t kept, lost;
    struct errmsg why;

    (void)info;
    memset(bytes, 0, 64);
    put_back(name, bytes, n_bytes - 1);
    assert_err(seg_scan_salvage(fio_unsynced(), dir, name, &new, &kept, &lost, &why), ERR_CORRUPT);
    assert_true(os_exists(path_in(name)));
    mem_free(bytes);
}

static enum err count_file(void *ctx, const char *name)
{
    (void)name;
    (*(size_t *)ctx)++;
    return ERR_OK;
}

static size_t files(void)
{
    size_t n = 0;

    assert_ok(os_list_dir(dir, count_file, &n));
    return n;
}

/* Every operation of a writer fails in turn: nothing is left, and the next try succeeds. */
static void a_writer_that_fails_leaves_nothing(void **state)
{
    static const enum err errors[] = {ERR_IO, ERR_NOSPACE};
    const unsigned ops = FIO_CREATE | FIO_WRITE | FIO_SYNC | FIO_RENAME | FIO_SYNC_DIR;
    struct fio_fault *f;

    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        enum err e = ERR_IO;
        long k = 0;

        assert_ok(fio_fault_create(&f));
        for (; e && k < 50; k++) {
            struct seg_info info = seg_rig_info(17);

            fio_fault_fail(f, ops, k, errors[i], false);
            e = seg_rig_write(fio_fault_fio(f), dir, &info);
            assert_true(!e || e == errors[i]);
            assert_int_equal(files(), e ? 0 : 1);
        }
        assert_int_equal(k, 6); /* five operations failed */
        fio_fault_destroy(f);
        support_empty_dir(dir);
    }
}

static void a_full_disk_leaves_nothing(void **state)
{
    struct seg_info info = seg_rig_info(17);
    struct fio_fault *f;

    assert_ok(fio_fault_create(&f));
    fio_fault_disk_full(f, 1000);
    assert_err(seg_rig_write(fio_fault_fio(f), dir, &info), ERR_NOSPACE);
    assert_int_equal(files(), 0);
    fio_fault_destroy(f);
}

static void a_finished_segment_survives_the_power(void **state)
{
    struct seg_info info = seg_rig_info(17);
    struct fio_fault *f;

    assert_ok(fio_fault_create(&f));
    assert_ok(seg_rig_write(fio_fault_fio(f), dir, &info));
    fio_fault_power_cut(f, FIO_KEEP_NOTHING, 1);
    fio_fault_destroy(f);
    assert_int_equal(values_after(&info, true), seg_rig_values());
}

/* The power fails at every operation: under its own name a file is whole or not there. */
static void a_power_cut_leaves_no_torn_segment(void **state)
{
    static const enum fio_fault_keep keeps[] = {FIO_KEEP_NOTHING, FIO_KEEP_PREFIX,
                                                FIO_KEEP_SECTORS};

    for (unsigned i = 0; i < 3 * 6; i++) {
        struct seg_info info = seg_rig_info(17);
        struct seg_info old = info;
        char name[SEG_NAME_MAX];
        struct fio_fault *f;
        enum err e;

        assert_ok(fio_fault_create(&f));
        fio_fault_fail(f, FIO_CREATE | FIO_WRITE | FIO_SYNC | FIO_RENAME | FIO_SYNC_DIR, i / 3,
                       ERR_IO, true);
        e = seg_rig_write(fio_fault_fio(f), dir, &info);
        fio_fault_power_cut(f, keeps[i % 3], i + 1);
        fio_fault_destroy(f);
        seg_name(name, &old);
        if (!e || os_exists(path_in(name))) {
            assert_int_equal(values_after(&old, true), seg_rig_values());
        }
        support_empty_dir(dir);
    }
}

/* A salvage that fails leaves the damaged file as it was. */
static void a_salvage_that_fails_changes_nothing(void **state)
{
    char name[SEG_NAME_MAX];
    struct seg_info info = made(name), new = {0};
    uint64_t kept, lost;

    memset(bytes + 3000, 0, 100);
    for (long k = 0; k < 5; k++) {
        uint8_t *now;
        size_t n;
        struct fio_fault *f;
        enum err e;

        put_back(name, bytes, n_bytes);
        assert_ok(fio_fault_create(&f));
        fio_fault_fail(f, FIO_CREATE | FIO_WRITE | FIO_SYNC | FIO_RENAME | FIO_SYNC_DIR, k, ERR_IO,
                       false);
        e = seg_scan_salvage(fio_fault_fio(f), dir, name, &new, &kept, &lost, NULL);
        assert_err(e, ERR_IO);
        fio_fault_power_cut(f, FIO_KEEP_NOTHING, 1);
        fio_fault_destroy(f);
        assert_ok(os_read_file(&now, &n, path_in(name), 1u << 20));
        assert_int_equal(n, n_bytes);
        assert_memory_equal(now, bytes, n);
        mem_free(now);
    }
    (void)info;
    mem_free(bytes);
}

static void every_allocation_may_fail(void **state)
{
    char name[SEG_NAME_MAX];
    struct seg_info info = made(name);
    enum err e = ERR_NOMEM;

    for (long i = 0; e == ERR_NOMEM; i++) {
        struct seg_info again = seg_rig_info(18);
        long live = mem_live();

        mem_fail_after(i);
        e = seg_rig_write(fio_unsynced(), dir, &again);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        assert_int_equal(mem_live(), live);
    }
    e = ERR_NOMEM;
    for (long i = 0; e == ERR_NOMEM; i++) {
        uint64_t values, damaged;
        struct seg *s = NULL;
        long live = mem_live();

        mem_fail_after(i);
        e = seg_open(&s, fio_unsynced(), dir, &info, NULL);
        e = e ? e : seg_scan_verify(s, &values, &damaged);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        seg_close(s);
        assert_int_equal(mem_live(), live);
    }
    e = ERR_NOMEM;
    for (long i = 0; e == ERR_NOMEM; i++) {
        struct seg_info new = {0};
        uint64_t kept = 0, lost;
        long live = mem_live();

        mem_fail_after(i);
        e = seg_scan_salvage(fio_unsynced(), dir, name, &new, &kept, &lost, NULL);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        assert_int_equal(mem_live(), live);
        assert_int_equal(kept, e ? 0 : seg_rig_values());
    }
    mem_free(bytes);
}

int main(void)
{
#define T(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)
    const struct CMUnitTest tests[] = {
        T(a_sound_segment_verifies),
        T(every_bit_flip_is_detected),
        T(every_shorter_file_is_refused),
        T(what_is_sound_is_salvaged),
        T(after_random_damage_what_is_salvaged_is_right),
        T(without_any_header_nothing_is_salvaged),
        T(a_writer_that_fails_leaves_nothing),
        T(a_full_disk_leaves_nothing),
        T(a_finished_segment_survives_the_power),
        T(a_power_cut_leaves_no_torn_segment),
        T(a_salvage_that_fails_changes_nothing),
        T(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
