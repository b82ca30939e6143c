#include "tests/collector/store/read/world.h"

#include <stdlib.h>
#include <string.h>

#include "collector/store/batch_time.h"
#include "collector/store/segment/raw.h"
#include "collector/store/segment/seg_readahead.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/mem.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define BATCH_TICKS 10u

uint64_t world_next(struct world *w)
{
    w->rng = w->rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return w->rng >> 33;
}

/* -- samples -- */

static int by_sample(const void *a, const void *b)
{
    const struct world_sample *x = a, *y = b;

    if (x->metric != y->metric) {
        return x->metric < y->metric ? -1 : 1;
    }
    if (x->id.pid != y->id.pid) {
        return x->id.pid < y->id.pid ? -1 : 1;
    }
    if (x->id.start != y->id.start) {
        return x->id.start < y->id.start ? -1 : 1;
    }
    return x->wall_ns < y->wall_ns ? -1 : x->wall_ns > y->wall_ns;
}

bool world_same_series(const struct world_sample *x, const struct world_sample *y)
{
    return x->metric == y->metric && proc_id_eq(x->id, y->id);
}

static void keep_samples(struct world *w, const struct batch *b)
{
    for (size_t c = 0; c < b->n_columns; c++) {
        const int64_t *v = b->columns[c].values;

        for (size_t r = 0; r < b->n_runs; r++) {
            const struct batch_run *run = &b->runs[r];

            for (uint32_t k = 0; (run->mask & METRIC_BIT(b->columns[c].metric)) && k < run->n_ticks;
                 k++) {
                size_t tick = run->first_tick + k;

                if (w->n_samples == w->cap_samples) {
                    w->cap_samples = w->cap_samples ? w->cap_samples * 2 : 4096;
                    w->samples = mem_realloc_array(w->samples, w->cap_samples, sizeof *w->samples);
                    assert_non_null(w->samples);
                }
                w->samples[w->n_samples++] = (struct world_sample){
                    b->columns[c].metric, run->id, b->wall_ns[tick],
                    b->mono_ns[tick],     *v++,    run->fresh && !k,
                };
            }
        }
    }
}

/* -- sealing by hand -- */

struct sealing {
    struct world *w;
    int64_t window_ns;
    bool patch;
    const struct host_window *hw;
    int64_t t0_ns, t1_ns;
    struct seg_info infos[SEG_KINDS];
    size_t n;
};

static struct seg_writer *file_begin(struct sealing *s, unsigned kind, uint32_t *host)
{
    struct seg_info info = {.number = manifest_number(s->w->m),
                            .kind = (uint8_t)kind,
                            .n_windows = 1,
                            .patch = s->patch,
                            .window_ns = s->window_ns,
                            .span_ns = kind == SEG_1H ? TIER_1H_NS : WINDOW_NS};
    const struct seq_range range = {info.number, info.number};
    struct seg_writer *w;

    assert_ok(seg_writer_create(&w, s->w->rig.conf.fio, s->w->dir, &info, &s->window_ns, NULL));
    assert_ok(seg_writer_host(w, host, &s->hw->host, "gen", 0, s->t0_ns, s->t1_ns));
    assert_ok(seg_writer_ranges(w, &s->hw->host, 1, &range, 1));
    return w;
}

static void file_end(struct sealing *s, struct seg_writer *w, uint64_t values)
{
    assert_ok(seg_writer_finish(w, values, &s->infos[s->n++], NULL));
}

static void seal_tier(struct sealing *s, unsigned kind, const struct tier *t)
{
    uint64_t points = 0;
    uint32_t host;
    struct seg_writer *w = file_begin(s, kind, &host);

    assert_ok(tier_write(w, s->w->packer, host, 0, t, &points));
    file_end(s, w, points);
}

static void seal_raw(struct sealing *s, const struct tier *sums)
{
    struct tier_later *later;
    uint64_t values = 0;
    uint32_t host;
    struct seg_writer *w = file_begin(s, SEG_RAW, &host);

    assert_ok(tier_later_create(&later));
    assert_ok(raw_value_write(w, s->w->packer, host, 0, s->hw, &values));
    assert_ok(tier_later_add(later, s->w->packer, host, 0, sums));
    assert_ok(tier_later_write(later, w));
    tier_later_destroy(later);
    file_end(s, w, values);
}

static void seal(struct world *w, size_t window, enum world_fate fate)
{
    struct window_batch in[WORLD_PER_WINDOW];
    struct host_window hw;
    struct sealing s = {.w = w, .patch = fate == WORLD_LATE, .hw = &hw};
    struct tier fine, minutes, sums;
    size_t n = 0;

    s.t0_ns = INT64_MAX;
    for (size_t i = window * WORLD_PER_WINDOW; i < (window + 1) * WORLD_PER_WINDOW; i++) {
        int64_t t0, t1;

        if (w->fates[i] == fate) {
            in[n++] = (struct window_batch){.batch = w->batches[i]};
            batch_time_span(w->batches[i], 0, &t0, &t1);
            s.t0_ns = t0 < s.t0_ns ? t0 : s.t0_ns;
            s.t1_ns = t1 > s.t1_ns ? t1 : s.t1_ns;
        }
    }
    if (!n) {
        return;
    }
    s.window_ns = RIG_T0 + (int64_t)window * WINDOW_NS;
    assert_ok(window_join(&hw, &w->memory, in, n, "gen"));
    assert_ok(tier_make(&fine, &w->memory, &hw, TIER_10S_NS, false, NULL));
    assert_ok(tier_join(&minutes, &w->memory, &fine, 1, TIER_1MIN_NS, true));
    assert_ok(tier_join(&sums, &w->memory, &fine, 1, TIER_WINDOW_NS, false));
    seal_raw(&s, &sums);
    seal_tier(&s, SEG_10S, &fine);
    seal_tier(&s, SEG_1MIN, &minutes);
    w->minutes[window] = minutes;
    assert_ok(manifest_change(w->m, s.infos, s.n, NULL, 0, NULL));
    manifest_publish(w->m);
}

/* The first twelve windows' hour. */
void world_seal_hour(struct world *w)
{
    struct host_window hw = {.host = w->batches[0]->head.host};
    struct sealing s = {.w = w, .window_ns = RIG_T0, .hw = &hw};
    struct tier hour;
    int64_t unused;

    batch_time_span(w->batches[0], 0, &s.t0_ns, &unused);
    batch_time_span(w->batches[12 * WORLD_PER_WINDOW - 1], 0, &unused, &s.t1_ns);
    assert_ok(tier_join(&hour, &w->memory, w->minutes, 12, TIER_1H_NS, true));
    seal_tier(&s, SEG_1H, &hour);
    assert_ok(manifest_change(w->m, s.infos, s.n, NULL, 0, NULL));
    manifest_publish(w->m);
}

/* Retention: the segments of a kind whose window is before that one. */
void world_drop(struct world *w, unsigned kind, size_t before_window)
{
    struct manifest_list *l = manifest_view(w->m);
    int64_t end = RIG_T0 + (int64_t)before_window * WINDOW_NS;

    for (size_t i = 0; i < manifest_segments(l); i++) {
        const struct seg_info *s = manifest_segment(l, i);

        if (s->kind == kind && s->window_ns < end) {
            assert_ok(manifest_change(w->m, NULL, 0, &s->number, 1, NULL));
            manifest_publish(w->m);
        }
    }
    manifest_list_release(l);
}

/* All minutes are in their hour. */
void world_mark_in_hour(struct world *w)
{
    struct manifest_list *l = manifest_view(w->m);

    for (size_t i = 0; i < manifest_segments(l); i++) {
        struct seg_info s = *manifest_segment(l, i);

        if (s.kind == SEG_1MIN) {
            s.in_hour = true;
            assert_ok(manifest_change(w->m, &s, 1, &s.number, 1, NULL));
            manifest_publish(w->m);
        }
    }
    manifest_list_release(l);
}

/* -- the world -- */

static void put_batch(struct world *w, struct fleetgen *g, size_t i, enum world_fate fate,
                      bool head)
{
    struct rig_batch rb;

    rig_batch(&rb, g, BATCH_TICKS);
    assert_ok(wire_batch_decode(&w->batches[i], rb.bytes, rb.n));
    w->fates[i] = fate;
    if (fate != WORLD_LOST) {
        keep_samples(w, w->batches[i]);
    }
    if (head) {
        assert_ok(rig_put(&w->rig, &rb));
    }
    rig_batch_fini(&rb);
}

static void view_close(struct world *w)
{
    manifest_list_release(w->view->segments);
    packer_destroy(w->view->packer);
    wire_batch_decoder_destroy(w->view->decoder);
    seg_readahead_destroy(w->view->ahead);
    mem_free(w->view);
    store_view_close(w->opened);
}

void world_look(struct world *w)
{
    size_t n;

    if (w->opened) {
        view_close(w);
    }
    assert_ok(store_view_open(&w->opened, w->rig.store));
    n = sizeof *w->view + store_view_hosts(w->opened) * sizeof w->view->hosts[0];
    w->view = mem_alloc(n);
    assert_non_null(w->view);
    memcpy(w->view, w->opened, n);
    w->view->hosts[0].first_ns = w->batches[0]->wall_ns[0]; /* of what is sealed too */
    w->view->segments = manifest_view(w->m);
    assert_non_null(w->view->segments);
}

void world_reopen(struct world *w)
{
    const struct manifest_conf mc = {w->dir, w->rig.conf.fio};

    view_close(w);
    w->opened = NULL;
    manifest_close(w->m);
    assert_ok(manifest_open(&w->m, &mc, NULL));
    world_look(w);
}

/* lost, late: every so many-th batch, 0 = none. */
void world_open(struct world *w, uint64_t seed, size_t n_windows, unsigned lost, unsigned late)
{
    const struct fleetgen_conf conf = {.seed = seed,
                                       .processes = 6,
                                       .metrics = 8,
                                       .starts_per_hour = 600,
                                       .begin_ns = RIG_T0 + (int64_t)(seed % 2) * 3333333};
    struct fleetgen *g = fleetgen_create(&conf);
    struct manifest_conf mc = {w->dir, NULL};

    memset(w, 0, sizeof *w);
    w->rng = seed;
    w->n_windows = n_windows;
    rig_init(&w->rig);
    rig_open(&w->rig);
    mc.fio = w->rig.conf.fio;
    support_temp_dir(w->dir, sizeof w->dir);
    assert_ok(manifest_open(&w->m, &mc, NULL));
    assert_ok(packer_create(&w->packer));
    arena_init(&w->memory, (size_t)1 << 30);
    for (size_t i = 0; i < (n_windows + 1) * WORLD_PER_WINDOW; i++) {
        bool head = i >= n_windows * WORLD_PER_WINDOW;
        enum world_fate fate = head                           ? WORLD_SEALED
                               : lost && i % lost == lost / 2 ? WORLD_LOST
                               : late && i % late == late / 2 ? WORLD_LATE
                                                              : WORLD_SEALED;

        put_batch(w, g, i, fate, head);
    }
    fleetgen_destroy(g);
    for (size_t i = 0; i < n_windows; i++) {
        seal(w, i, WORLD_SEALED);
        seal(w, i, WORLD_LATE);
    }
    qsort(w->samples, w->n_samples, sizeof *w->samples, by_sample);
    world_look(w);
}

void world_close(struct world *w)
{
    view_close(w);
    manifest_close(w->m);
    packer_destroy(w->packer);
    arena_fini(&w->memory);
    for (size_t i = 0; i < WORLD_BATCHES_MAX; i++) {
        wire_batch_free(w->batches[i]);
    }
    mem_free(w->samples);
    rig_fini(&w->rig);
    support_remove_dir(w->dir);
}
