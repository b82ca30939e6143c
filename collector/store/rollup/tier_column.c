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
#include "collector/store/rollup/tier_column.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/divisor.h"
#include "common/base/varint.h"

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
};

#define NUMBER_MAX 10u /* bytes */
#define FOLDED_MAX (5 * NUMBER_MAX)
#define MAP_BITS   64u /* of the map, written at once; it has room for so many more than it needs */
#define MAP_TAKE   57u /* read at once, wherever they begin */

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

static inline bool column_moved(const struct cell *c, bool counter, uint32_t i, int64_t prev)
{
    if (counter) {
        return ((c->last ^ prev) | c->min | c->max) && column_growths(c, i);
    }
    return ((c->last ^ prev) | (c->min ^ c->last) | (c->max ^ c->last)) != 0;
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

/* The map's next n bits, at most 64; all but the last ones fill whole bytes. */
static inline void map_put(struct writing *w, uint64_t bits, unsigned n)
{
    bits = varint_little_endian(bits);
    memcpy(w->end[SEC_MAP], &bits, sizeof bits);
    w->end[SEC_MAP] += (n + 7) / 8;
}

/* n of its bits, at most MAP_TAKE, from the at-th on. */
static inline uint64_t map_take(const struct writing *w, size_t at, unsigned n)
{
    uint64_t bits;

    memcpy(&bits, w->sec[SEC_MAP] + at / 8, sizeof bits);
    return varint_little_endian(bits) >> at % 8 & ((UINT64_C(1) << n) - 1);
}

/* What the i-th cell of a row is told from. */
static inline int64_t column_prev(const struct cell *c, bool counter, uint32_t i)
{
    return counter ? c->first : i ? c[-1].last : c->last;
}

/* Looks at the cells of a row: one bit each that moved, behind the *n_bits that stand in *bits. */
static inline void row_look(struct writing *w, const struct cell *c, uint32_t n, bool counter,
                            uint64_t *bits, unsigned *n_bits)
{
    for (uint32_t i = 0; i < n; i++) {
        int64_t prev = column_prev(&c[i], counter, i);
        bool moved = column_moved(&c[i], counter, i, prev);

        *bits |= (uint64_t)moved << *n_bits;
        if (++*n_bits == MAP_BITS) {
            map_put(w, *bits, MAP_BITS);
            *bits = *n_bits = 0;
        }
        if (i == 0 || moved) { /* others repeat what was seen */
            w->plain |= !is_regular(w, &c[i], i, prev);
        }
    }
}

/* Looks at all cells of exact rows, before any is written. */
static void column_look(struct writing *w, const struct tier *t, unsigned metric)
{
    const struct cell *c = t->columns[metric];
    uint64_t bits = 0;
    unsigned n_bits = 0;

    for (size_t r = 0; r < t->n_rows && !t->rows[r].instances; r++) {
        uint32_t n = t->rows[r].n_buckets;

        if (!(t->rows[r].mask & METRIC_BIT(metric))) {
            continue;
        }
        if (w->counter) {
            row_look(w, c, n, true, &bits, &n_bits);
        } else {
            row_look(w, c, n, false, &bits, &n_bits);
        }
        c += n;
    }
    map_put(w, bits, n_bits);
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

/* The row's base and those of its cells that moved; `at`: its first cell in the map. */
static void row_put(struct writing *w, const struct cell *c, uint32_t n, size_t at)
{
    put_signed(w, SEC_BASE, divisor_signed(&w->scale, column_prev(c, w->counter, 0)));
    for (uint32_t from = 0; from < n; from += MAP_TAKE) {
        uint64_t bits = map_take(w, at + from, n - from < MAP_TAKE ? n - from : MAP_TAKE);

        for (; bits; bits &= bits - 1) {
            uint32_t i = from + (uint32_t)__builtin_ctzll(bits);

            if (w->counter) {
                put_counter(w, &c[i], i, c[i].first);
            } else {
                put_gauge(w, &c[i], i, column_prev(&c[i], false, i));
            }
        }
    }
}

/* Gives the first folded cell. */
static const struct cell *column_put_exact(struct writing *w, const struct tier *t, unsigned metric)
{
    const struct cell *first = t->columns[metric], *c = first;

    for (size_t r = 0; r < t->n_rows && !t->rows[r].instances; r++) {
        if (t->rows[r].mask & METRIC_BIT(metric)) {
            row_put(w, c, t->rows[r].n_buckets, (size_t)(c - first));
            c += t->rows[r].n_buckets;
        }
    }
    return c;
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
    const size_t room[SECTIONS] = {n * NUMBER_MAX, n / 8 + 1 + sizeof(uint64_t),
                                   n * NUMBER_MAX, n * NUMBER_MAX,
                                   n * NUMBER_MAX, n * NUMBER_MAX,
                                   n * FOLDED_MAX};
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

void tier_column_put(struct buf *out, struct buf *scratch, const struct tier *t, unsigned metric)
{
    struct writing w = {.counter = tier_is_counter(metric)};
    const struct cell *c, *end = t->columns[metric] + t->n_cells[metric];

    if (!lay_out(&w, scratch, t->n_cells[metric])) {
        out->bad = out->bad ? out->bad : scratch->bad;
        return;
    }
    column_look(&w, t, metric);
    if (w.plain || !w.scale.by || w.scale.by > INT64_MAX) {
        w.scale = divisor_make(1);
    }
    for (c = column_put_exact(&w, t, metric); c < end; c++) {
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

enum err tier_column_get(struct tier *t, struct arena *memory, unsigned metric, const void *p,
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
