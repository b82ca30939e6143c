#include "common/wire/wire_facts.h"

#define PACK_BYTES (64u << 10)

/* -- encode -- */

static enum err put_parts(Procfleet__V1__Inventory *m, const struct inventory *in,
                          struct wire_arena *a)
{
    Procfleet__V1__Disk *disks = wire_list(&m->disks, in->n_disks, sizeof *disks, a);
    Procfleet__V1__Nic *nics = wire_list(&m->nics, in->n_nics, sizeof *nics, a);
    protobuf_c_boolean has;
    enum err e = disks && nics ? ERR_OK : a->bad;

    m->gpus = wire_arena_array(a, in->n_gpus, sizeof *m->gpus);
    e = m->gpus ? e : a->bad;
    for (size_t i = 0; !e && i < in->n_disks; i++) {
        procfleet__v1__disk__init(&disks[i]);
        WIRE_PUT(&disks[i], bytes, in->disks[i].bytes);
        WIRE_PUT(&disks[i], rotational, in->disks[i].rotational);
        e = WIRE_PUT_TEXT(&disks[i], model, in->disks[i].model, INVENTORY_TEXT_MAX, a);
    }
    for (size_t i = 0; !e && i < in->n_nics; i++) {
        procfleet__v1__nic__init(&nics[i]);
        WIRE_PUT(&nics[i], bits, in->nics[i].bits);
        e = WIRE_PUT_TEXT(&nics[i], name, in->nics[i].name, INVENTORY_TEXT_MAX, a);
    }
    for (size_t i = 0; !e && i < in->n_gpus; i++) {
        e = wire_text_put(&has, &m->gpus[i], in->gpus[i], INVENTORY_TEXT_MAX, a);
    }
    m->n_disks = in->n_disks;
    m->n_nics = in->n_nics;
    m->n_gpus = in->n_gpus;
    return e;
}

static enum err put_inventory(Procfleet__V1__Inventory *m, const struct inventory *in,
                              struct wire_arena *a)
{
    enum err e = ERR_OK;

    procfleet__v1__inventory__init(m);
#define PUT_ONE(name) e = e ? e : WIRE_PUT_TEXT(m, name, in->name, INVENTORY_TEXT_MAX, a);
    INVENTORY_TEXTS(PUT_ONE)
#undef PUT_ONE
#define PUT_ONE(name) WIRE_PUT(m, name, in->name);
    INVENTORY_NUMBERS(PUT_ONE)
#undef PUT_ONE
    WIRE_PUT(m, boot_time, in->boot_time);
    return e ? e : put_parts(m, in, a);
}

enum err wire_facts_put(Procfleet__V1__Inventory **inventory, size_t *n_labels,
                        Procfleet__V1__Label ***labels, const struct facts *f, struct wire_arena *a)
{
    Procfleet__V1__Label *items;
    enum err e;

    if (f->inventory.n_disks > INVENTORY_PARTS_MAX || f->inventory.n_gpus > INVENTORY_PARTS_MAX ||
        f->inventory.n_nics > INVENTORY_PARTS_MAX || f->n_labels > INVENTORY_LABELS_MAX) {
        return ERR_INVALID;
    }
    *inventory = wire_arena_alloc(a, sizeof **inventory);
    items = wire_list(labels, f->n_labels, sizeof *items, a);
    if (!*inventory || !items) {
        return a->bad;
    }
    e = put_inventory(*inventory, &f->inventory, a);
    for (size_t i = 0; !e && i < f->n_labels; i++) {
        procfleet__v1__label__init(&items[i]);
        WIRE_PUT(&items[i], assigned, f->labels[i].assigned);
        e = WIRE_PUT_TEXT(&items[i], key, f->labels[i].key, LABEL_KEY_MAX, a);
        e = e ? e : WIRE_PUT_TEXT(&items[i], value, f->labels[i].value, LABEL_VALUE_MAX, a);
    }
    *n_labels = f->n_labels;
    return e;
}

/* -- decode -- */

static bool get_text(struct str *out, protobuf_c_boolean has, const ProtobufCBinaryData *t)
{
    return wire_text_get(out, has, t, INVENTORY_TEXT_MAX) &&
           inventory_text_ok(*out, INVENTORY_TEXT_MAX);
}

static enum err get_parts(struct inventory *out, const Procfleet__V1__Inventory *m)
{
    bool ok = true;

    if (m->n_disks > INVENTORY_PARTS_MAX || m->n_gpus > INVENTORY_PARTS_MAX ||
        m->n_nics > INVENTORY_PARTS_MAX) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < m->n_disks; i++) {
        ok = ok && get_text(&out->disks[i].model, m->disks[i]->has_model, &m->disks[i]->model);
        out->disks[i].bytes = m->disks[i]->bytes;
        out->disks[i].rotational = m->disks[i]->rotational != 0;
    }
    for (size_t i = 0; i < m->n_nics; i++) {
        ok = ok && get_text(&out->nics[i].name, m->nics[i]->has_name, &m->nics[i]->name);
        out->nics[i].bits = m->nics[i]->bits;
    }
    for (size_t i = 0; i < m->n_gpus; i++) {
        ok = ok && get_text(&out->gpus[i], 1, &m->gpus[i]);
    }
    out->n_disks = m->n_disks;
    out->n_nics = m->n_nics;
    out->n_gpus = m->n_gpus;
    return ok ? ERR_OK : ERR_CORRUPT;
}

static enum err get_inventory(struct inventory *out, const Procfleet__V1__Inventory *m)
{
    bool ok = true;

#define GET_ONE(name) ok = ok && get_text(&out->name, m->has_##name, &m->name);
    INVENTORY_TEXTS(GET_ONE)
#undef GET_ONE
#define GET_ONE(name) out->name = m->name;
    INVENTORY_NUMBERS(GET_ONE)
#undef GET_ONE
    out->boot_time = m->boot_time;
    return ok ? get_parts(out, m) : ERR_CORRUPT;
}

static bool has_label(const struct facts *f, struct str key)
{
    return inventory_label(f, key).p != NULL;
}

enum err wire_facts_get(struct facts *out, const Procfleet__V1__Inventory *inventory,
                        size_t n_labels, Procfleet__V1__Label *const *labels)
{
    enum err e;

    *out = (struct facts){.n_labels = 0};
    e = inventory ? get_inventory(&out->inventory, inventory) : ERR_OK;
    if (n_labels > INVENTORY_LABELS_MAX) {
        return ERR_FULL;
    }
    for (size_t i = 0; !e && i < n_labels; i++) {
        struct label *l = &out->labels[i];

        if (!wire_text_get(&l->key, labels[i]->has_key, &labels[i]->key, LABEL_KEY_MAX) ||
            !wire_text_get(&l->value, labels[i]->has_value, &labels[i]->value, LABEL_VALUE_MAX) ||
            !inventory_label_ok(l) || has_label(out, l->key)) {
            return ERR_CORRUPT;
        }
        l->value.p = l->value.p ? l->value.p : "";
        l->assigned = labels[i]->assigned != 0;
        out->n_labels++;
    }
    return e;
}

/* -- as a message of its own -- */

static enum err facts_pack(struct buf *out, Procfleet__V1__Inventory *inventory, size_t n_labels,
                           Procfleet__V1__Label **labels)
{
    Procfleet__V1__Facts m = PROCFLEET__V1__FACTS__INIT;
    size_t before = out->n;
    enum err e;

    m.inventory = inventory;
    m.n_labels = n_labels;
    m.labels = labels;
    e = wire_pack(out, &m);
    return !e && out->n - before > WIRE_FACTS_MAX ? ERR_FULL : e;
}

enum err wire_facts_pack(uint8_t out[WIRE_FACTS_MAX], size_t *n,
                         Procfleet__V1__Inventory *inventory, size_t n_labels,
                         Procfleet__V1__Label **labels)
{
    struct facts f;
    struct buf b;
    enum err e = wire_facts_get(&f, inventory, n_labels, labels);

    *n = 0;
    if (e || (!inventory && !n_labels)) {
        return e;
    }
    if (inventory && protobuf_c_message_get_packed_size(&inventory->base) > INVENTORY_MAX) {
        return ERR_FULL;
    }
    buf_init(&b, WIRE_FACTS_MAX);
    e = facts_pack(&b, inventory, n_labels, labels);
    if (!e) {
        memcpy(out, b.p, b.n);
        *n = b.n;
    }
    buf_fini(&b);
    return e;
}

enum err wire_facts_encode(struct buf *out, const struct facts *f)
{
    Procfleet__V1__Inventory *inventory = NULL;
    Procfleet__V1__Label **labels = NULL;
    struct facts checked;
    struct wire_arena a;
    size_t n = 0;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    e = wire_facts_put(&inventory, &n, &labels, f, &a);
    if (!e && wire_facts_get(&checked, inventory, n, labels)) {
        e = ERR_INVALID;
    }
    e = e ? e : facts_pack(out, inventory, n, labels);
    wire_arena_fini(&a);
    return e;
}

static void keep(struct str *s, struct arena *a, bool *bad)
{
    if (s->p) {
        s->p = arena_dup(a, s->p, s->n);
        *bad = *bad || !s->p;
    }
}

static enum err facts_keep(struct facts *f, struct arena *a)
{
    struct inventory *in = &f->inventory;
    bool bad = false;

#define KEEP_ONE(name) keep(&in->name, a, &bad);
    INVENTORY_TEXTS(KEEP_ONE)
#undef KEEP_ONE
    for (size_t i = 0; i < in->n_disks; i++) {
        keep(&in->disks[i].model, a, &bad);
    }
    for (size_t i = 0; i < in->n_gpus; i++) {
        keep(&in->gpus[i], a, &bad);
    }
    for (size_t i = 0; i < in->n_nics; i++) {
        keep(&in->nics[i].name, a, &bad);
    }
    for (size_t i = 0; i < f->n_labels; i++) {
        keep(&f->labels[i].key, a, &bad);
        keep(&f->labels[i].value, a, &bad);
    }
    return bad ? ERR_FULL : ERR_OK;
}

enum err wire_facts_decode(struct facts *out, const void *p, size_t n, struct arena *a)
{
    Procfleet__V1__Facts *m;
    struct wire_arena w;
    enum err e;

    wire_arena_init(&w, 0);
    e = wire_unpack(&m, &w, &procfleet__v1__facts__descriptor, p, n);
    e = e ? e : wire_facts_get(out, m->inventory, m->n_labels, m->labels);
    e = e ? e : facts_keep(out, a);
    wire_arena_fini(&w);
    return e;
}
