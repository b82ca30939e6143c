#include "collector/rules/rules_window.h"

#include <string.h>

static int64_t part_number(int64_t step_ns, int64_t part_ns)
{
    return (step_ns + part_ns - 1) / part_ns;
}

static void part_clear(struct rules_part *p)
{
    *p = (struct rules_part){.min = INT64_MAX, .max = INT64_MIN};
}

void rules_window_init(struct rules_window *w)
{
    w->newest = 0;
    for (size_t i = 0; i < RULES_PARTS; i++) {
        part_clear(&w->parts[i]);
    }
}

struct rules_part *rules_window_part(struct rules_window *w, const struct rules_call *call,
                                     int64_t step_ns)
{
    int64_t n = part_number(step_ns, call->part_ns);

    if (n <= w->newest - call->n_parts) {
        return NULL;
    }
    if (n > w->newest + call->n_parts) {
        w->newest = n - call->n_parts;
    }
    while (w->newest < n) {
        w->newest++;
        part_clear(&w->parts[w->newest % call->n_parts]);
    }
    return &w->parts[n % call->n_parts];
}

struct rules_time_part *rules_window_time(struct rules_time *w, int64_t step_ns)
{
    int64_t n = part_number(step_ns, w->part_ns);

    if (n <= w->newest - w->n_parts) {
        return NULL;
    }
    if (n > w->newest + w->n_parts) {
        w->newest = n - w->n_parts;
    }
    while (w->newest < n) {
        w->newest++;
        w->parts[w->newest % w->n_parts] = (struct rules_time_part){0};
    }
    return &w->parts[n % w->n_parts];
}

static int64_t sum_of(int64_t a, int64_t b)
{
    return clk_add(a, b);
}

void rules_window_tick(struct rules_part *p, int64_t value)
{
    if (p->min > p->max) {
        p->first = value;
    }
    p->sum = sum_of(p->sum, value);
    p->min = value < p->min ? value : p->min;
    p->max = value > p->max ? value : p->max;
    p->last = value;
}

/* The i-th part of the window that ends with the step, the oldest first; NULL: nothing came. */
static const struct rules_part *part_at(const struct rules_window *w, const struct rules_call *call,
                                        int64_t step_ns, unsigned i)
{
    int64_t n = part_number(step_ns, call->part_ns) - call->n_parts + 1 + i;

    return n > w->newest - call->n_parts && n <= w->newest && n >= 0 ? &w->parts[n % call->n_parts]
                                                                     : NULL;
}

static bool part_has(const struct rules_part *p)
{
    return p && p->min <= p->max;
}

bool rules_window_empty(const struct rules_window *w, const struct rules_call *call,
                        int64_t step_ns)
{
    for (unsigned i = 0; i < call->n_parts; i++) {
        const struct rules_part *p = part_at(w, call, step_ns, i);

        if (p && (part_has(p) || p->sum)) {
            return false;
        }
    }
    return true;
}

/* -- the host's time -- */

int64_t rules_window_begin(const struct rules_time *w, int64_t step_ns)
{
    return (part_number(step_ns, w->part_ns) - w->n_parts) * w->part_ns;
}

static const struct rules_time_part *time_at(const struct rules_time *w, int64_t step_ns,
                                             unsigned i)
{
    int64_t n = part_number(step_ns, w->part_ns) - w->n_parts + 1 + i;

    return n > w->newest - w->n_parts && n <= w->newest && n >= 0 ? &w->parts[n % w->n_parts]
                                                                  : NULL;
}

int64_t rules_window_ticks(const struct rules_time *w, int64_t step_ns)
{
    int64_t ticks = 0;

    for (unsigned i = 0; i < w->n_parts; i++) {
        const struct rules_time_part *p = time_at(w, step_ns, i);

        ticks += p ? p->ticks : 0;
    }
    return ticks;
}

/* How much of the i-th part has passed at the step. */
static int64_t part_passed(const struct rules_time *w, int64_t step_ns, unsigned i)
{
    int64_t begin = rules_window_begin(w, step_ns) + i * w->part_ns;
    int64_t end = begin + w->part_ns;

    return (end < step_ns ? end : step_ns) - begin;
}

static double share_of(int64_t missing_ns, int64_t length_ns)
{
    return length_ns <= 0 || missing_ns <= 0 ? 1
           : missing_ns >= length_ns         ? 0
                                             : 1 - (double)missing_ns / (double)length_ns;
}

double rules_window_share(const struct rules_time *w, int64_t step_ns)
{
    int64_t missing_ns = 0, length_ns = 0;

    for (unsigned i = 0; i < w->n_parts; i++) {
        const struct rules_time_part *p = time_at(w, step_ns, i);
        int64_t passed = part_passed(w, step_ns, i);

        length_ns += passed;
        missing_ns += !p ? passed : p->missing_ns < passed ? p->missing_ns : passed;
    }
    return share_of(missing_ns, length_ns);
}

double rules_window_share_part(const struct rules_time *w, int64_t step_ns, bool newest)
{
    double least = 1;

    for (unsigned i = newest ? w->n_parts - 1u : 0; i < w->n_parts; i++) {
        const struct rules_time_part *p = time_at(w, step_ns, i);
        double share = p ? share_of(p->missing_ns, part_passed(w, step_ns, i)) : 0;

        least = share < least ? share : least;
    }
    return least;
}

/* -- functions -- */

/* When the newest part is the step's, the ring is the window, in some order. */
static int64_t sum_all(const struct rules_window *w, const struct rules_call *call, int64_t step_ns)
{
    int64_t sum = 0;

    if (w->newest != part_number(step_ns, call->part_ns)) {
        for (unsigned i = 0; i < call->n_parts; i++) {
            const struct rules_part *p = part_at(w, call, step_ns, i);

            sum = clk_add(sum, p ? p->sum : 0);
        }
        return sum;
    }
    for (unsigned i = 0; i < call->n_parts; i++) {
        sum = clk_add(sum, w->parts[i].sum);
    }
    return sum;
}

struct summary {
    long double sum;
    int64_t min, max, first, last;
    unsigned n, rose;
};

static struct summary summarize(const struct rules_window *w, const struct rules_call *call,
                                int64_t step_ns)
{
    struct summary s = {.min = INT64_MAX, .max = INT64_MIN};

    for (unsigned i = 0; i < call->n_parts; i++) {
        const struct rules_part *p = part_at(w, call, step_ns, i);

        s.sum += p ? p->sum : 0;
        if (!part_has(p)) {
            continue;
        }
        s.first = s.n ? s.first : p->first;
        s.rose += s.n && p->last > s.last;
        s.last = p->last;
        s.min = p->min < s.min ? p->min : s.min;
        s.max = p->max > s.max ? p->max : s.max;
        s.n++;
    }
    return s;
}

static bool value_of_gauge(const struct rules_call *call, const struct summary *s, int64_t ticks,
                           long double *v)
{
    switch (call->fn) {
    case EXPR_AVG: /* where it was not there it counts as 0 */
        *v = ticks ? s->sum / ticks : 0;
        return ticks > 0;
    case EXPR_MIN:
        *v = s->min;
        break;
    case EXPR_LAST:
        *v = s->last;
        break;
    case EXPR_GROWTH:
        *v = (long double)s->last - s->first;
        break;
    case EXPR_STEADY:
        *v = s->n > 1 ? (long double)s->rose / (s->n - 1) : 0;
        return s->n > 1;
    default:
        *v = s->max;
        break;
    }
    if (call->source == RULES_CPU && call->fn != EXPR_STEADY) {
        *v /= 1000;
    }
    return s->n > 0;
}

bool rules_window_value(const struct rules_window *w, const struct rules_call *call,
                        const struct rules_time *time, int64_t step_ns, long double *value)
{
    struct summary s;

    if (call->source == RULES_COVERAGE) {
        *value = call->fn == EXPR_AVG
                     ? rules_window_share(time, step_ns)
                     : rules_window_share_part(time, step_ns, call->fn == EXPR_LAST);
        return true;
    }
    switch (call->source) {
    case RULES_COUNTER:
        *value = sum_all(w, call, step_ns);
        if (call->fn == EXPR_RATE) {
            *value /= step_ns - rules_window_begin(time, step_ns);
        }
        return true;
    case RULES_STARTS:
    case RULES_ENDS:
    case RULES_FAILED:
    case RULES_CRASHES:
        *value = sum_all(w, call, step_ns);
        return true;
    case RULES_PROCESSES:
        s = summarize(w, call, step_ns);
        *value = s.n ? s.max : 0;
        return true;
    default:
        s = summarize(w, call, step_ns);
        if (!value_of_gauge(call, &s, rules_window_ticks(time, step_ns), value)) {
            return false;
        }
        if (call->source == RULES_CPU && call->fn == EXPR_AVG) {
            *value /= 1000;
        }
        return true;
    }
}
