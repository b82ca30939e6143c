#include "collector/store/retention/retain.h"

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define H   (3600 * CLK_S)
#define DAY (24 * H)
#define MIB (UINT64_C(1) << 20)
#define NOW (INT64_C(1767225600) * CLK_S + 60 * DAY) /* a midnight */
#define FAR 1000000                                  /* MiB: no limit that is reached */

/* Segments of `n` windows in a row, the last of which ends `ago_h` hours before NOW. */
struct run {
    unsigned kind;
    int n;
    int64_t ago_h;
    int64_t span_ns;
    uint64_t mib;
    bool in_hour;
};

struct rig {
    char dir[256];
    struct manifest *m;
    struct manifest_list *l;
};

static void add_run(struct rig *g, const struct run *r)
{
    for (int i = 0; i < r->n; i++) {
        struct seg_info s = {.number = manifest_number(g->m),
                             .kind = (uint8_t)r->kind,
                             .n_windows = 1,
                             .in_hour = r->in_hour,
                             .window_ns = NOW - r->ago_h * H - (r->n - i) * r->span_ns,
                             .span_ns = r->span_ns,
                             .bytes = r->mib * MIB,
                             .values = 1};

        assert_ok(manifest_change(g->m, &s, 1, NULL, 0, NULL));
        manifest_publish(g->m);
    }
}

static void rig_open(struct rig *g, const struct run *runs, size_t n)
{
    struct manifest_conf conf = {support_temp_dir(g->dir, sizeof g->dir), fio_unsynced()};

    assert_ok(manifest_open(&g->m, &conf, NULL));
    for (size_t i = 0; i < n; i++) {
        add_run(g, &runs[i]);
    }
    g->l = manifest_view(g->m);
    assert_non_null(g->l);
}

static void rig_close(struct rig *g)
{
    manifest_list_release(g->l);
    manifest_close(g->m);
    support_remove_dir(g->dir);
}

static struct retain_conf conf_of(uint64_t total_mib)
{
    struct retain_conf c = {.total_bytes = total_mib * MIB};

    retain_defaults(&c, 0);
    return c;
}

/* Room for everything. */
static struct retain_conf wide(void)
{
    return conf_of(FAR);
}

static struct retain_now at_now(void)
{
    return (struct retain_now){.now_ns = NOW};
}

static uint64_t total(const uint64_t counts[SEG_KINDS])
{
    uint64_t n = 0;

    for (unsigned k = 0; k < SEG_KINDS; k++) {
        n += counts[k];
    }
    return n;
}

static void plan(struct retain_plan *out, const struct rig *g, const struct retain_conf *c,
                 const struct retain_now *now)
{
    assert_ok(retain_plan(out, c, g->l, now));
    assert_true(out->n == total(out->by_age) + total(out->by_bytes) + total(out->by_disk));
    assert_true((out->n == 0) == (out->drop == NULL));
    for (size_t i = 0; i < out->n; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_true(out->drop[k] != out->drop[i]);
        }
    }
}

/* Bytes that the plan leaves of the kind. */
static uint64_t left_mib(const struct rig *g, const struct retain_plan *p, unsigned kind)
{
    uint64_t left = 0;

    for (size_t i = 0; i < manifest_segments(g->l); i++) {
        const struct seg_info *s = manifest_segment(g->l, i);
        bool gone = false;

        for (size_t k = 0; k < p->n; k++) {
            gone = gone || p->drop[k] == s->number;
        }
        left += s->kind == kind && !gone ? s->bytes : 0;
    }
    return left / MIB;
}

static const struct run full[] = {
    {SEG_RAW, 40, 0, 300 * CLK_S, 10, false}, {SEG_10S, 40, 0, 300 * CLK_S, 5, false},
    {SEG_1MIN, 40, 0, 300 * CLK_S, 3, true},  {SEG_1H, 40, 0, H, 1, false},
    {SEG_REST, 40, 0, 300 * CLK_S, 1, false},
};

static void defaults_come_from_the_disk(void **state)
{
    struct retain_conf c = {0};
    uint64_t sum = 0;

    retain_defaults(&c, 1000 * MIB);
    assert_true(c.total_bytes == 800 * MIB);
    assert_true(c.disk_free_min == 50 * MIB && c.disk_free_stop == 20 * MIB);
    assert_true(c.share[SEG_RAW] == 200 * MIB && c.share[SEG_10S] == 176 * MIB);
    assert_true(c.share[SEG_1MIN] == 280 * MIB && c.share[SEG_1H] == 104 * MIB);
    assert_true(c.share[SEG_REST] == 40 * MIB);
    assert_true(c.age_ns[SEG_RAW] == 48 * H && c.age_ns[SEG_10S] == 5 * DAY);
    assert_true(c.age_ns[SEG_1MIN] == 30 * DAY && c.age_ns[SEG_1H] == 90 * DAY);
    assert_true(c.age_ns[SEG_REST] == 90 * DAY); /* the longest */

    c = (struct retain_conf){.total_bytes = 1000 * MIB, .age_ns[SEG_10S] = 400 * DAY};
    c.share[SEG_RAW] = 625 * MIB;
    retain_defaults(&c, 0);
    for (unsigned k = SEG_RAW; k <= SEG_REST; k++) {
        sum += c.share[k];
    }
    assert_true(c.share[SEG_PROVIDER] == 50 * MIB && c.age_ns[SEG_PROVIDER] == 7 * DAY);
    assert_true(c.share[SEG_RAW] == 625 * MIB); /* what was given stays */
    assert_true(c.share[SEG_1MIN] == 175 * MIB);
    assert_true(sum <= 1000 * MIB);
    assert_true(c.age_ns[SEG_REST] == 400 * DAY);
}

static void an_unknown_disk_limits_nothing(void **state)
{
    struct retain_conf c = {0};
    struct retain_now now = at_now();
    struct retain_plan p;
    struct rig g;

    retain_defaults(&c, 0);
    rig_open(&g, full, COUNT_OF(full));
    plan(&p, &g, &c, &now);
    assert_true(p.n == 0 && !p.stop);
    rig_close(&g);
}

static void shares_over_the_total_leave_nothing_for_the_others(void **state)
{
    struct retain_conf c = {.total_bytes = 100, .share[SEG_RAW] = 90, .share[SEG_REST] = 90};

    retain_defaults(&c, 0);
    assert_true(c.share[SEG_10S] == 0 && c.share[SEG_1MIN] == 0 && c.share[SEG_1H] == 0);
}

static void what_is_older_than_its_age_goes(void **state)
{
    static const struct {
        unsigned kind;
        int64_t ago_h, span_ns;
        bool in_hour, gone;
    } rows[] = {
        {SEG_RAW, 48, 300 * CLK_S, false, false}, /* its end counts, and it is not older yet */
        {SEG_RAW, 49, 300 * CLK_S, false, true},  {SEG_RAW, 47, 2 * H, false, false},
        {SEG_10S, 119, H, false, false},          {SEG_10S, 121, H, false, true},
        {SEG_1MIN, 719, H, true, false},          {SEG_1MIN, 721, H, true, true},
        {SEG_1MIN, 721, H, false, false}, /* the hour does not have it yet */
        {SEG_1MIN, 2161, H, false, true},         {SEG_1H, 2159, H, false, false},
        {SEG_1H, 2161, H, false, true},           {SEG_REST, 2159, H, false, false},
        {SEG_REST, 2161, H, false, true},
    };
    struct retain_conf c = wide();
    struct retain_now now = at_now();

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct run r = {rows[i].kind, 1, rows[i].ago_h, rows[i].span_ns, 1, rows[i].in_hour};
        struct retain_plan p;
        struct rig g;

        rig_open(&g, &r, 1);
        plan(&p, &g, &c, &now);
        assert_int_equal(p.n, rows[i].gone);
        assert_int_equal(p.by_age[rows[i].kind], rows[i].gone);
        assert_true(p.bytes == rows[i].gone * MIB);
        mem_free(p.drop);
        rig_close(&g);
    }
}

static void no_age_is_no_limit(void **state)
{
    struct run r = {SEG_RAW, 1, 24 * 365 * 20, H, 1, false};
    struct retain_conf c = wide();
    struct retain_now now = at_now();
    struct retain_plan p;
    struct rig g;

    c.age_ns[SEG_RAW] = 0;
    rig_open(&g, &r, 1);
    plan(&p, &g, &c, &now);
    assert_int_equal(p.n, 0);
    rig_close(&g);
}

static void a_kind_over_its_share_loses_its_oldest(void **state)
{
    static const struct run runs[] = {{SEG_RAW, 10, 0, 300 * CLK_S, 10, false},
                                      {SEG_REST, 10, 0, 300 * CLK_S, 10, false}};
    struct retain_conf c = wide();
    struct retain_now now = at_now();
    struct retain_plan p;
    struct rig g;

    rig_open(&g, runs, COUNT_OF(runs));
    c.share[SEG_RAW] = 75 * MIB;
    plan(&p, &g, &c, &now);
    assert_int_equal(p.n, 3);
    assert_int_equal(p.by_bytes[SEG_RAW], 3);
    for (size_t i = 0; i < 3; i++) { /* the list is by kind, then window */
        assert_true(p.drop[i] == manifest_segment(g.l, i)->number);
    }
    assert_false(p.stop);
    mem_free(p.drop);
    rig_close(&g);
}

/* 800 MiB in all. Whatever is written before the next plan, the ceiling is not passed. */
static void the_ceiling_counts_what_is_there_and_what_comes(void **state)
{
    static const struct {
        uint64_t total, other, coming;
    } rows[] = {{800, 0, 0},    {800, 1, 0},    {800, 0, 1},   {799, 0, 0}, {500, 100, 100},
                {300, 50, 200}, {256, 200, 56}, {10000, 0, 0}, {801, 1, 0}};
    struct rig g;

    rig_open(&g, full, COUNT_OF(full));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct retain_conf c = wide();
        struct retain_now now = at_now();
        struct retain_plan p;
        uint64_t need = rows[i].other + rows[i].coming;
        uint64_t before = 800 + need;

        c.total_bytes = rows[i].total * MIB;
        now.other_bytes = rows[i].other * MIB;
        now.coming_bytes = rows[i].coming * MIB;
        plan(&p, &g, &c, &now);
        assert_true(before - p.bytes / MIB <= rows[i].total);
        assert_false(p.stop);
        /* Nothing more went than had to: without the last one it would not have been enough. */
        assert_true((p.n == 0) == (before <= rows[i].total));
        assert_true(p.n == 0 || before - p.bytes / MIB + 10 > rows[i].total);
        mem_free(p.drop);
    }
    rig_close(&g);
}

static void a_ceiling_that_cannot_be_held_refuses_batches(void **state)
{
    struct retain_conf c = conf_of(256);
    struct retain_now now = at_now();
    struct retain_plan p;
    struct rig g;

    rig_open(&g, full, COUNT_OF(full));
    now.other_bytes = 200 * MIB;
    now.coming_bytes = 57 * MIB;
    plan(&p, &g, &c, &now);
    assert_true(p.stop);
    assert_int_equal(p.n, manifest_segments(g.l));
    assert_int_equal(p.next_kind, 0);
    mem_free(p.drop);
    now.coming_bytes = UINT64_MAX; /* sums do not wrap */
    plan(&p, &g, &c, &now);
    assert_true(p.stop);
    mem_free(p.drop);
    rig_close(&g);
}

static void what_is_wanted_makes_old_data_go_and_nothing_else(void **state)
{
    struct retain_conf c = wide();
    struct retain_now now = at_now();
    struct retain_plan p;
    struct rig g;

    rig_open(&g, full, COUNT_OF(full));
    c.total_bytes = 800 * MIB;
    now.wanted_bytes = 95 * MIB;
    plan(&p, &g, &c, &now);
    assert_true(p.bytes >= 95 * MIB && p.bytes < 105 * MIB && !p.stop);
    mem_free(p.drop);
    now.wanted_bytes = 201 * MIB; /* not worth it */
    plan(&p, &g, &c, &now);
    assert_true(p.n == 0 && !p.stop);
    now.wanted_bytes = 95 * MIB;
    c.total_bytes = FAR * MIB;
    c.disk_free_min = c.disk_free_stop = 50 * MIB;
    now.disk_total = 1000 * MIB;
    now.disk_free = 60 * MIB;
    plan(&p, &g, &c, &now);
    assert_true(p.n == 0 && !p.stop);
    rig_close(&g);
}

static void the_kind_most_over_its_share_pays_for_the_ceiling(void **state)
{
    struct retain_conf c = wide();
    struct retain_now now = at_now();
    struct retain_plan p;
    struct rig g;

    rig_open(&g, full, COUNT_OF(full));
    c.share[SEG_RAW] = 400 * MIB; /* full to 100 %, … */
    c.share[SEG_10S] = 400 * MIB; /* 50 % */
    c.share[SEG_1MIN] = 1200 * MIB;
    c.share[SEG_1H] = 4000 * MIB;
    c.share[SEG_REST] = 80 * MIB; /* 50 % */
    c.total_bytes = 700 * MIB;
    plan(&p, &g, &c, &now);
    assert_int_equal(p.by_bytes[SEG_RAW], 10);
    assert_int_equal(p.n, 10);
    mem_free(p.drop);

    c.total_bytes = 500 * MIB; /* raw down to 50 %, then three share what is left to save */
    plan(&p, &g, &c, &now);
    assert_true(left_mib(&g, &p, SEG_RAW) < 200 && left_mib(&g, &p, SEG_10S) < 200);
    assert_true(left_mib(&g, &p, SEG_REST) < 40);
    assert_true(left_mib(&g, &p, SEG_1MIN) == 120 && left_mib(&g, &p, SEG_1H) == 40);
    mem_free(p.drop);
    rig_close(&g);
}

static void a_full_disk_takes_raw_only_and_then_refuses(void **state)
{
    static const struct {
        uint64_t free_mib, coming_mib, raw_gone;
        bool stop;
    } rows[] = {
        {50, 0, 0, false}, {49, 0, 1, false},    {50, 1, 1, false},    {40, 0, 1, false},
        {39, 0, 2, false}, {50, 400, 40, false}, {20, 400, 40, false}, {19, 400, 40, true},
        {0, 0, 5, false},  {0, 500, 40, true},
    };
    struct rig g;

    rig_open(&g, full, COUNT_OF(full));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct retain_conf c = wide();
        struct retain_now now = at_now();
        struct retain_plan p;

        c.disk_free_min = 50 * MIB;
        c.disk_free_stop = 20 * MIB;
        now.disk_total = 1000 * MIB;
        now.disk_free = rows[i].free_mib * MIB;
        now.coming_bytes = rows[i].coming_mib * MIB;
        plan(&p, &g, &c, &now);
        assert_int_equal(p.by_disk[SEG_RAW], rows[i].raw_gone);
        assert_int_equal(p.n, rows[i].raw_gone);
        assert_int_equal(p.stop, rows[i].stop);
        mem_free(p.drop);
    }
    rig_close(&g);
}

static void a_full_disk_then_takes_events_of_providers_and_no_others(void **state)
{
    static const struct run noisy[] = {{SEG_RAW, 2, 0, 300 * CLK_S, 10, false},
                                       {SEG_REST, 2, 0, 300 * CLK_S, 10, false},
                                       {SEG_PROVIDER, 3, 0, 300 * CLK_S, 10, false}};
    static const uint64_t free_mib[] = {40, 30, 29, 25, 0}, gone[] = {0, 0, 1, 1, 3};
    struct rig g;

    rig_open(&g, noisy, COUNT_OF(noisy));
    for (size_t i = 0; i < COUNT_OF(free_mib); i++) {
        struct retain_conf c = wide();
        struct retain_now now = at_now();
        struct retain_plan p;

        c.disk_free_min = 50 * MIB;
        now.disk_total = 1000 * MIB;
        now.disk_free = free_mib[i] * MIB;
        plan(&p, &g, &c, &now);
        assert_int_equal(p.by_disk[SEG_PROVIDER], gone[i]);
        assert_int_equal(p.by_disk[SEG_REST], 0);
        mem_free(p.drop);
    }
    rig_close(&g);
}

static void an_unknown_disk_has_no_rules(void **state)
{
    struct retain_conf c = wide();
    struct retain_now now = at_now();
    struct retain_plan p;
    struct rig g;

    c.disk_free_min = c.disk_free_stop = 50 * MIB;
    rig_open(&g, full, COUNT_OF(full));
    plan(&p, &g, &c, &now);
    assert_int_equal(p.n, 0);
    assert_false(p.stop);
    rig_close(&g);
}

static void the_catalogue_follows_the_oldest_events(void **state)
{
    static const struct {
        struct run r;
        int64_t days;
    } rows[] = {
        {{SEG_REST, 1, 71, H, 1, false}, 3},       {{SEG_REST, 1, 72, H, 1, false}, 4},
        {{SEG_RAW, 1, 40, H, 1, false}, 0},        /* no events at all: today's stays */
        {{SEG_REST, 1, 24 * 100, H, 1, false}, 0}, /* they go now */
        {{SEG_REST, 1, -48, H, 1, false}, 0},      /* of the future */
    };
    struct retain_conf c = wide();
    struct retain_now now = at_now();

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct retain_plan p;
        struct rig g;

        rig_open(&g, &rows[i].r, 1);
        plan(&p, &g, &c, &now);
        assert_true(p.catalogue_before_ns == NOW - rows[i].days * DAY);
        mem_free(p.drop);
        rig_close(&g);
    }
}

static void the_next_drop_is_foreseen(void **state)
{
    static const struct run day = {SEG_RAW, 24, 0, H, 10, false};
    struct retain_conf c = wide();
    struct retain_now now = at_now();
    struct retain_plan p;
    struct rig g;

    rig_open(&g, &day, 1);
    plan(&p, &g, &c, &now); /* by age: the oldest hour ended 23 h ago */
    assert_int_equal(p.next_kind, SEG_RAW);
    assert_true(p.next_in_ns == 25 * H && p.next_window_ns == NOW - 24 * H);

    c.share[SEG_RAW] = 300 * MIB; /* by share: 60 MiB are left at 10 MiB an hour */
    plan(&p, &g, &c, &now);
    assert_true(p.next_in_ns > 6 * H - CLK_S && p.next_in_ns < 6 * H + CLK_S);

    c.total_bytes = 250 * MIB; /* by the ceiling */
    plan(&p, &g, &c, &now);
    assert_true(p.next_in_ns > H - CLK_S && p.next_in_ns < H + CLK_S);

    now.disk_total = FAR * MIB; /* by the disk */
    now.disk_free = 5 * MIB + (c.disk_free_min = FAR / 20 * MIB);
    plan(&p, &g, &c, &now);
    assert_true(p.next_in_ns > H / 2 - CLK_S && p.next_in_ns < H / 2 + CLK_S);
    rig_close(&g);
}

static void spare_is_what_neither_ceiling_nor_disk_need(void **state)
{
    struct retain_conf c = conf_of(1000);
    struct retain_now now = {.now_ns = NOW, .other_bytes = 50 * MIB, .coming_bytes = 30 * MIB};
    struct rig g;

    rig_open(&g, full, COUNT_OF(full));
    assert_true(retain_spare(&c, g.l, &now) == 120 * MIB);
    c.disk_free_stop = 5 * MIB;
    now.disk_total = 1000 * MIB;
    now.disk_free = 100 * MIB;
    assert_true(retain_spare(&c, g.l, &now) == 65 * MIB);
    now.disk_free = 35 * MIB;
    assert_true(retain_spare(&c, g.l, &now) == 0);
    c.total_bytes = 880 * MIB;
    now.disk_total = 0;
    assert_true(retain_spare(&c, g.l, &now) == 0);
    rig_close(&g);
}

/* -- a store's life -- */

struct life {
    struct rig g;
    uint64_t random;
    uint64_t log, segments, ceiling;
};

static uint64_t any(struct life *f, uint64_t below)
{
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    return (f->random >> 33) % below;
}

static void within(const struct life *f)
{
    assert_true(f->log + f->segments <= f->ceiling);
}

/* Adds what sealing or compaction wrote, then drops what it was made of, if anything. */
static void change(struct life *f, const struct seg_info *add, size_t n, const uint64_t *drop,
                   size_t n_drop, uint64_t dropped)
{
    for (size_t i = 0; i < n; i++) {
        f->segments += add[i].bytes;
    }
    within(f); /* old and new files exist */
    assert_ok(manifest_change(f->g.m, add, n, drop, n_drop, NULL));
    manifest_publish(f->g.m);
    f->segments -= dropped;
    manifest_list_release(f->g.l);
    f->g.l = manifest_view(f->g.m);
    assert_non_null(f->g.l);
}

static void live_retain(struct life *f, const struct retain_conf *c, const struct retain_now *now)
{
    struct retain_plan p;

    plan(&p, &f->g, c, now);
    assert_false(p.stop);
    change(f, NULL, 0, p.drop, p.n, p.bytes);
    mem_free(p.drop);
}

/* Five kinds from a window's log, altogether at most twice as large. */
static void live_seal(struct life *f, int64_t window_ns)
{
    struct seg_info add[SEG_REST];
    size_t n = 0;

    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        if (k != SEG_1H) {
            add[n++] = (struct seg_info){.number = manifest_number(f->g.m),
                                         .kind = (uint8_t)k,
                                         .n_windows = 1,
                                         .in_hour = true,
                                         .window_ns = window_ns,
                                         .span_ns = 300 * CLK_S,
                                         .bytes = any(f, f->log / 2 + 1)};
        }
    }
    change(f, add, n, NULL, 0, 0);
    f->log = 0;
}

/* Two of a kind become one when there is room for both and it. */
static void live_compact(struct life *f, const struct retain_conf *c, const struct retain_now *now)
{
    size_t n = manifest_segments(f->g.l);
    size_t at = n > 2 ? (size_t)any(f, n - 1) : n;
    uint64_t drop[2], bytes = 0;
    struct seg_info add;

    if (at == n || manifest_segment(f->g.l, at)->kind != manifest_segment(f->g.l, at + 1)->kind) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        drop[i] = manifest_segment(f->g.l, at + i)->number;
        bytes += manifest_segment(f->g.l, at + i)->bytes;
    }
    if (bytes > retain_spare(c, f->g.l, now)) {
        return;
    }
    add = *manifest_segment(f->g.l, at);
    add.number = manifest_number(f->g.m);
    add.bytes = bytes;
    change(f, &add, 1, drop, 2, bytes);
}

static void the_ceiling_holds_at_every_moment_of_a_stores_life(void **state)
{
    struct life f = {.random = 7, .ceiling = 256 * MIB};
    struct retain_conf c = conf_of(256);
    uint64_t fullest = 0;

    rig_open(&f.g, NULL, 0);
    for (int i = 0; i < 3000; i++) {
        struct retain_now now = {.now_ns = NOW + i * 300 * CLK_S};

        f.log = any(&f, 20) * MIB;
        now.other_bytes = f.log;
        now.coming_bytes = 2 * f.log + 20 * MIB; /* the next window's log too */
        live_retain(&f, &c, &now);
        live_compact(&f, &c, &now);
        live_seal(&f, now.now_ns - 300 * CLK_S);
        fullest = f.segments > fullest ? f.segments : fullest;
        within(&f);
    }
    assert_true(fullest > 200 * MIB); /* and the room is used */
    rig_close(&f.g);
}

static void an_empty_store_keeps_nothing_and_needs_nothing(void **state)
{
    struct retain_conf c = wide();
    struct retain_now now = at_now();
    struct retain_plan p;
    struct rig g;

    rig_open(&g, NULL, 0);
    plan(&p, &g, &c, &now);
    assert_int_equal(p.n, 0);
    assert_int_equal(p.next_kind, 0);
    assert_false(p.stop);
    rig_close(&g);
}

static void no_memory_is_told(void **state)
{
    struct retain_conf c = wide();
    struct retain_now now = at_now();
    struct retain_plan p;
    struct rig g;
    enum err e = ERR_NOMEM;

    rig_open(&g, full, COUNT_OF(full));
    for (long n = 0; e; n++) {
        long live = mem_live();

        mem_fail_after(n);
        e = retain_plan(&p, &c, g.l, &now);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_true(e == ERR_OK || mem_live() == live);
    }
    mem_free(p.drop);
    rig_close(&g);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_come_from_the_disk),
        cmocka_unit_test(an_unknown_disk_limits_nothing),
        cmocka_unit_test(shares_over_the_total_leave_nothing_for_the_others),
        cmocka_unit_test(what_is_older_than_its_age_goes),
        cmocka_unit_test(no_age_is_no_limit),
        cmocka_unit_test(a_kind_over_its_share_loses_its_oldest),
        cmocka_unit_test(the_ceiling_counts_what_is_there_and_what_comes),
        cmocka_unit_test(a_ceiling_that_cannot_be_held_refuses_batches),
        cmocka_unit_test(what_is_wanted_makes_old_data_go_and_nothing_else),
        cmocka_unit_test(the_kind_most_over_its_share_pays_for_the_ceiling),
        cmocka_unit_test(a_full_disk_takes_raw_only_and_then_refuses),
        cmocka_unit_test(a_full_disk_then_takes_events_of_providers_and_no_others),
        cmocka_unit_test(an_unknown_disk_has_no_rules),
        cmocka_unit_test(the_catalogue_follows_the_oldest_events),
        cmocka_unit_test(the_next_drop_is_foreseen),
        cmocka_unit_test(spare_is_what_neither_ceiling_nor_disk_need),
        cmocka_unit_test(the_ceiling_holds_at_every_moment_of_a_stores_life),
        cmocka_unit_test(an_empty_store_keeps_nothing_and_needs_nothing),
        cmocka_unit_test(no_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
