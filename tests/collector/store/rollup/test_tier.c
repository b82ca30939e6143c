/* Every number of every tier against what the samples say, one by one. */
#include "collector/store/rollup/tier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/rollup/tier_column.h"
#include "collector/store/rollup/tier_shape.h"
#include "collector/store/rollup/tier_value.h"
#include "common/base/mem.h"
#include "common/wire/wire_batch.h"
#include "tests/support/fleetgen.h"
#include "tests/support/t.h"

#define NS_S    INT64_C(1000000000)
#define WINDOWS 4

/* Windows of one host, each of one batch. */
struct rig {
    struct arena memory;
    size_t n;
    struct batch *batches[WINDOWS];
    struct window_part parts[WINDOWS];
    struct window_rest rests[WINDOWS];
    struct host_window windows[WINDOWS];
};

static void rig_open(struct rig *r, const struct fleetgen_conf *conf, size_t n, size_t ticks)
{
    struct fleetgen *g = fleetgen_create(conf);
    struct wire_encoder *enc;
    struct buf b;

    *r = (struct rig){.n = n};
    arena_init(&r->memory, (size_t)1 << 30);
    buf_init(&b, WIRE_BATCH_BYTES_MAX);
    assert_ok(wire_batch_encoder_create(&enc));
    for (size_t i = 0; i < n; i++) {
        buf_reset(&b);
        assert_ok(wire_batch_encode(enc, &b, fleetgen_batch(g, ticks)));
        assert_ok(wire_batch_decode(&r->batches[i], b.p, b.n));
        r->parts[i].rows = *r->batches[i];
        r->rests[i].batch = *r->batches[i];
        r->windows[i] = (struct host_window){.host = r->batches[i]->head.host,
                                             .n_parts = 1,
                                             .parts = &r->parts[i],
                                             .n_rests = 1,
                                             .rests = &r->rests[i]};
    }
    wire_batch_encoder_destroy(enc);
    buf_fini(&b);
    fleetgen_destroy(g);
}

static void rig_close(struct rig *r)
{
    for (size_t i = 0; i < r->n; i++) {
        wire_batch_free(r->batches[i]);
    }
    arena_fini(&r->memory);
}

/* -- the slow way -- */

/* One sample of one metric of one process. */
struct sample {
    const struct batch_run *run;
    int64_t wall_ns, value;
};

typedef void on_sample(void *ctx, const struct sample *s);

static void each_sample(const struct rig *r, unsigned metric, on_sample *f, void *ctx)
{
    for (size_t w = 0; w < r->n; w++) {
        const struct batch *b = r->batches[w];

        for (size_t c = 0; c < b->n_columns; c++) {
            const int64_t *v = b->columns[c].values;

            for (size_t i = 0; b->columns[c].metric == metric && i < b->n_runs; i++) {
                if (!(b->runs[i].mask & METRIC_BIT(metric))) {
                    continue;
                }
                for (uint32_t k = 0; k < b->runs[i].n_ticks; k++, v++) {
                    struct sample s = {&b->runs[i], b->wall_ns[b->runs[i].first_tick + k], *v};

                    f(ctx, &s);
                }
            }
        }
    }
}

/* What the samples say of one cell. */
struct want {
    struct proc_id id;
    int64_t begin_ns, end_ns;
    bool counter;
    bool any_before;
    int64_t before, before_ns;
    struct cell cell;
};

static void want_sample(void *ctx, const struct sample *s)
{
    struct want *w = ctx;

    if (!proc_id_eq(s->run->id, w->id) || s->wall_ns >= w->end_ns) {
        return;
    }
    if (s->wall_ns < w->begin_ns) {
        w->any_before = true;
        w->before = s->value;
        w->before_ns = s->wall_ns;
        return;
    }
    if (!w->cell.count && w->any_before && w->counter) {
        struct cell base = {0};

        cell_add(&base, true, w->before_ns, w->before);
        cell_add(&w->cell, true, s->wall_ns, s->value);
        cell_follow(&w->cell, &base);
        return;
    }
    cell_add(&w->cell, w->counter, s->wall_ns, s->value);
}

static void assert_cell(const struct cell *c, const struct cell *want)
{
    assert_int_equal(c->count, want->count);
    assert_int_equal(c->first_ns, want->first_ns);
    assert_int_equal(c->last_ns, want->last_ns);
    assert_int_equal(c->first, want->first);
    assert_int_equal(c->last, want->last);
    assert_int_equal(c->sum, want->sum);
    assert_int_equal(c->min, want->min);
    assert_int_equal(c->max, want->max);
}

/* Checks every `stride`-th exact row of one metric; gives the samples in all its cells. */
static uint64_t check_exact(const struct rig *r, const struct tier *t, unsigned metric,
                            size_t stride)
{
    const struct cell *c = t->columns[metric];
    uint64_t samples = 0;

    for (size_t i = 0; i < t->n_rows; i++) {
        const struct tier_row *row = &t->rows[i];

        if (!(row->mask & METRIC_BIT(metric))) {
            continue;
        }
        for (uint32_t k = 0; k < row->n_buckets; k++, c++) {
            const struct tier_bucket *b = &t->buckets[row->first_bucket + k];
            struct want w = {.id = row->id,
                             .begin_ns = b->begin_ns,
                             .end_ns = b->begin_ns + t->bucket_ns,
                             .counter = tier_is_counter(metric)};

            samples += c->count;
            if (row->instances || i % stride) {
                continue;
            }
            if (!t->bucket_ns) {
                w.end_ns = INT64_MAX;
            }
            each_sample(r, metric, want_sample, &w);
            assert_cell(c, &w.cell);
        }
    }
    assert_ptr_equal(c, t->columns[metric] + t->n_cells[metric]);
    return samples;
}

static void count_sample(void *ctx, const struct sample *s)
{
    (void)s;
    (*(uint64_t *)ctx)++;
}

static uint64_t count_samples(const struct rig *r, unsigned metric)
{
    uint64_t n = 0;

    each_sample(r, metric, count_sample, &n);
    return n;
}

static const uint8_t some[] = {M_CPU_TIME, M_PRIVATE_BYTES, M_THREAD_COUNT, M_READ_BYTES};

static void check(const struct rig *r, const struct tier *t, size_t stride)
{
    for (size_t i = 0; i < COUNT_OF(some); i++) {
        assert_int_equal(check_exact(r, t, some[i], stride), count_samples(r, some[i]));
    }
}

static struct fleetgen_conf conf_of(uint64_t seed, int64_t tick_ns)
{
    return (struct fleetgen_conf){.seed = seed,
                                  .processes = 20,
                                  .starts_per_hour = 1500,
                                  .tick_ns = tick_ns,
                                  .begin_ns = 1767225600 * NS_S + 137 * NS_S + 5};
}

static void tiers_equal_what_the_samples_say(void **state)
{
    static const int64_t buckets[] = {TIER_10S_NS, TIER_1MIN_NS, TIER_1H_NS, TIER_WINDOW_NS};

    for (uint64_t seed = 1; seed < 4; seed++) {
        struct fleetgen_conf conf = conf_of(seed, seed == 3 ? 10 * NS_S : NS_S);

        for (size_t i = 0; i < COUNT_OF(buckets); i++) {
            struct rig r;
            struct tier t;

            rig_open(&r, &conf, 1, seed == 3 ? 60 : 300);
            assert_ok(tier_make(&t, &r.memory, &r.windows[0], buckets[i], false, NULL));
            check(&r, &t, 3);
            rig_close(&r);
        }
    }
}

static void assert_same_tier(const struct tier *a, const struct tier *b, bool texts)
{
    assert_int_equal(a->bucket_ns, b->bucket_ns);
    assert_int_equal(a->whole, b->whole);
    assert_int_equal(a->n_parts, b->n_parts);
    assert_int_equal(a->n_buckets, b->n_buckets);
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->metrics, b->metrics);
    for (size_t i = 0; i < a->n_buckets; i++) {
        assert_memory_equal(&a->buckets[i], &b->buckets[i], sizeof a->buckets[i]);
    }
    for (size_t i = 0; i < a->n_rows; i++) {
        const struct tier_row *x = &a->rows[i], *y = &b->rows[i];

        assert_true(proc_id_eq(x->id, y->id));
        assert_int_equal(x->part, y->part);
        assert_int_equal(x->first_bucket, y->first_bucket);
        assert_int_equal(x->n_buckets, y->n_buckets);
        assert_int_equal(x->first_ns, y->first_ns);
        assert_int_equal(x->last_ns, y->last_ns);
        assert_int_equal(x->instances, y->instances);
        assert_int_equal(x->mask, y->mask);
        assert_int_equal(x->fresh, y->fresh);
        assert_int_equal(x->ended, y->ended);
        if (!x->instances) {
            assert_int_equal(x->first_count, y->first_count);
            assert_int_equal(x->last_count, y->last_count);
        }
        if (texts) {
            assert_true(str_eq(x->name, y->name));
            assert_true(str_eq(x->user, y->user));
        }
    }
}

static void a_tier_joined_from_a_finer_one_is_the_same(void **state)
{
    static const int64_t buckets[] = {TIER_1MIN_NS, TIER_1H_NS, TIER_WINDOW_NS};
    struct fleetgen_conf conf = conf_of(9, NS_S);
    struct tier fine, direct, joined;
    struct rig r;

    rig_open(&r, &conf, 1, 300);
    assert_ok(tier_make(&fine, &r.memory, &r.windows[0], TIER_10S_NS, false, NULL));
    for (size_t i = 0; i < COUNT_OF(buckets); i++) {
        assert_ok(tier_make(&direct, &r.memory, &r.windows[0], buckets[i], false, NULL));
        assert_ok(tier_join(&joined, &r.memory, &fine, 1, buckets[i], false));
        assert_same_tier(&joined, &direct, true);
        for (unsigned m = 0; m < METRIC_COLS; m++) {
            assert_int_equal(joined.n_cells[m], direct.n_cells[m]);
            for (size_t c = 0; c < joined.n_cells[m]; c++) {
                assert_cell(&joined.columns[m][c], &direct.columns[m][c]);
            }
        }
    }
    rig_close(&r);
}

static void windows_join_to_hours_without_a_seam(void **state)
{
    struct fleetgen_conf conf = conf_of(11, 5 * NS_S);
    struct tier minutes[WINDOWS], hours;
    struct rig r;

    rig_open(&r, &conf, WINDOWS, 240); /* 20 minutes each */
    for (size_t i = 0; i < WINDOWS; i++) {
        assert_ok(tier_make(&minutes[i], &r.memory, &r.windows[i], TIER_1MIN_NS, false, NULL));
    }
    assert_ok(tier_join(&hours, &r.memory, minutes, WINDOWS, TIER_1H_NS, false));
    assert_int_equal(hours.n_parts, 1);
    check(&r, &hours, 2);
    rig_close(&r);
}

/* -- names -- */

/* The only row of a window with these batches; its process runs at their first tick. */
static struct tier_row row_of(struct rig *r, struct window_rest *rests, size_t n)
{
    const struct batch_run run = {.id = {9, 1}, .n_ticks = 1, .fresh = true};
    struct window_part part = {.rows = rests[0].batch};
    struct host_window hw = {.n_parts = 1, .parts = &part, .n_rests = n, .rests = rests};
    struct tier t;

    part.rows.n_runs = 1;
    part.rows.runs = &run;
    assert_ok(tier_make(&t, &r->memory, &hw, TIER_10S_NS, false, NULL));
    assert_int_equal(t.n_rows, 1);
    return t.rows[0];
}

/* The end knows best, then the rows, then the start, whenever that is told; and what only the
 * older one says stays. */
static void a_row_has_the_name_that_its_process_had_last(void **state)
{
    const int64_t wall[] = {100 * NS_S, 110 * NS_S}, mono[] = {1, 2};
    const struct proc_id id = {9, 1};
    const struct proc_info sleeps = {.id = id, .name = str_make("sleep")};
    const struct life_event start = {
        .kind = LIFE_PROCESS_START,
        .wall_ns = 99 * NS_S,
        .info = {.id = id, .name = str_make("nice"), .user = str_make("u")}};
    const struct life_event stop = {
        .kind = LIFE_PROCESS_STOP,
        .wall_ns = 105 * NS_S,
        .info = {.id = id, .name = str_make("last"), .have = INFO_EXITED}};
    struct window_rest rests[2] = {0};
    struct tier_row row;
    struct rig r = {.n = 0};

    arena_init(&r.memory, (size_t)1 << 20);
    for (size_t i = 0; i < 2; i++) {
        rests[i].batch.n_ticks = 1;
        rests[i].batch.wall_ns = &wall[i];
        rests[i].batch.mono_ns = &mono[i];
        rests[i].batch.n_events = 1;
        rests[i].batch.events = &start;
    }
    rests[0].batch.n_infos = 1;
    rests[0].batch.infos = &sleeps;
    row = row_of(&r, rests, 1);
    assert_true(str_eq(row.name, str_make("sleep")));
    assert_true(str_eq(row.user, str_make("u")));
    row = row_of(&r, rests, 2); /* told once more, late */
    assert_true(str_eq(row.name, str_make("sleep")));
    assert_false(row.ended);
    rests[1].batch.n_infos = 1;
    rests[1].batch.infos = &sleeps;
    rests[1].batch.events = &stop;
    row = row_of(&r, rests, 2);
    assert_true(str_eq(row.name, str_make("last")));
    assert_true(str_eq(row.user, str_make("u")));
    assert_true(row.ended);
    arena_fini(&r.memory);
}

/* -- folding -- */

static const struct proc_info *info_of(const struct rig *r, struct proc_id id)
{
    const struct proc_info *found = NULL;

    for (size_t w = 0; w < r->n; w++) {
        const struct batch *b = r->batches[w];

        for (size_t i = 0; i < b->n_infos; i++) {
            found = proc_id_eq(b->infos[i].id, id) ? &b->infos[i] : found;
        }
        for (size_t i = 0; i < b->n_events; i++) {
            found = proc_id_eq(b->events[i].info.id, id) ? &b->events[i].info : found;
        }
    }
    return found;
}

static bool is_exact(const struct tier *t, struct proc_id id)
{
    for (size_t i = 0; i < t->n_rows; i++) {
        if (!t->rows[i].instances && proc_id_eq(t->rows[i].id, id)) {
            return true;
        }
    }
    return false;
}

struct fold_check {
    const struct rig *r;
    const struct tier *t;
    uint64_t samples; /* of folded instances */
    int64_t growth;
    struct proc_id id;
    int64_t last;
};

static void fold_sample(void *ctx, const struct sample *s)
{
    struct fold_check *f = ctx;

    if (is_exact(f->t, s->run->id)) {
        return;
    }
    if (!proc_id_eq(f->id, s->run->id)) {
        f->id = s->run->id;
        f->last = 0; /* began here */
    }
    f->samples++;
    f->growth += s->value - f->last;
    f->last = s->value;
}

static void folding_loses_no_sample_and_no_growth(void **state)
{
    struct fleetgen_conf conf = conf_of(21, NS_S);
    struct fold_check f = {0};
    struct cell all = {0};
    struct tier t;
    struct rig r;
    size_t at = 0;
    uint32_t folded = 0;

    rig_open(&r, &conf, 1, 300);
    assert_ok(tier_make(&t, &r.memory, &r.windows[0], TIER_1MIN_NS, true, NULL));
    f.r = &r;
    f.t = &t;
    each_sample(&r, M_CPU_TIME, fold_sample, &f);
    for (size_t i = 0; i < t.n_rows; i++) {
        const struct tier_row *row = &t.rows[i];

        if (row->instances) {
            const struct cell *c = &t.columns[M_CPU_TIME][at];

            assert_int_equal(row->n_buckets, 1);
            assert_true(row->name.n > 0);
            assert_true(c->min >= 0 && c->max <= c->sum);
            all.count += c->count;
            all.sum += c->sum;
            folded += row->instances;
        }
        at += row->mask & METRIC_BIT(M_CPU_TIME) ? row->n_buckets : 0;
    }
    assert_true(folded > 20);
    assert_int_equal(all.count, f.samples);
    assert_int_equal(all.sum, f.growth);
    assert_int_equal(check_exact(&r, &t, M_CPU_TIME, 2), count_samples(&r, M_CPU_TIME));
    rig_close(&r);
}

static void who_lived_longer_or_may_have_is_not_folded(void **state)
{
    struct fleetgen_conf conf = conf_of(22, NS_S);
    struct tier t;
    struct rig r;

    rig_open(&r, &conf, 1, 300);
    assert_ok(tier_make(&t, &r.memory, &r.windows[0], TIER_1MIN_NS, true, NULL));
    for (size_t i = 0; i < r.batches[0]->n_runs; i++) {
        const struct batch_run *run = &r.batches[0]->runs[i];
        const struct proc_info *info = info_of(&r, run->id);
        bool brief = run->n_ticks <= 60 && run->fresh && info && (info->have & INFO_EXITED);

        assert_int_equal(is_exact(&t, run->id), !brief);
    }
    rig_close(&r);
}

static void a_hole_in_the_batches_prevents_folding(void **state)
{
    struct fleetgen_conf conf = conf_of(23, NS_S);
    struct window_rest rests[2];
    struct tier t;
    struct rig r;

    rig_open(&r, &conf, 1, 300);
    rests[0] = rests[1] = r.rests[0];
    rests[1].batch.head.seq = rests[0].batch.head.seq + 2;
    r.windows[0].rests = rests;
    r.windows[0].n_rests = 2;
    assert_ok(tier_make(&t, &r.memory, &r.windows[0], TIER_1MIN_NS, true, NULL));
    assert_false(t.whole);
    for (size_t i = 0; i < t.n_rows; i++) {
        assert_int_equal(t.rows[i].instances, 0);
    }
    rig_close(&r);
}

static void late_data_stays_a_part_of_its_own(void **state)
{
    struct fleetgen_conf conf = conf_of(31, NS_S);
    struct tier tiers[3], all;
    struct rig r;
    uint64_t samples = 0;

    rig_open(&r, &conf, 3, 100);
    /* the first and the last batch are sealed together, the one between them comes late */
    for (size_t i = 0; i < 3; i++) {
        assert_ok(tier_make(&tiers[i], &r.memory, &r.windows[i], TIER_10S_NS, false, NULL));
    }
    assert_ok(
        tier_join(&all, &r.memory, (struct tier[]){tiers[0], tiers[2]}, 2, TIER_1MIN_NS, false));
    assert_int_equal(all.n_parts, 1);
    assert_ok(tier_join(&all, &r.memory, (struct tier[]){all, tiers[1]}, 2, TIER_1MIN_NS, false));
    assert_int_equal(all.n_parts, 2);
    for (size_t c = 0; c < all.n_cells[M_CPU_TIME]; c++) {
        samples += all.columns[M_CPU_TIME][c].count;
    }
    assert_int_equal(samples, count_samples(&r, M_CPU_TIME));
    rig_close(&r);
}

/* -- bytes -- */

struct bytes {
    struct buf rows, texts, columns[METRIC_COLS];
};

static void bytes_make(struct bytes *b, struct arena *memory, const struct tier *t)
{
    struct buf scratch;

    buf_init(&scratch, SEG_VALUE_MAX);
    buf_init(&b->rows, SEG_VALUE_MAX);
    buf_init(&b->texts, SEG_VALUE_MAX);
    tier_value_put_rows(&b->rows, t);
    assert_ok(b->rows.bad);
    assert_ok(tier_value_put_texts(&b->texts, memory, t));
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        buf_init(&b->columns[m], SEG_VALUE_MAX);
        if (t->metrics & METRIC_BIT(m)) {
            tier_column_put(&b->columns[m], &scratch, t, m);
            assert_ok(b->columns[m].bad);
        }
    }
    buf_fini(&scratch);
}

static void bytes_free(struct bytes *b)
{
    buf_fini(&b->rows);
    buf_fini(&b->texts);
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        buf_fini(&b->columns[m]);
    }
}

static void assert_comes_back(struct arena *memory, const struct tier *t)
{
    struct tier_row *rows;
    struct tier back;
    struct bytes b;

    bytes_make(&b, memory, t);
    assert_ok(tier_value_get_rows(&back, &rows, memory, b.rows.p, b.rows.n));
    assert_ok(tier_value_get_texts(rows, back.n_rows, memory, b.texts.p, b.texts.n));
    assert_same_tier(&back, t, true);
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        assert_int_equal(back.n_cells[m], t->n_cells[m]);
        if (!(t->metrics & METRIC_BIT(m))) {
            continue;
        }
        assert_ok(tier_column_get(&back, memory, m, b.columns[m].p, b.columns[m].n));
        for (size_t r = 0, c = 0; r < t->n_rows; r++) {
            for (uint32_t k = 0; (t->rows[r].mask & METRIC_BIT(m)) && k < t->rows[r].n_buckets;
                 k++, c++) {
                struct cell want = t->columns[m][c];

                if (t->rows[r].instances && want.count) { /* folded: stamps of the row */
                    want.first_ns = t->rows[r].first_ns;
                    want.last_ns = t->rows[r].last_ns;
                }
                assert_cell(&back.columns[m][c], &want);
            }
        }
    }
    bytes_free(&b);
}

static void what_was_written_is_read(void **state)
{
    static const int64_t buckets[] = {TIER_10S_NS, TIER_1MIN_NS, TIER_1H_NS, TIER_WINDOW_NS};

    for (uint64_t seed = 41; seed < 43; seed++) {
        struct fleetgen_conf conf = conf_of(seed, seed == 41 ? NS_S : 10 * NS_S);

        for (size_t i = 0; i < COUNT_OF(buckets); i++) {
            struct rig r;
            struct tier t;

            rig_open(&r, &conf, 1, seed == 41 ? 300 : 30);
            assert_ok(tier_make(&t, &r.memory, &r.windows[0], buckets[i], i & 1, NULL));
            assert_comes_back(&r.memory, &t);
            rig_close(&r);
        }
    }
}

/* Values that no process has. */
static void any_values_come_back(void **state)
{
    static const int64_t odd[] = {0, 1, -1, INT64_MAX, INT64_MIN, 4096, -4096, INT64_C(1) << 47};
    struct fleetgen_conf conf = conf_of(51, NS_S);

    for (unsigned round = 0; round < 6; round++) {
        struct rig r;
        struct tier t;

        rig_open(&r, &conf, 1, 100);
        for (size_t c = 0; c < r.batches[0]->n_columns; c++) {
            int64_t *v = (int64_t *)r.batches[0]->columns[c].values;

            for (size_t i = 0; i < r.batches[0]->columns[c].n_values; i++) {
                v[i] = round == 5 ? odd[(i * 2654435761u >> 7) % COUNT_OF(odd)]
                                  : odd[(i / (1u << 2 * round)) % COUNT_OF(odd)];
            }
        }
        for (int w = 0; w < 2; w++) {
            assert_ok(tier_make(&t, &r.memory, &r.windows[0], w ? 0 : TIER_10S_NS, false, NULL));
            check(&r, &t, 7);
            assert_comes_back(&r.memory, &t);
        }
        rig_close(&r);
    }
}

/* The ends of every bucket are multiples of 8, what is between them is not. */
static void what_lies_between_even_ends_comes_back(void **state)
{
    struct fleetgen_conf conf = conf_of(55, NS_S);
    struct rig r;
    struct tier t;

    rig_open(&r, &conf, 1, 100);
    for (size_t c = 0; c < r.batches[0]->n_columns; c++) {
        int64_t *v = (int64_t *)r.batches[0]->columns[c].values;

        for (size_t i = 0; i < r.batches[0]->columns[c].n_values; i++) {
            v[i] = (int64_t)i * 8 + (i % 10 == 4 ? 3 : 0);
        }
    }
    assert_ok(tier_make(&t, &r.memory, &r.windows[0], TIER_10S_NS, false, NULL));
    assert_comes_back(&r.memory, &t);
    rig_close(&r);
}

static void every_shorter_value_is_refused(void **state)
{
    struct fleetgen_conf conf = conf_of(61, NS_S);
    struct arena scratch;
    struct tier_row *rows;
    struct tier t, back;
    struct bytes b;
    struct rig r;

    conf.processes = 4;
    rig_open(&r, &conf, 1, 120);
    arena_init(&scratch, 16u << 20);
    assert_ok(tier_make(&t, &r.memory, &r.windows[0], TIER_1MIN_NS, true, NULL));
    bytes_make(&b, &r.memory, &t);
    for (size_t n = 0; n < b.rows.n; n++) {
        arena_reset(&scratch);
        assert_err(tier_value_get_rows(&back, &rows, &scratch, b.rows.p, n), ERR_CORRUPT);
    }
    assert_ok(tier_value_get_rows(&back, &rows, &r.memory, b.rows.p, b.rows.n));
    for (size_t n = 0; n < b.texts.n; n++) {
        arena_reset(&scratch);
        assert_err(tier_value_get_texts(rows, back.n_rows, &scratch, b.texts.p, n), ERR_CORRUPT);
    }
    for (size_t i = 0; i < COUNT_OF(some); i++) {
        for (size_t n = 0; n < b.columns[some[i]].n; n++) {
            arena_reset(&scratch);
            assert_err(tier_column_get(&back, &scratch, some[i], b.columns[some[i]].p, n),
                       ERR_CORRUPT);
        }
    }
    bytes_free(&b);
    arena_fini(&scratch);
    rig_close(&r);
}

static void out_of_memory_is_told(void **state)
{
    struct fleetgen_conf conf = conf_of(71, NS_S);
    struct rig r;

    rig_open(&r, &conf, 1, 120);
    for (size_t room = 0;; room = room * 2 + 4096) {
        struct arena small;
        struct tier t, joined;
        enum err e;

        arena_init(&small, room);
        e = tier_make(&t, &small, &r.windows[0], TIER_10S_NS, false, NULL);
        e = e ? e : tier_join(&joined, &small, &t, 1, TIER_1MIN_NS, true);
        arena_fini(&small);
        if (!e) {
            break;
        }
        assert_err(e, ERR_FULL);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiers_equal_what_the_samples_say),
        cmocka_unit_test(a_tier_joined_from_a_finer_one_is_the_same),
        cmocka_unit_test(windows_join_to_hours_without_a_seam),
        cmocka_unit_test(a_row_has_the_name_that_its_process_had_last),
        cmocka_unit_test(folding_loses_no_sample_and_no_growth),
        cmocka_unit_test(who_lived_longer_or_may_have_is_not_folded),
        cmocka_unit_test(a_hole_in_the_batches_prevents_folding),
        cmocka_unit_test(late_data_stays_a_part_of_its_own),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(any_values_come_back),
        cmocka_unit_test(what_lies_between_even_ends_comes_back),
        cmocka_unit_test(every_shorter_value_is_refused),
        cmocka_unit_test(out_of_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
