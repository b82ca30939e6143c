/* The hour's tier as compaction makes it, file by file, against all minutes joined at once. */
#include "collector/store/compact/compact.h"

#include <string.h>

#include "collector/store/rollup/tier.h"
#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg.h"
#include "collector/store/segment/seg_scan.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/fleetgen.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define H           (3600 * CLK_S)
#define HOUR0       (INT64_C(1767225600) * CLK_S)
#define HOSTS       2u
#define WINDOWS_MAX 40u
#define TICK        (5 * CLK_S)

static const unsigned metrics[] = {M_CPU_TIME, M_WORKING_SET_SIZE, M_THREAD_COUNT};

struct rig {
    char dir[256];
    struct manifest *m;
    struct compact *c;
    struct packer *packer;
    struct arena memory;
    size_t n; /* windows of the hour */
    struct batch *batches[HOSTS][WINDOWS_MAX];
    struct tier minutes[HOSTS][WINDOWS_MAX];
};

static int64_t window_ns(const struct rig *g)
{
    return H / (int64_t)g->n;
}

/* Minutes of the next window of a host, as sealing makes them. */
static void make_minutes(struct rig *g, struct fleetgen *gen, struct wire_encoder *enc, size_t host,
                         size_t i)
{
    struct window_part *part = arena_alloc(&g->memory, sizeof *part);
    struct window_rest *rest = arena_alloc(&g->memory, sizeof *rest);
    struct host_window hw = {.n_parts = 1, .parts = part, .n_rests = 1, .rests = rest};
    struct buf b;

    buf_init(&b, WIRE_BATCH_BYTES_MAX);
    assert_ok(wire_batch_encode(enc, &b, fleetgen_batch(gen, (size_t)(window_ns(g) / TICK))));
    assert_ok(wire_batch_decode(&g->batches[host][i], b.p, b.n));
    part->rows = *g->batches[host][i];
    rest->batch = *g->batches[host][i];
    hw.host = part->rows.head.host;
    assert_ok(tier_make(&g->minutes[host][i], &g->memory, &hw, TIER_1MIN_NS, true, NULL));
    buf_fini(&b);
}

static void rig_init(struct rig *g, size_t windows)
{
    struct manifest_conf conf = {g->dir, fio_unsynced()};
    struct compact_conf compact = {.fio = fio_unsynced(), .dir = g->dir};
    struct wire_encoder *enc;

    memset(g, 0, sizeof *g);
    g->n = windows;
    arena_init(&g->memory, (size_t)1 << 30);
    support_temp_dir(g->dir, sizeof g->dir);
    assert_ok(manifest_open(&g->m, &conf, NULL));
    compact.manifest = g->m;
    assert_ok(compact_create(&g->c, &compact));
    assert_ok(packer_create(&g->packer));
    assert_ok(wire_batch_encoder_create(&enc));
    for (size_t host = 0; host < HOSTS; host++) {
        struct fleetgen_conf gen = {.seed = 40 + host,
                                    .processes = 30,
                                    .starts_per_hour = 600,
                                    .tick_ns = TICK,
                                    .begin_ns = HOUR0};
        struct fleetgen *f = fleetgen_create(&gen);

        for (size_t i = 0; i < windows; i++) {
            make_minutes(g, f, enc, host, i);
        }
        fleetgen_destroy(f);
    }
    wire_batch_encoder_destroy(enc);
}

static void rig_fini(struct rig *g)
{
    for (size_t host = 0; host < HOSTS; host++) {
        for (size_t i = 0; i < g->n; i++) {
            wire_batch_free(g->batches[host][i]);
        }
    }
    packer_destroy(g->packer);
    compact_destroy(g->c);
    manifest_close(g->m);
    arena_fini(&g->memory);
    support_remove_dir(g->dir);
}

static const struct uuid *host_of(const struct rig *g, size_t host)
{
    return &g->batches[host][0]->head.host;
}

/* Seals the minutes of window i of the hosts in `hosts` (bits). */
static void seal(struct rig *g, size_t i, unsigned hosts, bool patch)
{
    int64_t start = HOUR0 + (int64_t)i * window_ns(g);
    struct seg_info info = {.number = manifest_number(g->m),
                            .kind = SEG_1MIN,
                            .n_windows = 1,
                            .patch = patch,
                            .window_ns = start,
                            .span_ns = window_ns(g)};
    uint64_t points = 0;
    struct seg_writer *w;

    assert_ok(seg_writer_create(&w, fio_unsynced(), g->dir, &info, &start, NULL));
    for (size_t host = 0; host < HOSTS; host++) {
        struct seq_range seq = {i + 1, i + 1};
        uint32_t index;

        if (hosts & 1u << host) {
            assert_ok(seg_writer_host(w, &index, host_of(g, host), host ? "b" : "a", 0, start,
                                      start + window_ns(g) - 1));
            assert_ok(seg_writer_ranges(w, host_of(g, host), 9, &seq, 1));
            assert_ok(tier_write(w, g->packer, index, 0, &g->minutes[host][i], &points));
        }
    }
    assert_ok(seg_writer_finish(w, points, &info, NULL));
    assert_ok(manifest_change(g->m, &info, 1, NULL, 0, NULL));
    manifest_publish(g->m);
}

static void settle(struct rig *g)
{
    bool worked = true;

    while (worked) {
        assert_ok(compact_step(g->c, HOUR0 + 2 * H, UINT64_MAX, &worked, NULL));
    }
}

/* The i-th segment of the hour's tier. */
static const struct seg *hour_seg(const struct manifest_list *l, size_t i)
{
    size_t at = manifest_lower(l, SEG_1H, HOUR0) + i;
    const struct seg *s;

    assert_true(at < manifest_segments(l) && manifest_segment(l, at)->kind == SEG_1H);
    assert_ok(manifest_seg(l, at, &s));
    return s;
}

static void read_hour(struct rig *g, struct tier *out, const struct seg *s, size_t host,
                      uint8_t window)
{
    struct tier_ask ask = {(uint32_t)seg_find_host(s, host_of(g, host)), window, TIER_1H_NS,
                           UINT64_MAX, true};

    assert_ok(tier_read(out, s, g->packer, &g->memory, &ask));
}

/* Cells of a column, row by row: where those of row i begin. */
static size_t cells_before(const struct tier *t, size_t row, unsigned metric)
{
    size_t n = 0;

    for (size_t i = 0; i < row; i++) {
        n += t->rows[i].mask & METRIC_BIT(metric) ? t->rows[i].n_buckets : 0;
    }
    return n;
}

static void assert_same_cell(const struct cell *a, const struct cell *b, bool use_sum)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->first, b->first);
    assert_int_equal(a->last, b->last);
    assert_int_equal(a->min, b->min);
    assert_int_equal(a->max, b->max);
    assert_true(!use_sum || a->sum == b->sum);
}

static void assert_same(const struct tier *a, const struct tier *b)
{
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->n_buckets, b->n_buckets);
    for (size_t i = 0; i < a->n_rows; i++) {
        const struct tier_row *x = &a->rows[i], *y = &b->rows[i];

        assert_true(proc_id_eq(x->id, y->id) && str_eq(x->name, y->name));
        assert_true(x->instances == y->instances && x->mask == y->mask);
        assert_true(x->n_buckets == y->n_buckets);
        for (size_t m = 0; m < COUNT_OF(metrics); m++) {
            unsigned id = metrics[m];
            const struct cell *c = a->columns[id] + cells_before(a, i, id);
            const struct cell *d = b->columns[id] + cells_before(b, i, id);

            for (uint32_t k = 0; x->mask & METRIC_BIT(id) && k < x->n_buckets; k++) {
                bool counter = metric_by_id(id)->kind == METRIC_COUNTER;

                assert_same_cell(&c[k], &d[k], !counter || x->instances);
            }
        }
    }
}

/* All windows of `which` (bits) joined at once. */
static void join_all(struct rig *g, struct tier *out, size_t host, uint64_t which)
{
    struct tier in[WINDOWS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < g->n; i++) {
        if (which & UINT64_C(1) << i) {
            in[n++] = g->minutes[host][i];
        }
    }
    assert_ok(tier_join(out, &g->memory, in, n, TIER_1H_NS, true));
}

static size_t count_kind(const struct manifest_list *l, unsigned kind)
{
    return manifest_lower(l, kind + 1, INT64_MIN) - manifest_lower(l, kind, INT64_MIN);
}

static void an_hour_is_what_its_minutes_say(void **state)
{
    static const size_t windows[] = {1, 12, WINDOWS_MAX}; /* more than are joined in one go */

    for (size_t n = 0; n < COUNT_OF(windows); n++) {
        struct manifest_list *l;
        struct rig g;

        rig_init(&g, windows[n]);
        for (size_t i = 0; i < g.n; i++) {
            seal(&g, i, 3, false);
        }
        settle(&g);
        l = manifest_view(g.m);
        assert_int_equal(count_kind(l, SEG_1H), 1);
        assert_int_equal(count_kind(l, SEG_1MIN), 1); /* joined once the hour had them */
        assert_true(manifest_segment(l, manifest_lower(l, SEG_1MIN, INT64_MIN))->in_hour);
        assert_false(seg_info_of(hour_seg(l, 0))->patch);
        for (size_t host = 0; host < HOSTS; host++) {
            struct tier got, want;

            read_hour(&g, &got, hour_seg(l, 0), host, 0);
            join_all(&g, &want, host, UINT64_MAX);
            assert_same(&got, &want);
            assert_true(want.n_rows > 20);
        }
        manifest_list_release(l);
        rig_fini(&g);
    }
}

static enum err count_numbers(void *ctx, const struct dedup_stream *st)
{
    for (size_t i = 0; i < st->n_ranges; i++) {
        *(uint64_t *)ctx += st->ranges[i].last - st->ranges[i].first + 1;
    }
    return ERR_OK;
}

static void late_minutes_make_a_patch_of_their_own_and_are_taken_once(void **state)
{
    struct manifest_list *l;
    uint64_t numbers = 0;
    struct tier got, want;
    struct rig g;

    rig_init(&g, 12);
    for (size_t i = 0; i < g.n; i++) {
        seal(&g, i, i == 5 ? 1 : 3, false); /* host 1 is late in the sixth */
    }
    settle(&g);
    seal(&g, 5, 2, true);
    settle(&g);
    l = manifest_view(g.m);
    assert_int_equal(count_kind(l, SEG_1H), 1); /* the patch lies in the same file by now */
    assert_int_equal(seg_info_of(hour_seg(l, 0))->n_windows, 2);
    assert_ok(seg_each_ranges(hour_seg(l, 0), count_numbers, &numbers));
    assert_int_equal(numbers, 24);
    join_all(&g, &want, 0, UINT64_MAX);
    read_hour(&g, &got, hour_seg(l, 0), 0, 0);
    assert_same(&got, &want);
    join_all(&g, &want, 1, ~(UINT64_C(1) << 5));
    read_hour(&g, &got, hour_seg(l, 0), 1, 0);
    assert_same(&got, &want);
    join_all(&g, &want, 1, UINT64_C(1) << 5);
    read_hour(&g, &got, hour_seg(l, 0), 1, 1);
    assert_same(&got, &want);
    manifest_list_release(l);
    rig_fini(&g);
}

static void minutes_that_are_gone_leave_their_hour_as_it_is(void **state)
{
    struct manifest_list *l;
    struct rig g;
    size_t at;

    rig_init(&g, 12);
    for (size_t i = 0; i < g.n - 1; i++) {
        seal(&g, i, 3, false);
    }
    settle(&g);
    l = manifest_view(g.m);
    at = manifest_lower(l, SEG_1MIN, INT64_MIN);
    assert_ok(manifest_change(g.m, NULL, 0, &manifest_segment(l, at)->number, 1, NULL));
    manifest_publish(g.m);
    manifest_list_release(l);
    seal(&g, 11, 3, true); /* late, when the hour's own minutes have been dropped */
    settle(&g);
    l = manifest_view(g.m);
    for (size_t host = 0; host < HOSTS; host++) {
        uint64_t before = 0, after = 0;

        for (size_t i = 0; i < count_kind(l, SEG_1H); i++) {
            const struct seg *s = hour_seg(l, i);

            for (unsigned w = 0; w < seg_info_of(s)->n_windows; w++) {
                struct tier t;

                read_hour(&g, &t, s, host, (uint8_t)w);
                for (size_t k = 0; k < t.n_cells[M_CPU_TIME]; k++) {
                    after += t.columns[M_CPU_TIME][k].count;
                }
            }
        }
        for (size_t i = 0; i < g.n; i++) {
            for (size_t k = 0; k < g.minutes[host][i].n_cells[M_CPU_TIME]; k++) {
                before += g.minutes[host][i].columns[M_CPU_TIME][k].count;
            }
        }
        assert_int_equal(before, after); /* every sample is counted once */
    }
    manifest_list_release(l);
    rig_fini(&g);
}

static void memory_that_runs_out_makes_no_hour(void **state)
{
    struct manifest_list *l;
    struct rig g;
    enum err e = ERR_NOMEM;

    rig_init(&g, 3);
    for (size_t i = 0; i < g.n; i++) {
        seal(&g, i, 3, false);
    }
    for (long n = 0; e; n += 3) {
        bool worked;

        mem_fail_after(n);
        e = compact_step(g.c, HOUR0 + 2 * H, UINT64_MAX, &worked, NULL);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        l = manifest_view(g.m);
        assert_int_equal(count_kind(l, SEG_1H), e ? 0 : 1);
        manifest_list_release(l);
    }
    rig_fini(&g);
}

static uint64_t samples_of(const struct tier *t)
{
    uint64_t n = 0;

    for (size_t k = 0; k < t->n_cells[M_CPU_TIME]; k++) {
        n += t->columns[M_CPU_TIME][k].count;
    }
    return n;
}

/* Flips one bit in the middle of a value of the only segment that there is. */
static void flip(struct rig *g, struct seg_key key)
{
    struct manifest_list *l = manifest_view(g->m);
    char name[SEG_NAME_MAX], *path;
    struct seg_place place;
    struct seg *s;
    uint8_t *p;
    size_t n;

    seg_name(name, manifest_segment(l, 0));
    assert_ok(seg_open(&s, fio_unsynced(), g->dir, manifest_segment(l, 0), NULL));
    assert_ok(seg_find(s, key, &place));
    seg_close(s);
    manifest_list_release(l);
    path = os_path_join(g->dir, name);
    assert_ok(os_read_file(&p, &n, path, 64u << 20));
    p[place.at + SEG_RECORD_BYTES + place.length / 2] ^= 4;
    assert_ok(os_write_file(path, p, n, false));
    mem_free(p);
    mem_free(path);
}

/* They wait for a repair: of no host are some of them in the hour and others not. */
static void damaged_minutes_are_in_no_hour(void **state)
{
    static const struct seg_key keys[] = {{SEG_PART_ROWS, 0, 0, 0},
                                          {SEG_PART_ROWS, 0, 0, 1},
                                          {SEG_PART_COLUMN, M_WORKING_SET_SIZE, 0, 1}};

    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct manifest_list *l;
        struct compact_stats st;
        struct rig g;

        rig_init(&g, 3);
        seal(&g, 1, 3, false);
        flip(&g, keys[i]);
        seal(&g, 0, 3, false);
        seal(&g, 2, 3, false);
        settle(&g);
        compact_stats(g.c, &st);
        assert_int_equal(st.skipped, 1);
        l = manifest_view(g.m);
        for (size_t host = 0; host < HOSTS; host++) {
            struct tier got;

            read_hour(&g, &got, hour_seg(l, 0), host, 0);
            assert_int_equal(samples_of(&got),
                             samples_of(&g.minutes[host][0]) + samples_of(&g.minutes[host][2]));
        }
        manifest_list_release(l);
        rig_fini(&g);
    }
}

/* Repairs the only segment that there is. */
static void repair(struct rig *g)
{
    struct manifest_list *l = manifest_view(g->m);
    struct seg_info info = *manifest_segment(l, 0);
    struct manifest_conf conf = {g->dir, fio_unsynced()};
    struct compact_conf compact = {.fio = fio_unsynced(), .dir = g->dir};
    uint64_t number = info.number, kept, lost;
    char name[SEG_NAME_MAX];

    seg_name(name, &info);
    manifest_list_release(l);
    compact_destroy(g->c);
    assert_ok(seg_scan_salvage(fio_unsynced(), g->dir, name, &info, &kept, &lost, NULL));
    assert_int_equal(lost, 1);
    assert_ok(manifest_change(g->m, &info, 1, &number, 1, NULL));
    manifest_publish(g->m);
    manifest_close(g->m);
    assert_ok(manifest_open(&g->m, &conf, NULL));
    compact.manifest = g->m;
    assert_ok(compact_create(&g->c, &compact));
}

static void what_a_repair_lost_stays_marked_in_the_hour(void **state)
{
    static const struct seg_key key = {SEG_PART_ROWS, 0, 0, 1};
    const struct tier_ask ask = {1, 1, TIER_1H_NS, UINT64_MAX, true};
    struct manifest_list *l;
    struct compact_stats st;
    const struct seg *s;
    struct tier got;
    struct rig g;

    rig_init(&g, 3);
    seal(&g, 1, 3, false);
    flip(&g, key);
    repair(&g);
    seal(&g, 0, 3, false);
    seal(&g, 2, 3, false);
    settle(&g);
    compact_stats(g.c, &st);
    assert_int_equal(st.skipped, 0);
    l = manifest_view(g.m);
    s = hour_seg(l, 0);
    for (size_t host = 0; host < HOSTS; host++) {
        read_hour(&g, &got, s, host, 0);
        assert_int_equal(samples_of(&got), samples_of(&g.minutes[host][0]) +
                                               samples_of(&g.minutes[host][2]) +
                                               (host ? 0 : samples_of(&g.minutes[host][1])));
    }
    assert_memory_equal(seg_host(s, 1)->id.b, host_of(&g, 1)->b, 16);
    assert_true(seg_host(s, 0)->at[1].t1_ns < seg_host(s, 0)->at[1].t0_ns);
    assert_true(seg_host(s, 1)->at[1].t0_ns == HOUR0 + window_ns(&g));
    assert_true(seg_host(s, 1)->at[1].t1_ns == HOUR0 + 2 * window_ns(&g) - 1);
    assert_err(tier_read(&got, s, g.packer, &g.memory, &ask), ERR_CORRUPT);
    manifest_list_release(l);
    rig_fini(&g);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_hour_is_what_its_minutes_say),
        cmocka_unit_test(late_minutes_make_a_patch_of_their_own_and_are_taken_once),
        cmocka_unit_test(minutes_that_are_gone_leave_their_hour_as_it_is),
        cmocka_unit_test(damaged_minutes_are_in_no_hour),
        cmocka_unit_test(what_a_repair_lost_stays_marked_in_the_hour),
        cmocka_unit_test(memory_that_runs_out_makes_no_hour),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
