/* Cells of a host over a range, each sample once.
 *
 * What is sealed exists in up to four forms: rows with their summary, 10 s, 1 min and, hour by
 * hour, 1 h; the older the fewer. The same data has the same window and stamps in each of them,
 * which is how a *choice* finds its forms. An hour is taken when its minutes (or anything finer)
 * are not complete any more; then those left of it are not.
 *
 *   inside the range, no step cuts it      summary
 *   cut at multiples of 10 s               10 s; of 1 min, when folded rows are welcome, 1 min
 *   cut elsewhere, or one process asked    rows
 *   rows are gone                          the finest tier there is; its cell belongs where its
 *                                          newest sample lies
 *
 * Choices and the head's batches go in the order of their first stamps, as the extremes of growth
 * want it. A value that cannot be read lets the next form take its place where that says exactly
 * the same; a coarser one would put growth where it was not. Otherwise it is left out and told.
 *
 * Of the head's recent batches the columns asked for most are ready to be read (recent_columns.h).
 */
#include "collector/store/read/store_cells.h"

#include <stdlib.h>

#include "collector/store/read/store_ticks.h"
#include "collector/store/read/store_unread.h"
#include "collector/store/read/store_view.h"
#include "collector/store/read/store_windows.h"
#include "collector/store/rollup/tier.h"
#include "collector/store/rollup/tier_shape.h"
#include "collector/store/segment/raw.h"
#include "collector/store/segment/window.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/os/deadline.h"

enum form { FORM_RAW, FORM_10S, FORM_1MIN, FORM_1H, FORMS };

/* One window's data in the forms that are left, or a batch of the head. */
struct choice {
    int64_t t0_ns, t1_ns;
    const struct store_window *form[FORMS];
    const struct head_batch *batch;
    const struct recent_columns *hot; /* of the batch; NULL: it is decoded */
    int64_t hour_ns; /* while hours are settled: which, as far as it went into one */
    bool wanted;     /* an hour that stands for what has rows */
};

struct store_cells_scan {
    const struct store_view *v;
    size_t host;
    const struct store_cells *ask;
    enum err (*each)(void *ctx, const struct store_cell_row *row);
    void *ctx;
    int64_t lo_ns; /* since - before */
    struct packer *packer;
    struct arena list, memory; /* of choices and ticks; of one window */
    struct choice *choices;
    size_t n, cap;
    struct store_tick_sum ticks;
    struct cell cells[METRIC_COLS];
    struct store_beside beside; /* what was not opened, or could not be */
    bool given;                 /* of the choice at hand something went to the caller */
    bool asked;                 /* it has ticks in the range, as far as is known */
    bool head;                  /* something of the head was read */
};

static inline int64_t store_cells_floor(int64_t when_ns, int64_t step_ns)
{
    int64_t rest = when_ns % step_ns;

    return when_ns - (rest < 0 ? rest + step_ns : rest);
}

/* Cells of one batch of the head, of the rows or of one tier of a sealed window: samples and points
 * inside the range, cut where its steps cut them, the last one before it as a counter's base. */

/* -- rows -- */

/* Ticks of the batch: [before, since) are older than the range and may hold a base, [since, until)
 * are inside. */
struct tick_range {
    size_t before, since, until;
};

static size_t tick_at(const struct batch *b, int64_t when_ns)
{
    size_t i;

    SEARCH_LOWER(i, b->n_ticks, b->wall_ns[i] < when_ns);
    return i;
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

    for (struct metric_mask_walk each = metric_mask_walk(row.mask); metric_mask_walk_next(&each);) {
        unsigned m = each.id;
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

/* Each gives the caller what lies in the range, and adds its ticks. Errors: those of
 * store_unread_is (not of the head's, which are noted here), what `each` gives, ERR_NOMEM, ERR_FULL
 */
static enum err store_cells_batch(struct store_cells_scan *s, const struct batch *b)
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
        for (struct metric_mask_walk each = metric_mask_walk(run->mask & s->ask->metrics);
             metric_mask_walk_next(&each);) {
            unsigned m = each.id;

            at.values[m] += at.values[m] ? run->n_ticks : 0;
        }
    }
    return e;
}

static enum err store_cells_head(struct store_cells_scan *s, const struct choice *c)
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
        store_view_unread(s->v, s->host, s->ask->used, STORE_UNREAD_LOG, c->t0_ns, c->t1_ns, e);
        return ERR_OK;
    }
    if (!e) {
        s->head = true;
        e = store_cells_batch(s, b);
        wire_batch_free(b);
    }
    return e;
}

static enum err store_cells_rows(struct store_cells_scan *s, const struct store_window *w)
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
    for (struct metric_mask_walk each = metric_mask_walk(row.mask); metric_mask_walk_next(&each);) {
        unsigned m = each.id;
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

static enum err store_cells_tier(struct store_cells_scan *s, const struct store_window *w,
                                 int64_t bucket_ns)
{
    const struct tier_ask ask = {w->host, w->window, bucket_ns, s->ask->metrics,
                                 s->ask->names || (s->ask->folded && !s->ask->unnamed)};
    struct row_at at = {0};
    bool left_out = false;
    struct tier t;
    enum err e = tier_read_ahead(&t, w->seg, s->packer, store_view_ahead(s->v), &s->memory, &ask);

    if (e == ERR_NOTFOUND) {
        return ERR_OK;
    }
    if (!e && bucket_ns == TIER_WINDOW_NS) { /* ERR_RANGE: it is cut */
        e = store_ticks_uncut(&t, s->ask, &s->asked) ? ERR_OK : ERR_RANGE;
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
        for (struct metric_mask_walk each = metric_mask_walk(at.row->mask & t.metrics);
             metric_mask_walk_next(&each);) {
            at.cells[each.id] += at.row->n_buckets;
        }
    }
    if (left_out && s->ask->used) {
        s->ask->used->folded++;
    }
    return e;
}

#define SCAN_MEMORY_MAX ((size_t)256 << 20) /* of one window; of the list of all */

static const struct {
    unsigned kind;
    enum store_tier tier;
    int64_t bucket_ns;
} forms[FORMS] = {{SEG_RAW, STORE_RAW, 0},
                  {SEG_10S, STORE_10S, TIER_10S_NS},
                  {SEG_1MIN, STORE_1MIN, TIER_1MIN_NS},
                  {SEG_1H, STORE_1H, TIER_1H_NS}};

/* -- choices -- */

static enum err choice_add(struct store_cells_scan *s, const struct choice *c)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        struct choice *more = arena_array_unset(&s->list, cap, sizeof *more);

        if (!more) {
            return ERR_FULL;
        }
        if (s->n) {
            memcpy(more, s->choices, s->n * sizeof *more);
        }
        s->choices = more;
        s->cap = cap;
    }
    s->choices[s->n++] = *c;
    return ERR_OK;
}

static bool same_data(const struct choice *c, const struct store_window *w)
{
    for (unsigned f = 0; f < FORMS; f++) {
        if (c->form[f]) {
            return c->form[f]->window_ns == w->window_ns && c->t0_ns == w->t0_ns &&
                   c->t1_ns == w->t1_ns;
        }
    }
    return false;
}

/* Adds windows of one form to the choices of the finer ones, which are in the same order. */
static enum err form_add(struct store_cells_scan *s, unsigned form, const struct store_window *list,
                         size_t n)
{
    size_t finer = s->n, at = 0;
    enum err e = ERR_OK;

    for (size_t i = 0; i < n && !e; i++) {
        const struct store_window *w = &list[i];
        struct choice c = {.t0_ns = w->t0_ns, .t1_ns = w->t1_ns};
        size_t k;

        while (at < finer && s->choices[at].t0_ns < w->t0_ns) {
            at++;
        }
        for (k = at; k < finer && s->choices[k].t0_ns == w->t0_ns; k++) {
            if (form != FORM_1H && !s->choices[k].form[form] && same_data(&s->choices[k], w)) {
                s->choices[k].form[form] = w;
                break;
            }
        }
        if (k == finer || s->choices[k].form[form] != w) {
            c.form[form] = w;
            e = choice_add(s, &c);
        }
    }
    return e;
}

static int by_stamp(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;

    if (x->t0_ns != y->t0_ns) {
        return x->t0_ns < y->t0_ns ? -1 : 1;
    }
    return x->t1_ns < y->t1_ns ? -1 : x->t1_ns > y->t1_ns;
}

static int64_t hour_of(const struct choice *c)
{
    for (unsigned f = 0; f < FORMS; f++) {
        if (c->form[f]) {
            return store_cells_floor(c->form[f]->window_ns, TIER_1H_NS);
        }
    }
    return INT64_MIN;
}

/* Whether what the choice holds went into its hour, as far as is known. */
static bool in_hour(const struct choice *c)
{
    return !c->form[FORM_1H] && (!c->form[FORM_1MIN] || c->form[FORM_1MIN]->in_hour);
}

static bool is_cut_at(const struct store_cells_scan *s, const struct choice *c, int64_t bucket_ns);
static bool is_uncut(const struct store_cells_scan *s, const struct choice *c);
static bool is_exact(const struct store_cells_scan *s, const struct choice *c, unsigned form);
static bool lacks_finer(const struct store_cells_scan *s, const struct choice *c);

/* Whether the hour's tier must not stand for finer ones that cannot be opened. */
static bool hour_is_refused(const struct store_cells_scan *s, const struct store_window *hour)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct choice *c = &s->choices[i];

        if (c->form[FORM_1H] == hour) {
            return lacks_finer(s, c) && !is_exact(s, c, FORM_1H);
        }
    }
    return false;
}

/* Whether the hour may stand for what has rows: all of it lies inside, and no step cuts it. */
static bool hour_is_wanted(const struct store_cells_scan *s, const struct store_window *hours,
                           size_t n, int64_t hour)
{
    bool inside =
        s->ask->hours && s->ask->folded && !s->ask->has_pid && s->ask->step_ns % TIER_1H_NS == 0;

    for (size_t i = 0; i < n && inside; i++) {
        if (store_cells_floor(hours[i].window_ns, TIER_1H_NS) == hour) {
            inside = hours[i].t0_ns >= s->ask->since_ns && hours[i].t1_ns < s->ask->until_ns;
        }
    }
    return inside;
}

/* Removes what is not to be read: of each hour either its own tier or everything finer; and what
 * does not meet the range. */
static void settle_hours(struct store_cells_scan *s, const struct store_window *hours, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->n && n; i++) {
        s->choices[i].hour_ns = in_hour(&s->choices[i]) ? hour_of(&s->choices[i]) : INT64_MIN;
    }
    for (size_t h = 0; h < n; h++) {
        int64_t finest = INT64_MAX, first = hours[h].t0_ns;
        int64_t hour = store_cells_floor(hours[h].window_ns, TIER_1H_NS);
        bool take, wanted = hour_is_wanted(s, hours, n, hour);

        for (size_t i = 0; i < n; i++) { /* late minutes made others of the same hour */
            if (store_cells_floor(hours[i].window_ns, TIER_1H_NS) == hour) {
                first = hours[i].t0_ns < first ? hours[i].t0_ns : first;
            }
        }
        for (size_t i = 0; i < s->n; i++) {
            if (s->choices[i].hour_ns == hour) {
                finest = s->choices[i].t0_ns < finest ? s->choices[i].t0_ns : finest;
            }
        }
        take = (wanted || finest > first) && !hour_is_refused(s, &hours[h]);
        for (size_t i = 0; i < s->n; i++) {
            bool own = s->choices[i].form[FORM_1H] == &hours[h];

            s->choices[i].wanted |= own && wanted && finest <= first;
            if ((own && !take) || (take && s->choices[i].hour_ns == hour)) {
                s->choices[i].t1_ns = INT64_MIN; /* not to be read */
            }
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        if (s->choices[i].t1_ns >= s->lo_ns) {
            s->choices[kept++] = s->choices[i];
        }
    }
    s->n = kept;
}

/* Whether a tier would serve better than the rows that are there. */
static bool tiers_help(const struct store_cells_scan *s)
{
    for (size_t i = 0; i < s->n && !s->ask->has_pid; i++) {
        if (!is_uncut(s, &s->choices[i]) &&
            !store_windows_whole(s->choices[i].form[FORM_RAW], s->ask) &&
            is_cut_at(s, &s->choices[i], TIER_10S_NS)) {
            return true;
        }
    }
    return false;
}

/* Rows first. Tiers of what has rows are not opened unless they help. */
static enum err list_sealed(struct store_cells_scan *s, size_t host)
{
    int64_t range[2] = {s->lo_ns, s->ask->until_ns};
    struct store_window *list, *hours;
    struct store_covered covered;
    size_t n, n_hours;
    enum err e = store_windows_covered(&covered, &s->list, s->v, range[0], range[1]);

    covered.pass = !s->ask->hours;
    s->beside.covered = &covered;
    e = e ? e
          : store_windows_beside(&hours, &n_hours, &s->list, s->v, host, SEG_1H, range, &s->beside,
                                 s->ask->used);
    for (size_t i = 0; !e && i < n_hours; i++) { /* to see whether all of the hour is left */
        range[0] = hours[i].t0_ns < range[0] ? hours[i].t0_ns : range[0];
    }
    for (unsigned f = 0; f < FORM_1H && !e; f++) {
        covered.pass = !n_hours && !tiers_help(s);
        s->beside.covered = f ? &covered : NULL;
        e = store_windows_beside(&list, &n, &s->list, s->v, host, forms[f].kind, range, &s->beside,
                                 s->ask->used);
        e = e ? e : form_add(s, f, list, n);
        store_windows_sort(s->choices, s->n, sizeof *s->choices, by_stamp);
    }
    s->beside.covered = NULL; /* it ends here */
    e = e ? e : form_add(s, FORM_1H, hours, n_hours);
    if (!e) {
        settle_hours(s, hours, n_hours);
    }
    return e;
}

static enum err list_head(struct store_cells_scan *s, size_t host)
{
    const struct head_batch **list;
    size_t n;
    enum err e = head_view_batches(s->v->head, host, s->lo_ns, s->ask->until_ns, &list, &n);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < n && !e; i++) {
        struct choice c = {.t0_ns = list[i]->t0_ns, .t1_ns = list[i]->t1_ns, .batch = list[i]};

        if (!(s->ask->metrics & ~RECENT_COLUMNS_METRICS)) {
            c.hot = head_view_hot(s->v->head, host, list[i]);
        }
        e = choice_add(s, &c);
    }
    mem_free(list);
    return e;
}

/* -- which form -- */

/* Whether every border that cuts the window is a multiple of the bucket. */
static bool is_cut_at(const struct store_cells_scan *s, const struct choice *c, int64_t bucket_ns)
{
    const struct store_cells *ask = s->ask;

    return (ask->since_ns <= c->t0_ns || ask->since_ns % bucket_ns == 0) &&
           (ask->until_ns > c->t1_ns || ask->until_ns % bucket_ns == 0) &&
           ask->step_ns % bucket_ns == 0;
}

static bool is_uncut(const struct store_cells_scan *s, const struct choice *c)
{
    const struct store_cells *ask = s->ask;

    if (c->t1_ns < ask->since_ns) {
        return true;
    }
    return ask->since_ns <= c->t0_ns && ask->until_ns > c->t1_ns &&
           (!ask->step_ns ||
            store_cells_floor(c->t0_ns, ask->step_ns) == store_cells_floor(c->t1_ns, ask->step_ns));
}

/* Whether the form says the same as the rows: no bucket of it is cut, nothing is folded away. */
static bool is_exact(const struct store_cells_scan *s, const struct choice *c, unsigned form)
{
    if (form <= FORM_10S) {
        return form == FORM_RAW || is_uncut(s, c) || is_cut_at(s, c, TIER_10S_NS);
    }
    return s->ask->folded && !s->ask->has_pid &&
           (is_uncut(s, c) || is_cut_at(s, c, forms[form].bucket_ns));
}

/* Whether a segment of that form may hold the same and cannot be opened. */
static bool is_broken(const struct store_cells_scan *s, const struct choice *c, unsigned form)
{
    const struct store_window *w = NULL;
    int64_t end_ns;

    for (unsigned f = 0; f < FORMS && !w; f++) {
        w = c->form[f];
    }
    end_ns = w ? clk_add(w->window_ns, w->kind == SEG_1H ? TIER_1H_NS : WINDOW_NS) : INT64_MIN;
    for (size_t i = 0; i < s->beside.n_broken; i++) {
        const struct store_broken *b = &s->beside.broken[i];

        if (b->kind == forms[form].kind && b->window_ns < end_ns && b->end_ns > w->window_ns) {
            return true;
        }
    }
    return false;
}

/* Whether that is so of something finer than all the choice has. */
static bool lacks_finer(const struct store_cells_scan *s, const struct choice *c)
{
    for (unsigned f = 0; f < FORMS && !c->form[f]; f++) {
        if (is_broken(s, c, f)) {
            return true;
        }
    }
    return false;
}

static void note_used(struct store_cells_scan *s, const struct choice *c, enum store_tier tier,
                      int64_t bucket_ns)
{
    struct store_used *used = s->ask->used;

    if (!used || c->t1_ns < s->ask->since_ns) {
        return;
    }
    used->windows[tier]++;
    if (!c->form[FORM_RAW] && !c->wanted) {
        if (!used->coarse_bucket_ns || c->t0_ns < used->coarse_from_ns) {
            used->coarse_from_ns = c->t0_ns;
        }
        used->coarse_bucket_ns =
            bucket_ns > used->coarse_bucket_ns ? bucket_ns : used->coarse_bucket_ns;
    }
}

/* The ways to read a choice, best first; gives how many. */
struct way {
    unsigned form;
    bool summary;
};

static size_t ways_of(const struct store_cells_scan *s, const struct choice *c,
                      struct way out[2 * FORMS + 1])
{
    size_t n = 0;

    if (c->form[FORM_RAW]) {
        bool whole = is_uncut(s, c);
        if (whole || store_windows_whole(c->form[FORM_RAW], s->ask)) {
            out[n++] = (struct way){FORM_RAW, true};
        }
        if (whole) {                  /* nothing is better */
        } else if (s->ask->has_pid) { /* of rows only a part is read then */
            out[n++] = (struct way){FORM_RAW, false};
        } else if (c->form[FORM_1MIN] && s->ask->folded && is_cut_at(s, c, TIER_1MIN_NS)) {
            out[n++] = (struct way){FORM_1MIN, false};
        } else if (c->form[FORM_10S] && is_cut_at(s, c, TIER_10S_NS)) {
            out[n++] = (struct way){FORM_10S, false};
        }
        out[n++] = (struct way){FORM_RAW, false};
    } else if (s->ask->folded) { /* the coarsest that is exact */
        for (unsigned f = FORM_1MIN; f > FORM_RAW; f--) {
            if (c->form[f] && (is_uncut(s, c) || is_cut_at(s, c, forms[f].bucket_ns))) {
                out[n++] = (struct way){f, false};
            }
        }
    }
    for (unsigned f = FORM_10S; f < FORMS; f++) {
        if (c->form[f]) {
            out[n++] = (struct way){f, false};
        }
    }
    return n;
}

/* The choice's tiers that were passed over. */
static enum err find_tiers(struct store_cells_scan *s, struct choice *c, size_t host)
{
    struct store_window *list;
    enum err e = ERR_OK;
    size_t n;

    for (unsigned f = FORM_10S; f < FORM_1H && !e; f++) {
        e = store_windows(&list, &n, &s->list, s->v, host, forms[f].kind, c->t0_ns, c->t1_ns + 1,
                          NULL);
        for (size_t i = 0; i < n && !e; i++) {
            c->form[f] = same_data(c, &list[i]) ? &list[i] : c->form[f];
        }
    }
    return e;
}

/* Tries one way after the other until one can be read. None that is not exact takes the place of
 * another. */
static enum err ways_try(struct store_cells_scan *s, const struct choice *c, size_t host)
{
    struct way ways[2 * FORMS + 1];
    size_t n = ways_of(s, c, ways);
    size_t ticks = s->ticks.n;
    bool lacks = lacks_finer(s, c);
    enum err e = ERR_CORRUPT, first = ERR_OK;

    s->given = false;
    for (size_t i = 0; i < n && store_unread_is(e) && !s->given; i++) {
        const struct store_window *w = c->form[ways[i].form];
        bool rows = ways[i].form == FORM_RAW && !ways[i].summary;

        if ((i || lacks) && !is_exact(s, c, ways[i].form)) {
            continue;
        }
        s->asked = true;
        arena_reset(&s->memory);
        s->ticks.n = ticks;
        e = rows ? store_cells_rows(s, w) : store_cells_tier(s, w, forms[ways[i].form].bucket_ns);
        if (e == ERR_RANGE) {
            e = ERR_CORRUPT; /* the next way, and nothing is wrong with this one */
            continue;
        }
        if (!e && s->asked) {
            note_used(s, c, ways[i].summary ? STORE_SUMMARY : forms[ways[i].form].tier,
                      forms[ways[i].form].bucket_ns);
        }
        first = first ? first : e;
    }
    if (!e && store_unread_is(first)) { /* nothing is missing, but the disk's owner wants to know */
        store_view_unread(s->v, host, NULL, STORE_UNREAD_SEGMENT, c->t0_ns, c->t1_ns, first);
    }
    return e;
}

static enum err sealed_scan(struct store_cells_scan *s, struct choice *c, size_t host)
{
    enum err e = ways_try(s, c, host);

    if (store_unread_is(e) && !s->given && s->beside.passed && c->form[FORM_RAW] &&
        !c->form[FORM_10S]) {
        e = find_tiers(s, c, host);
        e = e ? e : ways_try(s, c, host);
    }
    if (store_unread_is(e) && !s->given) {
        store_view_unread(s->v, host, s->ask->used, STORE_UNREAD_SEGMENT, c->t0_ns, c->t1_ns, e);
        return ERR_OK;
    }
    return e;
}

static enum err choice_scan(struct store_cells_scan *s, struct choice *c, size_t host)
{
    if (deadline_passed(s->ask->deadline)) {
        return ERR_TIMEOUT;
    }
    return c->batch ? store_cells_head(s, c) : sealed_scan(s, c, host);
}

/* -- bases, when nothing else matters of what lies before the range -- */

static bool is_base(const struct store_cells_scan *s, const struct choice *c)
{
    return s->ask->bases_from && c->t1_ns < s->ask->since_ns;
}

/* Ticks without rows: the time into the first one inside begins there. */
static enum err ticks_scan(struct store_cells_scan *s, const struct choice *c)
{
    struct batch b;
    enum err e = recent_columns_read(c->hot, 0, &s->memory, &b);

    s->head = s->head || !e;
    return e ? e : store_cells_batch(s, &b);
}

/* The newest first: as a rule it has a base for every process, and no other is read. */
static enum err bases_scan(struct store_cells_scan *s, size_t host)
{
    int64_t from_ns = INT64_MIN;
    bool read = true; /* since from_ns was asked for */
    enum err e = ERR_OK;

    for (size_t i = s->n; i > 0 && !e; i--) {
        struct choice *c = &s->choices[i - 1];

        if (!is_base(s, c)) {
            continue;
        }
        from_ns = read ? s->ask->bases_from(s->ask->bases_ctx) : from_ns;
        read = !c->hot || c->t1_ns >= from_ns;
        e = read ? choice_scan(s, c, host) : ticks_scan(s, c);
    }
    return e;
}

enum err store_cells_local(const struct store_view *v, size_t host, const struct store_cells *ask,
                           enum err (*each)(void *ctx, const struct store_cell_row *row), void *ctx,
                           struct store_ticks *ticks)
{
    struct store_cells_scan s = {.v = v, .host = host, .ask = ask, .each = each, .ctx = ctx};
    enum err e;

    s.lo_ns = clk_sub(ask->since_ns, ask->before_ns);
    arena_init(&s.list, SCAN_MEMORY_MAX);
    arena_init(&s.memory, SCAN_MEMORY_MAX);
    s.ticks.memory = &s.list;
    e = store_view_packer(v, &s.packer);
    e = e ? e : list_sealed(&s, host);
    e = e ? e : list_head(&s, host);
    store_windows_sort(s.choices, s.n, sizeof *s.choices, by_stamp);
    for (size_t i = 0; i < s.n && !e; i++) {
        e = is_base(&s, &s.choices[i]) ? ERR_OK : choice_scan(&s, &s.choices[i], host);
    }
    e = e ? e : bases_scan(&s, host);
    if (s.head && ask->used) {
        ask->used->windows[STORE_HEAD]++;
    }
    if (ticks && (!e || e == ERR_END)) {
        store_ticks_sum(&s.ticks, ticks);
    }
    arena_fini(&s.memory);
    arena_fini(&s.list);
    return e;
}

enum err store_cells_local_gone(const struct store_view *v, size_t host, int64_t since_ns,
                                int64_t until_ns, struct store_gone *out)
{
    /* of one process: no tier is looked at for being quicker than rows */
    const struct store_cells ask = {.since_ns = since_ns, .until_ns = until_ns, .has_pid = true};
    struct store_cells_scan s = {.v = v, .host = host, .ask = &ask, .lo_ns = since_ns};
    struct store_gone gone = {until_ns, until_ns};
    enum err e;

    arena_init(&s.list, SCAN_MEMORY_MAX);
    e = list_sealed(&s, host);
    store_windows_sort(s.choices, s.n, sizeof *s.choices, by_stamp);
    for (size_t i = 0; i < s.n && !e; i++) {
        const struct choice *c = &s.choices[i];
        bool found = gone.since_ns < until_ns;

        if (c->form[FORM_RAW] || is_broken(&s, c, FORM_RAW)) {
            if (found && c->t0_ns >= gone.until_ns) {
                break;
            }
        } else if (!found) {
            gone.since_ns = c->t0_ns > since_ns ? c->t0_ns : since_ns;
            gone.until_ns = clk_add(c->t1_ns, 1);
        } else if (c->t1_ns >= gone.until_ns) {
            gone.until_ns = clk_add(c->t1_ns, 1);
        }
    }
    gone.until_ns = gone.until_ns < until_ns ? gone.until_ns : until_ns;
    arena_fini(&s.list);
    if (!e) {
        *out = gone;
    }
    return e;
}

/* -- batches of elsewhere -- */

struct store_cells_sum {
    struct store_cells_scan scan;
};

enum err store_cells_sum_create(struct store_cells_sum **out, const struct store_cells *ask,
                                enum err (*each)(void *ctx, const struct store_cell_row *row),
                                void *ctx)
{
    struct store_cells_sum *s = mem_zalloc(sizeof *s);

    if (!s) {
        return ERR_NOMEM;
    }
    s->scan = (struct store_cells_scan){.ask = ask, .each = each, .ctx = ctx};
    s->scan.lo_ns = clk_sub(ask->since_ns, ask->before_ns);
    arena_init(&s->scan.list, SCAN_MEMORY_MAX);
    s->scan.ticks.memory = &s->scan.list;
    *out = s;
    return ERR_OK;
}

void store_cells_sum_destroy(struct store_cells_sum *s)
{
    if (s) {
        arena_fini(&s->scan.list);
        mem_free(s);
    }
}

enum err store_cells_sum_batch(struct store_cells_sum *s, const struct batch *b)
{
    return store_cells_batch(&s->scan, b);
}

enum err store_cells_sum_run(struct store_cells_sum *s, const struct store_tick_run *run)
{
    return store_ticks_add(&s->scan.ticks, run);
}

void store_cells_sum_ticks(struct store_cells_sum *s, struct store_ticks *out)
{
    store_ticks_sum(&s->scan.ticks, out);
}
