#include "collector/query/query_quiet.h"

#include <stdlib.h>

#include "collector/query/query_scan.h"
#include "common/base/clk.h"

#define QUIET_NONE  INT64_MIN
#define QUIET_LOOKS 64u /* distances between ticks of a batch that are compared */

void query_quiet_init(struct query_quiet *x, const struct query_span *s, int64_t least_ns)
{
    *x = (struct query_quiet){.since_ns = s->since_ns,
                              .until_ns = s->until_ns,
                              .least_ns = least_ns,
                              .newest_ns = QUIET_NONE,
                              .lead_ns = QUIET_NONE};
}

/* -- stretches -- */

/* So much time between two ticks is a stretch: one and a half are missing for certain. */
static int64_t quiet_least(const struct query_quiet *x)
{
    int64_t least_ns = clk_add(clk_add(x->period_ns, x->period_ns), x->period_ns / 2);

    return least_ns > x->least_ns ? least_ns : x->least_ns;
}

/* Where it goes: behind the others, or in place of the shortest. NULL: that is itself. */
static struct quiet_span *quiet_room(struct query_quiet *x, int64_t length_ns)
{
    struct quiet_span *shortest = &x->spans[0];

    if (x->n < QUIET_MAX) {
        return &x->spans[x->n++];
    }
    for (size_t i = 1; i < x->n; i++) {
        if (clk_sub(x->spans[i].until_ns, x->spans[i].since_ns) <
            clk_sub(shortest->until_ns, shortest->since_ns)) {
            shortest = &x->spans[i];
        }
    }
    return clk_sub(shortest->until_ns, shortest->since_ns) < length_ns ? shortest : NULL;
}

/* Between two ticks, QUIET_NONE and the window's end where there is none. */
static void quiet_between(struct query_quiet *x, int64_t tick_ns, int64_t next_ns, bool cut)
{
    int64_t since_ns = tick_ns == QUIET_NONE ? x->since_ns : tick_ns, length_ns;
    struct quiet_span *s;

    since_ns = since_ns > x->since_ns ? since_ns : x->since_ns;
    next_ns = next_ns < x->until_ns ? next_ns : x->until_ns;
    if (next_ns <= since_ns || clk_sub(next_ns, since_ns) < quiet_least(x)) {
        return;
    }
    if (tick_ns != QUIET_NONE) { /* that long it stands for */
        int64_t due_ns = clk_add(tick_ns, x->period_ns);

        since_ns = due_ns > since_ns ? due_ns : since_ns;
    }
    length_ns = clk_sub(next_ns, since_ns);
    s = length_ns > 0 ? quiet_room(x, length_ns) : NULL;
    if (s) {
        *s = (struct quiet_span){since_ns, next_ns, cut};
    }
}

/* What is left of a stretch is none when quiet_between would not have taken it. */
static void quiet_shorten(const struct query_quiet *x, struct quiet_span *s)
{
    int64_t tick_ns = s->since_ns > x->since_ns ? clk_sub(s->since_ns, x->period_ns) : s->since_ns;

    if (clk_sub(s->until_ns, tick_ns) < quiet_least(x)) {
        s->until_ns = s->since_ns;
    }
}

/* Ticks that came late, from one to another: what was measured is no stretch. */
static void quiet_fill(struct query_quiet *x, int64_t first_ns, int64_t last_ns)
{
    int64_t until_ns = clk_add(last_ns, x->period_ns);

    for (size_t i = 0; i < x->n; i++) {
        struct quiet_span *s = &x->spans[i], behind = {until_ns, s->until_ns, s->cut};

        if (s->until_ns <= first_ns || s->since_ns >= until_ns) {
            continue;
        }
        s->until_ns = first_ns > s->since_ns ? first_ns : s->since_ns;
        s->cut = s->cut && until_ns < behind.until_ns;
        quiet_shorten(x, s);
        if (until_ns < behind.until_ns) {
            quiet_shorten(x, &behind);
        }
        if (until_ns < behind.until_ns && s->until_ns == s->since_ns) {
            *s = behind;
        } else if (until_ns < behind.until_ns && x->n < QUIET_MAX) {
            x->spans[x->n++] = behind;
            s->cut = false;
        }
    }
}

/* What lies in front of the first tick can only be judged when the period is known. */
static void quiet_lead(struct query_quiet *x, int64_t period_ns)
{
    int64_t before_ns = x->period_ns;

    if (x->lead_ns != QUIET_NONE) {
        x->period_ns = period_ns;
        quiet_between(x, QUIET_NONE, x->lead_ns, x->lead_ns >= x->until_ns);
        x->period_ns = before_ns;
        x->lead_ns = QUIET_NONE;
    }
}

static void quiet_tick(struct query_quiet *x, int64_t wall_ns)
{
    if (x->newest_ns == QUIET_NONE && wall_ns >= x->since_ns && x->period_ns <= 0) {
        x->lead_ns = wall_ns;
    } else if (wall_ns >= x->since_ns && (x->newest_ns == QUIET_NONE || wall_ns > x->newest_ns)) {
        quiet_between(x, x->newest_ns, wall_ns, wall_ns >= x->until_ns);
    }
    x->newest_ns = wall_ns > x->newest_ns ? wall_ns : x->newest_ns;
}

/* -- what comes -- */

static int quiet_by_length(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* The usual distance of a batch's ticks: the middle one, since a stop lies in one of them. */
static int64_t quiet_period(const struct batch *b)
{
    int64_t apart[QUIET_LOOKS];
    size_t n = 0;

    for (size_t i = 1; i < b->n_ticks && n < QUIET_LOOKS; i++) {
        int64_t ns = clk_sub(b->mono_ns[i], b->mono_ns[i - 1]);

        if (ns > 0) {
            apart[n++] = ns;
        }
    }
    if (!n) {
        return 0;
    }
    qsort(apart, n, sizeof *apart, quiet_by_length);
    return apart[n / 2];
}

void query_quiet_batch(struct query_quiet *x, const struct batch *b)
{
    int64_t period_ns = quiet_period(b), before_ns = x->period_ns;

    if (period_ns > 0) {
        quiet_lead(x, period_ns);
    }
    x->period_ns = period_ns > before_ns ? period_ns : before_ns; /* where they meet, the longer */
    if (b->n_ticks && b->wall_ns[0] <= x->newest_ns) {
        quiet_fill(x, b->wall_ns[0], b->wall_ns[b->n_ticks - 1]);
    }
    for (size_t i = 0; i < b->n_ticks; i++) {
        quiet_tick(x, b->wall_ns[i]);
    }
    x->period_ns = period_ns > 0 ? period_ns : before_ns;
}

/* Whether its ticks may leave a stretch between them. n ticks without one reach over n - 1 periods;
 * its own period is that of its last batch, the mean, which a stop makes longer. */
static bool quiet_is_doubtful(const struct query_quiet *x, const struct loss_sum *a,
                              int64_t before_ns)
{
    int64_t period_ns = before_ns > 0 && before_ns < a->period_ns ? before_ns : a->period_ns;
    int64_t least_ns = clk_add(clk_add(period_ns, period_ns), period_ns / 2), there_ns;

    if (before_ns <= 0 && a->batches == 1) {
        return true; /* there is nothing to compare it with */
    }
    least_ns = least_ns > x->least_ns ? least_ns : x->least_ns;
    if (__builtin_mul_overflow((int64_t)(a->ticks & INT64_MAX), period_ns, &there_ns)) {
        return false;
    }
    return clk_sub(clk_sub(a->last_ns, a->first_ns), there_ns) >=
           clk_sub(least_ns, clk_add(period_ns, period_ns));
}

void query_quiet_account(struct query_quiet *x, const struct loss_sum *a)
{
    int64_t before_ns = x->period_ns;

    if (!a->ticks) {
        return;
    }
    if (a->period_ns > 0) {
        quiet_lead(x, a->period_ns);
    }
    x->period_ns = a->period_ns > before_ns ? a->period_ns : before_ns;
    if (a->first_ns <= x->newest_ns) {
        quiet_fill(x, a->first_ns, a->last_ns);
    }
    quiet_tick(x, a->first_ns);
    x->period_ns = a->period_ns > 0 ? a->period_ns : before_ns;
    if (x->n_doubts < QUIET_DOUBTS && quiet_is_doubtful(x, a, before_ns)) {
        x->doubts[x->n_doubts++] = (struct quiet_doubt){a->first_ns, a->last_ns, before_ns};
    }
    x->newest_ns = a->last_ns > x->newest_ns ? a->last_ns : x->newest_ns;
}

/* -- in the end -- */

static int quiet_by_time(const void *a, const void *b)
{
    const struct quiet_span *x = a, *y = b;

    return x->since_ns < y->since_ns ? -1 : x->since_ns > y->since_ns;
}

static enum err quiet_block(void *ctx, const struct store_block *b)
{
    query_quiet_batch(ctx, b->batch);
    return ERR_OK;
}

/* Once more, batch by batch: its first tick came, and its last. */
static enum err quiet_look(struct query_quiet *x, struct query *q, const struct query_span *s,
                           const struct quiet_doubt *in)
{
    const struct store_range range = {
        .since_ns = in->first_ns, .until_ns = clk_add(in->last_ns, 1), .made_since_ns = INT64_MIN};

    x->newest_ns = in->first_ns;
    x->period_ns = in->period_ns;
    return query_scan_blocks(q, s, &range, quiet_block, x);
}

/* Data that came late may be told of twice. */
static void quiet_sort(struct query_quiet *x)
{
    size_t kept = 0;

    if (x->n) {
        qsort(x->spans, x->n, sizeof *x->spans, quiet_by_time);
    }
    for (size_t i = 0; i < x->n; i++) {
        struct quiet_span *last = kept ? &x->spans[kept - 1] : NULL;

        if (x->spans[i].since_ns >= x->spans[i].until_ns) {
            continue; /* filled */
        }
        if (last && x->spans[i].since_ns < last->until_ns) {
            last->until_ns =
                x->spans[i].until_ns < last->until_ns ? x->spans[i].until_ns : last->until_ns;
            last->since_ns = x->spans[i].since_ns;
            last->cut = last->cut && x->spans[i].cut;
            continue;
        }
        x->spans[kept++] = x->spans[i];
    }
    x->n = kept;
}

enum err query_quiet_end(struct query_quiet *x, struct query *q, const struct query_span *s)
{
    const struct store_used used = q->used; /* the same windows again: told once */
    enum err e = ERR_OK;

    quiet_lead(x, 0);
    quiet_between(x, x->newest_ns, x->until_ns, true);
    for (size_t i = 0; !e && i < x->n_doubts; i++) {
        e = quiet_look(x, q, s, &x->doubts[i]);
    }
    memcpy(q->used.windows, used.windows, sizeof used.windows);
    quiet_sort(x);
    return e;
}
