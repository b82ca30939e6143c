/* Tiers and summaries in segments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/rollup/tier.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/fleetgen.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define HOSTS   3u
#define METRICS 8u
#define FIXTURE "tests/collector/fixtures/tier-format1.seg"
#define T0      (INT64_C(1767225600) * 1000000000)

/* One window of some hosts, the same in every run. */
struct rig {
    char dir[256];
    struct arena memory;
    struct packer *packer;
    struct tier fine[HOSTS], minutes[HOSTS], sums[HOSTS];
};

static void rig_open(struct rig *r)
{
    support_temp_dir(r->dir, sizeof r->dir);
    arena_init(&r->memory, (size_t)256 << 20);
    assert_ok(packer_create(&r->packer));
    for (unsigned h = 0; h < HOSTS; h++) {
        const struct fleetgen_conf conf = {.seed = 7 + h,
                                           .processes = 4,
                                           .metrics = METRICS,
                                           .starts_per_hour = 600,
                                           .begin_ns = T0 + h};
        struct fleetgen *g = fleetgen_create(&conf);
        const struct batch *b = fleetgen_batch(g, 150);
        struct window_part part = {.rows = *b};
        struct window_rest rest = {.batch = *b};
        const struct host_window hw = {.n_parts = 1, .parts = &part, .n_rests = 1, .rests = &rest};

        assert_ok(tier_make(&r->fine[h], &r->memory, &hw, TIER_10S_NS, false, NULL));
        for (size_t i = 0; i < r->fine[h].n_rows; i++) { /* they leave the generator */
            struct tier_row *row = (struct tier_row *)&r->fine[h].rows[i];

            row->name.p = arena_dup(&r->memory, row->name.p, row->name.n);
            row->user.p = arena_dup(&r->memory, row->user.p, row->user.n);
        }
        assert_ok(tier_join(&r->minutes[h], &r->memory, &r->fine[h], 1, TIER_1MIN_NS, true));
        assert_ok(tier_join(&r->sums[h], &r->memory, &r->fine[h], 1, TIER_WINDOW_NS, false));
        fleetgen_destroy(g);
    }
}

static void rig_close(struct rig *r)
{
    packer_destroy(r->packer);
    arena_fini(&r->memory);
    support_remove_dir(r->dir);
}

static struct uuid id_of(unsigned host)
{
    return (struct uuid){{(uint8_t)host, 1}};
}

/* One file with everything in it, tiers and summaries. */
static enum err write_file(struct rig *r, struct seg_info *info)
{
    static const int64_t window = T0;
    struct tier_later *later = NULL;
    struct seg_writer *w;
    uint64_t points = 0;
    enum err e;

    *info = (struct seg_info){.number = 5,
                              .kind = SEG_10S,
                              .n_windows = 1,
                              .window_ns = T0,
                              .span_ns = INT64_C(300000000000)};
    e = seg_writer_create(&w, fio_unsynced(), r->dir, info, &window, NULL);
    if (e) {
        return e;
    }
    e = tier_later_create(&later);
    for (unsigned h = 0; !e && h < HOSTS; h++) {
        const struct uuid id = id_of(h);
        uint32_t index;

        e = seg_writer_host(w, &index, &id, "host", 0, T0, T0 + 1);
        e = e ? e : tier_write(w, r->packer, index, 0, &r->fine[h], &points);
        e = e ? e : tier_later_add(later, r->packer, index, 0, &r->sums[h]);
    }
    e = e ? e : tier_later_write(later, w);
    tier_later_destroy(later);
    if (e) {
        seg_writer_abort(w);
        return e;
    }
    return seg_writer_finish(w, points, info, NULL);
}

static void assert_same(const struct tier *got, const struct tier *want, metric_mask metrics,
                        bool names)
{
    assert_int_equal(got->metrics, want->metrics & metrics);
    assert_int_equal(got->n_rows, want->n_rows);
    assert_int_equal(got->n_buckets, want->n_buckets);
    for (size_t i = 0; i < got->n_rows; i++) {
        assert_true(proc_id_eq(got->rows[i].id, want->rows[i].id));
        assert_int_equal(got->rows[i].first_ns, want->rows[i].first_ns);
        assert_int_equal(got->rows[i].last_ns, want->rows[i].last_ns);
        assert_int_equal(got->rows[i].instances, want->rows[i].instances);
        assert_true(names ? str_eq(got->rows[i].name, want->rows[i].name)
                          : got->rows[i].name.n == 0);
    }
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        for (size_t c = 0; (got->metrics & METRIC_BIT(m)) && c < want->n_cells[m]; c++) {
            assert_memory_equal(&got->columns[m][c], &want->columns[m][c],
                                sizeof got->columns[m][c]);
        }
    }
}

static void check_file(struct rig *r, const struct seg *s)
{
    for (unsigned i = 0; i < HOSTS * 4; i++) {
        const struct tier *want = i & 1 ? r->sums : r->fine;
        struct tier_ask ask = {
            .bucket_ns = want->bucket_ns,
            .metrics = i & 2 ? METRIC_ALL : METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_PRIVATE_BYTES),
            .names = i & 2};
        struct uuid id = id_of(i / 4);
        struct tier got;

        ask.host = (uint32_t)seg_find_host(s, &id);
        assert_ok(tier_read(&got, s, r->packer, &r->memory, &ask));
        assert_same(&got, &want[i / 4], ask.metrics, ask.names);
    }
}

static void what_is_in_a_segment_comes_back(void **state)
{
    struct tier_ask ask = {.host = HOSTS, .bucket_ns = TIER_10S_NS};
    struct seg_info info;
    struct tier t;
    struct seg *s;
    struct rig r;

    rig_open(&r);
    assert_ok(write_file(&r, &info));
    assert_ok(seg_open(&s, fio_unsynced(), r.dir, &info, NULL));
    check_file(&r, s);
    assert_err(tier_read(&t, s, r.packer, &r.memory, &ask), ERR_NOTFOUND);
    ask.host = 0;
    ask.bucket_ns = TIER_1MIN_NS; /* another one is there */
    assert_err(tier_read(&t, s, r.packer, &r.memory, &ask), ERR_CORRUPT);
    seg_close(s);
    rig_close(&r);
}

static void summaries_of_a_metric_lie_side_by_side(void **state)
{
    struct seg_info info;
    struct seg *s;
    struct rig r;
    unsigned seen = 0;

    rig_open(&r);
    assert_ok(write_file(&r, &info));
    assert_ok(seg_open(&s, fio_unsynced(), r.dir, &info, NULL));
    for (size_t i = 0; i + HOSTS <= seg_values(s); i++) {
        uint32_t n;
        struct seg_key k = seg_key_at(s, i, &n);

        if (k.part == SEG_PART_SUM && k.host == 0) {
            for (unsigned h = 1; h < HOSTS; h++) {
                struct seg_key next = seg_key_at(s, i + h, &n);

                assert_true(next.part == k.part && next.metric == k.metric && next.host == h);
            }
            seen++;
        }
    }
    assert_int_equal(seen, METRICS);
    seg_close(s);
    rig_close(&r);
}

static void format_1_is_read(void **state)
{
    struct seg_info info;
    char path[512], name[SEG_NAME_MAX];
    uint8_t *p;
    size_t n;
    struct seg *s;
    struct rig r;

    rig_open(&r);
    assert_ok(write_file(&r, &info));
    seg_name(name, &info);
    snprintf(path, sizeof path, "%s/%s", r.dir, name);
    if (getenv("PROCFLEET_MAKE_FIXTURES")) {
        assert_ok(os_read_file(&p, &n, path, 1u << 20));
        assert_ok(os_write_file(FIXTURE, p, n, false));
        mem_free(p);
    }
    assert_ok(os_read_file(&p, &n, FIXTURE, 1u << 20));
    assert_ok(os_write_file(path, p, n, false));
    mem_free(p);
    assert_ok(seg_open(&s, fio_unsynced(), r.dir, &info, NULL));
    check_file(&r, s);
    seg_close(s);
    rig_close(&r);
}

static void out_of_memory_leaves_nothing_behind(void **state)
{
    enum err e = ERR_NOMEM;
    struct seg_info info;
    struct rig r;

    rig_open(&r);
    for (long n = 0; e; n++) {
        mem_fail_after(n);
        e = write_file(&r, &info);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM || e == ERR_FULL);
    }
    e = ERR_NOMEM;
    for (long n = 0; e; n++) {
        const struct tier_ask ask = {
            .bucket_ns = TIER_10S_NS, .metrics = METRIC_ALL, .names = true};
        struct arena fresh;
        struct tier t;
        struct seg *s = NULL;

        arena_init(&fresh, (size_t)64 << 20);
        assert_ok(seg_open(&s, fio_unsynced(), r.dir, &info, NULL));
        mem_fail_after(n);
        e = tier_read(&t, s, r.packer, &fresh, &ask);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM || e == ERR_FULL);
        seg_close(s);
        arena_fini(&fresh);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_a_segment_comes_back),
        cmocka_unit_test(summaries_of_a_metric_lie_side_by_side),
        cmocka_unit_test(format_1_is_read),
        cmocka_unit_test(out_of_memory_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
