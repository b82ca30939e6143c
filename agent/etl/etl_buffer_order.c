#include "agent/etl/etl_buffer_order.h"

#include <stdlib.h>

#include "common/base/mem.h"

#define CPUS 2048 /* a power of two; more share their places */

struct stretch {
    uint64_t place;
    int64_t first, last;
};

struct etl_buffer_order {
    struct stretch *all; /* grows */
    size_t n, cap;
    uint32_t *slots; /* index + 1, by place; twice as many as stretches */
    size_t n_slots;
    uint32_t recent[CPUS]; /* index + 1 of the buffer a CPU's last record stood in */
    uint64_t inside;       /* inversions within buffers */
    bool full;
};

enum err etl_buffer_order_create(struct etl_buffer_order **out)
{
    struct etl_buffer_order *o = mem_zalloc(sizeof *o);

    if (!o) {
        return ERR_NOMEM;
    }
    *out = o;
    return ERR_OK;
}

void etl_buffer_order_destroy(struct etl_buffer_order *o)
{
    if (o) {
        mem_free(o->all);
        mem_free(o->slots);
        mem_free(o);
    }
}

/* The slot of a place: its own, or the free one where it belongs. */
static uint32_t *slot_of(const struct etl_buffer_order *o, uint64_t place)
{
    size_t at = (size_t)(place * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (o->n_slots - 1);

    while (o->slots[at] && o->all[o->slots[at] - 1].place != place) {
        at = (at + 1) & (o->n_slots - 1);
    }
    return &o->slots[at];
}

static bool grow(struct etl_buffer_order *o)
{
    size_t cap = o->cap ? o->cap * 2 : 256;
    struct stretch *all;
    uint32_t *slots;

    if (o->n < o->cap) {
        return true;
    }
    all = o->n < ETL_BUFFER_ORDER_BUFFERS_MAX ? mem_realloc_array(o->all, cap, sizeof *all) : NULL;
    if (!all) {
        return false;
    }
    o->all = all;
    slots = mem_array(cap * 2, sizeof *slots);
    if (!slots) {
        return false;
    }
    mem_free(o->slots);
    o->slots = slots;
    o->n_slots = cap * 2;
    o->cap = cap;
    for (size_t i = 0; i < o->n; i++) {
        *slot_of(o, o->all[i].place) = (uint32_t)i + 1;
    }
    return true;
}

static struct stretch *stretch_of(struct etl_buffer_order *o, const struct raw_event *raw)
{
    uint32_t *slot = o->n ? slot_of(o, raw->place) : NULL;

    if (slot && *slot) {
        o->recent[raw->cpu & (CPUS - 1)] = *slot;
        return &o->all[*slot - 1];
    }
    if (!grow(o)) {
        o->full = true;
        return NULL;
    }
    o->all[o->n] = (struct stretch){raw->place, raw->ticks, raw->ticks};
    *slot_of(o, raw->place) = (uint32_t)++o->n;
    o->recent[raw->cpu & (CPUS - 1)] = (uint32_t)o->n;
    return &o->all[o->n - 1];
}

void etl_buffer_order_record(struct etl_buffer_order *o, const struct raw_event *raw)
{
    uint32_t recent = o->recent[raw->cpu & (CPUS - 1)];
    struct stretch *s =
        recent && o->all[recent - 1].place == raw->place ? &o->all[recent - 1] : stretch_of(o, raw);

    if (s) {
        o->inside += raw->ticks < s->last;
        s->last = raw->ticks;
    }
}

static int by_place(const void *pa, const void *pb)
{
    const struct stretch *a = pa, *b = pb;

    return (a->place > b->place) - (a->place < b->place);
}

bool etl_buffer_order_inversions(struct etl_buffer_order *o, uint64_t *n)
{
    *n = o->inside;
    if (o->n) {
        qsort(o->all, o->n, sizeof *o->all, by_place);
    }
    for (size_t i = 1; i < o->n; i++) {
        *n += o->all[i].first < o->all[i - 1].last;
    }
    return !o->full;
}
