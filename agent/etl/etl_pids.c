#include "agent/etl/etl_pids.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/process/u32map.h"
#include "common/base/arena.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

struct etl_pids {
    struct u32map *map; /* pid → row */
    struct arena memory;
    struct etl_pids_row none;   /* the key of a map is any number but EVENT_NO_ID here */
    struct etl_pids_row **rows; /* in order of appearance, then sorted; one more place for `none` */
    size_t n, cap;
    uint64_t dropped;
    struct etl_pids_row *last;
};

enum err etl_pids_create(struct etl_pids **out)
{
    struct etl_pids *p = mem_zalloc(sizeof *p);
    enum err e;

    if (!p) {
        return ERR_NOMEM;
    }
    arena_init(&p->memory, (size_t)(ETL_PIDS_MAX + 1024) * sizeof(struct etl_pids_row));
    p->none.pid = EVENT_NO_ID;
    e = u32map_create(&p->map, ETL_PIDS_MAX, NULL);
    if (e) {
        etl_pids_destroy(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

void etl_pids_destroy(struct etl_pids *p)
{
    if (p) {
        u32map_destroy(p->map);
        arena_fini(&p->memory);
        mem_free(p->rows);
        mem_free(p);
    }
}

/* For one row more, and `none` behind it. */
static bool rows_room(struct etl_pids *p)
{
    return VEC_ROOM(&p->rows, &p->cap, p->n + 2, ETL_PIDS_MAX + 1) == ERR_OK;
}

/* NULL: there is no room. */
static struct etl_pids_row *row_of(struct etl_pids *p, uint32_t pid)
{
    struct u32map_entry *e;
    struct etl_pids_row *r;

    if (pid == EVENT_NO_ID) {
        return &p->none;
    }
    e = u32map_get(p->map, pid);
    if (e) {
        return e->owner;
    }
    r = rows_room(p) ? arena_alloc(&p->memory, sizeof *r) : NULL;
    e = r ? u32map_put(p->map, pid) : NULL;
    if (!e) {
        return NULL;
    }
    r->pid = pid;
    e->owner = r;
    assert(p->n + 1 < p->cap);
    p->rows[p->n++] = r;
    return r;
}

void etl_pids_add(struct etl_pids *p, uint32_t pid, enum etl_pids_column column, uint64_t n)
{
    if (!p->last || p->last->pid != pid) {
        struct etl_pids_row *r = row_of(p, pid);

        if (!r) {
            p->dropped++;
            return;
        }
        p->last = r;
    }
    p->last->n[column] += n;
}

uint64_t etl_pids_dropped(const struct etl_pids *p)
{
    return p->dropped;
}

static int by_pid(const void *pa, const void *pb)
{
    const struct etl_pids_row *a = *(struct etl_pids_row *const *)pa,
                              *b = *(struct etl_pids_row *const *)pb;

    return (a->pid > b->pid) - (a->pid < b->pid);
}

const struct etl_pids_row *const *etl_pids_sorted(struct etl_pids *p, size_t *n)
{
    *n = 0;
    if (VEC_ROOM(&p->rows, &p->cap, p->n + 1, ETL_PIDS_MAX + 1)) {
        return NULL;
    }
    qsort(p->rows, p->n, sizeof *p->rows, by_pid);
    p->rows[p->n] = &p->none;
    *n = p->n + 1;
    return (const struct etl_pids_row *const *)p->rows;
}
