#include "common/base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "common/base/mem.h"

#define BLOCK_BYTES ((size_t)64 << 10)
#define ALIGN       _Alignof(max_align_t)

struct arena_block {
    struct arena_block *next;
    size_t size; /* of data */
    size_t used;
    _Alignas(max_align_t) unsigned char data[];
};

void arena_init(struct arena *a, size_t max_bytes)
{
    *a = (struct arena){.max_bytes = max_bytes};
}

static void blocks_free(struct arena_block *b)
{
    while (b) {
        struct arena_block *next = b->next;

        mem_free(b);
        b = next;
    }
}

void arena_fini(struct arena *a)
{
    blocks_free(a->head);
    a->head = NULL;
    a->used = 0;
}

void arena_reset(struct arena *a)
{
    if (!a->head) {
        return;
    }
    blocks_free(a->head->next);
    a->head->next = NULL;
    a->head->used = 0;
    a->used = a->head->size;
}

static struct arena_block *block_add(struct arena *a, size_t n)
{
    size_t size = n > BLOCK_BYTES / 4 ? n : BLOCK_BYTES;
    struct arena_block *b;

    if (size > a->max_bytes - a->used) {
        size = n;
    }
    if (size > a->max_bytes - a->used) {
        return NULL;
    }
    b = mem_alloc(sizeof *b + size);
    if (!b) {
        return NULL;
    }
    b->size = size;
    b->used = 0;
    b->next = a->head;
    a->head = b;
    a->used += size;
    assert(a->used <= a->max_bytes);
    return b;
}

/* *size bytes, which it rounds up; their contents are unknown. */
static void *arena_take(struct arena *a, size_t *size)
{
    struct arena_block *b = a->head;
    size_t n = *size;
    void *p;

    if (n > SIZE_MAX / 2) {
        return NULL;
    }
    n = n ? (n + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    if (!b || b->size - b->used < n) {
        b = block_add(a, n);
        if (!b) {
            return NULL;
        }
    }
    p = b->data + b->used;
    b->used += n;
    *size = n;
    return p;
}

void *arena_alloc(struct arena *a, size_t n)
{
    void *p = arena_take(a, &n);

    if (p) {
        memset(p, 0, n);
    }
    return p;
}

enum err arena_refused(const struct arena *a, size_t n)
{
    size_t room = a->max_bytes - a->used;

    return n > room || room - n < ALIGN - 1 ? ERR_FULL : ERR_NOMEM;
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / 2 / size) {
        return NULL;
    }
    return arena_alloc(a, n * size);
}

void *arena_array_unset(struct arena *a, size_t n, size_t size)
{
    size_t bytes;

    if (size && n > SIZE_MAX / 2 / size) {
        return NULL;
    }
    bytes = n * size;
    return arena_take(a, &bytes);
}

void *arena_dup(struct arena *a, const void *p, size_t n)
{
    void *copy = arena_array_unset(a, n, 1);

    if (copy && n) {
        memcpy(copy, p, n);
    }
    return copy;
}
