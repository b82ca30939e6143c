/* Two tables by turns: the last one is looked up, the present one filled. So nothing is ever
 * removed, and an entry costs nothing when its process has gone. At least half of the slots stay
 * free, so every search ends soon. */
#include "agent/source/windows/snap_memory.h"

#include <string.h>

#include "common/base/mem.h"

#define SLOTS_FIRST 64

struct slot {
    struct proc_id id;
    uint64_t used;
    uint64_t entry[]; /* rounded up to 8 bytes */
};

struct side {
    unsigned char *slots;
    size_t n, slots_n; /* slots_n: 0 or a power of two */
};

struct snap_memory {
    struct side last, now;
    size_t max, entry_bytes, slot_bytes;
    uint64_t capped;
};

enum err snap_memory_create(struct snap_memory **out, size_t entry_bytes, size_t processes_max)
{
    struct snap_memory *m = mem_zalloc(sizeof *m);

    if (!m) {
        return ERR_NOMEM;
    }
    m->max = processes_max;
    m->entry_bytes = entry_bytes;
    m->slot_bytes = sizeof(struct slot) + (entry_bytes + 7) / 8 * 8;
    *out = m;
    return ERR_OK;
}

void snap_memory_destroy(struct snap_memory *m)
{
    if (m) {
        mem_free(m->last.slots);
        mem_free(m->now.slots);
        mem_free(m);
    }
}

void snap_memory_begin(struct snap_memory *m)
{
    struct side oldest = m->last;

    m->last = m->now;
    if (oldest.slots) {
        memset(oldest.slots, 0, oldest.slots_n * m->slot_bytes);
    }
    oldest.n = 0;
    m->now = oldest;
}

static struct slot *slot_at(const struct snap_memory *m, const struct side *side, size_t i)
{
    return (struct slot *)(void *)(side->slots + i * m->slot_bytes);
}

/* The process's slot, or the free one it would take; NULL: there are no slots. */
static struct slot *probe(const struct snap_memory *m, const struct side *side, struct proc_id id)
{
    uint64_t hash = (id.pid ^ id.start << 20 ^ id.start >> 13) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(hash >> 32);
    struct slot *s;

    if (side->slots_n == 0) {
        return NULL;
    }
    do {
        s = slot_at(m, side, i++ & (side->slots_n - 1));
    } while (s->used && !proc_id_eq(s->id, id));
    return s;
}

static bool grow(struct snap_memory *m)
{
    struct side larger = {.n = m->now.n, .slots_n = m->now.slots_n * 2};

    if (m->now.n < m->now.slots_n / 2) {
        return true;
    }
    if (larger.slots_n == 0) {
        larger.slots_n = SLOTS_FIRST;
    }
    larger.slots = mem_array(larger.slots_n, m->slot_bytes);
    if (!larger.slots) {
        return false;
    }
    for (size_t i = 0; i < m->now.slots_n; i++) {
        const struct slot *s = slot_at(m, &m->now, i);

        if (s->used) {
            memcpy(probe(m, &larger, s->id), s, m->slot_bytes);
        }
    }
    mem_free(m->now.slots);
    m->now = larger;
    return true;
}

void *snap_memory_find(struct snap_memory *m, struct proc_id id)
{
    struct slot *s = probe(m, &m->now, id);

    return s && s->used ? s->entry : NULL;
}

void *snap_memory_at(struct snap_memory *m, struct proc_id id)
{
    void *there = snap_memory_find(m, id);
    const struct slot *before;
    struct slot *s;

    if (there) {
        return there;
    }
    if (m->now.n >= m->max || !grow(m)) {
        m->capped++;
        return NULL;
    }
    s = probe(m, &m->now, id);
    before = probe(m, &m->last, id);
    s->id = id;
    s->used = 1;
    m->now.n++;
    if (before && before->used) {
        memcpy(s->entry, before->entry, m->entry_bytes);
    }
    return s->entry;
}
