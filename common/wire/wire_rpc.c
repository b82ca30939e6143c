#include "common/wire/wire_rpc.h"

#include "common/wire/wire.h"
#include "common/wire/wire_facts.h"
#include "proto/rpc.pb-c.h"

#define PACK_BYTES (16u << 10) /* memory to repair text in */

/* Sets a text field from an array of the same name. */
#define PUT_TEXT(m, field, from, a)               \
    wire_text_put(&(m)->has_##field, &(m)->field, \
                  wire_text_of((from)->field, sizeof(from)->field), sizeof(from)->field - 1, a)

#define GET_TEXT(to, m, field) \
    wire_text_copy((to)->field, sizeof(to)->field, (m)->has_##field, &(m)->field)

static enum err hello_texts(Procfleet__V1__HelloRequest *m, const struct wire_hello *in,
                            struct wire_arena *a)
{
    enum err e = PUT_TEXT(m, name, in, a);

    if (!e) {
        e = PUT_TEXT(m, version, in, a);
    }
    if (!e) {
        e = PUT_TEXT(m, source, in, a);
    }
    if (!e) {
        e = PUT_TEXT(m, system, in, a);
    }
    return e;
}

enum err wire_rpc_hello_encode(struct buf *out, const struct wire_hello *in)
{
    Procfleet__V1__HelloRequest m = PROCFLEET__V1__HELLO_REQUEST__INIT;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    wire_uuid_put(&m.has_host, &m.host, &in->host);
    wire_uuid_put(&m.has_boot, &m.boot, &in->boot);
    WIRE_PUT(&m, stream, in->stream);
    WIRE_PUT(&m, cpus, in->cpus);
    WIRE_PUT(&m, wall_ns, in->wall_ns);
    WIRE_PUT(&m, mono_ns, in->mono_ns);
    WIRE_PUT(&m, last_mono_ns, in->last_mono_ns);
    WIRE_PUT(&m, last_rtt_ns, in->last_rtt_ns);
    e = hello_texts(&m, in, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    if (!e) {
        e = wire_facts_small_append(out, in->told, in->n_told, 13, 14);
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_rpc_hello_reply_encode(struct buf *out, const struct wire_hello_reply *in)
{
    Procfleet__V1__HelloReply m = PROCFLEET__V1__HELLO_REPLY__INIT;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    WIRE_PUT(&m, max_message, in->max_message);
    WIRE_PUT(&m, max_in_flight, in->max_in_flight);
    WIRE_PUT(&m, last_seq, in->last_seq);
    WIRE_PUT(&m, received_ns, in->received_ns);
    WIRE_PUT(&m, replied_ns, in->replied_ns);
    WIRE_PUT(&m, events, in->events);
    e = PUT_TEXT(&m, version, in, &a);
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_rpc_hello_reply_decode(struct wire_hello_reply *out, const void *p, size_t n)
{
    struct wire_hello_reply v = {0};
    Procfleet__V1__HelloReply *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__hello_reply__descriptor, p, n);
    if (!e && !GET_TEXT(&v, m, version)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        v.max_message = m->max_message;
        v.max_in_flight = m->max_in_flight;
        v.last_seq = m->last_seq;
        v.received_ns = m->received_ns;
        v.replied_ns = m->replied_ns;
        v.events = m->events != 0;
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_rpc_push_reply_encode(struct buf *out, const struct wire_push_reply *in)
{
    Procfleet__V1__PushReply m = PROCFLEET__V1__PUSH_REPLY__INIT;

    WIRE_PUT(&m, duplicate, in->duplicate);
    WIRE_PUT(&m, last_seq, in->last_seq);
    return wire_pack(out, &m);
}

enum err wire_rpc_push_reply_decode(struct wire_push_reply *out, const void *p, size_t n)
{
    Procfleet__V1__PushReply *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__push_reply__descriptor, p, n);
    if (!e) {
        out->duplicate = m->duplicate != 0;
        out->last_seq = m->last_seq;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_rpc_heartbeat_encode(struct buf *out, const struct wire_heartbeat *in)
{
    Procfleet__V1__HeartbeatRequest m = PROCFLEET__V1__HEARTBEAT_REQUEST__INIT;
    enum err e;

    WIRE_PUT(&m, stream, in->stream);
    WIRE_PUT(&m, next_seq, in->next_seq);
    WIRE_PUT(&m, wall_ns, in->wall_ns);
    WIRE_PUT(&m, mono_ns, in->mono_ns);
    WIRE_PUT(&m, last_mono_ns, in->last_mono_ns);
    WIRE_PUT(&m, last_rtt_ns, in->last_rtt_ns);
    e = wire_pack(out, &m);
    return e ? e : wire_facts_small_append(out, in->told, in->n_told, 7, 8);
}

enum err wire_rpc_heartbeat_reply_encode(struct buf *out, const struct wire_heartbeat_reply *in)
{
    Procfleet__V1__HeartbeatReply m = PROCFLEET__V1__HEARTBEAT_REPLY__INIT;

    WIRE_PUT(&m, received_ns, in->received_ns);
    WIRE_PUT(&m, replied_ns, in->replied_ns);
    return wire_pack(out, &m);
}

enum err wire_rpc_heartbeat_reply_decode(struct wire_heartbeat_reply *out, const void *p, size_t n)
{
    Procfleet__V1__HeartbeatReply *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__heartbeat_reply__descriptor, p, n);
    if (!e) {
        out->received_ns = m->received_ns;
        out->replied_ns = m->replied_ns;
    }
    wire_arena_fini(&a);
    return e;
}
