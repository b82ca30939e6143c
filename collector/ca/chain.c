#include "collector/ca/chain.h"

#include "common/base/mem.h"

#define SLOTS_MIN 64u

void chain_fini(struct chain *c)
{
    mem_free(c->slots);
    *c = (struct chain){0};
}

/* Where the key is, or the free place where it belongs. There is always a free one. */
static struct chain_slot *find(const struct chain *c, uint64_t key)
{
    size_t i = (size_t)key & (c->n_slots - 1);

    while (c->slots[i].last && c->slots[i].key != key) {
        i = (i + 1) & (c->n_slots - 1);
    }
    return &c->slots[i];
}

enum err chain_reserve(struct chain *c)
{
    struct chain bigger = {.used = c->used};

    if ((c->used + 1) * 4 <= c->n_slots * 3) {
        return ERR_OK;
    }
    bigger.n_slots = c->n_slots ? 2 * c->n_slots : SLOTS_MIN;
    bigger.slots = mem_array(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < c->n_slots; i++) {
        if (c->slots[i].last) {
            *find(&bigger, c->slots[i].key) = c->slots[i];
        }
    }
    mem_free(c->slots);
    *c = bigger;
    return ERR_OK;
}

uint32_t chain_get(const struct chain *c, uint64_t key)
{
    return c->n_slots ? find(c, key)->last : 0;
}

uint32_t chain_put(struct chain *c, uint64_t key, uint32_t number)
{
    struct chain_slot *s = find(c, key);
    uint32_t before = s->last;

    c->used += before == 0;
    s->key = key;
    s->last = number + 1;
    return before;
}
