#include "agent/etl/etl_ends.h"

#include <string.h>

#include "common/base/cur.h"

bool etl_ends_kernel(struct etl_ends *e, uint32_t *size, const struct raw_event *raw, bool v6)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    const uint8_t *remote, *local;

    memset(e, 0, sizeof *e);
    e->n = v6 ? 16 : 4;
    e->pid = cur_u32le(&c);
    *size = cur_u32le(&c);
    remote = cur_bytes(&c, e->n);
    local = cur_bytes(&c, e->n);
    e->remote_port = cur_u16be(&c);
    e->local_port = cur_u16be(&c);
    if (c.bad) {
        return false;
    }
    memcpy(e->remote, remote, e->n);
    memcpy(e->local, local, e->n);
    return true;
}

bool etl_ends_fields(struct etl_ends *e, const struct etl_fields *f, const char *pid)
{
    const struct etl_fields_one *remote = etl_fields_get(f, "RemoteAddress");
    const struct etl_fields_one *local = etl_fields_get(f, "LocalAddress");

    if (!remote || !local || !remote->address.n || local->address.n != remote->address.n) {
        return false;
    }
    memset(e, 0, sizeof *e);
    e->pid = (uint32_t)etl_fields_uint(f, pid, EVENT_NO_ID);
    e->n = remote->address.n;
    memcpy(e->remote, remote->address.b, e->n);
    memcpy(e->local, local->address.b, e->n);
    e->remote_port = remote->address.port;
    e->local_port = local->address.port;
    return true;
}
