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

/* The most frequent first. */
static const struct decode_class *const classes[] = {
    &decode_perf_info_class,
    &decode_thread_class,
    &decode_image_class,
    &decode_process_class,
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

static const struct decode_op *find(const struct raw_event *raw)
{
    if (raw->form != RAW_CLASSIC) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        const struct decode_class *k = classes[i];

        if (memcmp(k->guid, raw->guid, sizeof raw->guid) != 0) {
            continue;
        }
        for (size_t op = 0; op < k->n_ops; op++) {
            if (k->ops[op].opcode == raw->opcode && raw->version >= k->ops[op].first_version) {
                return &k->ops[op];
            }
        }
        return NULL;
    }
    return NULL;
}

static uint16_t number_of(const struct raw_event *raw)
{
    return raw->form == RAW_CLASSIC ? raw->opcode : raw->id;
}

static bool same_kind(const struct decode_unknown *u, const struct raw_event *raw)
{
    return u->id == number_of(raw) && u->version == raw->version && u->form == raw->form &&
           memcmp(u->guid, raw->guid, sizeof raw->guid) == 0;
}

static size_t home_slot(const struct raw_event *raw)
{
    uint64_t a, b;

    memcpy(&a, raw->guid, 8);
    memcpy(&b, raw->guid + 8, 8);
    a ^= b ^ ((uint64_t)number_of(raw) << 24 | (uint64_t)raw->version << 8 | raw->form);
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
        .form = raw->form, .version = raw->version, .id = number_of(raw), .count = 1};
    memcpy(d->unknown[at].guid, raw->guid, sizeof raw->guid);
    d->n_unknown++;
}

static void count(struct decode *d, const struct raw_event *raw, const struct decode_op *op,
                  enum err e)
{
    d->counts.in++;
    if (!op) {
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
    const struct decode_op *op = find(raw);
    enum err e = ERR_NOTFOUND;

    if (op) {
        decode_text_reset(&d->text);
        e = op->fn(out, op->kind, raw, &d->text);
    }
    if (!raw->early) {
        count(d, raw, op, e);
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
