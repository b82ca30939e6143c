/* Series: how the metrics of groups went over time, in buckets as wide as a plot's pixel, with what
 * of each bucket arrived.
 *
 * First Top ranks the groups of the whole window: they are the answer's rows, and series i is of
 * row i. Then every host is read once more in steps as wide as a bucket; what belongs to no row is
 * added up in one series more. So values and their losses come in one answer, and the rows name the
 * series.
 *
 * Buckets lie on whole steps since 1970, and the window is extended to whole buckets, so that a
 * window that moves changes which buckets are answered but not what is in them.
 *
 * A counter's value is its growth since the sample before, so that buckets add up to what Top
 * gives. That of cpu_percent is the growth of cpu_time over the part of the bucket that was asked
 * for, or over its ticks where that is longer. That of a gauge is the mean: of one process over its
 * samples, of a group over the host's ticks, so that a process that lived for a tenth of the bucket
 * counts a tenth. Groups over several hosts are the sum of the hosts' values. Nothing is scaled up
 * for what is missing, and nothing spread: where a host was not measured for a while, the growth
 * of all that time is in the bucket of its next tick, and `reaches` says how far back it goes.
 *
 * Memory: groups times metrics times buckets, at most WIRE_SERIES_VALUES_MAX. */
#include "collector/query/query_impl.h"

#include <assert.h>
#include <string.h>

#include "collector/query/query_buckets.h"
#include "collector/query/query_cover.h"
#include "collector/query/query_history.h"
#include "collector/query/query_ledger.h"
#include "collector/query/query_scan.h"
#include "collector/query/query_top.h"
#include "common/wire/wire_series.h"

#define SERIES_LIMIT   10u
#define SERIES_NAMED   256u
#define SERIES_SUMS_NS (300 * CLK_S) /* below it no window of the store lies inside a step */

static const uint8_t series_metrics[] = {M_CPU_PERCENT};

/* What one host adds to a value. */
struct series_part {
    uint64_t count; /* samples of gauges; of counters how often they grew */
    int64_t sum;    /* of the samples; growth of counters */
};

struct series {
    struct query *q;
    struct wire_series *out;
    struct wire_series_column *columns; /* out's, being filled */
    struct query_buckets axis;
    struct series_part *parts; /* of the host that is read */
    uint32_t *touched;         /* those of them that are not zero */
    size_t n_touched;
    uint64_t *ticks; /* of the host in each bucket */
    struct query_groups_members members;
    uint32_t *counts_before; /* of the host that is read */
    size_t n_named;          /* groups of the host's last window with sums, */
    struct {
        struct str name;
        size_t row;
    } named[SERIES_NAMED]; /* by their place in it: most windows have the same */
    uint32_t *counts; /* processes of each group, NULL: the ranks have them; UINT32_MAX: the same */
};

/* -- values -- */

static size_t series_at(const struct series *x, size_t group, unsigned metric, uint32_t bucket)
{
    return (group * x->q->out->data.n_metrics + metric) * x->out->n_buckets + bucket;
}

static bool series_is_gauge(const struct series *x, unsigned i)
{
    const struct metric *m = metric_by_id(x->q->out->data.metrics[i]);

    return m->kind == METRIC_GAUGE && m->id != M_CPU_PERCENT;
}

static bool series_fits(const struct query *q, const struct query_step *step,
                        const struct proc_info *info, const struct wire_row *row)
{
    const struct query_inst *inst = step->inst;

    switch (q->ask->group_by) {
    case WIRE_GROUP_NONE:
        return !inst->instances && !row->instances && row->host == step->span->answer &&
               proc_id_eq(row->info.id, inst->id);
    case WIRE_GROUP_IMAGE:
        return str_eq(row->info.name, info ? info->name : str_make(""));
    case WIRE_GROUP_USER:
        return str_eq(row->info.user, info ? info->user : str_make(""));
    case WIRE_GROUP_HOST:
        return row->host == step->span->answer;
    default:
        return true;
    }
}

/* The group of the step's process; the one behind the rows holds what belongs to none of them. */
static size_t series_group(const struct series *x, const struct query_step *step)
{
    const struct wire_answer *a = &x->q->out->data;
    const struct proc_info *info = step->inst->info;
    uint8_t by = x->q->ask->group_by;
    bool by_name = by == WIRE_GROUP_IMAGE || by == WIRE_GROUP_USER;
    uint32_t row = QUERY_NO_MEMBER;
    struct proc_info known;
    size_t i = 0;

    if (*step->tag) {
        return *step->tag - 1;
    }
    if (x->members.rows && step->boot) {
        row = query_groups_member(&x->members, step->span->host, step->boot, step->inst->id);
    }
    if (row != QUERY_NO_MEMBER) {
        i = row < a->n_rows ? row : a->n_rows;
    } else if (x->members.rows && step->boot && x->q->where) {
        i = a->n_rows; /* the filter does not fit it */
    } else {           /* it was counted among many, or there was no room to remember it */
        if (!info && by_name && step->boot &&
            store_info_brief(x->q->env->view, step->span->host, step->boot, step->inst->id,
                             &known)) {
            info = &known;
        }
        while (i < a->n_rows && !series_fits(x->q, step, info, &a->rows[i])) {
            i++;
        }
    }
    if (x->counts && i < a->n_rows && !step->counted) {
        x->counts[i] = !step->boot || x->counts[i] == UINT32_MAX ? UINT32_MAX : x->counts[i] + 1;
    }
    *step->tag = (uint32_t)i + 1;
    return i;
}

static void series_envelope(struct wire_series_column *c, uint32_t b, const struct query_spread *s)
{
    bool first = c->min[b] > c->max[b];

    c->min[b] = first || s->min < c->min[b] ? s->min : c->min[b];
    c->max[b] = first || s->max > c->max[b] ? s->max : c->max[b];
}

static void series_add(struct series *x, size_t at, uint64_t count, int64_t sum)
{
    if (!x->parts[at].count) {
        x->touched[x->n_touched++] = (uint32_t)at;
    }
    x->parts[at].count += count;
    x->parts[at].sum = cell_sum(x->parts[at].sum, sum);
}

static enum err series_step_add(void *ctx, const struct query_step *step)
{
    struct series *x = ctx;
    uint8_t n_metrics = x->q->out->data.n_metrics;
    uint32_t b = (uint32_t)((step->slot_ns - x->out->t0_ns) / x->out->step_ns);
    size_t group;

    if (step->slot_ns < x->out->t0_ns || b >= x->out->n_buckets) {
        return ERR_OK;
    }
    for (unsigned i = 0; i < n_metrics && !step->inst->instances; i++) {
        x->ticks[b] = step->spreads[i].count > x->ticks[b] ? step->spreads[i].count : x->ticks[b];
    }
    if (!step->inst->instances && !query_wants(x->q, step->inst->id, step->inst->info)) {
        return ERR_OK;
    }
    group = series_group(x, step);
    for (unsigned i = 0; i < n_metrics; i++) {
        const struct query_spread *s = &step->spreads[i];
        bool gauge = series_is_gauge(x, i), grew = step->grew >> i & 1;
        size_t at = series_at(x, group, i, b);

        if (gauge ? !s->count : !grew) {
            continue;
        }
        series_add(x, at, gauge ? s->count : 1, gauge ? s->sum : step->growth[i]);
        if (gauge && x->columns[group * n_metrics + i].min) {
            series_envelope(&x->columns[group * n_metrics + i], b, s);
        }
    }
    return ERR_OK;
}

/* -- sums of groups, where the store has them -- */

/* The row of the group; the one behind the rows: none. */
static size_t series_row(const struct series *x, const struct query_span *s,
                         const struct group_sums_group *g)
{
    const struct wire_answer *a = &x->q->out->data;
    size_t i = 0;

    for (; i < a->n_rows; i++) {
        const struct wire_row *row = &a->rows[i];

        switch (x->q->ask->group_by) {
        case WIRE_GROUP_IMAGE:
            if (str_eq(row->info.name, g->name)) {
                return i;
            }
            break;
        case WIRE_GROUP_USER:
            if (str_eq(row->info.user, g->user)) {
                return i;
            }
            break;
        case WIRE_GROUP_HOST:
            if (row->host == s->answer) {
                return i;
            }
            break;
        default:
            return i;
        }
    }
    return i;
}

/* The same for the group at place k; its name stays as long as the host is read. */
static size_t series_row_at(struct series *x, const struct query_span *s,
                            const struct group_sums_group *g, size_t k)
{
    bool by_user = x->q->ask->group_by == WIRE_GROUP_USER;
    struct str name = by_user ? g->user : g->name;
    size_t row;

    if (k < x->n_named && str_eq(x->named[k].name, name)) {
        return x->named[k].row;
    }
    row = series_row(x, s, g);
    if (k <= x->n_named && k < SERIES_NAMED) {
        x->named[k].name = name;
        x->named[k].row = row;
        x->n_named = k + 1;
    }
    return row;
}

static unsigned series_column(uint8_t metric)
{
    return metric == M_CPU_PERCENT ? M_CPU_TIME : metric;
}

static enum err series_sums_add(void *ctx, const struct query_step_sums *step)
{
    struct series *x = ctx;
    const struct wire_answer *a = &x->q->out->data;
    const struct group_sums *g = step->sums;
    uint32_t b = (uint32_t)((step->slot_ns - x->out->t0_ns) / x->out->step_ns);

    assert(step->slot_ns >= x->out->t0_ns && b < x->out->n_buckets);
    x->ticks[b] += g->ticks[series_column(a->metrics[0])];
    for (size_t k = 0; k < g->n; k++) {
        size_t row = series_row_at(x, step->span, &g->groups[k], k);

        for (unsigned i = 0; i < a->n_metrics; i++) {
            const struct group_sums_part *p = &g->parts[series_column(a->metrics[i])][k];

            if (p->count) {
                series_add(x, series_at(x, row, i, b), p->count, p->sum);
            }
            if (i == 0 && x->counts && row < a->n_rows && x->counts[row] != UINT32_MAX) {
                x->counts[row] += (uint32_t)p->n_new;
            }
        }
    }
    return ERR_OK;
}

static void series_host_forget(struct series *x)
{
    for (size_t k = 0; k < x->n_touched; k++) {
        x->parts[x->touched[k]] = (struct series_part){0};
    }
    x->n_touched = 0;
    x->n_named = 0;
    memset(x->ticks, 0, x->out->n_buckets * sizeof *x->ticks);
}

static void series_undo(void *ctx)
{
    struct series *x = ctx;

    series_host_forget(x);
    if (x->counts) {
        memcpy(x->counts, x->counts_before, x->q->out->data.n_rows * sizeof *x->counts);
    }
}

/* Whether sums of all processes of an image and user are what is asked for, window by window. */
static bool series_takes_sums(const struct series *x)
{
    const struct wire_query *ask = x->q->ask;

    return (ask->group_by == WIRE_GROUP_IMAGE || ask->group_by == WIRE_GROUP_USER ||
            ask->group_by == WIRE_GROUP_HOST || ask->group_by == WIRE_GROUP_FLEET) &&
           ask->name.n == 0 && !ask->has_pid && !ask->idle && !x->q->where && !x->q->family &&
           !x->q->env->no_sums && x->out->step_ns >= SERIES_SUMS_NS;
}

/* -- hosts -- */

/* The host's value of one bucket. */
static int64_t series_part_value(const struct series *x, const struct query_span *s,
                                 int64_t period_ns, size_t at)
{
    const struct series_part *p = &x->parts[at];
    uint32_t b = (uint32_t)(at % x->out->n_buckets);
    unsigned i = (unsigned)(at / x->out->n_buckets % x->q->out->data.n_metrics);
    int64_t length;

    if (series_is_gauge(x, i)) {
        bool alone = x->q->ask->group_by == WIRE_GROUP_NONE || !x->ticks[b];

        return query_mean(p->sum, alone ? p->count : x->ticks[b]);
    }
    if (x->q->out->data.metrics[i] != M_CPU_PERCENT) {
        return p->sum;
    }
    length = query_buckets_overlap(&x->axis, b, s->since_ns, s->until_ns);
    if (period_ns > 0) { /* in a window's last bucket: what a tick is about began before it */
        bool full = x->ticks[b] >= (uint64_t)(x->out->step_ns / period_ns);
        int64_t ticks_ns = full ? x->out->step_ns : (int64_t)x->ticks[b] * period_ns;

        length = length > ticks_ns ? length : ticks_ns;
    }
    return length ? (int64_t)((double)p->sum * 1000.0 / (double)length + 0.5) : 0;
}

static enum err series_host_done(void *ctx, const struct query_span *s)
{
    struct series *x = ctx;
    struct query_ledger ledger;
    struct query_quiet quiet;
    enum err e;

    query_quiet_init(&quiet, s, query_buckets_quiet_least(&x->axis));
    e = query_cover_scan_quiet(x->q, s, &ledger, &quiet);
    if (e) {
        return e;
    }
    for (size_t k = 0; k < x->n_touched; k++) {
        size_t at = x->touched[k];
        struct wire_series_column *c = &x->columns[at / x->out->n_buckets];
        uint32_t b = (uint32_t)(at % x->out->n_buckets);

        c->avg[b] = cell_sum(c->avg[b], series_part_value(x, s, ledger.period_ns, at));
        c->have[b / 8] |= (uint8_t)(1u << b % 8);
    }
    query_buckets_cover(&x->axis, s, &ledger, &quiet, x->ticks, NULL);
    series_host_forget(x);
    if (x->counts) {
        memcpy(x->counts_before, x->counts, x->q->out->data.n_rows * sizeof *x->counts);
    }
    return ERR_OK;
}

/* -- the answer -- */

static enum err series_room(struct series *x)
{
    struct query *q = x->q;
    struct arena *a = &q->out->memory;
    uint32_t n = x->out->n_buckets;
    size_t groups = q->out->data.n_rows + 1, columns = groups * q->out->data.n_metrics;
    bool envelope = q->ask->envelope && q->ask->group_by == WIRE_GROUP_NONE;
    size_t values = columns * n * (envelope ? 3 : 1);

    if (values > WIRE_SERIES_VALUES_MAX) {
        return errmsg_set(q->why, ERR_INVALID,
                          "%zu groups of %u metrics in %u buckets are more than %u values: ask for "
                          "fewer groups, metrics or buckets",
                          groups, q->out->data.n_metrics, n, WIRE_SERIES_VALUES_MAX);
    }
    x->columns = arena_array(a, columns, sizeof *x->columns);
    x->ticks = arena_array(a, n, sizeof *x->ticks);
    x->parts = arena_array(a, columns * n, sizeof *x->parts);
    x->touched = arena_array(a, columns * n, sizeof *x->touched);
    if (x->members.rows) {
        x->counts = arena_array(a, q->out->data.n_rows + 1, sizeof *x->counts);
        x->counts_before = arena_array(a, q->out->data.n_rows + 1, sizeof *x->counts);
        if (!x->counts || !x->counts_before) {
            return ERR_FULL;
        }
    }
    if (!x->columns || !x->ticks || !x->parts || !x->touched) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < columns; i++) {
        struct wire_series_column *c = &x->columns[i];

        c->have = arena_array(a, (n + 7) / 8, 1);
        c->avg = arena_array(a, n, sizeof *c->avg);
        if (envelope && i / q->out->data.n_metrics < q->out->data.n_rows &&
            series_is_gauge(x, (unsigned)(i % q->out->data.n_metrics))) {
            c->min = arena_array(a, n, sizeof *c->min);
            c->max = arena_array(a, n, sizeof *c->max);
            if (!c->min || !c->max) {
                return ERR_FULL;
            }
            for (uint32_t b = 0; b < n; b++) {
                c->min[b] = 1; /* above max: nothing yet */
            }
        }
        if (!c->have || !c->avg) {
            return ERR_FULL;
        }
    }
    return ERR_OK;
}

static bool series_column_is_empty(const struct series *x, const struct wire_series_column *c)
{
    for (uint32_t b = 0; b < (x->out->n_buckets + 7) / 8; b++) {
        if (c->have[b]) {
            return false;
        }
    }
    return true;
}

/* Sums of hours say the same of these; how many processes they are is counted with the buckets. */
static bool series_may_take_hours(const struct query *q)
{
    bool gauge = metric_by_id(q->out->data.metrics[0])->kind == METRIC_GAUGE;
    uint8_t by = q->ask->by;

    return q->ask->name.n == 0 && (by == WIRE_BY_USUAL || by == WIRE_BY_SUM || by == WIRE_BY_RATE ||
                                   (gauge && by == WIRE_BY_AVG));
}

/* How many processes of each row there were; where only sums are left the ranks know. */
static void series_counts_end(struct series *x)
{
    for (size_t i = 0; x->counts && i < x->q->out->data.n_rows; i++) {
        struct wire_row *row = (struct wire_row *)(uintptr_t)&x->q->out->data.rows[i];

        row->instances = x->counts[i] == UINT32_MAX ? row->instances : x->counts[i];
    }
}

static void series_end(struct series *x)
{
    series_counts_end(x);
    size_t rows = x->q->out->data.n_rows;
    uint8_t n_metrics = x->q->out->data.n_metrics;
    bool rest = false;

    query_buckets_end(&x->axis);
    for (unsigned i = 0; i < n_metrics; i++) {
        rest |= !series_column_is_empty(x, &x->columns[rows * n_metrics + i]);
    }
    x->out->hosts_asked = (uint32_t)x->q->n_spans;
    x->out->present = x->axis.present;
    x->out->hosts_in = x->axis.hosts_in;
    x->out->reaches = x->axis.reaches;
    x->out->n_groups = rows + rest;
    x->out->columns = x->columns;
    x->q->out->data.series = x->out;
}

enum err query_series(struct query *q)
{
    struct wire_query ask = *q->ask;
    struct series x = {.q = q};
    struct query_history_steps steps = {
        .each = series_step_add, .undo = series_undo, .host_done = series_host_done, .ctx = &x};
    const struct wire_query *given = q->ask;
    bool by_name = ask.group_by == WIRE_GROUP_IMAGE || ask.group_by == WIRE_GROUP_USER;
    struct store_used used;
    enum err e = query_plan(q, series_metrics, sizeof series_metrics, SERIES_LIMIT);

    steps.nameless = ask.name.n == 0;
    steps.told = steps.nameless && by_name;
    if (!e && (ask.group_by == WIRE_GROUP_TREE || ask.group_by == WIRE_GROUP_IMAGE_USER)) {
        e = errmsg_set(q->why, ERR_INVALID,
                       "series are of processes, images, users, hosts or the fleet");
    }
    x.out = arena_alloc(&q->out->memory, sizeof *x.out);
    if (e || !x.out) {
        return e ? e : ERR_NOMEM;
    }
    *x.out = (struct wire_series){0};
    e = query_buckets_plan(&x.axis, q);
    x.out->t0_ns = x.axis.t0_ns;
    x.out->step_ns = x.axis.step_ns;
    x.out->n_buckets = x.axis.n;
    if (!e) {
        if (series_is_gauge(&x, 0) && ask.by == WIRE_BY_USUAL) {
            ask.by = WIRE_BY_AVG; /* not of who lives at the end alone */
        }
        q->ask = &ask;
        used = q->used;
        x.members.hours = series_may_take_hours(q);
        e = query_top_rows(q, by_name ? &x.members : NULL);
        q->ask = given;
        memcpy(q->used.windows, used.windows, sizeof used.windows); /* read again below */
        if (!e && q->out->more) {
            e = errmsg_set(q->why, ERR_INVALID,
                           "so many groups do not fit one answer: ask for fewer");
        }
    }
    for (size_t i = 0; !e && i < q->n_spans; i++) { /* groups are found by the host's place */
        uint32_t host;

        e = query_host_index(q, &q->spans[i], &host);
    }
    if (!e) {
        e = series_room(&x);
    }
    if (!e) {
        steps.step_ns = x.out->step_ns ? x.out->step_ns : CLK_S;
        steps.sums = series_takes_sums(&x) ? series_sums_add : NULL;
        e = query_history_steps(q, &steps);
    }
    if (!e) {
        series_end(&x);
    }
    query_groups_members_fini(&x.members);
    return e;
}
