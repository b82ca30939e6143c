/* MethodLoadVerbose (143) and MethodUnloadVerbose (144) of the runtime, MethodDCStartVerbose (143)
 * and MethodDCEndVerbose (144) of the rundown, whatever the version:
 *
 *   method u64, module u64, address u64, size u32, token u32, flags u32, namespace w, name w,
 *   signature w
 *
 * JScript (57277741-3638-4a4b-bdba-0ac6e45da56c) 9 MethodLoad:
 *
 *   context P, address P, size u64, method u32, source u64, line u32, column u32, name w
 *
 * A method told twice, by its load and by a rundown, is one. */
#include "agent/etl/symbol/etl_methods.h"

#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define OVERLAPPING 64 /* looked at for an address */

#define NAME_MAX_BYTES 1024

struct etl_methods {
    struct etl_methods_one *all;
    size_t n, cap;
    struct map by_place, by_name; /* latest at an address of a process; text */
    struct arena texts;
    struct buf name;
    uint64_t seed, no_room;
    uint64_t *reach;
};

enum err etl_methods_create(struct etl_methods **out)
{
    struct etl_methods *m = mem_zalloc(sizeof *m);

    if (!m) {
        return ERR_NOMEM;
    }
    arena_init(&m->texts, ETL_METHODS_TEXT);
    buf_init(&m->name, NAME_MAX_BYTES);
    err_ignore(os_random(&m->seed, sizeof m->seed)); /* without it only slower */
    *out = m;
    return ERR_OK;
}

void etl_methods_destroy(struct etl_methods *m)
{
    if (m) {
        mem_free(m->all);
        mem_free(m->reach);
        map_fini(&m->by_place);
        map_fini(&m->by_name);
        arena_fini(&m->texts);
        buf_fini(&m->name);
        mem_free(m);
    }
}

/* One copy of equal names. NULL: no room. */
static const char *name_keep(struct etl_methods *m)
{
    uint64_t key, place;
    char *p;

    if (m->name.bad) {
        return NULL; /* longer than any that is read by people */
    }
    if (m->name.n == 0) {
        return ""; /* it has no bytes */
    }
    key = hash_bytes(m->name.p, m->name.n, m->seed);
    for (; (place = map_get(&m->by_name, key)) != 0; key++) {
        p = (char *)(uintptr_t)place;
        if (strlen(p) == m->name.n && memcmp(p, m->name.p, m->name.n) == 0) {
            return p;
        }
    }
    p = map_reserve(&m->by_name) == ERR_OK ? arena_alloc(&m->texts, m->name.n + 1) : NULL;
    if (p) {
        memcpy(p, m->name.p, m->name.n);
        (void)map_put(&m->by_name, key, (uint64_t)(uintptr_t)p);
    }
    return p;
}

static struct etl_methods_one *latest(struct etl_methods *m, uint32_t pid, uint64_t start)
{
    uint64_t place = map_get(&m->by_place, (start ^ (uint64_t)pid << 44) * (m->seed | 1));

    return place && m->all[place - 1].pid == pid && m->all[place - 1].start == start
               ? &m->all[place - 1]
               : NULL;
}

static void method_put(struct etl_methods *m, const struct etl_methods_one *now, bool ends,
                       int64_t wall_ns)
{
    struct etl_methods_one *known = latest(m, now->pid, now->start);

    if (known && known->to_ns == INT64_MAX && known->id == now->id) {
        known->to_ns = ends ? wall_ns : INT64_MAX;
        return;
    }
    if (known && known->to_ns == INT64_MAX && now->from_ns != INT64_MIN) {
        known->to_ns = now->from_ns; /* its end was lost */
    }
    if (VEC_ROOM(&m->all, &m->cap, m->n + 1, ETL_METHODS_MAX) || map_reserve(&m->by_place)) {
        m->no_room++;
        return;
    }
    m->all[m->n] = *now;
    m->all[m->n].to_ns = ends ? wall_ns : INT64_MAX;
    m->all[m->n].name = name_keep(m);
    m->no_room += !m->all[m->n].name;
    (void)map_put(&m->by_place, (now->start ^ (uint64_t)now->pid << 44) * (m->seed | 1), ++m->n);
}

static void on_clr(struct etl_methods *m, const struct raw_event *raw, bool rundown)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct etl_methods_one now = {.pid = raw->pid};
    const uint8_t *space, *name;
    size_t n_space, n_name;

    now.id = cur_u64le(&c);
    cur_skip(&c, 8);
    now.start = cur_u64le(&c);
    now.size = cur_u32le(&c);
    cur_skip(&c, 8);
    space = cur_wstr(&c, &n_space);
    name = cur_wstr(&c, &n_name);
    if (c.bad || !now.start) {
        return;
    }
    buf_reset(&m->name);
    buf_put_utf16le(&m->name, space, n_space);
    if (n_space && n_name) {
        buf_put_u8(&m->name, '.');
    }
    buf_put_utf16le(&m->name, name, n_name);
    now.from_ns = raw->id == 143 && !rundown ? raw->wall_ns : INT64_MIN;
    method_put(m, &now, raw->id == 144 && !rundown, raw->wall_ns);
}

static void on_script(struct etl_methods *m, const struct raw_event *raw)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct etl_methods_one now = {.pid = raw->pid, .from_ns = raw->wall_ns};
    const uint8_t *name;
    uint64_t size;
    size_t n;

    (void)cur_uptr(&c, raw->pointer_size);
    now.start = cur_uptr(&c, raw->pointer_size);
    size = cur_u64le(&c);
    now.id = cur_u32le(&c);
    cur_skip(&c, 16);
    name = cur_wstr(&c, &n);
    if (c.bad || size > UINT32_MAX || !now.start) {
        return;
    }
    now.size = (uint32_t)size;
    buf_reset(&m->name);
    buf_put_utf16le(&m->name, name, n);
    method_put(m, &now, false, 0);
}

bool etl_methods_record(struct etl_methods *m, const struct raw_event *raw)
{
    static const uint8_t runtime[16] = ETW_PROVIDER_CLR;
    static const uint8_t rundown[16] = {0x1c, 0x02, 0x69, 0xa6, 0x50, 0xc4, 0x09, 0x46,
                                        0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf, 0x18};
    static const uint8_t script[16] = {0x41, 0x77, 0x27, 0x57, 0x38, 0x36, 0x4b, 0x4a,
                                       0xbd, 0xba, 0x0a, 0xc6, 0xe4, 0x5d, 0xa5, 0x6c};
    bool is_runtime;

    if (raw->form != RAW_MANIFEST) {
        return false;
    }
    if (raw->id == 143 || raw->id == 144) {
        is_runtime = memcmp(raw->guid, runtime, 16) == 0;
        if (is_runtime || memcmp(raw->guid, rundown, 16) == 0) {
            on_clr(m, raw, !is_runtime);
            return true;
        }
    } else if (raw->id == 9 && memcmp(raw->guid, script, 16) == 0) {
        on_script(m, raw);
        return true;
    }
    return false;
}

static int by_place(const void *pa, const void *pb)
{
    const struct etl_methods_one *a = pa, *b = pb;

    if (a->pid != b->pid) {
        return a->pid < b->pid ? -1 : 1;
    }
    if (a->start != b->start) {
        return a->start < b->start ? -1 : 1;
    }
    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

void etl_methods_done(struct etl_methods *m)
{
    if (m->n) {
        qsort(m->all, m->n, sizeof *m->all, by_place);
    }
    mem_free(m->reach);
    m->reach = mem_array(m->n ? m->n : 1, sizeof *m->reach);
    for (size_t i = 0; m->reach && i < m->n; i++) {
        m->reach[i] = m->all[i].start + m->all[i].size;
        if (i && m->all[i].pid == m->all[i - 1].pid && m->reach[i - 1] > m->reach[i]) {
            m->reach[i] = m->reach[i - 1];
        }
    }
    map_fini(&m->by_place);
    map_fini(&m->by_name);
}

const struct etl_methods_one *etl_methods_find(const struct etl_methods *m, uint32_t pid,
                                               uint64_t address, int64_t wall_ns)
{
    unsigned tries = 0;
    size_t i;

    if (!m->n || !m->reach) {
        return NULL;
    }
    SEARCH_LOWER(i, m->n,
                 m->all[i].pid < pid || (m->all[i].pid == pid && m->all[i].start <= address));
    while (i-- > 0 && m->all[i].pid == pid && m->reach[i] > address && tries++ < OVERLAPPING) {
        if (address - m->all[i].start < m->all[i].size && m->all[i].from_ns <= wall_ns &&
            wall_ns < m->all[i].to_ns) {
            return &m->all[i];
        }
    }
    return NULL;
}

const struct etl_methods_one *etl_methods_at(const struct etl_methods *m, size_t i)
{
    return &m->all[i];
}

size_t etl_methods_index(const struct etl_methods *m, const struct etl_methods_one *one)
{
    return (size_t)(one - m->all);
}

size_t etl_methods_bytes(const struct etl_methods *m)
{
    return m->cap * sizeof *m->all + m->n * sizeof *m->reach + m->texts.used;
}

uint64_t etl_methods_no_room(const struct etl_methods *m)
{
    return m->no_room;
}
