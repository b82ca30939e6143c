#include "collector/clickhouse/ch_rows.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "collector/store/batch_time.h"
#include "collector/store/meta/loss_sum.h"
#include "collector/store/rollup/cell.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/model/ledger.h"

#define BATCHES_MAX    (1u << 20)
#define DAYS_ROOM      256u /* of a block; beyond, days are not told apart */
#define DAY_NS         (86400 * CLK_S)
#define PARTS          ((size_t)CH_DEV + 1)
#define USUAL          10u /* samples of a cell: its loops are unrolled for so many */
#define ALWAYS_INLINE  __attribute__((always_inline))
#define PROVIDER_EVENT UINT64_C(0x80000000) /* their numbers, however they were kept */

/* A cell of the batch at hand: n ticks of one run of its rows, from `begin` on. */
struct piece {
    size_t run, begin, n;
    size_t at; /* of its values in columns that every run has */
};

struct ch_rows {
    const char *collector;
    struct ch_block *block[CH_TABLES]; /* NULL: not one of ours */
    struct wire_encoder *encoder;
    uint16_t cell_at[METRIC_COLS], sample_at[METRIC_COLS]; /* columns; 0: no such metric */
    bool counter[METRIC_COLS];
    struct buf rest, text;
    size_t batches;
    uint64_t values;
    uint8_t *gone; /* of each batch: it had rows, and they are gone */
    size_t cap_gone, n_gone;
    int64_t days[DAYS_ROOM];
    size_t n_days;
    /* Of the batch at hand. */
    const struct ch_rows_batch *b;
    uint64_t rows;
    size_t cells;
    uint32_t alive;
    metric_mask all; /* metrics that every run has */
    const struct batch_column *column[METRIC_COLS];
    size_t cells_room, samples_room; /* how many it will be */
    uint16_t spans[WIRE_TICKS_MAX];  /* of each tick: spans that begin at it or before */
    size_t pieces_cap, part_cap[PARTS], sample_cap;
    struct piece *pieces;
    int64_t *part[PARTS]; /* of one metric: columns of its cells */
    int64_t *sample;      /* a column of samples that is not a metric's */
};

static const enum ch_table ours[] = {CH_CELL, CH_SAMPLE, CH_EVENT, CH_PROCESS, CH_HOST, CH_BATCH};

enum err ch_rows_create(struct ch_rows **out, const char *collector)
{
    struct ch_rows *r = mem_zalloc(sizeof *r);
    enum err e = r ? wire_batch_encoder_create(&r->encoder) : ERR_NOMEM;

    for (size_t i = 0; i < sizeof ours / sizeof *ours && !e; i++) {
        e = ch_native_block_create(&r->block[ours[i]], ours[i]);
    }
    if (e) {
        ch_rows_destroy(r);
        return e;
    }
    for (unsigned id = 0; id < METRIC_COLS; id++) {
        const struct metric *m = metric_by_id(id);

        r->cell_at[id] = (uint16_t)ch_schema_metric(CH_CELL, id);
        r->sample_at[id] = (uint16_t)ch_schema_metric(CH_SAMPLE, id);
        r->counter[id] = m && m->kind == METRIC_COUNTER;
    }
    r->collector = collector;
    buf_init(&r->rest, WIRE_BATCH_OWN_MAX);
    buf_init(&r->text, 4096);
    *out = r;
    return ERR_OK;
}

void ch_rows_destroy(struct ch_rows *r)
{
    if (!r) {
        return;
    }
    for (size_t t = 0; t < CH_TABLES; t++) {
        ch_native_block_destroy(r->block[t]);
    }
    wire_batch_encoder_destroy(r->encoder);
    buf_fini(&r->rest);
    buf_fini(&r->text);
    for (size_t k = 0; k < PARTS; k++) {
        mem_free(r->part[k]);
    }
    mem_free(r->pieces);
    mem_free(r->sample);
    mem_free(r->gone);
    mem_free(r);
}

void ch_rows_reset(struct ch_rows *r)
{
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        ch_native_block_reset(r->block[ours[i]]);
    }
    r->batches = r->n_gone = r->n_days = 0;
    r->values = 0;
}

struct ch_block *ch_rows_block(struct ch_rows *r, enum ch_table t)
{
    return r->block[t];
}

size_t ch_rows_batches(const struct ch_rows *r)
{
    return r->batches;
}

uint64_t ch_rows_values(const struct ch_rows *r)
{
    return r->values;
}

size_t ch_rows_days(const struct ch_rows *r)
{
    return r->n_days;
}

size_t ch_rows_bytes(const struct ch_rows *r)
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        n += ch_native_bytes(r->block[ours[i]]);
    }
    return n;
}

/* -- how much a batch is, before anything is put -- */

static bool day_has(const int64_t *days, size_t n, int64_t day)
{
    while (n--) { /* the newest is asked for most */
        if (days[n] == day) {
            return true;
        }
    }
    return false;
}

/* The day of the stamp joins the batch's. False: too many. */
static bool day_add(int64_t days[CH_ROWS_DAYS_MAX], size_t *n, int64_t wall_ns)
{
    int64_t day = wall_ns / DAY_NS;

    if (day_has(days, *n, day)) {
        return true;
    }
    if (*n == CH_ROWS_DAYS_MAX) {
        return false;
    }
    days[(*n)++] = day;
    return true;
}

static bool days_fit(struct ch_rows *r, int64_t t0_ns)
{
    const struct batch *rest = r->b->rest, *rows = r->b->rows;
    int64_t days[CH_ROWS_DAYS_MAX];
    size_t n = 0;
    bool fit = day_add(days, &n, t0_ns);

    for (size_t i = 0; rows && fit && i < rest->n_ticks; i++) {
        fit = day_add(days, &n, rows->wall_ns[r->b->first_tick + i]);
    }
    for (size_t i = 0; fit && i < rest->n_events; i++) {
        fit = day_add(days, &n, rest->events[i].wall_ns);
    }
    for (size_t i = 0; fit && i < n; i++) {
        if (r->n_days < DAYS_ROOM && !day_has(r->days, r->n_days, days[i])) {
            r->days[r->n_days++] = days[i];
        }
    }
    return fit;
}

static bool cells_fit(struct ch_rows *r)
{
    const struct batch *rows = r->b->rows;
    size_t first = r->b->first_tick, behind = first + r->b->rest->n_ticks, cells = 0, samples = 0;
    uint16_t *spans = r->spans;

    if (!rows || r->b->rest->n_ticks > WIRE_TICKS_MAX) {
        return !rows;
    }
    for (size_t i = first; i < behind; i++) {
        spans[i - first] =
            i == first
                ? 0
                : (uint16_t)(spans[i - first - 1] + (rows->wall_ns[i] / CH_ROWS_SPAN_NS !=
                                                     rows->wall_ns[i - 1] / CH_ROWS_SPAN_NS));
    }
    for (size_t i = 0; i < rows->n_runs; i++) {
        size_t begin = rows->runs[i].first_tick, end = begin + rows->runs[i].n_ticks;

        begin = begin > first ? begin : first;
        end = end < behind ? end : behind;
        if (begin < end) {
            cells += spans[end - 1 - first] - spans[begin - first] + 1u;
            samples += r->b->samples ? end - begin : 0;
        }
    }
    r->cells_room = cells;
    r->samples_room = samples;
    return cells <= CH_ROWS_CELLS_MAX && samples <= CH_ROWS_SAMPLES_MAX;
}

/* -- cells and samples -- */

/* Column by column: what is put into a row at a time costs three times as much. */

static const struct batch_run *run_of(const struct ch_rows *r, const struct piece *p)
{
    return &r->b->rows->runs[p->run];
}

/* What stands in a column for the tick of a piece; of a cell, for its first tick. */
typedef int64_t column_value(const struct ch_rows *r, const struct piece *p, size_t tick);

static inline int64_t value_pid(const struct ch_rows *r, const struct piece *p, size_t tick)
{
    (void)tick;
    return run_of(r, p)->id.pid;
}

static inline int64_t value_start(const struct ch_rows *r, const struct piece *p, size_t tick)
{
    (void)tick;
    return (int64_t)run_of(r, p)->id.start;
}

static inline int64_t value_ts(const struct ch_rows *r, const struct piece *p, size_t tick)
{
    (void)p;
    return r->b->rows->wall_ns[tick];
}

static inline int64_t value_last_ts(const struct ch_rows *r, const struct piece *p, size_t tick)
{
    return r->b->rows->wall_ns[tick + p->n - 1];
}

static inline int64_t value_n(const struct ch_rows *r, const struct piece *p, size_t tick)
{
    (void)r;
    (void)tick;
    return (int64_t)p->n;
}

static inline int64_t value_stream(const struct ch_rows *r, const struct piece *p, size_t tick)
{
    (void)p;
    (void)tick;
    return (int64_t)r->b->rest->head.stream;
}

static inline int64_t value_seq(const struct ch_rows *r, const struct piece *p, size_t tick)
{
    (void)p;
    (void)tick;
    return (int64_t)r->b->rest->head.seq;
}

static inline int64_t value_flags(const struct ch_rows *r, const struct piece *p, size_t tick)
{
    return run_of(r, p)->fresh && tick == run_of(r, p)->first_tick ? CH_FRESH : 0;
}

static inline int64_t value_mask(const struct ch_rows *r, const struct piece *p, size_t tick)
{
    (void)tick;
    return (int64_t)metric_mask_low(run_of(r, p)->mask);
}

static inline int64_t value_mask_high(const struct ch_rows *r, const struct piece *p, size_t tick)
{
    (void)tick;
    return (int64_t)metric_mask_high(run_of(r, p)->mask);
}

/* The column of the batch's cells, or samples: of its pieces, or their ticks. */
static inline void put_column(struct ch_rows *r, enum ch_table t, size_t column,
                              column_value *value)
{
    int64_t *v = t == CH_CELL ? r->part[0] : r->sample;
    size_t n = 0;

    for (const struct piece *p = r->pieces; p < r->pieces + r->cells; p++) {
        for (size_t k = 0; k < (t == CH_CELL ? 1 : p->n); k++) {
            v[n++] = value(r, p, p->begin + k);
        }
    }
    ch_native_rows_put(r->block[t], column, ch_native_rows(r->block[t]) - n, v, n);
}

/* All but the metrics. Columns that both tables have stand in the same order. */
static inline void put_rows(struct ch_rows *r, enum ch_table t, size_t n, size_t stream)
{
    const struct batch_head *head = &r->b->rest->head;
    struct ch_block *b = r->block[t];
    size_t row = ch_native_rows(b);

    ch_native_rows_begin(b, n);
    ch_native_rows_uuid(b, CH_CELL_host_id, row, &head->host, n);
    ch_native_rows_uuid(b, CH_CELL_boot, row, &head->boot, n);
    put_column(r, t, CH_CELL_pid, value_pid);
    put_column(r, t, CH_CELL_start, value_start);
    put_column(r, t, CH_CELL_ts, value_ts);
    put_column(r, t, stream, value_stream);
    put_column(r, t, stream + CH_CELL_seq - CH_CELL_stream, value_seq);
    put_column(r, t, stream + CH_CELL_flags - CH_CELL_stream, value_flags);
    put_column(r, t, stream + CH_CELL_mask - CH_CELL_stream, value_mask);
    put_column(r, t, stream + CH_CELL_mask_high - CH_CELL_stream, value_mask_high);
}

/* Ticks [begin, end) of the run: a cell. */
static void piece_add(struct ch_rows *r, const struct batch_run *run, size_t begin, size_t end,
                      size_t at)
{
    assert(r->cells < r->pieces_cap);
    r->pieces[r->cells++] =
        (struct piece){(size_t)(run - r->b->rows->runs), begin, end - begin, at};
    r->rows += end - begin;
    r->values += (end - begin) * metric_mask_count(run->mask);
}

/* at: rows of the runs before. */
static void run_cut(struct ch_rows *r, const struct batch_run *run, size_t at)
{
    size_t first = r->b->first_tick, behind = first + r->b->rest->n_ticks;
    size_t begin = run->first_tick > first ? run->first_tick : first;
    size_t end = (size_t)run->first_tick + run->n_ticks;

    end = end < behind ? end : behind;
    if (begin >= end) {
        return;
    }
    r->alive += end == behind && run->id.pid != 0;
    for (size_t next; begin < end; begin = next) {
        for (next = begin + 1; next < end && r->spans[next - first] == r->spans[begin - first];
             next++) {
        }
        piece_add(r, run, begin, next, at + begin - run->first_tick);
    }
}

/* Sums of so many values between these bounds cannot wrap. */
#define SUM_SAFE   (INT64_C(1) << 46)
#define COUNT_SAFE ((size_t)1 << 16)

/* Whether n values, of which the last is the first, are all the same, as most are. */
static inline bool values_stand(const int64_t *v, size_t n)
{
    uint64_t moved = 0;

    for (size_t k = 1; k + 1 < n; k++) {
        moved |= (uint64_t)v[k] ^ (uint64_t)v[0];
    }
    return !moved;
}

/* What a counter did in cell i, whose n values are v. As cell_values, for what values are like. */
ALWAYS_INLINE static inline void counter_take(struct ch_rows *r, size_t i, const int64_t *v,
                                              size_t n)
{
    int64_t most = n > 1 ? INT64_MIN : 0, all = v[0];

    if (v[0] == v[n - 1] && values_stand(v, n)) {
        most = 0;
    } else {
        for (size_t k = 1; k < n; k++) {
            int64_t step = (int64_t)((uint64_t)v[k] - (uint64_t)v[k - 1]);

            all |= v[k];
            most = step > most ? step : most;
        }
    }
    if (all < 0 && n > 1) { /* steps may wrap */
        struct cell c = {.count = n, .last_ns = 1};

        cell_values(&c, true, v, n, false);
        most = c.max;
    }
    r->part[CH_LAST][i] = v[n - 1];
    r->part[CH_GREW][i] = (int64_t)((uint64_t)v[n - 1] - (uint64_t)v[0]);
    r->part[CH_MOST][i] = most;
}

ALWAYS_INLINE static inline void gauge_take(struct ch_rows *r, size_t i, const int64_t *v, size_t n)
{
    uint64_t last = (uint64_t)v[n - 1], sum = 0;
    int64_t lo = v[0], hi = v[0];

    r->part[CH_LAST][i] = v[n - 1];
    if (v[0] == v[n - 1] && n <= COUNT_SAFE && lo >= -SUM_SAFE && hi <= SUM_SAFE &&
        values_stand(v, n)) {
        r->part[CH_UP][i] = r->part[CH_DOWN][i] = r->part[CH_DEV][i] = 0;
        return;
    }
    for (size_t k = 0; k < n; k++) {
        lo = v[k] < lo ? v[k] : lo;
        hi = v[k] > hi ? v[k] : hi;
        sum += (uint64_t)v[k];
    }
    if (lo < -SUM_SAFE || hi > SUM_SAFE || n > COUNT_SAFE) { /* the sum may wrap */
        struct cell c = {.count = n, .last_ns = n > 1};

        cell_values(&c, false, v, n, false);
        sum = (uint64_t)c.sum;
    }
    r->part[CH_UP][i] = (int64_t)((uint64_t)hi - last);
    r->part[CH_DOWN][i] = (int64_t)(last - (uint64_t)lo);
    r->part[CH_DEV][i] = (int64_t)(sum - n * last);
}

/* Walks over one metric's values as pieces follow each other. */
struct value_walk {
    unsigned id;
    size_t run, at;
};

static inline bool run_has(const struct batch_run *run, unsigned id)
{
    uint64_t page = id < METRIC_PAGE ? metric_mask_low(run->mask) : metric_mask_high(run->mask);

    return page >> id % METRIC_PAGE & 1;
}

/* Of the piece; NULL: it has no such metric. */
static inline const int64_t *values_next(struct value_walk *w, const struct ch_rows *r,
                                         const struct piece *p)
{
    const struct batch_run *runs = r->b->rows->runs;

    for (; w->run < p->run; w->run++) { /* values of runs before */
        w->at += run_has(&runs[w->run], w->id) ? runs[w->run].n_ticks : 0;
    }
    return run_has(&runs[w->run], w->id)
               ? r->column[w->id]->values + w->at + (p->begin - runs[w->run].first_tick)
               : NULL;
}

__attribute__((noinline)) static void metric_take(struct ch_rows *r, bool counter, size_t i,
                                                  const int64_t *v, size_t n)
{
    if (counter) {
        counter_take(r, i, v, n);
    } else {
        gauge_take(r, i, v, n);
    }
}

ALWAYS_INLINE static inline void cells_take(struct ch_rows *r, unsigned id, bool counter)
{
    const int64_t *values = r->column[id]->values;
    struct value_walk w = {.id = id};
    bool all = (r->all & METRIC_BIT(id)) != 0;

    for (size_t i = 0; i < r->cells; i++) {
        const struct piece *p = &r->pieces[i];
        const int64_t *v = all ? values + p->at : values_next(&w, r, p);

        if (!v) {
            for (size_t k = 0; k < PARTS; k++) {
                r->part[k][i] = 0;
            }
        } else if (p->n != USUAL) {
            metric_take(r, counter, i, v, p->n);
        } else if (counter) {
            counter_take(r, i, v, USUAL);
        } else {
            gauge_take(r, i, v, USUAL);
        }
    }
}

static void put_cell_metric(struct ch_rows *r, unsigned id)
{
    struct ch_block *b = r->block[CH_CELL];
    size_t parts = r->counter[id] ? CH_MOST + 1 : PARTS;

    if (r->counter[id]) {
        cells_take(r, id, true);
    } else {
        cells_take(r, id, false);
    }
    for (size_t k = 0; k < parts; k++) {
        ch_native_rows_put(b, r->cell_at[id] + k, ch_native_rows(b) - r->cells, r->part[k],
                           r->cells);
    }
}

/* Straight from the batch, as far as values follow each other. */
static void put_sample_metric(struct ch_rows *r, unsigned id)
{
    struct ch_block *b = r->block[CH_SAMPLE];
    size_t at = r->sample_at[id], row = ch_native_rows(b) - (size_t)r->rows, n = 0;
    struct value_walk w = {.id = id};
    const int64_t *from = NULL; /* n of them, of rows before `row` */

    for (size_t i = 0; i < r->cells; i++) {
        const int64_t *v = values_next(&w, r, &r->pieces[i]);

        if (n && v != from + n) {
            ch_native_rows_put(b, at, row - n, from, n);
            n = 0;
        }
        from = n ? from : v;
        n += v ? r->pieces[i].n : 0;
        row += r->pieces[i].n;
    }
    if (n) {
        ch_native_rows_put(b, at, row - n, from, n);
    }
}

/* False: a run has values that are not there. */
static bool runs_are_sound(const struct ch_rows *r)
{
    const struct batch *rows = r->b->rows;
    size_t at[METRIC_COLS] = {0};

    for (size_t i = 0; i < rows->n_runs; i++) {
        struct metric_mask_walk walk = metric_mask_walk(rows->runs[i].mask);

        while (metric_mask_walk_next(&walk)) {
            at[walk.id] += rows->runs[i].n_ticks;
            if (!r->column[walk.id] || r->column[walk.id]->n_values < at[walk.id]) {
                return false;
            }
        }
    }
    return true;
}

static enum err runs_room(struct ch_rows *r)
{
    enum err e = VEC_ROOM(&r->pieces, &r->pieces_cap, r->cells_room, CH_ROWS_CELLS_MAX);

    for (size_t k = 0; k < PARTS && !e; k++) {
        e = VEC_ROOM(&r->part[k], &r->part_cap[k], r->cells_room, CH_ROWS_CELLS_MAX);
    }
    return e ? e : VEC_ROOM(&r->sample, &r->sample_cap, r->samples_room, CH_ROWS_SAMPLES_MAX);
}

/* Rows first, then metric by metric. Errors: ERR_INVALID, ERR_NOMEM; nothing is put then */
static enum err put_runs(struct ch_rows *r)
{
    const struct batch *rows = r->b->rows;
    enum err e;

    memset(r->column, 0, sizeof r->column);
    for (size_t i = 0; i < rows->n_columns; i++) {
        unsigned id = rows->columns[i].metric;

        if (id < METRIC_COLS && r->cell_at[id]) {
            r->column[id] = &rows->columns[i];
        }
    }
    e = runs_are_sound(r) ? runs_room(r) : ERR_INVALID;
    if (e) {
        return e;
    }
    r->all = METRIC_ALL;
    for (size_t i = 0, at = 0; i < rows->n_runs; at += rows->runs[i++].n_ticks) {
        run_cut(r, &rows->runs[i], at);
        r->all &= rows->runs[i].mask;
    }
    put_rows(r, CH_CELL, r->cells, CH_CELL_stream);
    put_column(r, CH_CELL, CH_CELL_last_ts, value_last_ts);
    put_column(r, CH_CELL, CH_CELL_n, value_n);
    if (r->b->samples) {
        put_rows(r, CH_SAMPLE, (size_t)r->rows, CH_SAMPLE_stream);
    }
    for (unsigned id = 0; id < METRIC_COLS; id++) {
        if (r->column[id]) {
            put_cell_metric(r, id);
        }
        if (r->column[id] && r->b->samples) {
            put_sample_metric(r, id);
        }
    }
    return ERR_OK;
}

/* -- the rest -- */

void ch_rows_process(struct ch_rows *r, const struct uuid *host, const struct uuid *boot,
                     const struct proc_info *info, int64_t seen_ns)
{
    struct ch_block *b = r->block[CH_PROCESS];

    ch_native_row(b);
    ch_native_uuid(b, CH_PROCESS_host_id, host);
    ch_native_uuid(b, CH_PROCESS_boot, boot);
    ch_native_u64(b, CH_PROCESS_pid, info->id.pid);
    ch_native_u64(b, CH_PROCESS_start, info->id.start);
    ch_native_u64(b, CH_PROCESS_seen, (uint64_t)seen_ns);
    ch_native_u64(b, CH_PROCESS_have, info->have);
    ch_native_u64(b, CH_PROCESS_origin, info->origin);
    ch_native_u64(b, CH_PROCESS_cpu_origin, info->cpu_origin);
    ch_native_u64(b, CH_PROCESS_parent_pid, info->parent_pid);
    ch_native_u64(b, CH_PROCESS_parent_start, info->parent_start);
    ch_native_u64(b, CH_PROCESS_sequence, info->sequence);
    ch_native_u64(b, CH_PROCESS_session_id, info->session_id);
    ch_native_u64(b, CH_PROCESS_exit_code, info->exit_code);
    ch_native_u64(b, CH_PROCESS_create_ts, (uint64_t)info->create_ns);
    ch_native_u64(b, CH_PROCESS_exit_ts, (uint64_t)info->exit_ns);
    ch_native_str(b, CH_PROCESS_name, info->name);
    ch_native_str(b, CH_PROCESS_image, info->image);
    ch_native_str(b, CH_PROCESS_command_line, info->command_line);
    ch_native_str(b, CH_PROCESS_user, info->user);
}

/* Of one batch a start says least of a process, its end most. */
enum { SEEN_START, SEEN_INFO, SEEN_STOP };

static struct str event_type(struct ch_rows *r, const struct life_event *e)
{
    buf_reset(&r->text);
    if (e->type) {
        buf_printf(&r->text, "%.*s/%.*s/%.*s", (int)e->type->provider.n, e->type->provider.p,
                   (int)e->type->task.n, e->type->task.p, (int)e->type->name.n, e->type->name.p);
    }
    return str_make(buf_cstr(&r->text));
}

static void put_events(struct ch_rows *r, int64_t t1_ns)
{
    const struct batch *rest = r->b->rest;
    uint64_t life = 0, provider = PROVIDER_EVENT;

    for (size_t i = 0; i < rest->n_events; i++) {
        const struct life_event *e = &rest->events[i];
        struct ch_block *b = r->block[CH_EVENT];

        ch_native_row(b);
        ch_native_uuid(b, CH_EVENT_host_id, &rest->head.host);
        ch_native_uuid(b, CH_EVENT_boot, &rest->head.boot);
        ch_native_u64(b, CH_EVENT_stream, rest->head.stream);
        ch_native_u64(b, CH_EVENT_seq, rest->head.seq);
        ch_native_u64(b, CH_EVENT_i, e->kind == LIFE_PROVIDER ? provider++ : life++);
        ch_native_u64(b, CH_EVENT_ts, (uint64_t)e->wall_ns);
        ch_native_u64(b, CH_EVENT_mono, (uint64_t)e->mono_ns);
        ch_native_u64(b, CH_EVENT_kind, e->kind);
        ch_native_u64(b, CH_EVENT_tid, e->tid);
        ch_native_u64(b, CH_EVENT_pid, e->info.id.pid);
        ch_native_u64(b, CH_EVENT_start, e->info.id.start);
        ch_native_u64(b, CH_EVENT_exit_code, e->info.exit_code);
        ch_native_str(b, CH_EVENT_name, e->info.name);
        ch_native_str(b, CH_EVENT_type, event_type(r, e));
        ch_native_str(b, CH_EVENT_text, e->text);
        if (e->kind == LIFE_PROCESS_START || e->kind == LIFE_PROCESS_STOP) {
            ch_rows_process(r, &rest->head.host, &rest->head.boot, &e->info,
                            t1_ns + (e->kind == LIFE_PROCESS_START ? SEEN_START : SEEN_STOP));
        }
    }
    for (size_t i = 0; i < rest->n_infos; i++) {
        ch_rows_process(r, &rest->head.host, &rest->head.boot, &rest->infos[i], t1_ns + SEEN_INFO);
    }
}

static void put_host(struct ch_rows *r, int64_t t1_ns)
{
    struct ch_block *b = r->block[CH_HOST];

    ch_native_row(b);
    ch_native_uuid(b, CH_HOST_host_id, &r->b->rest->head.host);
    ch_native_str(b, CH_HOST_name, str_make(r->b->host_name));
    ch_native_u64(b, CH_HOST_seen,
                  (uint64_t)batch_time_made(t1_ns, r->b->clock, r->b->received_ns));
}

static uint64_t put_ledger(struct ch_block *b, const struct batch *rest)
{
    struct str stages[WIRE_LEDGER_MAX], reasons[WIRE_LEDGER_MAX];
    uint64_t counts[WIRE_LEDGER_MAX], lost = 0;
    size_t n = rest->n_ledger < WIRE_LEDGER_MAX ? rest->n_ledger : WIRE_LEDGER_MAX;

    for (size_t i = 0; i < n; i++) {
        const struct ledger_row *row = &rest->ledger[i];

        stages[i] = row->stage;
        reasons[i] = row->reason;
        counts[i] = row->count;
        lost = ledger_is_loss(row) ? ledger_add(lost, row->count) : lost;
    }
    ch_native_strings(b, CH_BATCH_stage, stages, n);
    ch_native_strings(b, CH_BATCH_reason, reasons, n);
    ch_native_u64s(b, CH_BATCH_count, counts, n);
    return lost;
}

/* The same wherever the batch is read: of what tells two batches of clones apart. */
static uint64_t hash_of(const struct batch *rest)
{
    uint64_t h = hash_bytes(rest->head.boot.b, sizeof rest->head.boot.b, rest->head.seq);

    h = hash_bytes(rest->wall_ns, rest->n_ticks * sizeof *rest->wall_ns, h);
    return hash_bytes(rest->mono_ns, rest->n_ticks * sizeof *rest->mono_ns, h);
}

static void put_batch(struct ch_rows *r, int64_t t0_ns, int64_t t1_ns)
{
    const struct batch *rest = r->b->rest;
    const struct batch_head *head = &rest->head;
    const struct host_offset *clock = r->b->clock;
    struct ch_block *b = r->block[CH_BATCH];

    ch_native_row(b);
    ch_native_uuid(b, CH_BATCH_host_id, &head->host);
    ch_native_u64(b, CH_BATCH_stream, head->stream);
    ch_native_u64(b, CH_BATCH_seq, head->seq);
    ch_native_u64(b, CH_BATCH_seq_last, head->seq);
    ch_native_str(b, CH_BATCH_collector, str_make(r->collector));
    ch_native_u64(b, CH_BATCH_hash, hash_of(rest));
    ch_native_uuid(b, CH_BATCH_boot, &head->boot);
    ch_native_u64(b, CH_BATCH_flags, head->flags);
    ch_native_u64(b, CH_BATCH_cpus, head->cpus);
    ch_native_str(b, CH_BATCH_source, head->source);
    ch_native_u64(b, CH_BATCH_t0, (uint64_t)t0_ns);
    ch_native_u64(b, CH_BATCH_t1, (uint64_t)t1_ns);
    ch_native_u64(b, CH_BATCH_received, (uint64_t)r->b->received_ns);
    ch_native_u64(b, CH_BATCH_clock, (clock->known ? 1u : 0u) | (clock->bounded ? 2u : 0u));
    ch_native_u64(b, CH_BATCH_clock_offset, (uint64_t)clock->offset_ns);
    ch_native_u64(b, CH_BATCH_clock_error, (uint64_t)clock->error_ns);
    ch_native_u64(b, CH_BATCH_ticks, rest->n_ticks);
    ch_native_u64(b, CH_BATCH_rows, r->rows);
    ch_native_u64(b, CH_BATCH_cells, r->cells);
    ch_native_u64(b, CH_BATCH_events, rest->n_events);
    ch_native_u64(b, CH_BATCH_alive, r->alive);
    ch_native_u64(b, CH_BATCH_lost, put_ledger(b, rest));
    ch_native_u64(b, CH_BATCH_plain, loss_sum_plain(rest));
    ch_native_str(b, CH_BATCH_rest, (struct str){(const char *)r->rest.p, r->rest.n});
    if (rest->n_ticks) {
        ch_native_u64(b, CH_BATCH_tick0, (uint64_t)rest->wall_ns[0]);
        ch_native_u64(b, CH_BATCH_tick1, (uint64_t)rest->wall_ns[rest->n_ticks - 1]);
        ch_native_u64(b, CH_BATCH_mono0, (uint64_t)rest->mono_ns[0]);
        ch_native_u64(b, CH_BATCH_mono1, (uint64_t)rest->mono_ns[rest->n_ticks - 1]);
    }
}

enum err ch_rows_add(struct ch_rows *r, const struct ch_rows_batch *b)
{
    struct batch rest = *b->rest;
    int64_t t0_ns, t1_ns;
    enum err e;

    r->b = b;
    r->rows = 0;
    r->cells = 0;
    r->alive = 0;
    rest.n_runs = rest.n_columns = 0;
    buf_reset(&r->rest);
    e = VEC_ROOM(&r->gone, &r->cap_gone, r->batches + 1, BATCHES_MAX);
    e = e ? e : wire_batch_pack(r->encoder, &r->rest, &rest);
    batch_time_span(&rest, b->received_ns, &t0_ns, &t1_ns);
    if (!e && (!cells_fit(r) || !days_fit(r, t0_ns))) {
        e = ERR_FULL;
    }
    if (!e && b->rows) {
        e = put_runs(r);
    }
    if (e) {
        return e;
    }
    put_events(r, t1_ns);
    put_host(r, t1_ns);
    put_batch(r, t0_ns, t1_ns);
    r->gone[r->batches++] = !b->rows && b->rest->n_ticks;
    r->n_gone += !b->rows && b->rest->n_ticks;
    return ERR_OK;
}

enum err ch_rows_leave_out(struct ch_rows *r, const struct ch_rows_batch *b)
{
    struct batch rest = *b->rest;
    struct ch_rows_batch bare = *b;
    enum err e;

    rest.n_events = rest.n_infos = 0;
    bare.rest = &rest;
    bare.rows = NULL;
    e = ch_rows_add(r, &bare);
    if (!e && !r->gone[r->batches - 1]) { /* it has no ticks */
        r->gone[r->batches - 1] = 1;
        r->n_gone++;
    }
    return e;
}

size_t ch_rows_given_up(const struct ch_rows *r)
{
    return r->n_gone;
}

struct announcement {
    const struct ch_rows *r;
    enum ch_kind kind;
    uint64_t again;
};

static uint64_t announce_kind(void *ctx, size_t row)
{
    const struct announcement *a = ctx;

    return a->kind == CH_STORED && a->r->gone[row] ? CH_GIVEN_UP : a->kind;
}

static uint64_t announce_again(void *ctx, size_t row)
{
    (void)row;
    return ((const struct announcement *)ctx)->again;
}

void ch_rows_announce(struct ch_rows *r, enum ch_kind kind, bool again)
{
    struct announcement a = {r, kind, again};

    ch_native_fill(r->block[CH_BATCH], CH_BATCH_kind, announce_kind, &a);
    ch_native_fill(r->block[CH_BATCH], CH_BATCH_again, announce_again, &a);
}
