/* Reading rests: every count is checked against the bytes that are left before memory is taken for
 * it, so memory is in proportion to the bytes; stamps are such that sums with spans never wrap. */
#include "collector/store/meta/meta_impl.h"

#include "collector/store/store.h"

/* The least bytes of one: */
#define META_BYTES   37u
#define INFO_BYTES   15u
#define EVENT_BYTES  (5u + INFO_BYTES)
#define LEDGER_BYTES 3u

static void fail(struct meta_chunk *x, enum err e)
{
    x->bad = x->bad ? x->bad : e;
    x->c.bad = true;
}

/* A number of things of at least `least` bytes each. */
static size_t get_count(struct meta_chunk *x, size_t least)
{
    uint64_t n = cur_varint(&x->c);

    if (x->c.bad || n > cur_left(&x->c) / least) {
        x->c.bad = true;
        return 0;
    }
    return (size_t)n;
}

/* Room for n things; NULL (and bad) when there is none. */
static void *get_room(struct meta_chunk *x, size_t n, size_t size)
{
    void *p = arena_array(x->memory, n, size);

    if (!p) {
        fail(x, arena_refused(x->memory, n * size));
    }
    return p;
}

static uint32_t get_u32(struct meta_chunk *x)
{
    uint64_t v = cur_varint(&x->c);

    if (v > UINT32_MAX) {
        x->c.bad = true;
        return 0;
    }
    return (uint32_t)v;
}

static struct str get_text(struct meta_chunk *x)
{
    uint64_t i = cur_varint(&x->c);
    static const struct str none = {"", 0};

    if (x->c.bad || i >= x->n_texts) {
        x->c.bad = true;
        return none;
    }
    return x->texts[i];
}

static void get_texts(struct meta_chunk *x)
{
    size_t n = get_count(x, 1);

    x->texts = get_room(x, n, sizeof *x->texts);
    for (size_t i = 0; i < n && !x->c.bad; i++) {
        size_t len = get_count(x, 1);

        x->texts[i].p = (const char *)cur_bytes(&x->c, len);
        x->texts[i].n = len;
        if (len > MODEL_COMMAND_LINE_MAX) {
            x->c.bad = true;
        }
    }
    x->n_texts = x->c.bad ? 0 : n;
}

static int64_t sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static bool stamp_ok(int64_t ns)
{
    return ns >= 0 && ns <= STORE_STAMP_MAX;
}

static void get_ticks(struct meta_chunk *x, struct batch *b)
{
    size_t n = get_count(x, 2);
    int64_t *wall = get_room(x, n, sizeof *wall), *mono = get_room(x, n, sizeof *mono), step = 0;

    for (size_t i = 0; i < n && !x->c.bad; i++) {
        if (i == 0) {
            x->wall_ns = wall[0] = sum(x->wall_ns, cur_svarint(&x->c));
            mono[0] = cur_svarint(&x->c);
        } else {
            step = sum(step, cur_svarint(&x->c));
            wall[i] = sum(wall[i - 1], step);
            mono[i] = sum(mono[i - 1], sum(step, cur_svarint(&x->c)));
        }
        if (!stamp_ok(wall[i]) || (i && (wall[i] <= wall[i - 1] || mono[i] <= mono[i - 1]))) {
            x->c.bad = true;
        }
    }
    b->n_ticks = x->c.bad ? 0 : n;
    b->wall_ns = wall;
    b->mono_ns = mono;
}

static void get_info(struct meta_chunk *x, struct proc_info *i)
{
    struct cur *c = &x->c;

    i->id.pid = get_u32(x);
    i->id.start = cur_varint(c);
    i->have = get_u32(x);
    i->origin = cur_u8(c);
    i->cpu_origin = cur_u8(c);
    i->parent_pid = get_u32(x);
    i->parent_start = cur_varint(c);
    i->session_id = get_u32(x);
    i->exit_code = get_u32(x);
    i->create_ns = cur_svarint(c);
    i->exit_ns = cur_svarint(c);
    i->name = get_text(x);
    i->image = get_text(x);
    i->command_line = get_text(x);
    i->user = get_text(x);
}

static void get_infos(struct meta_chunk *x, struct batch *b)
{
    size_t n = get_count(x, INFO_BYTES);
    struct proc_info *infos = get_room(x, n, sizeof *infos);

    for (size_t i = 0; i < n && !x->c.bad; i++) {
        get_info(x, &infos[i]);
    }
    b->infos = infos;
    b->n_infos = n;
}

static void get_events(struct meta_chunk *x, struct batch *b)
{
    size_t n = get_count(x, EVENT_BYTES);
    struct life_event *events = get_room(x, n, sizeof *events);
    int64_t wall_ns = x->wall_ns, mono_ns = b->n_ticks ? b->mono_ns[0] : 0;

    for (size_t i = 0; i < n && !x->c.bad; i++) {
        struct life_event *ev = &events[i];

        ev->kind = cur_u8(&x->c);
        wall_ns = sum(wall_ns, cur_svarint(&x->c));
        mono_ns = sum(mono_ns, cur_svarint(&x->c));
        ev->wall_ns = wall_ns;
        ev->mono_ns = mono_ns;
        ev->tid = get_u32(x);
        ev->text = get_text(x);
        get_info(x, &ev->info);
        if (!stamp_ok(wall_ns)) {
            x->c.bad = true;
        }
    }
    b->events = events;
    b->n_events = n;
}

static void get_ledger(struct meta_chunk *x, struct batch *b)
{
    size_t n = get_count(x, LEDGER_BYTES);
    struct ledger_row *rows = get_room(x, n, sizeof *rows);

    for (size_t i = 0; i < n && !x->c.bad; i++) {
        rows[i].stage = get_text(x);
        rows[i].reason = get_text(x);
        rows[i].count = cur_varint(&x->c);
        if (rows[i].stage.n > MODEL_TEXT_MAX || rows[i].reason.n > MODEL_TEXT_MAX) {
            x->c.bad = true;
        }
    }
    b->ledger = rows;
    b->n_ledger = n;
}

static void get_rest(struct meta_chunk *x, struct window_rest *r)
{
    struct batch_head *h = &r->batch.head;
    const uint8_t *boot;
    uint8_t clock;

    h->stream = cur_u64le(&x->c);
    h->seq = cur_varint(&x->c);
    boot = cur_bytes(&x->c, sizeof h->boot.b);
    x->c.bad = x->c.bad || h->seq == 0;
    if (boot) {
        memcpy(h->boot.b, boot, sizeof h->boot.b);
    }
    h->flags = get_u32(x);
    h->cpus = get_u32(x);
    h->source = get_text(x);
    x->received_ns = r->received_ns = sum(x->received_ns, cur_svarint(&x->c));
    clock = cur_u8(&x->c);
    r->clock = (struct host_offset){clock & 1, clock >> 1 & 1, 0, 0};
    r->clock.offset_ns = cur_svarint(&x->c);
    r->clock.error_ns = cur_svarint(&x->c);
    get_ticks(x, &r->batch);
    get_infos(x, &r->batch);
    get_events(x, &r->batch);
    get_ledger(x, &r->batch);
}

static enum err outcome(const struct meta_chunk *x)
{
    return x->bad ? x->bad : x->c.bad ? ERR_CORRUPT : ERR_OK;
}

enum err meta_chunk_open(struct meta_chunk *out, struct arena *memory, const uint8_t *raw,
                         size_t raw_n, const struct uuid *host, bool *more)
{
    struct meta_chunk x = {.c = cur_make(raw, raw_n), .host = *host, .memory = memory};
    uint8_t format = cur_u8(&x.c), follows = cur_u8(&x.c);

    if (!x.c.bad && format != META_FORMAT) {
        return ERR_VERSION;
    }
    get_texts(&x);
    x.left = get_count(&x, META_BYTES);
    *out = x;
    *more = follows != 0;
    return outcome(&x);
}

enum err meta_chunk_next(struct meta_chunk *x, struct arena *memory, struct window_rest *out)
{
    if (x->left == 0) {
        return cur_left(&x->c) ? ERR_CORRUPT : ERR_END;
    }
    x->left--;
    x->memory = memory;
    *out = (struct window_rest){.received_ns = 0};
    get_rest(x, out);
    out->batch.head.host = x->host;
    return outcome(x);
}

enum err meta_decode(struct arena *memory, const uint8_t *raw, size_t raw_n,
                     const struct uuid *host, struct window_rest **out, size_t *n, bool *more)
{
    struct window_rest *rests;
    struct meta_chunk x;
    size_t count;
    enum err e = meta_chunk_open(&x, memory, raw, raw_n, host, more);

    if (e) {
        return e;
    }
    count = x.left;
    rests = arena_array(memory, count, sizeof *rests);
    if (!rests) {
        return arena_refused(memory, count * sizeof *rests);
    }
    for (size_t i = 0; i < count && !e; i++) {
        e = meta_chunk_next(&x, memory, &rests[i]);
    }
    if (e || cur_left(&x.c)) {
        return e ? e : ERR_CORRUPT;
    }
    *out = rests;
    *n = count;
    return ERR_OK;
}
