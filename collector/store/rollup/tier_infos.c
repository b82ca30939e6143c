#include "collector/store/rollup/tier_infos.h"

#include <stdlib.h>

#include "collector/store/memtable/head.h"
#include "collector/store/memtable/head_info.h"

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

    if (d) {
        return d;
    }
    if (x->when_ns != y->when_ns) {
        return x->when_ns < y->when_ns ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

static bool tells_process(const struct life_event *ev)
{
    return ev->kind == LIFE_PROCESS_START || ev->kind == LIFE_PROCESS_STOP;
}

static size_t count_told(const struct batch *b)
{
    size_t n = b->n_infos;

    for (size_t i = 0; i < b->n_events; i++) {
        n += tells_process(&b->events[i]);
    }
    return n;
}

static void add(struct tier_infos *t, const struct uuid *boot, const struct proc_info *info,
                int64_t when_ns)
{
    t->list[t->n] = (struct tier_info){boot, info, when_ns, t->n};
    t->n++;
}

static void add_events(struct tier_infos *t, const struct batch *b, int64_t t1_ns, bool last)
{
    for (size_t i = 0; i < b->n_events; i++) {
        const struct life_event *ev = &b->events[i];

        if (tells_process(ev) && head_info_is_last(ev) == last) {
            add(t, &b->head.boot, &ev->info, head_info_when(ev, t1_ns));
        }
    }
}

/* In the order of time (head_info.h). */
static void add_rest(struct tier_infos *t, const struct window_rest *rest)
{
    const struct batch *b = &rest->batch;
    int64_t t0_ns, t1_ns;

    head_span(b, rest->received_ns, &t0_ns, &t1_ns);
    add_events(t, b, t1_ns, false);
    for (size_t i = 0; i < b->n_infos; i++) {
        add(t, &b->head.boot, &b->infos[i], t1_ns);
    }
    add_events(t, b, t1_ns, true);
}

/* One of each instance. */
static enum err join_told(struct tier_infos *t, struct arena *memory)
{
    size_t n = 0, end;

    for (size_t from = 0; from < t->n; from = end) {
        struct tier_info one = t->list[from];
        struct proc_info *all = NULL;

        for (end = from + 1; end < t->n && compare(one.boot, one.info->id, t->list[end].boot,
                                                   t->list[end].info->id) == 0;
             end++) {
            if (!all) {
                all = arena_array(memory, 1, sizeof *all);
                if (!all) {
                    return ERR_FULL;
                }
                *all = *one.info;
            }
            head_info_join(all, t->list[end].info, true);
        }
        one.info = all ? all : one.info;
        t->list[n++] = one;
    }
    t->n = n;
    return ERR_OK;
}

enum err tier_infos_make(struct tier_infos *out, struct arena *memory, const struct host_window *hw,
                         const struct tier_names *names)
{
    size_t n = 0;

    *out = (struct tier_infos){.names = names};
    for (size_t i = 0; i < hw->n_rests; i++) {
        n += count_told(&hw->rests[i].batch);
    }
    out->list = arena_array(memory, n, sizeof *out->list);
    if (!out->list) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < hw->n_rests; i++) {
        add_rest(out, &hw->rests[i]);
    }
    if (n) {
        qsort(out->list, n, sizeof *out->list, by_instance);
    }
    return join_told(out, memory);
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
