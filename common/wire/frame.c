#include "common/wire/frame.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/wire/wire.h"
#include "proto/rpc.pb-c.h"

#define PACK_BYTES (64u << 10) /* memory to build a header in */

static enum err header_put_details(Procfleet__V1__Detail ***out, const struct frame_detail *d,
                                   size_t n, struct wire_arena *a)
{
    Procfleet__V1__Detail **list = wire_arena_array(a, n, sizeof *list);
    Procfleet__V1__Detail *m = wire_arena_array(a, n, sizeof *m);
    enum err e = list && m ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < n; i++) {
        procfleet__v1__detail__init(&m[i]);
        list[i] = &m[i];
        e = wire_text_put(&m[i].has_key, &m[i].key, wire_text_of(d[i].key, sizeof d[i].key),
                          sizeof d[i].key - 1, a);
        if (!e) {
            e = wire_text_put(&m[i].has_value, &m[i].value,
                              wire_text_of(d[i].value, sizeof d[i].value), sizeof d[i].value - 1,
                              a);
        }
    }
    *out = list;
    return e;
}

static enum err header_build_request(Procfleet__V1__RequestHeader *m, const struct frame_request *h,
                                     struct wire_arena *a)
{
    enum err e;

    m->has_method_id = h->method_id != 0;
    m->method_id = h->method_id;
    m->has_call_id = 1;
    m->call_id.data = (uint8_t *)(uintptr_t)h->call_id;
    m->call_id.len = sizeof h->call_id;
    m->has_timeout_ms = h->timeout_ms != 0;
    m->timeout_ms = h->timeout_ms;
    m->has_encoding = h->encoding != 0;
    m->encoding = h->encoding;
    m->has_raw_bytes = h->raw_bytes != 0;
    m->raw_bytes = h->raw_bytes;
    m->has_trace_id = h->trace_id != 0;
    m->trace_id = h->trace_id;
    m->n_metadata = h->n_metadata;
    e = header_put_details(&m->metadata, h->metadata, h->n_metadata, a);
    if (!e) {
        e = wire_text_put(&m->has_method, &m->method, wire_text_of(h->method, sizeof h->method),
                          sizeof h->method - 1, a);
    }
    if (!e) {
        e = wire_text_put(&m->has_client, &m->client, wire_text_of(h->client, sizeof h->client),
                          sizeof h->client - 1, a);
    }
    return e;
}

static enum err header_put_request(struct buf *out, const struct frame_request *h)
{
    Procfleet__V1__RequestHeader m = PROCFLEET__V1__REQUEST_HEADER__INIT;
    struct wire_arena a;
    enum err e;

    if (h->n_metadata > FRAME_DETAILS_MAX) {
        return ERR_INVALID;
    }
    wire_arena_init(&a, PACK_BYTES);
    e = header_build_request(&m, h, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static enum err header_build_reply(Procfleet__V1__ReplyHeader *m, const struct frame_reply *h,
                                   struct wire_arena *a)
{
    enum err e;

    m->has_call_id = 1;
    m->call_id.data = (uint8_t *)(uintptr_t)h->call_id;
    m->call_id.len = sizeof h->call_id;
    m->has_code = h->code != RPC_OK;
    m->code = (uint32_t)h->code;
    m->has_retry_after_ms = h->retry_after_ms != 0;
    m->retry_after_ms = h->retry_after_ms;
    m->has_more = h->more;
    m->more = h->more;
    m->has_cursor = h->cursor_n != 0;
    m->cursor.data = (uint8_t *)(uintptr_t)h->cursor;
    m->cursor.len = h->cursor_n;
    m->has_epoch = h->epoch != 0;
    m->epoch = h->epoch;
    m->has_encoding = h->encoding != 0;
    m->encoding = h->encoding;
    m->has_raw_bytes = h->raw_bytes != 0;
    m->raw_bytes = h->raw_bytes;
    m->n_details = h->n_details;
    e = header_put_details(&m->details, h->details, h->n_details, a);
    if (!e) {
        e = wire_text_put(&m->has_message, &m->message, wire_text_of(h->message, sizeof h->message),
                          sizeof h->message - 1, a);
    }
    return e;
}

static enum err header_put_reply(struct buf *out, const struct frame_reply *h)
{
    Procfleet__V1__ReplyHeader m = PROCFLEET__V1__REPLY_HEADER__INIT;
    struct wire_arena a;
    enum err e;

    if (h->n_details > FRAME_DETAILS_MAX) {
        return ERR_INVALID;
    }
    wire_arena_init(&a, PACK_BYTES);
    e = header_build_reply(&m, h, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

static bool header_get_details(struct frame_detail *out, Procfleet__V1__Detail **d, size_t n)
{
    bool ok = n <= FRAME_DETAILS_MAX;

    for (size_t i = 0; ok && i < n; i++) {
        ok = wire_text_copy(out[i].key, sizeof out[i].key, d[i]->has_key, &d[i]->key) &&
             wire_text_copy(out[i].value, sizeof out[i].value, d[i]->has_value, &d[i]->value);
    }
    return ok;
}

/* A call id of 16 bytes; absent is all zero. */
static bool header_get_call_id(uint8_t id[16], protobuf_c_boolean has, const ProtobufCBinaryData *t)
{
    struct uuid u;

    if (!wire_uuid_get(&u, has, t)) {
        return false;
    }
    memcpy(id, u.b, sizeof u.b);
    return true;
}

static enum err header_read_request(struct frame_request *h, const Procfleet__V1__RequestHeader *m)
{
    if (!wire_text_copy(h->method, sizeof h->method, m->has_method, &m->method) ||
        !wire_text_copy(h->client, sizeof h->client, m->has_client, &m->client) ||
        !header_get_call_id(h->call_id, m->has_call_id, &m->call_id) ||
        !header_get_details(h->metadata, m->metadata, m->n_metadata) || m->encoding > UINT8_MAX) {
        return ERR_CORRUPT;
    }
    h->method_id = m->method_id;
    h->timeout_ms = m->timeout_ms;
    h->encoding = (uint8_t)m->encoding;
    h->raw_bytes = m->raw_bytes;
    h->trace_id = m->trace_id;
    h->n_metadata = (uint8_t)m->n_metadata;
    return ERR_OK;
}

static enum err header_get_request(struct frame_request *h, const void *p, size_t n)
{
    struct frame_request v = {0};
    Procfleet__V1__RequestHeader *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__request_header__descriptor, p, n);
    if (!e) {
        e = header_read_request(&v, m);
    }
    if (!e) {
        *h = v;
    }
    wire_arena_fini(&a);
    return e;
}

static enum err header_read_reply(struct frame_reply *h, const Procfleet__V1__ReplyHeader *m)
{
    if (!wire_text_copy(h->message, sizeof h->message, m->has_message, &m->message) ||
        !header_get_call_id(h->call_id, m->has_call_id, &m->call_id) ||
        !header_get_details(h->details, m->details, m->n_details) || m->encoding > UINT8_MAX ||
        (m->has_cursor && m->cursor.len > sizeof h->cursor)) {
        return ERR_CORRUPT;
    }
    h->code = m->code <= RPC_UNAUTHENTICATED ? (enum rpc_code)m->code : RPC_UNKNOWN;
    h->n_details = (uint8_t)m->n_details;
    h->retry_after_ms = m->retry_after_ms;
    h->more = m->more != 0;
    if (m->has_cursor && m->cursor.len) {
        h->cursor_n = (uint8_t)m->cursor.len;
        memcpy(h->cursor, m->cursor.data, m->cursor.len);
    }
    h->epoch = m->epoch;
    h->encoding = (uint8_t)m->encoding;
    h->raw_bytes = m->raw_bytes;
    return ERR_OK;
}

static enum err header_get_reply(struct frame_reply *h, const void *p, size_t n)
{
    struct frame_reply v = {0};
    Procfleet__V1__ReplyHeader *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__reply_header__descriptor, p, n);
    if (!e) {
        e = header_read_reply(&v, m);
    }
    if (!e) {
        *h = v;
    }
    wire_arena_fini(&a);
    return e;
}

/* -- frames -- */

const char *frame_code_name(enum rpc_code code)
{
    static const char *const names[] = {
        [RPC_OK] = "OK",
        [RPC_CANCELLED] = "CANCELLED",
        [RPC_UNKNOWN] = "UNKNOWN",
        [RPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
        [RPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
        [RPC_NOT_FOUND] = "NOT_FOUND",
        [RPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
        [RPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
        [RPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
        [RPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
        [RPC_ABORTED] = "ABORTED",
        [RPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
        [RPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
        [RPC_INTERNAL] = "INTERNAL",
        [RPC_UNAVAILABLE] = "UNAVAILABLE",
        [RPC_DATA_LOSS] = "DATA_LOSS",
        [RPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
    };

    return (unsigned)code < sizeof names / sizeof names[0] ? names[code] : "UNKNOWN";
}

/* Magic, version and room for the header's length, filled in by frame_close. */
static void frame_open(struct buf *out)
{
    buf_put_u8(out, FRAME_MAGIC);
    buf_put_u8(out, FRAME_VERSION);
    buf_put_u16le(out, 0);
}

/* What was put since `start` becomes the header; the payload follows. On failure the buffer holds
 * what it held before. */
static enum err frame_close(struct buf *out, size_t start, const void *payload, size_t n,
                            enum err e)
{
    size_t header = out->n - start;

    if (!e && !out->bad && header - 4 > FRAME_HEADER_MAX) {
        e = ERR_FULL;
    }
    if (!e) {
        buf_put(out, payload, n);
        e = out->bad;
    }
    if (e) {
        out->n = start;
        return e;
    }
    out->p[start + 2] = (uint8_t)(header - 4);
    out->p[start + 3] = (uint8_t)((header - 4) >> 8);
    return ERR_OK;
}

enum err frame_put_request(struct buf *out, const struct frame_request *h, const void *payload,
                           size_t n)
{
    size_t start = out->n;

    frame_open(out);
    return frame_close(out, start, payload, n, header_put_request(out, h));
}

enum err frame_put_reply(struct buf *out, const struct frame_reply *h, const void *payload,
                         size_t n)
{
    size_t start = out->n;

    frame_open(out);
    return frame_close(out, start, payload, n, header_put_reply(out, h));
}

/* Finds header and payload. */
static enum err frame_split(const uint8_t **header, size_t *header_n, const uint8_t **payload,
                            size_t *payload_n, struct cur c)
{
    uint8_t magic = cur_u8(&c);
    uint8_t version = cur_u8(&c);
    size_t n = cur_u16le(&c);

    if (c.bad || magic != FRAME_MAGIC) {
        return ERR_CORRUPT;
    }
    if (version != FRAME_VERSION) {
        return ERR_VERSION;
    }
    if (n > FRAME_HEADER_MAX) {
        return ERR_FULL;
    }
    *header = cur_bytes(&c, n);
    *header_n = n;
    *payload = c.p;
    *payload_n = cur_left(&c);
    return c.bad ? ERR_CORRUPT : ERR_OK;
}

enum err frame_get_request(struct frame_request *h, const uint8_t **payload, size_t *payload_n,
                           const void *p, size_t n)
{
    const uint8_t *header, *rest;
    size_t header_n, rest_n;
    enum err e = frame_split(&header, &header_n, &rest, &rest_n, cur_make(p, n));

    if (!e) {
        e = header_get_request(h, header, header_n);
    }
    if (!e) {
        *payload = rest;
        *payload_n = rest_n;
    }
    return e;
}

enum err frame_get_reply(struct frame_reply *h, const uint8_t **payload, size_t *payload_n,
                         const void *p, size_t n)
{
    const uint8_t *header, *rest;
    size_t header_n, rest_n;
    enum err e = frame_split(&header, &header_n, &rest, &rest_n, cur_make(p, n));

    if (!e) {
        e = header_get_reply(h, header, header_n);
    }
    if (!e) {
        *payload = rest;
        *payload_n = rest_n;
    }
    return e;
}
