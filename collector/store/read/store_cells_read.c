/* Cells of one batch of the head, of the rows or of one tier of a sealed window: samples and points
 * inside the range, cut where its steps cut them, the last one before it as a counter's base. */
#include "collector/store/read/store_cells_impl.h"

#include "collector/store/read/store_unread.h"
#include "collector/store/rollup/tier.h"
#include "collector/store/rollup/tier_shape.h"
#include "collector/store/segment/raw_value.h"

/* -- rows -- */

/* Ticks of the batch: [before, since) are older than the range and may hold a base, [since, until)
 * are inside. */
struct tick_range {
    size_t before, since, until;
};

static size_t tick_at(const struct batch *b, int64_t when_ns)
{
    size_t lo = 0, hi = b->n_ticks;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (b->wall_ns[mid] < when_ns) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* Ticks [from, to) of a batch. */
static enum err ticks_add(struct store_cells_scan *s, const struct batch *b, size_t from, size_t to,
                          bool inside)
{
    struct store_tick_run run = {.boot = b->head.boot, .inside = inside};

    if (from == to) {
        return ERR_OK;
    }
    run.has_base = from > 0;
    run.base_mono_ns = b->mono_ns[from ? from - 1 : 0];
    run.last_mono_ns = b->mono_ns[to - 1];
    run.first_wall_ns = b->wall_ns[from];
    run.last_wall_ns = b->wall_ns[to - 1];
    run.ticks = to - from;
    return store_ticks_add(&s->ticks, &run);
}

/* A run of a batch, and where its values begin in each column. */
struct run_at {
    const struct batch *b;
    const struct batch_run *run;
    const int64_t *values[METRIC_COLS];
};

/* Cells of the run's ticks [from, to). */
static enum err run_cells(struct store_cells_scan *s, const struct run_at *at, size_t from,
                          size_t to, bool before)
{
    const struct batch_run *run = at->run;
    const int64_t *wall = at->b->wall_ns;
    struct store_cell_row row = {.boot = &at->b->head.boot,
                                 .id = run->id,
                                 .before = before,
                                 .fresh = run->fresh && from == run->first_tick,
                                 .begin_ns = wall[from],
                                 .end_ns = wall[to - 1] + 1,
                                 .mask = run->mask & s->ask->metrics,
                                 .cells = s->cells};
    size_t n = 0;

    for (uint64_t bits = row.mask; bits; bits &= bits - 1) {
        unsigned m = (unsigned)__builtin_ctzll(bits);
        bool counter = tier_is_counter(m), base = counter && !before && from > run->first_tick;
        const int64_t *v = at->values[m];
        struct cell *c = &s->cells[n++];

        if (!v) {
            return ERR_CORRUPT;
        }
        *c = (struct cell){.count = to - from};
        c->first_ns = wall[from - base];
        c->last_ns = wall[to - 1];
        cell_values(c, counter, v + (from - run->first_tick), to - from, base);
    }
    s->given = true;
    return s->each(s->ctx, &row);
}

static enum err run_scan(struct store_cells_scan *s, const struct run_at *at,
                         const struct tick_range *t)
{
    size_t first = at->run->first_tick, end = first + at->run->n_ticks;
    size_t from = first > t->since ? first : t->since, until = end < t->until ? end : t->until;
    enum err e = ERR_OK;

    if (first < t->since && end > t->before) { /* the last sample before the range */
        size_t last = (end < t->since ? end : t->since) - 1;

        e = run_cells(s, at, last, last + 1, true);
    }
    while (!e && from < until) {
        size_t to = until;

        if (s->ask->step_ns) {
            int64_t step = store_cells_floor(at->b->wall_ns[from], s->ask->step_ns);

            for (to = from + 1;
                 to < until && store_cells_floor(at->b->wall_ns[to], s->ask->step_ns) == step;) {
                to++;
            }
        }
        e = run_cells(s, at, from, to, false);
        from = to;
    }
    return e;
}

enum err store_cells_batch(struct store_cells_scan *s, const struct batch *b)
{
    struct tick_range t = {tick_at(b, s->lo_ns), tick_at(b, s->ask->since_ns),
                           tick_at(b, s->ask->until_ns)};
    struct run_at at = {.b = b};
    enum err e = ticks_add(s, b, t.before, t.since, false);

    e = e ? e : ticks_add(s, b, t.since, t.until, true);
    for (size_t c = 0; c < b->n_columns; c++) {
        at.values[b->columns[c].metric % METRIC_COLS] = b->columns[c].values;
    }
    for (size_t r = 0; r < b->n_runs && !e; r++) {
        const struct batch_run *run = &b->runs[r];
        bool wanted =
            (run->mask & s->ask->metrics) && (!s->ask->has_pid || run->id.pid == s->ask->pid);

        at.run = run;
        e = wanted ? run_scan(s, &at, &t) : ERR_OK;
        for (uint64_t bits = run->mask & s->ask->metrics; bits; bits &= bits - 1) {
            unsigned m = (unsigned)__builtin_ctzll(bits);

            at.values[m] += at.values[m] ? run->n_ticks : 0;
        }
    }
    return e;
}

enum err store_cells_head(struct store_cells_scan *s, const struct choice *c)
{
    struct batch *b, hot;
    enum err e;

    if (c->hot) {
        arena_reset(&s->memory);
        e = recent_columns_read(c->hot, s->ask->metrics, &s->memory, &hot);
        s->head = s->head || !e;
        return e ? e : store_cells_batch(s, &hot);
    }
    e = store_view_decode(s->v, &b, s->ask->metrics, c->batch);
    if (store_unread_is_batch(e)) {
        store_unread(s->v, s->host, s->ask->used, STORE_UNREAD_LOG, c->t0_ns, c->t1_ns, e);
        return ERR_OK;
    }
    if (!e) {
        s->head = true;
        e = store_cells_batch(s, b);
        wire_batch_free(b);
    }
    return e;
}

enum err store_cells_rows(struct store_cells_scan *s, const struct store_window *w)
{
    const struct raw_want want = {s->ask->metrics, s->ask->has_pid, s->ask->pid};
    struct window_part *parts;
    size_t n;
    enum err e =
        raw_value_read(w->seg, s->packer, &s->memory, w->host, w->window, &want, &parts, &n);

    if (e == ERR_NOTFOUND) {
        return ERR_OK; /* only events came */
    }
    if (e) {
        return e;
    }
    for (size_t i = 0; i < n && !e; i++) {
        e = store_cells_batch(s, &parts[i].rows);
    }
    return e;
}

/* -- tiers -- */

static enum err buckets_add(struct store_cells_scan *s, const struct tier *t)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < t->n_buckets && !e; i++) {
        const struct tier_bucket *b = &t->buckets[i];
        const struct tier_part *part = &t->parts[b->part];
        struct store_tick_run run = {.boot = part->boot,
                                     .inside = b->last_wall_ns >= s->ask->since_ns,
                                     .has_base = i > part->first_bucket,
                                     .base_mono_ns = b->last_mono_ns - b->span_mono_ns,
                                     .last_mono_ns = b->last_mono_ns,
                                     .first_wall_ns = b->first_wall_ns,
                                     .last_wall_ns = b->last_wall_ns,
                                     .ticks = b->ticks};

        if (b->last_wall_ns >= s->lo_ns && b->last_wall_ns < s->ask->until_ns) {
            e = store_ticks_add(&s->ticks, &run);
        }
    }
    return e;
}

/* A row of a tier, and its cells of each metric. */
struct row_at {
    const struct tier *t;
    const struct tier_row *row;
    const struct cell *cells[METRIC_COLS];
};

/* The row's buckets [from, to) as one. */
static enum err row_cells(struct store_cells_scan *s, const struct row_at *at, uint32_t from,
                          uint32_t to, bool before)
{
    const struct tier_row *r = at->row;
    const struct tier_bucket *first = &at->t->buckets[r->first_bucket + from];
    const struct tier_bucket *last = &at->t->buckets[r->first_bucket + to - 1];
    struct store_cell_row row = {.boot = &at->t->parts[r->part].boot,
                                 .id = r->id,
                                 .name = r->name,
                                 .user = r->user,
                                 .instances = r->instances,
                                 .before = before,
                                 .fresh = r->fresh && from == 0,
                                 .begin_ns = from ? first->first_wall_ns : r->first_ns,
                                 .end_ns = to == r->n_buckets ? r->last_ns : last->last_wall_ns,
                                 .mask = r->mask & at->t->metrics,
                                 .cells = s->cells};
    size_t n = 0;

    row.end_ns++;
    for (uint64_t bits = row.mask; bits; bits &= bits - 1) {
        unsigned m = (unsigned)__builtin_ctzll(bits);
        struct cell *c = &s->cells[n++];

        *c = at->cells[m][from];
        for (uint32_t i = from + 1; i < to; i++) {
            cell_join(c, tier_is_counter(m), &at->cells[m][i]);
        }
    }
    s->given = true;
    return s->each(s->ctx, &row);
}

/* The stamp by which the row's bucket belongs somewhere. */
static int64_t newest_of(const struct row_at *at, uint32_t i)
{
    return i + 1 == at->row->n_buckets ? at->row->last_ns
                                       : at->t->buckets[at->row->first_bucket + i].last_wall_ns;
}

static int64_t step_of(const struct store_cells_scan *s, const struct row_at *at, uint32_t i)
{
    return s->ask->step_ns ? store_cells_floor(newest_of(at, i), s->ask->step_ns) : 0;
}

static enum err row_scan(struct store_cells_scan *s, const struct row_at *at)
{
    uint32_t n = at->row->n_buckets, from = 0, until;
    enum err e = ERR_OK;

    while (from < n && newest_of(at, from) < s->ask->since_ns) {
        from++;
    }
    if (from > 0 && newest_of(at, from - 1) >= s->lo_ns) {
        e = row_cells(s, at, from - 1, from, true);
    }
    for (until = from; until < n && newest_of(at, until) < s->ask->until_ns;) {
        until++;
    }
    while (!e && from < until) {
        uint32_t to = from + 1;

        while (to < until && step_of(s, at, to) == step_of(s, at, from)) {
            to++;
        }
        e = row_cells(s, at, from, to, false);
        from = to;
    }
    return e;
}

static bool row_is_wanted(const struct store_cells_scan *s, const struct tier_row *r)
{
    if (r->instances) {
        return s->ask->folded && !s->ask->has_pid;
    }
    return (r->mask & s->ask->metrics) && (!s->ask->has_pid || r->id.pid == s->ask->pid);
}

enum err store_cells_tier(struct store_cells_scan *s, const struct store_window *w,
                          int64_t bucket_ns)
{
    const struct tier_ask ask = {w->host, w->window, bucket_ns, s->ask->metrics,
                                 s->ask->names || s->ask->folded};
    struct row_at at = {0};
    bool left_out = false;
    struct tier t;
    enum err e = tier_read_ahead(&t, w->seg, s->packer, store_view_ahead(s->v), &s->memory, &ask);

    if (e == ERR_NOTFOUND) {
        return ERR_OK;
    }
    e = e ? e : buckets_add(s, &t);
    if (e) {
        return e;
    }
    at.t = &t;
    memcpy(at.cells, t.columns, sizeof at.cells);
    for (size_t i = 0; i < t.n_rows && !e; i++) {
        at.row = &t.rows[i];
        if (row_is_wanted(s, at.row)) {
            e = row_scan(s, &at);
        }
        left_out |= at.row->instances && !s->ask->folded && at.row->last_ns >= s->ask->since_ns &&
                    at.row->last_ns < s->ask->until_ns;
        for (uint64_t bits = at.row->mask & t.metrics; bits; bits &= bits - 1) {
            at.cells[__builtin_ctzll(bits)] += at.row->n_buckets;
        }
    }
    if (left_out && s->ask->used) {
        s->ask->used->folded++;
    }
    return e;
}
