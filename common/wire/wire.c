#include "common/wire/wire.h"

#include <stddef.h>
#include <string.h>

#include "common/base/mem.h"

#define CHUNK_MAX     65536u
#define LARGE_BYTES   16384u /* from here a chunk of its own, given back when freed */
#define ALIGN         16u
#define BUDGET_FACTOR 20u
#define BUDGET_BASE   16384u /* for a list of messages that are empty */
#define BUDGET_MAX    (8u << 20)

struct wire_chunk {
    struct wire_chunk *next;
    size_t n; /* of data */
    _Alignas(16) uint8_t data[];
};

static void *pb_alloc(void *ctx, size_t n)
{
    return wire_arena_alloc(ctx, n);
}

/* protobuf-c gives back its long tables of scanned members while it is still unpacking: those have
 * chunks of their own. Small pieces stay until the end. */
static void pb_free(void *ctx, void *p)
{
    struct wire_arena *a = ctx;

    for (struct wire_chunk **at = &a->whole; p && *at; at = &(*at)->next) {
        struct wire_chunk *c = *at;

        if (c->data == p) {
            *at = c->next;
            a->used -= c->n;
            mem_free(c);
            return;
        }
    }
}

void wire_arena_init(struct wire_arena *a, size_t max_bytes)
{
    memset(a, 0, sizeof *a);
    a->max = max_bytes;
    a->allocator.alloc = pb_alloc;
    a->allocator.free = pb_free;
    a->allocator.allocator_data = a;
}

static void free_chunks(struct wire_chunk **list)
{
    while (*list) {
        struct wire_chunk *c = *list;

        *list = c->next;
        mem_free(c);
    }
}

void wire_arena_fini(struct wire_arena *a)
{
    free_chunks(&a->chunks);
    free_chunks(&a->whole);
    a->at = a->end = NULL;
    a->used = 0;
}

static struct wire_chunk *add_chunk(struct wire_arena *a, size_t n, struct wire_chunk **list)
{
    struct wire_chunk *c = mem_alloc(sizeof *c + n);

    if (!c) {
        a->bad = a->bad ? a->bad : ERR_NOMEM;
        return NULL;
    }
    c->n = n;
    c->next = *list;
    *list = c;
    return c;
}

void *wire_arena_alloc(struct wire_arena *a, size_t n)
{
    struct wire_chunk *c;
    uint8_t *p;

    if (n > a->max || a->used > a->max - n) {
        a->bad = a->bad ? a->bad : ERR_FULL;
        return NULL;
    }
    n = n ? (n + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    if (n >= LARGE_BYTES) {
        c = add_chunk(a, n, &a->whole);
        a->used += c ? n : 0;
        return c ? c->data : NULL;
    }
    if ((size_t)(a->end - a->at) < n) {
        size_t size = a->used < LARGE_BYTES ? LARGE_BYTES : CHUNK_MAX;

        c = add_chunk(a, size, &a->chunks);
        if (!c) {
            return NULL;
        }
        a->at = c->data;
        a->end = c->data + c->n;
    }
    p = a->at;
    a->at += n;
    a->used += n;
    return p;
}

void *wire_arena_array(struct wire_arena *a, size_t n, size_t size)
{
    void *p;

    if (size && n > a->max / size) {
        a->bad = a->bad ? a->bad : ERR_FULL;
        return NULL;
    }
    p = wire_arena_alloc(a, n * size);
    if (p) {
        memset(p, 0, n * size);
    }
    return p;
}

void wire_arena_allow(struct wire_arena *a, size_t n)
{
    a->max = a->used + n;
}

enum err wire_unpack(void *out, struct wire_arena *a, const ProtobufCMessageDescriptor *type,
                     const void *p, size_t n)
{
    size_t max = n > BUDGET_MAX / BUDGET_FACTOR ? BUDGET_MAX : BUDGET_BASE + BUDGET_FACTOR * n;

    return wire_unpack_within(out, a, type, p, n, max);
}

enum err wire_unpack_within(void *out, struct wire_arena *a, const ProtobufCMessageDescriptor *type,
                            const void *p, size_t n, size_t max_bytes)
{
    static const uint8_t nothing[1];
    ProtobufCMessage *m;

    a->max = max_bytes;
    m = protobuf_c_message_unpack(type, &a->allocator, n, n ? p : nothing);
    if (!m) {
        return a->bad ? a->bad : ERR_CORRUPT;
    }
    memcpy(out, &m, sizeof m);
    return ERR_OK;
}

enum err wire_pack(struct buf *out, const void *message)
{
    const ProtobufCMessage *m = message;
    uint8_t *to = buf_grow(out, protobuf_c_message_get_packed_size(m));

    if (to) {
        protobuf_c_message_pack(m, to);
    }
    return out->bad;
}

void *wire_list(void *list_out, size_t n, size_t size, struct wire_arena *a)
{
    uint8_t *items = wire_arena_array(a, n, size);
    void **list = wire_arena_array(a, n, sizeof *list);

    if (!items || !list) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        list[i] = items + i * size;
    }
    memcpy(list_out, &list, sizeof list);
    return items;
}

enum err wire_get_bytes(uint8_t *out, uint8_t *n_out, uint8_t max, const uint32_t *v, size_t n)
{
    if (n > max) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (v[i] > UINT8_MAX) {
            return ERR_CORRUPT;
        }
        out[i] = (uint8_t)v[i];
    }
    *n_out = (uint8_t)n;
    return ERR_OK;
}

/* Length of the well-formed character at p (no surrogates, no overlong forms, no NUL); 0 = none. */
static size_t utf8_char(const uint8_t *p, size_t left)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc0 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t c = n == 1 ? p[0] : n == 0 ? 0 : p[0] & (0x7fu >> n);

    if (n == 0 || n > left || p[0] == 0 || p[0] > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        c = c << 6 | (p[i] & 0x3f);
    }
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

/* Eight bytes of ASCII without a NUL, as most text is. */
static bool eight_plain(const uint8_t *p)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return ((v | (v - ones)) & (ones << 7)) == 0; /* a zero byte borrows */
}

bool wire_text_ok(const void *p, size_t n, size_t max_bytes)
{
    const uint8_t *s = p;

    if (n > max_bytes) {
        return false;
    }
    for (size_t i = 0; i < n;) {
        size_t k;

        if (n >= 8 && n - i < 8 && eight_plain(s + n - 8)) {
            return true;
        }
        k = n - i >= 8 && eight_plain(s + i) ? 8 : utf8_char(s + i, n - i);

        if (k == 0) {
            return false;
        }
        i += k;
    }
    return true;
}

bool wire_text_get(struct str *out, protobuf_c_boolean has, const ProtobufCBinaryData *t,
                   size_t max_bytes)
{
    struct str s = {"", 0};

    if (has && t->len) {
        if (!wire_text_ok(t->data, t->len, max_bytes)) {
            return false;
        }
        s.p = (const char *)t->data;
        s.n = t->len;
    }
    *out = s;
    return true;
}

bool wire_text_copy(char *out, size_t size, protobuf_c_boolean has, const ProtobufCBinaryData *t)
{
    struct str s;

    if (!wire_text_get(&s, has, t, size - 1)) {
        return false;
    }
    memcpy(out, s.p, s.n);
    out[s.n] = '\0';
    return true;
}

struct str wire_text_of(const char *s, size_t size)
{
    const char *nul = memchr(s, 0, size);
    struct str t = {s, nul ? (size_t)(nul - s) : size};

    return t;
}

/* A copy of s in the arena, repaired; its length is at most max_bytes. */
static uint8_t *text_repair(size_t *n, struct str s, size_t max_bytes, struct wire_arena *a)
{
    const uint8_t *p = (const uint8_t *)s.p;
    uint8_t *to = wire_arena_alloc(a, s.n < max_bytes ? s.n : max_bytes);
    size_t at = 0;

    for (size_t i = 0; to && i < s.n;) {
        size_t k = utf8_char(p + i, s.n - i);

        if (at + (k ? k : 1) > max_bytes) {
            break;
        }
        if (k) {
            memcpy(to + at, p + i, k);
        } else {
            to[at] = '?';
        }
        at += k ? k : 1;
        i += k ? k : 1;
    }
    *n = at;
    return to;
}

enum err wire_text_put(protobuf_c_boolean *has, ProtobufCBinaryData *t, struct str s,
                       size_t max_bytes, struct wire_arena *a)
{
    static uint8_t nothing[1];

    t->data = nothing; /* protobuf-c copies from it even when the length is 0 */
    t->len = 0;
    if (s.n == 0) {
        return ERR_OK;
    }
    if (wire_text_ok(s.p, s.n, max_bytes)) {
        t->data = (uint8_t *)(uintptr_t)s.p;
        t->len = s.n;
    } else {
        t->data = text_repair(&t->len, s, max_bytes, a);
        if (!t->data) {
            return a->bad;
        }
    }
    *has = 1;
    return ERR_OK;
}

bool wire_uuid_get(struct uuid *out, protobuf_c_boolean has, const ProtobufCBinaryData *t)
{
    struct uuid id = {{0}};

    if (has && t->len != sizeof id.b) {
        return false;
    }
    if (has) {
        memcpy(id.b, t->data, sizeof id.b);
    }
    *out = id;
    return true;
}

void wire_uuid_put(protobuf_c_boolean *has, ProtobufCBinaryData *t, const struct uuid *id)
{
    *has = 1;
    t->data = (uint8_t *)(uintptr_t)id->b;
    t->len = sizeof id->b;
}
