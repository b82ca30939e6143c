#include "collector/store/read/store_blocks.h"

#include <stdlib.h>

#include "collector/store/batch_time.h"
#include "collector/store/meta/meta.h"
#include "collector/store/meta/prov_value.h"
#include "collector/store/read/store_unread.h"
#include "collector/store/read/store_view.h"
#include "collector/store/read/store_windows.h"
#include "collector/store/segment/raw.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/deadline.h"

/* Reading batches of a host, sealed and not, in the order of their windows.
 *
 * Everything that meets the range is listed first: windows of rest segments, windows of raw
 * segments, batches of the head. Then window by window the rests and the head's batches are given,
 * then the rows. A window may be there several times, in patches too: what they hold is merged by
 * its stamps.
 *
 * Batches are read one by one. Of the rests that is one batch and the bytes of its chunk for each
 * value that is open, and one is open only from its first stamp to its last: as a rule one at a
 * time. Beyond RESTS_BYTES no further one is opened before another ends; then the order is that
 * of the stamps no more, only that of the windows. Rows are joined over batches and read at once;
 * of a host so busy that its window was sealed in many pieces, piece by piece. */

#define LISTS_BYTES ((size_t)64 << 20)
#define RESTS_BYTES ((size_t)8 << 20)

enum source_kind { SOURCE_REST, SOURCE_PROVIDER, SOURCE_HEAD, SOURCE_ROWS };

struct source {
    enum source_kind kind;
    int64_t window_ns, first_ns;
    const struct store_window *sealed; /* NULL: of the head */
    const struct head_batch *batch;    /* of the head */
};

/* A source of batches under way, and the next one of it. */
struct flow {
    const struct source *from;
    struct meta_reader *rests; /* both NULL: of the head */
    struct prov_reader *events;
    const struct window_rest *rest;
    int64_t when_ns;
    uint64_t stream, seq;
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
    struct flow *flows; /* those that are open; room for all */
    size_t n_flows;
    const struct window_part **parts; /* of the window, likewise */
    size_t n_parts, cap_parts;
    uint32_t n_read, batches_read; /* windows of rows; batches of the head */
};

/* -- listing -- */

/* Rows last. */
static int by_window(const void *x, const void *y)
{
    const struct source *a = x, *b = y;

    if (a->window_ns != b->window_ns) {
        return a->window_ns < b->window_ns ? -1 : 1;
    }
    if ((a->kind == SOURCE_ROWS) != (b->kind == SOURCE_ROWS)) {
        return a->kind == SOURCE_ROWS ? 1 : -1;
    }
    return a->first_ns < b->first_ns ? -1 : a->first_ns > b->first_ns;
}

static bool is_of_window(const struct scan *s, int64_t window_ns)
{
    return store_windows_meet(window_ns, WINDOW_NS, s->range->window_since_ns,
                              s->range->window_until_ns);
}

static void add_sealed(struct scan *s, enum source_kind kind, const struct store_window *list,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_of_window(s, list[i].window_ns)) {
            continue;
        }
        s->sources[s->n_sources++] = (struct source){
            .kind = kind,
            .window_ns = list[i].window_ns,
            .first_ns = list[i].t0_ns,
            .sealed = &list[i],
        };
    }
}

/* Behind this nothing of the batch is wanted. Not batch_time_made: what is asked for goes by the
 * corrected stamps of what is inside, also where they are later than the arrival. */
static bool made_before(const struct scan *s, int64_t t1_ns, const struct host_offset *clock)
{
    return clk_add(t1_ns, clock->known ? clock->offset_ns : 0) < s->range->made_since_ns;
}

static enum err list_sources(struct scan *s, size_t host, const struct head_batch **batches,
                             size_t n_batches)
{
    const struct store_range *r = s->range;
    const int64_t range_ns[2] = {r->since_ns, r->until_ns};
    struct store_beside beside = {.window_since_ns = r->window_since_ns,
                                  .window_until_ns = r->window_until_ns};
    struct store_window *rests = NULL, *rows = NULL, *events = NULL;
    size_t n_rests = 0, n_rows = 0, n_events = 0, n;
    enum err e = ERR_OK;

    if (!r->no_rests) {
        e = store_windows_beside(&rests, &n_rests, &s->lists, s->v, host, SEG_REST, range_ns,
                                 &beside, r->used);
    }
    if (!e && r->providers) {
        e = store_windows_beside(&events, &n_events, &s->lists, s->v, host, SEG_PROVIDER, range_ns,
                                 &beside, r->used);
    }
    if (!e && r->metrics) {
        e = store_windows_beside(&rows, &n_rows, &s->lists, s->v, host, SEG_RAW, range_ns, &beside,
                                 r->used);
    }
    if (e) {
        return e;
    }
    n = n_rests + n_events + n_rows + n_batches;
    s->sources = arena_array(&s->lists, n, sizeof *s->sources);
    s->flows = arena_array(&s->lists, n_rests + n_events + n_batches, sizeof *s->flows);
    if (!s->sources || !s->flows) {
        return arena_refused(&s->lists, n * sizeof *s->sources);
    }
    add_sealed(s, SOURCE_REST, rests, n_rests);
    add_sealed(s, SOURCE_PROVIDER, events, n_events);
    add_sealed(s, SOURCE_ROWS, rows, n_rows);
    for (size_t i = 0; i < n_batches; i++) {
        if (!made_before(s, batches[i]->t1_ns, &batches[i]->clock) &&
            is_of_window(s, window_of(batches[i]->made_ns))) {
            s->sources[s->n_sources++] = (struct source){
                .kind = SOURCE_HEAD,
                .window_ns = window_of(batches[i]->made_ns),
                .first_ns = batches[i]->t0_ns,
                .batch = batches[i],
            };
        }
    }
    qsort(s->sources, s->n_sources, sizeof *s->sources, by_window);
    return ERR_OK;
}

/* -- what both have in common -- */

static bool outside(const struct scan *s, int64_t t0_ns, int64_t t1_ns,
                    const struct host_offset *clock)
{
    return t0_ns >= s->range->until_ns || t1_ns < s->range->since_ns ||
           made_before(s, t1_ns, clock);
}

/* What cannot be read begins no earlier than that. */
static void left_out(const struct scan *s, const struct source *from, int64_t first_ns, enum err e)
{
    store_view_unread(s->v, s->host, s->range->used, STORE_UNREAD_SEGMENT, first_ns,
                      from->sealed->t1_ns, e);
}

static bool is_late(const struct scan *s)
{
    return deadline_passed(s->range->deadline);
}

/* What is opened next is behind the deadline or has a packer. */
static enum err sealed_begin(struct scan *s)
{
    if (is_late(s)) {
        return ERR_TIMEOUT;
    }
    return s->packer ? ERR_OK : store_view_packer(s->v, &s->packer);
}

/* -- batches of one window -- */

static int by_stamp(const struct flow *a, const struct flow *b)
{
    if (a->when_ns != b->when_ns) {
        return a->when_ns < b->when_ns ? -1 : 1;
    }
    if (a->stream != b->stream) {
        return a->stream < b->stream ? -1 : 1;
    }
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* The next batch of a rest that the range meets. ERR_END: there is none. */
static enum err flow_next(struct scan *s, struct flow *f)
{
    int64_t first_ns = f->from->first_ns, t1_ns;
    enum err e;

    do {
        first_ns = f->rest && f->when_ns > first_ns ? f->when_ns : first_ns;
        e = f->rests ? meta_reader_next(f->rests, &f->rest) : prov_value_next(f->events, &f->rest);
        if (!e) {
            f->stream = f->rest->batch.head.stream;
            f->seq = f->rest->batch.head.seq;
            batch_time_span(&f->rest->batch, f->rest->received_ns, &f->when_ns, &t1_ns);
        }
    } while (!e && outside(s, f->when_ns, t1_ns, &f->rest->clock));
    if (e == ERR_NOTFOUND) { /* the host has nothing of that sort there */
        return ERR_END;
    }
    if (store_unread_is_batch(e)) {
        left_out(s, f->from, first_ns, e);
        return ERR_END;
    }
    return e;
}

static void flow_release(struct flow *f)
{
    meta_reader_close(f->rests);
    prov_value_close(f->events);
}

static enum err flow_open(struct scan *s, const struct source *from)
{
    struct flow *f = &s->flows[s->n_flows];
    enum err e;

    *f = (struct flow){.from = from, .when_ns = from->first_ns};
    if (from->batch) {
        f->stream = from->batch->stream;
        f->seq = from->batch->seq;
        s->n_flows++;
        return ERR_OK;
    }
    e = sealed_begin(s);
    if (!e && from->kind == SOURCE_PROVIDER) {
        e = prov_value_open(&f->events, from->sealed->seg, s->packer, from->sealed->host,
                            from->sealed->window);
    } else if (!e) {
        e = meta_reader_open(&f->rests, from->sealed->seg, s->packer, from->sealed->host,
                             from->sealed->window);
    }
    if (e) {
        return e;
    }
    e = flow_next(s, f);
    if (e) {
        flow_release(f);
        return e == ERR_END ? ERR_OK : e;
    }
    s->n_flows++;
    return ERR_OK;
}

static void flow_close(struct scan *s, struct flow *f)
{
    flow_release(f);
    *f = s->flows[--s->n_flows];
}

static struct flow *flow_least(const struct scan *s)
{
    struct flow *least = s->flows;

    for (size_t i = 1; i < s->n_flows; i++) {
        least = by_stamp(&s->flows[i], least) < 0 ? &s->flows[i] : least;
    }
    return least;
}

static bool has_room(const struct scan *s)
{
    size_t held = 0;

    for (size_t i = 0; i < s->n_flows; i++) {
        held += s->flows[i].rests ? meta_reader_memory(s->flows[i].rests) : 0;
        held += s->flows[i].events ? prov_value_memory(s->flows[i].events) : 0;
    }
    return held < RESTS_BYTES;
}

/* Whether the source has to be open for the next batch to be the first one. */
static bool is_due(const struct scan *s, const struct source *from)
{
    return !s->n_flows ||
           (from->first_ns <= flow_least(s)->when_ns && (from->batch || has_room(s)));
}

static enum err give_batch(struct scan *s, const struct head_batch *kept)
{
    struct store_block block = {
        .clock = &kept->clock, .part = STORE_WHOLE, .received_ns = kept->received_ns};
    struct batch *b;
    enum err e = store_view_decode(s->v, &b, s->range->metrics, kept);

    if (store_unread_is_batch(e)) {
        store_view_unread(s->v, s->host, s->range->used, STORE_UNREAD_LOG, kept->t0_ns, kept->t1_ns,
                          e);
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

/* Gives the flow's batch, and goes on to the next one. */
static enum err flow_give(struct scan *s, struct flow *f)
{
    struct store_block block = {.part = STORE_REST};
    enum err e;

    if (!f->rests && !f->events) {
        e = give_batch(s, f->from->batch);
        flow_close(s, f);
        return e;
    }
    block.batch = &f->rest->batch;
    block.clock = &f->rest->clock;
    block.received_ns = f->rest->received_ns;
    e = s->each(s->ctx, &block);
    if (e) {
        return e;
    }
    e = flow_next(s, f);
    if (e == ERR_END) {
        flow_close(s, f);
        return ERR_OK;
    }
    return e;
}

/* By first stamp: as is_due would have them opened. */
static enum err scan_batches(struct scan *s, const struct source *list, size_t n)
{
    enum err e = ERR_OK;
    size_t next = 0;

    while (!e && (next < n || s->n_flows)) {
        if (next < n && is_due(s, &list[next])) {
            e = flow_open(s, &list[next++]);
        } else {
            e = flow_give(s, flow_least(s));
        }
    }
    while (s->n_flows) {
        flow_close(s, s->flows);
    }
    return e;
}

/* -- rows of one window -- */

static enum err part_add(struct scan *s, const struct window_part *part)
{
    if (s->n_parts == s->cap_parts) {
        size_t cap = s->cap_parts ? s->cap_parts * 2 : 64;
        const struct window_part **more =
            arena_array(&s->memory, cap, sizeof(const struct window_part *));

        if (!more) {
            return arena_refused(&s->memory, cap * sizeof *more);
        }
        if (s->n_parts) {
            memcpy(more, s->parts, s->n_parts * sizeof *more);
        }
        s->parts = more;
        s->cap_parts = cap;
    }
    s->parts[s->n_parts++] = part;
    return ERR_OK;
}

static enum err read_rows(struct scan *s, const struct source *from)
{
    const struct raw_want want = {s->range->metrics, s->range->has_pid, s->range->pid};
    const struct store_window *w = from->sealed;
    struct window_part *parts;
    size_t n = 0;
    enum err e = sealed_begin(s);

    e = e ? e
          : raw_value_read(w->seg, s->packer, &s->memory, w->host, w->window, &want, &parts, &n);
    if (e == ERR_NOTFOUND) {
        return ERR_OK;
    }
    if (store_unread_is(e)) {
        left_out(s, from, from->first_ns, e);
        return ERR_OK;
    }
    s->n_read += !e;
    for (size_t i = 0; i < n && !e; i++) {
        const struct batch *b = &parts[i].rows;

        if (b->n_ticks && !outside(s, b->wall_ns[0], b->wall_ns[b->n_ticks - 1], &parts[i].clock)) {
            e = part_add(s, &parts[i]);
        }
    }
    return e;
}

static int by_first_tick(const void *x, const void *y)
{
    const struct window_part *a = *(const struct window_part *const *)x;
    const struct window_part *b = *(const struct window_part *const *)y;

    return a->rows.wall_ns[0] < b->rows.wall_ns[0] ? -1 : a->rows.wall_ns[0] > b->rows.wall_ns[0];
}

static enum err rows_read(struct scan *s, const struct source *list, size_t n)
{
    enum err e = ERR_OK;

    arena_reset(&s->memory);
    s->parts = NULL;
    s->n_parts = s->cap_parts = 0;
    s->n_read = 0;
    for (size_t i = 0; i < n && !e; i++) {
        e = read_rows(s, &list[i]);
    }
    return e;
}

static enum err rows_give(struct scan *s)
{
    enum err e = ERR_OK;

    if (s->n_parts) {
        qsort(s->parts, s->n_parts, sizeof *s->parts, by_first_tick);
    }
    if (s->range->used) {
        s->range->used->windows[STORE_RAW] += s->n_read;
    }
    for (size_t i = 0; i < s->n_parts && !e; i++) {
        const struct window_part *p = s->parts[i];
        const struct store_block block = {&p->rows, &p->clock, STORE_ROWS, p->received_ns};

        e = s->each(s->ctx, &block);
    }
    return e;
}
/* Together, or when that is too much, one by one. */
static enum err scan_rows(struct scan *s, const struct source *list, size_t n)
{
    enum err e = rows_read(s, list, n);

    if (e != ERR_FULL) {
        return e ? e : rows_give(s);
    }
    if (n == 1) {
        return e; /* a narrower question needs less */
    }
    e = ERR_OK;
    for (size_t i = 0; i < n && !e; i++) {
        e = rows_read(s, &list[i], 1);
        e = e ? e : rows_give(s);
    }
    return e;
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
        e = is_late(s) ? ERR_TIMEOUT
            : rows     ? scan_rows(s, list + begin, end - begin)
                       : scan_batches(s, list + begin, end - begin);
        if (s->batches_read && s->range->used) {
            s->range->used->windows[STORE_HEAD]++;
        }
    }
    return e;
}

enum err store_blocks_scan_within(const struct store_view *v, size_t host,
                                  const struct store_range *range, size_t window_bytes,
                                  enum err (*each)(void *ctx, const struct store_block *b),
                                  void *ctx)
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

enum err store_blocks_local(const struct store_view *v, size_t host,
                            const struct store_range *range,
                            enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    return store_blocks_scan_within(v, host, range, STORE_BLOCKS_BYTES, each, ctx);
}
