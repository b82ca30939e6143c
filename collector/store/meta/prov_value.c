#include "collector/store/meta/prov_value.h"

#include "common/base/cur.h"
#include "common/base/mem.h"

#define PROV_FORMAT 1u

static bool is_provider(const struct life_event *ev)
{
    return ev->kind == LIFE_PROVIDER;
}

static size_t count_of(const struct batch *b, bool provider)
{
    size_t n = 0;

    for (size_t i = 0; i < b->n_events; i++) {
        n += is_provider(&b->events[i]) == provider;
    }
    return n;
}

bool prov_value_has(const struct host_window *hw)
{
    for (size_t i = 0; i < hw->n_rests; i++) {
        if (count_of(&hw->rests[i].batch, true)) {
            return true;
        }
    }
    return false;
}

/* The batch's events of one sort; both sorts keep their order. */
static enum err select_events(struct batch *b, struct arena *memory, bool provider)
{
    size_t n = count_of(b, provider), k = 0;
    struct life_event *events = arena_array(memory, n, sizeof *events);

    if (!events) {
        return arena_refused(memory, n * sizeof *events);
    }
    for (size_t i = 0; i < b->n_events; i++) {
        if (is_provider(&b->events[i]) == provider) {
            events[k++] = b->events[i];
        }
    }
    b->events = events;
    b->n_events = n;
    return ERR_OK;
}

enum err prov_value_strip(struct host_window *hw, struct arena *memory)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < hw->n_rests && !e; i++) {
        if (count_of(&hw->rests[i].batch, true)) {
            e = select_events(&hw->rests[i].batch, memory, false);
        }
    }
    return e;
}

/* -- writing -- */

struct prov_writer {
    struct wire_encoder *encoder;
    struct arena *memory;
    struct buf raw, message, packed;
};

static enum err record_put(struct prov_writer *x, const struct window_rest *r)
{
    struct batch b = {
        .head = r->batch.head, .n_events = r->batch.n_events, .events = r->batch.events};
    enum err e = select_events(&b, x->memory, true);

    buf_reset(&x->message);
    if (!e) {
        e = wire_batch_pack(x->encoder, &x->message, &b);
    }
    buf_put_svarint(&x->raw, r->received_ns);
    buf_put_u8(&x->raw, (uint8_t)(r->clock.known | r->clock.bounded << 1));
    buf_put_svarint(&x->raw, r->clock.offset_ns);
    buf_put_svarint(&x->raw, r->clock.error_ns);
    buf_put_varint(&x->raw, x->message.n);
    buf_put(&x->raw, x->message.p, x->message.n);
    return e ? e : x->raw.bad;
}

/* The records from *at on, as many as one value has. */
static enum err value_put(struct prov_writer *x, const struct host_window *hw, size_t *at,
                          uint64_t *events)
{
    enum err e = ERR_OK;

    buf_reset(&x->raw);
    buf_put_u8(&x->raw, PROV_FORMAT);
    buf_put_u8(&x->raw, 0);
    for (; *at < hw->n_rests && x->raw.n < PROV_VALUE_BYTES && !e; ++*at) {
        const struct window_rest *r = &hw->rests[*at];
        size_t n = count_of(&r->batch, true);

        e = n ? record_put(x, r) : ERR_OK;
        *events += n;
    }
    if (!e && *at < hw->n_rests) {
        x->raw.p[1] = 1;
    }
    return e;
}

static enum err write_values(struct prov_writer *x, struct seg_writer *w, struct packer *p,
                             struct seg_key key, const struct host_window *hw, uint64_t *events)
{
    unsigned n = 0;
    enum err e = ERR_OK;

    for (size_t at = 0; at < hw->n_rests && !e;) {
        if (n == PROV_VALUES_MAX) {
            return ERR_FULL;
        }
        key.metric = (uint8_t)n++;
        e = value_put(x, hw, &at, events);
        if (!e) {
            buf_reset(&x->packed);
            pack_put(p, &x->packed, x->raw.p, x->raw.n);
            e = x->packed.bad ? x->packed.bad : seg_writer_add(w, key, x->packed.p, x->packed.n);
        }
    }
    return e;
}

enum err prov_value_write(struct seg_writer *w, struct packer *p, uint32_t host, uint8_t window,
                          const struct host_window *hw, struct arena *memory, uint64_t *events)
{
    const struct seg_key key = {SEG_PART_PROVIDER, 0, window, host};
    struct prov_writer x = {.memory = memory};
    enum err e = wire_batch_encoder_create(&x.encoder);

    if (e) {
        return e;
    }
    buf_init(&x.raw, PROV_VALUE_MAX);
    buf_init(&x.message, WIRE_BATCH_OWN_MAX);
    buf_init(&x.packed, SEG_VALUE_MAX);
    e = write_values(&x, w, p, key, hw, events);
    buf_fini(&x.packed);
    buf_fini(&x.message);
    buf_fini(&x.raw);
    wire_batch_encoder_destroy(x.encoder);
    return e;
}

/* -- reading -- */

struct prov_reader {
    const struct seg *seg;
    struct packer *packer;
    struct seg_key key;
    unsigned values; /* read so far */
    bool more;       /* another one follows */
    struct cur c;    /* in the one at hand */
    struct arena memory;
    struct batch *batch;
    struct window_rest rest;
};

enum err prov_value_record(struct cur *c, struct batch **out, struct window_rest *rest)
{
    struct window_rest r = {.received_ns = cur_svarint(c)};
    uint8_t clock = cur_u8(c);
    const uint8_t *p;
    uint64_t n;
    enum err e;

    r.clock = (struct host_offset){.known = clock & 1, .bounded = clock >> 1 & 1};
    r.clock.offset_ns = cur_svarint(c);
    r.clock.error_ns = cur_svarint(c);
    n = cur_varint(c);
    p = n <= cur_left(c) ? cur_bytes(c, (size_t)n) : NULL;
    if (!p) {
        c->bad = true;
        return ERR_CORRUPT;
    }
    e = wire_batch_unpack(out, p, (size_t)n);
    if (e) {
        return e;
    }
    for (size_t i = 0; i < (*out)->n_events; i++) {
        int64_t ns = (*out)->events[i].wall_ns;

        if (ns < 0 || ns > WINDOW_STAMP_MAX) {
            wire_batch_free(*out);
            return ERR_CORRUPT;
        }
    }
    r.batch = **out;
    *rest = r;
    return ERR_OK;
}

enum err prov_value_open(struct prov_reader **out, const struct seg *s, struct packer *p,
                         uint32_t host, uint8_t window)
{
    struct prov_reader *r = mem_zalloc(sizeof *r);

    if (!r) {
        return ERR_NOMEM;
    }
    r->seg = s;
    r->packer = p;
    r->key = (struct seg_key){SEG_PART_PROVIDER, 0, window, host};
    r->more = true;
    arena_init(&r->memory, SEG_VALUE_MAX + PROV_VALUE_MAX);
    *out = r;
    return ERR_OK;
}

void prov_value_close(struct prov_reader *r)
{
    if (r) {
        wire_batch_free(r->batch);
        arena_fini(&r->memory);
        mem_free(r);
    }
}

size_t prov_value_memory(const struct prov_reader *r)
{
    return r->memory.used + (r->batch ? wire_batch_room(r->batch) : 0);
}

static enum err value_next(struct prov_reader *r)
{
    const uint8_t *value, *raw;
    size_t value_n, raw_n;
    uint8_t format;
    enum err e;

    if (r->values == PROV_VALUES_MAX) {
        return ERR_CORRUPT;
    }
    arena_reset(&r->memory);
    r->key.metric = (uint8_t)r->values++;
    e = seg_read(r->seg, &r->memory, r->key, &value, &value_n);
    if (e == ERR_NOTFOUND && r->values > 1) {
        return ERR_CORRUPT; /* the one before said it is there */
    }
    e = e ? e : pack_open(r->packer, &r->memory, &raw, &raw_n, value, value_n, PROV_VALUE_MAX);
    if (e) {
        return e;
    }
    r->c = cur_make(raw, raw_n);
    format = cur_u8(&r->c);
    r->more = cur_u8(&r->c) != 0;
    if (!r->c.bad && format != PROV_FORMAT) {
        return ERR_VERSION;
    }
    return r->c.bad ? ERR_CORRUPT : ERR_OK;
}

static enum err record_next(struct prov_reader *r)
{
    enum err e;

    wire_batch_free(r->batch);
    r->batch = NULL;
    while (cur_left(&r->c) == 0) {
        if (!r->more) {
            return ERR_END;
        }
        e = value_next(r);
        if (e) {
            return e;
        }
    }
    e = prov_value_record(&r->c, &r->batch, &r->rest);
    if (!e && memcmp(r->batch->head.host.b, seg_host(r->seg, r->key.host)->id.b, 16) != 0) {
        return ERR_CORRUPT;
    }
    return e;
}

enum err prov_value_next(struct prov_reader *r, const struct window_rest **out)
{
    enum err e = record_next(r);

    if (e) {
        r->more = false;
        r->c = cur_make(NULL, 0);
    }
    *out = &r->rest;
    return e;
}
