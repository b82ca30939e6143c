#include "common/wire/wire_web.h"

#include "common/base/mem.h"
#include "common/wire/wire.h"
#include "proto/query.pb-c.h"

#define PACK_BYTES (64u << 10) /* memory to repair text in */

#define GET_TEXT(out, m, field, max) \
    wire_text_get(&(out)->field, (m)->has_##field, &(m)->field, max)

struct owned_request {
    struct wire_web_request m;
    struct wire_arena arena;
};

struct owned_reply {
    struct wire_web_reply m;
    struct wire_arena arena;
};

enum err wire_web_request_encode(struct buf *out, const struct wire_web_request *in)
{
    Procfleet__V1__WebRequest m = PROCFLEET__V1__WEB_REQUEST__INIT;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    e = WIRE_PUT_TEXT(&m, path, in->path, WIRE_WEB_PATH_MAX, &a);
    e = e ? e : WIRE_PUT_TEXT(&m, query, in->query, WIRE_WEB_QUERY_MAX, &a);
    e = e ? e : WIRE_PUT_TEXT(&m, accept, in->accept, WIRE_WEB_HEADER_MAX, &a);
    e = e ? e : WIRE_PUT_TEXT(&m, accept_encoding, in->accept_encoding, WIRE_WEB_HEADER_MAX, &a);
    e = e ? e : WIRE_PUT_TEXT(&m, if_none_match, in->if_none_match, WIRE_WEB_HEADER_MAX, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static bool request_get(struct wire_web_request *out, const Procfleet__V1__WebRequest *m)
{
    return GET_TEXT(out, m, path, WIRE_WEB_PATH_MAX) && out->path.n && out->path.p[0] == '/' &&
           GET_TEXT(out, m, query, WIRE_WEB_QUERY_MAX) &&
           GET_TEXT(out, m, accept, WIRE_WEB_HEADER_MAX) &&
           GET_TEXT(out, m, accept_encoding, WIRE_WEB_HEADER_MAX) &&
           GET_TEXT(out, m, if_none_match, WIRE_WEB_HEADER_MAX);
}

enum err wire_web_request_decode(struct wire_web_request **out, const void *p, size_t n)
{
    struct owned_request *o = mem_zalloc(sizeof *o);
    Procfleet__V1__WebRequest *m;
    enum err e;

    if (!o) {
        return ERR_NOMEM;
    }
    wire_arena_init(&o->arena, 0);
    e = wire_unpack(&m, &o->arena, &procfleet__v1__web_request__descriptor, p, n);
    if (!e && !request_get(&o->m, m)) {
        e = ERR_CORRUPT;
    }
    if (e) {
        wire_web_request_free(&o->m);
        return e;
    }
    *out = &o->m;
    return ERR_OK;
}

void wire_web_request_free(struct wire_web_request *m)
{
    struct owned_request *o = (struct owned_request *)m;

    if (o) {
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}

static bool status_is_bounded(uint32_t status)
{
    return status >= 100 && status <= 599;
}

enum err wire_web_reply_encode(struct buf *out, const struct wire_web_reply *in)
{
    Procfleet__V1__WebReply m = PROCFLEET__V1__WEB_REPLY__INIT;
    struct wire_arena a;
    enum err e;

    if (!status_is_bounded(in->status) || in->body.n > WIRE_WEB_BODY_MAX) {
        return ERR_INVALID;
    }
    wire_arena_init(&a, PACK_BYTES);
    WIRE_PUT(&m, status, in->status);
    WIRE_PUT(&m, retry_after_s, in->retry_after_s);
    WIRE_PUT(&m, immutable, in->immutable);
    m.has_body = in->body.n != 0;
    m.body.data = (uint8_t *)(uintptr_t)in->body.p;
    m.body.len = in->body.n;
    e = WIRE_PUT_TEXT(&m, type, in->type, WIRE_WEB_HEADER_MAX, &a);
    e = e ? e : WIRE_PUT_TEXT(&m, encoding, in->encoding, WIRE_WEB_HEADER_MAX, &a);
    e = e ? e : WIRE_PUT_TEXT(&m, etag, in->etag, WIRE_WEB_HEADER_MAX, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static enum err reply_get(struct wire_web_reply *out, const Procfleet__V1__WebReply *m)
{
    if (!status_is_bounded(m->status) || !GET_TEXT(out, m, type, WIRE_WEB_HEADER_MAX) ||
        !GET_TEXT(out, m, encoding, WIRE_WEB_HEADER_MAX) ||
        !GET_TEXT(out, m, etag, WIRE_WEB_HEADER_MAX)) {
        return ERR_CORRUPT;
    }
    if (m->has_body && m->body.len > WIRE_WEB_BODY_MAX) {
        return ERR_FULL;
    }
    out->status = m->status;
    out->retry_after_s = m->retry_after_s;
    out->immutable = m->immutable != 0;
    out->body = m->has_body && m->body.len ? (struct str){(const char *)m->body.data, m->body.len}
                                           : (struct str){"", 0};
    return ERR_OK;
}

enum err wire_web_reply_decode(struct wire_web_reply **out, const void *p, size_t n)
{
    struct owned_reply *o = mem_zalloc(sizeof *o);
    Procfleet__V1__WebReply *m;
    enum err e;

    if (!o) {
        return ERR_NOMEM;
    }
    wire_arena_init(&o->arena, 0);
    e = wire_unpack(&m, &o->arena, &procfleet__v1__web_reply__descriptor, p, n);
    if (!e) {
        e = reply_get(&o->m, m);
    }
    if (e) {
        wire_web_reply_free(&o->m);
        return e;
    }
    *out = &o->m;
    return ERR_OK;
}

void wire_web_reply_free(struct wire_web_reply *m)
{
    struct owned_reply *o = (struct owned_reply *)m;

    if (o) {
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}
