#include "common/base/map.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

enum { FIRST_SHIFT = 64 - 6 };

void map_fini(struct map *m)
{
    mem_free(m->slots);
    *m = (struct map){0};
}

void map_clear(struct map *m)
{
    if (m->n) {
        memset(m->slots, 0, m->n_slots * sizeof *m->slots);
        m->n = 0;
    }
}

enum err map_reserve(struct map *m)
{
    struct map bigger = {.n = m->n};

    if (m->n < m->n_slots / 2) {
        return ERR_OK;
    }
    bigger.shift = m->n_slots ? m->shift - 1 : FIRST_SHIFT;
    bigger.n_slots = (size_t)1 << (64 - bigger.shift);
    bigger.slots = mem_array(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i].value) {
            *map_slot(&bigger, m->slots[i].key) = m->slots[i];
        }
    }
    mem_free(m->slots);
    *m = bigger;
    return ERR_OK;
}

uint64_t map_put(struct map *m, uint64_t key, uint64_t value)
{
    struct map_slot *s = map_slot(m, key);
    uint64_t before = s->value;

    assert(value != 0 && (before != 0 || m->n < m->n_slots / 2));
    m->n += before == 0;
    *s = (struct map_slot){key, value};
    return before;
}
