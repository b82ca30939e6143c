#include "agent/sample/sampler.h"

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

enum { SAMPLER_FIRST_ROWS = 64, SAMPLER_GAP_TICKS = 60 };
#define SAMPLER_FAST_NS (100 * CLK_MS)

struct sampler {
    struct sampler_conf conf;
    struct sample_row *rows;
    size_t n_rows, cap_rows;
    bool begun;
    int64_t table_ns;                 /* distance of tables, where ticks between them are made */
    int64_t table_mono_ns;            /* the last one's */
    int64_t next_mono_ns;             /* of the grid */
    int64_t now_wall_ns, now_mono_ns; /* the stream has come this far */
    int64_t ticked_mono_ns;           /* the last tick's */
    struct sampler_stats stats;
};

enum err sampler_create(struct sampler **out, const struct sampler_conf *conf)
{
    struct sampler *s;

    if (conf->period_ns < CLK_MS || conf->period_ns > 10 * CLK_S) {
        return ERR_INVALID;
    }
    s = mem_zalloc(sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    s->table_ns = conf->period_ns < SAMPLER_FAST_NS ? INT64_MAX : conf->period_ns;
    s->rows = mem_array(SAMPLER_FIRST_ROWS, sizeof *s->rows);
    if (!s->rows) {
        mem_free(s);
        return ERR_NOMEM;
    }
    s->cap_rows = SAMPLER_FIRST_ROWS;
    *out = s;
    return ERR_OK;
}

void sampler_destroy(struct sampler *s)
{
    if (!s) {
        return;
    }
    mem_free(s->rows);
    mem_free(s);
}

const struct sampler_stats *sampler_stats(const struct sampler *s)
{
    return &s->stats;
}

/* -- rows -- */

/* Room for one more row; NULL: the limit, or no memory. */
static struct sample_row *next_row(struct sampler *s)
{
    s->stats.due++;
    if (s->n_rows >= s->conf.processes_max) {
        s->stats.capped++;
        return NULL;
    }
    if (VEC_ROOM(&s->rows, &s->cap_rows, s->n_rows + 1, s->conf.processes_max)) {
        s->stats.nomem++;
        return NULL;
    }
    return &s->rows[s->n_rows];
}

/* Whether the row's first values are themselves differences: its counters began at zero, with the
 * process or with our counting. Said once, in the first row that has counters. */
static bool is_fresh(struct sampler *s, struct instance *p)
{
    if (p->row.first_done || !(p->count.mask & aggregate_growing(s->conf.aggregate))) {
        return false;
    }
    p->row.first_done = true;
    return p->life.from_start || p->info.cpu_origin == CPU_ORIGIN_SAMPLES ||
           p->info.cpu_origin == CPU_ORIGIN_CSWITCH ||
           !(p->count.mask & p->count.given & aggregate_growing(s->conf.aggregate));
}

static void fill_row(struct sample_row *row, const struct instance *p, metric_mask columns)
{
    row->info = &p->info;
    row->info_version = p->info_version;
    row->mask = p->count.mask & columns;
    row->fresh = false;
    for (struct metric_mask_walk each = metric_mask_walk(row->mask);
         metric_mask_walk_next(&each);) {
        unsigned id = each.id;

        row->values[id] = p->count.values[id];
    }
}

static bool add_row(struct sampler *s, struct instance *p, metric_mask columns)
{
    struct sample_row *row = next_row(s);

    if (!row) {
        return false;
    }
    fill_row(row, p, columns);
    row->fresh = is_fresh(s, p);
    p->changed = false;
    p->row.shown = true;
    s->n_rows++;
    return true;
}

static bool is_wanted(const struct sampler *s, struct instance *p)
{
    return !s->conf.wants || s->conf.wants(s->conf.ctx, p);
}

/* A row that is due is left out when nobody wants it. */
static bool is_left_out(struct sampler *s, struct instance *p)
{
    if (is_wanted(s, p)) {
        return false;
    }
    s->stats.due++;
    s->stats.filtered++;
    p->changed = false;
    p->row.shown = true;
    return true;
}

/* True: the process has had its row, or needs none. */
static bool settle_row(struct sampler *s, struct instance *p)
{
    if (is_left_out(s, p)) {
        return true;
    }
    aggregate_settle(s->conf.aggregate, p);
    return add_row(s, p, METRIC_ALL);
}

static bool wants_row(const struct sampler *s, const struct instance *p)
{
    if (s->conf.by_table) {
        return p->count.in_table;
    }
    return s->conf.period_ns >= SAMPLER_FAST_NS || p->changed || !p->row.shown;
}

static void collect_ended(struct sampler *s)
{
    for (struct instance *p = instances_first_ended(s->conf.table); p; p = p->next) {
        if ((!p->row.final_done || p->changed) && settle_row(s, p)) {
            p->row.final_done = true;
        }
    }
}

static void collect_rows(struct sampler *s)
{
    s->n_rows = 0;
    collect_ended(s);
    for (struct instance *p = instances_first_running(s->conf.table); p; p = p->next) {
        if (wants_row(s, p)) {
            (void)settle_row(s, p);
        }
    }
}

/* Columns that no table fills, or that events move on until the next. */
static metric_mask event_columns(const struct instance *p)
{
    metric_mask by_table = p->count.given;

    if (aggregate_cpu_moves(p)) {
        by_table &= ~METRIC_BIT(M_CPU_TIME);
    } else if (p->info.cpu_origin == CPU_ORIGIN_TIMES) {
        by_table |= METRIC_BIT(M_CPU_TIME);
    }
    return p->count.mask & ~by_table;
}

/* Between two tables: who has ended, and whose events moved columns that no table fills. Whoever
 * has had no row yet waits for the table, so that its first row has everything. */
static void collect_between(struct sampler *s, int64_t mono_ns)
{
    s->n_rows = 0;
    aggregate_now(s->conf.aggregate, mono_ns);
    collect_ended(s);
    for (struct instance *p = instances_first_running(s->conf.table); p; p = p->next) {
        if (!p->changed || !p->row.shown || is_left_out(s, p)) {
            continue;
        }
        aggregate_settle(s->conf.aggregate, p);
        if (event_columns(p)) {
            (void)add_row(s, p, event_columns(p));
        }
    }
}

static void tell_rows(struct sampler *s, int64_t wall_ns, int64_t mono_ns)
{
    struct sample_tick tick = {.wall_ns = wall_ns, .mono_ns = mono_ns};

    if (s->stats.ticks > 0 && mono_ns <= s->ticked_mono_ns) {
        tick.wall_ns += s->ticked_mono_ns + 1 - mono_ns; /* a last tick upon the one before */
        tick.mono_ns = s->ticked_mono_ns + 1;
    }
    tick.rows = s->rows;
    tick.n_rows = s->n_rows;
    s->ticked_mono_ns = tick.mono_ns;
    s->stats.ticks++;
    s->stats.rows += s->n_rows;
    s->conf.tick(s->conf.ctx, &tick);
}

static void make_tick(struct sampler *s, int64_t wall_ns, int64_t mono_ns)
{
    collect_rows(s);
    tell_rows(s, wall_ns, mono_ns);
}

enum err sampler_collect(struct sampler *s, int64_t wall_ns, sampler_tick_fn tick, void *ctx)
{
    struct sample_tick out = {.wall_ns = wall_ns, .mono_ns = s->now_mono_ns};
    struct sample_row *rows;
    size_t n = 0;

    for (struct instance *p = instances_first_running(s->conf.table); p; p = p->next) {
        n += is_wanted(s, p);
    }
    rows = mem_array(n + 1, sizeof *rows);
    if (!rows) {
        return ERR_NOMEM;
    }
    for (struct instance *p = instances_first_running(s->conf.table); p; p = p->next) {
        if (is_wanted(s, p)) {
            aggregate_settle(s->conf.aggregate, p);
            fill_row(&rows[out.n_rows++], p, METRIC_ALL);
        }
    }
    out.rows = rows;
    tick(ctx, &out);
    mem_free(rows);
    return ERR_OK;
}

/* -- ticks -- */

void sampler_table(struct sampler *s, int64_t wall_ns, int64_t mono_ns)
{
    s->now_wall_ns = wall_ns;
    s->now_mono_ns = mono_ns;
    make_tick(s, wall_ns, mono_ns);
    s->table_mono_ns = mono_ns;
    s->next_mono_ns = mono_ns + s->conf.period_ns;
}

/* When the next tick between tables is due. A table is never quite on time, and is the tick it
 * comes near to: that one waits for it, for half a tick. */
static int64_t between_due_ns(const struct sampler *s)
{
    int64_t half_ns = s->conf.period_ns / 2;
    int64_t less_ns = clk_sub(clk_sub(s->next_mono_ns, s->table_mono_ns), s->table_ns);

    if (s->table_ns <= s->conf.period_ns || s->stats.ticks == 0) {
        return INT64_MAX;
    }
    return less_ns >= -half_ns && less_ns < half_ns ? s->next_mono_ns - less_ns + half_ns
                                                    : s->next_mono_ns;
}

int64_t sampler_due_ns(const struct sampler *s)
{
    if (s->conf.by_table) {
        return between_due_ns(s);
    }
    return s->begun ? s->next_mono_ns : INT64_MIN;
}

/* The time between two tables has come so far. */
static void tick_between(struct sampler *s, int64_t wall_ns, int64_t mono_ns)
{
    int64_t period_ns = s->conf.period_ns;

    if (mono_ns < between_due_ns(s)) {
        return;
    }
    s->next_mono_ns += ((mono_ns - s->next_mono_ns) / period_ns + 1) * period_ns;
    collect_between(s, mono_ns);
    if (s->n_rows > 0) {
        tell_rows(s, wall_ns, mono_ns);
    } else {
        s->stats.idle++;
    }
}

enum err sampler_set_pace(struct sampler *s, int64_t period_ns, int64_t table_ns)
{
    if (period_ns < CLK_MS || period_ns > 10 * CLK_S) {
        return ERR_INVALID;
    }
    s->next_mono_ns += period_ns - s->conf.period_ns;
    s->conf.period_ns = period_ns;
    s->table_ns = table_ns;
    return ERR_OK;
}

/* The grid's next tick. Its wall time runs back from the moment the stream has reached, so that a
 * clock that was set shows in the next tick and not in between. */
static void grid_tick(struct sampler *s)
{
    make_tick(s, s->now_wall_ns - (s->now_mono_ns - s->next_mono_ns), s->next_mono_ns);
    s->next_mono_ns += s->conf.period_ns;
}

static void skip_gap(struct sampler *s)
{
    int64_t behind = (s->now_mono_ns - s->next_mono_ns) / s->conf.period_ns;

    if (behind > SAMPLER_GAP_TICKS) {
        grid_tick(s);
        s->next_mono_ns += (behind - 1) * s->conf.period_ns;
        s->stats.skipped += (uint64_t)(behind - 1);
    }
}

void sampler_reached(struct sampler *s, int64_t wall_ns, int64_t mono_ns)
{
    s->now_wall_ns = wall_ns;
    s->now_mono_ns = mono_ns;
}

void sampler_advance(struct sampler *s, int64_t wall_ns, int64_t mono_ns)
{
    sampler_reached(s, wall_ns, mono_ns);
    if (s->conf.by_table) {
        tick_between(s, wall_ns, mono_ns);
        return;
    }
    if (!s->begun) {
        s->begun = true;
        s->next_mono_ns = mono_ns;
    }
    if (mono_ns < s->next_mono_ns) {
        return;
    }
    skip_gap(s);
    while (s->next_mono_ns <= mono_ns) {
        grid_tick(s);
    }
}

void sampler_finish(struct sampler *s)
{
    bool due = s->begun && !s->conf.by_table;

    for (const struct instance *p = instances_first_ended(s->conf.table); p && !due; p = p->next) {
        due = !p->row.final_done;
    }
    if (due) {
        make_tick(s, s->now_wall_ns, s->now_mono_ns);
    }
}
