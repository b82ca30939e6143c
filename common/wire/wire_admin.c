#include "common/wire/wire_admin.h"

#include "common/base/mem.h"
#include "common/wire/wire.h"
#include "proto/query.pb-c.h"

#define PACK_BYTES (256u << 10) /* memory for the list, and to repair text in */

#define GET_TEXT(out, m, field) \
    wire_text_copy((out)->field, sizeof(out)->field, (m)->has_##field, &(m)->field)
#define PUT_TEXT(m, in, field, a)                                                               \
    wire_text_put(&(m)->has_##field, &(m)->field, wire_text_of((in)->field, sizeof(in)->field), \
                  sizeof(in)->field - 1, a)

/* -- status -- */

struct owned_status {
    struct wire_status_reply m;
    struct wire_arena arena;
};

static enum err put_figure(Procfleet__V1__Figure *m, const struct wire_figure *f,
                           struct wire_arena *a)
{
    enum err e;

    procfleet__v1__figure__init(m);
    m->value = f->value;
    m->has_value = 1;
    e = wire_text_put(&m->has_name, &m->name, f->name, WIRE_FIGURE_TEXT_MAX, a);
    if (!e) {
        e = wire_text_put(&m->has_labels, &m->labels, f->labels, WIRE_FIGURE_TEXT_MAX, a);
    }
    return e ? e : wire_text_put(&m->has_help, &m->help, f->help, WIRE_FIGURE_TEXT_MAX, a);
}

enum err wire_admin_status_reply_encode(struct buf *out, const struct wire_status_reply *in)
{
    Procfleet__V1__StatusReply m = PROCFLEET__V1__STATUS_REPLY__INIT;
    Procfleet__V1__Figure *items;
    struct wire_arena a;
    enum err e;

    if (in->n > WIRE_FIGURES_MAX) {
        return ERR_INVALID;
    }
    wire_arena_init(&a, PACK_BYTES);
    m.has_started_ns = m.has_now_ns = 1;
    m.started_ns = in->started_ns;
    m.now_ns = in->now_ns;
    m.n_figures = in->n;
    e = wire_text_put(&m.has_version, &m.version, in->version, WIRE_FIGURE_TEXT_MAX, &a);
    items = wire_list(&m.figures, in->n, sizeof *items, &a);
    e = e ? e : items ? ERR_OK : a.bad;
    for (size_t i = 0; !e && i < in->n; i++) {
        e = put_figure(&items[i], &in->figures[i], &a);
    }
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static enum err get_figures(struct wire_status_reply *out, const Procfleet__V1__StatusReply *m,
                            struct wire_arena *a)
{
    struct wire_figure *items;

    if (m->n_figures > WIRE_FIGURES_MAX) {
        return ERR_FULL;
    }
    wire_arena_allow(a, (m->n_figures + 1) * sizeof *items);
    items = wire_arena_array(a, m->n_figures, sizeof *items);
    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_figures; i++) {
        const Procfleet__V1__Figure *f = m->figures[i];

        if (!wire_text_get(&items[i].name, f->has_name, &f->name, WIRE_FIGURE_TEXT_MAX) ||
            !wire_text_get(&items[i].labels, f->has_labels, &f->labels, WIRE_FIGURE_TEXT_MAX) ||
            !wire_text_get(&items[i].help, f->has_help, &f->help, WIRE_FIGURE_TEXT_MAX)) {
            return ERR_CORRUPT;
        }
        items[i].value = f->value;
    }
    out->figures = items;
    out->n = m->n_figures;
    return ERR_OK;
}

enum err wire_admin_status_reply_decode(struct wire_status_reply **out, const void *p, size_t n)
{
    struct owned_status *o = mem_zalloc(sizeof *o);
    Procfleet__V1__StatusReply *m;
    enum err e;

    if (!o) {
        return ERR_NOMEM;
    }
    wire_arena_init(&o->arena, 0);
    e = wire_unpack(&m, &o->arena, &procfleet__v1__status_reply__descriptor, p, n);
    if (!e && !wire_text_get(&o->m.version, m->has_version, &m->version, WIRE_FIGURE_TEXT_MAX)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        o->m.started_ns = m->started_ns;
        o->m.now_ns = m->now_ns;
        e = get_figures(&o->m, m, &o->arena);
    }
    if (e) {
        wire_admin_status_reply_free(&o->m);
        return e;
    }
    *out = &o->m;
    return ERR_OK;
}

void wire_admin_status_reply_free(struct wire_status_reply *m)
{
    struct owned_status *o = (struct owned_status *)m;

    if (o) {
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}

/* -- what is one field -- */

enum err wire_admin_disconnect_encode(struct buf *out, const struct wire_disconnect *in)
{
    Procfleet__V1__DisconnectRequest m = PROCFLEET__V1__DISCONNECT_REQUEST__INIT;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    e = PUT_TEXT(&m, in, host, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_admin_disconnect_decode(struct wire_disconnect *out, const void *p, size_t n)
{
    struct wire_disconnect v = {""};
    Procfleet__V1__DisconnectRequest *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__disconnect_request__descriptor, p, n);
    if (!e && !GET_TEXT(&v, m, host)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_admin_disconnect_reply_encode(struct buf *out, const struct wire_disconnect_reply *in)
{
    Procfleet__V1__DisconnectReply m = PROCFLEET__V1__DISCONNECT_REPLY__INIT;

    m.has_connections = 1;
    m.connections = in->connections;
    return wire_pack(out, &m);
}

enum err wire_admin_disconnect_reply_decode(struct wire_disconnect_reply *out, const void *p,
                                            size_t n)
{
    Procfleet__V1__DisconnectReply *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__disconnect_reply__descriptor, p, n);
    if (!e) {
        *out = (struct wire_disconnect_reply){m->connections};
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_admin_log_level_encode(struct buf *out, const struct wire_log_level *in)
{
    Procfleet__V1__SetLogLevelRequest m = PROCFLEET__V1__SET_LOG_LEVEL_REQUEST__INIT;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    e = PUT_TEXT(&m, in, level, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_admin_log_level_decode(struct wire_log_level *out, const void *p, size_t n)
{
    struct wire_log_level v = {""};
    Procfleet__V1__SetLogLevelRequest *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__set_log_level_request__descriptor, p, n);
    if (!e && !GET_TEXT(&v, m, level)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_admin_log_level_reply_encode(struct buf *out, const struct wire_log_level_reply *in)
{
    Procfleet__V1__SetLogLevelReply m = PROCFLEET__V1__SET_LOG_LEVEL_REPLY__INIT;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    e = PUT_TEXT(&m, in, before, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_admin_log_level_reply_decode(struct wire_log_level_reply *out, const void *p,
                                           size_t n)
{
    struct wire_log_level_reply v = {""};
    Procfleet__V1__SetLogLevelReply *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__set_log_level_reply__descriptor, p, n);
    if (!e && !GET_TEXT(&v, m, before)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_admin_forget_encode(struct buf *out, const struct wire_forget *in)
{
    Procfleet__V1__ForgetHostRequest m = PROCFLEET__V1__FORGET_HOST_REQUEST__INIT;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    e = PUT_TEXT(&m, in, host, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_admin_forget_decode(struct wire_forget *out, const void *p, size_t n)
{
    struct wire_forget v = {""};
    Procfleet__V1__ForgetHostRequest *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__forget_host_request__descriptor, p, n);
    if (!e && !GET_TEXT(&v, m, host)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_admin_forget_reply_encode(struct buf *out, const struct wire_forget_reply *in)
{
    Procfleet__V1__ForgetHostReply m = PROCFLEET__V1__FORGET_HOST_REPLY__INIT;

    m.has_hosts = 1;
    m.hosts = in->hosts;
    return wire_pack(out, &m);
}

enum err wire_admin_forget_reply_decode(struct wire_forget_reply *out, const void *p, size_t n)
{
    Procfleet__V1__ForgetHostReply *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__forget_host_reply__descriptor, p, n);
    if (!e) {
        *out = (struct wire_forget_reply){m->hosts};
    }
    wire_arena_fini(&a);
    return e;
}
