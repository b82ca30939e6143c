/* Updates to bytes without building the message first: of the live stream's processor time that
 * took a third. Rows, their instances and events are written here, in the order and with the field
 * numbers of query.proto and telemetry.proto; all else is protobuf-c's. The bytes are those of
 * wire_update_pack (test_wire_update compares the two) unless the answer has fields behind its
 * events, of the feed's metrics_high alone: those come first here. wire_update_pack is also for
 * updates whose text has to be repaired, and with events of providers, whose types are such a
 * field. */
#include "common/wire/wire_update.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/varint.h"
#include "common/wire/wire_answer.h"
#include "common/wire/wire_info.h"
#include "common/wire/wire_rows.h"

#define UPDATE_BYTES (8u << 20) /* to unpack one: many small events take far more than they have */

#define PART_ROOM 256u /* of a row or an event without its values and text, with what is spare */
#define LENGTH    2u   /* bytes set aside for the length of a part: none has 16 KiB */

enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2 };

#define TAG(field, type) ((uint8_t)((field) << 3 | (type)))

struct owned_update {
    struct wire_update u;
    struct wire_arena arena;
};

/* -- by way of the message -- */

enum err wire_update_put(Procfleet__V1__Update *m, const struct wire_update *u,
                         struct wire_arena *a)
{
    enum err e;

    procfleet__v1__update__init(m);
    m->data = wire_arena_array(a, 1, sizeof *m->data);
    if (!m->data) {
        return a->bad;
    }
    wire_uuid_put(&m->has_host, &m->host, &u->host);
    e = wire_answer_put(m->data, &u->data, a);
    return e ? e : WIRE_PUT_TEXT(m, name, u->name, MODEL_HOST_NAME_MAX, a);
}

enum err wire_update_pack(struct buf *out, const struct wire_update *u)
{
    Procfleet__V1__Update m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, WIRE_ANSWER_PACK_BYTES);
    e = wire_update_put(&m, u, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_update_get(struct wire_update *u, const Procfleet__V1__Update *m,
                         struct wire_arena *a)
{
    if (!wire_uuid_get(&u->host, m->has_host, &m->host) ||
        !wire_text_get(&u->name, m->has_name, &m->name, MODEL_HOST_NAME_MAX)) {
        return ERR_CORRUPT;
    }
    return m->data ? wire_answer_get(&u->data, m->data, a) : ERR_OK;
}

enum err wire_update_decode(struct wire_update **out, const void *p, size_t n)
{
    struct owned_update *o = mem_zalloc(sizeof *o);
    Procfleet__V1__Update *m;
    enum err e;

    if (!o) {
        return ERR_NOMEM;
    }
    wire_arena_init(&o->arena, 0);
    e = wire_unpack_within(&m, &o->arena, &procfleet__v1__update__descriptor, p, n, UPDATE_BYTES);
    if (!e) {
        e = wire_update_get(&o->u, m, &o->arena);
    }
    if (e) {
        wire_update_free(&o->u);
        return e;
    }
    *out = &o->u;
    return ERR_OK;
}

void wire_update_free(struct wire_update *u)
{
    struct owned_update *o = (struct owned_update *)u;

    if (o) {
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}

/* -- fields; p has room -- */

static inline uint8_t *put_number(uint8_t *p, unsigned field, uint64_t v)
{
    *p++ = TAG(field, VARINT);
    return varint_put(p, v);
}

static inline uint8_t *put_nonzero(uint8_t *p, unsigned field, uint64_t v)
{
    return v ? put_number(p, field, v) : p;
}

static inline uint8_t *put_fixed(uint8_t *p, unsigned field, uint64_t v)
{
    *p++ = TAG(field, FIXED64);
    v = varint_little_endian(v);
    memcpy(p, &v, sizeof v);
    return p + sizeof v;
}

static inline uint8_t *put_bytes(uint8_t *p, unsigned field, struct str s)
{
    *p++ = TAG(field, BYTES);
    p = varint_put(p, s.n);
    memcpy(p, s.n ? s.p : "", s.n);
    return p + s.n;
}

static inline uint8_t *put_text(uint8_t *p, unsigned field, struct str s)
{
    return s.n ? put_bytes(p, field, s) : p;
}

/* A part begins: its content comes where this points. */
static inline uint8_t *part_begin(uint8_t *p, unsigned field)
{
    *p = TAG(field, BYTES);
    return p + 1 + LENGTH;
}

/* Its length is known; gives its end. */
static inline uint8_t *part_end(uint8_t *content, uint8_t *end)
{
    size_t n = (size_t)(end - content), spare = LENGTH - varint_size(n);

    varint_put(content - LENGTH, n);
    if (spare) {
        memmove(content - spare, content, n);
    }
    return end - spare;
}

/* -- instances -- */

static size_t info_text(const struct proc_info *i)
{
    return i->name.n + i->image.n + i->command_line.n + i->user.n;
}

static bool info_is_plain(const struct proc_info *i)
{
    return wire_text_ok(i->name.p, i->name.n, MODEL_TEXT_MAX) &&
           wire_text_ok(i->image.p, i->image.n, MODEL_TEXT_MAX) &&
           wire_text_ok(i->command_line.p, i->command_line.n, MODEL_COMMAND_LINE_MAX) &&
           wire_text_ok(i->user.p, i->user.n, MODEL_TEXT_MAX);
}

static uint8_t *put_info(uint8_t *p, unsigned field, const struct proc_info *i)
{
    uint8_t *content = part_begin(p, field);

    p = put_number(content, 1, i->id.pid);
    p = i->id.start ? put_fixed(p, 2, i->id.start) : p;
    p = put_nonzero(p, 3, i->origin);
    p = put_nonzero(p, 4, i->cpu_origin);
    p = put_nonzero(p, 5, wire_info_flags(i));
    p = i->have & INFO_PARENT ? put_number(p, 6, i->parent_pid) : p;
    p = i->parent_start ? put_fixed(p, 7, i->parent_start) : p;
    p = i->have & INFO_SESSION ? put_number(p, 8, i->session_id) : p;
    p = i->have & INFO_EXIT_CODE ? put_number(p, 9, i->exit_code) : p;
    p = i->have & INFO_CREATE_TIME ? put_fixed(p, 10, (uint64_t)i->create_ns) : p;
    p = i->have & INFO_EXIT_TIME ? put_fixed(p, 11, (uint64_t)i->exit_ns) : p;
    p = put_text(p, 12, i->name);
    p = put_text(p, 13, i->image);
    p = i->have & INFO_COMMAND_LINE_KNOWN ? put_bytes(p, 14, i->command_line)
                                          : put_text(p, 14, i->command_line);
    p = put_text(p, 15, i->user);
    return part_end(content, p);
}

static bool shares_info(const struct wire_answer *a, size_t row)
{
    return row > 0 && wire_rows_same_info(&a->rows[row].info, &a->rows[row - 1].info);
}

static void put_infos(struct buf *out, const struct wire_answer *a)
{
    for (size_t i = 0; i < a->n_rows; i++) {
        const struct proc_info *info = &a->rows[i].info;
        uint8_t *p = shares_info(a, i) ? NULL : buf_grow(out, PART_ROOM + info_text(info));

        if (p) {
            out->n = (size_t)(put_info(p, 3, info) - out->p);
        }
    }
}

/* -- rows -- */

static uint8_t *put_values(uint8_t *p, unsigned field, const int64_t *values, uint64_t have)
{
    uint8_t *content = part_begin(p, field);
    bool quick = bits_quick();

    if (!have) {
        return p;
    }
    for (p = content; have; have &= have - 1) {
        uint64_t v = varint_zigzag((uint64_t)values[__builtin_ctzll(have)]);

        p = v >> 56 ? varint_put(p, v) : quick ? varint_put_quick(p, v) : varint_put_short(p, v);
    }
    return part_end(content, p);
}

static uint8_t *put_row(uint8_t *p, const struct wire_row *r, uint32_t info, int64_t before_ns,
                        const uint64_t known[2])
{
    uint8_t *content = part_begin(p, 4);
    uint64_t have = r->have & known[0], high = r->have_high & known[1];

    p = put_nonzero(content, 1, r->host);
    p = put_nonzero(p, 2, info);
    p = put_nonzero(p, 3, varint_zigzag((uint64_t)r->when_ns - (uint64_t)before_ns));
    p = put_nonzero(p, 4, have);
    p = put_values(p, 5, r->values, have);
    p = put_nonzero(p, 6, r->instances);
    p = put_nonzero(p, 7, r->hosts);
    p = put_nonzero(p, 8, r->depth);
    if (high) {
        uint8_t *inner = part_begin(p, 9);

        p = put_values(put_number(inner, 1, high), 2, r->values + 64, high);
        p = part_end(inner, p);
    }
    return part_end(content, p);
}

static void put_rows(struct buf *out, const struct wire_answer *a)
{
    const uint64_t known[2] = {wire_rows_known(a->n_metrics, false),
                               wire_rows_known(a->n_metrics, true)};
    uint32_t info = 0;

    for (size_t i = 0; i < a->n_rows; i++) {
        uint8_t *p = buf_grow(out, PART_ROOM + (size_t)VARINT_MOST * a->n_metrics);

        info += i > 0 && !shares_info(a, i);
        if (p) {
            p = put_row(p, &a->rows[i], info, i ? a->rows[i - 1].when_ns : 0, known);
            out->n = (size_t)(p - out->p);
        }
    }
}

/* -- events -- */

static uint8_t *put_event(uint8_t *p, const struct wire_event *e)
{
    const struct life_event *l = &e->event;
    uint8_t *outer = part_begin(p, 5), *inner;

    p = put_nonzero(outer, 1, e->host);
    inner = part_begin(p, 2);
    p = put_number(inner, 1, l->kind);
    p = put_fixed(p, 2, (uint64_t)l->wall_ns);
    p = l->mono_ns ? put_fixed(p, 3, (uint64_t)l->mono_ns) : p;
    p = put_nonzero(p, 4, l->tid);
    p = life_is_of_host(l->kind) ? p : put_info(p, 5, &l->info);
    p = put_text(p, 6, l->text);
    return part_end(outer, part_end(inner, p));
}

static void put_events(struct buf *out, const struct wire_answer *a)
{
    for (size_t i = 0; i < a->n_events; i++) {
        const struct life_event *l = &a->events[i].event;
        uint8_t *p = buf_grow(out, PART_ROOM + info_text(&l->info) + l->text.n);

        if (p) {
            out->n = (size_t)(put_event(p, &a->events[i]) - out->p);
        }
    }
}

/* -- updates -- */

/* What is written here is within its bounds, has no types, and no text needs mending. */
static bool is_plain(const struct wire_answer *a)
{
    bool plain = a->n_rows <= WIRE_ROWS_MAX && a->n_events <= WIRE_ROWS_MAX;

    for (size_t i = 0; plain && i < a->n_rows; i++) {
        plain = a->rows[i].host < a->n_hosts && info_is_plain(&a->rows[i].info);
    }
    for (size_t i = 0; plain && i < a->n_events; i++) {
        const struct life_event *l = &a->events[i].event;

        plain = a->events[i].host < a->n_hosts && !l->type && info_is_plain(&l->info) &&
                wire_text_ok(l->text.p, l->text.n, MODEL_TEXT_MAX);
    }
    return plain;
}

/* The update up to its data, and behind it, as `data`, the answer without rows and events. */
static enum err put_head(struct buf *out, size_t *data, const struct wire_update *u)
{
    struct wire_update head = *u;
    Procfleet__V1__Update m;
    Procfleet__V1__Answer *answer;
    struct wire_arena a;
    enum err e;

    head.data.n_rows = head.data.n_events = 0;
    head.data.series = NULL; /* of rows, which are not in it: updates have none */
    head.data.lifetimes = NULL;
    wire_arena_init(&a, 1u << 20);
    e = wire_update_put(&m, &head, &a);
    if (!e) {
        answer = m.data;
        m.data = NULL;
        e = wire_pack(out, &m);
        *data = out->n;
        e = e ? e : wire_pack(out, answer);
    }
    wire_arena_fini(&a);
    return e;
}

/* Tag and length in front of what begins at `data`. */
static void put_data_length(struct buf *out, size_t data)
{
    size_t n = out->n - data, head = 1 + varint_size(n);

    if (buf_grow(out, head)) {
        memmove(out->p + data + head, out->p + data, n);
        out->p[data] = TAG(3, BYTES);
        varint_put(out->p + data + 1, n);
    }
}

enum err wire_update_encode(struct buf *out, const struct wire_update *u)
{
    size_t start = out->n, data = start;
    enum err e;

    if (!is_plain(&u->data)) {
        return wire_update_pack(out, u);
    }
    e = put_head(out, &data, u);
    if (!e) {
        put_infos(out, &u->data);
        put_rows(out, &u->data);
        put_events(out, &u->data);
        put_data_length(out, data);
        e = out->bad;
    }
    if (e) {
        out->n = start;
    }
    return e;
}
