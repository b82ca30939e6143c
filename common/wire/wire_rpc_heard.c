/* What a collector hears of agents. A file of its own, so that agents do not carry it. */
#include "common/wire/wire.h"
#include "common/wire/wire_facts.h"
#include "common/wire/wire_rpc.h"
#include "proto/rpc.pb-c.h"

#define GET_TEXT(to, m, field) \
    wire_text_copy((to)->field, sizeof(to)->field, (m)->has_##field, &(m)->field)

static enum err read_hello(struct wire_hello *out, const Procfleet__V1__HelloRequest *m)
{
    if (!wire_uuid_get(&out->host, m->has_host, &m->host) ||
        !wire_uuid_get(&out->boot, m->has_boot, &m->boot) || !GET_TEXT(out, m, name) ||
        !GET_TEXT(out, m, version) || !GET_TEXT(out, m, source) || !GET_TEXT(out, m, system)) {
        return ERR_CORRUPT;
    }
    out->stream = m->stream;
    out->cpus = m->cpus;
    out->wall_ns = m->wall_ns;
    out->mono_ns = m->mono_ns;
    out->last_mono_ns = m->last_mono_ns;
    out->last_rtt_ns = m->last_rtt_ns;
    return wire_facts_pack(out->told, &out->n_told, m->inventory, m->n_labels, m->labels);
}

enum err wire_rpc_hello_decode(struct wire_hello *out, const void *p, size_t n)
{
    struct wire_hello v = {0};
    Procfleet__V1__HelloRequest *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__hello_request__descriptor, p, n);
    if (!e) {
        e = read_hello(&v, m);
    }
    if (!e) {
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_rpc_heartbeat_decode(struct wire_heartbeat *out, const void *p, size_t n)
{
    struct wire_heartbeat v = {0};
    Procfleet__V1__HeartbeatRequest *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__heartbeat_request__descriptor, p, n);
    if (!e) {
        e = wire_facts_pack(v.told, &v.n_told, m->inventory, m->n_labels, m->labels);
    }
    if (!e) {
        v.stream = m->stream;
        v.next_seq = m->next_seq;
        v.wall_ns = m->wall_ns;
        v.mono_ns = m->mono_ns;
        v.last_mono_ns = m->last_mono_ns;
        v.last_rtt_ns = m->last_rtt_ns;
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}
