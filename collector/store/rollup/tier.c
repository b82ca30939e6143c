/* A tier from the rows of a window: the ticks are cut into buckets, each run becomes a row, and
 * each column is added up bucket by bucket. Runs keep their order, so a column is read once,
 * straight on. */
#include "collector/store/rollup/tier.h"

#include <stdlib.h>

#include "collector/store/batch_time.h"
#include "collector/store/memtable/head_info.h"
#include "collector/store/rollup/tier_shape.h"
#include "collector/store/rollup/tier_value.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/cur.h"
#include "common/base/mem.h"

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
    size_t lo = 0, hi = t->n;

    while (lo < hi) { /* behind the last of the instance */
        size_t mid = lo + (hi - lo) / 2;

        if (infos_compare(t->list[mid].boot, t->list[mid].info->id, boot, id) <= 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    if (lo > 0 && infos_compare(t->list[lo - 1].boot, t->list[lo - 1].info->id, boot, id) == 0) {
        *out = *t->list[lo - 1].info;
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
    out = arena_array(m->memory, n, sizeof *out);
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
    cells = arena_array(m->memory, n, sizeof *cells);
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

/* Tiers as values of segments. The table of rows stays as it is and its texts are packed behind it;
 * columns are packed where that is worth the reader's time. */

/* A column is packed when that saves at least one part in so many; summaries never: fleets are read
 * from them, and it saves next to nothing. */
#define PACK_WORTH 6u

static uint8_t part_of(int64_t bucket_ns, bool column)
{
    if (bucket_ns == TIER_WINDOW_NS) {
        return column ? SEG_PART_SUM : SEG_PART_SUMS;
    }
    return column ? SEG_PART_COLUMN : SEG_PART_ROWS;
}

/* -- writing -- */

/* Where values go: to a segment at once, or to wait. */
struct tier_sink {
    enum err (*put)(void *ctx, struct seg_key key, const void *p, size_t n);
    void *ctx;
};

static void put_packed(struct packer *p, struct buf *out, const struct buf *plain, bool summary)
{
    size_t before = out->n;

    if (plain->bad) {
        out->bad = plain->bad;
        return;
    }
    if (!summary) {
        pack_put(p, out, plain->p, plain->n);
    }
    if (summary || (!out->bad && out->n - before > plain->n - plain->n / PACK_WORTH)) {
        out->n = before;
        buf_put_varint(out, (uint64_t)plain->n << 1);
        buf_put(out, plain->p, plain->n);
    }
}

static enum err put_table(struct packer *p, struct buf *out, struct buf *scratch,
                          const struct tier *t)
{
    struct arena memory;
    enum err e;

    tier_value_put_rows(scratch, t);
    buf_put_varint(out, scratch->n);
    buf_put(out, scratch->p, scratch->n);
    e = scratch->bad;
    buf_reset(scratch);
    arena_init(&memory, SEG_VALUE_MAX);
    e = e ? e : tier_value_put_texts(scratch, &memory, t);
    if (!e) {
        pack_put(p, out, scratch->p, scratch->n);
    }
    arena_fini(&memory);
    return e ? e : out->bad;
}

static enum err put_values(const struct tier_sink *sink, struct packer *p, struct seg_key key,
                           const struct tier *t)
{
    struct buf value, plain, scratch;
    enum err e;

    buf_init(&value, SEG_VALUE_MAX);
    buf_init(&plain, SEG_VALUE_MAX);
    buf_init(&scratch, TIER_LATER_MAX);
    e = put_table(p, &value, &plain, t);
    if (!e) {
        key.part = part_of(t->bucket_ns, false);
        e = sink->put(sink->ctx, key, value.p, value.n);
    }
    key.part = part_of(t->bucket_ns, true);
    for (unsigned m = 0; !e && m < METRIC_COLS; m++) {
        if (!(t->metrics & METRIC_BIT(m))) {
            continue;
        }
        buf_reset(&value);
        buf_reset(&plain);
        tier_value_put_column(&plain, &scratch, t, m);
        put_packed(p, &value, &plain, t->bucket_ns == TIER_WINDOW_NS);
        key.metric = (uint8_t)m;
        e = value.bad ? value.bad : sink->put(sink->ctx, key, value.p, value.n);
    }
    buf_fini(&value);
    buf_fini(&plain);
    buf_fini(&scratch);
    return e;
}

static enum err put_at_once(void *ctx, struct seg_key key, const void *p, size_t n)
{
    return seg_writer_add(ctx, key, p, n);
}

static uint64_t count_cells(const struct tier *t)
{
    uint64_t n = 0;

    for (unsigned m = 0; m < METRIC_COLS; m++) {
        n += t->metrics & METRIC_BIT(m) ? t->n_cells[m] : 0;
    }
    return n;
}

enum err tier_write(struct seg_writer *w, struct packer *p, uint32_t host, uint8_t window,
                    const struct tier *t, uint64_t *points)
{
    const struct tier_sink sink = {put_at_once, w};
    const struct seg_key key = {.host = host, .window = window};
    enum err e = t->n_rows ? put_values(&sink, p, key, t) : ERR_OK;

    if (!e) {
        *points += count_cells(t);
    }
    return e;
}

/* -- summaries of many hosts -- */

struct waiting {
    struct seg_key key;
    size_t at, n, order;
};

struct tier_later {
    struct buf bytes;
    struct waiting *list;
    size_t n, cap;
};

enum err tier_later_create(struct tier_later **out)
{
    struct tier_later *l = mem_zalloc(sizeof *l);

    if (!l) {
        return ERR_NOMEM;
    }
    buf_init(&l->bytes, TIER_LATER_MAX);
    *out = l;
    return ERR_OK;
}

void tier_later_destroy(struct tier_later *l)
{
    if (l) {
        buf_fini(&l->bytes);
        mem_free(l->list);
        mem_free(l);
    }
}

static enum err put_later(void *ctx, struct seg_key key, const void *p, size_t n)
{
    struct tier_later *l = ctx;

    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        struct waiting *more = mem_realloc_array(l->list, cap, sizeof *more);

        if (!more) {
            return ERR_NOMEM;
        }
        l->list = more;
        l->cap = cap;
    }
    l->list[l->n] = (struct waiting){key, l->bytes.n, n, l->n};
    buf_put(&l->bytes, p, n);
    l->n += l->bytes.bad ? 0 : 1;
    return l->bytes.bad;
}

enum err tier_later_add(struct tier_later *l, struct packer *p, uint32_t host, uint8_t window,
                        const struct tier *t)
{
    const struct tier_sink sink = {put_later, l};
    const struct seg_key key = {.host = host, .window = window};

    return t->n_rows ? put_values(&sink, p, key, t) : ERR_OK;
}

/* Tables first, then metric by metric; hosts side by side. */
static int by_place(const void *a, const void *b)
{
    const struct waiting *x = a, *y = b;

    if (x->key.part != y->key.part) {
        return x->key.part < y->key.part ? -1 : 1;
    }
    if (x->key.metric != y->key.metric) {
        return x->key.metric < y->key.metric ? -1 : 1;
    }
    if (x->key.window != y->key.window) {
        return x->key.window < y->key.window ? -1 : 1;
    }
    if (x->key.host != y->key.host) {
        return x->key.host < y->key.host ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

enum err tier_later_write(struct tier_later *l, struct seg_writer *w)
{
    enum err e = ERR_OK;

    if (l->n) {
        qsort(l->list, l->n, sizeof *l->list, by_place);
    }
    for (size_t i = 0; !e && i < l->n; i++) {
        e = seg_writer_add(w, l->list[i].key, l->bytes.p + l->list[i].at, l->list[i].n);
    }
    buf_reset(&l->bytes);
    l->n = 0;
    return e;
}

/* -- reading -- */

static enum err get_table(struct tier *t, struct packer *p, struct arena *memory,
                          const struct tier_ask *ask, const uint8_t *value, size_t n)
{
    struct cur c = cur_make(value, n);
    uint64_t len = cur_varint(&c);
    const uint8_t *table = len <= n ? cur_bytes(&c, (size_t)len) : NULL, *texts;
    struct tier_row *rows;
    size_t n_texts;
    enum err e;

    if (!table) {
        return ERR_CORRUPT;
    }
    e = tier_value_get_rows(t, &rows, memory, table, (size_t)len);
    if (!e && t->bucket_ns != ask->bucket_ns) {
        e = ERR_CORRUPT;
    }
    if (e || !ask->names) {
        return e;
    }
    e = pack_open(p, memory, &texts, &n_texts, c.p, cur_left(&c), SEG_VALUE_MAX);
    return e ? e : tier_value_get_texts(rows, t->n_rows, memory, texts, n_texts);
}

static enum err get_column(struct tier *t, struct packer *p, struct arena *memory, unsigned metric,
                           const uint8_t *value, size_t n)
{
    const uint8_t *plain;
    size_t n_plain;
    enum err e = pack_open(p, memory, &plain, &n_plain, value, n, SEG_VALUE_MAX);

    return e ? e : tier_value_get_column(t, memory, metric, plain, n_plain);
}

enum err tier_read(struct tier *out, const struct seg *s, struct packer *p, struct arena *memory,
                   const struct tier_ask *ask)
{
    return tier_read_ahead(out, s, p, NULL, memory, ask);
}

enum err tier_read_ahead(struct tier *out, const struct seg *s, struct packer *p,
                         struct seg_readahead *ahead, struct arena *memory,
                         const struct tier_ask *ask)
{
    struct seg_key keys[METRIC_COLS + 1];
    const uint8_t *values[METRIC_COLS + 1];
    size_t lengths[METRIC_COLS + 1], n = 0;
    struct tier t = {0};
    uint64_t found = 0;
    enum err e;

    keys[n++] = (struct seg_key){part_of(ask->bucket_ns, false), 0, ask->window, ask->host};
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        if (ask->metrics & METRIC_BIT(m)) {
            keys[n++] =
                (struct seg_key){part_of(ask->bucket_ns, true), (uint8_t)m, ask->window, ask->host};
        }
    }
    e = seg_readahead_read(ask->bucket_ns == TIER_WINDOW_NS ? ahead : NULL, s, memory, keys, n,
                           values, lengths);
    if (!e && !values[0]) {
        e = lengths[0] == SEG_DAMAGED ? ERR_CORRUPT : ERR_NOTFOUND;
    }
    if (e) {
        return e;
    }
    e = get_table(&t, p, memory, ask, values[0], lengths[0]);
    for (size_t i = 1; !e && i < n; i++) {
        if (t.metrics & METRIC_BIT(keys[i].metric)) {
            e = values[i] ? get_column(&t, p, memory, keys[i].metric, values[i], lengths[i])
                          : ERR_CORRUPT;
            found |= METRIC_BIT(keys[i].metric);
        }
    }
    if (!e) {
        t.metrics = found;
        *out = t;
    }
    return e;
}
