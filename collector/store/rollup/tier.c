/* Tiers as values of segments. The table of rows stays as it is and its texts are packed behind it;
 * columns are packed where that is worth the reader's time. */
#include "collector/store/rollup/tier.h"

#include <stdlib.h>

#include "collector/store/rollup/tier_column.h"
#include "collector/store/rollup/tier_value.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

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
        tier_column_put(&plain, &scratch, t, m);
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
    enum err e = VEC_ROOM(&l->list, &l->cap, l->n + 1, SIZE_MAX);

    if (e) {
        return e;
    }
    l->list[l->n] = (struct waiting){key, l->bytes.n, n, l->n};
    buf_put(&l->bytes, p, n);
    l->n += l->bytes.bad ? 0 : 1;
    return l->bytes.bad;
}

enum err tier_later_put(struct tier_later *l, struct seg_key key, const void *p, size_t n)
{
    return put_later(l, key, p, n);
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

    return e ? e : tier_column_get(t, memory, metric, plain, n_plain);
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
    metric_mask found = 0;
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
