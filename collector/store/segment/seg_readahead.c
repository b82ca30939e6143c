#include "collector/store/segment/seg_readahead.h"

#include "common/base/cur.h"
#include "common/base/mem.h"

#define SLOTS    256u
#define KEYS_MAX 80u         /* at once; of more none is read ahead */
#define GAP      (12u << 10) /* between values, on average */

#define BLOCKS_MEMORY ((size_t)4 << 20)

/* One group of values. */
struct block {
    struct block *next; /* in the slot */
    uint64_t number;    /* of the segment */
    uint64_t order;     /* of the group */
    unsigned asked;
    bool alone; /* it is not read whole */
    uint64_t at;
    size_t n;
    uint8_t *p; /* NULL: not read */
};

struct seg_readahead {
    struct arena memory; /* of blocks */
    size_t bytes;        /* of what they point to */
    struct block *slots[SLOTS];
};

enum err seg_readahead_create(struct seg_readahead **out)
{
    struct seg_readahead *a = mem_zalloc(sizeof *a);

    if (!a) {
        return ERR_NOMEM;
    }
    arena_init(&a->memory, BLOCKS_MEMORY);
    *out = a;
    return ERR_OK;
}

void seg_readahead_destroy(struct seg_readahead *a)
{
    if (a) {
        for (size_t i = 0; i < SLOTS; i++) {
            for (struct block *b = a->slots[i]; b; b = b->next) {
                mem_free(b->p);
            }
        }
        arena_fini(&a->memory);
        mem_free(a);
    }
}

/* NULL: no memory. */
static struct block *block_of(struct seg_readahead *a, const struct seg *s, struct seg_key key)
{
    uint64_t number = seg_info_of(s)->number, order = seg_key_order(key) >> 40;
    uint64_t h = (number << 24 ^ order) * UINT64_C(0x9e3779b97f4a7c15);
    struct block **slot = &a->slots[h >> 56], *b = *slot;

    while (b && (b->number != number || b->order != order)) {
        b = b->next;
    }
    if (!b) {
        b = arena_alloc(&a->memory, sizeof *b);
        if (b) {
            *b = (struct block){.next = *slot, .number = number, .order = order};
            *slot = b;
        }
    }
    return b;
}

/* From the first to the last value of the group, whose entries are there; false: too much of
 * others lies between them. */
static bool extent(const struct seg *s, size_t group, uint64_t *at, uint64_t *end)
{
    const struct seg_group *g = &s->groups[group];
    const uint8_t *entry = atomic_load(&g->entries);
    uint64_t all = 0;

    *at = UINT64_MAX;
    *end = 0;
    for (uint32_t i = 0; entry && i < g->count; i++, entry += SEG_ENTRY_BYTES) {
        uint64_t from = cur_at64le(entry + 8);
        uint64_t n = SEG_RECORD_BYTES + (uint64_t)cur_at32le(entry + 4);

        *at = from < *at ? from : *at;
        *end = from + n > *end ? from + n : *end;
        all += n;
    }
    return all > 0 && *end - *at <= all + (uint64_t)g->count * GAP;
}

/* Reads the group whole when that is worth it by now. */
static void load(struct seg_readahead *a, struct block *b, const struct seg *s, struct seg_key key)
{
    size_t group = seg_group_of(s, key);
    uint64_t at, end;
    uint8_t *p;

    if (group == s->foot.n_groups || !extent(s, group, &at, &end) ||
        end - at > SEG_READAHEAD_GROUP_MAX) {
        b->alone = true;
        return;
    }
    if (end - at > b->asked * SEG_READAHEAD_PER_ASKED) {
        return;
    }
    p = end - at <= SEG_READAHEAD_MEMORY - a->bytes ? mem_alloc((size_t)(end - at)) : NULL;
    if (!p || seg_file_read(s->file, at, p, (size_t)(end - at))) {
        mem_free(p);
        b->alone = true;
        return;
    }
    b->at = at;
    b->n = (size_t)(end - at);
    b->p = p;
    a->bytes += b->n;
}

/* The value from what was read ahead; false: not there, or not sound. */
static bool take(struct seg_readahead *a, const struct seg *s, struct seg_key key,
                 const uint8_t **p, size_t *n)
{
    struct block *b = block_of(a, s, key);
    struct seg_place place;

    if (!b) {
        return false;
    }
    b->asked++;
    if (seg_find(s, key, &place)) {
        return false;
    }
    if (!b->p && !b->alone) {
        load(a, b, s, key);
    }
    if (!b->p || place.at < b->at || place.at - b->at > b->n ||
        b->n - (place.at - b->at) < SEG_RECORD_BYTES + (size_t)place.length ||
        !seg_value_is(s, b->p + (place.at - b->at), key, place.length)) {
        return false;
    }
    *p = b->p + (place.at - b->at) + SEG_RECORD_BYTES;
    *n = place.length;
    return true;
}

enum err seg_readahead_read(struct seg_readahead *a, const struct seg *s, struct arena *memory,
                            const struct seg_key *keys, size_t n, const uint8_t **p,
                            size_t *lengths)
{
    struct seg_key left[KEYS_MAX];
    size_t left_at[KEYS_MAX], left_lengths[KEYS_MAX], n_left = 0;
    const uint8_t *left_p[KEYS_MAX];
    enum err e;

    if (!a || n > KEYS_MAX) {
        return seg_read_many(s, memory, keys, n, p, lengths);
    }
    for (size_t i = 0; i < n; i++) {
        if (!take(a, s, keys[i], &p[i], &lengths[i])) {
            left[n_left] = keys[i];
            left_at[n_left++] = i;
        }
    }
    e = n_left ? seg_read_many(s, memory, left, n_left, left_p, left_lengths) : ERR_OK;
    for (size_t i = 0; i < n_left && !e; i++) {
        p[left_at[i]] = left_p[i];
        lengths[left_at[i]] = left_lengths[i];
    }
    return e;
}
