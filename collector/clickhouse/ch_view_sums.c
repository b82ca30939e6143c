#include "collector/clickhouse/ch_view_sums.h"

#include <stdio.h>
#include <string.h>

#include "collector/clickhouse/ch_fold.h"
#include "collector/clickhouse/ch_view_page.h"
#include "common/base/clk.h"
#include "common/os/deadline.h"

#define SELECT_MAX  ((size_t)64 << 10)
#define FROM_MAX    ((size_t)4 << 10)
#define SUMS_MEMORY ((size_t)64 << 20)

enum {
    SUM_BOOT,
    SUM_PID,
    SUM_START,
    SUM_TS,
    SUM_LAST_TS,
    SUM_N,
    SUM_FRESH,
    SUM_FLAGS,
    SUM_MASK,
    SUM_HIGH,
    SUM_VALUES
};

static bool is_counter(unsigned id)
{
    return metric_by_id((uint8_t)id)->kind == METRIC_COUNTER;
}

size_t ch_view_sums_parts(unsigned id)
{
    return is_counter(id) ? 3 : 4;
}

struct cell ch_view_sums_cell(const struct ch_in_column *c, size_t i, unsigned id, uint64_t n,
                              int64_t ts_ns, int64_t last_ts_ns)
{
    uint64_t last = ch_native_get(&c[CH_LAST], i);
    struct cell cell = {
        .count = n, .first_ns = ts_ns, .last_ns = last_ts_ns, .last = (int64_t)last};

    if (is_counter(id)) {
        cell.first = (int64_t)(last - ch_native_get(&c[CH_GREW], i));
        cell.max = (int64_t)ch_native_get(&c[CH_MOST], i);
        cell.min = n == 2 ? cell.max : 0; /* not kept: no question asks for it */
    } else {
        cell.max = (int64_t)(last + ch_native_get(&c[CH_UP], i));
        cell.min = (int64_t)(last - ch_native_get(&c[CH_DOWN], i));
        cell.sum = (int64_t)(ch_native_get(&c[CH_DEV], i) + n * last);
    }
    return cell;
}

enum { CLEAN_TWICE, CLEAN_ODD, CLEAN_COLUMNS };

struct clean {
    bool any, twice, odd;
};

static enum err clean_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct clean *c = ctx;

    c->any = true;
    c->twice = ch_native_get(&in->columns[CLEAN_TWICE], i) != 0;
    c->odd = ch_native_get(&in->columns[CLEAN_ODD], i) != 0;
    return ERR_OK;
}

/* Batches of the ledger that have something in the stretch. */
static void stretch_put(const struct ch_view_sums *s, struct buf *b)
{
    buf_printf(b, " AND kind = %d AND ticks > 0 AND t1 >= ", CH_STORED);
    ch_schema_time(b, s->v->conf.dialect, s->begin_ns);
    buf_put_str(b, " AND t0 < ");
    ch_schema_time(b, s->v->conf.dialect, s->end_ns);
}

#define TWICE "(max(again) > 0 OR min(collector) != max(collector))"

/* Whether the host's batches follow one another: then cells of a process do, too. Begins and ends
 * are sorted each on its own, which tells the same of stretches that share nothing. */
static enum err clean_ask(const struct ch_view_sums *s, struct clean *out)
{
    static const char select[] =
        TWICE " AS twice, (min(tick0) <= %s OR length(groupUniqArray(tick0)) != "
              "uniqExact(stream, seq) OR length(groupUniqArray(tick1)) != uniqExact(stream, seq) "
              "OR arrayExists((a, b) -> a >= b, arrayPopBack(arraySort(groupUniqArray(tick1))), "
              "arrayPopFront(arraySort(groupUniqArray(tick0))))) AS odd";
    struct ch_view_get get = {.tail = " GROUP BY host_id",
                              .order = "",
                              .columns = CLEAN_COLUMNS,
                              .deadline = s->ask->deadline};
    char text[sizeof select + 64];
    struct buf zero, from;
    enum err e;

    buf_init(&zero, 64);
    buf_init(&from, FROM_MAX);
    ch_schema_time(&zero, s->v->conf.dialect, 0);
    (void)snprintf(text, sizeof text, select, buf_cstr(&zero));
    buf_printf(&from, " FROM `%s`.`%s` WHERE @", s->v->conf.database, ch_schema_table(CH_BATCH));
    stretch_put(s, &from);
    get.select = text;
    get.from = buf_cstr(&from);
    e = from.bad ? from.bad : ch_view_page_get(s->v, s->host, &get, clean_take, out);
    buf_fini(&zero);
    buf_fini(&from);
    return e;
}

/* A process in the stretch, as long as it has the same metrics. */
struct summed {
    struct uuid boot;
    struct proc_id id;
    int64_t ts_ns, last_ns;
    bool fresh;
    metric_mask mask;
    struct cell *cells;
};

enum { SUMMED_BLOCK = 64 };

struct ch_view_sums_block {
    struct ch_view_sums_block *next;
    size_t n;
    struct summed at[SUMMED_BLOCK];
};

/* Room for a further one. */
static struct summed *summed_room(struct ch_view_sums *s)
{
    struct ch_view_sums_block *b = s->last_block;

    if (!b || b->n == SUMMED_BLOCK) {
        b = arena_alloc(&s->memory, sizeof *b);
        if (!b) {
            return NULL;
        }
        *(s->last_block ? &s->last_block->next : &s->blocks) = b;
        s->last_block = b;
    }
    return &b->at[b->n++];
}

/* The newest of those before, of the same process. */
static const struct summed *summed_before(const struct ch_view_sums *s, const struct summed *x)
{
    const struct summed *before = s->newest;

    return before && proc_id_eq(before->id, x->id) &&
                   memcmp(before->boot.b, x->boot.b, sizeof x->boot.b) == 0
               ? before
               : NULL;
}

static enum err summed_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct ch_view_sums *s = ctx;
    const struct ch_in_column *c = in->columns, *value = c + SUM_VALUES;
    uint64_t count = ch_native_get(&c[SUM_N], i), fresh = ch_native_get(&c[SUM_FRESH], i);
    metric_mask mask =
        metric_mask_make(ch_native_get(&c[SUM_MASK], i), ch_native_get(&c[SUM_HIGH], i));
    const struct summed *before;
    struct summed *x = summed_room(s);
    size_t n = 0;

    if (!x) {
        return arena_refused(&s->memory, sizeof *x);
    }
    *x = (struct summed){
        .boot = ch_native_get_uuid(&c[SUM_BOOT], i),
        .id = {(uint32_t)ch_native_get(&c[SUM_PID], i), ch_native_get(&c[SUM_START], i)},
        .ts_ns = (int64_t)ch_native_get(&c[SUM_TS], i),
        .last_ns = (int64_t)ch_native_get(&c[SUM_LAST_TS], i),
        .fresh = ch_native_get(&c[SUM_FLAGS], i) & CH_FRESH};
    before = summed_before(s, x);
    s->newest = x;
    /* a process with several sets of metrics by turns, or that began anew: its cells are read */
    if (count == 0 || x->last_ns < x->ts_ns || fresh > (x->fresh ? 1u : 0u) ||
        (before && before->last_ns >= x->ts_ns)) {
        s->found = false;
        return ERR_END;
    }
    x->cells = arena_array_unset(&s->memory, s->n_metrics + 1, sizeof *x->cells);
    if (!x->cells) {
        return arena_refused(&s->memory, s->n_metrics * sizeof *x->cells);
    }
    for (size_t k = 0; k < s->n_metrics; k++) {
        if (mask & METRIC_BIT(s->metrics[k])) {
            x->mask |= METRIC_BIT(s->metrics[k]);
            x->cells[n++] = ch_view_sums_cell(value, i, s->metrics[k], count, x->ts_ns, x->last_ns);
        }
        value += ch_view_sums_parts(s->metrics[k]);
    }
    return ERR_OK;
}

static enum err summed_ask(struct ch_view_sums *s, bool twice)
{
    struct ch_view_get get = {.tail = " GROUP BY host_id, boot, pid, start, mask, mask_high",
                              .order = "boot, pid, start, ts_first",
                              .columns = SUM_VALUES,
                              .deadline = s->ask->deadline};
    enum ch_dialect d = s->v->conf.dialect;
    const char *database = s->v->conf.database;
    struct buf select, from;
    enum err e;

    buf_init(&select, SELECT_MAX);
    buf_init(&from, FROM_MAX);
    buf_put_str(&select, "boot, pid, start, min(");
    ch_schema_ns(&select, d, "ts");
    buf_put_str(&select, ") AS ts_first, max(");
    ch_schema_ns(&select, d, "last_ts");
    buf_put_str(&select, ") AS ts_last, sum(n) AS n_all, sum(bitAnd(flags, 1)) AS "
                         "n_fresh, argMin(flags, ts) AS flags_first, mask, mask_high");
    s->n_metrics = 0;
    for (struct metric_mask_walk w = metric_mask_walk(s->ask->metrics);
         metric_mask_walk_next(&w);) {
        if (ch_schema_metric(CH_CELL, w.id)) {
            s->metrics[s->n_metrics++] = (uint8_t)w.id;
            ch_fold_metric(&select, metric_by_id((uint8_t)w.id), false);
            get.columns += ch_view_sums_parts(w.id);
        }
    }
    buf_printf(&from, " FROM `%s`.`%s`%s WHERE @ AND ts >= ", database, ch_schema_table(CH_CELL),
               twice ? " FINAL" : "");
    ch_schema_time(&from, d, s->begin_ns);
    buf_put_str(&from, " AND ts < ");
    ch_schema_time(&from, d, s->end_ns);
    buf_printf(&from, " AND (stream, seq) IN (SELECT stream, seq FROM `%s`.`%s` WHERE @", database,
               ch_schema_table(CH_BATCH));
    stretch_put(s, &from);
    buf_put_str(&from, ")");
    if (twice) { /* of others nobody asks for this */
        buf_printf(&from, " AND host_id IN (SELECT host_id FROM `%s`.`%s` WHERE @", database,
                   ch_schema_table(CH_BATCH));
        stretch_put(s, &from);
        buf_put_str(&from, " GROUP BY host_id HAVING " TWICE ")");
    }
    get.select = buf_cstr(&select);
    get.from = buf_cstr(&from);
    e = select.bad ? select.bad : from.bad;
    e = e ? e : ch_view_page_get(s->v, s->host, &get, summed_take, s);
    buf_fini(&select);
    buf_fini(&from);
    return e;
}

enum err ch_view_sums_find(struct ch_view_sums *s)
{
    struct clean clean = {.any = false};
    enum err e;

    arena_init(&s->memory, SUMS_MEMORY);
    e = clean_ask(s, &clean);
    s->found = !e && !clean.odd;
    if (s->found && clean.any) {
        e = summed_ask(s, clean.twice);
    }
    if (e == ERR_FULL) { /* too many processes: piece by piece, then */
        s->found = false;
        e = ERR_OK;
    }
    return e;
}

void ch_view_sums_fini(struct ch_view_sums *s)
{
    arena_fini(&s->memory);
}

enum err ch_view_sums_give(const struct ch_view_sums *s, bool before,
                           enum err (*each)(void *ctx, const struct store_cell_row *row), void *ctx)
{
    enum err e = ERR_OK;

    for (const struct ch_view_sums_block *b = s->blocks; b && !e; b = b->next) {
        if (deadline_passed(s->ask->deadline)) {
            return ERR_TIMEOUT;
        }
        for (size_t i = 0; i < b->n && !e; i++) {
            const struct summed *x = &b->at[i];
            const struct store_cell_row row = {.boot = &x->boot,
                                               .id = x->id,
                                               .before = before,
                                               .fresh = x->fresh,
                                               .begin_ns = x->ts_ns,
                                               .end_ns = clk_add(x->last_ns, 1),
                                               .mask = x->mask,
                                               .cells = x->cells};

            e = row.mask ? each(ctx, &row) : ERR_OK;
        }
    }
    if (s->ask->used) {
        s->ask->used->windows[STORE_10S]++;
    }
    return e;
}
