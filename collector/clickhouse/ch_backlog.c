#include "collector/clickhouse/ch_backlog.h"

#include <string.h>

#include "collector/store/batch_time.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

#define RESTS_MAX   65536u /* of a window; beyond, what is there is given without rows */
#define RESTS_BYTES ((size_t)256 << 20)

/* A batch of the window at hand without its rows, packed; of events of providers a second one. */
struct kept {
    uint64_t stream, seq;
    struct host_offset clock;
    int64_t received_ns;
    size_t at, n, events_at, events_n; /* in bytes */
    bool done;
};

struct span {
    const struct ch_backlog *b;
    const struct store_host *host;
    struct wire_encoder *encoder;
    struct kept *kept;
    size_t n, cap;
    struct buf bytes;
    bool rows_came;         /* of the window at hand: the next rest is of the next one */
    bool taken;             /* something sealed was */
    int64_t seen_ns, t0_ns; /* newest and oldest stamp of those */
};

/* -- rests of a window -- */

static struct kept *kept_find(struct span *s, const struct batch_head *head)
{
    for (size_t i = s->n; i-- > 0;) {
        if (s->kept[i].stream == head->stream && s->kept[i].seq == head->seq) {
            return &s->kept[i];
        }
    }
    return NULL;
}

static enum err kept_add(struct span *s, const struct store_block *block)
{
    const struct batch *rest = block->batch;
    struct kept *k = kept_find(s, &rest->head);
    size_t at = s->bytes.n;
    enum err e = VEC_ROOM(&s->kept, &s->cap, s->n + 1, RESTS_MAX);

    e = e ? e : wire_batch_pack(s->encoder, &s->bytes, rest);
    if (e) {
        return e;
    }
    if (!k) {
        k = &s->kept[s->n++];
        *k = (struct kept){.stream = rest->head.stream,
                           .seq = rest->head.seq,
                           .clock = *block->clock,
                           .received_ns = block->received_ns,
                           .at = at,
                           .n = s->bytes.n - at};
        return ERR_OK;
    }
    k->events_at = at;
    k->events_n = s->bytes.n - at;
    return ERR_OK;
}

/* Both lists in the order of time, `a` first where that says nothing. */
static void events_merge(struct life_event *out, const struct batch *a, const struct batch *b)
{
    size_t i = 0, k = 0;

    while (i < a->n_events || k < b->n_events) {
        bool first =
            k == b->n_events || (i < a->n_events && a->events[i].mono_ns <= b->events[k].mono_ns);

        *out++ = first ? a->events[i++] : b->events[k++];
    }
}

/* Where the batch's ticks lie in the rows; rows->n_ticks: not there, side by side. */
static size_t ticks_find(const struct batch *rest, const struct batch *rows)
{
    size_t at = 0, n = rest->n_ticks;

    if (memcmp(&rest->head.boot, &rows->head.boot, sizeof rest->head.boot) != 0 ||
        n > rows->n_ticks) {
        return rows->n_ticks;
    }
    for (size_t end = rows->n_ticks; at < end;) {
        size_t middle = at + (end - at) / 2;

        if (rows->wall_ns[middle] < rest->wall_ns[0]) {
            at = middle + 1;
        } else {
            end = middle;
        }
    }
    return at + n <= rows->n_ticks &&
                   memcmp(rows->wall_ns + at, rest->wall_ns, n * sizeof *rest->wall_ns) == 0 &&
                   memcmp(rows->mono_ns + at, rest->mono_ns, n * sizeof *rest->mono_ns) == 0
               ? at
               : rows->n_ticks;
}

static enum err kept_take(struct span *s, struct kept *k, const struct batch *rest,
                          const struct batch *events, const struct batch *rows, size_t first_tick)
{
    struct batch whole = *rest;
    struct ch_rows_batch b = {.rest = &whole,
                              .rows = rows,
                              .first_tick = first_tick,
                              .clock = &k->clock,
                              .received_ns = k->received_ns,
                              .host_name = s->host->name};
    struct life_event *merged = NULL;
    int64_t t0_ns, t1_ns;
    enum err e;

    if (events && events->n_events) {
        merged = mem_array(rest->n_events + events->n_events, sizeof *merged);
        if (!merged) {
            return ERR_NOMEM;
        }
        events_merge(merged, rest, events);
        whole.events = merged;
        whole.n_events = rest->n_events + events->n_events;
    }
    whole.head.host = s->host->id;
    batch_time_span(&whole, k->received_ns, &t0_ns, &t1_ns);
    s->seen_ns = t1_ns > s->seen_ns ? t1_ns : s->seen_ns;
    s->t0_ns = t0_ns < s->t0_ns ? t0_ns : s->t0_ns;
    s->taken = k->done = true;
    e = s->b->take(s->b->ctx, &b);
    mem_free(merged);
    return e;
}

/* Gives the batch with these rows when they have it; rows NULL: without any. */
static enum err kept_try(struct span *s, struct kept *k, const struct batch *rows)
{
    struct batch *rest = NULL, *events = NULL;
    enum err e = wire_batch_unpack(&rest, s->bytes.p + k->at, k->n);
    size_t at = 0;

    if (!e && rows && (!rest->n_ticks || (at = ticks_find(rest, rows)) == rows->n_ticks)) {
        wire_batch_free(rest);
        return ERR_OK;
    }
    if (!e && k->events_n) {
        e = wire_batch_unpack(&events, s->bytes.p + k->events_at, k->events_n);
    }
    e = e ? e : kept_take(s, k, rest, events, rows, at);
    wire_batch_free(events);
    wire_batch_free(rest);
    return e;
}

static enum err kept_try_all(struct span *s, const struct batch *rows)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < s->n && !e; i++) {
        e = s->kept[i].done ? ERR_OK : kept_try(s, &s->kept[i], rows);
    }
    return e;
}

/* The window is over: batches of which no rows came have none, or none any more. */
static enum err window_end(struct span *s)
{
    enum err e = kept_try_all(s, NULL);

    s->n = 0;
    s->rows_came = false;
    buf_reset(&s->bytes);
    return e;
}

/* -- what the store gives -- */

static bool is_sent(const struct span *s, const struct batch_head *head)
{
    return s->b->is_sent(s->b->ctx, &s->host->id, head->stream, head->seq);
}

static enum err span_block(void *ctx, const struct store_block *block)
{
    struct span *s = ctx;
    enum err e = ERR_OK;

    if (block->part == STORE_ROWS) {
        s->rows_came = true;
        return kept_try_all(s, block->batch);
    }
    if (s->rows_came) {
        e = window_end(s);
    }
    if (e || is_sent(s, &block->batch->head)) {
        return e;
    }
    if (block->part == STORE_WHOLE) {
        const struct ch_rows_batch b = {.rest = block->batch,
                                        .rows = block->batch,
                                        .clock = block->clock,
                                        .received_ns = block->received_ns,
                                        .host_name = s->host->name};

        return s->b->take(s->b->ctx, &b);
    }
    e = kept_add(s, block);
    if (e == ERR_FULL) { /* windows without rows, one after the other */
        e = window_end(s);
        e = e ? e : kept_add(s, block);
    }
    return e;
}

static enum err span_info(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    struct span *s = ctx;

    return s->b->process(s->b->ctx, &s->host->id, boot, info, s->seen_ns);
}

enum err ch_backlog_span(const struct ch_backlog *b, size_t host, int64_t since_ns,
                         int64_t until_ns)
{
    struct span s = {
        .b = b, .host = store_view_host(b->view, host), .seen_ns = INT64_MIN, .t0_ns = INT64_MAX};
    const struct store_range range = {.since_ns = INT64_MIN,
                                      .until_ns = INT64_MAX,
                                      .window_since_ns = since_ns,
                                      .window_until_ns = until_ns,
                                      .made_since_ns = INT64_MIN,
                                      .metrics = METRIC_ALL,
                                      .providers = true};
    struct store_instances of;
    enum err e = since_ns < until_ns ? wire_batch_encoder_create(&s.encoder) : ERR_END;

    if (e) {
        return e == ERR_END ? ERR_OK : e;
    }
    buf_init(&s.bytes, RESTS_BYTES);
    e = store_blocks_scan(b->view, host, &range, span_block, &s);
    e = e ? e : window_end(&s);
    if (!e && s.taken && b->process) {
        of = (struct store_instances){.since_ns = s.t0_ns, .until_ns = clk_add(s.seen_ns, 1)};
        e = store_info_each(b->view, host, &of, span_info, &s);
    }
    buf_fini(&s.bytes);
    mem_free(s.kept);
    wire_batch_encoder_destroy(s.encoder);
    return e;
}

/* -- the head -- */

static enum err head_raw(void *ctx, const struct store_raw *raw)
{
    struct span *s = ctx;
    struct ch_rows_batch b = {
        .clock = raw->clock, .received_ns = raw->received_ns, .host_name = s->host->name};
    struct batch *batch;
    enum err e;

    if (s->b->is_sent(s->b->ctx, &s->host->id, raw->stream, raw->seq)) {
        return ERR_OK;
    }
    e = wire_batch_decode(&batch, raw->bytes, raw->n);
    if (e) {
        return e == ERR_NOMEM ? e : ERR_OK;
    }
    batch->head.host = s->host->id;
    b.rest = b.rows = batch;
    e = s->b->take(s->b->ctx, &b);
    wire_batch_free(batch);
    return e;
}

enum err ch_backlog_head(const struct ch_backlog *b, size_t host)
{
    struct span s = {.b = b, .host = store_view_host(b->view, host)};
    struct store_raw_ask ask = {.since_ns = INT64_MIN, .until_ns = INT64_MAX};

    return store_view_raw(b->view, host, &ask, head_raw, &s);
}

enum err ch_backlog_heads(const struct ch_backlog *b, struct store *store)
{
    struct ch_backlog all = *b;
    struct store_view *view;
    enum err e = store_view_open(&view, store);

    if (e) {
        return e;
    }
    all.view = view;
    for (size_t i = 0; i < store_view_hosts(view) && !e; i++) {
        e = ch_backlog_head(&all, i);
    }
    store_view_close(view);
    return e;
}
