/* A sink of values that reads every byte it is given and ends the program when groups do not
 * balance. */
#ifndef PROCFLEET_TESTS_FUZZ_TOUCH_H
#define PROCFLEET_TESTS_FUZZ_TOUCH_H

#include <stdlib.h>

#include "common/model/value.h"

struct touch {
    int depth;
    volatile uint8_t sum;
};

static inline void touch_bytes(struct touch *t, const void *p, size_t n)
{
    const uint8_t *b = p;

    for (size_t i = 0; i < n; i++) {
        t->sum ^= b[i];
    }
}

static inline void touch_text(struct touch *t, struct str text)
{
    touch_bytes(t, text.p, text.n);
}

static inline void touch_must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static inline void touch_value(void *ctx, const struct value *v)
{
    struct touch *t = ctx;

    touch_text(t, v->name);
    if (v->kind == VALUE_TEXT || v->kind == VALUE_SID) {
        touch_text(t, v->v.text);
    } else if (v->kind == VALUE_GUID || v->kind == VALUE_ADDRESS || v->kind == VALUE_BYTES) {
        touch_bytes(t, v->v.bytes.p, v->v.bytes.n);
    } else {
        touch_must(v->kind <= VALUE_BYTES);
        touch_bytes(t, &v->v.u, sizeof v->v.u);
    }
}

static inline void touch_begin(void *ctx, struct str name, enum value_group group)
{
    struct touch *t = ctx;

    (void)group;
    touch_text(t, name);
    t->depth++;
}

static inline void touch_end(void *ctx)
{
    struct touch *t = ctx;

    touch_must(--t->depth >= 0);
}

static inline struct value_sink touch_sink(struct touch *t)
{
    return (struct value_sink){t, touch_value, touch_begin, touch_end};
}

static inline void touch_balanced(const struct touch *t)
{
    touch_must(t->depth == 0);
}

/* What a reader of files at places may be given. */
struct touch_input {
    const uint8_t *p;
    size_t n;
};

static inline bool touch_read(void *ctx, uint64_t offset, void *to, size_t n)
{
    const struct touch_input *b = ctx;

    if (offset > b->n || n > b->n - offset) {
        return false;
    }
    memcpy(to, b->p + offset, n);
    return true;
}

/* A copy of exactly this size, so that one byte beyond is seen. */
static inline uint8_t *touch_copy(const uint8_t *p, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);

    touch_must(copy != NULL);
    if (n) {
        memcpy(copy, p, n);
    }
    return copy;
}

#endif
