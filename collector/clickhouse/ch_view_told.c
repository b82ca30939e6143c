/* Accounts (store_accounts_scan) that the server adds up: one row for each stream of a host in each
 * window, as the local store has windows, and for each list of stages and reasons that
 * its batches have; the counts of such batches add up place by place. A window in which a batch is
 * not plain, a number is missing or came twice is read batch by batch, as what lies at the range's
 * ends is: the same that the local store does. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/clickhouse/ch_view_ask.h"
#include "collector/clickhouse/ch_view_page.h"
#include "collector/store/batch_time.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/model/ledger.h"

#define CORE_NS     (10 * CLK_S)
#define FROM_MAX    ((size_t)4 << 10)
#define TOLD_MEMORY ((size_t)64 << 20)
#define TOLD_MAX    (1u << 20) /* windows */
#define WINDOWS     512        /* about, of a range; of a longer one they are longer */
#define PARTS_MAX   256u       /* streams and lists of a window; more: it is read */

enum {
    TOLD_WINDOW,
    TOLD_STREAM,
    TOLD_STAGE,
    TOLD_REASON,
    TOLD_BATCHES,
    TOLD_NUMBERS,
    TOLD_FIRST,
    TOLD_LAST,
    TOLD_PLAIN,
    TOLD_TICKS,
    TOLD_FLAGS,
    TOLD_T0,
    TOLD_T1,
    TOLD_T0_FIRST,
    TOLD_T1_LAST,
    TOLD_PERIOD,
    TOLD_PERIOD_AT,
    TOLD_NEWEST_AT,
    TOLD_SUMS,
    TOLD_NEWEST,
    TOLD_COLUMNS
};

struct window {
    int64_t window_ns;
    bool plain;
    struct loss_sum sum;
    size_t parts;
    int64_t period_at_ns;
    struct rest_count *counts;
    int64_t *held_ns; /* when the count of `held` was told */
    struct rest_stream *streams;
    uint64_t *batches; /* of each stream */
};

struct told {
    struct arena memory;
    int64_t unit_ns; /* length of its windows */
    size_t n, cap;
    struct window *list;
};

/* -- what the server adds up -- */

static void select_put(const struct ch_view *v, int64_t unit_ns, struct buf *b)
{
    enum ch_dialect d = v->conf.dialect;

    buf_put_str(b, "intDiv(least(");
    ch_schema_ns(b, d, "t1");
    buf_put_str(b, " + if(bitAnd(clock, 1) = 1, clock_offset, toInt64(0)), ");
    ch_schema_ns(b, d, "received");
    buf_printf(b,
               "), toInt64(%" PRId64 ")) AS wnd, stream, stage, reason, count() AS n, "
               "uniqExact(seq) AS numbers, min(seq) AS first, max(seq) AS last, sum(plain) AS "
               "n_plain, sum(ticks) AS n_ticks, groupBitOr(flags) AS any_flags",
               unit_ns);
    buf_put_str(b, ", min(");
    ch_schema_ns(b, d, "t0");
    buf_put_str(b, ") AS t0_least, max(");
    ch_schema_ns(b, d, "t1");
    buf_put_str(b, ") AS t1_most, argMin(");
    ch_schema_ns(b, d, "t0");
    buf_put_str(b, ", seq) AS t0_first, argMax(");
    ch_schema_ns(b, d, "t1");
    buf_put_str(b, ", seq) AS t1_last, argMax(intDiv(mono1 - mono0, greatest(toInt64(ticks), "
                   "toInt64(2)) - 1), if(ticks > 1, ");
    ch_schema_ns(b, d, "t0");
    buf_put_str(b, ", toInt64(0))) AS period, max(if(ticks > 1, ");
    ch_schema_ns(b, d, "t0");
    buf_put_str(b, ", toInt64(0))) AS period_at, max(");
    ch_schema_ns(b, d, "t0");
    buf_put_str(b, ") AS newest_at, sumForEach(`count`) AS sums, argMax(`count`, t0) AS newest");
}

/* The window at hand, or a further one. */
static enum err window_of_row(struct told *t, int64_t window_ns, struct window **out)
{
    struct window *last = t->n ? &t->list[t->n - 1] : NULL;
    enum err e;

    if (last && last->window_ns == window_ns) {
        *out = last;
        return ERR_OK;
    }
    if (last && last->window_ns > window_ns) {
        return ERR_CORRUPT; /* not in the order that was asked for */
    }
    e = VEC_ROOM(&t->list, &t->cap, t->n + 1, TOLD_MAX);
    if (e) {
        return e;
    }
    last = &t->list[t->n++];
    *last = (struct window){.window_ns = window_ns, .plain = true};
    last->counts = arena_array(&t->memory, LOSS_SUM_COUNTS_MAX, sizeof *last->counts);
    last->held_ns = arena_array(&t->memory, LOSS_SUM_COUNTS_MAX, sizeof *last->held_ns);
    last->streams = arena_array(&t->memory, LOSS_SUM_STREAMS_MAX, sizeof *last->streams);
    last->batches = arena_array(&t->memory, LOSS_SUM_STREAMS_MAX, sizeof *last->batches);
    *out = last;
    return last->counts && last->held_ns && last->streams && last->batches
               ? ERR_OK
               : arena_refused(&t->memory, LOSS_SUM_COUNTS_MAX * sizeof *last->counts);
}

static struct rest_count *count_of(struct told *t, struct window *w, struct str stage,
                                   struct str reason)
{
    struct rest_count *c;

    for (size_t i = 0; i < w->sum.n_counts; i++) {
        c = &w->counts[i];
        if (str_eq(c->reason, reason) && str_eq(c->stage, stage)) {
            return c;
        }
    }
    if (w->sum.n_counts == LOSS_SUM_COUNTS_MAX) {
        return NULL;
    }
    c = &w->counts[w->sum.n_counts];
    *c = (struct rest_count){.first_ns = INT64_MAX, .last_ns = INT64_MIN};
    c->stage = (struct str){arena_dup(&t->memory, stage.p, stage.n), stage.n};
    c->reason = (struct str){arena_dup(&t->memory, reason.p, reason.n), reason.n};
    w->sum.n_counts += c->stage.p && c->reason.p;
    return c->stage.p && c->reason.p ? c : NULL;
}

static void counts_add(struct told *t, struct window *w, const struct ch_in_column *c, size_t i)
{
    int64_t t0_ns = (int64_t)ch_native_get(&c[TOLD_T0], i),
            t1_ns = (int64_t)ch_native_get(&c[TOLD_T1], i),
            newest_ns = (int64_t)ch_native_get(&c[TOLD_NEWEST_AT], i);
    size_t stage, reason, sums, newest, n = ch_native_get_array(&c[TOLD_STAGE], i, &stage);

    if (ch_native_get_array(&c[TOLD_REASON], i, &reason) != n ||
        ch_native_get_array(&c[TOLD_SUMS], i, &sums) != n ||
        ch_native_get_array(&c[TOLD_NEWEST], i, &newest) != n) {
        w->plain = false;
        return;
    }
    for (size_t k = 0; k < n && w->plain; k++) {
        const struct ledger_row row = {ch_native_get_str(&c[TOLD_STAGE], stage + k),
                                       ch_native_get_str(&c[TOLD_REASON], reason + k),
                                       ch_native_get(&c[TOLD_SUMS], sums + k)};
        const struct ledger_kind *kind = ledger_kind(&row);
        struct rest_count *to = count_of(t, w, row.stage, row.reason);

        if (!to) {
            w->plain = false;
            return;
        }
        if (kind->role != LEDGER_HELD) {
            to->count = ledger_add(to->count, row.count);
        } else if (newest_ns >= w->held_ns[to - w->counts]) {
            to->count = ch_native_get(&c[TOLD_NEWEST], newest + k);
            w->held_ns[to - w->counts] = newest_ns;
        }
        if (kind->role == LEDGER_OUT && str_eq(row.stage, str_make("source"))) {
            w->sum.events = ledger_add(w->sum.events, row.count);
        }
        to->first_ns = t0_ns < to->first_ns ? t0_ns : to->first_ns;
        to->last_ns = t1_ns > to->last_ns ? t1_ns : to->last_ns;
    }
}

static void stream_add(struct window *w, const struct ch_in_column *c, size_t i)
{
    const struct rest_stream one = {.stream = ch_native_get(&c[TOLD_STREAM], i),
                                    .first = ch_native_get(&c[TOLD_FIRST], i),
                                    .last = ch_native_get(&c[TOLD_LAST], i),
                                    .first_ns = (int64_t)ch_native_get(&c[TOLD_T0_FIRST], i),
                                    .last_ns = (int64_t)ch_native_get(&c[TOLD_T1_LAST], i)};
    struct rest_stream *s;
    size_t at = 0;

    while (at < w->sum.n_streams && w->streams[at].stream != one.stream) {
        at++;
    }
    if (at == LOSS_SUM_STREAMS_MAX) {
        w->plain = false;
        return;
    }
    s = &w->streams[at];
    if (at == w->sum.n_streams) {
        w->sum.n_streams++;
        *s = one;
    }
    if (one.first < s->first) {
        s->first = one.first;
        s->first_ns = one.first_ns;
    }
    if (one.last > s->last) {
        s->last = one.last;
        s->last_ns = one.last_ns;
    }
    w->batches[at] += ch_native_get(&c[TOLD_BATCHES], i);
}

static enum err told_take(void *ctx, const struct ch_in *in, size_t i)
{
    const struct ch_in_column *c = in->columns;
    struct told *t = ctx;
    uint64_t batches = ch_native_get(&c[TOLD_BATCHES], i);
    int64_t window = (int64_t)ch_native_get(&c[TOLD_WINDOW], i),
            t0_ns = (int64_t)ch_native_get(&c[TOLD_T0], i),
            t1_ns = (int64_t)ch_native_get(&c[TOLD_T1], i),
            period_at_ns = (int64_t)ch_native_get(&c[TOLD_PERIOD_AT], i);
    struct window *w;
    enum err e = window > INT64_MAX / t->unit_ns || window < 0
                     ? ERR_CORRUPT
                     : window_of_row(t, window * t->unit_ns, &w);

    if (e) {
        return e;
    }
    w->plain = w->plain && ++w->parts <= PARTS_MAX && batches > 0 &&
               batches == ch_native_get(&c[TOLD_PLAIN], i) &&
               batches == ch_native_get(&c[TOLD_NUMBERS], i);
    if (!w->plain) {
        return ERR_OK;
    }
    w->sum.first_ns = !w->sum.batches || t0_ns < w->sum.first_ns ? t0_ns : w->sum.first_ns;
    w->sum.last_ns = !w->sum.batches || t1_ns > w->sum.last_ns ? t1_ns : w->sum.last_ns;
    w->sum.batches += batches;
    w->sum.ticks += ch_native_get(&c[TOLD_TICKS], i);
    w->sum.flags |= (uint32_t)ch_native_get(&c[TOLD_FLAGS], i);
    if (period_at_ns > w->period_at_ns) {
        w->period_at_ns = period_at_ns;
        w->sum.period_ns = (int64_t)ch_native_get(&c[TOLD_PERIOD], i);
    }
    stream_add(w, c, i);
    counts_add(t, w, c, i);
    return ERR_OK;
}

static enum err told_ask(struct ch_view *v, size_t host, const struct store_range *range,
                         const int64_t core_ns[2], struct told *t)
{
    struct ch_view_get get = {.tail = " GROUP BY host_id, wnd, stream, stage, reason",
                              .order = "wnd, stream, first",
                              .columns = TOLD_COLUMNS,
                              .deadline = range->deadline};
    struct buf select, from;
    char text[CH_VIEW_FROM];
    enum err e;

    buf_init(&select, FROM_MAX);
    buf_init(&from, FROM_MAX);
    select_put(v, t->unit_ns, &select);
    buf_put_str(&from, ch_view_ask_from_of(text, v, CH_BATCH, CH_VIEW_STORED " AND t0 >= "));
    ch_schema_time(&from, v->conf.dialect, core_ns[0]);
    buf_put_str(&from, " AND t1 < ");
    ch_schema_time(&from, v->conf.dialect, core_ns[1]);
    get.select = buf_cstr(&select);
    get.from = buf_cstr(&from);
    e = select.bad ? select.bad : from.bad;
    e = e ? e : ch_view_page_get(v, host, &get, told_take, t);
    for (size_t i = 0; i < t->n; i++) { /* streams without holes, or it is read */
        struct window *w = &t->list[i];

        for (size_t k = 0; k < w->sum.n_streams; k++) {
            w->plain = w->plain && w->streams[k].last - w->streams[k].first + 1 == w->batches[k];
        }
        w->sum.plain = w->plain;
        w->sum.counts = w->counts;
        w->sum.streams = w->streams;
    }
    buf_fini(&select);
    buf_fini(&from);
    return e;
}

/* -- in the order of time -- */

struct giving {
    struct ch_view *v;
    size_t host;
    const struct store_range *range;
    enum err (*each_account)(void *ctx, const struct loss_sum *a);
    void *ctx;
    ch_view_rest_each each;
    void *each_ctx;
    const struct told *told;
    const int64_t *core_ns;
};

static const struct window *told_window(const struct told *t, int64_t window_ns)
{
    size_t i;

    SEARCH_LOWER(i, t->n, t->list[i].window_ns < window_ns);
    return i < t->n && t->list[i].window_ns == window_ns ? &t->list[i] : NULL;
}

static int64_t made_in(const struct giving *g, const struct ch_view_batch *b)
{
    int64_t made_ns = batch_time_made(b->t1_ns, &b->clock, b->received_ns);

    return made_ns - made_ns % g->told->unit_ns;
}

/* Whether an account speaks of it. */
static bool is_told(const struct giving *g, const struct ch_view_batch *b)
{
    const struct window *w;

    if (b->t0_ns < g->core_ns[0] || b->t1_ns >= g->core_ns[1]) {
        return false;
    }
    w = told_window(g->told, made_in(g, b));
    return w && w->plain;
}

/* Batches of the order from *at on that come before the window's account; NULL: all. */
static enum err batches_give(const struct giving *g, struct ch_view_batches *list,
                             const size_t *order, size_t n, size_t *at, const struct window *w)
{
    const struct ch_view_want want = {.host = g->host, .deadline = g->range->deadline};
    size_t end = *at;
    enum err e;

    for (; end < n; end++) {
        const struct ch_view_batch *b = &list->at[order[end]];

        if (w && (made_in(g, b) > w->window_ns ||
                  (made_in(g, b) == w->window_ns && b->t0_ns >= g->core_ns[0]))) {
            break;
        }
    }
    e = ch_view_rest_read(g->v, list, order + *at, end - *at, &want, g->each, g->each_ctx);
    *at = end;
    return e;
}

/* Accounts, and what of [since, until) is none, between them. */
static enum err whole_give(const struct giving *g, int64_t since_ns, int64_t until_ns)
{
    struct ch_view_batches list;
    size_t *order, n = 0, at = 0;
    enum err e = ch_view_batches_ask(g->v, g->host, since_ns, until_ns, g->range->deadline, &list);

    e = e ? e : ch_view_rest_order(&list, &order);
    for (size_t i = 0; !e && i < list.n; i++) {
        if (!is_told(g, &list.at[order[i]])) {
            order[n++] = order[i];
        }
    }
    for (size_t i = 0; !e && i < g->told->n; i++) {
        const struct window *w = &g->told->list[i];

        if (w->plain) {
            e = batches_give(g, &list, order, n, &at, w);
            e = e ? e : g->each_account(g->ctx, &w->sum);
        }
    }
    e = e ? e : batches_give(g, &list, order, n, &at, NULL);
    ch_view_batches_fini(&list);
    return e;
}

/* Those of [since, until) that begin at least_ns or later, none of which is told of. */
static enum err edge_give(const struct giving *g, int64_t since_ns, int64_t until_ns,
                          int64_t least_ns)
{
    struct ch_view_batches list;
    size_t *order, n = 0, at = 0;
    enum err e = ch_view_batches_ask(g->v, g->host, since_ns, until_ns, g->range->deadline, &list);

    e = e ? e : ch_view_rest_order(&list, &order);
    for (size_t i = 0; !e && i < list.n; i++) {
        if (list.at[order[i]].t0_ns >= least_ns) {
            order[n++] = order[i];
        }
    }
    e = e ? e : batches_give(g, &list, order, n, &at, NULL);
    ch_view_batches_fini(&list);
    return e;
}

static enum err told_give(const struct giving *g)
{
    bool plain = true;
    enum err e;

    for (size_t i = 0; i < g->told->n; i++) {
        plain = plain && g->told->list[i].plain;
    }
    if (!plain) {
        return whole_give(g, g->range->since_ns, g->range->until_ns);
    }
    e = edge_give(g, g->range->since_ns, g->core_ns[0], INT64_MIN);
    for (size_t i = 0; !e && i < g->told->n; i++) {
        e = g->each_account(g->ctx, &g->told->list[i].sum);
    }
    return e ? e : edge_give(g, g->core_ns[1], g->range->until_ns, g->core_ns[0]);
}

enum err ch_view_told_scan(struct ch_view *v, size_t host, const struct store_range *range,
                           enum err (*each_account)(void *ctx, const struct loss_sum *a), void *ctx,
                           ch_view_rest_each each, void *each_ctx, bool *told)
{
    int64_t core_ns[2];
    struct told t = {.unit_ns = WINDOW_NS};
    const struct giving g = {.v = v,
                             .host = host,
                             .range = range,
                             .each_account = each_account,
                             .ctx = ctx,
                             .each = each,
                             .each_ctx = each_ctx,
                             .told = &t,
                             .core_ns = core_ns};
    enum err e;

    *told = range->made_since_ns == INT64_MIN &&
            ch_view_page_core(v, host, range->since_ns, range->until_ns, CORE_NS, &core_ns[0],
                              &core_ns[1]);
    if (!*told) {
        return ERR_OK;
    }
    t.unit_ns *= 1 + clk_sub(range->until_ns, range->since_ns) / (WINDOWS * WINDOW_NS);
    arena_init(&t.memory, TOLD_MEMORY);
    e = told_ask(v, host, range, core_ns, &t);
    e = e ? e : told_give(&g);
    mem_free(t.list);
    arena_fini(&t.memory);
    return e;
}
