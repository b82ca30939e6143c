#include "agent/decode/decode.h"

#include <assert.h>
#include <string.h>

#include "agent/decode/decode_class.h"
#include "common/base/mem.h"

#define UNKNOWN_SLOTS 256 /* a power of two above DECODE_UNKNOWN_MAX */

/* Which operation a record is for must be found tens of millions of times a second. So the classes
 * stand in a small hash table by their GUID, the one of the record before is tried first, and each
 * has a table from opcode to the first operation of that opcode. */
#define CLASS_SLOTS   64  /* a power of two, at least twice the number of classes */
#define CLASS_NUMBERS 256 /* opcodes; larger ids of manifest providers are searched for */

const struct decode_class *const decode_classes[] = {
#define DECODE_CLASS(name) &decode_##name##_class,
    DECODE_CLASSES(DECODE_CLASS)
#undef DECODE_CLASS
};

const size_t decode_classes_n = sizeof decode_classes / sizeof *decode_classes;
_Static_assert(sizeof decode_classes / sizeof *decode_classes <= CLASS_SLOTS / 2, "room to probe");

struct class_slot {
    uint64_t guid[2];
    const struct decode_class *k;  /* NULL: free */
    uint8_t form;                  /* k's, nearer */
    uint8_t first[CLASS_NUMBERS];  /* of a number: its place in k->ops, and one */
    uint8_t layout[CLASS_NUMBERS]; /* the same in k->layouts, or the 255th where it is behind */
    bool whole[CLASS_NUMBERS];     /* that layout is for every version */
};

struct decode {
    struct decode_counts counts;
    const struct class_slot *last;
    struct class_slot classes[CLASS_SLOTS];
    struct decode_unknown unknown[UNKNOWN_SLOTS]; /* open addressing; count 0 = free */
    size_t n_unknown;
    struct decode_text text;
};

static size_t decode_class_home(const uint64_t guid[2])
{
    return (size_t)(((guid[0] ^ guid[1]) * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (CLASS_SLOTS - 1);
}

static void decode_class_put(struct decode *d, const struct decode_class *k)
{
    struct class_slot *slot;
    uint64_t guid[2];
    size_t at;

    assert(k->n_ops < UINT8_MAX);
    memcpy(guid, k->guid, sizeof guid);
    for (at = decode_class_home(guid); d->classes[at].k; at = (at + 1) & (CLASS_SLOTS - 1)) {
    }
    slot = &d->classes[at];
    memcpy(slot->guid, guid, sizeof guid);
    slot->k = k;
    slot->form = k->form;
    for (size_t i = k->n_ops; i-- > 0;) {
        if (k->ops[i].opcode < CLASS_NUMBERS) {
            slot->first[k->ops[i].opcode] = (uint8_t)(i + 1);
        }
    }
    for (size_t i = k->n_layouts; i-- > 0;) {
        if (k->layouts[i].opcode < CLASS_NUMBERS) {
            slot->layout[k->layouts[i].opcode] = (uint8_t)(i < UINT8_MAX ? i + 1 : UINT8_MAX);
            slot->whole[k->layouts[i].opcode] = k->layouts[i].first == 0 && k->layouts[i].last == 0;
        }
    }
}

enum err decode_create(struct decode **out)
{
    struct decode *d = mem_zalloc(sizeof *d);

    if (!d) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < CLASS_SLOTS; i++) {
        d->classes[i].form = UINT8_MAX; /* free ones fit no record */
    }
    for (size_t i = 0; i < decode_classes_n; i++) {
        decode_class_put(d, decode_classes[i]);
    }
    d->last = &d->classes[0];
    *out = d;
    return ERR_OK;
}

void decode_destroy(struct decode *d)
{
    mem_free(d);
}

static inline bool decode_slot_fits(const struct class_slot *slot, const uint64_t guid[2],
                                    uint8_t form)
{
    return slot->guid[0] == guid[0] && slot->guid[1] == guid[1] && slot->form == form;
}

static const struct class_slot *decode_class_search(struct decode *d, const uint64_t guid[2],
                                                    uint8_t form)
{
    for (size_t at = decode_class_home(guid); d->classes[at].k; at = (at + 1) & (CLASS_SLOTS - 1)) {
        if (decode_slot_fits(&d->classes[at], guid, form)) {
            d->last = &d->classes[at];
            return d->last;
        }
    }
    return NULL;
}

static inline const struct class_slot *decode_class_of(struct decode *d,
                                                       const struct raw_event *raw)
{
    uint64_t guid[2];

    memcpy(guid, raw->guid, sizeof guid);
    return decode_slot_fits(d->last, guid, raw->form) ? d->last
                                                      : decode_class_search(d, guid, raw->form);
}

static const struct decode_op *decode_op_from(const struct class_slot *slot, size_t i,
                                              const struct raw_event *raw)
{
    uint16_t number = decode_number(raw);

    for (; i < slot->k->n_ops; i++) {
        const struct decode_op *op = &slot->k->ops[i];

        if (op->opcode == number && raw->version >= op->first_version) {
            return op;
        }
    }
    return NULL;
}

/* The operation for a record, or NULL. */
static inline const struct decode_op *decode_op_find(const struct class_slot *slot,
                                                     const struct raw_event *raw)
{
    uint16_t number = decode_number(raw);
    const struct decode_op *op;

    if (!slot) {
        return NULL;
    }
    if (number >= CLASS_NUMBERS) {
        return decode_op_from(slot, 0, raw);
    }
    if (!slot->first[number]) {
        return NULL;
    }
    op = &slot->k->ops[slot->first[number] - 1];
    return raw->version < op->first_version ? decode_op_from(slot, slot->first[number], raw) : op;
}

static bool decode_is_known(const struct class_slot *slot, const struct raw_event *raw)
{
    uint16_t number = decode_number(raw);
    size_t from;

    if (!slot) {
        return false;
    }
    if (number < CLASS_NUMBERS && slot->whole[number]) {
        return true;
    }
    from = number < CLASS_NUMBERS ? slot->layout[number] : 1;
    return from && layout_find(slot->k->layouts + from - 1, slot->k->n_layouts - from + 1, number,
                               raw->version);
}

static bool decode_unknown_is(const struct decode_unknown *u, const struct raw_event *raw)
{
    return u->id == decode_number(raw) && u->version == raw->version && u->form == raw->form &&
           memcmp(u->guid, raw->guid, sizeof raw->guid) == 0;
}

static size_t decode_unknown_home(const struct raw_event *raw)
{
    uint64_t a, b;

    memcpy(&a, raw->guid, 8);
    memcpy(&b, raw->guid + 8, 8);
    a ^= b ^ ((uint64_t)decode_number(raw) << 24 | (uint64_t)raw->version << 8 | raw->form);
    return (size_t)((a * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (UNKNOWN_SLOTS - 1);
}

static void decode_count_unknown(struct decode *d, const struct raw_event *raw)
{
    size_t at = decode_unknown_home(raw);

    d->counts.unknown++;
    for (;; at = (at + 1) & (UNKNOWN_SLOTS - 1)) {
        struct decode_unknown *u = &d->unknown[at];

        if (u->count == 0) {
            break;
        }
        if (decode_unknown_is(u, raw)) {
            u->count++;
            return;
        }
    }
    if (d->n_unknown == DECODE_UNKNOWN_MAX) {
        d->counts.unknown_untold++;
        return;
    }
    d->unknown[at] = (struct decode_unknown){
        .form = raw->form, .version = raw->version, .id = decode_number(raw), .count = 1};
    memcpy(d->unknown[at].guid, raw->guid, sizeof raw->guid);
    d->n_unknown++;
}

static void decode_count_failed(struct decode *d, enum err e)
{
    if (e == ERR_NOTFOUND) {
        d->counts.ignored++;
    } else {
        d->counts.corrupt++;
    }
}

/* A record that no operation is for. */
static void decode_count_other(struct decode *d, const struct class_slot *slot,
                               const struct raw_event *raw)
{
    if (decode_is_known(slot, raw)) {
        d->counts.ignored++;
    } else {
        decode_count_unknown(d, raw);
    }
}

enum err decode_event(struct decode *d, const struct raw_event *raw, struct event *out)
{
    const struct class_slot *slot = decode_class_of(d, raw);
    const struct decode_op *op = decode_op_find(slot, raw);
    enum err e;

    if (!op) {
        if (!raw->early) {
            decode_count_other(d, slot, raw);
        }
        return ERR_NOTFOUND;
    }
    decode_text_reset(&d->text);
    e = op->fn(out, op->kind, raw, &d->text);
    if (e) {
        if (!raw->early) {
            decode_count_failed(d, e);
        }
        return e;
    }
    d->counts.decoded += !raw->early;
    out->kind = op->kind;
    out->early = raw->early;
    out->cpu = raw->cpu;
    out->pid = raw->pid;
    out->tid = raw->tid;
    out->wall_ns = raw->wall_ns;
    out->mono_ns = raw->mono_ns;
    return ERR_OK;
}

void decode_switches(struct decode *d, size_t n)
{
    d->counts.decoded += n;
}

void decode_stats(const struct decode *d, struct decode_counts *out)
{
    *out = d->counts;
    out->in = out->decoded + out->ignored + out->unknown + out->corrupt;
}

size_t decode_unknown_kinds(const struct decode *d, struct decode_unknown *out, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < UNKNOWN_SLOTS && n < max; i++) {
        if (d->unknown[i].count) {
            out[n++] = d->unknown[i];
        }
    }
    return n;
}

const struct decode_class *decode_class_find(const struct raw_event *raw)
{
    for (size_t i = 0; i < decode_classes_n; i++) {
        const struct decode_class *k = decode_classes[i];

        if (k->form == raw->form && memcmp(k->guid, raw->guid, sizeof raw->guid) == 0) {
            return k;
        }
    }
    return NULL;
}
