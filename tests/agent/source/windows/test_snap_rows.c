#include "tests/support/t.h"

#include <string.h>

#include "agent/source/windows/snap_rows.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/snap_gen.h"

#define BASE     UINT64_C(0x7ff612340000)
#define FILETIME UINT64_C(133000000000000000)

static const struct snap_gen_thread threads[] = {
    {.tid = 100, .state = 2, .reason = 0}, {.tid = 101, .state = 1, .reason = 0},
    {.tid = 102, .state = 3, .reason = 0}, {.tid = 103, .state = 5, .reason = 5},
    {.tid = 104, .state = 5, .reason = 6}, {.tid = 105, .state = 5, .reason = 12},
    {.tid = 106, .state = 4, .reason = 0}, {.tid = 107, .state = 9, .reason = 0},
};

static const uint8_t system_sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};

static const struct snap_gen_process idle = {
    .pid = 0, .session = 0, .threads = threads, .n_threads = 2, .kernel = 77};
static const struct snap_gen_process editor = {.pid = 4242,
                                               .parent = 17,
                                               .session = 3,
                                               .created = FILETIME,
                                               .name = u"k\u00f6ln \u20ac \U0001f600.exe",
                                               .threads = threads,
                                               .n_threads = COUNT_OF(threads),
                                               .user = 30,
                                               .kernel = 12,
                                               .page_faults = 0xfffffff0,
                                               .hard_faults = 5};
static const struct snap_gen_process service = {.pid = 8,
                                                .session = UINT32_MAX,
                                                .created = FILETIME + 1,
                                                .name = u"\\Device\\Disk1\\dir\\svc.exe",
                                                .threads = threads,
                                                .n_threads = 1,
                                                .extension = true,
                                                .switches = UINT64_C(5000000000),
                                                .sequence = UINT64_C(6000000001),
                                                .disk_read = 4096,
                                                .disk_write = 8192};

static struct snap_walk w;
static struct snap_row row;

static void make(struct buf *b, bool full)
{
    buf_init(b, 1 << 20);
    snap_gen_put(b, BASE, full, &idle, false);
    snap_gen_put(b, BASE, full, &editor, false);
    snap_gen_put(b, BASE, full, &service, true);
    assert_ok(b->bad);
}

static void assert_text(struct str got, const char *expected)
{
    assert_int_equal(got.n, strlen(expected));
    assert_memory_equal(got.p, expected, got.n);
}

static void every_column_stands_where_the_layout_says(void **state)
{
    static const struct {
        unsigned column;
        int64_t value;
    } expected[] = {
        {M_THREAD_COUNT, COUNT_OF(threads)},
        {M_CPU_CYCLES, 0x18},
        {M_USER_TIME, 3000},
        {M_KERNEL_TIME, 1200},
        {M_PRIORITY, 8},
        {M_HANDLE_COUNT, 0x60},
        {M_VIRTUAL_BYTES, 0x78},
        {M_PAGE_FAULTS, 0xfffffff0},
        {M_HARD_FAULTS, 5},
        {M_PEAK_WORKING_SET, 0x88},
        {M_WORKING_SET_SIZE, 0x90},
        {M_PAGED_POOL, 0xa0},
        {M_NON_PAGED_POOL, 0xb0},
        {M_PRIVATE_BYTES, 0xc8},
        {M_PRIVATE_WORKING_SET, 0x08},
        {M_READ_OPERATIONS, 0xd0},
        {M_WRITE_OPERATIONS, 0xd8},
        {M_OTHER_OPERATIONS, 0xe0},
        {M_READ_BYTES, 0xe8},
        {M_WRITE_BYTES, 0xf0},
        {M_THREADS_RUNNING, 1},
        {M_THREADS_READY, 2},
        {M_THREADS_WAITING, 4},
        {M_THREADS_TERMINATED, 1},
        {M_SUSPENDED_THREADS, 2},
    };
    metric_mask mask = 0;
    struct buf b;

    make(&b, false);
    snap_rows_init(&w, b.p, b.n, BASE, false);
    assert_ok(snap_rows_next(&w, &row));
    assert_ok(snap_rows_next(&w, &row));
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        mask |= METRIC_BIT(expected[i].column);
        assert_int_equal(row.values[expected[i].column], expected[i].value);
    }
    assert_int_equal(row.mask, mask);
    buf_fini(&b);
}

static void attributes_are_those_of_the_entry(void **state)
{
    struct buf b;

    make(&b, false);
    snap_rows_init(&w, b.p, b.n, BASE, false);
    assert_ok(snap_rows_next(&w, &row));
    assert_ok(snap_rows_next(&w, &row));
    assert_int_equal(row.info.id.pid, 4242);
    assert_int_equal(row.info.id.start, FILETIME);
    assert_int_equal(row.info.create_ns, clk_from_filetime(FILETIME));
    assert_int_equal(row.info.parent_pid, 17);
    assert_int_equal(row.info.session_id, 3);
    assert_int_equal(row.info.have, INFO_PARENT | INFO_SESSION | INFO_CREATE_TIME);
    assert_int_equal(row.info.origin, ORIGIN_SNAPSHOT);
    assert_text(row.info.name, "k\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80.exe");
    assert_int_equal(row.info.image.n, 0);
    assert_ok(snap_rows_next(&w, &row));
    assert_false(row.info.have & INFO_SESSION);
    assert_err(snap_rows_next(&w, &row), ERR_END);
    assert_err(snap_rows_next(&w, &row), ERR_END);
    buf_fini(&b);
}

static void process_0_is_idle_and_was_never_created(void **state)
{
    struct buf b;

    make(&b, false);
    snap_rows_init(&w, b.p, b.n, BASE, false);
    assert_ok(snap_rows_next(&w, &row));
    assert_int_equal(row.info.id.pid, 0);
    assert_int_equal(row.info.id.start, 0);
    assert_false(row.info.have & INFO_CREATE_TIME);
    assert_text(row.info.name, "Idle");
    assert_int_equal(row.values[M_KERNEL_TIME], 7700);
    buf_fini(&b);
}

static void the_extension_is_read_only_where_it_fits_before_the_name(void **state)
{
    const metric_mask columns = METRIC_BIT(M_CONTEXT_SWITCHES) | METRIC_BIT(M_DISK_READ_BYTES) |
                                METRIC_BIT(M_DISK_WRITE_BYTES);

    for (int full = 0; full < 2; full++) {
        struct buf b;

        make(&b, full);
        snap_rows_init(&w, b.p, b.n, BASE, full);
        assert_ok(snap_rows_next(&w, &row));
        assert_int_equal(row.mask & columns, 0);
        assert_ok(snap_rows_next(&w, &row));
        assert_int_equal(row.mask & columns, 0);
        assert_int_equal(row.info.sequence, 0);
        assert_ok(snap_rows_next(&w, &row));
        assert_int_equal(row.info.sequence, 6000000001);
        assert_int_equal(row.mask & columns, columns);
        assert_int_equal(row.values[M_CONTEXT_SWITCHES], 5000000000);
        assert_int_equal(row.values[M_DISK_READ_BYTES], 4096);
        assert_int_equal(row.values[M_DISK_WRITE_BYTES], 8192);
        buf_fini(&b);
    }
}

static void class_148_gives_the_path_and_larger_threads(void **state)
{
    struct buf b;

    make(&b, true);
    snap_rows_init(&w, b.p, b.n, BASE, true);
    assert_ok(snap_rows_next(&w, &row));
    assert_ok(snap_rows_next(&w, &row));
    assert_int_equal(row.values[M_THREADS_WAITING], 4);
    assert_int_equal(row.info.image.n, 0);
    assert_ok(snap_rows_next(&w, &row));
    assert_text(row.info.name, "svc.exe");
    assert_text(row.info.image, "\\Device\\Disk1\\dir\\svc.exe");
    buf_fini(&b);
}

static void class_148_gives_the_user(void **state)
{
    static const uint32_t bad[] = {0, 0x34, 0x37, 0x38, 0x1ff, UINT32_MAX};
    struct snap_gen_process p = service;

    p.sid = system_sid;
    p.sid_n = sizeof system_sid;
    for (size_t i = 0; i <= COUNT_OF(bad); i++) {
        size_t extension = 0x100 + 0x88;
        struct buf b;

        buf_init(&b, 1 << 20);
        snap_gen_put(&b, BASE, true, &p, true);
        for (size_t k = 0; i < COUNT_OF(bad) && k < 4; k++) {
            b.p[extension + 0x34 + k] = (uint8_t)(bad[i] >> 8 * k);
        }
        snap_rows_init(&w, b.p, b.n, BASE, true);
        assert_ok(snap_rows_next(&w, &row));
        assert_text(row.info.user, i < COUNT_OF(bad) ? "" : "S-1-5-18");
        buf_fini(&b);
    }
}

static void threads_are_read_in_both_sizes(void **state)
{
    const struct snap_gen_thread one[] = {
        {.tid = 8}, {.tid = 12, .created = FILETIME, .user = 5, .kernel = 7, .switches = 9}};
    const struct snap_gen_process p = {
        .pid = 5, .created = FILETIME, .threads = one, .n_threads = COUNT_OF(one)};

    for (int full = 0; full < 2; full++) {
        struct snap_thread thread;
        struct buf b;

        buf_init(&b, 1 << 20);
        snap_gen_put(&b, BASE, full, &p, true);
        snap_rows_init(&w, b.p, b.n, BASE, full);
        assert_ok(snap_rows_next(&w, &row));
        assert_int_equal(w.n_threads, 2);
        snap_rows_thread(&w, 1, &thread);
        assert_int_equal(thread.tid, 12);
        assert_int_equal(thread.created, FILETIME);
        assert_int_equal(thread.time, 12);
        assert_int_equal(thread.switches, 9);
        buf_fini(&b);
    }
}

/* In memory of exactly that size, so that a sanitizer sees a read beyond. */
static size_t walk_all(const uint8_t *p, size_t n, bool full, enum err *end)
{
    uint8_t *exact = mem_dup(p, n);
    size_t rows = 0;

    snap_rows_init(&w, exact, n, BASE, full);
    while ((*end = snap_rows_next(&w, &row)) == ERR_OK) {
        rows++;
    }
    mem_free(exact);
    return rows;
}

static void every_shorter_answer_is_corrupt_or_gives_fewer_processes(void **state)
{
    for (int full = 0; full < 2; full++) {
        struct buf b;
        enum err end;

        make(&b, full);
        assert_int_equal(walk_all(b.p, b.n, full, &end), 3);
        assert_int_equal(end, ERR_END);
        assert_int_equal(walk_all(b.p, 0, full, &end), 0);
        assert_int_equal(end, ERR_END);
        for (size_t n = 1; n + 8 < b.n; n++) { /* the last entry is padded to 8 bytes */
            assert_true(walk_all(b.p, n, full, &end) < 3);
            assert_int_equal(end, ERR_CORRUPT);
        }
        buf_fini(&b);
    }
}

static void lengths_that_cannot_be_are_corrupt(void **state)
{
    static const struct {
        size_t offset; /* in the second entry */
        uint64_t value;
        size_t bytes;
    } cases[] = {
        {0x00, 1, 4},    {0x00, 0xff, 4},       {0x00, 0xffffffff, 4},   {0x04, 0xffffffff, 4},
        {0x04, 9, 4},    {0x38, 3, 2},          {0x38, 0xfffe, 2},       {0x40, 1, 8},
        {0x40, BASE, 8}, {0x40, UINT64_MAX, 8}, {0x40, BASE + 0x300, 8},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buf b;
        enum err end;
        size_t second;

        make(&b, false);
        second = b.p[0] | (size_t)b.p[1] << 8;
        for (size_t k = 0; k < cases[i].bytes; k++) {
            b.p[second + cases[i].offset + k] = (uint8_t)(cases[i].value >> 8 * k);
        }
        assert_int_equal(walk_all(b.p, b.n, false, &end), 1);
        assert_int_equal(end, ERR_CORRUPT);
        buf_fini(&b);
    }
}

static void numbers_too_large_saturate(void **state)
{
    const struct snap_gen_process p = {
        .pid = 5, .user = UINT64_MAX, .kernel = INT64_MAX, .created = UINT64_MAX};
    struct buf b;

    buf_init(&b, 1 << 16);
    snap_gen_put(&b, BASE, false, &p, true);
    snap_rows_init(&w, b.p, b.n, BASE, false);
    assert_ok(snap_rows_next(&w, &row));
    assert_true(row.values[M_USER_TIME] == INT64_MAX);
    assert_true(row.values[M_KERNEL_TIME] == INT64_MAX);
    assert_int_equal(row.info.name.n, 0);
    buf_fini(&b);
}

static void names_are_cut_between_characters_and_mended(void **state)
{
    static char16_t wide[300];
    const struct snap_gen_process p = {.pid = 5, .name = wide};
    struct buf b;

    wide[0] = 0xdc00; /* a lone surrogate */
    for (size_t i = 1; i < 299; i++) {
        wide[i] = 0x20ac;
    }
    buf_init(&b, 1 << 16);
    snap_gen_put(&b, BASE, false, &p, true);
    snap_rows_init(&w, b.p, b.n, BASE, false);
    assert_ok(snap_rows_next(&w, &row));
    assert_int_equal(row.info.name.n, SNAP_NAME_MAX / 3 * 3);
    assert_memory_equal(row.info.name.p, "\xef\xbf\xbd\xe2\x82\xac", 6);
    buf_fini(&b);
}

static void columns_a_system_does_not_fill_are_found_out(void **state)
{
    struct snap_row own = {.mask = METRIC_ALL};
    metric_mask io = METRIC_BIT(M_READ_OPERATIONS) | METRIC_BIT(M_WRITE_OPERATIONS) |
                     METRIC_BIT(M_OTHER_OPERATIONS) | METRIC_BIT(M_READ_BYTES) |
                     METRIC_BIT(M_WRITE_BYTES);

    for (size_t i = 0; i < METRIC_COLS; i++) {
        own.values[i] = 1;
    }
    own.values[M_PRIORITY] = 8;
    assert_int_equal(snap_rows_unfit(&own, 8), 0);
    assert_int_equal(snap_rows_unfit(&own, 13), METRIC_BIT(M_PRIORITY));
    own.values[M_READ_OPERATIONS] = 0;
    assert_int_equal(snap_rows_unfit(&own, 8), io);
    own.values[M_PAGE_FAULTS] = 0; /* hard faults may be none */
    own.values[M_HARD_FAULTS] = 0;
    assert_int_equal(snap_rows_unfit(&own, 8),
                     io | METRIC_BIT(M_PAGE_FAULTS) | METRIC_BIT(M_HARD_FAULTS));
    own = (struct snap_row){.mask = METRIC_ALL};
    own.values[M_PRIORITY] = 8;
    assert_false(snap_rows_unfit(&own, 8) & (METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME) |
                                             METRIC_BIT(M_THREAD_COUNT)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_column_stands_where_the_layout_says),
        cmocka_unit_test(attributes_are_those_of_the_entry),
        cmocka_unit_test(process_0_is_idle_and_was_never_created),
        cmocka_unit_test(the_extension_is_read_only_where_it_fits_before_the_name),
        cmocka_unit_test(class_148_gives_the_path_and_larger_threads),
        cmocka_unit_test(class_148_gives_the_user),
        cmocka_unit_test(threads_are_read_in_both_sizes),
        cmocka_unit_test(every_shorter_answer_is_corrupt_or_gives_fewer_processes),
        cmocka_unit_test(lengths_that_cannot_be_are_corrupt),
        cmocka_unit_test(numbers_too_large_saturate),
        cmocka_unit_test(names_are_cut_between_characters_and_mended),
        cmocka_unit_test(columns_a_system_does_not_fill_are_found_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
