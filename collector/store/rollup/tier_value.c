/* The table of rows, written plainly: it is small, and the readers of summaries want it fast. What
 * most rows have in common takes no bytes: a row that is there at every tick of its part is a flag.
 * Texts stand apart, since most readers do without. */
#include "collector/store/rollup/tier_value.h"

#include <stdlib.h>

#include "collector/store/segment/seg_format.h"
#include "common/base/cur.h"

/* On disk, in a row's first byte. */
enum {
    ROW_FRESH = 1 << 0,
    ROW_ENDED = 1 << 1,
    ROW_FULL = 1 << 2, /* at every tick of its part */
    ROW_MASK = 1 << 3, /* other mask than the row before */
    ROW_PART = 1 << 4, /* other part */
    ROW_FOLDED = 1 << 5,
    ROW_FLAGS = (1 << 6) - 1,
};

/* In the table's first byte. */
enum { TABLE_WHOLE = 1 << 0, TABLE_WIDE = 1 << 1 /* 128-bit masks */, TABLE_FLAGS = 3 };

#define ROW_LEAST 3u /* bytes of a row */

/* a - b of stamps, whatever they are. */
static int64_t table_diff(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t table_plus(int64_t a, uint64_t b)
{
    return (int64_t)((uint64_t)a + b);
}

/* -- writing -- */

static void put_buckets(struct buf *out, const struct tier *t, const struct tier_part *part)
{
    int64_t wall = 0, mono = 0;

    buf_put(out, part->boot.b, sizeof part->boot.b);
    buf_put_varint(out, part->n_buckets);
    for (uint32_t i = 0; i < part->n_buckets; i++) {
        const struct tier_bucket *b = &t->buckets[part->first_bucket + i];

        buf_put_svarint(out, table_diff(b->first_wall_ns, wall));
        buf_put_svarint(out, table_diff(b->first_wall_ns, b->begin_ns));
        buf_put_varint(out, (uint64_t)table_diff(b->last_wall_ns, b->first_wall_ns));
        buf_put_svarint(out, table_diff(table_diff(b->last_mono_ns, b->span_mono_ns), mono));
        buf_put_varint(out, (uint64_t)b->span_mono_ns);
        buf_put_varint(out, b->ticks - 1);
        wall = b->last_wall_ns;
        mono = b->last_mono_ns;
    }
}

/* Whether the row has a sample at every tick of its part. */
static bool is_full(const struct tier *t, const struct tier_row *row)
{
    const struct tier_part *part = &t->parts[row->part];
    const struct tier_bucket *first = &t->buckets[row->first_bucket];
    const struct tier_bucket *last = first + row->n_buckets - 1;

    return row->n_buckets == part->n_buckets && row->first_ns == first->first_wall_ns &&
           row->last_ns == last->last_wall_ns && row->first_count == first->ticks &&
           row->last_count == last->ticks;
}

static void put_row(struct buf *out, const struct tier *t, const struct tier_row *row,
                    const struct tier_row *prev, bool wide)
{
    const struct tier_part *part = &t->parts[row->part];
    const struct tier_bucket *first = &t->buckets[row->first_bucket];
    const struct tier_bucket *last = first + row->n_buckets - 1;
    bool full = !row->instances && is_full(t, row);
    bool new_part = row->part != prev->part;
    unsigned flags = (row->fresh ? ROW_FRESH : 0u) | (row->ended ? ROW_ENDED : 0u) |
                     (full ? ROW_FULL : 0u) | (row->mask != prev->mask ? ROW_MASK : 0u) |
                     (new_part ? ROW_PART : 0u) | (row->instances ? ROW_FOLDED : 0u);

    buf_put_u8(out, (uint8_t)flags);
    if (new_part) {
        buf_put_varint(out, row->part);
    }
    if (row->mask != prev->mask) {
        buf_put_u64le(out, metric_mask_low(row->mask));
        if (wide) {
            buf_put_u64le(out, metric_mask_high(row->mask));
        }
    }
    if (row->instances) {
        buf_put_varint(out, row->instances);
    } else {
        buf_put_svarint(out, (int64_t)row->id.pid - (int64_t)prev->id.pid);
        buf_put_svarint(out, (int64_t)(row->id.start - prev->id.start));
    }
    if (!full) {
        buf_put_varint(out, row->first_bucket - part->first_bucket);
        buf_put_varint(out, (uint64_t)table_diff(row->first_ns, first->first_wall_ns));
        buf_put_varint(out, (uint64_t)table_diff(last->last_wall_ns, row->last_ns));
        if (!row->instances) {
            buf_put_varint(out, row->n_buckets - 1);
            buf_put_varint(out, first->ticks - row->first_count);
            buf_put_varint(out, last->ticks - row->last_count);
        }
    }
}

void tier_value_put_rows(struct buf *out, const struct tier *t)
{
    struct tier_row prev = {0};

    bool wide = metric_mask_high(t->metrics) != 0;

    buf_put_u8(out, (uint8_t)((t->whole ? TABLE_WHOLE : 0) | (wide ? TABLE_WIDE : 0)));
    buf_put_varint(out, (uint64_t)t->bucket_ns);
    buf_put_varint(out, t->n_parts);
    for (size_t p = 0; p < t->n_parts; p++) {
        put_buckets(out, t, &t->parts[p]);
    }
    buf_put_varint(out, t->n_rows);
    for (size_t r = 0; r < t->n_rows; r++) {
        put_row(out, t, &t->rows[r], &prev, wide);
        prev = t->rows[r];
    }
}

/* -- reading -- */

static bool get_bucket(struct cur *c, struct tier_bucket *b, const struct tier *t, int64_t *wall,
                       int64_t *mono, bool first)
{
    uint64_t span, ticks;
    int64_t rest;

    b->first_wall_ns = table_plus(*wall, (uint64_t)cur_svarint(c));
    b->begin_ns = table_diff(b->first_wall_ns, cur_svarint(c));
    b->last_wall_ns = table_plus(b->first_wall_ns, cur_varint(c));
    rest = table_plus(*mono, (uint64_t)cur_svarint(c));
    span = cur_varint(c);
    ticks = cur_varint(c);
    b->last_mono_ns = table_plus(rest, span);
    b->span_mono_ns = (int64_t)span;
    b->ticks = (uint32_t)ticks + 1;
    if (c->bad || ticks >= UINT32_MAX || b->span_mono_ns < 0 || b->last_mono_ns < rest ||
        b->first_wall_ns < 0 || b->last_wall_ns < b->first_wall_ns ||
        (!first && (b->first_wall_ns <= *wall || b->last_mono_ns < *mono)) ||
        (b->last_wall_ns > b->first_wall_ns) != (ticks > 0)) {
        return false;
    }
    if (t->bucket_ns
            ? b->begin_ns < 0 || b->begin_ns % t->bucket_ns != 0 ||
                  b->first_wall_ns < b->begin_ns || b->last_wall_ns - b->begin_ns >= t->bucket_ns ||
                  (!first && b->begin_ns == b[-1].begin_ns)
            : !first || b->begin_ns != b->first_wall_ns) {
        return false;
    }
    *wall = b->last_wall_ns;
    *mono = b->last_mono_ns;
    return true;
}

#define BUCKET_LEAST 6u /* bytes of one */

/* Parts and their buckets. */
static enum err get_parts(struct cur *c, struct tier *t, struct arena *memory)
{
    uint64_t n_parts = cur_varint(c);
    struct tier_part *parts;
    struct tier_bucket *buckets;
    size_t most = cur_left(c) / BUCKET_LEAST;

    if (c->bad || n_parts > cur_left(c) / sizeof parts->boot.b) {
        return ERR_CORRUPT;
    }
    parts = arena_array(memory, (size_t)n_parts, sizeof *parts);
    if (!parts) {
        return ERR_FULL;
    }
    most = most < 4096 ? most : 4096; /* grown below */
    buckets = arena_array_unset(memory, most, sizeof *buckets);
    for (size_t p = 0; p < n_parts; p++) {
        const uint8_t *boot = cur_bytes(c, sizeof parts->boot.b);
        uint64_t n = cur_varint(c);
        int64_t wall = 0, mono = 0;

        if (c->bad || n > cur_left(c) / BUCKET_LEAST) {
            return ERR_CORRUPT;
        }
        if (!buckets || n > most - t->n_buckets) {
            struct tier_bucket *more;

            most = (t->n_buckets + (size_t)n) * 2;
            more = arena_array_unset(memory, most, sizeof *more);
            if (!more) {
                return ERR_FULL;
            }
            if (t->n_buckets) {
                memcpy(more, buckets, t->n_buckets * sizeof *more);
            }
            buckets = more;
        }
        memcpy(parts[p].boot.b, boot, sizeof parts->boot.b);
        parts[p].first_bucket = (uint32_t)t->n_buckets;
        parts[p].n_buckets = (uint32_t)n;
        for (uint64_t i = 0; i < n; i++) {
            struct tier_bucket *b = &buckets[t->n_buckets++];

            b->part = (uint32_t)p;
            if (!get_bucket(c, b, t, &wall, &mono, i == 0)) {
                return ERR_CORRUPT;
            }
        }
    }
    t->parts = parts;
    t->n_parts = (size_t)n_parts;
    t->buckets = buckets;
    return ERR_OK;
}

/* Where in its part the row is. */
static bool get_place(struct cur *c, const struct tier *t, struct tier_row *row)
{
    const struct tier_part *part = &t->parts[row->part];
    uint64_t bucket = cur_varint(c), after = cur_varint(c), before = cur_varint(c);
    uint64_t more = row->instances ? 0 : cur_varint(c);
    uint64_t first_gap = row->instances ? 0 : cur_varint(c);
    uint64_t last_gap = row->instances ? 0 : cur_varint(c);
    const struct tier_bucket *first, *last;

    if (c->bad || bucket >= part->n_buckets || more >= part->n_buckets - bucket) {
        return false;
    }
    row->first_bucket = part->first_bucket + (uint32_t)bucket;
    row->n_buckets = (uint32_t)more + 1;
    first = &t->buckets[row->first_bucket];
    last = first + more;
    if (after > (uint64_t)(first->last_wall_ns - first->first_wall_ns) ||
        before > (uint64_t)(last->last_wall_ns - last->first_wall_ns) ||
        first_gap >= first->ticks || last_gap >= last->ticks) {
        return false;
    }
    row->first_ns = table_plus(first->first_wall_ns, after);
    row->last_ns = table_diff(last->last_wall_ns, (int64_t)before);
    row->first_count = first->ticks - (uint32_t)first_gap;
    row->last_count = last->ticks - (uint32_t)last_gap;
    return row->last_ns >= row->first_ns && (more || row->first_count == row->last_count) &&
           (more || row->instances || (row->last_ns > row->first_ns) == (row->first_count > 1));
}

static void set_full(const struct tier *t, struct tier_row *row)
{
    const struct tier_part *part = &t->parts[row->part];
    const struct tier_bucket *first = &t->buckets[part->first_bucket];
    const struct tier_bucket *last = first + part->n_buckets - 1;

    row->first_bucket = part->first_bucket;
    row->n_buckets = part->n_buckets;
    row->first_ns = first->first_wall_ns;
    row->last_ns = last->last_wall_ns;
    row->first_count = first->ticks;
    row->last_count = last->ticks;
}

static bool get_row(struct cur *c, const struct tier *t, struct tier_row *row,
                    const struct tier_row *prev, bool wide)
{
    unsigned flags = cur_u8(c);
    uint64_t part = flags & ROW_PART ? cur_varint(c) : prev->part;

    row->mask = prev->mask;
    if (flags & ROW_MASK) {
        row->mask = cur_u64le(c);
        row->mask |= wide ? metric_mask_make(0, cur_u64le(c)) : 0;
    }
    if (c->bad || (flags & ~(unsigned)ROW_FLAGS) || part >= t->n_parts ||
        t->parts[part].n_buckets == 0 || ((flags & ROW_FULL) && (flags & ROW_FOLDED)) ||
        (prev->instances && !(flags & ROW_FOLDED))) {
        return false;
    }
    row->part = (uint32_t)part;
    row->fresh = flags & ROW_FRESH;
    row->ended = flags & ROW_ENDED;
    if (flags & ROW_FOLDED) {
        uint64_t n = cur_varint(c);

        row->instances = (uint32_t)n;
        if (n == 0 || n > UINT32_MAX) {
            return false;
        }
    } else {
        row->id.pid = (uint32_t)table_plus(prev->id.pid, (uint64_t)cur_svarint(c));
        row->id.start = prev->id.start + (uint64_t)cur_svarint(c);
    }
    if (flags & ROW_FULL) {
        set_full(t, row);
        return !c->bad;
    }
    return get_place(c, t, row);
}

/* The cells that a column can have at most; a column has a bit at least for each. */
#define CELLS_MAX ((size_t)SEG_VALUE_MAX * 8)

/* n cells of every metric in the mask. */
static void add_cells(struct tier *t, metric_mask mask, uint64_t n)
{
    t->metrics |= mask;
    for (struct metric_mask_walk each = metric_mask_walk(mask); metric_mask_walk_next(&each);) {
        t->n_cells[each.id] += (size_t)n;
    }
}

/* Rows with the same mask stand side by side as a rule. */
static enum err count_cells(struct tier *t)
{
    metric_mask mask = 0;
    uint64_t all = 0, same = 0;

    for (size_t r = 0; r < t->n_rows; r++) {
        const struct tier_row *row = &t->rows[r];

        if (row->mask != mask) {
            add_cells(t, mask, same);
            mask = row->mask;
            same = 0;
        }
        same += row->n_buckets;
        all += row->n_buckets;
        if (all > CELLS_MAX) {
            return ERR_CORRUPT;
        }
    }
    add_cells(t, mask, same);
    return ERR_OK;
}

static bool is_bucket(uint64_t ns)
{
    return ns == TIER_WINDOW_NS || ns == TIER_10S_NS || ns == TIER_1MIN_NS || ns == TIER_1H_NS;
}

enum err tier_value_get_rows(struct tier *out, struct tier_row **rows, struct arena *memory,
                             const void *p, size_t n)
{
    static const struct tier_row none = {0};
    struct cur c = cur_make(p, n);
    struct tier t = {0};
    unsigned flags = cur_u8(&c);
    uint64_t bucket_ns = cur_varint(&c), n_rows;
    struct tier_row *list;
    enum err e;

    if (c.bad || (flags & ~(unsigned)TABLE_FLAGS) || !is_bucket(bucket_ns)) {
        return ERR_CORRUPT;
    }
    t.bucket_ns = (int64_t)bucket_ns;
    t.whole = flags & TABLE_WHOLE;
    e = get_parts(&c, &t, memory);
    if (e) {
        return e;
    }
    n_rows = cur_varint(&c);
    if (c.bad || n_rows > cur_left(&c) / ROW_LEAST) {
        return ERR_CORRUPT;
    }
    list = arena_array_unset(memory, (size_t)n_rows, sizeof *list);
    if (!list) {
        return ERR_FULL;
    }
    for (size_t r = 0; r < n_rows; r++) {
        list[r] = none;
        if (!get_row(&c, &t, &list[r], r ? &list[r - 1] : &none, flags & TABLE_WIDE)) {
            return ERR_CORRUPT;
        }
    }
    t.rows = list;
    t.n_rows = (size_t)n_rows;
    e = cur_left(&c) ? ERR_CORRUPT : count_cells(&t);
    if (!e) {
        *out = t;
        *rows = list;
    }
    return e;
}

/* -- texts: every one once, then two numbers a row, 0 = none -- */

struct text_list {
    struct str *all; /* sorted, each once */
    size_t n;
};

static int by_text(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int d = n ? memcmp(x->p, y->p, n) : 0;

    return d ? d : x->n < y->n ? -1 : x->n > y->n;
}

static enum err text_list_make(struct text_list *l, struct arena *memory, const struct tier *t)
{
    size_t n = 0;

    l->all = arena_array(memory, 2 * t->n_rows, sizeof *l->all);
    l->n = 0;
    if (!l->all) {
        return ERR_FULL;
    }
    for (size_t r = 0; r < t->n_rows; r++) {
        l->all[n++] = t->rows[r].name;
        l->all[n++] = t->rows[r].user;
    }
    if (n) {
        qsort(l->all, n, sizeof *l->all, by_text);
    }
    for (size_t i = 0; i < n; i++) {
        if (l->all[i].n && (l->n == 0 || !str_eq(l->all[l->n - 1], l->all[i]))) {
            l->all[l->n++] = l->all[i];
        }
    }
    return ERR_OK;
}

static size_t text_number(const struct text_list *l, struct str s)
{
    const struct str *found =
        s.n && l->n ? bsearch(&s, l->all, l->n, sizeof *l->all, by_text) : NULL;

    return found ? (size_t)(found - l->all) + 1 : 0;
}

enum err tier_value_put_texts(struct buf *out, struct arena *memory, const struct tier *t)
{
    struct text_list l;
    enum err e = text_list_make(&l, memory, t);

    if (e) {
        return e;
    }
    buf_put_varint(out, l.n);
    for (size_t i = 0; i < l.n; i++) {
        buf_put_varint(out, l.all[i].n);
        buf_put(out, l.all[i].p, l.all[i].n);
    }
    for (size_t r = 0; r < t->n_rows; r++) {
        buf_put_varint(out, text_number(&l, t->rows[r].name));
        buf_put_varint(out, text_number(&l, t->rows[r].user));
    }
    return out->bad;
}

static bool get_text(struct cur *c, const struct str *all, uint64_t n, struct str *out)
{
    uint64_t i = cur_varint(c);

    if (i > n) {
        return false;
    }
    *out = i ? all[i - 1] : (struct str){0};
    return true;
}

enum err tier_value_get_texts(struct tier_row *rows, size_t n_rows, struct arena *memory,
                              const void *p, size_t n)
{
    struct cur c = cur_make(p, n);
    uint64_t n_texts = cur_varint(&c);
    struct str *all;

    if (c.bad || n_texts > cur_left(&c)) {
        return ERR_CORRUPT;
    }
    all = arena_array(memory, (size_t)n_texts, sizeof *all);
    if (!all) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < n_texts; i++) {
        uint64_t len = cur_varint(&c);

        if (len == 0 || len > MODEL_TEXT_MAX) {
            return ERR_CORRUPT;
        }
        all[i].n = (size_t)len;
        all[i].p = (const char *)cur_bytes(&c, (size_t)len);
    }
    for (size_t r = 0; !c.bad && r < n_rows; r++) {
        if (!get_text(&c, all, n_texts, &rows[r].name) ||
            !get_text(&c, all, n_texts, &rows[r].user)) {
            return ERR_CORRUPT;
        }
    }
    return c.bad || cur_left(&c) ? ERR_CORRUPT : ERR_OK;
}
