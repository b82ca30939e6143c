#include "common/wire/wire_facts.h"

#include "common/wire/wire_table.h"

#define PACK_BYTES (64u << 10)

/* -- tables -- */

#define OF struct inventory_disk, Procfleet__V1__Disk
static const struct wire_field disk_fields[] = {
    WIRE_TEXT(model, INVENTORY_TEXT_MAX),
    WIRE_NUM(bytes),
    WIRE_NUM(rotational),
    WIRE_END,
};
#undef OF
static const struct wire_table disk_table = WIRE_TABLE(inventory_disk, disk, disk_fields);

#define OF struct inventory_nic, Procfleet__V1__Nic
static const struct wire_field nic_fields[] = {
    WIRE_TEXT(name, INVENTORY_TEXT_MAX),
    WIRE_NUM(bits),
    WIRE_END,
};
#undef OF
static const struct wire_table nic_table = WIRE_TABLE(inventory_nic, nic, nic_fields);

#define OF           struct inventory, Procfleet__V1__Inventory
#define TEXT(name)   WIRE_TEXT(name, INVENTORY_TEXT_MAX),
#define NUMBER(name) WIRE_NUM(name),
static const struct wire_field inventory_fields[] = {
    INVENTORY_TEXTS(TEXT) INVENTORY_NUMBERS(NUMBER) WIRE_NUM(boot_time),
    WIRE_LIST_IN(disks, n_disks, &disk_table),
    WIRE_TEXTS_IN(gpus, n_gpus, gpus, INVENTORY_TEXT_MAX),
    WIRE_LIST_IN(nics, n_nics, &nic_table),
    WIRE_END,
};
#undef NUMBER
#undef TEXT
#undef OF
static const struct wire_table inventory_table = WIRE_TABLE(inventory, inventory, inventory_fields);

#define OF struct label, Procfleet__V1__Label
static const struct wire_field label_fields[] = {
    WIRE_TEXT(key, LABEL_KEY_MAX),
    WIRE_TEXT(value, LABEL_VALUE_MAX),
    WIRE_NUM(assigned),
    WIRE_END,
};
#undef OF
static const struct wire_table label_table = WIRE_TABLE(label, label, label_fields);

#define OF struct facts, Procfleet__V1__Facts
static const struct wire_field facts_fields[] = {
    WIRE_PART(inventory, &inventory_table),
    WIRE_LIST_IN(labels, n_labels, &label_table),
    WIRE_END,
};
#undef OF
const struct wire_table wire_facts_table = WIRE_TABLE(facts, facts, facts_fields);

/* -- as fields of others -- */

enum err wire_facts_put(Procfleet__V1__Inventory **inventory, size_t *n_labels,
                        Procfleet__V1__Label ***labels, const struct facts *f, struct wire_arena *a)
{
    Procfleet__V1__Facts m;
    enum err e = wire_table_put(&m, f, &wire_facts_table, a);

    *inventory = m.inventory;
    *n_labels = m.n_labels;
    *labels = m.labels;
    return e;
}

/* Calls `each` with all texts of the inventory until one is refused. */
static bool inventory_texts(struct inventory *in, bool (*each)(struct str *text, void *ctx),
                            void *ctx)
{
    bool ok = true;

#define EACH(name) ok = ok && each(&in->name, ctx);
    INVENTORY_TEXTS(EACH)
#undef EACH
    for (size_t i = 0; i < in->n_disks; i++) {
        ok = ok && each(&in->disks[i].model, ctx);
    }
    for (size_t i = 0; i < in->n_gpus; i++) {
        ok = ok && each(&in->gpus[i], ctx);
    }
    for (size_t i = 0; i < in->n_nics; i++) {
        ok = ok && each(&in->nics[i].name, ctx);
    }
    return ok;
}

static bool text_is_sound(struct str *text, void *ctx)
{
    (void)ctx;
    return inventory_text_ok(*text, INVENTORY_TEXT_MAX);
}

/* Each key once. */
static bool labels_are_sound(struct facts *f)
{
    size_t n = f->n_labels;
    bool ok = true;

    for (f->n_labels = 0; ok && f->n_labels < n; f->n_labels++) {
        const struct label *l = &f->labels[f->n_labels];

        ok = inventory_label_ok(l) && !inventory_label(f, l->key).p;
    }
    return ok;
}

enum err wire_facts_get(struct facts *out, const Procfleet__V1__Inventory *inventory,
                        size_t n_labels, Procfleet__V1__Label *const *labels)
{
    Procfleet__V1__Facts m = PROCFLEET__V1__FACTS__INIT;
    enum err e;

    m.inventory = (Procfleet__V1__Inventory *)(uintptr_t)inventory;
    m.n_labels = n_labels;
    m.labels = (Procfleet__V1__Label **)(uintptr_t)labels;
    memset(out, 0, sizeof *out);
    e = wire_table_get(out, &m, &wire_facts_table, NULL); /* all lists are arrays in it */
    if (!e && !(inventory_texts(&out->inventory, text_is_sound, NULL) && labels_are_sound(out))) {
        e = ERR_CORRUPT;
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

static bool text_keep(struct str *text, void *arena)
{
    if (text->p) {
        text->p = arena_dup(arena, text->p, text->n);
    }
    return text->p || !text->n;
}

static enum err facts_keep(struct facts *f, struct arena *a)
{
    bool ok = inventory_texts(&f->inventory, text_keep, a);

    for (size_t i = 0; i < f->n_labels; i++) {
        ok = ok && text_keep(&f->labels[i].key, a) && text_keep(&f->labels[i].value, a);
    }
    return ok ? ERR_OK : ERR_FULL;
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
