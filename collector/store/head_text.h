/* Text kept once: image names, paths, accounts and command lines repeat from process to process.
 * Bounds:  in proportion to the texts in use; unused ones go with head_texts_sweep, or when they
 *          are as many as those in use.
 * Threads: get and sweep by one owner; references may be dropped by any thread. */
#ifndef PROCFLEET_COLLECTOR_STORE_HEAD_TEXT_H
#define PROCFLEET_COLLECTOR_STORE_HEAD_TEXT_H

#include <stdatomic.h>

#include "common/err.h"
#include "common/model.h"

struct head_text {
    atomic_uint refs; /* one of them the table's */
    uint32_t n;
    char p[];
};

struct head_texts {
    struct head_text **slots; /* open addressing; cap is a power of two or 0 */
    size_t cap, n;
};

void head_texts_fini(struct head_texts *t); /* texts in use live on */

/* The text with these bytes, with a reference for the caller; NULL for empty text.
 * Errors: ERR_NOMEM */
NODISCARD enum err head_texts_get(struct head_texts *t, struct head_text **out, struct str s);

void head_texts_sweep(struct head_texts *t); /* forgets texts that nobody else holds */

static inline struct head_text *head_text_ref(struct head_text *x)
{
    if (x) {
        atomic_fetch_add_explicit(&x->refs, 1, memory_order_relaxed);
    }
    return x;
}

void head_text_unref(struct head_text *x); /* NULL is allowed */

static inline struct str head_text_str(const struct head_text *x)
{
    struct str s = {x ? x->p : "", x ? x->n : 0};

    return s;
}

#endif
