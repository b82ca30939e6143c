#include "collector/query/query_scan.h"

#include "common/os/deadline.h"

#define DEADLINE_ROWS 64 /* the clock is read once in so many rows */

/* -- what the collector's disk did not return -- */

/* A scan of the span could not read what `used` says. Returns how many of those values are new: a
 * question may read the same twice. */
static uint32_t scan_unread_add(struct query *q, const struct query_span *s,
                                const struct store_used *used)
{
    struct query_cover *c = &q->covers[s - q->spans];
    uint32_t add = used->damaged;
    int64_t known_ns;

    if (!c->unread) {
        c->unread = arena_array(&q->out->memory, 1, sizeof *c->unread);
        if (!c->unread) { /* the answer says that there is some, not where */
            return add;
        }
        *c->unread = (struct query_unread){.values = 0};
    }
    known_ns = store_used_within(&c->unread->holes, s->since_ns, s->until_ns);
    for (size_t i = 0; i < used->holes.n; i++) {
        const struct store_hole *h = &used->holes.at[i];

        store_used_hole_add(&c->unread->all, h->first_ns, h->last_ns);
        if (h->last_ns >= s->since_ns && h->first_ns < s->until_ns) {
            store_used_hole_add(&c->unread->holes,
                                h->first_ns > s->since_ns ? h->first_ns : s->since_ns,
                                h->last_ns < s->until_ns ? h->last_ns : s->until_ns - 1);
        }
    }
    if (known_ns > 0 &&
        store_used_within(&c->unread->holes, s->since_ns, s->until_ns) == known_ns) {
        add -= add < c->unread->values ? add : c->unread->values; /* all of it at known times */
    }
    c->unread->values += add;
    return add;
}

bool query_scan_unread_span(const struct query_unread *u, int64_t *first_ns, int64_t *last_ns)
{
    for (size_t i = 0; i < u->holes.n; i++) {
        const struct store_hole *h = &u->holes.at[i];

        *first_ns = i == 0 || h->first_ns < *first_ns ? h->first_ns : *first_ns;
        *last_ns = i == 0 || h->last_ns > *last_ns ? h->last_ns : *last_ns;
    }
    return u->holes.n > 0;
}

bool query_scan_unread_between(const struct query *q, const struct query_span *s, int64_t after_ns,
                               int64_t before_ns)
{
    const struct query_unread *u = q->covers[s - q->spans].unread;

    return u && store_used_within(&u->all, clk_add(after_ns, 1), before_ns) > 0;
}

uint32_t query_scan_unread_ppm(const struct query *q, const struct query_span *s)
{
    const struct query_cover *c = &q->covers[s - q->spans];
    int64_t unread_ns =
        c->unread ? store_used_within(&c->unread->holes, s->since_ns, s->until_ns) : 0;
    double left;

    if (unread_ns == 0 || c->there_ns <= 0) {
        return c->ppm;
    }
    left = 1 - (double)unread_ns / (double)c->there_ns;
    left = left > 0 ? left * (double)c->ppm : 0;
    return left < QUERY_PPM - 1 ? (uint32_t)left : QUERY_PPM - 1;
}

/* -- scans under the deadline -- */

struct cell_scan {
    struct query *q;
    enum err (*each)(void *ctx, const struct store_cell_row *row);
    void *ctx;
    unsigned rows;
};

bool query_scan_is_late(const struct query *q)
{
    return deadline_passed(q->env->deadline);
}

static enum err scan_row(void *ctx, const struct store_cell_row *row)
{
    struct cell_scan *s = ctx;

    if (s->rows++ % DEADLINE_ROWS == 0 && query_scan_is_late(s->q)) {
        return ERR_TIMEOUT;
    }
    return s->each(s->ctx, row);
}

enum err query_scan_cells(struct query *q, const struct query_span *s, struct store_cells *ask,
                          enum err (*each)(void *ctx, const struct store_cell_row *row), void *ctx,
                          struct store_ticks *ticks)
{
    struct cell_scan sc = {.q = q, .each = each, .ctx = ctx};
    struct store_used used = {.damaged = 0};
    enum err e;

    if (query_scan_is_late(q)) {
        return ERR_TIMEOUT;
    }
    ask->used = &used;
    ask->deadline = q->env->deadline;
    e = store_cells_scan(q->env->view, s->host, ask, scan_row, &sc, ticks);
    query_scan_used(q, s, &used);
    return e;
}

void query_scan_used(struct query *q, const struct query_span *s, const struct store_used *used)
{
    struct store_used *to = &q->used;

    for (unsigned i = 0; i < STORE_TIERS; i++) {
        to->windows[i] += used->windows[i];
    }
    if (used->damaged) {
        to->damaged += scan_unread_add(q, s, used);
    }
    to->far = to->far || used->far;
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

static enum err scan_block(void *ctx, const struct store_block *b)
{
    struct block_scan *s = ctx;

    if (query_scan_is_late(s->q)) {
        return ERR_TIMEOUT;
    }
    s->q->clock = *b->clock;
    return s->each(s->ctx, b);
}

enum err query_scan_blocks(struct query *q, const struct query_span *s,
                           const struct store_range *range,
                           enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    struct block_scan sc = {q, each, ctx};
    struct store_range with = *range;
    struct store_used used = {.damaged = 0};
    enum err e;

    with.used = &used;
    with.deadline = q->env->deadline;
    e = store_blocks_scan(q->env->view, s->host, &with, scan_block, &sc);
    query_scan_used(q, s, &used);
    return e;
}

struct account_scan {
    struct query *q;
    enum err (*each_account)(void *ctx, const struct loss_sum *a);
    enum err (*each)(void *ctx, const struct store_block *b);
    void *ctx;
};

static enum err scan_account(void *ctx, const struct loss_sum *a)
{
    struct account_scan *s = ctx;

    return query_scan_is_late(s->q) ? ERR_TIMEOUT : s->each_account(s->ctx, a);
}

static enum err scan_told(void *ctx, const struct store_block *b)
{
    struct account_scan *s = ctx;

    return query_scan_is_late(s->q) ? ERR_TIMEOUT : s->each(s->ctx, b);
}

enum err query_scan_accounts(struct query *q, const struct query_span *s,
                             const struct store_range *range,
                             enum err (*each_account)(void *ctx, const struct loss_sum *a),
                             enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    struct account_scan sc = {q, each_account, each, ctx};
    struct store_range with = *range;

    with.deadline = q->env->deadline;
    return store_accounts_scan(q->env->view, s->host, &with, scan_account, scan_told, &sc);
}
