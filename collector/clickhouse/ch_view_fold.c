/* Which hours of a host the tiers hold, and the time that its ticks cover, both from the ledger's
 * small columns: over months nobody reads batch by batch. */
#include <stdio.h>
#include <string.h>

#include "collector/clickhouse/ch_fold.h"
#include "collector/clickhouse/ch_view_ask.h"
#include "collector/clickhouse/ch_view_page.h"
#include "collector/store/read/store_cells.h"
#include "common/base/clk.h"
#include "common/base/search.h"

#define HOURS_MAX  (20u * 366 * 24)
#define HOURS_BYTE ((size_t)64 << 20)
#define FROM_MAX   ((size_t)4 << 10)
#define CORE_NS    (10 * CLK_S)
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

static void when_put(struct buf *b, const struct ch_view *v, const char *column, const char *op,
                     int64_t ns)
{
    buf_printf(b, " AND %s %s ", column, op);
    ch_schema_time(b, v->conf.dialect, ns);
}

static enum err folds_ask(struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                          const struct deadline *deadline, struct asked *a)
{
    char select[256], span[64], from[CH_VIEW_FROM];
    struct ch_view_get get = {.select = select,
                              .tail = " GROUP BY host_id, span, tier",
                              .order = "span, tier",
                              .columns = FOLD_COLUMNS,
                              .deadline = deadline};
    struct buf more;
    enum err e;

    buf_init(&more, FROM_MAX);
    when_put(&more, v, "span", ">=", since_ns);
    when_put(&more, v, "span", "<", until_ns);
    get.from = ch_view_ask_from_of(from, v, CH_FOLD, buf_cstr(&more));
    (void)snprintf(select, sizeof select,
                   "%s, tier, max(made) AS made_last, argMax(batches, made) AS n_batches, "
                   "argMax(numbers, made) AS n_numbers",
                   ch_view_ask_ns_of(span, v, "span"));
    e = more.bad ? more.bad : ch_view_page_get(v, host, &get, fold_take, a);
    buf_fini(&more);
    return e;
}

static enum err numbers_ask(struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                            const struct deadline *deadline, struct asked *a)
{
    struct ch_view_get get = {
        .select = "arrayJoin(arrayMap(x -> h0 + toInt64(x), range(toUInt64(least(h1 - h0, "
                  "768) + 1)))) AS hour, count() AS n, " CH_FOLD_NUMBERS
                  " AS n_numbers, max(h1 - h0) AS n_hours",
        .tail = " GROUP BY host_id, hour",
        .order = "hour",
        .columns = NUMBERS_COLUMNS,
        .deadline = deadline};
    struct buf from;
    enum err e;

    buf_init(&from, FROM_MAX);
    buf_put_str(&from, " FROM (SELECT host_id, stream, seq, min(intDiv(");
    ch_schema_ns(&from, v->conf.dialect, "t0");
    buf_put_str(&from, ", toInt64(3600000000000))) AS h0, max(intDiv(");
    ch_schema_ns(&from, v->conf.dialect, "t1");
    buf_printf(&from, ", toInt64(3600000000000))) AS h1 FROM `%s`.`%s` WHERE @ AND",
               v->conf.database, ch_schema_table(CH_BATCH));
    ch_fold_where(&from);
    when_put(&from, v, "t1", ">=", since_ns);
    when_put(&from, v, "t0", "<", until_ns);
    buf_put_str(&from, " GROUP BY host_id, stream, seq)");
    get.from = buf_cstr(&from);
    e = from.bad ? from.bad : ch_view_page_get(v, host, &get, numbers_take, a);
    buf_fini(&from);
    return e;
}

/* Whole hours, so that hosts whose windows lie a little apart are asked the same. */
enum err ch_view_fold_hours(struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                            const struct deadline *deadline, struct ch_view_hours *out)
{
    struct asked a = {.hours = out};
    enum err e;

    *out = (struct ch_view_hours){.n = 0};
    arena_init(&out->memory, HOURS_BYTE);
    since_ns = clk_sub(since_ns, CH_FOLD_HOUR_NS);
    since_ns = since_ns > 0 ? since_ns - since_ns % CH_FOLD_HOUR_NS : 0;
    until_ns = clk_add(until_ns, 2 * CH_FOLD_HOUR_NS - 1);
    until_ns -= until_ns % CH_FOLD_HOUR_NS;
    e = folds_ask(v, host, since_ns, until_ns, deadline, &a);
    if (!e && out->n) {
        e = numbers_ask(v, host, since_ns, until_ns, deadline, &a);
    }
    for (size_t i = 0; a.odd && i < out->n; i++) {
        out->at[i].tier[CH_VIEW_MINUTE].whole = out->at[i].tier[CH_VIEW_HOUR].whole = false;
    }
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

/* Of batches that lie in [begin, end). */
static enum err ticks_ask(struct ch_view *v, size_t host, const struct store_cells *ask,
                          int64_t begin_ns, int64_t end_ns, struct ticking *t)
{
    struct ch_view_get get = {
        .select = "boot_one, toUInt8(1) AS inside, sum(ticks_one) AS n, min(mono0_one) AS "
                  "mono_first, max(mono1_one) AS mono_last, min(tick0_one) AS tick_first, "
                  "max(tick1_one) AS tick_last, argMin(tick0_one, mono0_one) AS wall_first, "
                  "argMax(tick1_one, mono1_one) AS wall_last, countIf(tick0_one = 0) AS untold",
        .tail = " GROUP BY host_id, boot_one",
        .order = "mono_first",
        .columns = TICK_COLUMNS,
        .deadline = ask->deadline};
    enum ch_dialect d = v->conf.dialect;
    struct buf from;
    enum err e;

    buf_init(&from, FROM_MAX);
    buf_put_str(&from, " FROM (SELECT host_id, stream, seq, any(boot) AS boot_one, any(ticks) AS "
                       "ticks_one, any(mono0) AS mono0_one, any(mono1) AS mono1_one, any(");
    ch_schema_ns(&from, d, "tick0");
    buf_put_str(&from, ") AS tick0_one, any(");
    ch_schema_ns(&from, d, "tick1");
    buf_printf(&from, ") AS tick1_one FROM `%s`.`%s` WHERE @ AND kind = %d AND ticks > 0",
               v->conf.database, ch_schema_table(CH_BATCH), CH_STORED);
    when_put(&from, v, "t0", ">=", begin_ns);
    when_put(&from, v, "t1", "<", end_ns);
    buf_put_str(&from, " GROUP BY host_id, stream, seq)");
    get.from = buf_cstr(&from);
    e = from.bad ? from.bad : ch_view_page_get(v, host, &get, tick_take, t);
    buf_fini(&from);
    return e;
}

static enum err rest_take(void *ctx, struct ch_view_batch *b, const struct batch *batch)
{
    struct ticking *t = ctx;

    (void)b;
    return batch ? store_cells_sum_batch(t->sum, batch) : ERR_OK;
}

/* The ticks of batches that meet [from, to) and begin at least_ns or later, one by one. */
static enum err rests_add(struct ch_view *v, size_t host, const struct store_cells *ask,
                          int64_t from_ns, int64_t to_ns, int64_t least_ns, struct ticking *t)
{
    const struct ch_view_want want = {.host = host, .deadline = ask->deadline};
    struct ch_view_batches list;
    size_t *order, n = 0;
    enum err e = ch_view_batches_ask(v, host, from_ns, to_ns, ask->deadline, &list);

    e = e ? e : ch_view_rest_order(&list, &order);
    for (size_t k = 0; !e && k < list.n; k++) {
        if (list.at[order[k]].t0_ns >= least_ns) {
            order[n++] = order[k];
        }
    }
    e = e ? e : ch_view_rest_read(v, &list, order, n, &want, rest_take, t);
    ch_view_batches_fini(&list);
    return e;
}

static enum err row_ignore(void *ctx, const struct store_cell_row *row)
{
    (void)ctx;
    (void)row;
    return ERR_OK;
}

/* Those of the core at once, those around it one by one. */
static enum err core_ticks(struct ch_view *v, size_t host, const struct store_cells *ask,
                           struct ticking *t)
{
    int64_t lo_ns = clk_sub(ask->since_ns, ask->before_ns), begin_ns, end_ns;
    enum err e;

    if (!ch_view_page_core(v, host, ask->since_ns, ask->until_ns, CORE_NS, &begin_ns, &end_ns)) {
        t->odd = true;
        return ERR_OK;
    }
    e = ticks_ask(v, host, ask, begin_ns, end_ns, t);
    if (!e && !t->odd) {
        e = rests_add(v, host, ask, lo_ns, begin_ns, INT64_MIN, t);
        e = e ? e : rests_add(v, host, ask, end_ns, ask->until_ns, begin_ns, t);
    }
    return e;
}

enum err ch_view_fold_ticks(struct ch_view *v, size_t host, const struct store_cells *ask,
                            struct store_ticks *out)
{
    int64_t lo_ns = clk_sub(ask->since_ns, ask->before_ns);
    struct ticking t = {.odd = false};
    enum err e = store_cells_sum_create(&t.sum, ask, row_ignore, NULL);

    if (e) {
        return e;
    }
    e = core_ticks(v, host, ask, &t);
    if (!e && t.odd) {
        store_cells_sum_destroy(t.sum);
        t.sum = NULL;
        e = store_cells_sum_create(&t.sum, ask, row_ignore, NULL);
        e = e ? e : rests_add(v, host, ask, lo_ns, ask->until_ns, INT64_MIN, &t);
    }
    if (!e) {
        store_cells_sum_ticks(t.sum, out);
    }
    store_cells_sum_destroy(t.sum);
    return e;
}
