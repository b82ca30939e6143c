#include "collector/store/read/store_ticks.h"

#include <stdlib.h>

enum err store_ticks_add(struct store_tick_sum *t, const struct store_tick_run *run)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 64;
        struct store_tick_run *more = arena_array(t->memory, cap, sizeof *more);

        if (!more) {
            return ERR_FULL;
        }
        if (t->n) {
            memcpy(more, t->runs, t->n * sizeof *more);
        }
        t->runs = more;
        t->cap = cap;
    }
    t->runs[t->n++] = *run;
    return ERR_OK;
}

/* Those outside of the range first. */
static int by_time(const void *a, const void *b)
{
    const struct store_tick_run *x = a, *y = b;
    int d = memcmp(x->boot.b, y->boot.b, sizeof x->boot.b);

    if (d || x->inside != y->inside) {
        return d ? d : x->inside - y->inside;
    }
    if (x->base_mono_ns != y->base_mono_ns) {
        return x->base_mono_ns < y->base_mono_ns ? -1 : 1;
    }
    return x->last_mono_ns < y->last_mono_ns ? -1 : x->last_mono_ns > y->last_mono_ns;
}

static void add_inside(struct store_ticks *out, const struct store_tick_run *r, int64_t begin_ns)
{
    if (!out->ticks || r->first_wall_ns < out->first_wall_ns) {
        out->first_wall_ns = r->first_wall_ns;
        out->first_boot = r->boot;
        out->from_mono_ns = begin_ns;
    }
    if (!out->ticks || r->last_wall_ns > out->last_wall_ns) {
        out->last_wall_ns = r->last_wall_ns;
        out->last_boot = r->boot;
        out->last_mono_ns = r->last_mono_ns;
    }
    out->ticks += r->ticks;
}

/* What is known of a boot so far. */
struct boot_seen {
    bool any, any_outside;
    int64_t newest;  /* tick */
    int64_t outside; /* newest one before the range */
    int64_t cover;   /* summed up to there */
};

/* Late data lies between the ticks of others: what begins before it begins with it. */
static int64_t run_begin(const struct boot_seen *b, const struct store_tick_run *r)
{
    int64_t from = r->base_mono_ns;

    if (!r->has_base && b->any && b->newest < from) {
        from = b->newest;
    }
    if (b->any_outside && b->outside > from && b->outside < r->last_mono_ns) {
        from = b->outside;
    }
    return from < b->cover ? b->cover : from;
}

void store_ticks_sum(struct store_tick_sum *t, struct store_ticks *out)
{
    struct boot_seen b = {0};

    *out = (struct store_ticks){0};
    if (t->n) {
        qsort(t->runs, t->n, sizeof *t->runs, by_time);
    }
    for (size_t i = 0; i < t->n; i++) {
        const struct store_tick_run *r = &t->runs[i];

        if (i == 0 || memcmp(r->boot.b, r[-1].boot.b, sizeof r->boot.b) != 0) {
            b = (struct boot_seen){.cover = INT64_MIN};
        }
        if (r->inside) {
            int64_t from = run_begin(&b, r);

            if (r->last_mono_ns > from) {
                out->span_mono_ns = cell_sum(out->span_mono_ns, cell_growth(from, r->last_mono_ns));
                b.cover = r->last_mono_ns;
            }
            add_inside(out, r, from);
        }
        b.newest = b.any && b.newest > r->last_mono_ns ? b.newest : r->last_mono_ns;
        b.any = true;
        if (!r->inside) {
            b.outside = b.newest;
            b.any_outside = true;
        }
    }
}

static int64_t ticks_step(int64_t when_ns, int64_t step_ns)
{
    return step_ns ? when_ns / step_ns : 0;
}

bool store_ticks_uncut(const struct tier *sums, const struct store_cells *ask, bool *meets)
{
    *meets = false;
    for (size_t i = 0; i < sums->n_buckets; i++) {
        int64_t first = sums->buckets[i].first_wall_ns, last = sums->buckets[i].last_wall_ns;

        if (last < ask->since_ns || first >= ask->until_ns) {
            continue;
        }
        *meets = true;
        if (first < ask->since_ns || last >= ask->until_ns ||
            ticks_step(first, ask->step_ns) != ticks_step(last, ask->step_ns)) {
            return false;
        }
    }
    return true;
}
