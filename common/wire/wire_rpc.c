#include "common/wire/wire_rpc.h"

#include "common/wire/wire_facts.h"
#include "common/wire/wire_table.h"
#include "proto/rpc.pb-c.h"

#define PACK_BYTES (16u << 10) /* memory to repair text in */

#define OF struct wire_hello, Procfleet__V1__HelloRequest
const struct wire_field wire_rpc_hello_fields[] = {
    WIRE_UUID(host),
    WIRE_UUID(boot),
    WIRE_NUM(stream),
    WIRE_CHARS(name),
    WIRE_CHARS(version),
    WIRE_CHARS(source),
    WIRE_CHARS(system),
    WIRE_NUM(cpus),
    WIRE_NUM(wall_ns),
    WIRE_NUM(mono_ns),
    WIRE_NUM(last_mono_ns),
    WIRE_NUM(last_rtt_ns),
    WIRE_BY_HAND(inventory), /* `told` */
    WIRE_BY_HAND(labels),    /* likewise */
    WIRE_END,
};
#undef OF
const struct wire_table wire_rpc_hello_table =
    WIRE_TABLE(wire_hello, hello_request, wire_rpc_hello_fields);

#define OF struct wire_hello_reply, Procfleet__V1__HelloReply
static const struct wire_field hello_reply_fields[] = {
    WIRE_CHARS(version),   WIRE_NUM(max_message), WIRE_NUM(max_in_flight), WIRE_NUM(last_seq),
    WIRE_NUM(received_ns), WIRE_NUM(replied_ns),  WIRE_NUM(events),        WIRE_END,
};
#undef OF
const struct wire_table wire_rpc_hello_reply_table =
    WIRE_TABLE(wire_hello_reply, hello_reply, hello_reply_fields);

#define OF struct wire_push_reply, Procfleet__V1__PushReply
static const struct wire_field push_reply_fields[] = {
    WIRE_NUM(duplicate),
    WIRE_NUM(last_seq),
    WIRE_END,
};
#undef OF
const struct wire_table wire_rpc_push_reply_table =
    WIRE_TABLE(wire_push_reply, push_reply, push_reply_fields);

#define OF struct wire_heartbeat, Procfleet__V1__HeartbeatRequest
const struct wire_field wire_rpc_heartbeat_fields[] = {
    WIRE_NUM(stream),
    WIRE_NUM(next_seq),
    WIRE_NUM(wall_ns),
    WIRE_NUM(mono_ns),
    WIRE_NUM(last_mono_ns),
    WIRE_NUM(last_rtt_ns),
    WIRE_BY_HAND(inventory), /* `told` */
    WIRE_BY_HAND(labels),    /* likewise */
    WIRE_END,
};
#undef OF
const struct wire_table wire_rpc_heartbeat_table =
    WIRE_TABLE(wire_heartbeat, heartbeat_request, wire_rpc_heartbeat_fields);

#define OF struct wire_heartbeat_reply, Procfleet__V1__HeartbeatReply
static const struct wire_field heartbeat_reply_fields[] = {
    WIRE_NUM(received_ns),
    WIRE_NUM(replied_ns),
    WIRE_END,
};
#undef OF
const struct wire_table wire_rpc_heartbeat_reply_table =
    WIRE_TABLE(wire_heartbeat_reply, heartbeat_reply, heartbeat_reply_fields);

enum err wire_rpc_hello_encode(struct buf *out, const struct wire_hello *in)
{
    enum err e = wire_table_encode(out, in, &wire_rpc_hello_table, PACK_BYTES);

    return e ? e : wire_facts_small_append(out, in->told, in->n_told, 13, 14);
}

enum err wire_rpc_heartbeat_encode(struct buf *out, const struct wire_heartbeat *in)
{
    enum err e = wire_table_encode(out, in, &wire_rpc_heartbeat_table, PACK_BYTES);

    return e ? e : wire_facts_small_append(out, in->told, in->n_told, 7, 8);
}

WIRE_TABLE_PLAIN(wire_rpc_hello_reply, wire_hello_reply, wire_rpc_hello_reply_table, PACK_BYTES)
WIRE_TABLE_PLAIN(wire_rpc_push_reply, wire_push_reply, wire_rpc_push_reply_table, PACK_BYTES)
WIRE_TABLE_PLAIN(wire_rpc_heartbeat_reply, wire_heartbeat_reply, wire_rpc_heartbeat_reply_table,
                 PACK_BYTES)
