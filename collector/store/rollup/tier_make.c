/* A tier from the rows of a window: the ticks are cut into buckets, each run becomes a row, and
 * each column is added up bucket by bucket. Runs keep their order, so a column is read once,
 * straight on. */
#include "collector/store/rollup/tier.h"

#include <stdlib.h>

#include "collector/store/batch_time.h"
#include "collector/store/memtable/head_info.h"
#include "common/base/search.h"

struct tier_info {
    const struct uuid *boot;
    const struct proc_info *info;
    int64_t when_ns; /* head_info_when */
    size_t order;    /* of telling, within that: head_info.h */
};

struct tier_infos {
    const struct tier_names *names; /* asked where the window says nothing; may be NULL */
    size_t n;
    struct tier_info *list; /* by instance, one of each: what all that was told of it says */
};

static int infos_compare(const struct uuid *boot_a, struct proc_id a, const struct uuid *boot_b,
                         struct proc_id b)
{
    int d = memcmp(boot_a->b, boot_b->b, sizeof boot_a->b);

    if (d) {
        return d;
    }
    if (a.pid != b.pid) {
        return a.pid < b.pid ? -1 : 1;
    }
    return a.start < b.start ? -1 : a.start > b.start;
}

static int by_instance(const void *a, const void *b)
{
    const struct tier_info *x = a, *y = b;
    int d = infos_compare(x->boot, x->info->id, y->boot, y->info->id);

    if (d) {
        return d;
    }
    if (x->when_ns != y->when_ns) {
        return x->when_ns < y->when_ns ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

static bool tells_process(const struct life_event *ev)
{
    return ev->kind == LIFE_PROCESS_START || ev->kind == LIFE_PROCESS_STOP;
}

static size_t count_told(const struct batch *b)
{
    size_t n = b->n_infos;

    for (size_t i = 0; i < b->n_events; i++) {
        n += tells_process(&b->events[i]);
    }
    return n;
}

static void infos_add(struct tier_infos *t, const struct uuid *boot, const struct proc_info *info,
                      int64_t when_ns)
{
    t->list[t->n] = (struct tier_info){boot, info, when_ns, t->n};
    t->n++;
}

static void add_events(struct tier_infos *t, const struct batch *b, int64_t t1_ns, bool last)
{
    for (size_t i = 0; i < b->n_events; i++) {
        const struct life_event *ev = &b->events[i];

        if (tells_process(ev) && head_info_is_last(ev) == last) {
            infos_add(t, &b->head.boot, &ev->info, head_info_when(ev, t1_ns));
        }
    }
}

/* In the order of time (head_info.h). */
static void add_rest(struct tier_infos *t, const struct window_rest *rest)
{
    const struct batch *b = &rest->batch;
    int64_t t0_ns, t1_ns;

    batch_time_span(b, rest->received_ns, &t0_ns, &t1_ns);
    add_events(t, b, t1_ns, false);
    for (size_t i = 0; i < b->n_infos; i++) {
        infos_add(t, &b->head.boot, &b->infos[i], t1_ns);
    }
    add_events(t, b, t1_ns, true);
}

/* One of each instance. */
static enum err join_told(struct tier_infos *t, struct arena *memory)
{
    size_t n = 0, end;

    for (size_t from = 0; from < t->n; from = end) {
        struct tier_info one = t->list[from];
        struct proc_info *all = NULL;

        for (end = from + 1; end < t->n && infos_compare(one.boot, one.info->id, t->list[end].boot,
                                                         t->list[end].info->id) == 0;
             end++) {
            if (!all) {
                all = arena_array(memory, 1, sizeof *all);
                if (!all) {
                    return ERR_FULL;
                }
                *all = *one.info;
            }
            head_info_join(all, t->list[end].info, true);
        }
        one.info = all ? all : one.info;
        t->list[n++] = one;
    }
    t->n = n;
    return ERR_OK;
}

/* Errors: ERR_FULL */
static enum err tier_infos_make(struct tier_infos *out, struct arena *memory,
                                const struct host_window *hw, const struct tier_names *names)
{
    size_t n = 0;

    *out = (struct tier_infos){.names = names};
    for (size_t i = 0; i < hw->n_rests; i++) {
        n += count_told(&hw->rests[i].batch);
    }
    out->list = arena_array(memory, n, sizeof *out->list);
    if (!out->list) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < hw->n_rests; i++) {
        add_rest(out, &hw->rests[i]);
    }
    if (n) {
        qsort(out->list, n, sizeof *out->list, by_instance);
    }
    return join_told(out, memory);
}

/* False: nothing is known. */
static bool tier_infos_find(const struct tier_infos *t, const struct uuid *boot, struct proc_id id,
                            struct proc_info *out)
{
    size_t i; /* behind the last of the instance */

    SEARCH_LOWER(i, t->n, infos_compare(t->list[i].boot, t->list[i].info->id, boot, id) <= 0);
    if (i > 0 && infos_compare(t->list[i - 1].boot, t->list[i - 1].info->id, boot, id) == 0) {
        *out = *t->list[i - 1].info;
        return true;
    }
    return t->names && t->names->find(t->names->ctx, boot, id, out);
}

struct making {
    struct arena *memory;
    const struct host_window *hw;
    int64_t bucket_ns;
    struct tier *t;
    uint32_t **bucket_at; /* of each part: the bucket of every tick */
    size_t *first_row;    /* of each part */
};

static int64_t bucket_begin(int64_t wall_ns, int64_t bucket_ns)
{
    int64_t rest = wall_ns % bucket_ns;

    return wall_ns - (rest < 0 ? rest + bucket_ns : rest);
}

/* -- ticks -- */

static bool bucket_begins(const struct making *m, const struct batch *rows, size_t tick)
{
    return tick == 0 || (m->bucket_ns && bucket_begin(rows->wall_ns[tick], m->bucket_ns) !=
                                             bucket_begin(rows->wall_ns[tick - 1], m->bucket_ns));
}

static size_t count_buckets(const struct making *m)
{
    size_t n = 0;

    for (size_t p = 0; p < m->hw->n_parts; p++) {
        for (size_t k = 0; k < m->hw->parts[p].rows.n_ticks; k++) {
            n += bucket_begins(m, &m->hw->parts[p].rows, k);
        }
    }
    return n;
}

/* Buckets of a part from `at` on; gives the one behind the last. */
static size_t part_buckets(struct making *m, size_t p, struct tier_bucket *buckets, size_t at)
{
    const struct batch *rows = &m->hw->parts[p].rows;

    for (size_t k = 0; k < rows->n_ticks; k++) {
        struct tier_bucket *b;

        if (bucket_begins(m, rows, k)) {
            b = &buckets[at++];
            b->part = (uint32_t)p;
            b->begin_ns =
                m->bucket_ns ? bucket_begin(rows->wall_ns[k], m->bucket_ns) : rows->wall_ns[k];
            b->first_wall_ns = rows->wall_ns[k];
            /* where it begins; how long it is once the bucket ends */
            b->span_mono_ns = k ? rows->mono_ns[k - 1] : rows->mono_ns[k];
        }
        b = &buckets[at - 1];
        b->ticks++;
        b->last_wall_ns = rows->wall_ns[k];
        b->last_mono_ns = rows->mono_ns[k];
        m->bucket_at[p][k] = (uint32_t)(at - 1);
    }
    return at;
}

static enum err make_buckets(struct making *m)
{
    size_t n = count_buckets(m), n_parts = m->hw->n_parts, at = 0;
    struct tier_bucket *buckets = arena_array(m->memory, n, sizeof *buckets);
    struct tier_part *parts = arena_array(m->memory, n_parts, sizeof *parts);

    m->bucket_at = arena_array(m->memory, n_parts, sizeof *m->bucket_at);
    if (!buckets || !parts || !m->bucket_at || n > UINT32_MAX) {
        return ERR_FULL;
    }
    for (size_t p = 0; p < n_parts; p++) {
        const struct batch *rows = &m->hw->parts[p].rows;

        m->bucket_at[p] = arena_array(m->memory, rows->n_ticks, sizeof(uint32_t));
        if (!m->bucket_at[p]) {
            return ERR_FULL;
        }
        parts[p].boot = rows->head.boot;
        parts[p].first_bucket = (uint32_t)at;
        at = part_buckets(m, p, buckets, at);
        parts[p].n_buckets = (uint32_t)at - parts[p].first_bucket;
    }
    for (size_t i = 0; i < n; i++) {
        buckets[i].span_mono_ns = buckets[i].last_mono_ns - buckets[i].span_mono_ns;
    }
    m->t->parts = parts;
    m->t->n_parts = n_parts;
    m->t->buckets = buckets;
    m->t->n_buckets = n;
    return ERR_OK;
}

/* -- runs -- */

/* How many of the part's ticks [first, end) lie in the bucket of tick `in`. */
static uint32_t ticks_in(const uint32_t *bucket_at, size_t first, size_t end, size_t in)
{
    uint32_t n = 0;

    for (size_t k = first; k < end; k++) {
        n += bucket_at[k] == bucket_at[in];
    }
    return n;
}

static void row_fill(const struct making *m, struct tier_row *row, size_t p,
                     const struct batch_run *run, const struct proc_info *info)
{
    const struct batch *rows = &m->hw->parts[p].rows;
    const uint32_t *at = m->bucket_at[p];
    size_t first = run->first_tick, end = first + run->n_ticks;

    *row = (struct tier_row){.id = run->id,
                             .part = (uint32_t)p,
                             .first_bucket = at[first],
                             .n_buckets = at[end - 1] - at[first] + 1,
                             .first_ns = rows->wall_ns[first],
                             .last_ns = rows->wall_ns[end - 1],
                             .first_count = ticks_in(at, first, end, first),
                             .last_count = ticks_in(at, first, end, end - 1),
                             .mask = run->mask,
                             .fresh = run->fresh};
    if (info) {
        row->name = info->name;
        row->user = info->user;
        row->ended = (info->have & INFO_EXITED) != 0;
    }
}

static bool run_is_sound(const struct batch *rows, const struct batch_run *run)
{
    return run->n_ticks > 0 && run->first_tick < rows->n_ticks &&
           run->n_ticks <= rows->n_ticks - run->first_tick;
}

static enum err make_rows(struct making *m, const struct tier_names *names)
{
    size_t n = 0, at = 0;
    struct tier_infos infos;
    struct tier_row *out;
    enum err e = tier_infos_make(&infos, m->memory, m->hw, names);

    for (size_t p = 0; p < m->hw->n_parts; p++) {
        n += m->hw->parts[p].rows.n_runs;
    }
    out = arena_array_unset(m->memory, n, sizeof *out);
    m->first_row = arena_array(m->memory, m->hw->n_parts, sizeof *m->first_row);
    if (e || !out || !m->first_row) {
        return e ? e : ERR_FULL;
    }
    for (size_t p = 0; p < m->hw->n_parts; p++) {
        const struct batch *rows = &m->hw->parts[p].rows;

        m->first_row[p] = at;
        for (size_t r = 0; r < rows->n_runs; r++) {
            const struct batch_run *run = &rows->runs[r];
            struct proc_info info;
            bool known;

            if (!run_is_sound(rows, run)) {
                return ERR_INVALID;
            }
            known = tier_infos_find(&infos, &rows->head.boot, run->id, &info);
            row_fill(m, &out[at++], p, run, known ? &info : NULL);
            m->t->metrics |= run->mask;
        }
    }
    m->t->rows = out;
    m->t->n_rows = n;
    return ERR_OK;
}

/* -- columns -- */

/* Cells of one run from its values. */
static void run_sum(const struct tier *t, const struct tier_row *row, bool counter,
                    const int64_t *v, struct cell *out)
{
    for (uint32_t i = 0; i < row->n_buckets; i++) {
        tier_shape(&out[i], t, row, i, counter);
        cell_values(&out[i], counter, v, (size_t)out[i].count, i > 0);
        v += out[i].count;
    }
}

static enum err part_column(struct making *m, size_t p, unsigned metric, struct cell **out)
{
    const struct batch *rows = &m->hw->parts[p].rows;
    bool counter = tier_is_counter(metric);
    const struct batch_column *col = NULL;
    size_t at = 0;

    for (size_t c = 0; c < rows->n_columns; c++) {
        col = rows->columns[c].metric == metric ? &rows->columns[c] : col;
    }
    for (size_t r = 0; r < rows->n_runs; r++) {
        const struct batch_run *run = &rows->runs[r];

        if (!(run->mask & METRIC_BIT(metric))) {
            continue;
        }
        if (!col || run->n_ticks > col->n_values - at) {
            return ERR_INVALID;
        }
        run_sum(m->t, &m->t->rows[m->first_row[p] + r], counter, col->values + at, *out);
        *out += m->t->rows[m->first_row[p] + r].n_buckets;
        at += run->n_ticks;
    }
    return ERR_OK;
}

static enum err make_column(struct making *m, unsigned metric)
{
    struct cell *cells, *at;
    enum err e = ERR_OK;
    size_t n = 0;

    for (size_t r = 0; r < m->t->n_rows; r++) {
        n += m->t->rows[r].mask & METRIC_BIT(metric) ? m->t->rows[r].n_buckets : 0;
    }
    cells = arena_array_unset(m->memory, n, sizeof *cells);
    if (!cells) {
        return ERR_FULL;
    }
    at = cells;
    for (size_t p = 0; !e && p < m->hw->n_parts; p++) {
        e = part_column(m, p, metric, &at);
    }
    m->t->columns[metric] = cells;
    m->t->n_cells[metric] = n;
    return e;
}

/* -- holes -- */

static int by_stream_seq(const void *a, const void *b)
{
    const struct batch_head *x = *(struct batch_head *const *)a;
    const struct batch_head *y = *(struct batch_head *const *)b;

    if (x->stream != y->stream) {
        return x->stream < y->stream ? -1 : 1;
    }
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Whether no batch is missing between those that are here. */
static enum err is_whole(struct making *m, bool *whole)
{
    size_t n = m->hw->n_rests;
    const struct batch_head **heads = arena_array(m->memory, n, sizeof *heads);

    if (!heads) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < n; i++) {
        heads[i] = &m->hw->rests[i].batch.head;
    }
    if (n) {
        qsort(heads, n, sizeof(struct batch_head *), by_stream_seq);
    }
    *whole = true;
    for (size_t i = 1; i < n; i++) {
        *whole &=
            heads[i]->stream != heads[i - 1]->stream || heads[i]->seq == heads[i - 1]->seq + 1;
    }
    return ERR_OK;
}

static enum err make_plain(struct tier *out, struct making *m, const struct tier_names *names)
{
    enum err e;

    *out = (struct tier){.bucket_ns = m->bucket_ns};
    e = is_whole(m, &out->whole);
    if (!e) {
        e = make_buckets(m);
    }
    if (!e) {
        e = make_rows(m, names);
    }
    for (unsigned i = 0; !e && i < METRIC_COLS; i++) {
        if (out->metrics & METRIC_BIT(i)) {
            e = make_column(m, i);
        }
    }
    return e;
}

enum err tier_make(struct tier *out, struct arena *memory, const struct host_window *hw,
                   int64_t bucket_ns, bool fold, const struct tier_names *names)
{
    struct tier plain = {0};
    struct making m = {.memory = memory, .hw = hw, .bucket_ns = bucket_ns, .t = &plain};
    enum err e = make_plain(&plain, &m, names);

    if (!e && fold) {
        return tier_join(out, memory, &plain, 1, bucket_ns, true);
    }
    if (!e) {
        *out = plain;
    }
    return e;
}
