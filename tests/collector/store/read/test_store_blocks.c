#include "collector/store/read/store_blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/batch_time.h"
#include "collector/store/meta/meta.h"
#include "collector/store/read/store_view.h"
#include "collector/store/segment/raw.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/mem.h"
#include "tests/collector/store/segment/window_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define SECOND_NS INT64_C(1000000000)
#define BATCHES   48
#define MEMORY    (64u << 20)
#define HOST      0

/* A store whose head has some of the batches, and segments that have the others. */
struct fixture {
    struct rig store;
    char dir[256];
    struct manifest *manifest;
    struct manifest_list *list;
    struct window_rig made; /* all batches, by time */
    struct rig_batch bytes[BATCHES];
    int64_t t0_ns;
    struct store_view *view;
    struct manifest_list *own; /* the view's */
};

static void write_rest(struct fixture *f, struct seg_info *info, const struct host_window *hw)
{
    struct errmsg why = {""};
    struct meta_written *written;
    struct seg_writer *w;
    struct packer *p;
    uint64_t events = 0;
    uint32_t host;

    assert_ok(packer_create(&p));
    assert_ok(meta_written_create(&written));
    meta_written_begin(written, info->window_ns);
    assert_ok(seg_writer_create(&w, fio_unsynced(), f->dir, info, &info->window_ns, &why));
    assert_ok(seg_writer_host(w, &host, &hw->host, hw->name, 0,
                              hw->rests[0].batch.wall_ns[0] - 60 * SECOND_NS,
                              hw->rests[hw->n_rests - 1].batch.wall_ns[0] + 60 * SECOND_NS));
    assert_ok(meta_value_write(w, p, host, 0, hw, written, &events));
    assert_ok(seg_writer_finish(w, events, info, &why));
    meta_written_destroy(written);
    packer_destroy(p);
}

static void write_raw(struct fixture *f, struct seg_info *info, const struct host_window *hw)
{
    struct errmsg why = {""};
    struct seg_writer *w;
    struct packer *p;
    uint64_t values = 0;
    uint32_t host = 0;

    assert_ok(packer_create(&p));
    assert_ok(seg_writer_create(&w, fio_unsynced(), f->dir, info, &info->window_ns, &why));
    for (size_t i = 0; i < hw->n_parts; i++) {
        const struct batch *b = &hw->parts[i].rows;

        assert_ok(seg_writer_host(w, &host, &hw->host, hw->name, 0, b->wall_ns[0],
                                  b->wall_ns[b->n_ticks - 1]));
    }
    assert_ok(raw_value_write(w, p, host, 0, hw, &values));
    assert_true(values > 0);
    assert_ok(seg_writer_finish(w, values, info, &why));
    packer_destroy(p);
}

/* Two segments of one window: rests and rows of these batches. */
static void seal(struct fixture *f, int64_t window_ns, const struct window_batch *in, size_t n,
                 bool patch)
{
    struct seg_info info[2] = {{.kind = SEG_REST}, {.kind = SEG_RAW}};
    struct errmsg why = {""};
    struct host_window hw;
    struct arena memory;

    if (n == 0) {
        return;
    }
    arena_init(&memory, MEMORY);
    assert_ok(window_join(&hw, &memory, in, n, fleetgen_host_name(f->made.g)));
    for (size_t i = 0; i < 2; i++) {
        info[i].number = manifest_number(f->manifest);
        info[i].n_windows = 1;
        info[i].patch = patch;
        info[i].window_ns = window_ns;
        info[i].span_ns = WINDOW_NS;
    }
    write_rest(f, &info[0], &hw);
    write_raw(f, &info[1], &hw);
    assert_ok(manifest_change(f->manifest, info, 2, NULL, 0, &why));
    manifest_publish(f->manifest);
    arena_fini(&memory);
}

/* Of one window's batches: some sealed, some sealed as a patch, some still in the head. */
static void seal_window(struct fixture *f, size_t begin, size_t end, uint64_t *seed)
{
    struct window_batch in[2][BATCHES];
    size_t n[2] = {0};

    for (size_t i = begin; i < end; i++) {
        unsigned where = (unsigned)((*seed = *seed * 6364136223846793005u + 1) >> 60) % 5;

        if (where == 4 || i + 1 == BATCHES) {
            assert_ok(rig_put(&f->store, &f->bytes[i]));
        } else {
            in[where == 3][n[where == 3]++] = f->made.in[i];
        }
    }
    seal(f, window_of(f->made.batches[begin]->wall_ns[0]), in[0], n[0], false);
    seal(f, window_of(f->made.batches[begin]->wall_ns[0]), in[1], n[1], true);
}

static void fixture_init(struct fixture *f, uint64_t seed)
{
    struct manifest_conf conf = {.dir = f->dir, .fio = fio_unsynced()};
    struct errmsg why = {""};
    size_t begin = 0;

    memset(f, 0, sizeof *f);
    rig_init(&f->store);
    rig_open(&f->store);
    support_temp_dir(f->dir, sizeof f->dir);
    assert_ok(manifest_open(&f->manifest, &conf, &why));
    window_rig_init(&f->made, seed);
    for (size_t i = 0; i < BATCHES; i++) {
        const struct batch *b;

        rig_batch(&f->bytes[i], f->made.g, 20);
        assert_ok(wire_batch_decode(&f->made.batches[i], f->bytes[i].bytes, f->bytes[i].n));
        b = f->made.batches[i];
        f->made.in[i] = (struct window_batch){.batch = b, .received_ns = f->bytes[i].received_ns};
        f->made.n++;
    }
    f->t0_ns = f->made.batches[0]->wall_ns[0];
    for (size_t i = 1; i <= BATCHES; i++) {
        if (i == BATCHES || window_of(f->made.batches[i]->wall_ns[19]) !=
                                window_of(f->made.batches[begin]->wall_ns[19])) {
            seal_window(f, begin, i, &seed);
            begin = i;
        }
    }
    f->list = manifest_view(f->manifest);
    assert_ok(store_view_open(&f->view, f->store.store));
    f->own = f->view->segments;
    f->view->segments = f->list;
}

static void fixture_fini(struct fixture *f)
{
    f->view->segments = f->own;
    store_view_close(f->view);
    manifest_list_release(f->list);
    manifest_close(f->manifest);
    for (size_t i = 0; i < BATCHES; i++) {
        rig_batch_fini(&f->bytes[i]);
    }
    window_rig_fini(&f->made);
    rig_fini(&f->store);
    support_remove_dir(f->dir);
}

/* What came of a scan. */
struct taken {
    struct samples samples;
    unsigned keys[BATCHES + 1]; /* by seq: how often */
    size_t blocks, rows;
    int64_t window_ns;
    enum err stop;
};

static enum err take(void *ctx, const struct store_block *b)
{
    struct taken *t = ctx;
    int64_t window_ns = window_of(b->batch->wall_ns[b->batch->n_ticks - 1]);

    assert_true(b->batch->n_ticks > 0);
    assert_true(t->blocks == 0 || window_ns >= t->window_ns);
    t->window_ns = window_ns;
    t->blocks++;
    if (b->part == STORE_ROWS) {
        assert_int_equal(b->batch->head.seq, 0);
        assert_int_equal(b->batch->n_infos + b->batch->n_events + b->batch->n_ledger, 0);
        rows_sound(b->batch);
        t->rows++;
    } else {
        assert_in_range(b->batch->head.seq, 1, BATCHES);
        t->keys[b->batch->head.seq]++;
        assert_true(b->part == STORE_WHOLE || b->batch->n_runs == 0);
    }
    samples_add(&t->samples, b->batch);
    return t->stop;
}

static void clip(struct samples *s, const struct store_range *range)
{
    size_t n = 0;

    samples_keep(s, range->metrics, range->has_pid, range->pid);
    for (size_t i = 0; i < s->n; i++) {
        if (s->p[i].wall_ns >= range->since_ns && s->p[i].wall_ns < range->until_ns) {
            s->p[n++] = s->p[i];
        }
    }
    s->n = n;
}

static void agrees(struct fixture *f, const struct store_range *range)
{
    struct taken t = {.stop = ERR_OK};
    struct samples all;

    assert_ok(store_blocks_scan(f->view, HOST, range, take, &t));
    for (size_t i = 0; i < BATCHES && !range->no_rests; i++) {
        const struct batch *b = f->made.batches[i];
        int64_t t0_ns, t1_ns;

        batch_time_span(b, 0, &t0_ns, &t1_ns);
        assert_int_equal(t.keys[i + 1], t0_ns < range->until_ns && t1_ns >= range->since_ns);
    }
    samples_of_batches(&all, f->made.in, BATCHES);
    clip(&all, range);
    clip(&t.samples, range);
    samples_same(&all, &t.samples);
}

static metric_mask some_metrics(const struct fixture *f, uint64_t random)
{
    const struct batch *b = f->made.batches[0];
    metric_mask metrics = METRIC_BIT(b->columns[0].metric);

    for (size_t i = 0; i < b->n_columns; i++) {
        metrics |= random >> i & 1 ? METRIC_BIT(b->columns[i].metric) : 0;
    }
    return metrics;
}

static void any_range_gives_every_sample_and_batch_once(void **state)
{
    for (uint64_t seed = 1; seed < 4; seed++) {
        uint64_t x = seed;
        struct fixture f;

        fixture_init(&f, seed);
        for (unsigned i = 0; i < 16; i++) {
            struct store_range range = {.made_since_ns = INT64_MIN};

            x = x * 6364136223846793005u + 1442695040888963407u;
            range.since_ns = f.t0_ns + (int64_t)(x >> 33) % 1000 * SECOND_NS;
            range.until_ns = range.since_ns + (int64_t)(x >> 20) % 700 * SECOND_NS;
            range.metrics = some_metrics(&f, x >> 50);
            range.no_rests = i % 4 == 3;
            range.has_pid = i % 3 == 1;
            range.pid = f.made.batches[0]->runs[i % f.made.batches[0]->n_runs].id.pid;
            agrees(&f, &range);
        }
        agrees(&f, &(struct store_range){.since_ns = INT64_MIN,
                                         .until_ns = INT64_MAX,
                                         .made_since_ns = INT64_MIN,
                                         .metrics = METRIC_ALL});
        fixture_fini(&f);
    }
}

static void without_metrics_sealed_rows_stay_unread(void **state)
{
    struct store_used used = {0};
    struct store_range range = {
        .since_ns = INT64_MIN, .until_ns = INT64_MAX, .made_since_ns = INT64_MIN, .used = &used};
    struct taken t = {.stop = ERR_OK};
    struct fixture f;

    fixture_init(&f, 7);
    assert_ok(store_blocks_scan(f.view, HOST, &range, take, &t));
    assert_int_equal(t.blocks, BATCHES);
    assert_int_equal(t.rows, 0);
    assert_int_equal(used.windows[STORE_RAW], 0);
    assert_true(used.windows[STORE_HEAD] > 0);
    free(t.samples.p);
    memset(&t, 0, sizeof t);
    range.metrics = METRIC_ALL;
    range.no_rests = true;
    assert_ok(store_blocks_scan(f.view, HOST, &range, take, &t));
    assert_true(t.rows >= 4);
    assert_true(used.windows[STORE_RAW] >= 4);
    assert_int_equal(used.damaged, 0);
    free(t.samples.p);
    fixture_fini(&f);
}

static void what_was_made_before_is_left_out(void **state)
{
    struct store_range range = {.since_ns = INT64_MIN, .until_ns = INT64_MAX};
    struct fixture f;

    fixture_init(&f, 9);
    for (size_t k = 0; k < BATCHES; k += 5) {
        struct taken t = {.stop = ERR_OK};

        range.made_since_ns = f.made.batches[k]->wall_ns[19];
        assert_ok(store_blocks_scan(f.view, HOST, &range, take, &t));
        for (size_t i = 0; i < BATCHES; i++) {
            assert_int_equal(t.keys[i + 1], i >= k);
        }
        free(t.samples.p);
    }
    fixture_fini(&f);
}

static void the_reader_ends_the_scan(void **state)
{
    struct store_range range = {
        .since_ns = INT64_MIN, .until_ns = INT64_MAX, .made_since_ns = INT64_MIN};
    struct taken t = {.stop = ERR_END};
    struct fixture f;

    fixture_init(&f, 11);
    assert_err(store_blocks_scan(f.view, HOST, &range, take, &t), ERR_END);
    assert_int_equal(t.blocks, 1);
    free(t.samples.p);
    fixture_fini(&f);
}

/* Changes a byte in the middle of the oldest raw segment: its window's rows are missing, and that
 * is told; all others are there. */
static void a_damaged_window_is_counted_and_left_out(void **state)
{
    struct store_used used = {0};
    struct store_range range = {.since_ns = INT64_MIN,
                                .until_ns = INT64_MAX,
                                .made_since_ns = INT64_MIN,
                                .metrics = METRIC_ALL,
                                .used = &used};
    struct taken whole = {.stop = ERR_OK}, t = {.stop = ERR_OK};
    char name[SEG_NAME_MAX], path[sizeof((struct fixture *)0)->dir + SEG_NAME_MAX + 1];
    const struct seg_info *info;
    struct fixture f;
    FILE *file;
    int byte;

    fixture_init(&f, 13);
    assert_ok(store_blocks_scan(f.view, HOST, &range, take, &whole));
    info = manifest_segment(f.list, manifest_lower(f.list, SEG_RAW, INT64_MIN));
    seg_name(name, info);
    snprintf(path, sizeof path, "%s/%s", f.dir, name);
    file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 300, SEEK_SET), 0);
    byte = fgetc(file);
    assert_int_equal(fseek(file, 300, SEEK_SET), 0);
    fputc(byte ^ 4, file);
    fclose(file);
    assert_ok(store_blocks_scan(f.view, HOST, &range, take, &t));
    assert_int_equal(used.damaged, 1);
    assert_true(used.holes.n == 1);
    assert_int_equal(t.rows + 1, whole.rows);
    for (size_t i = 1; i <= BATCHES; i++) {
        assert_int_equal(t.keys[i], 1);
    }
    free(whole.samples.p);
    free(t.samples.p);
    fixture_fini(&f);
}

/* A window's segments together are too much, each alone is not. */
static void a_window_that_is_too_large_comes_in_pieces(void **state)
{
    const struct store_range range = {.since_ns = INT64_MIN,
                                      .until_ns = INT64_MAX,
                                      .made_since_ns = INT64_MIN,
                                      .metrics = METRIC_ALL};
    struct fixture f;
    size_t enough = 0;

    fixture_init(&f, 19);
    for (size_t bytes = 8192; bytes < 4u << 20; bytes += bytes / 3) {
        struct taken t = {.stop = ERR_OK};
        enum err e = store_blocks_scan_within(f.view, HOST, &range, bytes, take, &t);

        assert_true(e == ERR_OK || (e == ERR_FULL && !enough));
        if (!e) {
            struct samples all;

            enough++;
            samples_of_batches(&all, f.made.in, BATCHES);
            samples_same(&all, &t.samples);
        } else {
            free(t.samples.p);
        }
    }
    assert_true(enough > 3);
    fixture_fini(&f);
}

/* Where only a tier is left there are no rows, and that is told. */
static void rows_that_are_gone_are_told(void **state)
{
    struct seg_info info = {.kind = SEG_1MIN, .n_windows = 1, .span_ns = WINDOW_NS};
    struct store_gone gone;
    struct errmsg why = {""};
    struct seg_writer *w;
    struct fixture f;
    uint32_t host;

    fixture_init(&f, 17);
    assert_ok(store_cells_gone(f.view, HOST, INT64_MIN, INT64_MAX, &gone));
    assert_true(gone.since_ns == gone.until_ns);
    info.number = manifest_number(f.manifest);
    info.window_ns = window_of(f.t0_ns) - 4 * WINDOW_NS;
    assert_ok(seg_writer_create(&w, fio_unsynced(), f.dir, &info, &info.window_ns, &why));
    assert_ok(seg_writer_host(w, &host, &f.made.batches[0]->head.host, "gen", 0, info.window_ns + 7,
                              info.window_ns + 8));
    assert_ok(seg_writer_finish(w, 1, &info, &why));
    assert_ok(manifest_change(f.manifest, &info, 1, NULL, 0, &why));
    manifest_publish(f.manifest);
    manifest_list_release(f.list);
    f.view->segments = f.list = manifest_view(f.manifest);
    assert_ok(store_cells_gone(f.view, HOST, INT64_MIN, INT64_MAX, &gone));
    assert_true(gone.since_ns == info.window_ns + 7);
    assert_true(gone.until_ns == info.window_ns + 9);
    assert_ok(store_cells_gone(f.view, HOST, gone.until_ns, INT64_MAX, &gone));
    assert_true(gone.since_ns == gone.until_ns);
    fixture_fini(&f);
}

static void running_out_of_memory_is_survived(void **state)
{
    struct store_range range = {.since_ns = INT64_MIN,
                                .until_ns = INT64_MAX,
                                .made_since_ns = INT64_MIN,
                                .metrics = METRIC_ALL};
    struct fixture f;
    long n = 0;
    enum err e;

    fixture_init(&f, 15);
    do {
        struct taken t = {.stop = ERR_OK};

        mem_fail_after(n++);
        e = store_blocks_scan(f.view, HOST, &range, take, &t);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        free(t.samples.p);
    } while (e);
    assert_true(n > 20);
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_range_gives_every_sample_and_batch_once),
        cmocka_unit_test(without_metrics_sealed_rows_stay_unread),
        cmocka_unit_test(what_was_made_before_is_left_out),
        cmocka_unit_test(the_reader_ends_the_scan),
        cmocka_unit_test(a_damaged_window_is_counted_and_left_out),
        cmocka_unit_test(a_window_that_is_too_large_comes_in_pieces),
        cmocka_unit_test(rows_that_are_gone_are_told),
        cmocka_unit_test(running_out_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
