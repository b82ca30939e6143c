/* Cells of a host's processes. Those of the table `cell` never cross a multiple of 10 s, so they
 * say the same as samples wherever borders are such multiples. Batches that a border or a step cuts
 * elsewhere are read whole, with their samples, when these were sent; else their cells belong where
 * their newest sample lies, as those of a tier do.
 *
 * In the order of time: batches cut at the range's begin, cells, batches cut further on. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "collector/clickhouse/ch_fold.h"
#include "collector/clickhouse/ch_view_ask.h"
#include "collector/clickhouse/ch_view_page.h"
#include "collector/clickhouse/ch_view_sums.h"
#include "collector/store/read/store_cells.h"
#include "common/base/clk.h"
#include "common/os/deadline.h"
#include "common/os/os.h"

#define CELL_NS    (10 * CLK_S)
#define SELECT_MAX ((size_t)64 << 10)

/* What a stretch of time is read from, the finest first. */
enum form { CELLS, MINUTES, HOURS, FORMS };

static const struct {
    enum ch_table table;
    int64_t unit_ns;  /* no row crosses a multiple of it */
    int64_t piece_ns; /* read at once, at first */
    enum store_tier tier;
} forms[FORMS] = {{CH_CELL, 10 * CLK_S, 3600 * CLK_S, STORE_10S},
                  {CH_MINUTE, CH_FOLD_MINUTE_NS, 6 * 3600 * CLK_S, STORE_1MIN},
                  {CH_HOUR, CH_FOLD_HOUR_NS, 240 * 3600 * CLK_S, STORE_1H}};

/* A stretch that the server sums up, of [from, to) that is asked for, bases too. */
struct core {
    int64_t begin_ns, end_ns, from_ns, to_ns;
};

struct far_cells {
    struct ch_view *v;
    size_t host;
    const struct store_cells *ask;
    enum err (*each)(void *ctx, const struct store_cell_row *row);
    void *ctx;
    int64_t lo_ns; /* since - before */
    enum form form;
    const struct ch_view_hours *hours; /* of tiers */
    bool found;                        /* there was a row that counts */
    struct ch_view_batches list;
    bool *whole;             /* by place in the list: it is cut, and has samples */
    size_t *order;           /* of those to be read as batches, by time */
    size_t n_order, n_begin; /* n_begin: of them, what begins before the range */
    bool bases, inside;      /* which rows are given now */
    struct store_cells_sum *sum;
    size_t n_metrics;
    uint8_t metrics[METRIC_COLS];
    struct cell cells[METRIC_COLS];
    int64_t last_ts_ns; /* of the row before, and whose it was: the same again was sent twice */
    uint64_t last_stream, last_seq;
    struct proc_id last_id;
    const struct core *core; /* what is read of it otherwise; NULL: nothing */
    bool inside_only;        /* samples before the range are read otherwise */
};

static bool is_cut_by(const struct ch_view_batch *b, int64_t border_ns, int64_t unit_ns)
{
    return border_ns % unit_ns != 0 && b->t0_ns < border_ns && b->t1_ns >= border_ns;
}

static int64_t floor_of(int64_t ns, int64_t step_ns)
{
    int64_t rest = ns % step_ns;

    return ns - (rest < 0 ? rest + step_ns : rest);
}

/* Whether rows of the batch that cross no multiple of the unit could lie across a border of what is
 * asked for. */
static bool is_cut(const struct store_cells *ask, const struct ch_view_batch *b, int64_t unit_ns)
{
    return is_cut_by(b, ask->since_ns, unit_ns) || is_cut_by(b, ask->until_ns, unit_ns) ||
           (ask->step_ns % unit_ns != 0 &&
            floor_of(b->t0_ns, ask->step_ns) != floor_of(b->t1_ns, ask->step_ns));
}

static enum err row_give(void *ctx, const struct store_cell_row *row)
{
    struct far_cells *s = ctx;

    return (row->before ? s->bases : s->inside) ? s->each(s->ctx, row) : ERR_OK;
}

/* -- which batches have samples -- */

struct sampled {
    struct ch_view_batches *list;
    bool *whole;
};

enum { SAMPLED_STREAM, SAMPLED_SEQ, SAMPLED_COLUMNS };

static enum err sampled_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct sampled *s = ctx;
    const struct ch_view_batch *b =
        ch_view_batches_find(s->list, ch_native_get(&in->columns[SAMPLED_STREAM], i),
                             ch_native_get(&in->columns[SAMPLED_SEQ], i));

    if (b) {
        s->whole[b - s->list->at] = true;
    }
    return ERR_OK;
}

static enum err sampled_ask(struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                            const struct deadline *deadline, struct sampled *s)
{
    char from[CH_VIEW_FROM];
    const struct ch_view_get get = {
        .select = "stream, seq",
        .from = ch_view_ask_from_of(from, v, CH_SAMPLE, ""),
        .tail = " GROUP BY host_id, stream, seq",
        .order = "",
        .columns = SAMPLED_COLUMNS,
        .n_bounds = 2,
        .bounds = {{"ts", true, since_ns, 10 * CLK_S}, {"ts", false, until_ns, 10 * CLK_S}},
        .loose = true, /* they are looked up in the list */
        .deadline = deadline};

    return ch_view_page_get(v, host, &get, sampled_take, s);
}

/* -- batches -- */

static enum err batch_take(void *ctx, struct ch_view_batch *b, const struct batch *batch)
{
    struct far_cells *s = ctx;

    if (deadline_passed(s->ask->deadline)) {
        return ERR_TIMEOUT;
    }
    if (!batch) {
        if (s->ask->used) {
            s->ask->used->damaged++;
            store_used_hole_add(&s->ask->used->holes, b->t0_ns, b->t1_ns);
        }
        return ERR_OK;
    }
    if (b->whole && s->ask->used) {
        s->ask->used->windows[STORE_RAW]++;
    }
    return store_cells_sum_batch(s->sum, batch); /* of a rest alone: its ticks */
}

static enum err batches_read(struct far_cells *s, size_t from, size_t to)
{
    const struct ch_view_want rests = {.host = s->host, .deadline = s->ask->deadline};
    struct ch_view_want whole = rests;
    enum err e = ERR_OK;

    whole.rows = s->ask->metrics;
    whole.has_pid = s->ask->has_pid;
    whole.pid = s->ask->pid;
    for (size_t i = from, end; !e && i < to; i = end) { /* neighbours of one sort at once */
        bool cut = s->whole[s->order[i]];

        for (end = i + 1; end < to && s->whole[s->order[end]] == cut;) {
            end++;
        }
        e = ch_view_rest_read(s->v, &s->list, s->order + i, end - i, cut ? &whole : &rests,
                              batch_take, s);
    }
    return e;
}

/* Which batches are read as such: those that are cut; for the time they cover all. */
static enum err batches_choose(struct far_cells *s, bool ticks)
{
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    size_t n = 0;
    enum err e = ch_view_rest_order(&s->list, &s->order);

    s->whole = arena_array(&s->list.memory, s->list.n + 1, sizeof *s->whole);
    if (e || !s->whole) {
        return e ? e : arena_refused(&s->list.memory, s->list.n);
    }
    for (size_t i = 0; i < s->list.n; i++) {
        const struct ch_view_batch *b = &s->list.at[i];

        if (is_cut(s->ask, b, CELL_NS)) {
            first_ns = b->t0_ns < first_ns ? b->t0_ns : first_ns;
            last_ns = b->t1_ns > last_ns ? b->t1_ns : last_ns;
        }
    }
    if (first_ns <= last_ns) {
        struct sampled samples = {&s->list, s->whole};

        e = sampled_ask(s->v, s->host, first_ns, clk_add(last_ns, 1), s->ask->deadline, &samples);
    }
    for (size_t i = 0; !e && i < s->list.n; i++) {
        size_t at = s->order[i];

        s->whole[at] = s->whole[at] && is_cut(s->ask, &s->list.at[at], CELL_NS);
        if (ticks || s->whole[at]) {
            s->order[n++] = at;
        }
    }
    s->n_order = n;
    while (s->n_begin < n && s->list.at[s->order[s->n_begin]].t0_ns < s->ask->since_ns) {
        s->n_begin++;
    }
    return e;
}

/* -- cells -- */

enum {
    CELL_BOOT,
    CELL_PID,
    CELL_START,
    CELL_TS,
    CELL_LAST_TS,
    CELL_N,
    CELL_STREAM,
    CELL_SEQ,
    CELL_FLAGS,
    CELL_MASK,
    CELL_HIGH,
    CELL_VALUES
};

/* Whether the row stands for something: its batch is in the ledger and was not read whole, and it
 * was not given before. */
static bool row_counts(struct far_cells *s, const struct ch_in_column *c, size_t i, int64_t ts_ns)
{
    uint64_t stream = ch_native_get(&c[CELL_STREAM], i), seq = ch_native_get(&c[CELL_SEQ], i);
    struct proc_id id = {(uint32_t)ch_native_get(&c[CELL_PID], i),
                         ch_native_get(&c[CELL_START], i)};
    const struct ch_view_batch *b = NULL;
    const struct ch_view_hour *h = NULL;
    bool again = s->last_stream == stream && s->last_seq == seq && s->last_ts_ns == ts_ns &&
                 proc_id_eq(s->last_id, id);

    s->last_stream = stream;
    s->last_seq = seq;
    s->last_ts_ns = ts_ns;
    s->last_id = id;
    if (s->form != CELLS) { /* instead of the stream there is when it was made */
        h = ch_view_fold_hour(s->hours, ts_ns);
        return h && !again && h->tier[s->form - MINUTES].made == stream;
    }
    b = ch_view_batches_find(&s->list, stream, seq);
    return b && !again && !s->whole[b - s->list.at];
}

/* A cell lies across a border, and stands where its newest sample does. */
static void note_coarse(struct far_cells *s, int64_t ts_ns, int64_t last_ns)
{
    struct store_used *used = s->ask->used;
    struct ch_view_batch cell = {.t0_ns = ts_ns, .t1_ns = last_ns};

    if (used && is_cut(s->ask, &cell, forms[s->form].unit_ns)) {
        used->coarse_from_ns =
            !used->coarse_bucket_ns || ts_ns < used->coarse_from_ns ? ts_ns : used->coarse_from_ns;
        if (used->coarse_bucket_ns < forms[s->form].unit_ns) {
            used->coarse_bucket_ns = forms[s->form].unit_ns;
        }
    }
}

static enum err cell_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct far_cells *s = ctx;
    const struct ch_in_column *c = in->columns, *value = c + CELL_VALUES;
    int64_t ts_ns = (int64_t)ch_native_get(&c[CELL_TS], i);
    int64_t last_ns = (int64_t)ch_native_get(&c[CELL_LAST_TS], i);
    uint64_t count = ch_native_get(&c[CELL_N], i);
    struct uuid boot = ch_native_get_uuid(&c[CELL_BOOT], i);
    metric_mask mask =
        metric_mask_make(ch_native_get(&c[CELL_MASK], i), ch_native_get(&c[CELL_HIGH], i));
    struct store_cell_row row = {
        .boot = &boot,
        .id = {(uint32_t)ch_native_get(&c[CELL_PID], i), ch_native_get(&c[CELL_START], i)},
        .before = last_ns < s->ask->since_ns,
        .fresh = ch_native_get(&c[CELL_FLAGS], i) & CH_FRESH,
        .begin_ns = ts_ns,
        .end_ns = clk_add(last_ns, 1),
        .cells = s->cells,
    };
    size_t n = 0;

    if (!row_counts(s, c, i, ts_ns) || last_ns < ts_ns || count == 0) {
        return ERR_OK;
    }
    s->found = true;
    for (size_t k = 0; k < s->n_metrics; k++) {
        if (mask & METRIC_BIT(s->metrics[k])) {
            s->cells[n++] = ch_view_sums_cell(value, i, s->metrics[k], count, ts_ns, last_ns);
            row.mask |= METRIC_BIT(s->metrics[k]);
        }
        value += ch_view_sums_parts(s->metrics[k]);
    }
    if (!row.mask) {
        return ERR_OK;
    }
    note_coarse(s, ts_ns, last_ns);
    if (i % 64 == 0 && deadline_passed(s->ask->deadline)) {
        return ERR_TIMEOUT;
    }
    return row_give(s, &row);
}

/* What is selected of a row. Returns how many columns that are. */
static size_t columns_put(struct far_cells *s, struct buf *select)
{
    const struct ch_column *columns;
    char ts[64], last[64];
    size_t n = CELL_VALUES;

    (void)ch_schema_columns(forms[s->form].table, &columns);
    s->n_metrics = 0;
    buf_printf(select, "boot, pid, start, %s, %s, n, %s, flags, mask, mask_high",
               ch_view_ask_ns_of(ts, s->v, "ts"), ch_view_ask_ns_of(last, s->v, "last_ts"),
               s->form == CELLS ? "stream, seq" : "made, toUInt64(0) AS none");
    for (struct metric_mask_walk w = metric_mask_walk(s->ask->metrics);
         metric_mask_walk_next(&w);) {
        size_t at = ch_schema_metric(forms[s->form].table, w.id);

        for (size_t k = 0; at && k < ch_view_sums_parts(w.id); k++) {
            buf_printf(select, ", %s", columns[at + k].name);
            n++;
        }
        if (at) {
            s->metrics[s->n_metrics++] = (uint8_t)w.id;
        }
    }
    return n;
}

/* How many bytes that is, about; at most 2 cells of a process in a unit. */
static size_t bytes_of(const struct far_cells *s, int64_t length_ns, size_t columns)
{
    int64_t units = length_ns / forms[s->form].unit_ns + 1;
    size_t alive = s->ask->has_pid ? 1 : s->v->hosts[s->host].alive + 1u;

    return 2 * alive * (size_t)(units < (1 << 20) ? units : 1 << 20) * (64 + 8 * columns);
}

/* What lies around a core is asked for at once, whichever part of it is wanted first: rows lie by
 * process, so that each statement looks through all of a day. */
static void around_core(const struct far_cells *s, struct ch_view_get *get, char *more, size_t size)
{
    const struct core *c = s->core;
    struct buf b;

    buf_init(&b, size);
    buf_put_str(&b, " AND (ts < ");
    ch_schema_time(&b, s->v->conf.dialect, c->begin_ns);
    buf_put_str(&b, " OR ts >= ");
    ch_schema_time(&b, s->v->conf.dialect, c->end_ns);
    buf_put_str(&b, ")");
    (void)snprintf(more, size, "%s", buf_cstr(&b));
    buf_fini(&b);
    for (size_t i = 0; i < get->n_bounds; i++) {
        struct ch_view_bound *x = &get->bounds[i];

        x->slack_ns = x->from ? clk_sub(x->ns, c->from_ns) : clk_sub(c->to_ns, x->ns);
        x->slack_ns = x->slack_ns > 0 ? x->slack_ns : 0;
    }
    get->bytes_each = bytes_of(
        s, clk_add(clk_sub(c->begin_ns, c->from_ns), clk_sub(c->to_ns, c->end_ns)), get->columns);
}

/* Cells whose first stamps lie in [from, to). */
static enum err piece_read(struct far_cells *s, int64_t from_ns, int64_t to_ns)
{
    char from[CH_VIEW_FROM], more[256] = "", order[64];
    struct ch_view_get get = {
        .from = from,
        .order = order,
        .n_bounds = 4,
        .bounds = {{"ts", true, from_ns, 0},
                   {"ts", false, to_ns, 0},
                   {"last_ts", true, s->inside && !s->bases ? s->ask->since_ns : s->lo_ns, 0},
                   {"last_ts", false, s->inside ? s->ask->until_ns : s->ask->since_ns, 0}},
        .deadline = s->ask->deadline};
    struct buf select;
    enum err e;

    s->last_seq = 0;
    buf_init(&select, SELECT_MAX);
    get.columns = columns_put(s, &select);
    get.select = buf_cstr(&select);
    get.bytes_each = bytes_of(s, clk_sub(to_ns, from_ns), get.columns);
    if (s->core) {
        around_core(s, &get, more, sizeof more);
    } else if (s->ask->has_pid) {
        (void)snprintf(more, sizeof more, " AND pid = %u", (unsigned)s->ask->pid);
    }
    (void)ch_view_ask_from_of(from, s->v, forms[s->form].table, more);
    (void)snprintf(order, sizeof order, "%sboot, pid, start, ts, %s",
                   s->inside || s->core ? "" : "ts DESC, ",
                   s->form == CELLS ? "stream, seq" : "mask, mask_high, made");
    e = select.bad ? select.bad : ch_view_page_get(s->v, s->host, &get, cell_take, s);
    buf_fini(&select);
    return e;
}

/* Rows of [from, end), piece by piece: one that has too much is halved. Nothing of it was given
 * then. */
static enum err pieces_read(struct far_cells *s, int64_t from_ns, int64_t end_ns)
{
    int64_t unit_ns = forms[s->form].unit_ns, piece_ns = forms[s->form].piece_ns;
    enum err e = ERR_OK;

    while (!e && from_ns < end_ns) {
        int64_t to_ns = clk_add(from_ns, piece_ns) < end_ns ? clk_add(from_ns, piece_ns) : end_ns;

        e = piece_read(s, from_ns, to_ns);
        if (e == ERR_FULL && s->v->too_large && piece_ns > unit_ns) {
            piece_ns = piece_ns / 2 / unit_ns * unit_ns;
            piece_ns = piece_ns > unit_ns ? piece_ns : unit_ns;
            e = ERR_OK;
        } else if (!e) {
            from_ns = to_ns;
            if (s->ask->used) {
                s->ask->used->windows[forms[s->form].tier]++;
            }
        }
    }
    return e;
}

/* Those of the batches listed. */
static enum err cells_read(struct far_cells *s)
{
    int64_t from_ns = s->list.n ? INT64_MAX : INT64_MIN, end_ns = INT64_MIN;
    int64_t least_ns = clk_sub(s->bases ? s->lo_ns : s->ask->since_ns, CELL_NS);
    int64_t most_ns = s->inside ? s->ask->until_ns : s->ask->since_ns;

    for (size_t i = 0; i < s->list.n; i++) {
        const struct ch_view_batch *b = &s->list.at[i];

        from_ns = b->t0_ns < from_ns ? b->t0_ns : from_ns;
        end_ns = b->t1_ns > end_ns ? b->t1_ns : end_ns;
    }
    end_ns = clk_add(end_ns, 1);
    return pieces_read(s, from_ns > least_ns ? from_ns : least_ns,
                       end_ns < most_ns ? end_ns : most_ns);
}

/* -- the scan -- */

static enum err rows_read(struct far_cells *s)
{
    bool last = s->ask->bases_from; /* bases come last, the newest first */
    enum err e;

    s->inside = true;
    s->bases = !last && !s->inside_only;
    e = batches_read(s, 0, s->n_begin);
    e = e ? e : cells_read(s);
    e = e ? e : batches_read(s, s->n_begin, s->n_order);
    if (!e && last && s->lo_ns < s->ask->since_ns) {
        struct store_cells_sum *with_ticks = s->sum;

        s->inside = false;
        s->bases = true;
        e = store_cells_sum_create(&s->sum, s->ask, row_give, s);
        e = e ? e : batches_read(s, 0, s->n_begin);
        e = e ? e : cells_read(s);
        store_cells_sum_destroy(s->sum);
        s->sum = with_ticks;
    }
    return e;
}

static enum err plain_scan(struct far_cells *s, struct store_ticks *ticks)
{
    enum err e =
        ch_view_batches_ask(s->v, s->host, s->lo_ns, s->ask->until_ns, s->ask->deadline, &s->list);

    assert(!s->sum);
    e = e ? e : batches_choose(s, ticks != NULL);
    e = e ? e : store_cells_sum_create(&s->sum, s->ask, row_give, s);
    e = e ? e : rows_read(s);
    if (ticks && s->sum && (!e || e == ERR_END)) {
        store_cells_sum_ticks(s->sum, ticks);
    }
    store_cells_sum_destroy(s->sum);
    ch_view_batches_fini(&s->list);
    return e;
}

/* -- tiers: hours that are made of what the ledger has -- */

struct stretches {
    struct ch_view *v;
    size_t host;
    const struct store_cells *ask;
    enum err (*each)(void *ctx, const struct store_cell_row *row);
    void *ctx;
    struct ch_view_hours hours;
};

/* Rows of a tier. Of a stretch without length those before it, back to lo. */
static enum err tier_scan(struct far_cells *s, enum form form)
{
    bool bases = s->ask->since_ns == s->ask->until_ns;
    int64_t from_ns = bases ? s->lo_ns : s->ask->since_ns;

    s->form = form;
    s->bases = bases;
    s->inside = !bases || !s->ask->bases_from; /* else the newest first */
    return pieces_read(s, floor_of(from_ns, forms[form].unit_ns), s->ask->until_ns);
}

/* [from, to) from cells; as bases when before. */
static enum err part_scan(const struct stretches *x, const struct core *core, int64_t from_ns,
                          int64_t to_ns, bool before)
{
    struct store_cells ask = *x->ask;
    struct far_cells part = {.v = x->v,
                             .host = x->host,
                             .ask = &ask,
                             .each = x->each,
                             .ctx = x->ctx,
                             .lo_ns = from_ns,
                             .inside_only = !before,
                             .core = core};

    if (from_ns >= to_ns) {
        return ERR_OK;
    }
    ask.since_ns = before ? to_ns : from_ns;
    ask.until_ns = to_ns;
    ask.before_ns = before ? clk_sub(to_ns, from_ns) : 0;
    ask.bases_from = NULL;
    return plain_scan(&part, NULL);
}

/* [from, to), of which the core, when it lies there, was summed up. */
static enum err region_read(const struct stretches *x, const struct ch_view_sums *sums,
                            const struct core *core, const int64_t span_ns[2], bool before)
{
    bool inside = core->begin_ns >= span_ns[0] && core->end_ns <= span_ns[1];
    enum err e;

    if (!inside) {
        return part_scan(x, core, span_ns[0], span_ns[1], before);
    }
    e = part_scan(x, core, span_ns[0], core->begin_ns, before);
    e = e ? e : ch_view_sums_give(sums, before, x->each, x->ctx);
    return e ? e : part_scan(x, core, core->end_ns, span_ns[1], before);
}

/* All that is asked for, of which the server sums up most: the window's core, or that of what lies
 * before a short one. *done: false: it cannot, nothing was given. */
static enum err summed_scan(const struct stretches *x, bool *done)
{
    const struct store_cells *ask = x->ask;
    int64_t lo_ns = clk_sub(ask->since_ns, ask->before_ns);
    const int64_t inside_ns[] = {ask->since_ns, ask->until_ns}, before_ns[] = {lo_ns, inside_ns[0]};
    struct core core = {.from_ns = clk_sub(lo_ns, CELL_NS), .to_ns = ask->until_ns};
    struct ch_view_sums sums = {.v = x->v, .host = x->host, .ask = ask};
    enum err e;

    *done = false;
    if (!ask->totals || ask->step_ns || ask->has_pid ||
        (!ch_view_page_core(x->v, x->host, inside_ns[0], inside_ns[1], CELL_NS, &core.begin_ns,
                            &core.end_ns) &&
         !ch_view_page_core(x->v, x->host, before_ns[0], before_ns[1], CELL_NS, &core.begin_ns,
                            &core.end_ns))) {
        return ERR_OK;
    }
    sums.begin_ns = core.begin_ns;
    sums.end_ns = core.end_ns;
    e = ch_view_sums_find(&sums);
    *done = !e && sums.found;
    if (*done) {
        e = ask->bases_from ? ERR_OK : region_read(x, &sums, &core, before_ns, true);
        e = e ? e : region_read(x, &sums, &core, inside_ns, false);
        e = e || !ask->bases_from ? e : region_read(x, &sums, &core, before_ns, true);
    }
    ch_view_sums_fini(&sums);
    return e;
}

/* A stretch of a window that has tiers, too. */
static enum err cells_or_sums(const struct stretches *x, struct far_cells *s)
{
    struct stretches part = *x;
    bool done = false;
    enum err e = ERR_OK;

    part.ask = s->ask;
    if (!s->ask->before_ns) {
        e = summed_scan(&part, &done);
    }
    s->found = s->found || done;
    return e || done ? e : plain_scan(s, NULL);
}

/* A stretch of one form. What is older than cells are kept is read from the next tier, when there
 * are none. */
static enum err stretch_read(const struct stretches *x, const struct store_cells *part,
                             enum form form)
{
    struct far_cells s = {.v = x->v,
                          .host = x->host,
                          .ask = part,
                          .each = x->each,
                          .ctx = x->ctx,
                          .lo_ns = clk_sub(part->since_ns, part->before_ns),
                          .inside_only = part->since_ns < part->until_ns,
                          .hours = &x->hours};
    bool old =
        x->v->conf.tiers_age_ns && part->since_ns < clk_sub(os_utc_ns(), x->v->conf.tiers_age_ns);
    enum err e = form == CELLS ? cells_or_sums(x, &s) : tier_scan(&s, form);

    while (!e && old && !s.found && ++form < FORMS) {
        e = tier_scan(&s, form);
    }
    return e;
}

/* The coarsest form that says the same of the hour as its samples. */
static enum form form_of(const struct stretches *x, int64_t hour_ns)
{
    const struct ch_view_hour *h = ch_view_fold_hour(&x->hours, hour_ns);
    int64_t end_ns = clk_add(hour_ns, CH_FOLD_HOUR_NS), step_ns = x->ask->step_ns;
    bool begins = hour_ns >= x->ask->since_ns, ends = end_ns <= x->ask->until_ns;

    if (h && h->tier[CH_VIEW_HOUR].whole && begins && ends && step_ns % CH_FOLD_HOUR_NS == 0) {
        return HOURS;
    }
    return h && h->tier[CH_VIEW_MINUTE].whole && step_ns % CH_FOLD_MINUTE_NS == 0 &&
                   (begins || x->ask->since_ns % CH_FOLD_MINUTE_NS == 0) &&
                   (ends || x->ask->until_ns % CH_FOLD_MINUTE_NS == 0)
               ? MINUTES
               : CELLS;
}

/* What lies before the window. */
static enum err bases_read(const struct stretches *x)
{
    struct store_cells part = *x->ask;

    part.until_ns = part.since_ns;
    return part.before_ns ? stretch_read(x, &part, CELLS) : ERR_OK;
}

/* From the first to the last hour of which there is something, and what is around them. */
static enum err stretches_read(const struct stretches *x)
{
    struct store_cells part = *x->ask;
    int64_t at_ns = x->ask->since_ns;
    enum err e = ERR_OK;

    part.before_ns = 0;
    part.bases_from = NULL;
    while (!e && at_ns < x->ask->until_ns) {
        int64_t hour_ns = floor_of(at_ns, CH_FOLD_HOUR_NS), end_ns;
        enum form form = form_of(x, hour_ns);

        for (end_ns = clk_add(hour_ns, CH_FOLD_HOUR_NS);
             end_ns < x->ask->until_ns && form_of(x, end_ns) == form;) {
            end_ns = clk_add(end_ns, CH_FOLD_HOUR_NS);
        }
        part.since_ns = at_ns;
        part.until_ns = end_ns < x->ask->until_ns ? end_ns : x->ask->until_ns;
        e = stretch_read(x, &part, form);
        at_ns = part.until_ns;
    }
    return e;
}

static enum err tiers_scan(struct stretches *x)
{
    enum err e = x->ask->bases_from ? ERR_OK : bases_read(x);

    e = e ? e : stretches_read(x);
    return e || !x->ask->bases_from ? e : bases_read(x);
}

/* Whether it is worth asking for tiers. */
static bool may_have_tiers(const struct ch_view *v, const struct store_cells *ask)
{
    int64_t least_ns = v->conf.tiers_least_ns, age_ns = v->conf.tiers_age_ns;

    return ask->since_ns < ask->until_ns &&
           ((least_ns && clk_sub(ask->until_ns, ask->since_ns) >= least_ns) ||
            (age_ns && ask->since_ns < clk_sub(os_utc_ns(), age_ns)));
}

/* Whether it is long enough that the time it covers is worth statements of its own. */
static bool is_long(const struct ch_view *v, size_t host, const struct store_cells *ask)
{
    int64_t begin_ns, end_ns;

    return ask->since_ns < ask->until_ns &&
           ch_view_page_core(v, host, ask->since_ns, ask->until_ns, CELL_NS, &begin_ns, &end_ns);
}

static enum err cells_scan(struct stretches *x, struct store_ticks *ticks)
{
    struct far_cells plain = {.v = x->v,
                              .host = x->host,
                              .ask = x->ask,
                              .each = x->each,
                              .ctx = x->ctx,
                              .lo_ns = clk_sub(x->ask->since_ns, x->ask->before_ns)};
    bool done = false;
    enum err e = ERR_OK;

    if (may_have_tiers(x->v, x->ask)) {
        e = ch_view_fold_hours(x->v, x->host, x->ask->since_ns, x->ask->until_ns, x->ask->deadline,
                               &x->hours);
    }
    if (!e && !x->hours.n) {
        e = summed_scan(x, &done);
    }
    if (!e && !done) {
        done = x->hours.n || is_long(x->v, x->host, x->ask);
        e = done ? tiers_scan(x) : plain_scan(&plain, ticks);
    }
    if (ticks && done && (!e || e == ERR_END)) {
        enum err f = ch_view_fold_ticks(x->v, x->host, x->ask, ticks);

        e = f ? f : e;
    }
    ch_view_fold_fini(&x->hours);
    return e;
}

enum err ch_view_cells_scan(const struct store_view *v, size_t host, const struct store_cells *ask,
                            enum err (*each)(void *ctx, const struct store_cell_row *row),
                            void *ctx, struct store_ticks *ticks)
{
    struct stretches x = {
        .v = ch_view_ask_of(v), .host = host, .ask = ask, .each = each, .ctx = ctx};
    enum err e;

    if (ticks) {
        *ticks = (struct store_ticks){0};
    }
    e = cells_scan(&x, ticks);
    if (!ch_view_ask_is_hole(e)) {
        return e;
    }
    if (ask->used) {
        ask->used->damaged++;
        ask->used->far = true;
        store_used_hole_add(&ask->used->holes, ask->since_ns, clk_sub(ask->until_ns, 1));
    }
    return ERR_OK;
}

/* -- where there are cells alone -- */

/* The first stretch of batches without samples, until one that has some. A batch without rows is
 * neither. */
static void gone_find(const struct ch_view_batches *list, const size_t *order, const bool *whole,
                      const bool *cells, struct store_gone *gone)
{
    int64_t since_ns = gone->since_ns, until_ns = gone->until_ns;

    gone->since_ns = gone->until_ns = until_ns;
    for (size_t i = 0; i < list->n; i++) {
        const struct ch_view_batch *b = &list->at[order[i]];
        bool found = gone->since_ns < until_ns;

        if (whole[order[i]]) {
            if (found && b->t0_ns >= gone->until_ns) {
                break;
            }
        } else if (cells[order[i]] && !found) {
            gone->since_ns = b->t0_ns > since_ns ? b->t0_ns : since_ns;
            gone->until_ns = clk_add(b->t1_ns, 1);
        } else if (cells[order[i]] && b->t1_ns >= gone->until_ns) {
            gone->until_ns = clk_add(b->t1_ns, 1);
        }
    }
    gone->until_ns = gone->until_ns < until_ns ? gone->until_ns : until_ns;
}

static enum err celled_ask(struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                           struct sampled *s)
{
    char from[CH_VIEW_FROM];
    const struct ch_view_get get = {
        .select = "stream, seq",
        .from = ch_view_ask_from_of(from, v, CH_BATCH, CH_VIEW_STORED " AND cells > 0"),
        .order = "",
        .columns = SAMPLED_COLUMNS,
        .n_bounds = 2,
        .bounds = {{"t1", true, since_ns, 0}, {"t0", false, until_ns, 0}},
        .loose = true};

    return ch_view_page_get(v, host, &get, sampled_take, s);
}

enum err ch_view_cells_gone(const struct store_view *view, size_t host, int64_t since_ns,
                            int64_t until_ns, struct store_gone *out)
{
    struct ch_view *v = ch_view_ask_of(view);
    struct store_gone gone = {since_ns, until_ns};
    struct ch_view_batches list;
    struct sampled samples = {&list, NULL}, cells = {&list, NULL};
    size_t *order;
    enum err e = ch_view_batches_ask(v, host, since_ns, until_ns, NULL, &list);

    e = e ? e : ch_view_rest_order(&list, &order);
    samples.whole = arena_array(&list.memory, list.n + 1, sizeof *samples.whole);
    cells.whole = arena_array(&list.memory, list.n + 1, sizeof *cells.whole);
    if (!e && (!samples.whole || !cells.whole)) {
        e = arena_refused(&list.memory, list.n);
    }
    e = e ? e : sampled_ask(v, host, since_ns, until_ns, NULL, &samples);
    e = e ? e : celled_ask(v, host, since_ns, until_ns, &cells);
    if (!e) {
        gone_find(&list, order, samples.whole, cells.whole, &gone);
        *out = gone;
    }
    ch_view_batches_fini(&list);
    if (ch_view_ask_is_hole(e)) { /* what reads the rows tells */
        *out = (struct store_gone){until_ns, until_ns};
        return ERR_OK;
    }
    return e;
}
