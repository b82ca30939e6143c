/* Sum i is of the answer's event type i: an answer that has sums has no events. */
#include "common/wire/wire_providers.h"

#include "common/wire/wire_info.h"
#include "common/wire/wire_query.h"
#include "proto/query.pb-c.h"

enum err wire_providers_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                            struct wire_arena *a)
{
    const struct wire_providers *p = in->providers;
    struct wire_info_types types = {.max = WIRE_ROWS_MAX};
    Procfleet__V1__ProviderSum *items;

    if (!p) {
        return ERR_OK;
    }
    if (p->n > WIRE_ROWS_MAX || in->n_events) {
        return ERR_INVALID;
    }
    items = wire_list(&m->providers, p->n, sizeof *items, a);
    types.list = wire_arena_array(a, p->n, sizeof *types.list);
    if (!items || !types.list) {
        return a->bad;
    }
    for (size_t i = 0; i < p->n; i++) {
        const struct wire_provider_sum *s = &p->list[i];

        if (s->host >= in->n_hosts) {
            return ERR_INVALID;
        }
        procfleet__v1__provider_sum__init(&items[i]);
        WIRE_PUT(&items[i], host, s->host);
        WIRE_PUT(&items[i], hosts, s->hosts);
        WIRE_PUT(&items[i], events, s->events);
        WIRE_PUT(&items[i], value_bytes, s->value_bytes);
        WIRE_PUT(&items[i], redacted, s->redacted);
        WIRE_PUT(&items[i], cut, s->cut);
        WIRE_PUT(&items[i], first_ns, s->first_ns);
        WIRE_PUT(&items[i], last_ns, s->last_ns);
        types.list[types.n++] = s->type;
    }
    m->n_providers = p->n;
    WIRE_PUT(m, providers_left_out, p->left_out);
    return wire_info_types_put(&m->event_types, &m->n_event_types, &types, a);
}

enum err wire_providers_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                            struct wire_arena *a)
{
    struct wire_info_types types = {.max = WIRE_ROWS_MAX};
    struct wire_provider_sum *list;
    struct wire_providers *p;
    enum err e;

    if (m->n_providers == 0) {
        return ERR_OK;
    }
    if (m->n_providers > WIRE_ROWS_MAX || m->n_providers != m->n_event_types) {
        return ERR_CORRUPT;
    }
    wire_arena_allow(a, wire_info_types_bytes(m->event_types, m->n_event_types) + sizeof *p + 64 +
                            m->n_providers * sizeof *list);
    p = wire_arena_alloc(a, sizeof *p);
    list = wire_arena_array(a, m->n_providers, sizeof *list);
    if (!p || !list) {
        return a->bad;
    }
    e = wire_info_types_get(&types, m->event_types, m->n_event_types, a);
    for (size_t i = 0; !e && i < m->n_providers; i++) {
        const Procfleet__V1__ProviderSum *s = m->providers[i];

        e = s->host < m->n_hosts ? ERR_OK : ERR_CORRUPT;
        list[i] = (struct wire_provider_sum){.host = s->host,
                                             .hosts = s->hosts,
                                             .type = types.list[i],
                                             .events = s->events,
                                             .value_bytes = s->value_bytes,
                                             .redacted = s->redacted,
                                             .cut = s->cut,
                                             .first_ns = s->first_ns,
                                             .last_ns = s->last_ns};
    }
    *p = (struct wire_providers){m->n_providers, list, m->providers_left_out};
    out->providers = p;
    return e;
}
