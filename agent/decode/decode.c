#include "agent/decode/decode.h"

#include <string.h>

#include "agent/decode/decode_class.h"
#include "common/mem.h"

#define UNKNOWN_SLOTS 256 /* a power of two above DECODE_UNKNOWN_MAX */

struct decode {
    struct decode_counts counts;
    struct decode_unknown unknown[UNKNOWN_SLOTS]; /* open addressing; count 0 = free */
    size_t n_unknown;
    struct decode_text text;
};

enum err decode_create(struct decode **out)
{
    struct decode *d = mem_zalloc(sizeof *d);

    if (!d) {
        return ERR_NOMEM;
    }
    *out = d;
    return ERR_OK;
}

void decode_destroy(struct decode *d)
{
    mem_free(d);
}

/* The operation for a record, or NULL; *known tells whether the record is known all the same. */
static const struct decode_op *find(const struct raw_event *raw, bool *known)
{
    const struct decode_class *k = decode_class_find(raw);

    *known = false;
    for (size_t op = 0; k && op < k->n_ops; op++) {
        if (k->ops[op].opcode == decode_number(raw) && raw->version >= k->ops[op].first_version) {
            return &k->ops[op];
        }
    }
    *known = k && layout_find(k->layouts, k->n_layouts, decode_number(raw), raw->version);
    return NULL;
}

static bool same_kind(const struct decode_unknown *u, const struct raw_event *raw)
{
    return u->id == decode_number(raw) && u->version == raw->version && u->form == raw->form &&
           memcmp(u->guid, raw->guid, sizeof raw->guid) == 0;
}

static size_t home_slot(const struct raw_event *raw)
{
    uint64_t a, b;

    memcpy(&a, raw->guid, 8);
    memcpy(&b, raw->guid + 8, 8);
    a ^= b ^ ((uint64_t)decode_number(raw) << 24 | (uint64_t)raw->version << 8 | raw->form);
    return (size_t)((a * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (UNKNOWN_SLOTS - 1);
}

static void count_unknown(struct decode *d, const struct raw_event *raw)
{
    size_t at = home_slot(raw);

    d->counts.unknown++;
    for (;; at = (at + 1) & (UNKNOWN_SLOTS - 1)) {
        struct decode_unknown *u = &d->unknown[at];

        if (u->count == 0) {
            break;
        }
        if (same_kind(u, raw)) {
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

static void count(struct decode *d, const struct raw_event *raw, bool known, enum err e)
{
    d->counts.in++;
    if (!known) {
        count_unknown(d, raw);
    } else if (e == ERR_OK) {
        d->counts.decoded++;
    } else if (e == ERR_NOTFOUND) {
        d->counts.ignored++;
    } else {
        d->counts.corrupt++;
    }
}

enum err decode_event(struct decode *d, const struct raw_event *raw, struct event *out)
{
    bool known;
    const struct decode_op *op = find(raw, &known);
    enum err e = ERR_NOTFOUND;

    if (op) {
        decode_text_reset(&d->text);
        e = op->fn(out, op->kind, raw, &d->text);
    }
    if (!raw->early) {
        count(d, raw, op || known, e);
    }
    if (e) {
        return e;
    }
    out->kind = op->kind;
    out->early = raw->early;
    out->cpu = raw->cpu;
    out->pid = raw->pid;
    out->tid = raw->tid;
    out->wall_ns = raw->wall_ns;
    out->mono_ns = raw->mono_ns;
    return ERR_OK;
}

void decode_stats(const struct decode *d, struct decode_counts *out)
{
    *out = d->counts;
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
