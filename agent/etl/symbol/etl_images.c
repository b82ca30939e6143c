/* Loads are in order of process and base, overlapping ones in order of time: of a page of memory at
 * most a few were there one after another. */
#include "agent/etl/symbol/etl_images.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define OVERLAPPING 64 /* looked at for an address */

struct etl_images {
    struct etl_images_one *all;
    struct etl_images_module *modules;
    uint64_t *reach; /* of each: the furthest end of those of its process up to it */
    size_t n, cap, n_modules, cap_modules, n_reach;
    struct map by_place, by_name; /* latest load; module */
    struct arena texts;
    uint64_t seed, no_room, kernel_base;
};

enum err etl_images_create(struct etl_images **out)
{
    struct etl_images *m = mem_zalloc(sizeof *m);

    if (!m) {
        return ERR_NOMEM;
    }
    arena_init(&m->texts, ETL_IMAGES_TEXT);
    err_ignore(os_random(&m->seed, sizeof m->seed)); /* without it only slower */
    m->kernel_base = UINT64_MAX;
    *out = m;
    return ERR_OK;
}

void etl_images_destroy(struct etl_images *m)
{
    if (m) {
        mem_free(m->all);
        mem_free(m->modules);
        mem_free(m->reach);
        map_fini(&m->by_place);
        map_fini(&m->by_name);
        arena_fini(&m->texts);
        mem_free(m);
    }
}

static struct str text_keep(struct etl_images *m, struct str text)
{
    char *p = arena_dup(&m->texts, text.p, text.n);

    m->no_room += !p;
    return (struct str){p ? p : "", p ? text.n : 0};
}

static struct str base_name(struct str path)
{
    for (size_t i = path.n; i-- > 0;) {
        if (path.p[i] == '\\' || path.p[i] == '/') {
            return (struct str){path.p + i + 1, path.n - i - 1};
        }
    }
    return path;
}

/* By name, size and stamp: a file may have changed while it was not loaded. UINT32_MAX: no room. */
static uint32_t module_of(struct etl_images *m, const struct ev_image *ev)
{
    struct str name = base_name(ev->path);
    uint64_t key = hash_bytes(name.p, name.n, m->seed ^ ev->size ^ (uint64_t)ev->time_stamp << 32),
             place;

    for (; (place = map_get(&m->by_name, key)) != 0; key++) {
        if (str_eq(m->modules[place - 1].name, name)) {
            return (uint32_t)place - 1;
        }
    }
    if (VEC_ROOM(&m->modules, &m->cap_modules, m->n_modules + 1, ETL_IMAGES_MAX) ||
        map_reserve(&m->by_name)) {
        return UINT32_MAX;
    }
    m->modules[m->n_modules] = (struct etl_images_module){.name = text_keep(m, name)};
    (void)map_put(&m->by_name, key, ++m->n_modules);
    return (uint32_t)m->n_modules - 1;
}

static uint64_t place_key(const struct etl_images *m, uint32_t pid, uint64_t base)
{
    return (base ^ (uint64_t)pid << 44) * (m->seed | 1);
}

/* The latest load there, and its key, or the one that is free for it. */
static struct etl_images_one *latest(struct etl_images *m, uint32_t pid, uint64_t base,
                                     uint64_t *key)
{
    uint64_t place;

    for (*key = place_key(m, pid, base); (place = map_get(&m->by_place, *key)) != 0; ++*key) {
        if (m->all[place - 1].pid == pid && m->all[place - 1].base == base) {
            return &m->all[place - 1];
        }
    }
    return NULL;
}

static void image_add(struct etl_images *m, const struct event *ev, int64_t from_ns)
{
    const struct ev_image *i = &ev->u.image;
    uint32_t module = module_of(m, i);
    uint64_t key;

    if (module == UINT32_MAX || VEC_ROOM(&m->all, &m->cap, m->n + 1, ETL_IMAGES_MAX) ||
        map_reserve(&m->by_place)) {
        m->no_room++;
        return;
    }
    (void)latest(m, i->pid, i->base, &key);
    m->all[m->n] = (struct etl_images_one){
        .base = i->base,
        .end = i->size < UINT64_MAX - i->base ? i->base + i->size : UINT64_MAX,
        .from_ns = from_ns,
        .to_ns = INT64_MAX,
        .pid = i->pid,
        .module = module,
    };
    (void)map_put(&m->by_place, key, ++m->n);
}

void etl_images_event(struct etl_images *m, const struct event *ev)
{
    const struct ev_image *i = &ev->u.image;
    struct etl_images_one *known;
    uint64_t key;

    if ((ev->kind != EV_IMAGE_LOAD && ev->kind != EV_IMAGE_UNLOAD && ev->kind != EV_IMAGE_FOUND &&
         ev->kind != EV_IMAGE_LAST) ||
        i->manifest) {
        return;
    }
    known = latest(m, i->pid, i->base, &key);
    if (known && known->to_ns != INT64_MAX) {
        known = NULL; /* that one is gone */
    }
    if (ev->kind == EV_IMAGE_LOAD) {
        if (known && known->from_ns == ev->wall_ns) {
            return; /* told twice */
        }
        if (known) {
            known->to_ns = ev->wall_ns; /* its end was lost */
        }
        image_add(m, ev, ev->wall_ns);
        return;
    }
    if (!known) {
        image_add(m, ev, INT64_MIN);
        known = latest(m, i->pid, i->base, &key);
    }
    if (known && ev->kind == EV_IMAGE_UNLOAD) {
        known->to_ns = ev->wall_ns;
    }
}

void etl_images_symbols(struct etl_images *m, uint32_t pid, uint64_t base, const uint8_t guid[16],
                        uint32_t age, struct str pdb)
{
    uint64_t key;
    struct etl_images_one *known = latest(m, pid, base, &key);
    struct etl_images_module *to = known ? &m->modules[known->module] : NULL;

    if (to && !to->has_symbols) {
        to->has_symbols = true;
        memcpy(to->guid, guid, 16);
        to->age = age;
        to->pdb = text_keep(m, pdb);
    }
}

static int by_place(const void *pa, const void *pb)
{
    const struct etl_images_one *a = pa, *b = pb;

    if (a->pid != b->pid) {
        return a->pid < b->pid ? -1 : 1;
    }
    if (a->base != b->base) {
        return a->base < b->base ? -1 : 1;
    }
    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

void etl_images_done(struct etl_images *m)
{
    if (m->n) {
        qsort(m->all, m->n, sizeof *m->all, by_place);
    }
    mem_free(m->reach);
    m->reach = mem_array(m->n ? m->n : 1, sizeof *m->reach);
    m->n_reach = m->reach ? m->n : 0;
    for (size_t i = 0; i < m->n_reach; i++) {
        bool first = i == 0 || m->all[i].pid != m->all[i - 1].pid;

        m->reach[i] = m->all[i].end;
        if (!first && m->reach[i - 1] > m->reach[i]) {
            m->reach[i] = m->reach[i - 1];
        }
    }
    m->kernel_base = m->n && m->all[0].pid == 0 ? m->all[0].base : UINT64_MAX;
    map_fini(&m->by_place);
}

const struct etl_images_one *etl_images_find(const struct etl_images *m, uint32_t pid,
                                             uint64_t address, int64_t wall_ns)
{
    unsigned tries = 0;
    size_t i;

    pid = address >= m->kernel_base ? 0 : pid;
    SEARCH_LOWER(i, m->n,
                 m->all[i].pid < pid || (m->all[i].pid == pid && m->all[i].base <= address));
    while (i-- > 0 && m->all[i].pid == pid && i < m->n_reach && m->reach[i] > address &&
           tries++ < OVERLAPPING) {
        if (m->all[i].end > address) {
            if (m->all[i].from_ns <= wall_ns && wall_ns < m->all[i].to_ns) {
                return &m->all[i];
            }
        }
    }
    return NULL;
}

uint64_t etl_images_kernel_base(const struct etl_images *m)
{
    return m->kernel_base;
}

const struct etl_images_module *etl_images_module(const struct etl_images *m, uint32_t module)
{
    return &m->modules[module];
}

size_t etl_images_bytes(const struct etl_images *m)
{
    return m->cap * sizeof *m->all + m->n_reach * sizeof *m->reach +
           m->cap_modules * sizeof *m->modules + m->texts.used +
           m->by_name.n_slots * sizeof *m->by_name.slots;
}

uint64_t etl_images_no_room(const struct etl_images *m)
{
    return m->no_room;
}
