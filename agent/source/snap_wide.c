/* Two tables by turns: the last one is looked up, the present one filled. So nothing is ever
 * removed, and a slot costs nothing when its process has gone. */
#include "agent/source/snap_wide.h"

#include <string.h>

#include "common/mem.h"

struct entry {
    struct proc_id id;
    bool used;
    uint64_t page_faults, hard_faults; /* totals; the low 32 bits are the last value read */
};

struct side {
    struct entry *slots;
    size_t n;
};

struct snap_wide {
    struct side last, now;
    size_t max, mask; /* of slots: at least half of them stay free */
};

enum err snap_wide_create(struct snap_wide **out, size_t processes_max)
{
    struct snap_wide *w = mem_zalloc(sizeof *w);
    size_t slots = 64;

    if (!w) {
        return ERR_NOMEM;
    }
    while (slots / 2 < processes_max) {
        slots *= 2;
    }
    w->max = processes_max;
    w->mask = slots - 1;
    w->last.slots = mem_array(slots, sizeof *w->last.slots);
    w->now.slots = mem_array(slots, sizeof *w->now.slots);
    if (!w->last.slots || !w->now.slots) {
        snap_wide_destroy(w);
        return ERR_NOMEM;
    }
    *out = w;
    return ERR_OK;
}

void snap_wide_destroy(struct snap_wide *w)
{
    if (w) {
        mem_free(w->last.slots);
        mem_free(w->now.slots);
        mem_free(w);
    }
}

void snap_wide_begin(struct snap_wide *w)
{
    struct side oldest = w->last;

    w->last = w->now;
    memset(oldest.slots, 0, (w->mask + 1) * sizeof *oldest.slots);
    oldest.n = 0;
    w->now = oldest;
}

/* The process's slot, or the free one it would take. */
static struct entry *probe(const struct snap_wide *w, const struct side *side, struct proc_id id)
{
    uint64_t hash = (id.pid ^ id.start << 20 ^ id.start >> 13) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(hash >> 32) & w->mask;

    while (side->slots[i].used && !proc_id_eq(side->slots[i].id, id)) {
        i = (i + 1) & w->mask;
    }
    return &side->slots[i];
}

static uint64_t widen(uint64_t total, int64_t value)
{
    return total + (uint32_t)((uint32_t)value - (uint32_t)total);
}

void snap_wide_row(struct snap_wide *w, struct snap_row *row)
{
    const struct entry *before = probe(w, &w->last, row->info.id);
    struct entry *e = probe(w, &w->now, row->info.id);
    uint64_t page_faults = before->used ? before->page_faults : 0;
    uint64_t hard_faults = before->used ? before->hard_faults : 0;

    page_faults = widen(page_faults, row->values[M_PAGE_FAULTS]);
    hard_faults = widen(hard_faults, row->values[M_HARD_FAULTS]);
    if (!e->used) {
        if (w->now.n == w->max) {
            return;
        }
        w->now.n++;
    }
    *e = (struct entry){row->info.id, true, page_faults, hard_faults};
    row->values[M_PAGE_FAULTS] = (int64_t)page_faults;
    row->values[M_HARD_FAULTS] = (int64_t)hard_faults;
}
