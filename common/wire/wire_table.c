#include "common/wire/wire_table.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

#define MESSAGE_MAX 1024u /* bytes of a message's struct */

struct owned {
    struct wire_arena arena;
    _Alignas(16) uint8_t ours[];
};

/* -- encode -- */

/* An id or bytes. */
static enum err bytes_put(uint8_t *m, const uint8_t *ours, const struct wire_field *f)
{
    static const struct uuid none;
    ProtobufCBinaryData *to = (ProtobufCBinaryData *)(void *)(m + f->theirs);
    const void *from = ours + f->ours;
    struct str s = {from, 0};
    protobuf_c_boolean has;

    if (f->kind == WIRE_KIND_BYTES) {
        s = *(const struct str *)from;
    } else if (f->kind == WIRE_KIND_DER) {
        memcpy(&s.n, ours + f->n_ours, sizeof s.n);
    } else if (f->kind == WIRE_KIND_UUID || memcmp(from, &none, sizeof none) != 0) {
        s.n = sizeof none;
    }
    has = s.n != 0;
    to->data = (uint8_t *)(uintptr_t)s.p;
    to->len = s.n;
    memcpy(m + f->n_theirs, &has, sizeof has);
    return s.n <= f->max ? ERR_OK : ERR_INVALID;
}

static enum err text_put(uint8_t *m, const struct wire_field *f, struct str s, struct wire_arena *a)
{
    return wire_text_put((protobuf_c_boolean *)(void *)(m + f->n_theirs),
                         (ProtobufCBinaryData *)(void *)(m + f->theirs), s, f->max, a);
}

static enum err metrics_put(uint32_t **out, const uint8_t *from, size_t n, struct wire_arena *a)
{
    *out = wire_arena_alloc(a, n * sizeof **out);
    for (size_t i = 0; *out && i < n; i++) {
        (*out)[i] = from[i];
    }
    return *out ? ERR_OK : a->bad;
}

static enum err texts_put(ProtobufCBinaryData **out, const struct str *from, size_t n, size_t max,
                          struct wire_arena *a)
{
    protobuf_c_boolean has;
    enum err e = ERR_OK;

    *out = wire_arena_alloc(a, n * sizeof **out);
    if (!*out) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < n; i++) {
        e = wire_text_put(&has, &(*out)[i], from[i], max, a);
    }
    return e;
}

enum err wire_table_put_list(void *list, const void *ours, size_t n, const struct wire_table *t,
                             struct wire_arena *a)
{
    size_t size = t->message->sizeof_message;
    uint8_t *items = wire_arena_alloc(a, n * size);
    void **to = wire_arena_alloc(a, n * sizeof *to);
    enum err e = items && to ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < n; i++) {
        to[i] = items + i * size;
        e = wire_table_put(to[i], (const uint8_t *)ours + i * t->size, t, a);
    }
    memcpy(list, &to, sizeof to);
    return e;
}

static enum err list_put(uint8_t *m, const uint8_t *ours, const struct wire_field *f,
                         struct wire_arena *a)
{
    const void *from = ours + f->ours;
    size_t n = ours[f->n_ours];

    if (f->kind != WIRE_KIND_METRICS) {
        memcpy(&n, ours + f->n_ours, sizeof n);
    }
    if (n > f->list_max) {
        return ERR_INVALID;
    }
    memcpy(m + f->n_theirs, &n, sizeof n);
    if (f->kind == WIRE_KIND_TEXTS || f->kind == WIRE_KIND_LIST) {
        from = *(const void *const *)from;
    }
    if (n == 0) {
        return ERR_OK;
    }
    if (f->kind == WIRE_KIND_METRICS) {
        return metrics_put((uint32_t **)(void *)(m + f->theirs), from, n, a);
    }
    if (f->kind == WIRE_KIND_TEXTS || f->kind == WIRE_KIND_TEXTS_IN) {
        return texts_put((ProtobufCBinaryData **)(void *)(m + f->theirs), from, n, f->max, a);
    }
    return wire_table_put_list(m + f->theirs, from, n, f->each, a);
}

static enum err part_put(uint8_t *m, const uint8_t *ours, const struct wire_field *f,
                         struct wire_arena *a)
{
    const void *from = ours + f->ours;
    void *to;

    if (f->kind == WIRE_KIND_SUB) {
        from = *(const void *const *)from;
    } else if (f->n_ours != WIRE_ALWAYS && !ours[f->n_ours]) {
        from = NULL;
    }
    if (!from) {
        return ERR_OK;
    }
    to = wire_arena_alloc(a, f->each->message->sizeof_message);
    memcpy(m + f->theirs, &to, sizeof to);
    return to ? wire_table_put(to, from, f->each, a) : a->bad;
}

/* What is neither a number nor a text. */
static enum err other_put(uint8_t *m, const uint8_t *ours, const struct wire_field *f,
                          struct wire_arena *a)
{
    return f->kind >= WIRE_KIND_SUB       ? part_put(m, ours, f, a)
           : f->kind >= WIRE_KIND_METRICS ? list_put(m, ours, f, a)
                                          : bytes_put(m, ours, f);
}

static inline void has_put(uint8_t *m, const uint8_t *ours, const struct wire_field *f)
{
    protobuf_c_boolean has = f->n_ours >= WIRE_ALWAYS || ours[f->n_ours];

    memcpy(m + f->n_theirs, &has, sizeof has);
}

static inline void small_put(uint8_t *m, const uint8_t *ours, const struct wire_field *f,
                             uint32_t v)
{
    if (v || f->n_ours != WIRE_NONZERO) { /* else it is absent, as it was made */
        memcpy(m + f->theirs, &v, sizeof v);
        has_put(m, ours, f);
    }
}

static inline void large_put(uint8_t *m, const uint8_t *ours, const struct wire_field *f,
                             uint64_t v)
{
    if (v || f->n_ours != WIRE_NONZERO) {
        memcpy(m + f->theirs, &v, sizeof v);
        has_put(m, ours, f);
    }
}

/* Most fields are numbers: those take no call. */
static enum err fields_put(uint8_t *m, const uint8_t *ours, const struct wire_field *f,
                           struct wire_arena *a)
{
    enum err e = ERR_OK;

    for (; !e && f->kind != WIRE_KIND_END; f++) {
        const uint8_t *from = ours + f->ours;
        uint32_t v32;
        uint64_t v;

        switch (f->kind) {
        case WIRE_KIND_BY_HAND:
            continue;
        case WIRE_KIND_BOOL:
        case WIRE_KIND_8:
            small_put(m, ours, f, *from);
            continue;
        case WIRE_KIND_32:
            memcpy(&v32, from, sizeof v32);
            small_put(m, ours, f, v32);
            continue;
        case WIRE_KIND_64:
            memcpy(&v, from, sizeof v);
            large_put(m, ours, f, v);
            continue;
        case WIRE_KIND_POSITIVE:
            memcpy(&v, from, sizeof v);
            large_put(m, ours, f, v > INT64_MAX ? 0 : v);
            continue;
        case WIRE_KIND_TEXT:
            e = text_put(m, f, *(const struct str *)(const void *)from, a);
            continue;
        case WIRE_KIND_CHARS:
            e = text_put(m, f, wire_text_of((const char *)from, f->max + 1), a);
            continue;
        default:
            e = other_put(m, ours, f, a);
        }
    }
    return e;
}

enum err wire_table_put(void *message, const void *ours, const struct wire_table *t,
                        struct wire_arena *a)
{
    enum err e = t->sound && !t->sound(ours) ? ERR_INVALID : ERR_OK;

    protobuf_c_message_init(t->message, message);
    e = e ? e : fields_put(message, ours, t->fields, a);
    return e || !t->put ? e : t->put(message, ours, a);
}

enum err wire_table_encode(struct buf *out, const void *ours, const struct wire_table *t,
                           size_t max_bytes)
{
    union {
        ProtobufCMessage base;
        uint8_t room[MESSAGE_MAX];
    } m;
    struct wire_arena a;
    enum err e;

    assert(t->message->sizeof_message <= sizeof m);
    wire_arena_init(&a, max_bytes);
    e = wire_table_put(&m, ours, t, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

/* -- decode -- */

static enum err text_get(struct str *to, const uint8_t *m, const struct wire_field *f)
{
    const ProtobufCBinaryData *from = (const ProtobufCBinaryData *)(const void *)(m + f->theirs);
    protobuf_c_boolean has = *(const protobuf_c_boolean *)(const void *)(m + f->n_theirs);

    return wire_text_get(to, has, from, f->max) ? ERR_OK : ERR_CORRUPT;
}

static enum err bytes_get(uint8_t *ours, const uint8_t *m, const struct wire_field *f)
{
    const ProtobufCBinaryData *from = (const ProtobufCBinaryData *)(const void *)(m + f->theirs);
    protobuf_c_boolean has = *(const protobuf_c_boolean *)(const void *)(m + f->n_theirs);
    size_t n = has ? from->len : 0;
    void *to = ours + f->ours;
    bool ok;

    switch (f->kind) {
    case WIRE_KIND_CHARS:
        ok = wire_text_copy(to, f->max + 1, has, from);
        break;
    case WIRE_KIND_BYTES:
        *(struct str *)to = n ? (struct str){(const char *)from->data, n} : (struct str){"", 0};
        return n <= f->max ? ERR_OK : ERR_FULL;
    case WIRE_KIND_DER:
        ok = n <= f->max;
        memcpy(ours + f->n_ours, &n, sizeof n);
        if (ok && n) {
            memcpy(to, from->data, n);
        }
        break;
    default:
        ok = wire_uuid_get(to, has, from);
        break;
    }
    return ok ? ERR_OK : ERR_CORRUPT;
}

/* An array in the struct; else one of the arena, which the struct's pointer gets. */
static void *array_get(uint8_t *ours, const struct wire_field *f, bool inside, size_t n,
                       size_t size, struct wire_arena *a)
{
    void *p = ours + f->ours;

    if (!inside) {
        p = wire_arena_array(a, n, size);
        memcpy(ours + f->ours, &p, sizeof p);
    }
    return p;
}

static enum err structs_get(uint8_t *ours, void *const *list, size_t n, const struct wire_table *t,
                            struct wire_arena *a)
{
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < n; i++) {
        e = wire_table_get(ours + i * t->size, list[i], t, a);
    }
    return e;
}

enum err wire_table_get_list(void *ours, const void *list, size_t n, const struct wire_table *t,
                             struct wire_arena *a)
{
    uint8_t *items = wire_arena_array(a, n, t->size);

    memcpy(ours, &items, sizeof items);
    return items ? structs_get(items, list, n, t, a) : a->bad;
}

static enum err list_get(uint8_t *ours, const uint8_t *m, const struct wire_field *f,
                         struct wire_arena *a)
{
    const void *list = *(const void *const *)(const void *)(m + f->theirs);
    bool texts = f->kind == WIRE_KIND_TEXTS || f->kind == WIRE_KIND_TEXTS_IN;
    bool inside = f->kind == WIRE_KIND_TEXTS_IN || f->kind == WIRE_KIND_LIST_IN;
    const ProtobufCBinaryData *text = list;
    void *to;
    size_t n;

    memcpy(&n, m + f->n_theirs, sizeof n);
    if (f->kind == WIRE_KIND_METRICS) {
        return wire_get_bytes(ours + f->ours, ours + f->n_ours, (uint8_t)f->list_max, list, n);
    }
    if (n > f->list_max) {
        return ERR_FULL;
    }
    memcpy(ours + f->n_ours, &n, sizeof n);
    to = array_get(ours, f, inside, n, texts ? sizeof(struct str) : f->each->size, a);
    if (!to) {
        return a->bad;
    }
    if (!texts) {
        return structs_get(to, list, n, f->each, a);
    }
    for (size_t i = 0; i < n; i++) {
        if (!wire_text_get((struct str *)to + i, 1, &text[i], f->max)) {
            return ERR_CORRUPT;
        }
    }
    return ERR_OK;
}

static enum err part_get(uint8_t *ours, const uint8_t *m, const struct wire_field *f,
                         struct wire_arena *a)
{
    const void *from = *(const void *const *)(const void *)(m + f->theirs);
    void *to;

    if (!from) {
        return ERR_OK;
    }
    if (f->kind == WIRE_KIND_PART && f->n_ours != WIRE_ALWAYS) {
        ours[f->n_ours] = true;
    }
    to = array_get(ours, f, f->kind == WIRE_KIND_PART, 1, f->each->size, a);
    return to ? wire_table_get(to, from, f->each, a) : a->bad;
}

static enum err other_get(uint8_t *ours, const uint8_t *m, const struct wire_field *f,
                          struct wire_arena *a)
{
    return f->kind >= WIRE_KIND_SUB       ? part_get(ours, m, f, a)
           : f->kind >= WIRE_KIND_METRICS ? list_get(ours, m, f, a)
                                          : bytes_get(ours, m, f);
}

static inline void flag_get(uint8_t *ours, const uint8_t *m, const struct wire_field *f)
{
    if (f->n_ours < WIRE_ALWAYS) {
        protobuf_c_boolean has;

        memcpy(&has, m + f->n_theirs, sizeof has);
        ours[f->n_ours] = has != 0;
    }
}

static enum err fields_get(uint8_t *ours, const uint8_t *m, const struct wire_field *f,
                           struct wire_arena *a)
{
    enum err e = ERR_OK;

    for (; !e && f->kind != WIRE_KIND_END; f++) {
        const uint8_t *from = m + f->theirs;
        uint8_t *to = ours + f->ours;
        uint32_t v32;
        uint64_t v;

        switch (f->kind) {
        case WIRE_KIND_BY_HAND:
            continue;
        case WIRE_KIND_BOOL:
            memcpy(&v32, from, sizeof v32);
            *to = v32 != 0;
            continue;
        case WIRE_KIND_8:
            memcpy(&v32, from, sizeof v32);
            *to = (uint8_t)v32;
            e = v32 <= UINT8_MAX ? ERR_OK : ERR_CORRUPT;
            continue;
        case WIRE_KIND_32:
            memcpy(to, from, sizeof v32);
            flag_get(ours, m, f);
            continue;
        case WIRE_KIND_64:
            memcpy(to, from, sizeof v);
            flag_get(ours, m, f);
            continue;
        case WIRE_KIND_POSITIVE:
            memcpy(&v, from, sizeof v);
            memcpy(to, &v, sizeof v);
            e = v <= INT64_MAX ? ERR_OK : ERR_CORRUPT;
            continue;
        case WIRE_KIND_TEXT:
            e = text_get((struct str *)(void *)to, m, f);
            continue;
        default:
            e = other_get(ours, m, f, a);
        }
    }
    return e;
}

enum err wire_table_get(void *ours, const void *message, const struct wire_table *t,
                        struct wire_arena *a)
{
    enum err e = fields_get(ours, message, t->fields, a);

    e = e || !t->get ? e : t->get(ours, message, a);
    return e || !t->sound || t->sound(ours) ? e : ERR_CORRUPT;
}

enum err wire_table_decode(void *ours, const struct wire_table *t, const void *p, size_t n)
{
    struct wire_arena a;
    void *m, *v;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, t->message, p, n);
    if (!e) {
        wire_arena_allow(&a, t->size);
        v = wire_arena_array(&a, 1, t->size);
        e = v ? wire_table_get(v, m, t, &a) : a.bad;
        if (!e) {
            memcpy(ours, v, t->size);
        }
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_table_owned(void *out, const struct wire_table *t, size_t budget, size_t more,
                          const void *p, size_t n)
{
    struct owned *o = mem_zalloc(sizeof *o + t->size);
    void *m, *ours;
    enum err e;

    if (!o) {
        return ERR_NOMEM;
    }
    wire_arena_init(&o->arena, 0);
    e = budget ? wire_unpack_within(&m, &o->arena, t->message, p, n, budget)
               : wire_unpack(&m, &o->arena, t->message, p, n);
    if (!e && more) {
        wire_arena_allow(&o->arena, more);
    }
    e = e ? e : wire_table_get(o->ours, m, t, &o->arena);
    ours = o->ours;
    if (e) {
        wire_table_free(ours);
        return e;
    }
    memcpy(out, &ours, sizeof ours);
    return ERR_OK;
}

void wire_table_free(void *ours)
{
    struct owned *o =
        ours ? (struct owned *)(void *)((uint8_t *)ours - offsetof(struct owned, ours)) : NULL;

    if (o) {
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}
