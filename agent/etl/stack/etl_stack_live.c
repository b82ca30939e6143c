/* Ranges lie in order of space and address, in blocks of at most BLOCK: what is put or freed moves
 * one block's ranges, or the list of blocks. */
#include "agent/etl/stack/etl_stack_live.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"

#define BLOCK 128 /* ranges */

struct range {
    uint64_t space, base, end;
    uint32_t later;
};

struct block {
    struct range at[BLOCK];
    size_t n; /* never 0 */
};

struct etl_stack_live {
    struct etl_stack_join *join;
    struct block **blocks;
    size_t n_blocks, cap, n;
    uint64_t no_room;
};

struct place {
    size_t block, i; /* i may be the block's n: behind its last one */
};

enum err etl_stack_live_create(struct etl_stack_live **out, struct etl_stack_join *join)
{
    struct etl_stack_live *l = mem_zalloc(sizeof *l);

    if (!l) {
        return ERR_NOMEM;
    }
    l->join = join;
    *out = l;
    return ERR_OK;
}

void etl_stack_live_destroy(struct etl_stack_live *l)
{
    if (l) {
        for (size_t i = 0; i < l->n_blocks; i++) {
            mem_free(l->blocks[i]);
        }
        mem_free(l->blocks);
        mem_free(l);
    }
}

uint64_t etl_stack_live_no_room(const struct etl_stack_live *l)
{
    return l->no_room;
}

/* -- places -- */

static bool is_before(const struct range *r, uint64_t space, uint64_t base)
{
    return r->space < space || (r->space == space && r->base < base);
}

/* The first range that does not begin before it: where one that begins there belongs. */
static struct place place_of(const struct etl_stack_live *l, uint64_t space, uint64_t base)
{
    struct place p = {0, 0};

    SEARCH_LOWER(p.block, l->n_blocks, is_before(&l->blocks[p.block]->at[0], space, base));
    p.block -= p.block > 0;
    if (l->n_blocks) {
        const struct block *b = l->blocks[p.block];

        SEARCH_LOWER(p.i, b->n, is_before(&b->at[p.i], space, base));
    }
    return p;
}

/* NULL: there is none any more. */
static struct range *range_at(const struct etl_stack_live *l, struct place *p)
{
    if (p->block < l->n_blocks && p->i == l->blocks[p->block]->n) {
        p->block++;
        p->i = 0;
    }
    return p->block < l->n_blocks ? &l->blocks[p->block]->at[p->i] : NULL;
}

/* One block more behind a full one, which gives it its upper half; the first one. */
static bool block_add(struct etl_stack_live *l, size_t after)
{
    struct block *b;

    if (VEC_ROOM(&l->blocks, &l->cap, l->n_blocks + 1, SIZE_MAX / sizeof *l->blocks)) {
        return false;
    }
    b = mem_zalloc(sizeof *b);
    if (!b) {
        return false;
    }
    if (l->n_blocks == 0) {
        l->blocks[l->n_blocks++] = b;
        return true;
    }
    b->n = BLOCK / 2;
    memcpy(b->at, l->blocks[after]->at + BLOCK / 2, b->n * sizeof *b->at);
    l->blocks[after]->n = BLOCK - b->n;
    memmove(l->blocks + after + 2, l->blocks + after + 1,
            (l->n_blocks - after - 1) * sizeof *l->blocks);
    l->blocks[after + 1] = b;
    l->n_blocks++;
    return true;
}

/* A range whose neighbours leave it room; takes over its weight. */
static void range_put(struct etl_stack_live *l, const struct range *r)
{
    struct place p = place_of(l, r->space, r->base);
    struct block *b;

    if (l->n == ETL_STACK_LIVE_MAX ||
        ((l->n_blocks == 0 || l->blocks[p.block]->n == BLOCK) && !block_add(l, p.block))) {
        l->no_room++;
        etl_stack_join_release(l->join, r->later);
        return;
    }
    p = place_of(l, r->space, r->base);
    b = l->blocks[p.block];
    assert(b->n < BLOCK);
    memmove(b->at + p.i + 1, b->at + p.i, (b->n - p.i) * sizeof *b->at);
    b->at[p.i] = *r;
    b->n++;
    l->n++;
}

static void range_drop(struct etl_stack_live *l, struct place p)
{
    struct block *b = l->blocks[p.block];

    etl_stack_join_release(l->join, b->at[p.i].later);
    memmove(b->at + p.i, b->at + p.i + 1, (b->n - p.i - 1) * sizeof *b->at);
    b->n--;
    l->n--;
    if (b->n == 0) {
        mem_free(b);
        l->n_blocks--;
        memmove(l->blocks + p.block, l->blocks + p.block + 1,
                (l->n_blocks - p.block) * sizeof *l->blocks);
    }
}

/* -- what is asked -- */

static uint64_t end_of(uint64_t base, uint64_t n)
{
    return n < UINT64_MAX - base ? base + n : UINT64_MAX;
}

/* The one that begins before the place may reach into it. */
static void cut_before(struct etl_stack_live *l, struct place p, uint64_t space, uint64_t base,
                       uint64_t end)
{
    struct range *r = NULL, tail;

    if (p.i > 0) {
        r = &l->blocks[p.block]->at[p.i - 1];
    } else if (p.block > 0) {
        r = &l->blocks[p.block - 1]->at[l->blocks[p.block - 1]->n - 1];
    }
    if (!r || r->space != space || r->end <= base) {
        return;
    }
    tail = (struct range){space, end, r->end, r->later};
    r->end = base;
    if (tail.end > end) { /* it goes on behind */
        etl_stack_join_keep(l->join, tail.later);
        range_put(l, &tail);
    }
}

void etl_stack_live_free(struct etl_stack_live *l, uint64_t space, uint64_t base, uint64_t n)
{
    uint64_t end = end_of(base, n);
    struct place p = place_of(l, space, base);
    struct range *r;

    cut_before(l, p, space, base, end);
    p = place_of(l, space, base);
    while ((r = range_at(l, &p)) != NULL && r->space == space && r->base < end) {
        if (r->end > end) {
            r->base = end; /* in its order: nothing begins between */
            return;
        }
        range_drop(l, p);
    }
}

void etl_stack_live_put(struct etl_stack_live *l, uint64_t space, uint64_t base, uint64_t n,
                        uint32_t later)
{
    struct range r = {space, base, end_of(base, n), later};

    if (r.end == base) {
        etl_stack_join_release(l->join, later);
        return;
    }
    etl_stack_live_free(l, space, base, n);
    range_put(l, &r);
}

uint64_t etl_stack_live_end(struct etl_stack_live *l)
{
    uint64_t sum = 0;

    for (size_t k = 0; k < l->n_blocks; k++) {
        for (size_t i = 0; i < l->blocks[k]->n; i++) {
            const struct range *r = &l->blocks[k]->at[i];

            etl_stack_join_weigh(l->join, r->later, r->end - r->base);
            etl_stack_join_release(l->join, r->later);
            sum += r->end - r->base;
        }
        mem_free(l->blocks[k]);
    }
    l->n_blocks = l->n = 0;
    return sum;
}
