#include "common/wire/wire_boots.h"

#include "common/wire/wire.h"
#include "common/wire/wire_query.h"
#include "common/wire/wire_table.h"
#include "proto/query.pb-c.h"

#define OF struct wire_boot, Procfleet__V1__Boot
static const struct wire_field boot_fields[] = {
    WIRE_NUM(host), /* checked against the answer's hosts */
    WIRE_UUID(boot),   WIRE_NUM(booted_ns), WIRE_NUM(first_ns),
    WIRE_NUM(last_ns), WIRE_NUM(end),       WIRE_END,
};
#undef OF
const struct wire_table wire_boots_table = WIRE_TABLE(wire_boot, boot, boot_fields);

static bool boots_are_sound(const struct wire_boots *b, size_t n_hosts)
{
    bool sound = true;

    for (size_t i = 0; i < b->n; i++) {
        sound = sound && b->list[i].host < n_hosts && b->list[i].end < WIRE_BOOT_ENDS;
    }
    return sound;
}

enum err wire_boots_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                        struct wire_arena *a)
{
    if (!in->boots) {
        return ERR_OK;
    }
    if (in->boots->n > WIRE_BOOTS_MAX || !boots_are_sound(in->boots, in->n_hosts)) {
        return ERR_INVALID;
    }
    m->n_boots = in->boots->n;
    return wire_table_put_list(&m->boots, in->boots->list, m->n_boots, &wire_boots_table, a);
}

enum err wire_boots_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                        struct wire_arena *a)
{
    struct wire_boots *boots;
    enum err e;

    if (m->n_boots == 0) {
        return ERR_OK;
    }
    if (m->n_boots > WIRE_BOOTS_MAX) {
        return ERR_FULL;
    }
    wire_arena_allow(a, sizeof *boots + (m->n_boots + 1) * sizeof *boots->list);
    boots = wire_arena_alloc(a, sizeof *boots);
    if (!boots) {
        return a->bad;
    }
    boots->n = m->n_boots;
    out->boots = boots;
    e = wire_table_get_list(&boots->list, m->boots, m->n_boots, &wire_boots_table, a);
    return e || boots_are_sound(boots, out->n_hosts) ? e : ERR_CORRUPT;
}
