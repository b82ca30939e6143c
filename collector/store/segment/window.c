#include "collector/store/segment/window.h"

#include <stdlib.h>
#include <string.h>

#include "collector/store/batch_time.h"

/* How batches become long runs.
 *
 * Batches with ticks, oldest first, are dealt out to parts: a batch goes on a part when its ticks
 * follow that one's and nothing that holds for a whole part differs. In a part the runs of all
 * batches, each list sorted by instance, are merged into one list; a run that begins where the one
 * before it ends makes that one longer. The order of the list is also the order in which values
 * are copied: each batch's column is read from its beginning to its end, since the merge never
 * changes the order of one batch's runs. So a column costs one walk over the list, without a table
 * of where things are. */

#define CLOCK_STEP_NS (100 * INT64_C(1000000)) /* a clock that was off by more is another clock */
#define PARTS_OPEN    8u                       /* how far back a part is looked for */

/* A batch in order. */
struct item {
    int64_t when_ns;
    uint64_t stream, seq;
    const struct window_batch *in;
    struct item *next; /* of the same part */
};

/* A part while batches are dealt out. */
struct plan {
    struct item *first, *last;
    size_t n_batches, n_ticks, n_runs;
    metric_mask mask; /* of all runs */
    uint32_t flags;
};

/* A run of a batch in the order of the part. */
struct ref {
    struct proc_id id;
    uint32_t batch; /* of the part */
    const struct batch_run *run;
};

/* What of it the copying needs. */
struct piece {
    metric_mask mask;
    uint32_t batch, n_ticks;
};

static int by_time(const void *x, const void *y)
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

/* -- rests -- */

static enum err make_rests(struct host_window *out, struct arena *memory, struct item *items,
                           const struct window_batch *batches, size_t n)
{
    struct window_rest *rests = arena_array(memory, n, sizeof *rests);

    if (!rests) {
        return arena_refused(memory, n * sizeof *rests);
    }
    for (size_t i = 0; i < n; i++) {
        const struct batch *b = batches[i].batch;
        int64_t t1_ns;

        items[i] = (struct item){.stream = b->head.stream, .seq = b->head.seq, .in = &batches[i]};
        batch_time_span(b, batches[i].received_ns, &items[i].when_ns, &t1_ns);
    }
    qsort(items, n, sizeof *items, by_time);
    for (size_t i = 0; i < n; i++) {
        rests[i] = (struct window_rest){.batch = *items[i].in->batch,
                                        .clock = items[i].in->clock,
                                        .received_ns = items[i].in->received_ns};
        rests[i].batch.n_runs = rests[i].batch.n_columns = 0;
        rests[i].batch.runs = NULL;
        rests[i].batch.columns = NULL;
    }
    out->rests = rests;
    out->n_rests = n;
    return ERR_OK;
}

/* -- dealing out -- */

static bool same_clock(const struct host_offset *a, const struct host_offset *b)
{
    int64_t apart;

    if (!a->known || !b->known) {
        return a->known == b->known;
    }
    return !__builtin_sub_overflow(a->offset_ns, b->offset_ns, &apart) && apart <= CLOCK_STEP_NS &&
           apart >= -CLOCK_STEP_NS;
}

static bool goes_on(const struct plan *p, const struct window_batch *in)
{
    const struct batch *first = p->first->in->batch, *last = p->last->in->batch, *b = in->batch;

    return b->wall_ns[0] > last->wall_ns[last->n_ticks - 1] &&
           b->mono_ns[0] > last->mono_ns[last->n_ticks - 1] &&
           memcmp(b->head.boot.b, first->head.boot.b, sizeof first->head.boot.b) == 0 &&
           str_eq(b->head.source, first->head.source) && b->head.cpus == first->head.cpus &&
           !((b->head.flags ^ first->head.flags) & (BATCH_POLLED | BATCH_REPLAY)) &&
           same_clock(&in->clock, &p->first->in->clock) && p->n_ticks <= UINT32_MAX - b->n_ticks;
}

static void plan_add(struct plan *p, struct item *item)
{
    const struct batch *b = item->in->batch;

    if (p->last) {
        p->last->next = item;
    } else {
        p->first = item;
    }
    p->last = item;
    item->next = NULL;
    p->n_batches++;
    p->n_ticks += b->n_ticks;
    p->n_runs += b->n_runs;
    p->flags |= b->head.flags;
    for (size_t i = 0; i < b->n_runs; i++) {
        p->mask |= b->runs[i].mask;
    }
}

/* Items with ticks, by the first of them; gives how many parts they need. */
static size_t deal_out(struct plan *plans, struct item *items, const struct window_batch *batches,
                       size_t n)
{
    size_t n_items = 0, n_plans = 0;

    for (size_t i = 0; i < n; i++) {
        const struct batch *b = batches[i].batch;

        if (b->n_ticks > 0) {
            items[n_items++] =
                (struct item){b->wall_ns[0], b->head.stream, b->head.seq, &batches[i], NULL};
        }
    }
    qsort(items, n_items, sizeof *items, by_time);
    for (size_t i = 0; i < n_items; i++) {
        size_t k = n_plans, stop = n_plans > PARTS_OPEN ? n_plans - PARTS_OPEN : 0;

        while (k > stop && !goes_on(&plans[k - 1], items[i].in)) {
            k--;
        }
        if (k == stop) {
            k = ++n_plans;
        }
        plan_add(&plans[k - 1], &items[i]);
    }
    return n_plans;
}

/* -- runs -- */

static inline bool before(const struct ref *a, const struct ref *b)
{
    return a->id.pid != b->id.pid ? a->id.pid < b->id.pid : a->id.start < b->id.start;
}

/* Two sorted lists, one behind the other, to one; what is equal stays in order. */
static void merge(struct ref *to, const struct ref *a, const struct ref *b, const struct ref *end)
{
    const struct ref *mid = b;

    while (a < mid && b < end) {
        *to++ = before(b, a) ? *b++ : *a++;
    }
    memcpy(to, a, (size_t)(mid - a) * sizeof *a);
    memcpy(to + (mid - a), b, (size_t)(end - b) * sizeof *b);
}

/* Sorts n_lists lists that lie one behind the other; ends[i] is where the i-th ends. Gives
 * whichever of the two arrays holds the result. */
static struct ref *merge_lists(struct ref *from, struct ref *to, size_t *ends, size_t n_lists)
{
    while (n_lists > 1) {
        struct ref *other = to;
        size_t kept = 0, begin = 0;

        for (size_t i = 0; i < n_lists; i += 2) {
            size_t mid = ends[i], end = i + 1 < n_lists ? ends[i + 1] : mid;

            merge(to + begin, from + begin, from + mid, from + end);
            ends[kept++] = begin = end;
        }
        n_lists = kept;
        to = from;
        from = other;
    }
    return from;
}

/* All runs of the part by instance, then time; their ticks are still those of their batches. */
static enum err sort_runs(struct ref **out, struct arena *memory, const struct plan *p)
{
    struct ref *refs = arena_array_unset(memory, p->n_runs, sizeof *refs);
    struct ref *other = arena_array_unset(memory, p->n_runs, sizeof *other);
    size_t *ends = arena_array(memory, p->n_batches, sizeof *ends);
    size_t n = 0, k = 0;

    if (!refs || !other || !ends) {
        return arena_refused(memory, p->n_runs * sizeof *refs);
    }
    for (const struct item *item = p->first; item; item = item->next) {
        const struct batch *b = item->in->batch;

        for (size_t i = 0; i < b->n_runs; i++) {
            refs[n++] = (struct ref){b->runs[i].id, (uint32_t)k, &b->runs[i]};
        }
        ends[k++] = n;
    }
    *out = merge_lists(refs, other, ends, k);
    return ERR_OK;
}

/* Runs as long as they can be, and the pieces they are made of. offsets[b]: the part's tick with
 * which batch b begins. */
static void join_runs(struct batch_run *runs, size_t *n_runs, struct piece *pieces,
                      const struct ref *refs, size_t n, const uint32_t *offsets)
{
    struct batch_run *last = NULL;

    for (size_t i = 0; i < n; i++) {
        const struct batch_run *r = refs[i].run;
        uint32_t first_tick = offsets[refs[i].batch] + r->first_tick;

        pieces[i] = (struct piece){r->mask, refs[i].batch, r->n_ticks};
        if (last && !r->fresh && r->mask == last->mask && proc_id_eq(r->id, last->id) &&
            first_tick == last->first_tick + last->n_ticks) {
            last->n_ticks += r->n_ticks;
            continue;
        }
        last = last ? last + 1 : runs;
        *last = *r;
        last->first_tick = first_tick;
    }
    *n_runs = last ? (size_t)(last - runs) + 1 : 0;
}

/* -- columns -- */

/* Values of the batch's column; NULL when it has none. */
static const int64_t *column_of(const struct batch *b, unsigned metric)
{
    for (size_t i = 0; i < b->n_columns; i++) {
        if (b->columns[i].metric == metric) {
            return b->columns[i].values;
        }
    }
    return NULL;
}

static void copy_pieces(int64_t *to, const struct piece *pieces, size_t n, metric_mask bit,
                        const int64_t **from)
{
    for (size_t i = 0; i < n; i++) {
        const struct piece *piece = &pieces[i];
        size_t n_ticks = piece->n_ticks;

        if (!(piece->mask & bit)) {
            continue;
        }
        if (n_ticks == 1) {
            *to = *from[piece->batch];
        } else {
            memcpy(to, from[piece->batch], n_ticks * sizeof *to);
        }
        from[piece->batch] += n_ticks;
        to += n_ticks;
    }
}

static enum err join_columns(struct batch *rows, struct arena *memory, const struct plan *p,
                             const struct piece *pieces)
{
    size_t n_columns = metric_mask_count(p->mask);
    struct batch_column *columns = arena_array(memory, n_columns, sizeof *columns);
    const int64_t **from = arena_array(memory, p->n_batches, sizeof *from);
    size_t k = 0;

    if (!columns || !from) {
        return arena_refused(memory, n_columns * sizeof *columns);
    }
    for (struct metric_mask_walk each = metric_mask_walk(p->mask); metric_mask_walk_next(&each);) {
        metric_mask bit = METRIC_BIT(each.id);
        size_t n_values = 0, batch = 0;
        int64_t *values;

        for (size_t i = 0; i < rows->n_runs; i++) {
            n_values += rows->runs[i].mask & bit ? rows->runs[i].n_ticks : 0;
        }
        for (const struct item *item = p->first; item; item = item->next) {
            from[batch++] = column_of(item->in->batch, each.id);
        }
        values = arena_array_unset(memory, n_values, sizeof *values);
        if (!values) {
            return arena_refused(memory, n_values * sizeof *values);
        }
        copy_pieces(values, pieces, p->n_runs, bit, from);
        columns[k++] = (struct batch_column){(uint8_t)each.id, n_values, values};
    }
    rows->columns = columns;
    rows->n_columns = k;
    return ERR_OK;
}

/* -- parts -- */

/* Ticks of all batches; offsets[b]: where batch b begins. */
static enum err join_ticks(struct batch *rows, uint32_t **offsets, struct arena *memory,
                           const struct plan *p)
{
    int64_t *wall_ns = arena_array(memory, p->n_ticks, sizeof *wall_ns);
    int64_t *mono_ns = arena_array(memory, p->n_ticks, sizeof *mono_ns);
    size_t n = 0, k = 0;

    *offsets = arena_array(memory, p->n_batches, sizeof **offsets);
    if (!wall_ns || !mono_ns || !*offsets) {
        return arena_refused(memory, p->n_ticks * sizeof *wall_ns);
    }
    for (const struct item *item = p->first; item; item = item->next) {
        const struct batch *b = item->in->batch;

        memcpy(wall_ns + n, b->wall_ns, b->n_ticks * sizeof *wall_ns);
        memcpy(mono_ns + n, b->mono_ns, b->n_ticks * sizeof *mono_ns);
        (*offsets)[k++] = (uint32_t)n;
        n += b->n_ticks;
    }
    rows->wall_ns = wall_ns;
    rows->mono_ns = mono_ns;
    rows->n_ticks = n;
    return ERR_OK;
}

static enum err make_part(struct window_part *out, struct arena *memory, const struct plan *p)
{
    struct batch_run *runs = arena_array_unset(memory, p->n_runs, sizeof *runs);
    struct piece *pieces = arena_array_unset(memory, p->n_runs, sizeof *pieces);
    struct batch *rows = &out->rows;
    uint32_t *offsets = NULL;
    struct ref *refs = NULL;
    enum err e;

    if (!runs || !pieces) {
        return arena_refused(memory, p->n_runs * sizeof *runs);
    }
    rows->head = p->last->in->batch->head;
    rows->head.stream = rows->head.seq = 0;
    rows->head.flags = p->flags;
    out->clock = p->last->in->clock;
    for (const struct item *item = p->first; item; item = item->next) {
        if (item == p->first || item->in->received_ns > out->received_ns) {
            out->received_ns = item->in->received_ns;
        }
    }
    e = join_ticks(rows, &offsets, memory, p);
    if (!e) {
        e = sort_runs(&refs, memory, p);
    }
    if (!e) {
        join_runs(runs, &rows->n_runs, pieces, refs, p->n_runs, offsets);
        rows->runs = runs;
        e = join_columns(rows, memory, p, pieces);
    }
    return e;
}

static enum err make_parts(struct host_window *out, struct arena *memory, const struct plan *plans,
                           size_t n)
{
    struct window_part *parts = arena_array(memory, n, sizeof *parts);
    enum err e = ERR_OK;

    if (!parts) {
        return arena_refused(memory, n * sizeof *parts);
    }
    for (size_t i = 0; i < n && !e; i++) {
        e = make_part(&parts[i], memory, &plans[i]);
    }
    out->parts = parts;
    out->n_parts = n;
    return e;
}

enum err window_join(struct host_window *out, struct arena *memory,
                     const struct window_batch *batches, size_t n, const char *host_name)
{
    struct item *items = arena_array(memory, n, sizeof *items);
    struct plan *plans = arena_array(memory, n, sizeof *plans);
    struct host_window w = {0};
    enum err e;

    if (!items || !plans) {
        return arena_refused(memory, n * sizeof *plans);
    }
    if (n == 0 || strlen(host_name) >= sizeof w.name) {
        return ERR_INVALID;
    }
    w.host = batches[0].batch->head.host;
    memcpy(w.name, host_name, strlen(host_name));
    for (size_t i = 1; i < n; i++) {
        if (memcmp(batches[i].batch->head.host.b, w.host.b, sizeof w.host.b) != 0) {
            return ERR_INVALID;
        }
    }
    e = make_rests(&w, memory, items, batches, n);
    if (!e) {
        e = make_parts(&w, memory, plans, deal_out(plans, items, batches, n));
    }
    if (!e) {
        *out = w;
    }
    return e;
}
