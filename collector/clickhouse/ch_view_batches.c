/* A host's batches, as the ledger names them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collector/clickhouse/ch_view_ask.h"
#include "collector/clickhouse/ch_view_page.h"
#include "common/base/search.h"

#define BATCHES_ASK 400000u /* rows of the ledger at once: some 32 MiB */

static enum err batches_room(struct ch_view_batches *b)
{
    size_t cap = b->cap ? b->cap * 2 : 256;
    struct ch_view_batch *more;

    if (b->n < b->cap) {
        return ERR_OK;
    }
    more = arena_array(&b->memory, cap, sizeof *more);
    if (!more) {
        return arena_refused(&b->memory, cap * sizeof *more);
    }
    if (b->n) {
        memcpy(more, b->at, b->n * sizeof *more);
    }
    b->at = more;
    b->cap = cap;
    return ERR_OK;
}

enum {
    BATCH_STREAM,
    BATCH_SEQ,
    BATCH_BOOT,
    BATCH_T0,
    BATCH_T1,
    BATCH_RECEIVED,
    BATCH_CLOCK,
    BATCH_OFFSET,
    BATCH_ERROR,
    BATCH_COLUMNS
};

/* A page of the list. */
struct batches {
    struct ch_view_batches *list;
    size_t rows; /* it had */
};

static enum err batch_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct batches *page = ctx;
    struct ch_view_batches *b = page->list;
    const struct ch_in_column *c = in->columns;
    uint8_t clock = (uint8_t)ch_native_get(&c[BATCH_CLOCK], i);
    struct ch_view_batch one = {
        .stream = ch_native_get(&c[BATCH_STREAM], i),
        .seq = ch_native_get(&c[BATCH_SEQ], i),
        .boot = ch_native_get_uuid(&c[BATCH_BOOT], i),
        .t0_ns = (int64_t)ch_native_get(&c[BATCH_T0], i),
        .t1_ns = (int64_t)ch_native_get(&c[BATCH_T1], i),
        .received_ns = (int64_t)ch_native_get(&c[BATCH_RECEIVED], i),
        .clock = {.known = clock & 1,
                  .bounded = clock >> 1 & 1,
                  .offset_ns = (int64_t)ch_native_get(&c[BATCH_OFFSET], i),
                  .error_ns = (int64_t)ch_native_get(&c[BATCH_ERROR], i)},
    };
    const struct ch_view_batch *last = b->n ? &b->at[b->n - 1] : NULL;
    enum err e;

    page->rows++;
    if (last && last->stream == one.stream && last->seq == one.seq) {
        return ERR_OK; /* of two collectors */
    }
    if (last &&
        (one.stream < last->stream || (one.stream == last->stream && one.seq < last->seq))) {
        return ERR_CORRUPT; /* not in the order that was asked for */
    }
    e = batches_room(b);
    if (!e) {
        b->at[b->n++] = one;
    }
    return e;
}

#define BATCH_SELECT "stream, seq, boot, %s, %s, %s, clock, clock_offset, clock_error"

/* The list of a host that has more than a reply takes. */
static enum err batches_page(struct ch_view *v, size_t host, const struct ch_view_get *g,
                             struct batches *page)
{
    const struct ch_view_batches *list = page->list;
    const struct ch_view_batch *behind = list->n ? &list->at[list->n - 1] : NULL;
    struct ch_view_get next = *g;
    char order[64], from[CH_VIEW_FROM + 160];

    (void)snprintf(from, sizeof from, "%s", g->from);
    if (behind) {
        size_t n = strlen(from);

        (void)snprintf(from + n, sizeof from - n,
                       " AND (stream > %" PRIu64 " OR (stream = %" PRIu64 " AND seq > %" PRIu64
                       "))",
                       behind->stream, behind->stream, behind->seq);
    }
    (void)snprintf(order, sizeof order, "%s LIMIT %u", g->order, BATCHES_ASK);
    next.from = from;
    next.order = order;
    return ch_view_page_one(v, host, &next, batch_take, page);
}

enum err ch_view_batches_ask(struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                             const struct deadline *deadline, struct ch_view_batches *out)
{
    char select[256], from[CH_VIEW_FROM], t0[64], t1[64], received[64];
    const struct ch_view_get get = {.select = select,
                                    .from = ch_view_ask_from_of(from, v, CH_BATCH, CH_VIEW_STORED),
                                    .order = "stream, seq, collector",
                                    .columns = BATCH_COLUMNS,
                                    .n_bounds = 2,
                                    .bounds = {{.column = "t1", .from = true, .ns = since_ns},
                                               {.column = "t0", .ns = until_ns}},
                                    .deadline = deadline};
    struct batches page = {.list = out};
    enum err e = ERR_FULL;

    *out = (struct ch_view_batches){.n = 0};
    arena_init(&out->memory, CH_VIEW_LIST_MAX);
    (void)snprintf(select, sizeof select, BATCH_SELECT, ch_view_ask_ns_of(t0, v, "t0"),
                   ch_view_ask_ns_of(t1, v, "t1"), ch_view_ask_ns_of(received, v, "received"));
    if (ch_view_page_many(v, host)) {
        e = ch_view_page_get(v, host, &get, batch_take, &page);
        if (e != ERR_FULL || !v->too_large) {
            return e;
        }
    }
    do {
        page.rows = 0;
        e = batches_page(v, host, &get, &page);
    } while (!e && page.rows == BATCHES_ASK);
    return e;
}

void ch_view_batches_fini(struct ch_view_batches *b)
{
    arena_fini(&b->memory);
}

struct ch_view_batch *ch_view_batches_find(const struct ch_view_batches *b, uint64_t stream,
                                           uint64_t seq)
{
    size_t i;

    SEARCH_LOWER(i, b->n,
                 b->at[i].stream < stream || (b->at[i].stream == stream && b->at[i].seq < seq));
    return i < b->n && b->at[i].stream == stream && b->at[i].seq == seq ? &b->at[i] : NULL;
}
