/* A rest value is one pack (pack.h) of
 *
 *   u8 format, u8 more (another chunk follows)
 *   texts    number, then of each: length, bytes. Text elsewhere is a place in this list.
 *   rests    number, then the batches, oldest first
 *
 * Numbers are LEB128, signed ones zigzag; stamps are differences to what stands before them, ticks
 * differences of differences, since ticks are even and both clocks run alike. Every text is stored
 * once, however many infos and ledger rows have it: that makes reading cheap, which is one look at
 * each of them, and the bytes few. A window of a busy host may be too much for one value: then
 * there are several, told apart by seg_key.metric. */
#include "collector/store/meta/meta_impl.h"

#include "common/base/hash.h"
#include "common/base/mem.h"

struct texts {
    struct buf bytes;
    uint64_t n;
    struct slot {
        struct str text;
        uint64_t place; /* plus one; 0: empty */
    } * slots;
    size_t cap;
};

struct encoder {
    struct buf body;
    struct texts texts;
    struct meta_written *written;
    const struct uuid *host;
    int64_t received_ns, wall_ns; /* what differences are to */
};

/* -- text -- */

static struct slot *slot_of(const struct texts *t, struct str s)
{
    size_t i = (size_t)hash_bytes(s.n ? s.p : "", s.n, 0) & (t->cap - 1);

    while (t->slots[i].place && !str_eq(t->slots[i].text, s)) {
        i = (i + 1) & (t->cap - 1);
    }
    return &t->slots[i];
}

static bool texts_grow(struct texts *t)
{
    struct texts bigger = {.cap = t->cap ? t->cap * 2 : 256};

    bigger.slots = mem_array(bigger.cap, sizeof *bigger.slots);
    if (!bigger.slots) {
        return false;
    }
    for (size_t i = 0; i < t->cap; i++) {
        if (t->slots[i].place) {
            *slot_of(&bigger, t->slots[i].text) = t->slots[i];
        }
    }
    mem_free(t->slots);
    t->slots = bigger.slots;
    t->cap = bigger.cap;
    return true;
}

static void put_text(struct encoder *x, struct str s)
{
    struct texts *t = &x->texts;
    struct slot *at;

    if (t->n * 2 >= t->cap && !texts_grow(t)) {
        x->body.bad = x->body.bad ? x->body.bad : ERR_NOMEM;
        return;
    }
    at = slot_of(t, s);
    if (!at->place) {
        *at = (struct slot){s, ++t->n};
        buf_put_varint(&t->bytes, s.n);
        buf_put(&t->bytes, s.p, s.n);
    }
    buf_put_varint(&x->body, at->place - 1);
}

/* -- what a batch consists of -- */

/* a - b, where both may be anything. */
static int64_t apart(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static void put_ticks(struct encoder *x, const struct batch *b)
{
    int64_t step = 0;

    buf_put_varint(&x->body, b->n_ticks);
    for (size_t i = 0; i < b->n_ticks; i++) {
        if (i == 0) {
            buf_put_svarint(&x->body, apart(b->wall_ns[0], x->wall_ns));
            buf_put_svarint(&x->body, b->mono_ns[0]);
            x->wall_ns = b->wall_ns[0];
        } else {
            int64_t wall = apart(b->wall_ns[i], b->wall_ns[i - 1]);

            buf_put_svarint(&x->body, apart(wall, step));
            buf_put_svarint(&x->body, apart(apart(b->mono_ns[i], b->mono_ns[i - 1]), wall));
            step = wall;
        }
    }
}

static void put_info(struct encoder *x, const struct proc_info *i)
{
    struct buf *b = &x->body;

    buf_put_varint(b, i->id.pid);
    buf_put_varint(b, i->id.start);
    buf_put_varint(b, i->have);
    buf_put_u8(b, i->origin);
    buf_put_u8(b, i->cpu_origin);
    buf_put_varint(b, i->parent_pid);
    buf_put_varint(b, i->parent_start);
    buf_put_varint(b, i->session_id);
    buf_put_varint(b, i->exit_code);
    buf_put_svarint(b, i->create_ns);
    buf_put_svarint(b, i->exit_ns);
    put_text(x, i->name);
    put_text(x, i->image);
    put_text(x, i->command_line);
    put_text(x, i->user);
}

static enum err put_infos(struct encoder *x, const struct batch *b)
{
    uint8_t *known = mem_zalloc(b->n_infos + 1);
    size_t n = b->n_infos;

    if (!known) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; x->written && i < b->n_infos; i++) {
        known[i] = meta_written_has(x->written, x->host, &b->head.boot, &b->infos[i]);
        n -= known[i];
    }
    buf_put_varint(&x->body, n);
    for (size_t i = 0; i < b->n_infos; i++) {
        if (!known[i]) {
            put_info(x, &b->infos[i]);
        }
    }
    mem_free(known);
    return ERR_OK;
}

static void put_events(struct encoder *x, const struct batch *b)
{
    int64_t wall_ns = x->wall_ns, mono_ns = b->n_ticks ? b->mono_ns[0] : 0;

    buf_put_varint(&x->body, b->n_events);
    for (size_t i = 0; i < b->n_events; i++) {
        const struct life_event *ev = &b->events[i];

        buf_put_u8(&x->body, ev->kind);
        buf_put_svarint(&x->body, apart(ev->wall_ns, wall_ns));
        buf_put_svarint(&x->body, apart(ev->mono_ns, mono_ns));
        buf_put_varint(&x->body, ev->tid);
        put_text(x, ev->text);
        put_info(x, &ev->info);
        wall_ns = ev->wall_ns;
        mono_ns = ev->mono_ns;
    }
}

static enum err put_rest(struct encoder *x, const struct window_rest *r)
{
    const struct batch_head *h = &r->batch.head;
    struct buf *b = &x->body;
    enum err e;

    buf_put_u64le(b, h->stream);
    buf_put_varint(b, h->seq);
    buf_put(b, h->boot.b, sizeof h->boot.b);
    buf_put_varint(b, h->flags);
    buf_put_varint(b, h->cpus);
    put_text(x, h->source);
    buf_put_svarint(b, apart(r->received_ns, x->received_ns));
    buf_put_u8(b, (uint8_t)(r->clock.known | r->clock.bounded << 1));
    buf_put_svarint(b, r->clock.offset_ns);
    buf_put_svarint(b, r->clock.error_ns);
    x->received_ns = r->received_ns;
    put_ticks(x, &r->batch);
    e = put_infos(x, &r->batch);
    put_events(x, &r->batch);
    buf_put_varint(b, r->batch.n_ledger);
    for (size_t i = 0; i < r->batch.n_ledger; i++) {
        put_text(x, r->batch.ledger[i].stage);
        put_text(x, r->batch.ledger[i].reason);
        buf_put_varint(b, r->batch.ledger[i].count);
    }
    return e ? e : b->bad;
}

/* -- a chunk -- */

enum err meta_encode(struct buf *out, const struct host_window *hw, size_t from,
                     struct meta_written *written, size_t *done)
{
    struct encoder x = {.written = written, .host = &hw->host};
    size_t n = 0;
    enum err e = ERR_OK;

    buf_init(&x.body, META_RAW_MAX);
    buf_init(&x.texts.bytes, META_RAW_MAX);
    while (!e && from + n < hw->n_rests && x.body.n + x.texts.bytes.n < META_CHUNK_BYTES) {
        e = put_rest(&x, &hw->rests[from + n++]);
    }
    buf_put_u8(out, META_FORMAT);
    buf_put_u8(out, from + n < hw->n_rests);
    buf_put_varint(out, x.texts.n);
    buf_put(out, x.texts.bytes.p, x.texts.bytes.n);
    buf_put_varint(out, n);
    buf_put(out, x.body.p, x.body.n);
    e = e ? e : x.texts.bytes.bad ? x.texts.bytes.bad : out->bad;
    buf_fini(&x.body);
    buf_fini(&x.texts.bytes);
    mem_free(x.texts.slots);
    *done = n;
    return e;
}
