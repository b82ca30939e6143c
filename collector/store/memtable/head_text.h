/* Text of one host kept once, in blocks: image names, paths, accounts and command lines repeat from
 * process to process. A text is known by a number of 32 bits and costs its bytes, one or two for
 * its length, and 4 to 8 in the table that finds it. It is never changed or moved, so a reader
 * needs no more than references to the blocks. Nothing is removed: who wants to be rid of texts
 * that nobody uses copies the others to a new pool (head_info.c).
 * Bounds:  HEAD_TEXT_BLOCKS blocks.
 * Threads: one owner, which adds; whoever holds references to the blocks reads what was there when
 *          they got them. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_TEXT_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_TEXT_H

#include <stdatomic.h>

#include "common/base/err.h"
#include "common/model/model.h"

#define HEAD_TEXT_BLOCKS 65535u

struct head_text_block {
    atomic_uint refs;
    uint32_t cap, used; /* the owner's */
    uint8_t bytes[];    /* a length in LEB128 before each text */
};

struct head_texts {
    struct head_text_block **blocks;
    uint32_t n_blocks, cap_blocks;
    uint32_t *slots; /* numbers of texts; open addressing, 0 = empty */
    uint32_t cap, n;
    uint64_t bytes;       /* of all blocks, used */
    uint64_t held;        /* of all blocks, and of the table */
    uint64_t about_bytes; /* of those, what is not the text of command lines (head_page.h) */
    uint64_t seed;        /* secret, or a host could send texts that all meet in one slot */
};

void head_texts_fini(struct head_texts *t); /* blocks that are referred to live on */

/* The number of the text with these bytes, which is added when it is new; 0 for empty text.
 * Errors: ERR_NOMEM (or no more blocks; nothing changed) */
NODISCARD enum err head_texts_get(struct head_texts *t, uint32_t *id, struct str s);

/* Bytes that a text of n bytes takes, without its place in the table. */
size_t head_text_cost(size_t n);

/* A number that head_texts_get gave, or 0. */
struct str head_text_at(struct head_text_block *const *blocks, uint32_t id);

static inline struct head_text_block *head_text_block_ref(struct head_text_block *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void head_text_block_unref(struct head_text_block *b); /* NULL is allowed */

#endif
