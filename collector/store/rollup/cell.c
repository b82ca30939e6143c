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

static void counter_values(struct cell *c, const int64_t *v, size_t n, bool base)
{
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    size_t first = base ? 0 : 1;
    bool over = false;

    c->first = base ? v[-1] : v[0];
    c->last = v[n - 1];
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
    c->sum = 0;
    c->min = lo <= hi ? lo : 0;
    c->max = lo <= hi ? hi : 0;
}

static void gauge_values(struct cell *c, const int64_t *v, size_t n)
{
    int64_t lo = v[0], hi = v[0];
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
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

/* Whether o begins where c ends: a counter's in the very sample, a gauge's behind it. */
static inline bool cell_is_next(const struct cell *c, bool counter, const struct cell *o)
{
    return c->count && o->count && c->first_ns <= c->last_ns && o->last_ns > c->last_ns &&
           (counter ? o->first_ns == c->last_ns : o->first_ns >= c->last_ns);
}

/* What cell_join does with a cell that is next, which most are: no stamp of c's but the last moves,
 * and nothing lies between. */
static inline void cell_append(struct cell *c, bool counter, const struct cell *o)
{
    if (counter && !cell_grew(c)) {
        c->min = o->min;
        c->max = o->max;
    } else {
        c->min = o->min < c->min ? o->min : c->min;
        c->max = o->max > c->max ? o->max : c->max;
    }
    c->sum = counter ? 0 : cell_sum(c->sum, o->sum);
    c->count += o->count;
    c->last_ns = o->last_ns;
    c->last = o->last;
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

static inline void join_list(struct cell *c, bool counter, const struct cell *others, size_t n)
{
    struct cell sum = *c; /* the optimiser keeps it in registers */

    for (size_t i = 0; i < n; i++) {
        if (cell_is_next(&sum, counter, &others[i])) {
            cell_append(&sum, counter, &others[i]);
        } else {
            *c = sum;
            cell_join(c, counter, &others[i]);
            sum = *c;
        }
    }
    *c = sum;
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
