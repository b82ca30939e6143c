#include "agent/etl/etl_clr_figures.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define LOOK_BACK 64 /* items of a runtime: as many collections may be open, and more */

#define FLAG_DYNAMIC 0x1
#define FLAG_JITTED  0x8

#define KIND_LARGE 1 /* of an allocation */

static const struct {
    uint8_t guid[16];
    const char *name;
} providers[] = {
    {ETW_PROVIDER_CLR, "runtime"},
    {ETW_GUID(0xa669021c, 0xc450, 0x4609, 0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf, 0x18),
     "rundown"},
    {ETW_GUID(0x763fd754, 0x7086, 0x4dfe, 0x95, 0xeb, 0xc0, 0x1a, 0x46, 0xfa, 0xf4, 0xca),
     "private"},
};

#define PROVIDERS (sizeof providers / sizeof *providers)

enum err etl_clr_figures_create(struct etl_clr_figures **out, enum etl_clr_list list,
                                struct etl_range *range)
{
    struct etl_clr_figures *f = mem_zalloc(sizeof *f);
    enum err e;

    if (!f) {
        return ERR_NOMEM;
    }
    f->list = list;
    f->range = range;
    arena_init(&f->texts, ETL_CLR_TEXTS_MAX);
    e = os_random(&f->seed, sizeof f->seed);
    if (!e) {
        e = clr_create(&f->clr);
    }
    if (e) {
        etl_clr_figures_destroy(f);
        return e;
    }
    *out = f;
    return ERR_OK;
}

void etl_clr_figures_destroy(struct etl_clr_figures *f)
{
    if (!f) {
        return;
    }
    clr_destroy(f->clr);
    map_fini(&f->by_owner);
    map_fini(&f->by_key);
    mem_free(f->processes);
    mem_free(f->items);
    mem_free(f->groups);
    arena_fini(&f->texts);
    mem_free(f);
}

const char *etl_clr_figures_provider(uint64_t key)
{
    return providers[key >> 32].name;
}

/* -- where it is counted -- */

static struct etl_clr_process *process_add(struct etl_clr_figures *f, uint64_t key, bool rest)
{
    struct etl_clr_process *p;
    enum err e =
        VEC_ROOM(&f->processes, &f->cap_processes, f->n_processes + 1, ETL_CLR_PROCESSES_MAX);

    if (!e && !rest) {
        e = map_reserve(&f->by_owner);
    }
    if (e) {
        f->failed = e;
        return NULL;
    }
    p = &f->processes[f->n_processes++];
    *p = (struct etl_clr_process){.rest = rest};
    if (!rest) {
        (void)map_put(&f->by_owner, key, f->n_processes);
    }
    return p;
}

static const struct instance *owner_of(const struct etl_clr_figures *f,
                                       const struct etl_walk_record *r)
{
    return r->charged ? r->charged : instances_owner(f->walk->table, r->raw->pid);
}

/* The place of a process that has been met, 0 = none: by its instance, or by its number alone as
 * long as none was known. */
static uint64_t process_find(struct etl_clr_figures *f, const struct instance *owner, uint32_t pid)
{
    uint64_t place = map_get(&f->by_owner, owner ? (uint64_t)(uintptr_t)owner : pid);

    if (!place && owner) {
        place = map_get(&f->by_owner, pid);
        if (place && f->processes[place - 1].owner) {
            return 0;
        }
        if (place) {
            f->processes[place - 1].owner = owner;
        }
    }
    return place;
}

static struct etl_clr_process *process_of(struct etl_clr_figures *f,
                                          const struct etl_walk_record *r)
{
    const struct instance *owner = owner_of(f, r);
    uint64_t place = process_find(f, owner, r->raw->pid);
    struct etl_clr_process *p;

    if (place) {
        return &f->processes[place - 1];
    }
    if (f->n_processes == ETL_CLR_PROCESSES_MAX) {
        f->over_limits++;
        return &f->processes[ETL_CLR_PROCESSES_MAX - 1];
    }
    p = process_add(f, owner ? (uint64_t)(uintptr_t)owner : r->raw->pid,
                    f->n_processes == ETL_CLR_PROCESSES_MAX - 1);
    if (p && !p->rest) {
        p->owner = owner;
        p->pid = r->raw->pid;
        p->pointer_size = r->raw->pointer_size;
    }
    return p;
}

/* Of the runtimes of a process; more than any has share the last. */
static size_t runtime_of(struct etl_clr_process *p, uint16_t instance)
{
    size_t i = 0;

    while (i < p->n_runtimes && p->runtimes[i] != instance) {
        i++;
    }
    if (i == CLR_OF_PROCESS) {
        return i - 1;
    }
    if (i == p->n_runtimes) {
        p->runtimes[p->n_runtimes++] = instance;
    }
    return i;
}

static struct ev_clr_text text_keep(struct etl_clr_figures *f, const struct ev_clr_text *text)
{
    struct ev_clr_text copy = {(const uint8_t *)"", text->n};

    if (text->n) {
        copy.units = arena_dup(&f->texts, text->units, 2 * (size_t)text->n);
    }
    if (!copy.units) {
        f->over_limits++;
        copy.n = 0;
    }
    return copy;
}

/* NULL: no room. */
static struct etl_clr_item *item_add(struct etl_clr_figures *f, struct etl_clr_process *p,
                                     const struct event *ev)
{
    size_t runtime = runtime_of(p, ev->u.clr.instance);
    struct etl_clr_item *item;

    if (VEC_ROOM(&f->items, &f->cap_items, f->n_items + 1, ETL_CLR_ITEMS_MAX)) {
        f->over_limits++;
        return NULL;
    }
    item = &f->items[f->n_items++];
    *item = (struct etl_clr_item){.process = (uint32_t)(p - f->processes),
                                  .previous = p->last[runtime],
                                  .tid = ev->tid,
                                  .instance = ev->u.clr.instance,
                                  .count = ev->u.clr.count,
                                  .generation = ev->u.clr.generation,
                                  .reason = ev->u.clr.reason,
                                  .type = ev->u.clr.type,
                                  .flags = ev->u.clr.flags,
                                  .begin_ns = ev->wall_ns};
    p->last[runtime] = (uint32_t)f->n_items;
    return item;
}

/* The runtime's newest items in turn; NULL after the last, or far enough back. */
static struct etl_clr_item *item_before(const struct etl_clr_figures *f, uint32_t *place,
                                        unsigned *steps)
{
    struct etl_clr_item *item;

    if (!*place || ++*steps > LOOK_BACK) {
        return NULL;
    }
    item = &f->items[*place - 1];
    *place = item->previous;
    return item;
}

static bool group_is(const struct etl_clr_group *g, uint32_t process, uint64_t key,
                     const struct ev_clr_text *text)
{
    return !g->rest && g->process == process && g->key == key && g->text.n == text->n &&
           (text->n == 0 || memcmp(g->text.units, text->units, 2 * (size_t)text->n) == 0);
}

static struct etl_clr_group *group_add(struct etl_clr_figures *f, uint64_t hash, bool rest)
{
    struct etl_clr_group *g;

    if (VEC_ROOM(&f->groups, &f->cap_groups, f->n_groups + 1, ETL_CLR_GROUPS_MAX) ||
        map_reserve(&f->by_key)) {
        f->failed = ERR_NOMEM;
        return NULL;
    }
    g = &f->groups[f->n_groups++];
    *g = (struct etl_clr_group){.rest = rest};
    if (!rest) {
        (void)map_put(&f->by_key, hash, f->n_groups);
    }
    return g;
}

static struct etl_clr_group *group_of(struct etl_clr_figures *f, const struct etl_clr_process *p,
                                      uint64_t key, const struct ev_clr_text *text)
{
    uint32_t process = (uint32_t)(p - f->processes);
    uint64_t hash = hash_bytes(text->units, 2 * (size_t)text->n,
                               f->seed + key * UINT64_C(0x9e3779b97f4a7c15) + process);
    struct etl_clr_group *g;
    uint64_t place;

    for (; (place = map_get(&f->by_key, hash)) != 0; hash++) {
        if (group_is(&f->groups[place - 1], process, key, text)) {
            return &f->groups[place - 1];
        }
    }
    if (f->n_groups == ETL_CLR_GROUPS_MAX) {
        f->over_limits++;
        return &f->groups[ETL_CLR_GROUPS_MAX - 1];
    }
    g = group_add(f, hash, f->n_groups == ETL_CLR_GROUPS_MAX - 1);
    if (g && !g->rest) {
        g->process = process;
        g->key = key;
        g->text = text_keep(f, text);
    }
    return g;
}

static void group_moment(struct etl_clr_group *g, int64_t wall_ns)
{
    g->first_ns = g->n++ == 0 ? wall_ns : g->first_ns;
    g->last_ns = wall_ns;
}

static void span_add(struct etl_clr_spans *s, const struct event *ev, int64_t took_ns)
{
    s->n++;
    s->ns += (uint64_t)took_ns;
    if (s->n == 1 || (uint64_t)took_ns > s->longest_ns) {
        s->longest_ns = (uint64_t)took_ns;
        s->longest_at_ns = clk_sub(ev->wall_ns, took_ns);
    }
}

/* -- collections and pauses -- */

static void on_gc_start(struct etl_clr_figures *f, struct etl_clr_process *p,
                        const struct event *ev, const struct clr_step *step)
{
    size_t runtime = runtime_of(p, ev->u.clr.instance);
    struct etl_clr_item *item;

    p->repeated += step->repeated;
    if (step->repeated) {
        return;
    }
    p->gcs++;
    if (ev->u.clr.generation < ETL_CLR_GENERATIONS) {
        p->generations[ev->u.clr.generation]++;
    }
    item = f->list == ETL_CLR_GC ? item_add(f, p, ev) : NULL;
    if (item) {
        item->trigger = p->trigger[runtime];
    }
    p->trigger[runtime] = 0;
}

static void on_gc_end(struct etl_clr_figures *f, struct etl_clr_process *p, const struct event *ev,
                      const struct clr_step *step)
{
    uint32_t place = p->last[runtime_of(p, ev->u.clr.instance)];
    struct etl_clr_item *item;
    unsigned steps = 0;

    if (!step->ended) {
        p->unstarted++;
        return;
    }
    span_add(&p->gc, ev, step->took_ns);
    while (f->list == ETL_CLR_GC && (item = item_before(f, &place, &steps)) != NULL) {
        if (item->count == ev->u.clr.count && !item->ended) {
            item->ended = true;
            item->took_ns = step->took_ns;
            return;
        }
    }
}

static void on_heap(struct etl_clr_figures *f, struct etl_clr_process *p, const struct event *ev)
{
    uint32_t place = p->last[runtime_of(p, ev->u.clr.instance)];
    struct etl_clr_item *item;
    unsigned steps = 0;

    p->heap = ev->u.clr;
    p->heap_largest = ev->u.clr.bytes > p->heap_largest ? ev->u.clr.bytes : p->heap_largest;
    while (f->list == ETL_CLR_GC && (item = item_before(f, &place, &steps)) != NULL) {
        if (item->ended && !item->has_heap) { /* sizes follow the end */
            item->has_heap = true;
            item->u.gc.heap_bytes = ev->u.clr.bytes;
            item->u.gc.promoted = ev->u.clr.promoted;
            return;
        }
    }
}

/* The pause is that of the collection that started within it; the second one of a collection in
 * the background, which lies within it, is added to the first. */
static void pause_to_gc(struct etl_clr_figures *f, struct etl_clr_process *p,
                        const struct event *ev, const struct clr_step *step)
{
    uint32_t place = p->last[runtime_of(p, ev->u.clr.instance)];
    int64_t begin_ns = clk_sub(ev->wall_ns, step->took_ns);
    struct etl_clr_item *item;
    unsigned steps = 0;

    while ((item = item_before(f, &place, &steps)) != NULL) {
        if (item->begin_ns >= begin_ns || !item->ended) {
            item->has_pause = true;
            item->u.gc.pause_ns = clk_add(item->u.gc.pause_ns, step->took_ns);
            return;
        }
    }
}

static void on_restart(struct etl_clr_figures *f, struct etl_clr_process *p, const struct event *ev,
                       const struct clr_step *step)
{
    struct etl_clr_item *item;

    if (!step->ended) {
        p->unsuspended++;
        return;
    }
    span_add(&p->suspended, ev, step->took_ns);
    if (clr_is_gc(step->reason)) {
        span_add(&p->paused, ev, step->took_ns);
    }
    if (f->list == ETL_CLR_GC && clr_is_gc(step->reason)) {
        pause_to_gc(f, p, ev, step);
    }
    item = f->list == ETL_CLR_PAUSES ? item_add(f, p, ev) : NULL;
    if (item) {
        item->begin_ns = clk_sub(item->begin_ns, step->took_ns);
        item->took_ns = step->took_ns;
        item->reason = step->reason;
        item->count = step->count;
    }
}

/* -- the rest -- */

static void on_alloc(struct etl_clr_figures *f, struct etl_clr_process *p, const struct event *ev)
{
    struct etl_clr_group *g =
        f->list == ETL_CLR_ALLOC ? group_of(f, p, 0, &ev->u.clr.text[0]) : NULL;

    p->alloc_bytes += ev->u.clr.bytes;
    if (g) {
        group_moment(g, ev->wall_ns);
        g->bytes += ev->u.clr.bytes;
        if (ev->u.clr.type == KIND_LARGE) {
            g->large++;
            g->large_bytes += ev->u.clr.bytes;
        }
    }
}

static void on_load(struct etl_clr_figures *f, struct etl_clr_process *p, const struct event *ev,
                    const struct clr_step *step)
{
    struct etl_clr_item *item;

    p->plain += ev->u.clr.id == 141;
    p->jitted += (ev->u.clr.flags & FLAG_JITTED) != 0;
    p->dynamic += (ev->u.clr.flags & FLAG_DYNAMIC) != 0;
    if (!step->ended) {
        return;
    }
    span_add(&p->jit, ev, step->took_ns);
    item = f->list == ETL_CLR_JIT ? item_add(f, p, ev) : NULL;
    if (item) {
        item->begin_ns = clk_sub(item->begin_ns, step->took_ns);
        item->took_ns = step->took_ns;
        item->text[0] = text_keep(f, &ev->u.clr.text[0]);
        item->text[1] = text_keep(f, &ev->u.clr.text[1]);
    }
}

static void on_exception(struct etl_clr_figures *f, struct etl_clr_process *p,
                         const struct event *ev)
{
    struct etl_clr_group *g =
        f->list == ETL_CLR_EXCEPTIONS ? group_of(f, p, ev->u.clr.flags, &ev->u.clr.text[0]) : NULL;

    if (g) {
        group_moment(g, ev->wall_ns);
    }
}

static void on_contention(struct etl_clr_figures *f, struct etl_clr_process *p,
                          const struct event *ev, const struct clr_step *step)
{
    static const struct ev_clr_text none;
    const struct ev_clr *clr = &ev->u.clr;
    bool begins = clr->op == CLR_CONTENTION_START, managed = clr->flags == 0;
    int64_t took_ns = clr->took_ns >= 0 ? clr->took_ns : step->took_ns;
    struct etl_clr_group *g =
        f->list == ETL_CLR_CONTENTION ? group_of(f, p, clr->flags, &none) : NULL;

    p->contentions += begins && managed;
    if (g && begins) {
        group_moment(g, ev->wall_ns);
    }
    if (begins || (!step->ended && clr->took_ns < 0)) {
        return;
    }
    if (managed) {
        span_add(&p->contended, ev, took_ns);
    }
    if (g) {
        g->paired += step->ended;
        g->measured_ns += clr->took_ns > 0 ? (uint64_t)clr->took_ns : 0;
        span_add(&g->spans, ev, took_ns);
    }
}

static void on_adjustment(struct etl_clr_figures *f, struct etl_clr_process *p,
                          const struct event *ev)
{
    struct etl_clr_item *item = f->list == ETL_CLR_THREADPOOL ? item_add(f, p, ev) : NULL;

    p->starvations += ev->u.clr.reason == CLR_REASON_STARVED;
    if (item) {
        item->u.throughput = ev->u.clr.throughput;
    }
}

static void on_runtime(struct etl_clr_figures *f, struct etl_clr_process *p, const struct event *ev)
{
    struct etl_clr_item *item = f->list == ETL_CLR_RUNTIMES ? item_add(f, p, ev) : NULL;

    if (item) {
        memcpy(item->u.versions, ev->u.clr.versions, sizeof item->u.versions);
        item->text[0] = text_keep(f, &ev->u.clr.text[0]);
        item->text[1] = text_keep(f, &ev->u.clr.text[1]);
    }
}

static void on_clr(struct etl_clr_figures *f, struct etl_clr_process *p, const struct event *ev)
{
    struct clr_step step;

    clr_event(f->clr, ev, &step);
    f->n[ev->u.clr.op]++;
    p->n[ev->u.clr.op]++;
    switch (ev->u.clr.op) {
    case CLR_GC_START:
        on_gc_start(f, p, ev, &step);
        break;
    case CLR_GC_END:
        on_gc_end(f, p, ev, &step);
        break;
    case CLR_TRIGGERED:
        p->trigger[runtime_of(p, ev->u.clr.instance)] = ev->u.clr.reason + 1;
        break;
    case CLR_SUSPEND:
        p->replaced += step.replaced;
        break;
    case CLR_RESTART:
        on_restart(f, p, ev, &step);
        break;
    case CLR_HEAP:
        on_heap(f, p, ev);
        break;
    case CLR_ALLOC:
        on_alloc(f, p, ev);
        break;
    case CLR_FINALIZED:
        p->finalized += ev->u.clr.count;
        break;
    case CLR_METHOD_LOAD:
        on_load(f, p, ev, &step);
        break;
    case CLR_EXCEPTION:
        on_exception(f, p, ev);
        break;
    case CLR_CONTENTION_START:
    case CLR_CONTENTION_STOP:
        on_contention(f, p, ev, &step);
        break;
    case CLR_ADJUSTMENT:
        on_adjustment(f, p, ev);
        break;
    case CLR_RUNTIME:
        on_runtime(f, p, ev);
        break;
    default:
        break;
    }
}

/* Which of the providers, or PROVIDERS. */
static size_t provider_of(const struct raw_event *raw)
{
    size_t i = raw->form == RAW_MANIFEST ? 0 : PROVIDERS;

    while (i < PROVIDERS && memcmp(providers[i].guid, raw->guid, sizeof raw->guid) != 0) {
        i++;
    }
    return i;
}

static void count_record(struct etl_clr_figures *f, struct etl_clr_process *p,
                         const struct raw_event *raw, size_t provider)
{
    static const struct ev_clr_text none;
    uint64_t key = (uint64_t)provider << 32 | (uint64_t)raw->id << 8 | raw->version;
    struct etl_clr_group *g = group_of(f, p, key, &none);

    if (g) {
        group_moment(g, raw->wall_ns);
        g->bytes += raw->payload_n;
    }
}

void etl_clr_figures_record(struct etl_clr_figures *f, const struct etl_walk_record *r)
{
    struct etl_clr_process *p;
    size_t provider;

    if (r->ev && (r->ev->kind == EV_PROC_STOP || r->ev->kind == EV_PROC_START)) {
        clr_forget(f->clr, r->ev->u.proc.info.id.pid);
        return;
    }
    provider = provider_of(r->raw);
    if (provider == PROVIDERS || !r->meant ||
        !etl_range_process(f->range, r->raw->pid, owner_of(f, r))) {
        return;
    }
    f->records += provider == 0;
    f->undecodable += r->decoded == ERR_CORRUPT;
    p = provider == 0 || f->list == ETL_CLR_EVENTS ? process_of(f, r) : NULL;
    if (p && f->list == ETL_CLR_EVENTS) {
        count_record(f, p, r->raw, provider);
    }
    if (p && r->ev && r->ev->kind == EV_CLR) {
        on_clr(f, p, r->ev);
    }
}

void etl_clr_figures_fact(struct etl_clr_figures *f, const struct event *ev)
{
    if (ev->kind == EV_LOST) {
        clr_lost(f->clr);
    }
}
