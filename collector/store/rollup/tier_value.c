/* The table of rows, written plainly: it is small, and the readers of summaries want it fast. What
 * most rows have in common takes no bytes: a row that is there at every tick of its part is a flag.
 * Texts stand apart, since most readers do without. */
#include "collector/store/rollup/tier_value.h"

#include <stdlib.h>

#include "collector/store/segment/seg_format.h"
#include "common/base/cur.h"
#include "common/base/divisor.h"
#include "common/base/varint.h"

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

/* A column of cells. Count and stamps follow from the rows; what is left is, for an exact row's
 * cells one after the other,
 *
 *   counter   the first value; growth, and of its parts the smallest and the largest
 *   gauge     the last value; least, greatest and sum
 *
 * in sections, because like bytes beside like are what compresses: bases, a bit per cell (0:
 * nothing moved), then the numbers of the cells that moved. Each number is told as its distance
 * from where the others say that it must be, mostly zero or small: min and max of growths lie
 * around their mean or at the ends; a gauge's extremes are mostly the values at its ends, and with
 * two values the sum is a multiple of their difference.
 *
 * Columns with falling counters or huge values are written plainly. All arithmetic is modulo 2^64,
 * so reading needs no bounds but those of the bytes. */

/* In the first byte. */
enum { COLUMN_PLAIN = 1 << 0, COLUMN_FLAGS = (1 << 1) - 1 };

enum { SEC_BASE, SEC_MAP, SEC_LAST, SEC_MIN, SEC_MAX, SEC_SUM, SEC_FOLDED, SECTIONS };

#define GAUGE_SAFE (INT64_C(1) << 46) /* values below, */
#define COUNT_SAFE (1u << 15)         /* so many of them, are told by distance */

static inline uint64_t column_unzigzag(uint64_t u)
{
    return u >> 1 ^ (0 - (u & 1));
}

static int64_t column_times(int64_t v, uint64_t count)
{
    int64_t r;

    if (count > INT64_MAX || __builtin_mul_overflow(v, (int64_t)count, &r)) {
        return v < 0 ? INT64_MIN : v ? INT64_MAX : 0;
    }
    return r;
}

/* Growths inside the i-th cell of a counter's row. */
static uint64_t column_growths(const struct cell *c, uint32_t i)
{
    return c->count - (i == 0);
}

/* -- writing -- */

struct writing {
    uint8_t *sec[SECTIONS], *end[SECTIONS]; /* each section has room for what it can need */
    bool counter, plain;
    struct divisor scale;
    unsigned n_bits; /* in the map's last byte */
};

#define NUMBER_MAX 10u /* bytes */
#define FOLDED_MAX (5 * NUMBER_MAX)

static inline void column_put(struct writing *w, unsigned sec, uint64_t v)
{
    uint8_t *p = w->end[sec];

    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    w->end[sec] = p;
}

static inline void put_signed(struct writing *w, unsigned sec, int64_t v)
{
    column_put(w, sec, varint_zigzag((uint64_t)v));
}

static inline void scale_add(struct writing *w, int64_t value, const struct cell *c)
{
    if (w->scale.by != 1) {
        divisor_add(&w->scale, value);
        divisor_add(&w->scale, c->last);
        divisor_add(&w->scale, c->min);
        divisor_add(&w->scale, c->max);
    }
}

static bool column_moved(const struct writing *w, const struct cell *c, uint32_t i, int64_t prev)
{
    if (w->counter) {
        return column_growths(c, i) && (c->last != prev || c->min || c->max);
    }
    return c->last != prev || c->min != c->last || c->max != c->last;
}

/* Whether the cell keeps the rules that distances are made by; looks for a scale too. */
static bool is_regular(struct writing *w, const struct cell *c, uint32_t i, int64_t prev)
{
    if (w->counter) {
        uint64_t k = column_growths(c, i);

        scale_add(w, c->first, c);
        return c->last >= prev && c->min >= 0 && c->max >= c->min &&
               (k > 1 || (c->min == c->max && (!k || c->max == cell_growth(prev, c->last)))) &&
               c->max <= cell_growth(prev, c->last) &&
               (!k || (uint64_t)c->min <= (uint64_t)cell_growth(prev, c->last) / k);
    }
    scale_add(w, c->sum, c);
    return c->min > -GAUGE_SAFE && c->max < GAUGE_SAFE && c->last >= c->min && c->last <= c->max &&
           c->count < COUNT_SAFE;
}

/* Of every exact row the cells, one after the other. */
typedef void cell_visit(struct writing *w, const struct cell *c, uint32_t i, int64_t prev);

static const struct cell *each_cell(struct writing *w, const struct tier *t, unsigned metric,
                                    cell_visit *visit)
{
    const struct cell *c = t->columns[metric];

    for (size_t r = 0; r < t->n_rows && !t->rows[r].instances; r++) {
        if (!(t->rows[r].mask & METRIC_BIT(metric))) {
            continue;
        }
        for (uint32_t i = 0; i < t->rows[r].n_buckets; i++, c++) {
            visit(w, c, i, w->counter ? c->first : i ? c[-1].last : c->last);
        }
    }
    return c;
}

static void column_look(struct writing *w, const struct cell *c, uint32_t i, int64_t prev)
{
    if (i == 0 || column_moved(w, c, i, prev)) { /* others repeat what was seen */
        w->plain |= !is_regular(w, c, i, prev);
    }
}

static void put_bit(struct writing *w, bool bit)
{
    if (w->n_bits == 0) {
        *w->end[SEC_MAP]++ = 0;
    }
    w->end[SEC_MAP][-1] |= (uint8_t)(bit << w->n_bits);
    w->n_bits = (w->n_bits + 1) & 7;
}

/* v between lo and hi, as the distance from the nearer end. */
static uint64_t from_ends(uint64_t v, uint64_t lo, uint64_t hi)
{
    uint64_t x = v - lo, y = hi - v;

    return x <= y ? x << 1 : y << 1 | 1;
}

static void put_counter(struct writing *w, const struct cell *c, uint32_t i, int64_t prev)
{
    uint64_t growth = ((uint64_t)c->last - (uint64_t)prev), k = column_growths(c, i);
    uint64_t min = (uint64_t)c->min, max = (uint64_t)c->max;

    if (w->plain) {
        column_put(w, SEC_LAST, varint_zigzag(growth));
        column_put(w, SEC_MIN, varint_zigzag(min));
        column_put(w, SEC_MAX, varint_zigzag(max));
        return;
    }
    growth = divisor_unsigned(&w->scale, growth);
    min = divisor_unsigned(&w->scale, min);
    max = divisor_unsigned(&w->scale, max);
    column_put(w, SEC_LAST, growth);
    if (k > 1) {
        column_put(w, SEC_MIN, min);
        column_put(w, SEC_MAX,
                   from_ends(max, (growth - min + k - 2) / (k - 1), growth - min * (k - 1)));
    }
}

static void put_gauge(struct writing *w, const struct cell *c, uint32_t i, int64_t prev)
{
    int64_t last, min, max, before, lo, hi;
    uint64_t rest, step;

    if (w->plain) {
        column_put(w, SEC_LAST, varint_zigzag((uint64_t)c->last - (uint64_t)prev));
        put_signed(w, SEC_MIN, c->min);
        put_signed(w, SEC_MAX, c->max);
        put_signed(w, SEC_SUM, c->sum);
        return;
    }
    last = divisor_signed(&w->scale, c->last);
    before = divisor_signed(&w->scale, prev);
    if (i > 0) {
        put_signed(w, SEC_LAST, last - before);
    }
    if (c->count < 2) {
        return;
    }
    min = divisor_signed(&w->scale, c->min);
    max = divisor_signed(&w->scale, c->max);
    lo = before < last ? before : last;
    hi = before < last ? last : before;
    put_signed(w, SEC_MIN, lo - min);
    put_signed(w, SEC_MAX, max - hi);
    if (max > min) {
        rest = (uint64_t)divisor_signed(&w->scale, c->sum) - (uint64_t)min * c->count;
        step = (uint64_t)(max - min);
        column_put(w, SEC_SUM, rest % step ? rest << 1 : rest / step << 1 | 1);
    }
}

static void put_cell(struct writing *w, const struct cell *c, uint32_t i, int64_t prev)
{
    bool bit = column_moved(w, c, i, prev);

    if (i == 0) {
        put_signed(w, SEC_BASE, divisor_signed(&w->scale, prev));
    }
    put_bit(w, bit);
    if (bit && w->counter) {
        put_counter(w, c, i, prev);
    } else if (bit) {
        put_gauge(w, c, i, prev);
    }
}

static void put_folded(struct writing *w, const struct cell *c)
{
    column_put(w, SEC_FOLDED, c->count);
    if (c->count) {
        put_signed(w, SEC_FOLDED, c->sum);
        put_signed(w, SEC_FOLDED, c->min);
        column_put(w, SEC_FOLDED, (uint64_t)c->max - (uint64_t)c->min);
        if (!w->counter) {
            column_put(w, SEC_FOLDED, (uint64_t)c->last - (uint64_t)c->min);
        }
    }
}

/* Places for the sections of n cells in scratch; false: it latched. */
static bool lay_out(struct writing *w, struct buf *scratch, size_t n)
{
    const size_t room[SECTIONS] = {n * NUMBER_MAX, n / 8 + 1,      n * NUMBER_MAX, n * NUMBER_MAX,
                                   n * NUMBER_MAX, n * NUMBER_MAX, n * FOLDED_MAX};
    size_t all = 0;
    uint8_t *p;

    for (unsigned s = 0; s < SECTIONS; s++) {
        all += room[s];
    }
    buf_reset(scratch);
    p = buf_grow(scratch, all);
    for (unsigned s = 0; p && s < SECTIONS; s++) {
        w->sec[s] = w->end[s] = p;
        p += room[s];
    }
    return p;
}

static void put_sections(struct buf *out, const struct writing *w)
{
    buf_put_u8(out, w->plain ? COLUMN_PLAIN : 0);
    buf_put_varint(out, w->scale.by);
    for (unsigned s = 0; s < SECTIONS - 1; s++) {
        buf_put_varint(out, (uint64_t)(w->end[s] - w->sec[s]));
    }
    for (unsigned s = 0; s < SECTIONS; s++) {
        buf_put(out, w->sec[s], (size_t)(w->end[s] - w->sec[s]));
    }
}

void tier_value_put_column(struct buf *out, struct buf *scratch, const struct tier *t,
                           unsigned metric)
{
    struct writing w = {.counter = tier_is_counter(metric)};
    const struct cell *c, *end = t->columns[metric] + t->n_cells[metric];

    if (!lay_out(&w, scratch, t->n_cells[metric])) {
        out->bad = out->bad ? out->bad : scratch->bad;
        return;
    }
    (void)each_cell(&w, t, metric, column_look);
    if (w.plain || !w.scale.by || w.scale.by > INT64_MAX) {
        w.scale = divisor_make(1);
    }
    for (c = each_cell(&w, t, metric, put_cell); c < end; c++) {
        put_folded(&w, c);
    }
    put_sections(out, &w);
}

/* -- reading -- */

struct reading {
    struct cur sec[SECTIONS];
    bool counter, plain;
    uint64_t scale;
    unsigned byte, n_bits; /* of the map */
};

static inline bool get_bit(struct reading *r)
{
    bool bit;

    if (r->n_bits == 0) {
        r->byte = cur_u8(&r->sec[SEC_MAP]);
        r->n_bits = 8;
    }
    bit = r->byte & 1;
    r->byte >>= 1;
    r->n_bits--;
    return bit;
}

static inline uint64_t column_number(struct reading *r, unsigned sec)
{
    return cur_varint(&r->sec[sec]);
}

static inline uint64_t to_ends(uint64_t z, uint64_t lo, uint64_t hi)
{
    return z & 1 ? hi - (z >> 1) : lo + (z >> 1);
}

static void get_counter(struct reading *r, struct cell *c, uint32_t i)
{
    uint64_t k = column_growths(c, i), growth = column_number(r, SEC_LAST), min, max;

    if (r->plain) {
        growth = column_unzigzag(growth);
        min = column_unzigzag(column_number(r, SEC_MIN));
        max = column_unzigzag(column_number(r, SEC_MAX));
    } else if (k > 1) {
        min = column_number(r, SEC_MIN);
        max = to_ends(column_number(r, SEC_MAX), (growth - min + k - 2) / (k - 1),
                      growth - min * (k - 1));
    } else {
        min = max = growth;
    }
    c->last = (int64_t)((uint64_t)c->first + growth * r->scale);
    c->min = (int64_t)(min * r->scale);
    c->max = (int64_t)(max * r->scale);
}

/* last, min and max are in units of the scale; the caller multiplies. */
static void get_gauge(struct reading *r, struct cell *c, uint32_t i, int64_t before)
{
    uint64_t prev = (uint64_t)before, last = prev, lo, hi, z, sum;

    if (r->plain) {
        c->last = (int64_t)(prev + column_unzigzag(column_number(r, SEC_LAST)));
        c->min = (int64_t)column_unzigzag(column_number(r, SEC_MIN));
        c->max = (int64_t)column_unzigzag(column_number(r, SEC_MAX));
        c->sum = (int64_t)column_unzigzag(column_number(r, SEC_SUM));
        return;
    }
    last += i ? column_unzigzag(column_number(r, SEC_LAST)) : 0;
    lo = before < (int64_t)last ? prev : last;
    hi = before < (int64_t)last ? last : prev;
    if (c->count < 2) {
        lo = hi = sum = last;
    } else {
        lo -= column_unzigzag(column_number(r, SEC_MIN));
        hi += column_unzigzag(column_number(r, SEC_MAX));
        sum = lo * c->count;
        if ((int64_t)hi > (int64_t)lo) {
            z = column_number(r, SEC_SUM);
            sum += z & 1 ? (z >> 1) * (hi - lo) : z >> 1;
        }
    }
    c->last = (int64_t)last;
    c->min = (int64_t)lo;
    c->max = (int64_t)hi;
    c->sum = (int64_t)(sum * r->scale);
}

static void get_counters(struct reading *r, const struct tier *t, const struct tier_row *row,
                         struct cell *c)
{
    int64_t at = (int64_t)(column_unzigzag(column_number(r, SEC_BASE)) * r->scale);

    for (uint32_t i = 0; i < row->n_buckets; i++, c++) {
        c->sum = c->min = c->max = 0;
        tier_shape(c, t, row, i, true);
        c->first = c->last = at;
        if (get_bit(r)) {
            r->sec[SEC_MAP].bad |= column_growths(c, i) == 0;
            get_counter(r, c, i);
        }
        at = c->last;
    }
}

static void get_gauges(struct reading *r, const struct tier *t, const struct tier_row *row,
                       struct cell *c)
{
    int64_t at = (int64_t)column_unzigzag(column_number(r, SEC_BASE));

    for (uint32_t i = 0; i < row->n_buckets; i++, c++) {
        c->first = 0;
        tier_shape(c, t, row, i, false);
        if (get_bit(r)) {
            get_gauge(r, c, i, at);
            at = c->last;
            c->last = (int64_t)((uint64_t)c->last * r->scale);
            c->min = (int64_t)((uint64_t)c->min * r->scale);
            c->max = (int64_t)((uint64_t)c->max * r->scale);
        } else {
            c->last = c->min = c->max = (int64_t)((uint64_t)at * r->scale);
            c->sum = column_times(c->last, c->count);
        }
    }
}

static void get_folded(struct reading *r, const struct tier_row *row, struct cell *c)
{
    *c = (struct cell){.count = column_number(r, SEC_FOLDED)};
    if (!c->count) {
        return;
    }
    c->first_ns = row->first_ns;
    c->last_ns = row->last_ns;
    c->sum = (int64_t)column_unzigzag(column_number(r, SEC_FOLDED));
    c->min = (int64_t)column_unzigzag(column_number(r, SEC_FOLDED));
    c->max = (int64_t)((uint64_t)c->min + column_number(r, SEC_FOLDED));
    c->last = r->counter ? 0 : (int64_t)((uint64_t)c->min + column_number(r, SEC_FOLDED));
}

/* The sections; false when they do not fit the bytes. */
static bool get_sections(struct reading *r, const void *p, size_t n)
{
    struct cur c = cur_make(p, n);
    unsigned flags = cur_u8(&c);
    uint64_t lengths[SECTIONS];

    r->plain = flags & COLUMN_PLAIN;
    r->scale = cur_varint(&c);
    for (unsigned s = 0; s < SECTIONS - 1; s++) {
        lengths[s] = cur_varint(&c);
    }
    if (c.bad || (flags & ~(unsigned)COLUMN_FLAGS) || !r->scale || r->scale > INT64_MAX) {
        return false;
    }
    for (unsigned s = 0; s < SECTIONS; s++) {
        const uint8_t *at;
        uint64_t len = s < SECTIONS - 1 ? lengths[s] : cur_left(&c);

        if (len > cur_left(&c)) {
            return false;
        }
        at = cur_bytes(&c, (size_t)len);
        r->sec[s] = cur_make(at, (size_t)len);
    }
    return true;
}

enum err tier_value_get_column(struct tier *t, struct arena *memory, unsigned metric, const void *p,
                               size_t n)
{
    struct reading r = {.counter = tier_is_counter(metric)};
    size_t n_cells = t->n_cells[metric];
    struct cell *cells, *c;

    if (!get_sections(&r, p, n) ||
        n_cells / 8 > cur_left(&r.sec[SEC_MAP]) + cur_left(&r.sec[SEC_FOLDED])) {
        return ERR_CORRUPT;
    }
    c = cells = arena_array_unset(memory, n_cells, sizeof *cells);
    if (!cells) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct tier_row *row = &t->rows[i];

        if (!(row->mask & METRIC_BIT(metric))) {
            continue;
        }
        if (row->instances) {
            get_folded(&r, row, c);
        } else if (r.counter) {
            get_counters(&r, t, row, c);
        } else {
            get_gauges(&r, t, row, c);
        }
        c += row->n_buckets;
    }
    for (unsigned s = 0; s < SECTIONS; s++) {
        if (r.sec[s].bad || cur_left(&r.sec[s])) {
            return ERR_CORRUPT;
        }
    }
    t->columns[metric] = cells;
    return ERR_OK;
}
