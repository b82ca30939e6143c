#include "collector/store/segment/seg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/manifest/manifest.h"
#include "collector/store/segment/seg_readahead.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/store/segment/seg_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define WINDOW SEG_RIG_WINDOW
#define HOSTS  SEG_RIG_HOSTS

static char dir[256];

static struct seg *open_it(const struct seg_info *info)
{
    struct errmsg why = {""};
    struct seg *s = NULL;

    if (seg_open(&s, fio_unsynced(), dir, info, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    return s;
}

static struct seg *made(struct seg_info *info)
{
    *info = seg_rig_info(17);
    assert_ok(seg_rig_write(fio_unsynced(), dir, info));
    return open_it(info);
}

/* -- tests -- */

static void a_name_tells_kind_window_and_number(void **state)
{
    static const struct {
        uint8_t kind;
        int64_t window_ns;
        uint64_t number;
        const char *name;
    } rows[] = {
        {SEG_RAW, INT64_C(1795298400) * 1000000000, 17, "raw-20261121T2200Z-17.seg"},
        {SEG_10S, 0, 0, "10s-19700101T0000Z-0.seg"},
        {SEG_1H, -INT64_C(3600) * 1000000000, UINT64_MAX,
         "1h-19691231T2300Z-18446744073709551615.seg"},
    };
    static const char *const wrong[] = {"",           ".seg",     "raw.seg", "raw-1.seg.tmp",
                                        "none-1.seg", "manifest", "raw-1"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct seg_info info = {
            .kind = rows[i].kind, .window_ns = rows[i].window_ns, .number = rows[i].number};
        char name[SEG_NAME_MAX];

        seg_name(name, &info);
        assert_string_equal(name, rows[i].name);
        assert_true(seg_name_is(name));
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_false(seg_name_is(wrong[i]));
    }
}

static void hosts_and_spans_are_read_as_written(void **state)
{
    struct seg_info info;
    struct seg *s = made(&info);
    struct uuid stranger = {{9, 9, 9}};

    assert_int_equal(seg_info_of(s)->number, 17);
    assert_int_equal(seg_info_of(s)->bytes, info.bytes);
    assert_int_equal(seg_info_of(s)->values, 4711);
    assert_int_equal(seg_window(s, 2), 1002 * WINDOW);
    assert_int_equal(seg_hosts(s), HOSTS);
    for (unsigned h = 0; h < HOSTS; h++) {
        struct uuid id = seg_rig_id(h);
        const struct seg_host *host = seg_host(s, h);
        char name[32];

        snprintf(name, sizeof name, "host-%u", h);
        assert_int_equal(seg_find_host(s, &id), h);
        if ((h % 4) != 0) {
            assert_string_equal(host->name, name);
            assert_int_equal(host->at[0].t0_ns, h);
            assert_int_equal(host->at[0].t1_ns, 100);
        } else {
            assert_true(host->at[0].t1_ns < host->at[0].t0_ns);
        }
        assert_int_equal(host->at[1].t0_ns, WINDOW - 1);
        assert_int_equal(host->at[1].t1_ns, (h + 1) % 4 != 0 ? WINDOW + 100 : WINDOW + 50);
    }
    assert_int_equal(seg_find_host(s, &stranger), HOSTS);
    seg_close(s);
}

static enum err check_ranges(void *ctx, const struct dedup_stream *st)
{
    unsigned *n = ctx;
    struct uuid id = seg_rig_id((unsigned)(st->stream - 70));

    assert_memory_equal(st->host.b, id.b, sizeof id.b);
    assert_int_equal(st->n_ranges, 2);
    assert_int_equal(st->ranges[0].first, 1);
    assert_int_equal(st->ranges[0].last, 7);
    assert_int_equal(st->ranges[1].first, 9);
    assert_int_equal(st->ranges[1].last, 12);
    return ++*n == HOSTS ? ERR_END : ERR_OK;
}

static void ranges_of_a_stream_are_joined(void **state)
{
    struct seg_info info;
    struct seg *s = made(&info);
    unsigned n = 0;

    assert_err(seg_each_ranges(s, check_ranges, &n), ERR_END);
    assert_int_equal(n, HOSTS);
    seg_close(s);
}

static void every_value_is_read_alone_and_what_is_not_there_is_not_found(void **state)
{
    struct seg_info info;
    struct seg *s = made(&info);
    struct arena a;

    arena_init(&a, 1u << 20);
    for (unsigned m = 0; m < 22; m++) {
        for (unsigned i = 0; i < 4 * (HOSTS + 1); i++) {
            struct seg_key k = {SEG_PART_COLUMN, (uint8_t)m, (uint8_t)(i % 4), i / 4};
            const uint8_t *p;
            size_t n;
            enum err e = seg_read(s, &a, k, &p, &n);

            if (m < 20 && k.window < 3 && k.host < HOSTS && seg_rig_exists(k)) {
                assert_ok(e);
                assert_true(seg_rig_is(k, p, n));
            } else {
                assert_err(e, ERR_NOTFOUND);
            }
        }
    }
    arena_fini(&a);
    seg_close(s);
}

static void keys_come_in_their_order(void **state)
{
    struct seg_info info;
    struct seg *s = made(&info);
    struct seg_key before = {0};
    size_t n = 0;

    for (unsigned i = 0; i < 20 * 3 * HOSTS; i++) {
        n += seg_rig_exists((struct seg_key){SEG_PART_COLUMN, (uint8_t)(i / 3 / HOSTS),
                                             (uint8_t)(i % 3), i / 3 % HOSTS});
    }
    assert_int_equal(seg_values(s), n);
    for (size_t i = 0; i < n; i++) {
        uint32_t length;
        struct seg_key k = seg_key_at(s, i, &length);
        uint8_t bytes[128];

        assert_int_equal(k.part, SEG_PART_COLUMN);
        assert_int_equal(length, seg_rig_content(bytes, k));
        assert_true(
            i == 0 || k.metric > before.metric ||
            (k.metric == before.metric &&
             (k.window > before.window || (k.window == before.window && k.host > before.host))));
        before = k;
    }
    seg_close(s);
}

static void many_values_are_read_with_few_reads(void **state)
{
    struct seg_key keys[60];
    const uint8_t *p[60];
    size_t lengths[60];
    struct seg_info info;
    struct fio_fault *f;
    struct seg *s = made(&info);
    struct arena a;
    long before;

    seg_close(s);
    assert_ok(fio_fault_create(&f));
    assert_ok(seg_open(&s, fio_fault_fio(f), dir, &info, NULL));
    for (unsigned i = 0; i < 60; i++) {
        keys[i] = (struct seg_key){SEG_PART_COLUMN, (uint8_t)(i / 3), (uint8_t)(i % 3), 7};
    }
    arena_init(&a, 1u << 20);
    before = fio_fault_count(f, FIO_READ);
    assert_ok(seg_read_many(s, &a, keys, 60, p, lengths));
    assert_int_equal(fio_fault_count(f, FIO_READ), before + 2); /* directory, values */
    for (unsigned i = 0; i < 60; i++) {
        if (seg_rig_exists(keys[i])) {
            assert_non_null(p[i]);
            assert_true(seg_rig_is(keys[i], p[i], lengths[i]));
        } else {
            assert_null(p[i]);
            assert_int_equal(lengths[i], 0);
        }
    }
    arena_fini(&a);
    seg_close(s);
    fio_fault_destroy(f);
}

static void a_segment_without_hosts_or_values_is_one_too(void **state)
{
    int64_t window = -WINDOW;
    struct seg_info info = {.number = 1, .kind = SEG_1H, .n_windows = 1, .window_ns = window};
    struct seg_writer *w;
    struct seg *s;
    struct seg_key k = {SEG_PART_ROWS, 0, 0, 0};
    struct arena a;
    const uint8_t *p;
    size_t n;
    uint32_t length;

    assert_ok(seg_writer_create(&w, fio_unsynced(), dir, &info, &window, NULL));
    assert_err(seg_writer_add(w, k, "x", 1), ERR_INVALID);
    assert_ok(seg_writer_finish(w, 0, &info, NULL));
    s = open_it(&info);
    arena_init(&a, 4096);
    assert_int_equal(seg_hosts(s), 0);
    assert_int_equal(seg_values(s), 0);
    assert_err(seg_read(s, &a, k, &p, &n), ERR_NOTFOUND);
    assert_int_equal(seg_key_at(s, 0, &length).part, 0);
    assert_ok(seg_each_ranges(s, check_ranges, NULL));
    arena_fini(&a);
    seg_close(s);
}

static void the_same_key_twice_is_refused_and_leaves_nothing(void **state)
{
    int64_t window = 0;
    struct seg_info info = {.number = 1, .kind = SEG_RAW, .n_windows = 1};
    struct uuid id = seg_rig_id(1);
    struct seg_writer *w;
    struct errmsg why;
    uint32_t index;
    char path[512], name[SEG_NAME_MAX];

    assert_ok(seg_writer_create(&w, fio_unsynced(), dir, &info, &window, NULL));
    assert_ok(seg_writer_host(w, &index, &id, "h", 0, 0, 1));
    assert_err(seg_writer_host(w, &index, &id, "h", 1, 0, 1), ERR_INVALID);
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(seg_writer_add(w, (struct seg_key){SEG_PART_ROWS, 0, 0, 0}, "x", 1));
    }
    assert_err(seg_writer_finish(w, 0, &info, &why), ERR_INVALID);
    seg_name(name, &info);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_false(os_exists(path));
    snprintf(path, sizeof path, "%s/%s.tmp", dir, name);
    assert_false(os_exists(path));
}

static void large_values_and_many_hosts_are_kept_apart(void **state)
{
    size_t big_n = 5u << 20;
    uint8_t *big = mem_alloc(big_n);
    int64_t window = 0;
    struct seg_info info = {.number = 3, .kind = SEG_RAW, .n_windows = 1};
    struct seg_writer *w;
    struct seg *s;
    struct arena a;
    const uint8_t *p[3];
    size_t n[3];

    assert_non_null(big);
    for (size_t i = 0; i < big_n; i++) {
        big[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    assert_ok(seg_writer_create(&w, fio_unsynced(), dir, &info, &window, NULL));
    for (uint32_t h = 0; h < 20000; h++) {
        struct uuid id = {{(uint8_t)h, (uint8_t)(h >> 8), 1}};
        uint32_t index;

        assert_ok(seg_writer_host(w, &index, &id, "a host's name", 0, h, h));
        assert_int_equal(index, h);
        assert_ok(seg_writer_add(w, (struct seg_key){SEG_PART_SUM, 3, 0, h}, &h, sizeof h));
    }
    assert_ok(seg_writer_add(w, (struct seg_key){SEG_PART_COLUMN, 1, 0, 5}, big, big_n));
    assert_ok(seg_writer_add(w, (struct seg_key){SEG_PART_COLUMN, 2, 0, 5}, big, 3));
    assert_ok(seg_writer_finish(w, 1, &info, NULL));
    s = open_it(&info);
    arena_init(&a, 64u << 20);
    {
        const struct seg_key keys[] = {
            {SEG_PART_COLUMN, 1, 0, 5}, {SEG_PART_COLUMN, 2, 0, 5}, {SEG_PART_SUM, 3, 0, 19999}};

        assert_ok(seg_read_many(s, &a, keys, 3, p, n));
    }
    assert_int_equal(n[0], big_n);
    assert_memory_equal(p[0], big, big_n);
    assert_int_equal(n[1], 3);
    assert_int_equal(n[2], 4);
    for (uint32_t h = 0; h < 20000; h += 997) {
        struct uuid id = {{(uint8_t)h, (uint8_t)(h >> 8), 1}};

        assert_int_equal(seg_find_host(s, &id), h);
        assert_ok(seg_read(s, &a, (struct seg_key){SEG_PART_SUM, 3, 0, h}, &p[0], &n[0]));
        assert_memory_equal(p[0], &h, sizeof h);
    }
    arena_reset(&a);
    a.max_bytes = 1u << 20;
    assert_err(seg_read(s, &a, (struct seg_key){SEG_PART_COLUMN, 1, 0, 5}, &p[0], &n[0]), ERR_FULL);
    arena_fini(&a);
    seg_close(s);
    mem_free(big);
}

/* Summaries of so many hosts, and between them values of others. */
static void write_sums(struct seg_info *info, uint32_t hosts, size_t n, size_t between)
{
    static uint8_t bytes[32u << 10];
    int64_t window = 0;
    struct seg_writer *w;

    *info = (struct seg_info){.number = 9, .kind = SEG_RAW, .n_windows = 1};
    assert_ok(seg_writer_create(&w, fio_unsynced(), dir, info, &window, NULL));
    for (uint32_t h = 0; h < hosts; h++) {
        struct uuid id = {{(uint8_t)h, (uint8_t)(h >> 8), 1}};
        uint32_t index;

        assert_ok(seg_writer_host(w, &index, &id, "h", 0, h, h));
    }
    for (uint32_t h = hosts; h-- > 0;) {
        memset(bytes, (int)h, sizeof bytes);
        assert_ok(seg_writer_add(w, (struct seg_key){SEG_PART_SUM, 3, 0, h}, bytes, n));
        assert_ok(seg_writer_add(w, (struct seg_key){SEG_PART_COLUMN, 3, 0, h}, bytes, between));
    }
    assert_ok(seg_writer_finish(w, 1, info, NULL));
}

/* Asks every host for its summary, one after the other: how many reads that was. */
static long reads_of_all(const struct seg_info *info, uint32_t hosts, size_t n, uint32_t damaged)
{
    struct seg_readahead *ahead;
    struct fio_fault *f;
    struct arena a;
    struct seg *s;
    long before, reads;

    assert_ok(fio_fault_create(&f));
    assert_ok(seg_open(&s, fio_fault_fio(f), dir, info, NULL));
    assert_ok(seg_load_keys(s));
    assert_ok(seg_readahead_create(&ahead));
    arena_init(&a, 1u << 20);
    before = fio_fault_count(f, FIO_READ);
    for (uint32_t h = 0; h < hosts; h++) {
        const struct seg_key keys[] = {{SEG_PART_SUM, 3, 0, h}, {SEG_PART_SUM, 4, 0, h}};
        const uint8_t *p[2];
        size_t lengths[2];

        arena_reset(&a);
        assert_ok(seg_readahead_read(ahead, s, &a, keys, 2, p, lengths));
        assert_null(p[1]);
        assert_int_equal(lengths[1], 0);
        if (h == damaged) {
            assert_null(p[0]);
            assert_true(lengths[0] == SEG_DAMAGED);
            continue;
        }
        assert_int_equal(lengths[0], n);
        assert_true(p[0][0] == (uint8_t)h && p[0][n - 1] == (uint8_t)h);
    }
    reads = fio_fault_count(f, FIO_READ) - before;
    arena_fini(&a);
    seg_readahead_destroy(ahead);
    seg_close(s);
    fio_fault_destroy(f);
    return reads;
}

static void values_of_many_hosts_are_read_together_where_they_lie_close(void **state)
{
    static const struct {
        uint32_t hosts;
        size_t n, between;
        long least, most; /* reads */
    } rows[] = {
        {20, 4000, 10, 1, 1},          /* small enough from the first one on */
        {200, 4000, 10, 2, 10},        /* after some */
        {20, 100, 8u << 10, 1, 3},     /* small ones not far from each other */
        {20, 100, 20u << 10, 20, 20},  /* too far */
        {300, 30u << 10, 1, 300, 300}, /* too much */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct seg_info info;
        long reads;

        write_sums(&info, rows[i].hosts, rows[i].n, rows[i].between);
        reads = reads_of_all(&info, rows[i].hosts, rows[i].n, UINT32_MAX);
        assert_in_range(reads, rows[i].least, rows[i].most);
    }
}

static void a_damaged_value_among_those_read_together_is_alone(void **state)
{
    char path[512], name[SEG_NAME_MAX];
    struct seg_info info;
    unsigned run = 0;
    FILE *file;

    write_sums(&info, 20, 4000, 10);
    seg_name(name, &info);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "r+b");
    assert_non_null(file);
    while (run < 1000) { /* inside the value of host 18 */
        int c = fgetc(file);

        assert_true(c != EOF);
        run = c == 18 ? run + 1 : 0;
    }
    assert_int_equal(fseek(file, 0, SEEK_CUR), 0);
    assert_int_equal(fwrite("\xee\xee", 1, 2, file), 2);
    fclose(file);
    assert_int_equal(reads_of_all(&info, 20, 4000, 18), 2); /* it is tried again by itself */
}

int main(void)
{
#define T(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)
    const struct CMUnitTest tests[] = {
        T(a_name_tells_kind_window_and_number),
        T(hosts_and_spans_are_read_as_written),
        T(ranges_of_a_stream_are_joined),
        T(every_value_is_read_alone_and_what_is_not_there_is_not_found),
        T(keys_come_in_their_order),
        T(many_values_are_read_with_few_reads),
        T(a_segment_without_hosts_or_values_is_one_too),
        T(the_same_key_twice_is_refused_and_leaves_nothing),
        T(large_values_and_many_hosts_are_kept_apart),
        T(values_of_many_hosts_are_read_together_where_they_lie_close),
        T(a_damaged_value_among_those_read_together_is_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
