/* A number is the block's place, and in its lower 16 bits where in the block the text begins. The
 * first byte of the first block is left out, so that no text has the number 0. Blocks grow with
 * what there is, to 64 KiB: a host of few processes takes little, and no host wastes much. */
#include "collector/store/memtable/head_text.h"

#include "common/base/hash.h"
#include "common/base/mem.h"

#define BLOCK_MIN 512u
#define BLOCK_MAX 65536u
#define SLOTS_MIN 48u

void head_text_block_unref(struct head_text_block *b)
{
    if (b && atomic_fetch_sub(&b->refs, 1) == 1) {
        mem_free(b);
    }
}

void head_texts_fini(struct head_texts *t)
{
    for (uint32_t i = 0; i < t->n_blocks; i++) {
        head_text_block_unref(t->blocks[i]);
    }
    mem_free(t->blocks);
    mem_free(t->slots);
    *t = (struct head_texts){0};
}

size_t head_text_cost(size_t n)
{
    size_t cost = n + 1;

    for (size_t left = n; left >= 0x80; left >>= 7) {
        cost++;
    }
    return cost;
}

struct str head_text_at(struct head_text_block *const *blocks, uint32_t id)
{
    struct str s = {"", 0};
    const uint8_t *p;

    if (id) {
        p = blocks[id >> 16]->bytes + (id & 0xffff);
        for (unsigned shift = 0;; shift += 7) {
            s.n |= (size_t)(*p & 0x7f) << shift;
            if (!(*p++ & 0x80)) {
                break;
            }
        }
        s.p = (const char *)p;
    }
    return s;
}

/* -- the table -- */

/* The slot of s: its text's, or the empty one where it belongs. Any number of slots will do: the
 * upper half of the hash is scaled to it. */
static uint32_t *slot_of(const struct head_texts *t, uint32_t *slots, uint32_t cap, struct str s)
{
    uint32_t i = (uint32_t)((hash_bytes(s.p, s.n, t->seed) >> 32) * cap >> 32);

    while (slots[i] && !str_eq(head_text_at(t->blocks, slots[i]), s)) {
        i = i + 1 < cap ? i + 1 : 0;
    }
    return &slots[i];
}

/* At most three quarters full, and half full after growing. */
static enum err slots_room(struct head_texts *t)
{
    uint64_t cap = t->cap ? t->cap + t->cap / 2 : SLOTS_MIN;
    uint32_t *slots;

    if (((uint64_t)t->n + 1) * 4 <= (uint64_t)t->cap * 3) {
        return ERR_OK;
    }
    slots = cap <= UINT32_MAX ? mem_array((size_t)cap, sizeof *slots) : NULL;
    if (!slots) {
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < t->cap; i++) {
        if (t->slots[i]) {
            struct str s = head_text_at(t->blocks, t->slots[i]);

            *slot_of(t, slots, (uint32_t)cap, s) = t->slots[i];
        }
    }
    mem_free(t->slots);
    t->slots = slots;
    t->held += (cap - t->cap) * sizeof *slots;
    t->cap = (uint32_t)cap;
    return ERR_OK;
}

/* -- the blocks -- */

static enum err list_room(struct head_texts *t)
{
    uint32_t cap = t->cap_blocks ? t->cap_blocks * 2 : 4;
    struct head_text_block **grown;

    if (t->n_blocks < t->cap_blocks) {
        return ERR_OK;
    }
    grown = mem_realloc_array(t->blocks, cap, sizeof(struct head_text_block *));
    if (!grown) {
        return ERR_NOMEM;
    }
    t->blocks = grown;
    t->held += (cap - t->cap_blocks) * sizeof(struct head_text_block *);
    t->cap_blocks = cap;
    return ERR_OK;
}

static enum err block_add(struct head_texts *t, size_t least)
{
    size_t cap = t->bytes / 4;
    struct head_text_block *b;
    enum err e = t->n_blocks < HEAD_TEXT_BLOCKS ? list_room(t) : ERR_NOMEM;

    if (e) {
        return e;
    }
    cap = cap < BLOCK_MIN ? BLOCK_MIN : cap > BLOCK_MAX ? BLOCK_MAX : cap;
    cap = cap < least ? least : cap;
    b = cap < UINT32_MAX ? mem_alloc(sizeof *b + cap) : NULL;
    if (!b) {
        return ERR_NOMEM;
    }
    atomic_init(&b->refs, 1);
    b->cap = (uint32_t)cap;
    b->used = t->n_blocks == 0;
    t->blocks[t->n_blocks++] = b;
    t->held += sizeof *b + cap;
    return ERR_OK;
}

static enum err text_add(struct head_texts *t, uint32_t *id, struct str s)
{
    struct head_text_block *b = t->n_blocks ? t->blocks[t->n_blocks - 1] : NULL;
    size_t cost = head_text_cost(s.n), n = s.n;
    uint8_t *p;

    if (!b || b->cap - b->used < cost) {
        enum err e = block_add(t, cost + 1);

        if (e) {
            return e;
        }
        b = t->blocks[t->n_blocks - 1];
    }
    *id = (t->n_blocks - 1) << 16 | b->used;
    p = b->bytes + b->used;
    for (; n >= 0x80; n >>= 7) {
        *p++ = (uint8_t)(n | 0x80);
    }
    *p++ = (uint8_t)n;
    memcpy(p, s.p, s.n);
    b->used += (uint32_t)cost;
    t->bytes += cost;
    return ERR_OK;
}

enum err head_texts_get(struct head_texts *t, uint32_t *id, struct str s)
{
    uint32_t *slot;
    enum err e;

    if (s.n == 0) {
        *id = 0;
        return ERR_OK;
    }
    e = slots_room(t);
    if (e) {
        return e;
    }
    slot = slot_of(t, t->slots, t->cap, s);
    if (!*slot) {
        e = text_add(t, slot, s);
        if (e) {
            return e;
        }
        t->n++;
    }
    *id = *slot;
    return ERR_OK;
}
