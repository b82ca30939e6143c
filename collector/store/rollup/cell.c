#include "collector/store/rollup/cell.h"

int64_t cell_sum(int64_t a, int64_t b)
{
    int64_t r;

    return __builtin_add_overflow(a, b, &r) ? (a < 0 ? INT64_MIN : INT64_MAX) : r;
}

int64_t cell_growth(int64_t from, int64_t to)
{
    int64_t r;

    return __builtin_sub_overflow(to, from, &r) ? (to < 0 ? INT64_MIN : INT64_MAX) : r;
}

/* One more growth of a counter whose cell had some already (`grew`) or not. */
static void grow(struct cell *c, bool grew, int64_t growth)
{
    c->min = grew && c->min < growth ? c->min : growth;
    c->max = grew && c->max > growth ? c->max : growth;
}

/* Sums of so many values between these bounds cannot wrap. */
#define SUM_SAFE   (INT64_C(1) << 46)
#define COUNT_SAFE ((size_t)1 << 16)

/* Two values at once, which every processor of 64 bits can. */
typedef int64_t cell_pair __attribute__((vector_size(16), aligned(8), may_alias));

/* Whether n >= 1 values are all the same, as most are: of most that are not, the ends differ. */
static inline bool cell_stands(const int64_t *v, size_t n)
{
    const int64_t *end = v + n;
    int64_t first = v[0], rest = 0;
    cell_pair one = {first, first}, d = {0, 0};

    if (end[-1] != first) {
        return false;
    }
    for (; end - v >= 4; v += 4) {
        d |= (((const cell_pair *)v)[0] ^ one) | (((const cell_pair *)v)[1] ^ one);
    }
    for (; v < end; v++) {
        rest |= *v ^ first;
    }
    return (d[0] | d[1] | rest) == 0;
}

static void counter_values(struct cell *c, const int64_t *v, size_t n, bool base)
{
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    size_t first = base ? 0 : 1;
    bool over = false;

    c->first = base ? v[-1] : v[0];
    c->last = v[n - 1];
    c->sum = 0;
    if (cell_stands(base ? v - 1 : v, base ? n + 1 : n)) {
        c->min = c->max = 0;
        return;
    }
    for (size_t i = first; i < n; i++) {
        int64_t d;

        over |= __builtin_sub_overflow(v[i], v[(ptrdiff_t)i - 1], &d);
        lo = d < lo ? d : lo;
        hi = d > hi ? d : hi;
    }
    if (over) {
        lo = INT64_MAX;
        hi = INT64_MIN;
        for (size_t i = first; i < n; i++) {
            int64_t d = cell_growth(v[(ptrdiff_t)i - 1], v[i]);

            lo = d < lo ? d : lo;
            hi = d > hi ? d : hi;
        }
    }
    c->min = lo <= hi ? lo : 0;
    c->max = lo <= hi ? hi : 0;
}

static void gauge_values(struct cell *c, const int64_t *v, size_t n)
{
    int64_t lo = v[0], hi = v[0];
    bool stands = cell_stands(v, n);
    uint64_t sum = stands ? (uint64_t)v[0] * n : 0;

    for (size_t i = 0; !stands && i < n; i++) {
        lo = v[i] < lo ? v[i] : lo;
        hi = v[i] > hi ? v[i] : hi;
        sum += (uint64_t)v[i];
    }
    c->first = 0;
    c->last = v[n - 1];
    c->min = lo;
    c->max = hi;
    c->sum = (int64_t)sum;
    if (lo < -SUM_SAFE || hi > SUM_SAFE || n > COUNT_SAFE) {
        c->sum = 0;
        for (size_t i = 0; i < n; i++) {
            c->sum = cell_sum(c->sum, v[i]);
        }
    }
}

void cell_values(struct cell *c, bool counter, const int64_t *values, size_t n, bool base)
{
    if (counter) {
        counter_values(c, values, n, base);
    } else {
        gauge_values(c, values, n);
    }
}

void cell_add(struct cell *c, bool counter, int64_t when_ns, int64_t value)
{
    if (!c->count) {
        *c = (struct cell){.first_ns = when_ns};
        c->first = counter ? value : 0;
        c->min = c->max = counter ? 0 : value;
    } else if (counter) {
        grow(c, cell_grew(c), cell_growth(c->last, value));
    } else {
        c->min = value < c->min ? value : c->min;
        c->max = value > c->max ? value : c->max;
    }
    c->sum = counter ? 0 : cell_sum(c->sum, value);
    c->count++;
    c->last = value;
    c->last_ns = when_ns;
}

/* Extremes of two cells of a counter, and of what lies between them when they are apart. */
static void counter_extremes(struct cell *c, const struct cell *o)
{
    bool grew = cell_grew(c);

    if (cell_grew(o)) {
        c->min = grew && c->min < o->min ? c->min : o->min;
        c->max = grew && c->max > o->max ? c->max : o->max;
        grew = true;
    }
    if (o->first_ns > c->last_ns) {
        grow(c, grew, cell_growth(c->last, o->first));
    } else if (c->first_ns > o->last_ns) {
        grow(c, grew, cell_growth(o->last, c->first));
    }
}

void cell_join(struct cell *c, bool counter, const struct cell *other)
{
    if (!other->count) {
        return;
    }
    if (!c->count) {
        *c = *other;
        return;
    }
    if (counter) {
        counter_extremes(c, other);
    } else {
        c->min = other->min < c->min ? other->min : c->min;
        c->max = other->max > c->max ? other->max : c->max;
    }
    c->sum = counter ? 0 : cell_sum(c->sum, other->sum);
    c->count += other->count;
    if (other->first_ns < c->first_ns) {
        c->first_ns = other->first_ns;
        c->first = other->first;
    }
    if (other->last_ns > c->last_ns) {
        c->last_ns = other->last_ns;
        c->last = other->last;
    }
}

/* Cells of a row as ticks cut it (tier_shape): each begins where the one before ends, and has
 * growth inside when it is a counter's. Gives how many of them are such, and joins these to c,
 * which has samples. */
static inline size_t join_next(struct cell *c, bool counter, const struct cell *others, size_t n)
{
    bool grew = !counter || cell_grew(c);
    int64_t last_ns = c->last_ns, min = grew ? c->min : INT64_MAX, max = grew ? c->max : INT64_MIN;
    int64_t sum = counter ? 0 : c->sum, more = 0;
    uint64_t count = c->count;
    size_t i;

    if (c->first_ns > c->last_ns) {
        return 0;
    }
    for (i = 0; i < n; i++) {
        const struct cell *o = &others[i];

        if ((counter ? o->first_ns != last_ns : o->first_ns < last_ns) || o->last_ns <= last_ns ||
            !o->count || (!counter && __builtin_add_overflow(sum, o->sum, &more))) {
            break;
        }
        sum = more;
        min = o->min < min ? o->min : min;
        max = o->max > max ? o->max : max;
        count += o->count;
        last_ns = o->last_ns;
    }
    if (i) {
        *c = (struct cell){.count = count,
                           .first_ns = c->first_ns,
                           .last_ns = last_ns,
                           .first = c->first,
                           .last = others[i - 1].last,
                           .sum = sum,
                           .min = min,
                           .max = max};
    }
    return i;
}

static inline void join_list(struct cell *c, bool counter, const struct cell *others, size_t n)
{
    while (n) {
        size_t next = c->count ? join_next(c, counter, others, n) : 0;

        others += next;
        n -= next;
        if (n) {
            cell_join(c, counter, others++);
            n--;
        }
    }
}

void cell_join_list(struct cell *c, bool counter, const struct cell *others, size_t n)
{
    if (counter) {
        join_list(c, true, others, n);
    } else {
        join_list(c, false, others, n);
    }
}

void cell_follow(struct cell *c, const struct cell *base)
{
    if (!base->count || !c->count || base->last_ns == c->first_ns || base->last_ns >= c->last_ns) {
        return;
    }
    if (base->last_ns < c->first_ns) {
        grow(c, cell_grew(c), cell_growth(base->last, c->first));
    }
    c->first = base->last;
    c->first_ns = base->last_ns;
}
