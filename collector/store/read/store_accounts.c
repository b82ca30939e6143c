/* What the host's batches told of themselves: of sealed windows that lie inside the range and were
 * without losses the account, which is one small value; of all others the rests, batch by batch.
 * Batches of the head come by their accounts too, or whole. Patches come where their stamps say. */
#include "collector/store/batch_time.h"
#include "collector/store/meta/loss_sum.h"
#include "collector/store/meta/meta.h"
#include "collector/store/read/store_unread.h"
#include "collector/store/read/store_view.h"
#include "collector/store/read/store_windows.h"
#include "common/base/mem.h"
#include "common/os/deadline.h"

#define ACCOUNTS_MEMORY (64u << 20) /* the list of windows; an account */

struct accounts {
    const struct store_view *v;
    size_t host;
    const struct store_range *range;
    enum err (*each_account)(void *ctx, const struct loss_sum *a);
    enum err (*each)(void *ctx, const struct store_block *b);
    void *ctx;
    struct packer *packer;
    struct arena windows, values;
};

/* Of values that one after the other cannot be read no callback is made that looks at the time. */
static enum err left_out(struct accounts *x, enum store_unread_kind kind, int64_t t0_ns,
                         int64_t t1_ns, enum err e)
{
    store_view_unread(x->v, x->host, x->range->used, kind, t0_ns, t1_ns, e);
    return deadline_passed(x->range->deadline) ? ERR_TIMEOUT : ERR_OK;
}

/* ERR_NOTFOUND: the sums do not say all. */
static enum err take_account(struct accounts *x, const struct store_window *w)
{
    struct loss_sum a;
    enum err e;

    if (x->range->made_since_ns != INT64_MIN || w->t0_ns < x->range->since_ns ||
        w->t1_ns >= x->range->until_ns) {
        return ERR_NOTFOUND;
    }
    e = meta_account_read(w->seg, x->packer, store_view_ahead(x->v), &x->values, w->host, w->window,
                          &a);
    if (e || !a.plain) {
        return !e || store_unread_is_batch(e) ? ERR_NOTFOUND : e;
    }
    return x->each_account(x->ctx, &a);
}

static bool wanted(const struct accounts *x, const struct window_rest *r, int64_t t0_ns,
                   int64_t t1_ns)
{
    return t0_ns < x->range->until_ns && t1_ns >= x->range->since_ns &&
           batch_time_made(t1_ns, &r->clock, r->received_ns) >= x->range->made_since_ns;
}

/* *from_ns: what cannot be read (*unread) comes no earlier. */
static enum err give_rests(struct accounts *x, struct meta_reader *r, int64_t *from_ns,
                           enum err *unread)
{
    const struct window_rest *rest;
    enum err e = ERR_OK;

    while (!e && !(*unread = meta_reader_next(r, &rest))) {
        const struct store_block b = {.batch = &rest->batch,
                                      .clock = &rest->clock,
                                      .part = STORE_REST,
                                      .received_ns = rest->received_ns};
        int64_t t0_ns, t1_ns;

        batch_time_span(b.batch, b.received_ns, &t0_ns, &t1_ns);
        *from_ns = t0_ns > *from_ns ? t0_ns : *from_ns;
        e = wanted(x, rest, t0_ns, t1_ns) ? x->each(x->ctx, &b) : ERR_OK;
    }
    return e;
}

static enum err take_rests(struct accounts *x, const struct store_window *w)
{
    int64_t from_ns = w->t0_ns;
    enum err e, unread = ERR_OK;
    struct meta_reader *r;

    e = meta_reader_open(&r, w->seg, x->packer, w->host, w->window);
    if (e) {
        return e;
    }
    e = give_rests(x, r, &from_ns, &unread);
    meta_reader_close(r);
    if (e || unread == ERR_END || unread == ERR_NOTFOUND) {
        return e;
    }
    return store_unread_is_batch(unread)
               ? left_out(x, STORE_UNREAD_SEGMENT, from_ns, w->t1_ns, unread)
               : unread;
}

static enum err take_sealed(struct accounts *x)
{
    struct store_window *list = NULL;
    size_t n = 0;
    enum err e = store_windows(&list, &n, &x->windows, x->v, x->host, SEG_REST, x->range->since_ns,
                               x->range->until_ns, x->range->used);

    for (size_t i = 0; !e && i < n; i++) {
        arena_reset(&x->values);
        e = take_account(x, &list[i]);
        if (e == ERR_NOTFOUND) {
            e = take_rests(x, &list[i]);
        }
    }
    return e;
}

/* ERR_NOTFOUND: it has to be read. */
static enum err take_told(struct accounts *x, const struct head_batch *b)
{
    struct loss_sum a;
    enum err e;

    if (!b->told || b->t0_ns < x->range->since_ns || b->t1_ns >= x->range->until_ns) {
        return ERR_NOTFOUND;
    }
    arena_reset(&x->values);
    e = loss_sum_told_read(b->told, b->told_n, &x->values, &a);
    return e ? e : x->each_account(x->ctx, &a);
}

static enum err take_batch(struct accounts *x, const struct head_batch *kept)
{
    struct store_block block = {
        .clock = &kept->clock, .part = STORE_WHOLE, .received_ns = kept->received_ns};
    struct batch *b;
    enum err e = take_told(x, kept);

    if (e != ERR_NOTFOUND) {
        return e;
    }
    e = store_view_decode(x->v, &b, 0, kept);
    if (store_unread_is_batch(e)) {
        return left_out(x, STORE_UNREAD_LOG, kept->t0_ns, kept->t1_ns, e);
    }
    if (!e) {
        block.batch = b;
        e = x->each(x->ctx, &block);
        wire_batch_free(b);
    }
    return e;
}

static enum err take_head(struct accounts *x)
{
    const struct head_batch **list;
    size_t n;
    enum err e =
        head_view_batches(x->v->head, x->host, x->range->since_ns, x->range->until_ns, &list, &n);

    if (e) {
        return e;
    }
    for (size_t i = 0; !e && i < n; i++) {
        e = list[i]->made_ns < x->range->made_since_ns ? ERR_OK : take_batch(x, list[i]);
    }
    mem_free(list);
    return e;
}

enum err store_accounts_local(const struct store_view *v, size_t host,
                              const struct store_range *range,
                              enum err (*each_account)(void *ctx, const struct loss_sum *a),
                              enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    struct accounts x = {.v = v,
                         .host = host,
                         .range = range,
                         .each_account = each_account,
                         .each = each,
                         .ctx = ctx};
    enum err e = store_view_packer(v, &x.packer);

    if (e) {
        return e;
    }
    arena_init(&x.windows, ACCOUNTS_MEMORY);
    arena_init(&x.values, ACCOUNTS_MEMORY);
    e = take_sealed(&x);
    if (!e) {
        e = take_head(&x);
    }
    arena_fini(&x.windows);
    arena_fini(&x.values);
    return e;
}
