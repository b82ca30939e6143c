#include "agent/etl/stack/etl_stack_tree.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/vec.h"

#define NODES_MAX  (ETL_STACK_NODES + ETL_STACK_NODES / 16) /* the last ones are for `more` */
#define FIRST_BITS 12

static uint32_t slot(const struct etl_stack_tree *t, uint64_t key, unsigned bits)
{
    key = (key ^ t->seed) * UINT64_C(0x9E3779B97F4A7C15);
    key = (key ^ key >> 29) * (t->seed | 1);
    return (uint32_t)(key >> (64 - bits));
}

static uint32_t node_slot(const struct etl_stack_tree *t, uint32_t parent, uint32_t frame)
{
    return slot(t, (uint64_t)parent << 32 | frame, t->node_bits);
}

static uint32_t frame_slot(const struct etl_stack_tree *t, const struct etl_stack_frame *f)
{
    return slot(t, f->value ^ ((uint64_t)f->index << 34 | (uint64_t)f->kind << 32), t->frame_bits);
}

/* Heads for twice as many; the chains are made anew. */
static bool heads_grow(uint32_t **heads, unsigned *bits, size_t n)
{
    uint32_t *wider;

    if (n < (size_t)1 << *bits) {
        return false;
    }
    wider = mem_array((size_t)2 << *bits, sizeof *wider);
    if (!wider) {
        return false; /* longer chains */
    }
    mem_free(*heads);
    *heads = wider;
    ++*bits;
    return true;
}

static void node_link(struct etl_stack_tree *t, size_t i)
{
    uint32_t *head = &t->node_heads[node_slot(t, t->nodes[i].parent, t->nodes[i].frame)];

    t->nodes[i].next = *head;
    *head = (uint32_t)i + 1;
}

static void frame_link(struct etl_stack_tree *t, size_t i)
{
    uint32_t *head = &t->frame_heads[frame_slot(t, &t->frames[i])];

    t->frames[i].next = *head;
    *head = (uint32_t)i + 1;
}

enum err etl_stack_tree_init(struct etl_stack_tree *t, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    t->seed = seed;
    t->nodes_max = ETL_STACK_NODES;
    t->node_bits = t->frame_bits = FIRST_BITS;
    t->node_heads = mem_zalloc(sizeof *t->node_heads << FIRST_BITS);
    t->frame_heads = mem_zalloc(sizeof *t->frame_heads << FIRST_BITS);
    if (!t->node_heads || !t->frame_heads || VEC_ROOM(&t->nodes, &t->cap, 1, NODES_MAX) ||
        VEC_ROOM(&t->frames, &t->cap_frames, 1, ETL_STACK_FRAMES)) {
        return ERR_NOMEM;
    }
    t->nodes[0] = (struct etl_stack_node){.frame = UINT32_MAX};
    t->n = 1;
    t->more = etl_stack_tree_frame(t, ETL_STACK_TEXT, 0, UINT64_MAX);
    return ERR_OK;
}

void etl_stack_tree_fini(struct etl_stack_tree *t)
{
    mem_free(t->nodes);
    mem_free(t->frames);
    mem_free(t->node_heads);
    mem_free(t->frame_heads);
    memset(t, 0, sizeof *t);
}

uint32_t etl_stack_tree_frame(struct etl_stack_tree *t, enum etl_stack_kind kind, uint32_t index,
                              uint64_t value)
{
    struct etl_stack_frame f = {.kind = kind, .index = index & 0x3FFFFFFF, .value = value};
    uint32_t i = t->frame_heads[frame_slot(t, &f)];

    for (; i; i = t->frames[i - 1].next) {
        const struct etl_stack_frame *g = &t->frames[i - 1];

        if (g->value == value && g->index == f.index && g->kind == f.kind) {
            return i - 1;
        }
    }
    if (VEC_ROOM(&t->frames, &t->cap_frames, t->n_frames + 1, ETL_STACK_FRAMES)) {
        t->truncated++;
        return t->more;
    }
    t->frames[t->n_frames] = f;
    if (heads_grow(&t->frame_heads, &t->frame_bits, t->n_frames)) {
        for (size_t k = 0; k < t->n_frames; k++) {
            frame_link(t, k);
        }
    }
    frame_link(t, t->n_frames);
    return (uint32_t)t->n_frames++;
}

static uint32_t node_find(const struct etl_stack_tree *t, uint32_t parent, uint32_t frame)
{
    uint32_t i = t->node_heads[node_slot(t, parent, frame)];

    for (; i; i = t->nodes[i - 1].next) {
        if (t->nodes[i - 1].parent == parent && t->nodes[i - 1].frame == frame) {
            return i - 1;
        }
    }
    return 0;
}

static uint32_t node_add(struct etl_stack_tree *t, uint32_t parent, uint32_t frame)
{
    t->nodes[t->n] = (struct etl_stack_node){.parent = parent, .frame = frame};
    if (heads_grow(&t->node_heads, &t->node_bits, t->n)) {
        for (size_t k = 1; k < t->n; k++) {
            node_link(t, k);
        }
    }
    node_link(t, t->n);
    return (uint32_t)t->n++;
}

uint32_t etl_stack_tree_child(struct etl_stack_tree *t, uint32_t parent, uint32_t frame)
{
    uint32_t node;

    assert(parent < t->n);
    node = node_find(t, parent, frame);
    if (node) {
        return node;
    }
    if (t->nodes[parent].frame == t->more) {
        return parent; /* and all that follows */
    }
    if (t->n < t->nodes_max && !VEC_ROOM(&t->nodes, &t->cap, t->n + 1, NODES_MAX)) {
        return node_add(t, parent, frame);
    }
    t->truncated++;
    node = node_find(t, parent, t->more);
    if (!node && t->n < t->nodes_max + t->nodes_max / 16 &&
        !VEC_ROOM(&t->nodes, &t->cap, t->n + 1, NODES_MAX)) {
        node = node_add(t, parent, t->more);
    }
    return node ? node : parent;
}

/* In place: there are never more new nodes than old ones before the present one. */
enum err etl_stack_tree_rename(struct etl_stack_tree *t, const uint32_t *names)
{
    uint32_t *now = mem_array(t->n, sizeof *now);
    size_t n = t->n;

    if (!now) {
        return ERR_NOMEM;
    }
    memset(t->node_heads, 0, sizeof *t->node_heads << t->node_bits);
    now[0] = 0;
    t->n = 1;
    for (size_t i = 1; i < n; i++) {
        struct etl_stack_node old = t->nodes[i];
        uint32_t parent = now[old.parent], frame = names[old.frame];

        assert(old.parent < i);
        now[i] = node_find(t, parent, frame);
        if (!now[i]) {
            now[i] = node_add(t, parent, frame);
        }
        etl_stack_tree_add(t, now[i], old.weight, old.count);
    }
    mem_free(now);
    t->more = names[t->more];
    t->n_frames = 0;
    return ERR_OK;
}

uint64_t *etl_stack_tree_totals(const struct etl_stack_tree *t)
{
    uint64_t *totals = mem_array(t->n, sizeof *totals);

    for (size_t i = 0; totals && i < t->n; i++) {
        totals[i] = t->nodes[i].weight;
    }
    for (size_t i = t->n; totals && i-- > 1;) {
        totals[t->nodes[i].parent] += totals[i];
    }
    return totals;
}
