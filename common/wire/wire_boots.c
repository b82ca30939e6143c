#include "common/wire/wire_boots.h"

#include "common/wire/wire.h"
#include "common/wire/wire_query.h"
#include "proto/query.pb-c.h"

enum err wire_boots_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                        struct wire_arena *a)
{
    Procfleet__V1__Boot *items;

    if (!in->boots) {
        return ERR_OK;
    }
    if (in->boots->n > WIRE_BOOTS_MAX) {
        return ERR_INVALID;
    }
    items = wire_list(&m->boots, in->boots->n, sizeof *items, a);
    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; i < in->boots->n; i++) {
        const struct wire_boot *b = &in->boots->list[i];

        if (b->host >= in->n_hosts || b->end >= WIRE_BOOT_ENDS) {
            return ERR_INVALID;
        }
        procfleet__v1__boot__init(&items[i]);
        WIRE_PUT(&items[i], host, b->host);
        wire_uuid_put(&items[i].has_boot, &items[i].boot, &b->boot);
        WIRE_PUT(&items[i], booted_ns, b->booted_ns);
        WIRE_PUT(&items[i], first_ns, b->first_ns);
        WIRE_PUT(&items[i], last_ns, b->last_ns);
        WIRE_PUT(&items[i], end, b->end);
    }
    m->n_boots = in->boots->n;
    return ERR_OK;
}

enum err wire_boots_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                        struct wire_arena *a)
{
    struct wire_boots *boots;
    struct wire_boot *list;

    if (m->n_boots == 0) {
        return ERR_OK;
    }
    if (m->n_boots > WIRE_BOOTS_MAX) {
        return ERR_FULL;
    }
    wire_arena_allow(a, sizeof *boots + (m->n_boots + 1) * sizeof *list);
    boots = wire_arena_alloc(a, sizeof *boots);
    list = wire_arena_array(a, m->n_boots, sizeof *list);
    if (!boots || !list) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_boots; i++) {
        const Procfleet__V1__Boot *b = m->boots[i];

        list[i] = (struct wire_boot){.host = b->host,
                                     .booted_ns = b->booted_ns,
                                     .first_ns = b->first_ns,
                                     .last_ns = b->last_ns,
                                     .end = (uint8_t)b->end};
        if (b->host >= out->n_hosts || b->end >= WIRE_BOOT_ENDS ||
            !wire_uuid_get(&list[i].boot, b->has_boot, &b->boot)) {
            return ERR_CORRUPT;
        }
    }
    *boots = (struct wire_boots){m->n_boots, list};
    out->boots = boots;
    return ERR_OK;
}
