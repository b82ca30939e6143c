#include "collector/store/store_blocks.h"

#include <stdlib.h>

#include "collector/store/raw_value.h"
#include "collector/store/rest_value.h"
#include "collector/store/store_impl.h"
#include "collector/store/store_unread.h"
#include "collector/store/store_windows.h"
#include "common/clk.h"
#include "common/deadline.h"
#include "common/mem.h"

/* Reading batches of a host, sealed and not, in the order of their windows.
 *
 * Everything that meets the range is listed first: windows of rest segments, windows of raw
 * segments, batches of the head. Then window by window the rests and the head's batches are given,
 * then the rows. A window may be there several times, in patches too: what they hold is merged by
 * its stamps; a host so busy that its window was sealed in many pieces gets them one by one. Memory
 * is one arena for the lists and one that is emptied for every window. */

#define LISTS_BYTES ((size_t)64 << 20)

/* In the order in which they are given. */
enum source_kind { SOURCE_REST, SOURCE_HEAD, SOURCE_ROWS };

struct source {
    enum source_kind kind;
    int64_t window_ns;
    const struct store_window *sealed; /* NULL: of the head */
    const struct head_batch *batch;    /* of the head */
};

/* Something of a window that can be given: exactly one of the three. */
struct item {
    int64_t when_ns;
    uint64_t stream, seq;
    const struct window_rest *rest;
    const struct window_part *part;
    const struct head_batch *batch;
};

struct scan {
    const struct store_view *v;
    size_t host;
    const struct store_range *range;
    enum err (*each)(void *ctx, const struct store_block *b);
    void *ctx;
    struct packer *packer; /* NULL until something sealed is read */
    struct arena lists, memory;
    struct source *sources;
    size_t n_sources;
    struct item *items; /* of the window, in `memory` */
    size_t n_items, cap_items;
    uint32_t rows_read, batches_read;
};

/* -- listing -- */

static int by_window(const void *x, const void *y)
{
    const struct source *a = x, *b = y;

    if (a->window_ns != b->window_ns) {
        return a->window_ns < b->window_ns ? -1 : 1;
    }
    return (int)a->kind - (int)b->kind;
}

static void add_sealed(struct scan *s, enum source_kind kind, const struct store_window *list,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->sources[s->n_sources++] = (struct source){kind, list[i].window_ns, &list[i], NULL};
    }
}

/* Behind this nothing of the batch is wanted. Not head_made: what is asked for goes by the
 * corrected stamps of what is inside, also where they are later than the arrival. */
static bool made_before(const struct scan *s, int64_t t1_ns, const struct host_offset *clock)
{
    return clk_add(t1_ns, clock->known ? clock->offset_ns : 0) < s->range->made_since_ns;
}

static enum err list_sources(struct scan *s, size_t host, const struct head_batch **batches,
                             size_t n_batches)
{
    const struct store_range *r = s->range;
    struct store_window *rests = NULL, *rows = NULL;
    size_t n_rests = 0, n_rows = 0, n;
    enum err e = ERR_OK;

    if (!r->no_rests) {
        e = store_windows(&rests, &n_rests, &s->lists, s->v, host, SEG_REST, r->since_ns,
                          r->until_ns, r->used);
    }
    if (!e && r->metrics) {
        e = store_windows(&rows, &n_rows, &s->lists, s->v, host, SEG_RAW, r->since_ns, r->until_ns,
                          r->used);
    }
    if (e) {
        return e;
    }
    n = n_rests + n_rows + n_batches;
    s->sources = arena_array(&s->lists, n, sizeof *s->sources);
    if (!s->sources) {
        return arena_refused(&s->lists, n * sizeof *s->sources);
    }
    add_sealed(s, SOURCE_REST, rests, n_rests);
    add_sealed(s, SOURCE_ROWS, rows, n_rows);
    for (size_t i = 0; i < n_batches; i++) {
        if (!made_before(s, batches[i]->t1_ns, &batches[i]->clock)) {
            s->sources[s->n_sources++] =
                (struct source){SOURCE_HEAD, window_of(batches[i]->made_ns), NULL, batches[i]};
        }
    }
    qsort(s->sources, s->n_sources, sizeof *s->sources, by_window);
    return ERR_OK;
}

/* -- one window -- */

static enum err item_add(struct scan *s, const struct item *item)
{
    if (s->n_items == s->cap_items) {
        size_t cap = s->cap_items ? s->cap_items * 2 : 64;
        struct item *more = arena_array(&s->memory, cap, sizeof *more);

        if (!more) {
            return arena_refused(&s->memory, cap * sizeof *more);
        }
        if (s->n_items) {
            memcpy(more, s->items, s->n_items * sizeof *more);
        }
        s->items = more;
        s->cap_items = cap;
    }
    s->items[s->n_items++] = *item;
    return ERR_OK;
}

static bool outside(const struct scan *s, int64_t t0_ns, int64_t t1_ns,
                    const struct host_offset *clock)
{
    return t0_ns >= s->range->until_ns || t1_ns < s->range->since_ns ||
           made_before(s, t1_ns, clock);
}

static enum err read_rests(struct scan *s, const struct store_window *w)
{
    struct window_rest *rests;
    size_t n = 0;
    enum err e = rest_value_read(w->seg, s->packer, &s->memory, w->host, w->window, &rests, &n);

    for (size_t i = 0; i < n && !e; i++) {
        const struct batch *b = &rests[i].batch;
        struct item item = {.stream = b->head.stream, .seq = b->head.seq, .rest = &rests[i]};
        int64_t t1_ns;

        store_span(b, rests[i].received_ns, &item.when_ns, &t1_ns);
        if (!outside(s, item.when_ns, t1_ns, &rests[i].clock)) {
            e = item_add(s, &item);
        }
    }
    return e;
}

static enum err read_rows(struct scan *s, const struct store_window *w)
{
    const struct raw_want want = {s->range->metrics, s->range->has_pid, s->range->pid};
    struct window_part *parts;
    size_t n = 0;
    enum err e =
        raw_value_read(w->seg, s->packer, &s->memory, w->host, w->window, &want, &parts, &n);

    s->rows_read += !e;
    for (size_t i = 0; i < n && !e; i++) {
        const struct batch *b = &parts[i].rows;
        struct item item = {.part = &parts[i]};

        if (b->n_ticks == 0) {
            continue;
        }
        item.when_ns = b->wall_ns[0];
        if (!outside(s, b->wall_ns[0], b->wall_ns[b->n_ticks - 1], &parts[i].clock)) {
            e = item_add(s, &item);
        }
    }
    return e;
}

static enum err sealed_left_out(struct scan *s, const struct source *from, enum err e)
{
    store_unread(s->v, s->host, s->range->used, STORE_UNREAD_SEGMENT, from->sealed->t0_ns,
                 from->sealed->t1_ns, e);
    return ERR_OK;
}

static enum err read_source(struct scan *s, const struct source *from)
{
    const struct head_batch *b = from->batch;
    enum err e;

    if (b) {
        struct item item = {.when_ns = b->t0_ns, .stream = b->stream, .seq = b->seq, .batch = b};

        return item_add(s, &item);
    }
    if (!s->packer) {
        e = store_view_packer(s->v, &s->packer);
        if (e) {
            return e;
        }
    }
    e = from->kind == SOURCE_REST ? read_rests(s, from->sealed) : read_rows(s, from->sealed);
    if (e == ERR_NOTFOUND) { /* the host has nothing of that sort there */
        return ERR_OK;
    }
    return store_unread_is(e) ? sealed_left_out(s, from, e) : e;
}

static int by_stamp(const void *x, const void *y)
{
    const struct item *a = x, *b = y;

    if (a->when_ns != b->when_ns) {
        return a->when_ns < b->when_ns ? -1 : 1;
    }
    if (a->stream != b->stream) {
        return a->stream < b->stream ? -1 : 1;
    }
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static enum err give_batch(struct scan *s, const struct head_batch *kept)
{
    struct store_block block = {
        .clock = &kept->clock, .part = STORE_WHOLE, .received_ns = kept->received_ns};
    struct batch *b;
    enum err e = store_view_decode(s->v, &b, s->range->metrics, kept);

    if (store_unread_is_batch(e)) {
        store_unread(s->v, s->host, s->range->used, STORE_UNREAD_LOG, kept->t0_ns, kept->t1_ns, e);
        return ERR_OK;
    }
    if (!e) {
        s->batches_read++;
        block.batch = b;
        e = s->each(s->ctx, &block);
        wire_batch_free(b);
    }
    return e;
}

static enum err give(struct scan *s, const struct item *item)
{
    struct store_block block = {.part = STORE_REST};

    if (item->batch) {
        return give_batch(s, item->batch);
    }
    if (item->rest) {
        block.batch = &item->rest->batch;
        block.clock = &item->rest->clock;
        block.received_ns = item->rest->received_ns;
    } else {
        block.part = STORE_ROWS;
        block.batch = &item->part->rows;
        block.clock = &item->part->clock;
        block.received_ns = item->part->received_ns;
    }
    return s->each(s->ctx, &block);
}

static enum err read_sources(struct scan *s, const struct source *list, size_t n)
{
    enum err e = ERR_OK;

    arena_reset(&s->memory);
    s->items = NULL;
    s->n_items = s->cap_items = 0;
    s->rows_read = 0;
    for (size_t i = 0; i < n && !e; i++) {
        e = read_source(s, &list[i]);
    }
    return e;
}

/* Gives what was read. */
static enum err give_items(struct scan *s)
{
    enum err e = ERR_OK;

    if (s->n_items) {
        qsort(s->items, s->n_items, sizeof *s->items, by_stamp);
    }
    if (s->range->used) {
        s->range->used->windows[STORE_RAW] += s->rows_read;
    }
    for (size_t i = 0; i < s->n_items && !e; i++) {
        e = give(s, &s->items[i]);
    }
    return e;
}

/* Sources of one window, all of rows or none: together, or when that is too much, one by one. */
static enum err scan_sources(struct scan *s, const struct source *list, size_t n)
{
    enum err e = read_sources(s, list, n);

    if (e != ERR_FULL) {
        return e ? e : give_items(s);
    }
    if (n == 1) { /* of rows a narrower question needs less, of rests none does */
        return list->kind == SOURCE_REST ? sealed_left_out(s, list, e) : e;
    }
    e = ERR_OK;
    for (size_t i = 0; i < n && !e; i++) {
        e = read_sources(s, &list[i], 1);
        if (!e) {
            e = give_items(s);
        } else if (e == ERR_FULL && list[i].kind == SOURCE_REST) {
            e = sealed_left_out(s, &list[i], e);
        }
    }
    return e;
}

static bool is_late(const struct scan *s)
{
    return deadline_passed(s->range->deadline);
}

static enum err scan_windows(struct scan *s)
{
    const struct source *list = s->sources;
    size_t begin = 0, end;
    enum err e = ERR_OK;

    for (; begin < s->n_sources && !e; begin = end) {
        bool rows = list[begin].kind == SOURCE_ROWS;

        for (end = begin; end < s->n_sources && list[end].window_ns == list[begin].window_ns &&
                          (list[end].kind == SOURCE_ROWS) == rows;
             end++) {
        }
        s->batches_read = 0;
        e = is_late(s) ? ERR_TIMEOUT : scan_sources(s, list + begin, end - begin);
        if (s->batches_read && s->range->used) {
            s->range->used->windows[STORE_HEAD]++;
        }
    }
    return e;
}

enum err store_blocks_scan(const struct store_view *v, size_t host, const struct store_range *range,
                           size_t window_bytes,
                           enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    struct scan s = {.v = v, .host = host, .range = range, .each = each, .ctx = ctx};
    const struct head_batch **batches;
    size_t n;
    enum err e = head_view_batches(v->head, host, range->since_ns, range->until_ns, &batches, &n);

    if (e) {
        return e;
    }
    arena_init(&s.lists, LISTS_BYTES);
    arena_init(&s.memory, window_bytes);
    e = list_sources(&s, host, batches, n);
    if (!e) {
        e = scan_windows(&s);
    }
    arena_fini(&s.memory);
    arena_fini(&s.lists);
    mem_free(batches);
    return e;
}

enum err store_scan_blocks(const struct store_view *v, size_t host, const struct store_range *range,
                           enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    return store_blocks_scan(v, host, range, STORE_BLOCKS_BYTES, each, ctx);
}
