#include "collector/query/query_buckets.h"

#include "common/wire/wire_series.h"

#define BUCKETS_USUAL 60u
#define QUIET_PART    50 /* of a bucket: a shorter stretch is not seen in it */
#define STEP_MAX      (INT64_C(36525) * 86400 * CLK_S)

/* -- the axis -- */

static int64_t buckets_floor(int64_t ns, int64_t step_ns)
{
    int64_t rest = ns % step_ns;

    return ns - rest - (rest < 0 ? step_ns : 0);
}

static int64_t buckets_ceil(int64_t ns, int64_t step_ns)
{
    int64_t floor = buckets_floor(ns, step_ns);

    return floor == ns ? ns : clk_add(floor, step_ns);
}

/* From the first to the last moment of all spans. */
static void buckets_window(const struct query *q, int64_t *since_ns, int64_t *until_ns)
{
    *since_ns = INT64_MAX;
    *until_ns = INT64_MIN;
    for (size_t i = 0; i < q->n_spans; i++) {
        *since_ns = q->spans[i].since_ns < *since_ns ? q->spans[i].since_ns : *since_ns;
        *until_ns = q->spans[i].until_ns > *until_ns ? q->spans[i].until_ns : *until_ns;
    }
}

static uint64_t buckets_count(int64_t since_ns, int64_t until_ns, int64_t step_ns)
{
    return (uint64_t)clk_sub(buckets_ceil(until_ns, step_ns), buckets_floor(since_ns, step_ns)) /
           (uint64_t)step_ns;
}

/* The smallest of the usual steps that needs no more buckets than asked for. */
static int64_t buckets_step(const struct query *q, int64_t since_ns, int64_t until_ns)
{
    static const int64_t seconds[] = {1,    2,    5,     10,    30,     60,      300,     600,
                                      1800, 3600, 21600, 86400, 604800, 2592000, 31536000};
    uint32_t buckets = q->ask->buckets ? q->ask->buckets : BUCKETS_USUAL;

    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        if (buckets_count(since_ns, until_ns, seconds[i] * CLK_S) <= buckets) {
            return seconds[i] * CLK_S;
        }
    }
    return clk_sub(until_ns, since_ns) / buckets + CLK_S;
}

/* Windows that hang on each host's newest data become one that hangs on the newest of all, but for
 * recordings that have ended and clocks that are ahead: a host that fell silent days ago shall not
 * make buckets of hours. */
static void buckets_join_windows(const struct query *q)
{
    int64_t until_ns = INT64_MIN;

    for (size_t i = 0; i < q->n_spans; i++) {
        const struct query_span *s = &q->spans[i];
        bool ahead = s->until_ns > clk_add(q->env->now_ns, CLK_S);

        if (s->anchored && !s->over && !ahead && s->until_ns > until_ns) {
            until_ns = s->until_ns;
        }
    }
    for (size_t i = 0; until_ns != INT64_MIN && i < q->n_spans; i++) {
        struct query_span *s = &q->spans[i];

        if (s->anchored) {
            s->since_ns = clk_add(s->since_ns, clk_sub(until_ns, s->until_ns));
            s->until_ns = until_ns;
        }
    }
}

/* Spans to whole buckets where the question set their ends, but not beyond now. */
static void buckets_extend(const struct query *q, int64_t step_ns)
{
    for (size_t i = 0; i < q->n_spans; i++) {
        struct query_span *s = &q->spans[i];

        s->since_ns = buckets_floor(s->since_ns, step_ns);
        if (q->ask->until_ns) {
            int64_t end_ns = buckets_ceil(s->until_ns, step_ns);
            int64_t now_ns = q->env->now_ns > s->until_ns ? q->env->now_ns : s->until_ns;

            s->until_ns = end_ns < now_ns ? end_ns : now_ns;
        }
    }
}

enum err query_buckets_plan(struct query_buckets *x, struct query *q)
{
    int64_t since_ns, until_ns;
    uint64_t n;

    *x = (struct query_buckets){0};
    if (q->ask->buckets > WIRE_BUCKETS_MAX) {
        return errmsg_set(q->why, ERR_INVALID, "at most %u buckets", WIRE_BUCKETS_MAX);
    }
    buckets_join_windows(q);
    buckets_window(q, &since_ns, &until_ns);
    if (!q->n_spans || since_ns >= until_ns) {
        return ERR_OK;
    }
    if (q->ask->step_ns > STEP_MAX || since_ns < INT64_MIN / 4 || until_ns > INT64_MAX / 2) {
        return errmsg_set(q->why, ERR_INVALID, "the window or the step is out of range");
    }
    x->step_ns = q->ask->step_ns ? q->ask->step_ns : buckets_step(q, since_ns, until_ns);
    n = buckets_count(since_ns, until_ns, x->step_ns);
    if (n > WIRE_BUCKETS_MAX) {
        return errmsg_set(q->why, ERR_INVALID,
                          "the window has %llu steps of that length, at most %u are answered: ask "
                          "for a longer step or a shorter window",
                          (unsigned long long)n, WIRE_BUCKETS_MAX);
    }
    buckets_extend(q, x->step_ns);
    x->t0_ns = buckets_floor(since_ns, x->step_ns);
    x->n = (uint32_t)n;
    x->present = arena_array(&q->out->memory, n, sizeof *x->present);
    x->hosts_in = arena_array(&q->out->memory, n, sizeof *x->hosts_in);
    x->reaches = arena_array(&q->out->memory, n, sizeof *x->reaches);
    x->wanted_ns = arena_array(&q->out->memory, n, sizeof *x->wanted_ns);
    x->there_ns = arena_array(&q->out->memory, n, sizeof *x->there_ns);
    query_known(q);
    return x->present && x->hosts_in && x->reaches && x->wanted_ns && x->there_ns ? ERR_OK
                                                                                  : ERR_FULL;
}

/* The part of bucket b that lies in [since, until), ns. */
int64_t query_buckets_overlap(const struct query_buckets *x, uint32_t b, int64_t since_ns,
                              int64_t until_ns)
{
    int64_t first = clk_add(x->t0_ns, (int64_t)b * x->step_ns);
    int64_t last = clk_add(first, x->step_ns);

    first = since_ns > first ? since_ns : first;
    last = until_ns < last ? until_ns : last;
    return last > first ? last - first : 0;
}

/* -- what of each bucket arrived -- */

/* How much of a span of loss is lost, 0 to 1. */
static double buckets_density(const struct query_ledger *l, const struct wire_loss_span *lost,
                              int64_t length_ns)
{
    double share = 1;

    if (lost->ticks && l->period_ns > 0) {
        share = (double)lost->ticks * (double)l->period_ns / (double)length_ns;
    } else if (lost->events && l->until_ns > l->since_ns) {
        double expected =
            (double)l->events * (double)length_ns / (double)clk_sub(l->until_ns, l->since_ns);

        share = (double)lost->events / ((double)lost->events + expected);
    }
    return share < 1 ? share : 1;
}

/* Whether the span of loss has no tick in bucket b: all of them between its ends are lost. */
static bool buckets_all_lost(const struct query_buckets *x, uint32_t b,
                             const struct wire_loss_span *lost, int64_t last_ns, int64_t period_ns)
{
    int64_t first = clk_add(x->t0_ns, (int64_t)b * x->step_ns);
    double wanted = (double)clk_sub(last_ns, lost->first_ns) / (double)period_ns - 1;

    return lost->ticks && (double)lost->ticks >= wanted && first > lost->first_ns &&
           clk_add(first, x->step_ns) <= last_ns;
}

int64_t query_buckets_quiet_least(const struct query_buckets *x)
{
    return x->step_ns / QUIET_PART;
}

/* Growth of the first tick behind a stretch is that of the whole stretch, but in front of the first
 * data, and where the tick before the window is too far away to count from. */
static void buckets_reach(struct query_buckets *x, const struct query_span *s,
                          const struct query_quiet *quiet)
{
    for (size_t i = 0; i < quiet->n; i++) {
        const struct quiet_span *q = &quiet->spans[i];
        int64_t from = clk_sub(q->since_ns, x->t0_ns) / x->step_ns;
        int64_t to = clk_sub(q->until_ns, x->t0_ns) / x->step_ns;
        bool base =
            q->until_ns > s->about->first_ns &&
            (q->since_ns > s->since_ns || clk_sub(q->until_ns, q->since_ns) < QUERY_LOOKBACK_NS);

        if (base && !q->cut && from >= 0 && to < x->n && to - from > (int64_t)x->reaches[to]) {
            x->reaches[to] = (uint32_t)(to - from);
        }
    }
}

/* What of [since, until) in bucket b was not measured; *at is the first stretch that may matter. */
static int64_t buckets_quiet(const struct query_buckets *x, uint32_t b,
                             const struct query_quiet *quiet, size_t *at, int64_t since_ns,
                             int64_t until_ns)
{
    int64_t begin_ns = clk_add(x->t0_ns, (int64_t)b * x->step_ns), sum_ns = 0;

    while (*at < quiet->n && quiet->spans[*at].until_ns <= begin_ns) {
        ++*at;
    }
    for (size_t i = *at; i < quiet->n; i++) {
        const struct quiet_span *q = &quiet->spans[i];

        if (q->since_ns >= clk_add(begin_ns, x->step_ns)) {
            break;
        }
        sum_ns += query_buckets_overlap(x, b, q->since_ns > since_ns ? q->since_ns : since_ns,
                                        q->until_ns < until_ns ? q->until_ns : until_ns);
    }
    return sum_ns;
}

/* What of `there` in bucket b is known to be lost. */
static int64_t buckets_lost(const struct query_buckets *x, uint32_t b, const struct query_ledger *l,
                            const uint64_t *ticks, int64_t there)
{
    int64_t period = l->period_ns > 0 ? l->period_ns : 1, left = there;

    for (size_t k = 0; left > 0 && k < l->n_spans; k++) {
        const struct wire_loss_span *lost = &l->spans[k];
        int64_t least = clk_add(lost->first_ns, period);
        int64_t last = lost->last_ns > least ? lost->last_ns : least;
        int64_t here = query_buckets_overlap(x, b, lost->first_ns, last);

        if (here) {
            bool none = ticks ? !ticks[b] : buckets_all_lost(x, b, lost, last, period);
            bool empty = none && period / 2 <= x->step_ns;
            double share = buckets_density(l, lost, clk_sub(last, lost->first_ns));

            left = empty ? 0 : left - (int64_t)((double)here * share + 0.5);
        }
    }
    return there - (left > 0 ? left : 0);
}

/* As Coverage counts: a window that hangs on the newest data may begin before the first. What is
 * known to be lost was not measured either, so the larger of both counts. */
void query_buckets_cover(struct query_buckets *x, const struct query_span *s,
                         const struct query_ledger *l, const struct query_quiet *quiet,
                         const uint64_t *ticks, uint8_t *measured)
{
    int64_t period_ns = quiet->period_ns > 0 ? quiet->period_ns : l->period_ns;
    int64_t end_ns = clk_add(s->about->last_ns, period_ns > 0 ? period_ns : 1);
    bool late = s->anchored && s->about->first_ns > s->since_ns;
    int64_t since = late ? s->about->first_ns : s->since_ns;
    int64_t from = s->about->first_ns > since ? s->about->first_ns : since;
    int64_t until = end_ns < s->until_ns ? end_ns : s->until_ns;
    size_t at = 0;

    buckets_reach(x, s, quiet);
    for (uint32_t b = 0; b < x->n; b++) {
        int64_t wanted = query_buckets_overlap(x, b, since, s->until_ns);
        int64_t there = query_buckets_overlap(x, b, from, until);
        int64_t quiet_ns = buckets_quiet(x, b, quiet, &at, from, until);
        int64_t lost_ns = buckets_lost(x, b, l, ticks, there);
        bool is_in = ticks ? ticks[b] > 0 : there > quiet_ns;

        x->hosts_in[b] += is_in;
        if (measured && is_in) {
            measured[b / 8] |= (uint8_t)(1u << b % 8);
        }
        if (!wanted || (s->over && !there)) {
            continue; /* of a recording that ended nothing is expected */
        }
        lost_ns = lost_ns > quiet_ns ? lost_ns : quiet_ns;
        x->wanted_ns[b] += (double)(s->over ? there : wanted);
        x->there_ns[b] += (double)(there > lost_ns ? there - lost_ns : 0);
    }
}

void query_buckets_end(struct query_buckets *x)
{
    for (uint32_t b = 0; b < x->n; b++) {
        double share = x->wanted_ns[b] > 0 ? x->there_ns[b] / x->wanted_ns[b] : 1;

        x->present[b] = (uint32_t)(share * QUERY_PPM); /* down: 100 % is said of all alone */
    }
}
