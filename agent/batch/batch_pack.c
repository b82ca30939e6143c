#include "agent/batch/batch_pack.h"

#include <stdlib.h>

#include "common/base/mem.h"

void batch_held_fini(struct batch_held *h)
{
    mem_free(h->wall_ns);
    mem_free(h->mono_ns);
    mem_free(h->rows);
    mem_free(h->values);
    mem_free(h->instances);
    mem_free(h->events);
    *h = (struct batch_held){0};
}

void batch_packer_fini(struct batch_packer *k)
{
    mem_free(k->runs);
    mem_free(k->values);
    mem_free(k->infos);
    mem_free(k->events);
    *k = (struct batch_packer){0};
}

enum err batch_room(void *array, uint32_t *cap, uint32_t n, size_t size)
{
    void **p = array;
    uint32_t want = *cap ? *cap : 16;
    void *more;

    if (n <= *cap) {
        return ERR_OK;
    }
    while (want < n) {
        want *= 2; /* n is bounded by the limits of batch.h, far below 2^31 */
    }
    more = mem_realloc_array(*p, want, size);
    if (!more) {
        return ERR_NOMEM;
    }
    *p = more;
    *cap = want;
    return ERR_OK;
}

static int by_identity(const void *a, const void *b)
{
    const struct proc_id *x = &((const struct batch_instance *)a)->id;
    const struct proc_id *y = &((const struct batch_instance *)b)->id;

    if (x->pid != y->pid) {
        return x->pid < y->pid ? -1 : 1;
    }
    return (x->start > y->start) - (x->start < y->start);
}

static int by_time(const void *a, const void *b)
{
    const struct batch_life *x = a, *y = b;

    if (x->ev.wall_ns != y->ev.wall_ns) {
        return x->ev.wall_ns < y->ev.wall_ns ? -1 : 1;
    }
    return (x->order > y->order) - (x->order < y->order);
}

void batch_held_sort(struct batch_held *h)
{
    if (h->n_instances > 1) {
        qsort(h->instances, h->n_instances, sizeof *h->instances, by_identity);
    }
    if (h->n_events > 1) {
        qsort(h->events, h->n_events, sizeof *h->events, by_time);
    }
}

bool batch_part_split(struct batch_part *part, struct batch_part *rest)
{
    uint32_t n_events = part->event1 - part->event0;

    *rest = *part;
    if (part->tick1 - part->tick0 > 1) {
        part->tick1 = rest->tick0 = part->tick0 + (part->tick1 - part->tick0) / 2;
        rest->infos = false;
    } else if (part->instance1 - part->instance0 > 1) {
        part->instance1 = rest->instance0 =
            part->instance0 + (part->instance1 - part->instance0) / 2;
    } else if (n_events > 1) {
        rest->instance0 = rest->instance1;
        rest->tick0 = rest->tick1;
    } else {
        return false;
    }
    part->event1 = rest->event0 = part->event0 + n_events / 2;
    return true;
}

/* -- runs -- */

static bool continues(const struct batch_run *run, const struct batch_row *row, uint32_t tick)
{
    return run->first_tick + run->n_ticks == tick && run->mask == row->mask && !row->fresh;
}

static enum err add_run(struct batch_packer *k, struct proc_id id, const struct batch_row *row,
                        uint32_t tick)
{
    enum err e = batch_room(&k->runs, &k->cap_runs, k->n_runs + 1, sizeof *k->runs);

    if (e) {
        return e;
    }
    k->runs[k->n_runs++] = (struct batch_run){
        .id = id, .first_tick = tick, .n_ticks = 1, .mask = row->mask, .fresh = row->fresh};
    return ERR_OK;
}

/* The runs of one instance within the part's ticks. */
static enum err add_runs(struct batch_packer *k, const struct batch_held *h,
                         const struct batch_part *part, const struct batch_instance *in)
{
    uint32_t from = k->n_runs;

    for (uint32_t r = in->first_row; r != BATCH_NO_ROW; r = h->rows[r].next) {
        const struct batch_row *row = &h->rows[r];
        uint32_t tick = row->tick - part->tick0;
        enum err e;

        if (row->tick < part->tick0 || row->tick >= part->tick1) {
            continue;
        }
        if (k->n_runs > from && continues(&k->runs[k->n_runs - 1], row, tick)) {
            k->runs[k->n_runs - 1].n_ticks++;
            continue;
        }
        e = add_run(k, in->id, row, tick);
        if (e) {
            return e;
        }
    }
    return ERR_OK;
}

/* -- columns -- */

/* Lays the columns out one behind the other in k->values; gives where each begins. */
static enum err lay_out(struct batch_packer *k, struct batch *out, int64_t *at[METRIC_COLS])
{
    uint32_t counts[METRIC_COLS] = {0};
    uint32_t total = 0;
    int64_t *next;
    enum err e;

    for (uint32_t r = 0; r < k->n_runs; r++) {
        for (uint64_t left = k->runs[r].mask; left; left &= left - 1) {
            counts[__builtin_ctzll(left)] += k->runs[r].n_ticks;
            total += k->runs[r].n_ticks;
        }
    }
    e = batch_room(&k->values, &k->cap_values, total, sizeof *k->values);
    if (e) {
        return e;
    }
    next = k->values;
    out->n_columns = 0;
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        at[m] = next;
        if (counts[m] > 0) {
            k->columns[out->n_columns++] =
                (struct batch_column){.metric = (uint8_t)m, .n_values = counts[m], .values = next};
            next += counts[m];
        }
    }
    out->columns = k->columns;
    return ERR_OK;
}

/* In the same order as add_runs made the runs: so every column is in run order. */
static void fill_columns(const struct batch_held *h, const struct batch_part *part,
                         int64_t *at[METRIC_COLS])
{
    for (uint32_t i = part->instance0; i < part->instance1; i++) {
        for (uint32_t r = h->instances[i].first_row; r != BATCH_NO_ROW; r = h->rows[r].next) {
            const struct batch_row *row = &h->rows[r];
            const int64_t *v;

            if (!row->mask || row->tick < part->tick0 || row->tick >= part->tick1) {
                continue;
            }
            v = h->values + row->value_at;
            for (uint64_t left = row->mask; left; left &= left - 1) {
                *at[__builtin_ctzll(left)]++ = *v++;
            }
        }
    }
}

/* -- infos and events -- */

static enum err pack_infos(struct batch_packer *k, const struct batch_held *h,
                           const struct batch_part *part, struct batch *out)
{
    uint32_t n = part->instance1 - part->instance0;
    enum err e = batch_room(&k->infos, &k->cap_infos, n, sizeof *k->infos);

    if (e) {
        return e;
    }
    out->n_infos = 0;
    for (uint32_t i = part->instance0; part->infos && i < part->instance1; i++) {
        if (h->instances[i].announce) {
            k->infos[out->n_infos++] = h->instances[i].info;
        }
    }
    out->infos = k->infos;
    return ERR_OK;
}

static enum err pack_events(struct batch_packer *k, const struct batch_held *h,
                            const struct batch_part *part, struct batch *out)
{
    uint32_t n = part->event1 - part->event0;
    enum err e = batch_room(&k->events, &k->cap_events, n, sizeof *k->events);

    if (e) {
        return e;
    }
    for (uint32_t i = 0; i < n; i++) {
        k->events[i] = h->events[part->event0 + i].ev;
    }
    out->n_events = n;
    out->events = k->events;
    return ERR_OK;
}

enum err batch_pack(struct batch_packer *k, const struct batch_held *h,
                    const struct batch_part *part, struct batch *out)
{
    int64_t *at[METRIC_COLS];
    enum err e;

    k->n_runs = 0;
    for (uint32_t i = part->instance0; i < part->instance1; i++) {
        e = add_runs(k, h, part, &h->instances[i]);
        if (e) {
            return e;
        }
    }
    e = lay_out(k, out, at);
    if (e) {
        return e;
    }
    fill_columns(h, part, at);
    e = pack_infos(k, h, part, out);
    if (e) {
        return e;
    }
    e = pack_events(k, h, part, out);
    if (e) {
        return e;
    }
    out->n_ticks = part->tick1 - part->tick0;
    out->wall_ns = h->wall_ns ? h->wall_ns + part->tick0 : NULL;
    out->mono_ns = h->mono_ns ? h->mono_ns + part->tick0 : NULL;
    out->n_runs = k->n_runs;
    out->runs = k->runs;
    return ERR_OK;
}
