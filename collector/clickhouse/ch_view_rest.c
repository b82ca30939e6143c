/* Batches put together again: what they said from the ledger's `rest`, their rows from `sample`.
 *
 * A host's batches are listed first (ch_view_ask.h), then read in slices of neighbours: one
 * statement for the rests, one for the samples. Samples come in the order of batch, process and
 * stamp; a stamp is looked up among the batch's ticks, and neighbouring ticks with the same columns
 * are a run, as the agent made it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/clickhouse/ch_view_ask.h"
#include "collector/clickhouse/ch_view_page.h"
#include "collector/store/batch_time.h"
#include "collector/store/segment/window.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/os/deadline.h"

#define SELECT_MAX  ((size_t)16 << 10)
#define AROUND_NS   (10 * CLK_S) /* of other hosts the batches lie a little elsewhere */
#define RESTS_NS    (60 * CLK_S) /* and may be some more; rests are small */
#define SLICE       256u         /* batches read at once, at first */
#define SAMPLES_MAX (8u << 20)
#define BATCH_BYTES ((size_t)256 << 20) /* rows of one batch */

/* -- order -- */

static int64_t made_of(const struct ch_view_batch *b)
{
    return batch_time_made(b->t1_ns, &b->clock, b->received_ns);
}

struct place {
    int64_t window_ns, t0_ns;
    size_t at;
};

static int by_window(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->window_ns != y->window_ns) {
        return x->window_ns < y->window_ns ? -1 : 1;
    }
    if (x->t0_ns != y->t0_ns) {
        return x->t0_ns < y->t0_ns ? -1 : 1;
    }
    return x->at < y->at ? -1 : x->at > y->at; /* the list is by stream and number */
}

enum err ch_view_rest_order(struct ch_view_batches *b, size_t **order)
{
    struct place *places = arena_array(&b->memory, b->n + 1, sizeof *places);

    *order = arena_array(&b->memory, b->n + 1, sizeof **order);
    if (!places || !*order) {
        return arena_refused(&b->memory, b->n * sizeof *places);
    }
    for (size_t i = 0; i < b->n; i++) {
        places[i] = (struct place){window_of(made_of(&b->at[i])), b->at[i].t0_ns, i};
    }
    qsort(places, b->n, sizeof *places, by_window);
    for (size_t i = 0; i < b->n; i++) {
        (*order)[i] = places[i].at;
    }
    return ERR_OK;
}

/* -- one slice -- */

struct sample {
    struct proc_id id;
    int64_t ts_ns;
    metric_mask mask;
    bool fresh;
};

struct slice {
    struct ch_view *v;
    struct ch_view_batches *list;
    const struct ch_view_want *want;
    const size_t *order;
    size_t n;
    size_t n_metrics;
    uint8_t metrics[METRIC_COLS]; /* of the columns asked for */
    size_t n_samples, cap_samples, cap_values;
    struct sample *samples;
    int64_t *values; /* n_metrics of each sample */
    struct arena memory;
};

static void slice_fini(struct slice *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct ch_view_batch *b = &s->list->at[s->order[i]];

        wire_batch_free(b->rest);
        b->rest = NULL;
        b->wanted = b->whole = false;
    }
    mem_free(s->samples);
    mem_free(s->values);
    arena_fini(&s->memory);
}

/* The stamps that the slice's batches may have. */
static void slice_span(const struct slice *s, int64_t *first_ns, int64_t *last_ns)
{
    *first_ns = INT64_MAX;
    *last_ns = INT64_MIN;
    for (size_t i = 0; i < s->n; i++) {
        const struct ch_view_batch *b = &s->list->at[s->order[i]];

        *first_ns = b->t0_ns < *first_ns ? b->t0_ns : *first_ns;
        *last_ns = b->t1_ns > *last_ns ? b->t1_ns : *last_ns;
    }
}

enum { REST_STREAM, REST_SEQ, REST_BYTES, REST_COLUMNS };

static enum err rest_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct slice *s = ctx;
    struct ch_view_batch *b =
        ch_view_batches_find(s->list, ch_native_get(&in->columns[REST_STREAM], i),
                             ch_native_get(&in->columns[REST_SEQ], i));
    struct str bytes = ch_native_get_str(&in->columns[REST_BYTES], i);
    enum err e;

    if (!b || !b->wanted || b->rest) {
        return ERR_OK;
    }
    e = wire_batch_unpack(&b->rest, bytes.p, bytes.n);
    if (e) {
        b->rest = NULL;
    }
    return e == ERR_NOMEM ? e : ERR_OK; /* what is damaged is passed over */
}

static enum err rests_read(struct slice *s)
{
    struct ch_view *v = s->v;
    char from[CH_VIEW_FROM];
    struct ch_view_get get = {.select = "stream, seq, rest",
                              .from = ch_view_ask_from_of(from, v, CH_BATCH, CH_VIEW_STORED),
                              .order = "stream, seq",
                              .columns = REST_COLUMNS,
                              .n_bounds = 2,
                              .deadline = s->want->deadline};
    int64_t first_ns, last_ns;

    slice_span(s, &first_ns, &last_ns);
    get.bounds[0] = (struct ch_view_bound){"t0", true, first_ns, RESTS_NS};
    get.bounds[1] = (struct ch_view_bound){"t1", false, clk_add(last_ns, 1), RESTS_NS};
    return ch_view_page_get(v, s->want->host, &get, rest_take, s);
}

enum {
    SAMPLE_STREAM,
    SAMPLE_SEQ,
    SAMPLE_PID,
    SAMPLE_START,
    SAMPLE_TS,
    SAMPLE_FLAGS,
    SAMPLE_MASK,
    SAMPLE_HIGH,
    SAMPLE_VALUES
};

static enum err sample_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct slice *s = ctx;
    const struct ch_in_column *c = in->columns;
    struct ch_view_batch *b = ch_view_batches_find(s->list, ch_native_get(&c[SAMPLE_STREAM], i),
                                                   ch_native_get(&c[SAMPLE_SEQ], i));
    const struct sample *last = s->n_samples ? &s->samples[s->n_samples - 1] : NULL;
    struct sample one = {
        .id = {(uint32_t)ch_native_get(&c[SAMPLE_PID], i), ch_native_get(&c[SAMPLE_START], i)},
        .ts_ns = (int64_t)ch_native_get(&c[SAMPLE_TS], i),
        .fresh = ch_native_get(&c[SAMPLE_FLAGS], i) & CH_FRESH,
        .mask =
            metric_mask_make(ch_native_get(&c[SAMPLE_MASK], i), ch_native_get(&c[SAMPLE_HIGH], i)),
    };
    enum err e;

    if (!b || !b->wanted) {
        return ERR_OK;
    }
    if (!b->whole) {
        b->from = s->n_samples;
    } else if (b->to != s->n_samples) {
        return ERR_CORRUPT; /* not in the order that was asked for */
    } else if (proc_id_eq(last->id, one.id) && last->ts_ns == one.ts_ns) {
        return ERR_OK; /* sent twice */
    }
    e = VEC_ROOM(&s->samples, &s->cap_samples, s->n_samples + 1, SAMPLES_MAX);
    e = e ? e
          : VEC_ROOM(&s->values, &s->cap_values, (s->n_samples + 1) * s->n_metrics + 1,
                     (size_t)SAMPLES_MAX * METRIC_COLS);
    if (e) {
        return e;
    }
    for (size_t k = 0; k < s->n_metrics; k++) {
        s->values[s->n_samples * s->n_metrics + k] =
            (int64_t)ch_native_get(&c[SAMPLE_VALUES + k], i);
    }
    s->samples[s->n_samples++] = one;
    b->whole = true;
    b->to = s->n_samples;
    return ERR_OK;
}

static enum err samples_read(struct slice *s)
{
    const struct ch_column *columns;
    struct ch_view *v = s->v;
    char from[CH_VIEW_FROM], pid[32] = "", ts[64];
    struct ch_view_get get = {
        .order = "stream, seq, pid, start, ts", .n_bounds = 2, .deadline = s->want->deadline};
    int64_t first_ns, last_ns;
    struct buf select;
    enum err e;

    (void)ch_schema_columns(CH_SAMPLE, &columns);
    slice_span(s, &first_ns, &last_ns);
    buf_init(&select, SELECT_MAX);
    buf_printf(&select, "stream, seq, pid, start, %s, flags, mask, mask_high",
               ch_view_ask_ns_of(ts, v, "ts"));
    for (struct metric_mask_walk w = metric_mask_walk(s->want->rows); metric_mask_walk_next(&w);) {
        size_t at = ch_schema_metric(CH_SAMPLE, w.id);

        if (at) {
            s->metrics[s->n_metrics++] = (uint8_t)w.id;
            buf_printf(&select, ", %s", columns[at].name);
        }
    }
    if (s->want->has_pid) {
        (void)snprintf(pid, sizeof pid, " AND pid = %u", (unsigned)s->want->pid);
    }
    get.select = buf_cstr(&select);
    get.columns = SAMPLE_VALUES + s->n_metrics;
    get.from = ch_view_ask_from_of(from, v, CH_SAMPLE, pid);
    get.bounds[0] = (struct ch_view_bound){"ts", true, first_ns, AROUND_NS};
    get.bounds[1] = (struct ch_view_bound){"ts", false, clk_add(last_ns, 1), AROUND_NS};
    e = select.bad ? select.bad : ch_view_page_get(v, s->want->host, &get, sample_take, s);
    buf_fini(&select);
    return e;
}

/* -- a batch with its rows -- */

static size_t tick_of(const struct batch *b, int64_t ts_ns)
{
    size_t i;

    SEARCH_LOWER(i, b->n_ticks, b->wall_ns[i] < ts_ns);
    return i < b->n_ticks && b->wall_ns[i] == ts_ns ? i : b->n_ticks;
}

/* Runs of the samples [from, to). A sample at no tick of the batch is none of it, and left out of
 * its columns, too: it loses its mask. */
static enum err runs_make(struct slice *s, const struct ch_view_batch *b, struct batch *out)
{
    struct batch_run *runs = arena_array(&s->memory, b->to - b->from, sizeof *runs);
    metric_mask before = 0;
    size_t n = 0;

    if (!runs) {
        return arena_refused(&s->memory, (b->to - b->from) * sizeof *runs);
    }
    for (size_t i = b->from; i < b->to; i++) {
        struct sample *x = &s->samples[i];
        size_t tick = tick_of(out, x->ts_ns);
        struct batch_run *last = n ? &runs[n - 1] : NULL;

        if (tick == out->n_ticks) {
            x->mask = 0;
            continue;
        }
        if (last && proc_id_eq(last->id, x->id) && !x->fresh && before == x->mask &&
            last->first_tick + last->n_ticks == tick) {
            last->n_ticks++;
        } else {
            runs[n++] = (struct batch_run){.id = x->id,
                                           .first_tick = (uint32_t)tick,
                                           .n_ticks = 1,
                                           .fresh = x->fresh,
                                           .mask = x->mask & s->want->rows};
        }
        before = x->mask;
    }
    out->runs = runs;
    out->n_runs = n;
    return ERR_OK;
}

static enum err columns_make(struct slice *s, const struct ch_view_batch *b, struct batch *out)
{
    struct batch_column *columns = arena_array(&s->memory, s->n_metrics + 1, sizeof *columns);
    size_t n = 0;

    if (!columns) {
        return arena_refused(&s->memory, s->n_metrics * sizeof *columns);
    }
    for (size_t k = 0; k < s->n_metrics; k++) {
        int64_t *values = arena_array_unset(&s->memory, b->to - b->from, sizeof *values);
        size_t n_values = 0;

        if (!values) {
            return arena_refused(&s->memory, (b->to - b->from) * sizeof *values);
        }
        for (size_t i = b->from; i < b->to; i++) {
            if (s->samples[i].mask & METRIC_BIT(s->metrics[k])) {
                values[n_values++] = s->values[i * s->n_metrics + k];
            }
        }
        if (n_values) {
            columns[n++] = (struct batch_column){s->metrics[k], n_values, values};
        }
    }
    out->columns = columns;
    out->n_columns = n;
    return ERR_OK;
}

static enum err batch_give(struct slice *s, struct ch_view_batch *b, ch_view_rest_each each,
                           void *ctx)
{
    struct batch whole;
    enum err e = ERR_OK;

    if (!b->rest) {
        return each(ctx, b, NULL);
    }
    whole = *b->rest;
    if (b->whole) {
        arena_reset(&s->memory);
        e = runs_make(s, b, &whole);
        e = e ? e : columns_make(s, b, &whole);
    }
    return e ? e : each(ctx, b, &whole);
}

static enum err slice_read(struct slice *s)
{
    enum err e;

    for (size_t i = 0; i < s->n; i++) {
        s->list->at[s->order[i]].wanted = true;
    }
    e = rests_read(s);
    if (!e && (s->want->rows || s->want->any_row)) {
        e = samples_read(s);
    }
    return e;
}

enum err ch_view_rest_read(struct ch_view *v, struct ch_view_batches *list, const size_t *order,
                           size_t n, const struct ch_view_want *want, ch_view_rest_each each,
                           void *ctx)
{
    size_t at = 0, piece = SLICE;
    enum err e = ERR_OK;
    bool given;

    while (!e && at < n) {
        struct slice s = {.v = v,
                          .list = list,
                          .want = want,
                          .order = order + at,
                          .n = n - at < piece ? n - at : piece};

        arena_init(&s.memory, BATCH_BYTES);
        e = slice_read(&s);
        given = !e;
        for (size_t i = 0; !e && i < s.n; i++) {
            e = batch_give(&s, &list->at[s.order[i]], each, ctx);
        }
        at += e ? 0 : s.n;
        if (e == ERR_FULL && s.n > 1 && !given) { /* in smaller pieces */
            e = ERR_OK;
            piece = s.n / 2;
        }
        slice_fini(&s);
    }
    return e;
}

/* -- blocks -- */

struct blocks {
    const struct store_range *range;
    enum err (*each)(void *ctx, const struct store_block *b);
    void *ctx;
};

static enum err block_give(void *ctx, struct ch_view_batch *b, const struct batch *batch)
{
    const struct blocks *x = ctx;
    struct store_block block = {.batch = batch,
                                .clock = &b->clock,
                                .part = b->whole || !x->range->metrics ? STORE_WHOLE : STORE_REST,
                                .received_ns = b->received_ns};

    if (deadline_passed(x->range->deadline)) {
        return ERR_TIMEOUT;
    }
    if (!batch) {
        if (x->range->used) {
            x->range->used->damaged++;
            store_used_hole_add(&x->range->used->holes, b->t0_ns, b->t1_ns);
        }
        return ERR_OK;
    }
    if (x->range->used) {
        x->range->used->windows[STORE_RAW] += b->whole;
    }
    return x->range->no_rests && block.part == STORE_REST ? ERR_OK : x->each(x->ctx, &block);
}

/* What of the range could not be had, if the error is of that sort. */
static enum err note_hole(const struct store_range *r, enum err e)
{
    if (!ch_view_ask_is_hole(e)) {
        return e;
    }
    if (r->used) {
        r->used->damaged++;
        r->used->far = true;
        store_used_hole_add(&r->used->holes, r->since_ns, clk_sub(r->until_ns, 1));
    }
    return ERR_OK;
}

/* Those made in time. by_made: by when they were made, not by their newest stamp alone. */
static size_t wanted_keep(const struct ch_view_batches *list, size_t *order,
                          const struct store_range *r, bool by_made)
{
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++) {
        const struct ch_view_batch *b = &list->at[order[i]];
        int64_t last_ns = clk_add(b->t1_ns, b->clock.known ? b->clock.offset_ns : 0);

        last_ns = by_made ? made_of(b) : last_ns;
        if (last_ns >= r->made_since_ns) {
            order[n++] = order[i];
        }
    }
    return n;
}

static enum err blocks_read(struct ch_view *v, size_t host, const struct store_range *range,
                            bool by_made, enum err (*each)(void *ctx, const struct store_block *b),
                            void *ctx)
{
    const struct ch_view_want want = {.host = host,
                                      .rows = range->metrics,
                                      .has_pid = range->has_pid,
                                      .pid = range->pid,
                                      .deadline = range->deadline};
    struct blocks x = {range, each, ctx};
    struct ch_view_batches list;
    size_t *order;
    enum err e =
        ch_view_batches_ask(v, host, range->since_ns, range->until_ns, range->deadline, &list);

    e = e ? e : ch_view_rest_order(&list, &order);
    if (!e) {
        e = ch_view_rest_read(v, &list, order, wanted_keep(&list, order, range, by_made), &want,
                              block_give, &x);
    }
    ch_view_batches_fini(&list);
    return note_hole(range, e);
}

enum err ch_view_rest_blocks(const struct store_view *v, size_t host,
                             const struct store_range *range,
                             enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    return blocks_read(ch_view_ask_of(v), host, range, false, each, ctx);
}

enum err ch_view_rest_accounts(const struct store_view *v, size_t host,
                               const struct store_range *range,
                               enum err (*each_account)(void *ctx, const struct loss_sum *a),
                               enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    struct store_range rests = *range;
    struct blocks x = {&rests, each, ctx};
    bool told;
    enum err e;

    rests.metrics = 0;
    e = ch_view_told_scan(ch_view_ask_of(v), host, &rests, each_account, ctx, block_give, &x,
                          &told);
    return told ? note_hole(range, e)
                : blocks_read(ch_view_ask_of(v), host, &rests, true, each, ctx);
}
