/* Sum i is of the answer's event type i: an answer that has sums has no events. */
#include "common/wire/wire_providers.h"

#include "common/wire/wire_info.h"
#include "common/wire/wire_query.h"
#include "common/wire/wire_table.h"
#include "proto/query.pb-c.h"

#define OF struct wire_provider_sum, Procfleet__V1__ProviderSum
static const struct wire_field provider_fields[] = {
    WIRE_NUM(host), /* checked against the answer's hosts */
    WIRE_NUM(hosts), WIRE_NUM(events),   WIRE_NUM(value_bytes), WIRE_NUM(redacted),
    WIRE_NUM(cut),   WIRE_NUM(first_ns), WIRE_NUM(last_ns),     WIRE_END,
};
#undef OF
const struct wire_table wire_providers_table =
    WIRE_TABLE(wire_provider_sum, provider_sum, provider_fields);

static bool providers_are_of_hosts(const struct wire_provider_sum *list, size_t n, size_t n_hosts)
{
    bool sound = true;

    for (size_t i = 0; i < n; i++) {
        sound = sound && list[i].host < n_hosts;
    }
    return sound;
}

enum err wire_providers_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                            struct wire_arena *a)
{
    const struct wire_providers *p = in->providers;
    struct wire_info_types types = {.max = WIRE_ROWS_MAX};
    enum err e;

    if (!p) {
        return ERR_OK;
    }
    if (p->n > WIRE_ROWS_MAX || in->n_events ||
        !providers_are_of_hosts(p->list, p->n, in->n_hosts)) {
        return ERR_INVALID;
    }
    types.list = wire_arena_array(a, p->n, sizeof *types.list);
    if (!types.list) {
        return a->bad;
    }
    for (size_t i = 0; i < p->n; i++) {
        types.list[types.n++] = p->list[i].type;
    }
    m->n_providers = p->n;
    WIRE_PUT(m, providers_left_out, p->left_out);
    e = wire_table_put_list(&m->providers, p->list, p->n, &wire_providers_table, a);
    return e ? e : wire_info_types_put(&m->event_types, &m->n_event_types, &types, a);
}

enum err wire_providers_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                            struct wire_arena *a)
{
    struct wire_info_types types = {.max = WIRE_ROWS_MAX};
    struct wire_provider_sum *list = NULL;
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
    if (!p) {
        return a->bad;
    }
    e = wire_table_get_list(&list, m->providers, m->n_providers, &wire_providers_table, a);
    e = e ? e : wire_info_types_get(&types, m->event_types, m->n_event_types, a);
    for (size_t i = 0; !e && i < m->n_providers; i++) {
        list[i].type = types.list[i];
    }
    *p = (struct wire_providers){m->n_providers, list, m->providers_left_out};
    out->providers = p;
    return e || providers_are_of_hosts(list, p->n, m->n_hosts) ? e : ERR_CORRUPT;
}
