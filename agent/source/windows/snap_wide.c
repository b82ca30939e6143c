#include "agent/source/windows/snap_wide.h"

#include "agent/source/windows/snap_memory.h"
#include "common/base/mem.h"

struct totals {
    uint64_t page_faults, hard_faults; /* the low 32 bits are the last value read */
};

struct snap_wide {
    struct snap_memory *totals;
};

enum err snap_wide_create(struct snap_wide **out, size_t processes_max)
{
    struct snap_wide *w = mem_zalloc(sizeof *w);
    enum err e;

    if (!w) {
        return ERR_NOMEM;
    }
    e = snap_memory_create(&w->totals, sizeof(struct totals), processes_max);
    if (e) {
        snap_wide_destroy(w);
        return e;
    }
    *out = w;
    return ERR_OK;
}

void snap_wide_destroy(struct snap_wide *w)
{
    if (w) {
        snap_memory_destroy(w->totals);
        mem_free(w);
    }
}

void snap_wide_begin(struct snap_wide *w)
{
    snap_memory_begin(w->totals);
}

void snap_wide_row(struct snap_wide *w, struct snap_row *row)
{
    struct totals *t = snap_memory_at(w->totals, row->info.id);

    if (!t) {
        return;
    }
    t->page_faults = snap_widen(t->page_faults, (uint32_t)row->values[M_PAGE_FAULTS]);
    t->hard_faults = snap_widen(t->hard_faults, (uint32_t)row->values[M_HARD_FAULTS]);
    row->values[M_PAGE_FAULTS] = (int64_t)t->page_faults;
    row->values[M_HARD_FAULTS] = (int64_t)t->hard_faults;
}
