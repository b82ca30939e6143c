#include "agent/etl/etl_buffer_order.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

#define CPUS 2048 /* a power of two; more share their places */

struct stretch {
    uint64_t place;
    int64_t first, last;
};

struct etl_buffer_order {
    struct stretch *all; /* grows */
    size_t n, cap;
    struct map by_place;   /* index + 1 */
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
        map_fini(&o->by_place);
        mem_free(o);
    }
}

static struct stretch *stretch_of(struct etl_buffer_order *o, const struct raw_event *raw)
{
    uint64_t at = map_get(&o->by_place, raw->place);

    if (at == 0) {
        if (VEC_ROOM(&o->all, &o->cap, o->n + 1, ETL_BUFFER_ORDER_BUFFERS_MAX) ||
            map_reserve(&o->by_place)) {
            o->full = true;
            return NULL;
        }
        o->all[o->n] = (struct stretch){raw->place, raw->ticks, raw->ticks};
        at = ++o->n;
        (void)map_put(&o->by_place, raw->place, at);
    }
    assert(at <= o->n && o->all[at - 1].place == raw->place);
    o->recent[raw->cpu & (CPUS - 1)] = (uint32_t)at;
    return &o->all[at - 1];
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
