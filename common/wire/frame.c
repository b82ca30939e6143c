#include "common/wire/frame.h"

#include "common/base/cur.h"
#include "common/wire/wire_frame.h"

const char *rpc_code_name(enum rpc_code code)
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

/* Magic, version and room for the header's length, filled in by close_header. */
static void open_header(struct buf *out)
{
    buf_put_u8(out, FRAME_MAGIC);
    buf_put_u8(out, FRAME_VERSION);
    buf_put_u16le(out, 0);
}

/* What was put since `start` becomes the header; the payload follows. On failure the buffer holds
 * what it held before. */
static enum err close_header(struct buf *out, size_t start, const void *payload, size_t n,
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

    open_header(out);
    return close_header(out, start, payload, n, wire_frame_put_request(out, h));
}

enum err frame_put_reply(struct buf *out, const struct frame_reply *h, const void *payload,
                         size_t n)
{
    size_t start = out->n;

    open_header(out);
    return close_header(out, start, payload, n, wire_frame_put_reply(out, h));
}

/* Finds header and payload. */
static enum err split(const uint8_t **header, size_t *header_n, const uint8_t **payload,
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
    enum err e = split(&header, &header_n, &rest, &rest_n, cur_make(p, n));

    if (!e) {
        e = wire_frame_get_request(h, header, header_n);
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
    enum err e = split(&header, &header_n, &rest, &rest_n, cur_make(p, n));

    if (!e) {
        e = wire_frame_get_reply(h, header, header_n);
    }
    if (!e) {
        *payload = rest;
        *payload_n = rest_n;
    }
    return e;
}
