#include "collector/query/query_cells.h"

#include "collector/query/query_unread.h"
#include "common/os/deadline.h"

#define DEADLINE_ROWS 64 /* the clock is read once in so many rows */

struct cell_scan {
    struct query *q;
    enum err (*each)(void *ctx, const struct store_cell_row *row);
    void *ctx;
    unsigned rows;
};

static bool is_late(const struct query *q)
{
    return deadline_passed(q->env->deadline);
}

static enum err take_row(void *ctx, const struct store_cell_row *row)
{
    struct cell_scan *s = ctx;

    if (s->rows++ % DEADLINE_ROWS == 0 && is_late(s->q)) {
        return ERR_TIMEOUT;
    }
    return s->each(s->ctx, row);
}

enum err query_cells(struct query *q, const struct query_span *s, struct store_cells *ask,
                     enum err (*each)(void *ctx, const struct store_cell_row *row), void *ctx,
                     struct store_ticks *ticks)
{
    struct cell_scan sc = {.q = q, .each = each, .ctx = ctx};
    struct store_used used = {.damaged = 0};
    enum err e;

    if (is_late(q)) {
        return ERR_TIMEOUT;
    }
    ask->used = &used;
    ask->deadline = q->env->deadline;
    e = store_scan_cells(q->env->view, s->host, ask, take_row, &sc, ticks);
    query_used_add(q, s, &used);
    return e;
}

void query_used_add(struct query *q, const struct query_span *s, const struct store_used *used)
{
    struct store_used *to = &q->used;

    for (unsigned i = 0; i < STORE_TIERS; i++) {
        to->windows[i] += used->windows[i];
    }
    if (used->damaged) {
        to->damaged += query_unread_add(q, s, used);
    }
    to->folded += used->folded;
    if (used->coarse_bucket_ns) {
        to->coarse_from_ns = to->coarse_bucket_ns && to->coarse_from_ns < used->coarse_from_ns
                                 ? to->coarse_from_ns
                                 : used->coarse_from_ns;
        to->coarse_bucket_ns = to->coarse_bucket_ns > used->coarse_bucket_ns
                                   ? to->coarse_bucket_ns
                                   : used->coarse_bucket_ns;
    }
}

struct block_scan {
    struct query *q;
    enum err (*each)(void *ctx, const struct store_block *b);
    void *ctx;
};

static enum err take_block(void *ctx, const struct store_block *b)
{
    struct block_scan *s = ctx;

    if (is_late(s->q)) {
        return ERR_TIMEOUT;
    }
    s->q->clock = *b->clock;
    return s->each(s->ctx, b);
}

enum err query_blocks(struct query *q, const struct query_span *s, const struct store_range *range,
                      enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    struct block_scan sc = {q, each, ctx};
    struct store_range with = *range;
    struct store_used used = {.damaged = 0};
    enum err e;

    with.used = &used;
    with.deadline = q->env->deadline;
    e = store_scan_blocks(q->env->view, s->host, &with, take_block, &sc);
    query_used_add(q, s, &used);
    return e;
}

struct account_scan {
    struct query *q;
    enum err (*each_account)(void *ctx, const struct loss_sum *a);
    enum err (*each)(void *ctx, const struct store_block *b);
    void *ctx;
};

static enum err take_account(void *ctx, const struct loss_sum *a)
{
    struct account_scan *s = ctx;

    return is_late(s->q) ? ERR_TIMEOUT : s->each_account(s->ctx, a);
}

static enum err take_told(void *ctx, const struct store_block *b)
{
    struct account_scan *s = ctx;

    return is_late(s->q) ? ERR_TIMEOUT : s->each(s->ctx, b);
}

enum err query_accounts(struct query *q, const struct query_span *s,
                        const struct store_range *range,
                        enum err (*each_account)(void *ctx, const struct loss_sum *a),
                        enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    struct account_scan sc = {q, each_account, each, ctx};
    struct store_range with = *range;

    with.deadline = q->env->deadline;
    return store_scan_accounts(q->env->view, s->host, &with, take_account, take_told, &sc);
}
