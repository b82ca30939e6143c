#include "common/model/event_values.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/glob.h"
#include "common/base/utf8.h"
#include "common/base/varint.h"

enum {
    KIND_ABSENT = 0,
    KIND_FLOAT32 = 12, /* the others of one value are enum value_kind, and one */
    KIND_ARRAY = 14,
    KIND_STRUCT = 15,
    COUNT_BYTES = 2,    /* of a group: LEB128 in so many bytes, whatever it is */
    COUNT_MAX = 0x3fff, /* what they hold */
};

/* Each further field must at least be told absent. */
#define VALUES_SPARE EVENT_VALUES_FIELDS

/* -- writing -- */

static bool values_room(struct event_values *w, size_t n)
{
    bool room = w->n + n <= EVENT_VALUES_MAX - VALUES_SPARE;

    w->cut = w->cut || !room;
    return room;
}

/* A reader refuses what is longer, or no UTF-8. */
static struct str values_text(struct event_values *w, struct str s, size_t max)
{
    size_t n = s.n > max ? utf8_cut(s.p, s.n, max) : s.n;

    n = n ? utf8_whole(s.p, n) : 0;
    w->cut = w->cut || n < s.n;
    s.n = n;
    return s;
}

static void values_put(struct event_values *w, const void *p, size_t n)
{
    if (n) {
        memcpy(w->bytes + w->n, p, n);
    }
    w->n += n;
}

static void values_put_number(struct event_values *w, uint64_t v)
{
    w->n = (size_t)(varint_put(w->bytes + w->n, v) - w->bytes);
}

/* A field's name; false: there is no room for the field, not even an absent one. */
static bool values_name_field(struct event_values *w, struct str name)
{
    name = values_text(w, name, EVENT_VALUES_NAME);
    if (w->n_fields == EVENT_VALUES_FIELDS || w->names_n + name.n > sizeof w->names) {
        w->cut = true;
        return false;
    }
    w->fields[w->n_fields++] = (struct str){w->names + w->names_n, name.n};
    if (name.n) {
        memcpy(w->names + w->names_n, name.p, name.n);
    }
    w->names_n += name.n;
    return true;
}

/* What stands before an item of `n` bytes: its name where it has to be told, in the group its
 * place. False: it is left out. */
static bool values_item(struct event_values *w, struct str name, size_t n)
{
    bool member = w->depth && !w->open[w->depth - 1].array;

    if (w->hidden) {
        return false;
    }
    if (!w->depth) {
        if (!values_name_field(w, name)) {
            return false;
        }
        if (!values_room(w, n)) {
            w->bytes[w->n++] = KIND_ABSENT;
            return false;
        }
        return true;
    }
    name = values_text(w, name, EVENT_VALUES_NAME);
    n += member ? VARINT_MOST + name.n : 0;
    if (w->open[w->depth - 1].count == COUNT_MAX || !values_room(w, n)) {
        w->cut = true;
        return false;
    }
    w->open[w->depth - 1].count++;
    if (member) {
        values_put_number(w, name.n);
        values_put(w, name.p, name.n);
    }
    return true;
}

static void values_put_float(struct event_values *w, const struct value *v)
{
    float small = (float)v->v.f;
    uint64_t bits = 0;

    if (v->bits == 32) {
        uint32_t half;

        memcpy(&half, &small, sizeof half);
        bits = half;
    } else {
        memcpy(&bits, &v->v.f, sizeof bits);
    }
    bits = varint_little_endian(bits);
    w->bytes[w->n++] = v->bits == 32 ? KIND_FLOAT32 : VALUE_FLOAT + 1;
    values_put(w, &bits, v->bits == 32 ? 4 : 8);
}

static void values_take(void *ctx, const struct value *v)
{
    struct event_values *w = ctx;
    bool text = v->kind == VALUE_TEXT || v->kind == VALUE_SID;
    bool bytes = v->kind == VALUE_BYTES || v->kind == VALUE_ADDRESS || v->kind == VALUE_GUID;
    struct str s = {NULL, 0};

    if (text) {
        s = values_text(w, v->v.text, EVENT_VALUES_TEXT);
    } else if (bytes) {
        s = (struct str){(const char *)v->v.bytes.p, v->v.bytes.n};
        w->cut = w->cut || s.n > EVENT_VALUES_TEXT;
        s.n = s.n < EVENT_VALUES_TEXT ? s.n : EVENT_VALUES_TEXT;
    }
    if (!values_item(w, v->name, 1 + VARINT_MOST + s.n)) {
        return;
    }
    if (v->kind == VALUE_FLOAT) {
        values_put_float(w, v);
        return;
    }
    w->bytes[w->n++] = (uint8_t)(v->kind + 1);
    if (v->kind == VALUE_GUID) {
        values_put(w, s.p, 16);
    } else if (text || bytes) {
        values_put_number(w, s.n);
        values_put(w, s.p, s.n);
    } else {
        bool is_signed = v->kind == VALUE_INT || v->kind == VALUE_TIME;

        values_put_number(w, is_signed ? varint_zigzag((uint64_t)v->v.i) : v->v.u);
    }
}

static void values_open(void *ctx, struct str name, enum value_group group)
{
    struct event_values *w = ctx;

    if (w->hidden || w->depth == EVENT_VALUES_DEPTH || !values_item(w, name, 1 + COUNT_BYTES)) {
        if (!w->hidden && w->depth == EVENT_VALUES_DEPTH) {
            w->cut = true;
        }
        w->hidden++;
        return;
    }
    w->bytes[w->n++] = group == VALUE_ARRAY ? KIND_ARRAY : KIND_STRUCT;
    w->open[w->depth].count_at = w->n;
    w->open[w->depth].count = 0;
    w->open[w->depth++].array = group == VALUE_ARRAY;
    w->n += COUNT_BYTES;
}

static void values_close(void *ctx)
{
    struct event_values *w = ctx;
    uint8_t *at;
    uint16_t count;

    if (w->hidden) {
        w->hidden--;
        return;
    }
    if (!w->depth) {
        return;
    }
    count = w->open[--w->depth].count;
    at = w->bytes + w->open[w->depth].count_at;
    at[0] = (uint8_t)(0x80 | (count & 0x7f));
    at[1] = (uint8_t)(count >> 7);
}

struct value_sink event_values_begin(struct event_values *w)
{
    struct value_sink s = {w, values_take, values_open, values_close};

    w->n = w->n_fields = w->names_n = 0;
    w->depth = w->hidden = 0;
    w->cut = false;
    return s;
}

/* -- reading -- */

static struct str read_bytes(struct cur *c, size_t max)
{
    uint64_t n = cur_varint(c);
    const uint8_t *p = n <= max ? cur_bytes(c, (size_t)n) : NULL;

    if (!p) {
        c->bad = true;
        return (struct str){"", 0};
    }
    return (struct str){(const char *)p, (size_t)n};
}

static struct str read_text(struct cur *c, size_t max)
{
    struct str s = read_bytes(c, max);

    c->bad = c->bad || utf8_whole(s.p, s.n) != s.n;
    return s;
}

static double read_float(struct cur *c, bool small)
{
    uint64_t bits = small ? cur_u32le(c) : cur_u64le(c);
    uint32_t half = (uint32_t)bits;
    float f;
    double d;

    memcpy(&f, &half, sizeof f);
    memcpy(&d, &bits, sizeof d);
    return small ? (double)f : d;
}

/* Everything but groups. */
static void read_value(struct cur *c, struct value *v, uint8_t kind)
{
    struct str s;

    v->kind = (uint8_t)(kind - 1);
    switch (kind) {
    case VALUE_INT + 1:
    case VALUE_TIME + 1:
        v->v.i = cur_svarint(c);
        return;
    case VALUE_UINT + 1:
    case VALUE_HEX + 1:
        v->v.u = cur_varint(c);
        return;
    case VALUE_BOOL + 1:
        v->v.u = cur_varint(c);
        c->bad = c->bad || v->v.u > 1;
        return;
    case VALUE_FLOAT + 1:
    case KIND_FLOAT32:
        v->kind = VALUE_FLOAT;
        v->bits = kind == KIND_FLOAT32 ? 32 : 64;
        v->v.f = read_float(c, kind == KIND_FLOAT32);
        return;
    case VALUE_TEXT + 1:
    case VALUE_SID + 1:
        v->v.text = read_text(c, EVENT_VALUES_TEXT);
        return;
    case VALUE_GUID + 1:
        v->v.bytes.p = cur_bytes(c, 16);
        v->v.bytes.n = 16;
        return;
    case VALUE_ADDRESS + 1:
    case VALUE_BYTES + 1:
        s = read_bytes(c, EVENT_VALUES_TEXT);
        v->v.bytes.p = (const uint8_t *)s.p;
        v->v.bytes.n = s.n;
        return;
    default:
        c->bad = true;
    }
}

struct reader {
    struct cur c;
    const struct value_sink *sink; /* NULL: it is only checked */
    struct {
        uint64_t left;
        bool array;
    } open[EVENT_VALUES_DEPTH];
    unsigned depth;
};

static void read_item(struct reader *r, struct str name)
{
    uint8_t kind = cur_u8(&r->c);
    struct value v = {.name = name};

    if (kind == KIND_ABSENT) {
        return;
    }
    if (kind != KIND_ARRAY && kind != KIND_STRUCT) {
        read_value(&r->c, &v, kind);
        if (!r->c.bad && r->sink) {
            r->sink->value(r->sink->ctx, &v);
        }
        return;
    }
    if (r->depth == EVENT_VALUES_DEPTH) {
        r->c.bad = true;
        return;
    }
    r->open[r->depth].array = kind == KIND_ARRAY;
    r->open[r->depth].left = cur_varint(&r->c);
    r->c.bad = r->c.bad || r->open[r->depth].left > COUNT_MAX;
    r->depth++;
    if (!r->c.bad && r->sink) {
        r->sink->begin(r->sink->ctx, name, kind == KIND_ARRAY ? VALUE_ARRAY : VALUE_STRUCT);
    }
}

/* Up to the end of all groups that are open. */
static void read_groups(struct reader *r)
{
    while (r->depth && !r->c.bad) {
        bool array = r->open[r->depth - 1].array;

        if (r->open[r->depth - 1].left == 0) {
            r->depth--;
            if (r->sink) {
                r->sink->end(r->sink->ctx);
            }
            continue;
        }
        r->open[r->depth - 1].left--;
        read_item(r, array ? (struct str){"", 0} : read_text(&r->c, EVENT_VALUES_NAME));
    }
}

static enum err read_all(const struct str *fields, size_t n_fields, struct str values,
                         const struct value_sink *sink)
{
    struct reader r = {.c = cur_make(values.p, values.n), .sink = sink};

    if (n_fields > EVENT_VALUES_FIELDS || values.n > EVENT_VALUES_MAX) {
        return ERR_CORRUPT;
    }
    for (size_t i = 0; i < n_fields && !r.c.bad; i++) {
        read_item(&r, fields ? fields[i] : (struct str){"", 0});
        read_groups(&r);
    }
    return r.c.bad || cur_left(&r.c) ? ERR_CORRUPT : ERR_OK;
}

enum err event_values_read(const struct str *fields, size_t n_fields, struct str values,
                           const struct value_sink *sink)
{
    return read_all(fields, n_fields, values, sink);
}

bool event_values_ok(size_t n_fields, struct str values)
{
    return read_all(NULL, n_fields, values, NULL) == ERR_OK;
}

/* -- one of them -- */

struct search {
    struct value *out;
    struct str names[EVENT_VALUES_DEPTH + 1]; /* what is looked for, outermost first */
    unsigned n;
    unsigned depth, on; /* groups open; how many of them are on the way */
    bool found;
};

static bool search_is(const struct search *s, struct str name)
{
    return s->on == s->depth && s->on < s->n && str_eq(name, s->names[s->on]);
}

static void search_value(void *ctx, const struct value *v)
{
    struct search *s = ctx;

    if (!s->found && s->depth + 1 == s->n && search_is(s, v->name)) {
        *s->out = *v;
        s->found = true;
    }
}

static void search_begin(void *ctx, struct str name, enum value_group group)
{
    struct search *s = ctx;

    s->on += group == VALUE_STRUCT && search_is(s, name);
    s->depth++;
}

static void search_end(void *ctx)
{
    struct search *s = ctx;

    s->depth--;
    s->on = s->on < s->depth ? s->on : s->depth;
}

bool event_values_find(struct value *out, const struct event_type *type, struct str values,
                       struct str name)
{
    struct search s = {.out = out};
    const struct value_sink sink = {&s, search_value, search_begin, search_end};

    /* a name with a dot is a field's as well as a path */
    s.names[0] = name;
    s.n = 1;
    if (event_values_read(type->fields, type->n_fields, values, &sink) == ERR_OK && s.found) {
        return true;
    }
    s = (struct search){.out = out};
    while (s.n <= EVENT_VALUES_DEPTH) {
        const char *dot = name.n ? memchr(name.p, '.', name.n) : NULL;
        size_t n = dot ? (size_t)(dot - name.p) : name.n;

        s.names[s.n++] = (struct str){name.p, n};
        if (!dot) {
            break;
        }
        name = (struct str){dot + 1, name.n - n - 1};
    }
    return s.n > 1 && event_values_read(type->fields, type->n_fields, values, &sink) == ERR_OK &&
           s.found;
}

/* -- types -- */

bool event_values_same_type(const struct event_type *a, const struct event_type *b)
{
    bool same = a->id == b->id && a->version == b->version && a->opcode == b->opcode &&
                a->level == b->level && a->keyword == b->keyword && a->n_fields == b->n_fields &&
                memcmp(a->guid, b->guid, sizeof a->guid) == 0 && str_eq(a->name, b->name) &&
                str_eq(a->task, b->task) && str_eq(a->provider, b->provider);

    for (size_t i = 0; same && i < a->n_fields; i++) {
        same = str_eq(a->fields[i], b->fields[i]);
    }
    return same;
}

size_t event_values_type_bytes(const struct event_type *type)
{
    size_t n = sizeof *type + type->n_fields * sizeof *type->fields + type->provider.n +
               type->task.n + type->name.n;

    for (size_t i = 0; i < type->n_fields; i++) {
        n += type->fields[i].n;
    }
    return n;
}

static void type_text(struct str *s, char **at)
{
    if (s->n) {
        memcpy(*at, s->p, s->n);
    }
    s->p = *at;
    *at += s->n;
}

struct event_type *event_values_copy_type(void *room, const struct event_type *type)
{
    struct event_type *copy = room;
    struct str *fields = (struct str *)(void *)(copy + 1);
    char *at = (char *)(fields + type->n_fields);

    *copy = *type;
    type_text(&copy->provider, &at);
    type_text(&copy->task, &at);
    type_text(&copy->name, &at);
    for (size_t i = 0; i < type->n_fields; i++) {
        fields[i] = type->fields[i];
        type_text(&fields[i], &at);
    }
    copy->fields = fields;
    return copy;
}

static bool provider_is(const struct event_type *type, struct str provider)
{
    static const uint8_t from[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    char text[UUID_TEXT];
    struct uuid id;

    if (provider.n == UUID_TEXT + 1 && provider.p[0] == '{') {
        provider.p++;
        provider.n -= 2;
    }
    if (provider.n == UUID_TEXT - 1) {
        memcpy(text, provider.p, provider.n);
        text[provider.n] = 0;
        if (uuid_parse(&id, text) == ERR_OK) {
            bool same = true;

            for (size_t i = 0; i < 16; i++) {
                same = same && id.b[i] == type->guid[from[i]];
            }
            return same;
        }
    }
    return glob_match(provider, type->provider);
}

static bool event_is_id(struct str event, uint16_t *id)
{
    uint32_t v = 0;

    for (size_t i = 0; i < event.n; i++) {
        if (event.p[i] < '0' || event.p[i] > '9') {
            return false;
        }
        v = v * 10 + (uint32_t)(event.p[i] - '0');
        if (v > UINT16_MAX) {
            return false;
        }
    }
    *id = (uint16_t)v;
    return true;
}

static bool event_is(const struct event_type *type, struct str event)
{
    char both[256];
    size_t task = type->task.n < 120 ? type->task.n : 120;
    size_t name = type->name.n < 120 ? type->name.n : 120;
    uint16_t id;

    if (event_is_id(event, &id)) {
        return id == type->id;
    }
    if (glob_match(event, type->name) || (task && glob_match(event, type->task))) {
        return true;
    }
    if (!task || !name) {
        return false;
    }
    memcpy(both, type->task.p, task);
    both[task] = '/';
    memcpy(both + task + 1, type->name.p, name);
    return glob_match(event, (struct str){both, task + 1 + name});
}

bool event_values_is(const struct event_type *type, struct str provider, struct str event)
{
    return (provider.n == 0 || provider_is(type, provider)) &&
           (event.n == 0 || event_is(type, event));
}
