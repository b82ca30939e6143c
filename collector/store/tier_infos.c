#include "collector/store/tier_infos.h"

#include <stdlib.h>

static int compare(const struct uuid *boot_a, struct proc_id a, const struct uuid *boot_b,
                   struct proc_id b)
{
    int d = memcmp(boot_a->b, boot_b->b, sizeof boot_a->b);

    if (d) {
        return d;
    }
    if (a.pid != b.pid) {
        return a.pid < b.pid ? -1 : 1;
    }
    return a.start < b.start ? -1 : a.start > b.start;
}

static int by_instance(const void *a, const void *b)
{
    const struct tier_info *x = a, *y = b;
    int d = compare(x->boot, x->info->id, y->boot, y->info->id);

    return d ? d : x->order < y->order ? -1 : 1;
}

static bool tells_process(const struct life_event *ev)
{
    return ev->kind == LIFE_PROCESS_START || ev->kind == LIFE_PROCESS_STOP;
}

/* What a batch tells, infos first; gives how many. list may be NULL: only counts. */
static size_t batch_infos(const struct batch *b, struct tier_info *list, size_t order)
{
    size_t n = 0;

    for (size_t i = 0; i < b->n_infos; i++, n++) {
        if (list) {
            list[n] = (struct tier_info){&b->head.boot, &b->infos[i], order + n};
        }
    }
    for (size_t i = 0; i < b->n_events; i++) {
        if (tells_process(&b->events[i])) {
            if (list) {
                list[n] = (struct tier_info){&b->head.boot, &b->events[i].info, order + n};
            }
            n++;
        }
    }
    return n;
}

enum err tier_infos_make(struct tier_infos *out, struct arena *memory, const struct host_window *hw,
                         const struct tier_names *names)
{
    size_t n = 0;

    *out = (struct tier_infos){.names = names};
    for (size_t i = 0; i < hw->n_rests; i++) {
        n += batch_infos(&hw->rests[i].batch, NULL, 0);
    }
    out->list = arena_array(memory, n, sizeof *out->list);
    if (!out->list) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < hw->n_rests; i++) {
        out->n += batch_infos(&hw->rests[i].batch, out->list + out->n, out->n);
    }
    if (n) {
        qsort(out->list, n, sizeof *out->list, by_instance);
    }
    return ERR_OK;
}

bool tier_infos_find(const struct tier_infos *t, const struct uuid *boot, struct proc_id id,
                     struct proc_info *out)
{
    size_t lo = 0, hi = t->n;

    while (lo < hi) { /* behind the last of the instance */
        size_t mid = lo + (hi - lo) / 2;

        if (compare(t->list[mid].boot, t->list[mid].info->id, boot, id) <= 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    if (lo > 0 && compare(t->list[lo - 1].boot, t->list[lo - 1].info->id, boot, id) == 0) {
        *out = *t->list[lo - 1].info;
        return true;
    }
    return t->names && t->names->find(t->names->ctx, boot, id, out);
}
