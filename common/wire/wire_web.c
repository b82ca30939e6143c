#include "common/wire/wire_web.h"

#include "common/wire/wire_table.h"
#include "proto/query.pb-c.h"

#define PACK_BYTES (64u << 10) /* memory to repair text in */

static enum err request_get(void *ours, const void *message, struct wire_arena *a)
{
    const struct wire_web_request *r = ours;

    (void)message;
    (void)a;
    return r->path.n && r->path.p[0] == '/' ? ERR_OK : ERR_CORRUPT;
}

#define OF struct wire_web_request, Procfleet__V1__WebRequest
static const struct wire_field request_fields[] = {
    WIRE_TEXT(path, WIRE_WEB_PATH_MAX), /* begins with '/' */
    WIRE_TEXT(query, WIRE_WEB_QUERY_MAX),
    WIRE_TEXT(accept, WIRE_WEB_HEADER_MAX),
    WIRE_TEXT(accept_encoding, WIRE_WEB_HEADER_MAX),
    WIRE_TEXT(if_none_match, WIRE_WEB_HEADER_MAX),
    WIRE_END,
};
#undef OF
const struct wire_table wire_web_request_table =
    WIRE_TABLE(wire_web_request, web_request, request_fields, .get = request_get);

static bool reply_is_sound(const void *ours)
{
    const struct wire_web_reply *r = ours;

    return r->status >= 100 && r->status <= 599;
}

#define OF struct wire_web_reply, Procfleet__V1__WebReply
static const struct wire_field reply_fields[] = {
    WIRE_NUM(status), /* 100 to 599 */
    WIRE_TEXT(type, WIRE_WEB_HEADER_MAX),
    WIRE_TEXT(encoding, WIRE_WEB_HEADER_MAX),
    WIRE_TEXT(etag, WIRE_WEB_HEADER_MAX),
    WIRE_BYTES(body, WIRE_WEB_BODY_MAX),
    WIRE_NUM(retry_after_s),
    WIRE_NUM(immutable),
    WIRE_END,
};
#undef OF
const struct wire_table wire_web_reply_table =
    WIRE_TABLE(wire_web_reply, web_reply, reply_fields, .sound = reply_is_sound);

WIRE_TABLE_OWNED(wire_web_request, wire_web_request, wire_web_request_table, PACK_BYTES, 0, 0)
WIRE_TABLE_OWNED(wire_web_reply, wire_web_reply, wire_web_reply_table, PACK_BYTES, 0, 0)
