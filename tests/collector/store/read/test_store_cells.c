/* Cells over head, sealed windows, patches and tiers against a plain scan over all samples. */
#include "collector/store/read/store_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/read/store_windows.h"
#include "collector/store/rollup/tier.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/deadline.h"
#include "tests/collector/store/read/world.h"
#include "tests/support/t.h"

#define BEFORE_NS (60 * CLK_S)
#define METRICS                                                                         \
    (METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_CONTEXT_SWITCHES) | METRIC_BIT(M_PRIORITY) | \
     METRIC_BIT(M_WORKING_SET_SIZE))

/* -- what came -- */

struct got {
    unsigned metric;
    struct proc_id id;
    bool before, fresh;
    uint32_t instances;
    int64_t step;
    size_t order;
    struct cell cell;
};

struct answer {
    int64_t step_ns;
    struct got *list;
    size_t n, cap;
    struct store_ticks ticks;
    struct store_used used;
};

static enum err take(void *ctx, const struct store_cell_row *row)
{
    struct answer *a = ctx;
    size_t i = 0;

    assert_true(row->begin_ns < row->end_ns);
    for (struct metric_mask_walk each = metric_mask_walk(row->mask); metric_mask_walk_next(&each);
         i++) {
        int64_t step = a->step_ns ? row->begin_ns / a->step_ns : 0;

        if (a->n == a->cap) {
            a->cap = a->cap ? a->cap * 2 : 256;
            a->list = mem_realloc_array(a->list, a->cap, sizeof *a->list);
            assert_non_null(a->list);
        }
        if (a->step_ns && !row->before) {
            assert_int_equal((row->end_ns - 1) / a->step_ns, step);
        }
        a->list[a->n] = (struct got){each.id,    row->id,        row->before,
                                     row->fresh, row->instances, row->before ? INT64_MIN : step,
                                     a->n,       row->cells[i]};
        a->n++;
    }
    return ERR_OK;
}

static int by_got(const void *a, const void *b)
{
    const struct got *x = a, *y = b;

    if (x->metric != y->metric) {
        return x->metric < y->metric ? -1 : 1;
    }
    if (x->id.pid != y->id.pid) {
        return x->id.pid < y->id.pid ? -1 : 1;
    }
    if (x->id.start != y->id.start) {
        return x->id.start < y->id.start ? -1 : 1;
    }
    if (x->step != y->step) {
        return x->step < y->step ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

static bool same_cell(const struct got *x, const struct got *y)
{
    return x->metric == y->metric && proc_id_eq(x->id, y->id) && x->step == y->step;
}

static bool is_counter(unsigned metric)
{
    return metric_by_id(metric)->kind == METRIC_COUNTER;
}

/* Asks, and joins what belongs together. */
static void ask_for(struct world *w, struct answer *a, struct store_cells ask)
{
    size_t n = 0;

    *a = (struct answer){.step_ns = ask.step_ns};
    ask.used = &a->used;
    assert_ok(store_cells_scan(w->view, 0, &ask, take, a, &a->ticks));
    if (a->n) {
        qsort(a->list, a->n, sizeof *a->list, by_got);
    }
    for (size_t i = 0; i < a->n; i++) {
        if (n && same_cell(&a->list[n - 1], &a->list[i]) && !a->list[i].instances) {
            cell_join(&a->list[n - 1].cell, is_counter(a->list[i].metric), &a->list[i].cell);
            a->list[n - 1].fresh |= a->list[i].fresh;
        } else {
            a->list[n++] = a->list[i];
        }
    }
    a->n = n;
}

/* -- the plain scan -- */

static void assert_counter(const struct cell *c, const struct world_sample *s, size_t n,
                           const struct world_sample *base, bool extremes)
{
    int64_t lo = INT64_MAX, hi = INT64_MIN;

    for (size_t i = base ? 0 : 1; i < n; i++) {
        int64_t d = s[i].value - (i ? s[i - 1].value : base->value);

        lo = d < lo ? d : lo;
        hi = d > hi ? d : hi;
    }
    assert_int_equal(c->last - c->first, s[n - 1].value - (base ? base->value : s[0].value));
    assert_int_equal(cell_grew(c), lo <= hi);
    if (extremes && lo <= hi) {
        assert_int_equal(c->min, lo);
        assert_int_equal(c->max, hi);
    }
}

static void assert_gauge(const struct cell *c, const struct world_sample *s, size_t n)
{
    int64_t sum = 0, lo = s[0].value, hi = lo;

    for (size_t i = 0; i < n; i++) {
        sum += s[i].value;
        lo = s[i].value < lo ? s[i].value : lo;
        hi = s[i].value > hi ? s[i].value : hi;
    }
    assert_int_equal(c->sum, sum);
    assert_int_equal(c->min, lo);
    assert_int_equal(c->max, hi);
}

/* The samples s[0..n) of one process, metric and step; those of `base` came before. */
static void assert_cell(const struct got *g, const struct world_sample *s, size_t n,
                        const struct world_sample *base, const struct cell *base_got, bool extremes)
{
    struct cell c = g->cell;

    assert_int_equal(c.count, n);
    assert_int_equal(c.last, s[n - 1].value);
    assert_int_equal(c.last_ns, s[n - 1].wall_ns);
    if (!is_counter(g->metric)) {
        assert_int_equal(c.first_ns, s[0].wall_ns);
        assert_gauge(&c, s, n);
        return;
    }
    if (base_got) {
        cell_follow(&c, base_got);
    }
    assert_counter(&c, s, n, base, extremes);
}

/* The ticks of the range, by the samples of a process that never ends: the generator has one. */
static void assert_ticks(const struct world *w, const struct store_ticks *t,
                         const struct store_cells *ask)
{
    uint64_t n = 0;
    int64_t span = 0, before = INT64_MIN;

    for (size_t i = 0; i < (w->n_windows + 1) * WORLD_PER_WINDOW; i++) {
        const struct batch *b = w->batches[i];

        for (size_t k = 0; w->fates[i] != WORLD_LOST && k < b->n_ticks; k++) {
            if (b->wall_ns[k] >= ask->since_ns && b->wall_ns[k] < ask->until_ns) {
                n++;
                span += before == INT64_MIN ? 0 : b->mono_ns[k] - before;
            }
            before = b->wall_ns[k] >= ask->since_ns - ask->before_ns ? b->mono_ns[k] : before;
        }
    }
    assert_int_equal(t->ticks, n);
    assert_int_equal(t->span_mono_ns, span);
}

static void check(struct world *w, const struct store_cells *ask, bool extremes)
{
    const struct world_sample *s = w->samples, *end = s + w->n_samples, *base = NULL;
    const struct cell *base_got = NULL;
    struct answer a;
    size_t at = 0;

    ask_for(w, &a, *ask);
    assert_ticks(w, &a.ticks, ask);
    while (s < end) {
        size_t n = 1;

        if (base && !world_same_series(base, s)) {
            base = NULL;
            base_got = NULL;
        }
        if (!(ask->metrics & METRIC_BIT(s->metric)) || s->wall_ns >= ask->until_ns ||
            s->wall_ns < ask->since_ns) {
            bool near = s->wall_ns < ask->since_ns && s->wall_ns >= ask->since_ns - ask->before_ns;

            base = near ? s : base;
            s++;
            continue;
        }
        while (s + n < end && world_same_series(s, s + n) && s[n].wall_ns < ask->until_ns &&
               (!ask->step_ns || s[n].wall_ns / ask->step_ns == s->wall_ns / ask->step_ns)) {
            n++;
        }
        for (; at < a.n && a.list[at].before; at++) {
            bool own = a.list[at].metric == s->metric && proc_id_eq(a.list[at].id, s->id);

            base_got = own ? &a.list[at].cell : base_got;
        }
        assert_true(at < a.n);
        assert_int_equal(a.list[at].metric, s->metric);
        assert_true(proc_id_eq(a.list[at].id, s->id));
        assert_cell(&a.list[at], s, n, base, base_got, extremes);
        base = s + n - 1;
        base_got = &a.list[at++].cell;
        s += n;
    }
    for (; at < a.n; at++) {
        assert_true(a.list[at].before);
    }
    mem_free(a.list);
}

static int64_t some_time(struct world *w, int64_t unit_ns)
{
    int64_t span = (int64_t)(w->n_windows + 1) * WINDOW_NS;
    int64_t when = RIG_T0 + (int64_t)(world_next(w) % (uint64_t)(span / CLK_MS)) * CLK_MS;

    return when - when % unit_ns;
}

static struct store_cells some_ask(struct world *w, int64_t unit_ns)
{
    struct store_cells ask = {.before_ns = BEFORE_NS, .metrics = METRICS};
    int64_t a = some_time(w, unit_ns), b = some_time(w, unit_ns);

    ask.since_ns = a < b ? a : b;
    ask.until_ns = (a < b ? b : a) + unit_ns;
    return ask;
}

/* -- tests -- */

static void any_range_equals_a_plain_scan(void **state)
{
    for (uint64_t seed = 1; seed < 4; seed++) {
        struct world *w = mem_alloc(sizeof *w);

        assert_non_null(w);
        world_open(w, seed, 3, seed == 2 ? 7 : 0, seed == 3 ? 5 : 0);
        for (unsigned i = 0; i < 12; i++) {
            struct store_cells ask = some_ask(w, i % 2 ? 10 * CLK_S : 1);

            check(w, &ask, seed != 3);
        }
        world_close(w);
        mem_free(w);
    }
}

static void steps_are_never_crossed(void **state)
{
    static const int64_t steps[] = {CLK_S, 7 * CLK_S, 10 * CLK_S, 60 * CLK_S, 900 * CLK_S};
    struct world *w = mem_alloc(sizeof *w);

    assert_non_null(w);
    world_open(w, 5, 2, 0, 0);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        struct store_cells ask = some_ask(w, i % 2 ? 1 : 10 * CLK_S);

        ask.step_ns = steps[i];
        check(w, &ask, true);
    }
    world_close(w);
    mem_free(w);
}

static void where_rows_are_gone_ten_seconds_are_exact(void **state)
{
    struct world *w = mem_alloc(sizeof *w);

    assert_non_null(w);
    world_open(w, 6, 3, 11, 0);
    world_drop(w, SEG_RAW, 2);
    world_look(w);
    for (unsigned i = 0; i < 6; i++) {
        struct store_cells ask = some_ask(w, 10 * CLK_S);

        ask.step_ns = i % 2 ? 30 * CLK_S : 0;
        check(w, &ask, true);
    }
    world_close(w);
    mem_free(w);
}

static void the_cheapest_exact_form_is_taken(void **state)
{
    const struct store_cells all = {
        .since_ns = RIG_T0 - 1, .until_ns = RIG_T0 + 5 * WINDOW_NS, .metrics = METRICS};
    struct store_cells ask = all;
    struct world *w = mem_alloc(sizeof *w);
    struct answer a;

    assert_non_null(w);
    world_open(w, 8, 3, 0, 0);
    ask_for(w, &a, ask);
    assert_int_equal(a.used.windows[STORE_SUMMARY], 3);
    assert_int_equal(a.used.windows[STORE_HEAD], 1);
    assert_int_equal(a.used.windows[STORE_RAW] + a.used.windows[STORE_10S], 0);
    assert_int_equal(a.used.coarse_from_ns, 0);
    mem_free(a.list);
    ask.since_ns = RIG_T0 + 20 * CLK_S; /* cuts the first window between two buckets */
    ask_for(w, &a, ask);
    assert_int_equal(a.used.windows[STORE_SUMMARY], 2);
    assert_int_equal(a.used.windows[STORE_10S], 1);
    mem_free(a.list);
    ask.since_ns = RIG_T0 + 21 * CLK_S;
    ask_for(w, &a, ask);
    assert_int_equal(a.used.windows[STORE_RAW], 1);
    mem_free(a.list);
    world_drop(w, SEG_RAW, 1);
    world_drop(w, SEG_10S, 1);
    world_look(w);
    ask_for(w, &a, all);
    assert_int_equal(a.used.windows[STORE_1MIN], 1);
    assert_true(a.used.coarse_from_ns >= RIG_T0);
    assert_int_equal(a.used.coarse_bucket_ns, TIER_1MIN_NS);
    assert_int_equal(a.used.folded, 1);
    mem_free(a.list);
    world_close(w);
    mem_free(w);
}

static int64_t window_begin(const struct world *w, size_t window)
{
    return w->batches[window * WORLD_PER_WINDOW]->wall_ns[0];
}

/* Whatever the hour's tier reaches over. */
static void rows_are_gone_where_none_is_held(void **state)
{
    static const struct {
        size_t raw, ten, minutes; /* dropped before this window */
        size_t since, gone;       /* asked from this window on: gone before this one */
    } cases[] = {
        {0, 0, 0, 0, 0}, {4, 0, 0, 0, 4}, {4, 0, 0, 2, 4}, {4, 0, 0, 4, 0},
        {4, 4, 0, 0, 4}, {4, 4, 0, 7, 0}, {9, 4, 0, 0, 9}, {12, 12, 12, 0, 12},
    };
    struct world *w = mem_alloc(sizeof *w);

    assert_non_null(w);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct store_gone gone;
        int64_t since, until;

        world_open(w, 12, 12, 0, 0);
        world_seal_hour(w);
        world_mark_in_hour(w);
        world_drop(w, SEG_RAW, cases[i].raw);
        world_drop(w, SEG_10S, cases[i].ten);
        world_drop(w, SEG_1MIN, cases[i].minutes);
        world_look(w);
        since = window_begin(w, cases[i].since);
        until = window_begin(w, 12) + WINDOW_NS;
        assert_ok(store_cells_gone(w->view, 0, since, until, &gone));
        if (cases[i].gone) {
            assert_true(gone.since_ns == since);
            assert_true(gone.until_ns > window_begin(w, cases[i].gone) - 2 * CLK_S &&
                        gone.until_ns <= window_begin(w, cases[i].gone));
            assert_ok(store_cells_gone(w->view, 0, gone.until_ns, until, &gone));
        }
        assert_true(gone.since_ns == until && gone.until_ns == until);
        world_close(w);
    }
    mem_free(w);
}

/* Damages the rows of the oldest window. */
static void spoil_rows(struct world *w)
{
    struct manifest_list *l = manifest_view(w->m);
    const struct seg_info *info = manifest_segment(l, manifest_lower(l, SEG_RAW, INT64_MIN));
    char path[512], name[SEG_NAME_MAX];
    FILE *f;

    seg_name(name, info);
    snprintf(path, sizeof path, "%s/%s", w->dir, name);
    f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 400, SEEK_SET), 0);
    for (unsigned i = 0; i < 400; i++) {
        assert_int_equal(fputc(0x55, f), 0x55);
    }
    assert_int_equal(fclose(f), 0);
    manifest_list_release(l);
}

/* A tier whose buckets are cut would put growth where it was not. */
static void damaged_rows_are_replaced_by_a_tier_that_says_the_same(void **state)
{
    struct store_cells ask = {.since_ns = RIG_T0 + 20 * CLK_S,
                              .until_ns = RIG_T0 + 5 * WINDOW_NS,
                              .before_ns = BEFORE_NS,
                              .metrics = METRICS};
    struct world *w = mem_alloc(sizeof *w);
    struct store_stats stats;
    struct answer a;

    assert_non_null(w);
    world_open(w, 14, 2, 0, 0);
    spoil_rows(w);
    check(w, &ask, true);
    ask_for(w, &a, ask);
    assert_int_equal(a.used.windows[STORE_RAW], 0);
    assert_int_equal(a.used.windows[STORE_10S], 1);
    assert_int_equal(a.used.windows[STORE_SUMMARY], 1);
    assert_int_equal(a.used.damaged, 0);
    mem_free(a.list);
    ask.since_ns += CLK_S; /* cuts a bucket */
    ask_for(w, &a, ask);
    assert_int_equal(a.used.windows[STORE_RAW] + a.used.windows[STORE_10S], 0);
    assert_int_equal(a.used.windows[STORE_SUMMARY], 1);
    assert_int_equal(a.used.damaged, 1);
    mem_free(a.list);
    store_stats(w->rig.store, &stats);
    assert_true(stats.unread_values > 0);
    world_close(w);
    mem_free(w);
}

/* Flips one bit of it, or with the same place again flips it back. */
static void flip(struct world *w, unsigned kind, uint64_t at)
{
    struct manifest_list *l = manifest_view(w->m);
    const struct seg_info *info = manifest_segment(l, manifest_lower(l, kind, INT64_MIN));
    char path[512], name[SEG_NAME_MAX];
    int c;
    FILE *f;

    seg_name(name, info);
    snprintf(path, sizeof path, "%s/%s", w->dir, name);
    f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)(at / 8 % info->bytes), SEEK_SET), 0);
    c = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
    assert_true(fputc(c ^ 1 << at % 8, f) != EOF);
    assert_int_equal(fclose(f), 0);
    manifest_list_release(l);
}

/* Whether every cell of `some` is one of `all`. */
static void assert_among(const struct answer *some, const struct answer *all)
{
    size_t k = 0;

    for (size_t i = 0; i < some->n; i++) {
        const struct got *x = &some->list[i];

        while (k < all->n && by_got(&all->list[k], x) < 0 && !same_cell(&all->list[k], x)) {
            k++;
        }
        assert_true(k < all->n && same_cell(&all->list[k], x));
        assert_int_equal(x->cell.count, all->list[k].cell.count);
        assert_int_equal(x->cell.last, all->list[k].cell.last);
        assert_int_equal(x->cell.min, all->list[k].cell.min);
        assert_int_equal(x->cell.max, all->list[k].cell.max);
    }
}

/* A new manifest each time: nothing is left in memory of what was read before. */
static void one_flipped_bit_of_the_finest_tier_changes_no_cell(void **state)
{
    static const struct {
        unsigned kind;
        int64_t step_ns;
    } tiers[] = {{SEG_10S, TIER_10S_NS}, {SEG_1MIN, TIER_1MIN_NS}};
    struct store_cells ask = {
        .since_ns = RIG_T0, .until_ns = RIG_T0 + 3 * WINDOW_NS, .metrics = METRICS};
    struct world *w = mem_alloc(sizeof *w);

    assert_non_null(w);
    world_open(w, 15, 3, 0, 0);
    world_drop(w, SEG_RAW, 3);
    for (size_t k = 0; k < COUNT_OF(tiers); k++) {
        struct answer whole, a;
        unsigned marked = 0;

        ask.step_ns = tiers[k].step_ns;
        world_look(w);
        ask_for(w, &whole, ask);
        assert_int_equal(whole.used.damaged, 0);
        for (unsigned i = 0; i < 60; i++) {
            uint64_t at = world_next(w);

            flip(w, tiers[k].kind, at);
            world_reopen(w);
            ask_for(w, &a, ask);
            assert_among(&a, &whole);
            assert_true(a.n == whole.n || a.used.damaged);
            marked += a.used.damaged > 0;
            mem_free(a.list);
            flip(w, tiers[k].kind, at);
        }
        assert_true(marked > 5); /* the others hit what the question did not need */
        mem_free(whole.list);
        world_reopen(w);
        world_drop(w, tiers[k].kind, 3);
    }
    world_close(w);
    mem_free(w);
}

/* Sums over everything: what processes grew, instances that began from zero. */
struct total {
    uint64_t count;
    int64_t growth, sum;
};

static struct total plain_total(const struct world *w)
{
    struct total t = {0};

    for (size_t i = 0; i < w->n_samples; i++) {
        const struct world_sample *s = &w->samples[i];

        if (s->metric == M_PRIORITY) {
            t.count++;
            t.sum += s->value;
        } else if (s->metric == M_CPU_TIME) {
            bool first = i == 0 || !world_same_series(s - 1, s);

            t.growth += first ? (s->fresh ? s->value : 0) : s->value - s[-1].value;
        }
    }
    return t;
}

static struct total answer_total(const struct answer *a)
{
    struct total t = {0};

    for (size_t i = 0; i < a->n; i++) {
        const struct got *g = &a->list[i];

        if (g->metric == M_PRIORITY) {
            t.count += g->cell.count;
            t.sum += g->cell.sum;
        } else if (g->metric == M_CPU_TIME) {
            t.growth += g->instances ? g->cell.sum : g->cell.last - (g->fresh ? 0 : g->cell.first);
        }
    }
    return t;
}

static void assert_total(struct world *w)
{
    const struct store_cells ask = {.since_ns = RIG_T0 - 1,
                                    .until_ns = INT64_MAX,
                                    .metrics = METRICS,
                                    .folded = true,
                                    .names = true};
    struct total want = plain_total(w), got;
    struct answer a;

    world_look(w);
    ask_for(w, &a, ask);
    got = answer_total(&a);
    assert_int_equal(got.count, want.count);
    assert_int_equal(got.sum, want.sum);
    assert_int_equal(got.growth, want.growth);
    mem_free(a.list);
}

static void whatever_is_left_adds_up_to_the_same(void **state)
{
    struct world *w = mem_alloc(sizeof *w);

    assert_non_null(w);
    world_open(w, 10, 12, 0, 0);
    assert_total(w);
    world_drop(w, SEG_RAW, 5);
    assert_total(w);
    world_drop(w, SEG_10S, 4);
    assert_total(w);
    world_seal_hour(w);
    world_mark_in_hour(w);
    assert_total(w); /* the hour is there and not needed */
    world_drop(w, SEG_1MIN, 3);
    assert_total(w); /* the hour is needed, and nothing finer of it */
    world_drop(w, SEG_RAW, 12);
    world_drop(w, SEG_10S, 12);
    world_drop(w, SEG_1MIN, 12);
    assert_total(w);
    world_close(w);
    mem_free(w);
}

static enum err stop(void *ctx, const struct store_cell_row *row)
{
    (void)row;
    (*(unsigned *)ctx)++;
    return ERR_END;
}

static void the_reader_may_stop_and_ask_for_one_process(void **state)
{
    struct store_cells ask = {
        .since_ns = RIG_T0 - 1, .until_ns = INT64_MAX, .metrics = METRICS, .has_pid = true};
    struct world *w = mem_alloc(sizeof *w);
    struct answer a;
    unsigned n = 0;

    assert_non_null(w);
    world_open(w, 12, 1, 0, 0);
    ask.pid = w->samples[0].id.pid;
    ask_for(w, &a, ask);
    assert_true(a.n > 0);
    for (size_t i = 0; i < a.n; i++) {
        assert_int_equal(a.list[i].id.pid, ask.pid);
    }
    mem_free(a.list);
    assert_err(store_cells_scan(w->view, 0, &ask, stop, &n, NULL), ERR_END);
    assert_int_equal(n, 1);
    world_close(w);
    mem_free(w);
}

static enum err no_row(void *ctx, const struct store_cell_row *row)
{
    (void)ctx;
    (void)row;
    fail();
    return ERR_OK;
}

static enum err no_block(void *ctx, const struct store_block *b)
{
    (void)ctx;
    (void)b;
    fail();
    return ERR_OK;
}

/* Nothing comes of a process that is not there: the caller could not look at the clock. */
static void a_scan_without_rows_keeps_its_deadline(void **state)
{
    struct store_cells ask = {.until_ns = INT64_MAX, .metrics = METRICS, .has_pid = true, .pid = 9};
    struct store_range range = {.until_ns = INT64_MAX, .made_since_ns = INT64_MIN};
    struct fleetgen *g = rig_host(1);
    struct deadline passed = {1};
    struct store_view *v;
    struct rig rig;

    rig_init(&rig);
    rig_open(&rig);
    for (int sealed = 0; sealed < 2; sealed++) {
        rig_put_next(&rig, g, 1);
        assert_ok(store_view_open(&v, rig.store));
        ask.deadline = range.deadline = NULL;
        assert_ok(store_cells_scan(v, 0, &ask, no_row, NULL, NULL));
        ask.deadline = range.deadline = &passed;
        assert_err(store_cells_scan(v, 0, &ask, no_row, NULL, NULL), ERR_TIMEOUT);
        assert_err(store_blocks_scan(v, 0, &range, no_block, NULL), ERR_TIMEOUT);
        store_view_close(v);
        assert_ok(store_seal_now(rig.store, INT64_MAX));
    }
    rig_fini(&rig);
    fleetgen_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_range_equals_a_plain_scan),
        cmocka_unit_test(steps_are_never_crossed),
        cmocka_unit_test(a_scan_without_rows_keeps_its_deadline),
        cmocka_unit_test(where_rows_are_gone_ten_seconds_are_exact),
        cmocka_unit_test(the_cheapest_exact_form_is_taken),
        cmocka_unit_test(rows_are_gone_where_none_is_held),
        cmocka_unit_test(damaged_rows_are_replaced_by_a_tier_that_says_the_same),
        cmocka_unit_test(one_flipped_bit_of_the_finest_tier_changes_no_cell),
        cmocka_unit_test(whatever_is_left_adds_up_to_the_same),
        cmocka_unit_test(the_reader_may_stop_and_ask_for_one_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
