#include "collector/store/head_text.h"

#include "common/hash.h"
#include "common/mem.h"

void head_text_unref(struct head_text *x)
{
    if (x && atomic_fetch_sub(&x->refs, 1) == 1) {
        mem_free(x);
    }
}

/* The slot of s: its text's, or the empty one where it belongs. */
static struct head_text **slot_of(struct head_text **slots, size_t cap, struct str s)
{
    size_t i = (size_t)hash_bytes(s.p, s.n, 0) & (cap - 1);

    while (slots[i] && !str_eq(head_text_str(slots[i]), s)) {
        i = (i + 1) & (cap - 1);
    }
    return &slots[i];
}

static void move_all(struct head_text **to, size_t cap, struct head_texts *t)
{
    for (size_t i = 0; i < t->cap; i++) {
        if (t->slots[i]) {
            *slot_of(to, cap, head_text_str(t->slots[i])) = t->slots[i];
        }
    }
    mem_free(t->slots);
    t->slots = to;
    t->cap = cap;
}

/* Removing shifts what probed past the hole: put back everything that follows up to a gap. */
static void remove_slot(struct head_texts *t, size_t i)
{
    head_text_unref(t->slots[i]);
    t->slots[i] = NULL;
    t->n--;
    for (i = (i + 1) & (t->cap - 1); t->slots[i]; i = (i + 1) & (t->cap - 1)) {
        struct head_text *x = t->slots[i];

        t->slots[i] = NULL;
        *slot_of(t->slots, t->cap, head_text_str(x)) = x;
    }
}

void head_texts_sweep(struct head_texts *t)
{
    for (size_t i = 0; i < t->cap; i++) {
        /* Only the owner adds references, so 1 stays 1; what moved into slot i is looked at too. */
        while (t->slots[i] && atomic_load(&t->slots[i]->refs) == 1) {
            remove_slot(t, i);
        }
    }
}

/* At most three quarters full. What nobody uses goes first, or a process that changes its command
 * line again and again would fill the table for ever. */
static enum err make_room(struct head_texts *t)
{
    size_t cap = t->cap ? t->cap * 2 : 64;
    struct head_text **slots;

    if ((t->n + 1) * 4 <= t->cap * 3) {
        return ERR_OK;
    }
    head_texts_sweep(t);
    if (t->n * 2 < t->cap) {
        return ERR_OK;
    }
    slots = mem_array(cap, sizeof *slots);
    if (!slots) {
        return ERR_NOMEM;
    }
    move_all(slots, cap, t);
    return ERR_OK;
}

enum err head_texts_get(struct head_texts *t, struct head_text **out, struct str s)
{
    struct head_text **slot, *x;
    enum err e;

    if (s.n == 0) {
        *out = NULL;
        return ERR_OK;
    }
    e = make_room(t);
    if (e) {
        return e;
    }
    slot = slot_of(t->slots, t->cap, s);
    if (!*slot) {
        x = mem_alloc(sizeof *x + s.n);
        if (!x) {
            return ERR_NOMEM;
        }
        atomic_init(&x->refs, 1);
        x->n = (uint32_t)s.n;
        memcpy(x->p, s.p, s.n);
        *slot = x;
        t->n++;
    }
    *out = head_text_ref(*slot);
    return ERR_OK;
}

void head_texts_fini(struct head_texts *t)
{
    for (size_t i = 0; i < t->cap; i++) {
        head_text_unref(t->slots[i]);
    }
    mem_free(t->slots);
    *t = (struct head_texts){0};
}
