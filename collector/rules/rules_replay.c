/* A sealed window comes as the rests of its batches, each with its ticks' stamps, and then the rows
 * of all of them, joined (store_read.h). Rests wait in a list until the rows are there; then each
 * is given with the part of the rows that its ticks are. Batches of the head that lie between are
 * held in the same list. What has no rows by the end of its window is given without. */
#include "collector/rules/rules_replay.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"

#define LIST_MAX    65536u
#define MEMORY_MAX  ((size_t)64 << 20)
#define STREAMS_MAX (1u << 20)

/* A batch that came: of a sealed one its ticks, of the head all of it. */
struct arrived {
    struct batch ticks; /* without runs */
    struct batch *whole;
    struct rules_rest rest;
    struct host_offset clock;
    int64_t received_ns;
    uint32_t tag;
};

struct stream {
    struct uuid host;
    uint64_t stream, seq, floor;
};

struct rules_replay {
    const struct store_view *view;
    metric_mask metrics;
    bool whole_info;
    struct rules_judge *judge; /* while a host is given */
    const struct store_host *about;
    size_t host;
    int64_t since_ns, until_ns;
    struct arena memory; /* of the list */
    size_t n, cap, done;
    struct arrived *list;
    bool rows; /* of the window have come: what comes next is of another */
    uint32_t tag;
    size_t n_streams, cap_streams;
    struct stream *streams;
};

enum err rules_replay_create(struct rules_replay **out, const struct rules_conf *rules,
                             const struct store_view *view)
{
    struct rules_replay *r = mem_zalloc(sizeof *r);

    if (!r) {
        return ERR_NOMEM;
    }
    r->view = view;
    arena_init(&r->memory, MEMORY_MAX);
    for (size_t i = 0; i < rules_conf_n(rules); i++) {
        const struct rules_rule *rule = rules_conf_rule(rules, i);

        r->whole_info = r->whole_info || rule->where_unsure;
        for (size_t c = 0; c < rule->n_calls; c++) {
            if (rule->calls[c].source <= RULES_CPU) {
                r->metrics |= METRIC_BIT(rule->calls[c].metric);
            }
        }
    }
    if (!r->metrics) { /* rows tell which processes there are */
        r->metrics = METRIC_BIT(M_CPU_TIME);
    }
    *out = r;
    return ERR_OK;
}

static void list_clear(struct rules_replay *r)
{
    for (size_t i = 0; i < r->n; i++) {
        wire_batch_free(r->list[i].whole);
    }
    r->n = r->done = 0;
    r->rows = false;
    arena_reset(&r->memory);
}

void rules_replay_destroy(struct rules_replay *r)
{
    if (r) {
        list_clear(r);
        mem_free(r->list);
        mem_free(r->streams);
        arena_fini(&r->memory);
        mem_free(r);
    }
}

bool rules_replay_info(void *ctx, const struct uuid *host, const struct uuid *boot,
                       struct proc_id id, struct proc_info *out)
{
    const struct rules_replay *r = ctx;

    (void)host; /* the one that is given */
    return r->whole_info ? store_info(r->view, r->host, boot, id, out)
                         : store_info_brief(r->view, r->host, boot, id, out);
}

/* -- streams -- */

static size_t stream_place(const struct rules_replay *r, const struct uuid *host, uint64_t stream)
{
    size_t i;

    SEARCH_LOWER(i, r->n_streams,
                 memcmp(r->streams[i].host.b, host->b, sizeof host->b) < 0 ||
                     (memcmp(r->streams[i].host.b, host->b, sizeof host->b) == 0 &&
                      r->streams[i].stream < stream));
    return i;
}

static bool stream_is(const struct rules_replay *r, size_t i, const struct uuid *host,
                      uint64_t stream)
{
    return i < r->n_streams && r->streams[i].stream == stream &&
           memcmp(r->streams[i].host.b, host->b, sizeof host->b) == 0;
}

void rules_replay_note(struct rules_replay *r, const struct uuid *host, uint64_t stream,
                       uint64_t seq)
{
    size_t i = stream_place(r, host, stream);

    if (!stream_is(r, i, host, stream)) {
        if (VEC_ROOM(&r->streams, &r->cap_streams, r->n_streams + 1, STREAMS_MAX)) {
            return;
        }
        memmove(r->streams + i + 1, r->streams + i, (r->n_streams - i) * sizeof *r->streams);
        r->streams[i] = (struct stream){.host = *host, .stream = stream};
        r->n_streams++;
    }
    r->streams[i].seq = seq > r->streams[i].seq ? seq : r->streams[i].seq;
}

static bool stream_is_known(const struct rules_replay *r, const struct batch *b)
{
    size_t i = stream_place(r, &r->about->id, b->head.stream);

    return stream_is(r, i, &r->about->id, b->head.stream) && b->head.seq <= r->streams[i].floor;
}

void rules_replay_begin(struct rules_replay *r, const struct store_view *view)
{
    r->view = view;
    for (size_t i = 0; i < r->n_streams; i++) {
        r->streams[i].floor = r->streams[i].seq;
    }
}

bool rules_replay_last(const struct rules_replay *r, const struct uuid *host, uint64_t stream,
                       uint64_t *seq)
{
    size_t i = stream_place(r, host, stream);

    if (!stream_is(r, i, host, stream)) {
        return false;
    }
    *seq = r->streams[i].seq;
    return true;
}

/* -- giving -- */

static struct rules_input input_of(const struct rules_replay *r, const struct arrived *a)
{
    return (struct rules_input){.host = r->about->name,
                                .id = &r->about->id,
                                .rest = &a->ticks,
                                .n_ticks = a->ticks.n_ticks,
                                .clock = &a->clock,
                                .received_ns = a->received_ns};
}

/* Ticks [at, …) of the rows are the batch's; rows NULL: there are none. */
static enum err arrived_give(struct rules_replay *r, const struct arrived *a,
                             const struct batch *rows, size_t at)
{
    struct rules_input in = input_of(r, a);

    if (a->whole) {
        in.rows = a->whole;
    } else if (rows) {
        in.rows = rows;
        in.tick = at;
    }
    return rules_judge_rows(r->judge, &in, a->tag, &a->rest);
}

/* Where the batch's first tick is among the rows'; n_ticks: it is not, or not all of it. */
static size_t rows_place(const struct batch *rows, const struct batch *ticks)
{
    size_t i, n = ticks->n_ticks;

    SEARCH_LOWER(i, rows->n_ticks, rows->wall_ns[i] < ticks->wall_ns[0]);
    return i + n <= rows->n_ticks && rows->wall_ns[i] == ticks->wall_ns[0] &&
                   rows->wall_ns[i + n - 1] == ticks->wall_ns[n - 1] &&
                   memcmp(rows->head.boot.b, ticks->head.boot.b, sizeof rows->head.boot.b) == 0
               ? i
               : rows->n_ticks;
}

/* Gives what these rows are of, in order. */
static enum err rows_give(struct rules_replay *r, const struct batch *rows)
{
    enum err e = ERR_OK;

    while (!e && r->done < r->n) {
        const struct arrived *a = &r->list[r->done];
        size_t at = 0;

        if (!a->whole && a->ticks.n_ticks) {
            at = rows_place(rows, &a->ticks);
            if (at == rows->n_ticks && a->ticks.wall_ns[0] >= rows->wall_ns[0]) {
                break; /* of the next part of the window */
            }
        }
        e = arrived_give(r, a, at < rows->n_ticks ? rows : NULL, at);
        r->done++;
    }
    r->rows = true;
    return e;
}

static enum err list_flush(struct rules_replay *r)
{
    enum err e = ERR_OK;

    for (; !e && r->done < r->n; r->done++) {
        e = arrived_give(r, &r->list[r->done], NULL, 0);
    }
    list_clear(r);
    return e;
}

/* -- taking -- */

static int64_t newest_stamp(const struct batch *b)
{
    int64_t tick = b->n_ticks ? b->wall_ns[b->n_ticks - 1] : INT64_MIN;
    int64_t event = b->n_events ? b->events[b->n_events - 1].wall_ns : INT64_MIN;

    return tick > event ? tick : event;
}

static enum err arrived_keep(struct rules_replay *r, struct arrived *a, const struct batch *b,
                             bool whole)
{
    a->ticks = (struct batch){.head = b->head, .n_ticks = b->n_ticks};
    if (whole) {
        a->whole = wire_batch_hold((struct batch *)(uintptr_t)b); /* the head decoded it */
        a->ticks.wall_ns = a->whole->wall_ns;
        a->ticks.mono_ns = a->whole->mono_ns;
        return ERR_OK;
    }
    a->ticks.wall_ns = arena_dup(&r->memory, b->wall_ns, b->n_ticks * sizeof *b->wall_ns);
    a->ticks.mono_ns = arena_dup(&r->memory, b->mono_ns, b->n_ticks * sizeof *b->mono_ns);
    return a->ticks.wall_ns && a->ticks.mono_ns ? ERR_OK : ERR_FULL;
}

static enum err batch_take(struct rules_replay *r, const struct store_block *block)
{
    const struct batch *b = block->batch;
    int64_t newest_ns = newest_stamp(b);
    struct rules_input in = {.host = r->about->name,
                             .id = &r->about->id,
                             .rest = b,
                             .clock = block->clock,
                             .received_ns = block->received_ns};
    struct arrived a = {.received_ns = block->received_ns, .tag = ++r->tag};
    enum err e;

    if (newest_ns < r->since_ns || newest_ns >= r->until_ns || (b->head.flags & BATCH_REPLAY) ||
        stream_is_known(r, b)) {
        return ERR_OK;
    }
    a.clock = block->clock ? *block->clock : a.clock;
    e = VEC_ROOM(&r->list, &r->cap, r->n + 1, LIST_MAX);
    e = e ? e : arrived_keep(r, &a, b, block->part == STORE_WHOLE);
    if (e) {
        return e;
    }
    r->list[r->n++] = a;
    rules_replay_note(r, &r->about->id, b->head.stream, b->head.seq);
    return rules_judge_rest(r->judge, &in, a.tag, &r->list[r->n - 1].rest);
}

static enum err block_take(void *ctx, const struct store_block *block)
{
    struct rules_replay *r = ctx;
    enum err e = ERR_OK;

    if (block->part == STORE_ROWS) {
        return rows_give(r, block->batch);
    }
    if (r->rows) {
        e = list_flush(r);
    }
    return e ? e : batch_take(r, block);
}

/* One that was there before is judged from the beginning, also where nothing came. */
static enum err host_begin(const struct rules_replay *r, struct rules_judge *j)
{
    const struct store_host *h = r->about;
    int64_t off = h->clock.known ? h->clock.offset_ns : 0;

    return h->first_ns < r->since_ns && !(h->flags & BATCH_REPLAY) &&
                   rules_judge_host_step(j, &h->id) == 0
               ? rules_judge_begin(j, h->name, &h->id, clk_add(r->since_ns, off),
                                   clk_add(h->first_ns, off))
               : ERR_OK;
}

enum err rules_replay_host(struct rules_replay *r, struct rules_judge *j, size_t host,
                           int64_t since_ns, int64_t until_ns, const struct deadline *deadline)
{
    const struct store_range range = {.since_ns = since_ns,
                                      .until_ns = until_ns,
                                      .made_since_ns = INT64_MIN,
                                      .metrics = r->metrics,
                                      .deadline = deadline};
    enum err e, flushed;

    r->judge = j;
    r->host = host;
    r->about = store_view_host(r->view, host);
    r->since_ns = since_ns;
    r->until_ns = until_ns;
    e = host_begin(r, j);
    e = e ? e : store_blocks_scan(r->view, host, &range, block_take, r);
    flushed = list_flush(r);
    return e ? e : flushed;
}
