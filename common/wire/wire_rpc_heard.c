/* What a collector hears of agents. A file of its own, so that agents do not carry it. */
#include "common/wire/wire_facts.h"
#include "common/wire/wire_rpc.h"
#include "common/wire/wire_table.h"
#include "proto/rpc.pb-c.h"

static enum err hello_get(void *ours, const void *message, struct wire_arena *a)
{
    const Procfleet__V1__HelloRequest *m = message;
    struct wire_hello *h = ours;

    (void)a;
    return wire_facts_pack(h->told, &h->n_told, m->inventory, m->n_labels, m->labels);
}

static enum err heartbeat_get(void *ours, const void *message, struct wire_arena *a)
{
    const Procfleet__V1__HeartbeatRequest *m = message;
    struct wire_heartbeat *h = ours;

    (void)a;
    return wire_facts_pack(h->told, &h->n_told, m->inventory, m->n_labels, m->labels);
}

static const struct wire_table hello_table =
    WIRE_TABLE(wire_hello, hello_request, wire_rpc_hello_fields, .get = hello_get);
static const struct wire_table heartbeat_table =
    WIRE_TABLE(wire_heartbeat, heartbeat_request, wire_rpc_heartbeat_fields, .get = heartbeat_get);

enum err wire_rpc_hello_decode(struct wire_hello *out, const void *p, size_t n)
{
    return wire_table_decode(out, &hello_table, p, n);
}

enum err wire_rpc_heartbeat_decode(struct wire_heartbeat *out, const void *p, size_t n)
{
    return wire_table_decode(out, &heartbeat_table, p, n);
}
