/* Which hours of a host the tiers hold, and the time that its ticks cover, both from the ledger's
 * small columns: over months nobody reads batch by batch. */
#include <string.h>

#include "collector/clickhouse/ch_fold.h"
#include "collector/clickhouse/ch_view_ask.h"
#include "collector/store/read/store_cells.h"
#include "common/base/clk.h"
#include "common/base/search.h"

#define HOURS_MAX  (20u * 366 * 24)
#define HOURS_BYTE ((size_t)64 << 20)
#define SPAN_MOST  768 /* hours of one batch: ch_rows.h has 32 days */

/* -- hours -- */

struct asked {
    struct ch_view_hours *hours;
    bool odd; /* a batch spans more than one can */
};

static struct ch_view_hour *hour_find(const struct ch_view_hours *h, int64_t hour_ns)
{
    size_t i;

    SEARCH_LOWER(i, h->n, h->at[i].hour_ns < hour_ns);
    return i < h->n && h->at[i].hour_ns == hour_ns ? &h->at[i] : NULL;
}

const struct ch_view_hour *ch_view_fold_hour(const struct ch_view_hours *h, int64_t when_ns)
{
    int64_t rest_ns = when_ns % CH_FOLD_HOUR_NS;

    return hour_find(h, when_ns - (rest_ns < 0 ? rest_ns + CH_FOLD_HOUR_NS : rest_ns));
}

enum { FOLD_SPAN, FOLD_TIER, FOLD_MADE, FOLD_BATCHES, FOLD_NUMBERS, FOLD_COLUMNS };

/* Hours come in the order of time. */
static enum err fold_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct ch_view_hours *h = ((struct asked *)ctx)->hours;
    const struct ch_in_column *c = in->columns;
    int64_t hour_ns = (int64_t)ch_native_get(&c[FOLD_SPAN], i);
    bool minute = str_eq(ch_native_get_str(&c[FOLD_TIER], i), str_make("minute"));
    struct ch_view_hour *last = h->n ? &h->at[h->n - 1] : NULL;
    struct ch_view_made made = {.made = ch_native_get(&c[FOLD_MADE], i),
                                .batches = ch_native_get(&c[FOLD_BATCHES], i),
                                .numbers = ch_native_get(&c[FOLD_NUMBERS], i)};

    if (!last || last->hour_ns != hour_ns) {
        if (h->n == HOURS_MAX || (last && last->hour_ns > hour_ns)) {
            return ERR_CORRUPT;
        }
        if (h->n == h->cap) {
            size_t cap = h->cap ? h->cap * 2 : 64;
            struct ch_view_hour *more = arena_array(&h->memory, cap, sizeof *more);

            if (!more) {
                return arena_refused(&h->memory, cap * sizeof *more);
            }
            if (h->n) {
                memcpy(more, h->at, h->n * sizeof *more);
            }
            h->at = more;
            h->cap = cap;
        }
        last = &h->at[h->n++];
        *last = (struct ch_view_hour){.hour_ns = hour_ns};
    }
    last->tier[minute ? CH_VIEW_MINUTE : CH_VIEW_HOUR] = made;
    return ERR_OK;
}

enum { NUMBERS_HOUR, NUMBERS_BATCHES, NUMBERS_SUM, NUMBERS_SPAN, NUMBERS_COLUMNS };

static enum err numbers_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct asked *a = ctx;
    const struct ch_in_column *c = in->columns;
    int64_t hour = (int64_t)ch_native_get(&c[NUMBERS_HOUR], i);
    struct ch_view_hour *h = hour_find(a->hours, hour * CH_FOLD_HOUR_NS);

    a->odd = a->odd || (int64_t)ch_native_get(&c[NUMBERS_SPAN], i) > SPAN_MOST;
    for (size_t t = 0; h && t < 2; t++) {
        h->tier[t].whole = h->tier[t].batches == ch_native_get(&c[NUMBERS_BATCHES], i) &&
                           h->tier[t].numbers == ch_native_get(&c[NUMBERS_SUM], i);
    }
    return ERR_OK;
}

static void folds_ask(struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns)
{
    buf_put_str(ch_view_ask_begin(v), "SELECT ");
    ch_view_ask_ns(v, "span");
    buf_put_str(&v->sql, ", tier, max(made) AS made_last, argMax(batches, made) AS n_batches, "
                         "argMax(numbers, made) AS n_numbers");
    ch_view_ask_from(v, CH_FOLD, false);
    buf_put_str(&v->sql, " WHERE");
    ch_view_ask_host(v, host);
    ch_view_ask_when(v, "span", ">=", since_ns);
    ch_view_ask_when(v, "span", "<", until_ns);
    buf_put_str(&v->sql, " GROUP BY span, tier ORDER BY span, tier");
}

static void numbers_ask(struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns)
{
    buf_put_str(ch_view_ask_begin(v),
                "SELECT arrayJoin(arrayMap(x -> h0 + toInt64(x), range(toUInt64(least(h1 - h0, "
                "768) + 1)))) AS hour, count() AS n, " CH_FOLD_NUMBERS
                " AS n_numbers, max(h1 - h0) AS n_hours FROM (SELECT stream, seq, min(intDiv(");
    ch_schema_ns(&v->sql, v->conf.dialect, "t0");
    buf_put_str(&v->sql, ", toInt64(3600000000000))) AS h0, max(intDiv(");
    ch_schema_ns(&v->sql, v->conf.dialect, "t1");
    buf_put_str(&v->sql, ", toInt64(3600000000000))) AS h1");
    ch_view_ask_from(v, CH_BATCH, false);
    buf_put_str(&v->sql, " WHERE");
    ch_view_ask_host(v, host);
    buf_put_str(&v->sql, " AND");
    ch_fold_where(&v->sql);
    ch_view_ask_when(v, "t1", ">=", since_ns);
    ch_view_ask_when(v, "t0", "<", until_ns);
    buf_put_str(&v->sql, " GROUP BY stream, seq) GROUP BY hour");
}

enum err ch_view_fold_hours(struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                            const struct deadline *deadline, struct ch_view_hours *out)
{
    struct asked a = {.hours = out};
    struct buf reply;
    enum err e;

    *out = (struct ch_view_hours){.n = 0};
    arena_init(&out->memory, HOURS_BYTE);
    since_ns = clk_sub(since_ns, CH_FOLD_HOUR_NS);
    since_ns = since_ns > 0 ? since_ns - since_ns % CH_FOLD_HOUR_NS : 0;
    until_ns = clk_add(until_ns, CH_FOLD_HOUR_NS);
    buf_init(&reply, CH_VIEW_REPLY_MAX);
    folds_ask(v, host, since_ns, until_ns);
    e = ch_view_ask_rows(v, &reply, FOLD_COLUMNS, deadline, fold_take, &a);
    if (!e && out->n) {
        numbers_ask(v, host, since_ns, until_ns);
        e = ch_view_ask_rows(v, &reply, NUMBERS_COLUMNS, deadline, numbers_take, &a);
    }
    for (size_t i = 0; a.odd && i < out->n; i++) {
        out->at[i].tier[CH_VIEW_MINUTE].whole = out->at[i].tier[CH_VIEW_HOUR].whole = false;
    }
    buf_fini(&reply);
    return e;
}

void ch_view_fold_fini(struct ch_view_hours *h)
{
    arena_fini(&h->memory);
}

/* -- ticks -- */

struct ticking {
    struct store_cells_sum *sum;
    bool odd; /* stamps out of order, or of a ledger without ticks: batch by batch, then */
};

enum {
    TICK_BOOT,
    TICK_INSIDE,
    TICK_TICKS,
    TICK_MONO0,
    TICK_MONO1,
    TICK_FIRST,
    TICK_LAST,
    TICK_FIRST_WALL,
    TICK_LAST_WALL,
    TICK_UNTOLD,
    TICK_COLUMNS
};

/* All whole batches of a boot on one side of the window's begin: as one run. */
static enum err tick_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct ticking *t = ctx;
    const struct ch_in_column *c = in->columns;
    struct store_tick_run run = {
        .boot = ch_native_get_uuid(&c[TICK_BOOT], i),
        .inside = ch_native_get(&c[TICK_INSIDE], i) != 0,
        .base_mono_ns = (int64_t)ch_native_get(&c[TICK_MONO0], i),
        .last_mono_ns = (int64_t)ch_native_get(&c[TICK_MONO1], i),
        .first_wall_ns = (int64_t)ch_native_get(&c[TICK_FIRST], i),
        .last_wall_ns = (int64_t)ch_native_get(&c[TICK_LAST], i),
        .ticks = ch_native_get(&c[TICK_TICKS], i),
    };

    t->odd = t->odd || ch_native_get(&c[TICK_UNTOLD], i) ||
             run.first_wall_ns != (int64_t)ch_native_get(&c[TICK_FIRST_WALL], i) ||
             run.last_wall_ns != (int64_t)ch_native_get(&c[TICK_LAST_WALL], i);
    return t->odd ? ERR_END : store_cells_sum_run(t->sum, &run);
}

static void ticks_ask(struct ch_view *v, size_t host, const struct store_cells *ask, int64_t lo_ns)
{
    enum ch_dialect d = v->conf.dialect;

    buf_put_str(ch_view_ask_begin(v), "SELECT boot_one, t0_one >= ");
    buf_printf(&v->sql, "toInt64(%lld)", (long long)ask->since_ns);
    buf_put_str(
        &v->sql,
        " AS inside, sum(ticks_one) AS n, min(mono0_one) AS mono_first, max(mono1_one) AS "
        "mono_last, min(tick0_one) AS tick_first, max(tick1_one) AS tick_last, "
        "argMin(tick0_one, mono0_one) AS wall_first, argMax(tick1_one, mono1_one) AS "
        "wall_last, countIf(tick0_one = 0) AS untold FROM (SELECT stream, seq, any(boot) AS "
        "boot_one, any(ticks) AS ticks_one, any(mono0) AS mono0_one, any(mono1) AS "
        "mono1_one, any(");
    ch_schema_ns(&v->sql, d, "tick0");
    buf_put_str(&v->sql, ") AS tick0_one, any(");
    ch_schema_ns(&v->sql, d, "tick1");
    buf_put_str(&v->sql, ") AS tick1_one, any(");
    ch_schema_ns(&v->sql, d, "t0");
    buf_put_str(&v->sql, ") AS t0_one");
    ch_view_ask_from(v, CH_BATCH, false);
    buf_put_str(&v->sql, " WHERE");
    ch_view_ask_host(v, host);
    buf_printf(&v->sql, " AND kind = %d AND ticks > 0", CH_STORED);
    ch_view_ask_when(v, "t0", ">=", lo_ns);
    ch_view_ask_when(v, "t1", "<", ask->until_ns);
    buf_put_str(&v->sql, " AND NOT (1 = 1");
    ch_view_ask_when(v, "t0", "<", ask->since_ns);
    ch_view_ask_when(v, "t1", ">=", ask->since_ns);
    buf_put_str(&v->sql, ") GROUP BY stream, seq) GROUP BY boot_one, inside");
}

static enum err rest_take(void *ctx, struct ch_view_batch *b, const struct batch *batch)
{
    struct ticking *t = ctx;

    (void)b;
    return batch ? store_cells_sum_batch(t->sum, batch) : ERR_OK;
}

static bool is_cut_by(const struct ch_view_batch *b, int64_t border_ns)
{
    return b->t0_ns < border_ns && b->t1_ns >= border_ns;
}

/* Batches whose ticks one of the borders may divide; all: every batch. */
static enum err rests_add(struct ch_view *v, size_t host, const struct store_cells *ask,
                          int64_t lo_ns, bool all, struct ticking *t)
{
    const int64_t borders[] = {lo_ns, ask->since_ns, ask->until_ns};
    const struct ch_view_want want = {.host = host, .deadline = ask->deadline};
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < (all ? 1 : sizeof borders / sizeof *borders); i++) {
        struct ch_view_batches list;
        size_t *order, n = 0;

        e = ch_view_ask_batches(v, host, borders[i], all ? ask->until_ns : clk_add(borders[i], 1),
                                ask->deadline, &list);
        e = e ? e : ch_view_rest_order(&list, &order);
        for (size_t k = 0; !e && k < list.n; k++) {
            const struct ch_view_batch *b = &list.at[order[k]];
            bool before = false; /* it came with an earlier border */

            for (size_t j = 0; j < i; j++) {
                before = before || is_cut_by(b, borders[j]);
            }
            if (all || (is_cut_by(b, borders[i]) && !before)) {
                order[n++] = order[k];
            }
        }
        e = e ? e : ch_view_rest_read(v, &list, order, n, &want, rest_take, t);
        ch_view_ask_batches_fini(&list);
    }
    return e;
}

static enum err row_ignore(void *ctx, const struct store_cell_row *row)
{
    (void)ctx;
    (void)row;
    return ERR_OK;
}

enum err ch_view_fold_ticks(struct ch_view *v, size_t host, const struct store_cells *ask,
                            struct store_ticks *out)
{
    int64_t lo_ns = clk_sub(ask->since_ns, ask->before_ns);
    struct ticking t = {.odd = false};
    struct buf reply;
    enum err e = store_cells_sum_create(&t.sum, ask, row_ignore, NULL);

    if (e) {
        return e;
    }
    buf_init(&reply, CH_VIEW_REPLY_MAX);
    ticks_ask(v, host, ask, lo_ns);
    e = ch_view_ask_rows(v, &reply, TICK_COLUMNS, ask->deadline, tick_take, &t);
    buf_fini(&reply);
    if (!e && t.odd) {
        store_cells_sum_destroy(t.sum);
        t.sum = NULL;
        e = store_cells_sum_create(&t.sum, ask, row_ignore, NULL);
    }
    e = e ? e : rests_add(v, host, ask, lo_ns, t.odd, &t);
    if (!e) {
        store_cells_sum_ticks(t.sum, out);
    }
    store_cells_sum_destroy(t.sum);
    return e;
}
