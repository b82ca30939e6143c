#include "collector/store/meta/meta.h"

#include <stdlib.h>

#include "collector/store/meta/loss_sum.h"
#include "collector/store/segment/seg_write.h"
#include "collector/store/segment/window.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define META_FORMAT      1u
#define META_ACCOUNT_MAX (1u << 20)

/* An unpacked chunk being read, one batch after the other. Text points into its bytes. */
struct meta_chunk {
    struct cur c;
    enum err bad; /* the first failure but those of the cursor */
    struct uuid host;
    struct str *texts;
    size_t n_texts, left; /* batches to come */
    int64_t received_ns, wall_ns;
    struct arena *memory; /* of the batch being read */
};

/* Three tables of (instance, hash of what was written of it): `now` for the segment being written,
 * `young` and `old` for what is durable. An entry that is met in `old` moves to `young`; when
 * `young` is full it becomes `old`, and the former `old` is forgotten. Running processes are
 * announced every window, so they stay. Whatever cannot be remembered is as if never written. */

#define DAY_NS     (24 * INT64_C(3600000000000))
#define ACCOUNTS   (256u << 20) /* packed accounts of one segment */
#define TABLE_LOAD 2            /* slots for each entry, at least */

struct entry {
    uint64_t key, what; /* key 0: empty */
};

struct table {
    struct entry *at;
    size_t cap, n; /* cap: a power of two, or 0 */
};

struct written_account {
    struct seg_key key;
    size_t from, n;
};

struct meta_written {
    uint64_t seed;
    int64_t day; /* of the segment being written, since 1970 */
    struct table now, young, old;
    bool lost; /* something of `now` could not be remembered */
    struct buf packed;
    struct written_account *accounts;
    size_t n_accounts, cap;
};

enum err meta_written_create(struct meta_written **out)
{
    struct meta_written *r = mem_zalloc(sizeof *r);
    enum err e;

    if (!r) {
        return ERR_NOMEM;
    }
    e = os_random(&r->seed, sizeof r->seed);
    if (e) {
        mem_free(r);
        return e;
    }
    buf_init(&r->packed, ACCOUNTS);
    *out = r;
    return ERR_OK;
}

void meta_written_destroy(struct meta_written *r)
{
    if (r) {
        mem_free(r->now.at);
        mem_free(r->young.at);
        mem_free(r->old.at);
        mem_free(r->accounts);
        buf_fini(&r->packed);
        mem_free(r);
    }
}

/* -- tables -- */

/* The entry of this key, or the empty one where it belongs; NULL: a table without slots. */
static struct entry *written_slot(const struct table *t, uint64_t key)
{
    for (size_t i = key & (t->cap - 1), k = 0; k < t->cap; k++, i = (i + 1) & (t->cap - 1)) {
        if (t->at[i].key == key || t->at[i].key == 0) {
            return &t->at[i];
        }
    }
    return NULL;
}

static bool written_find(const struct table *t, uint64_t key, uint64_t *what)
{
    const struct entry *e = written_slot(t, key);

    if (!e || e->key == 0) {
        return false;
    }
    *what = e->what;
    return true;
}

static bool written_grow(struct table *t)
{
    struct table bigger = {.cap = t->cap ? t->cap * 2 : 1024, .n = t->n};

    bigger.at = mem_array(bigger.cap, sizeof *bigger.at);
    if (!bigger.at) {
        return false;
    }
    for (size_t i = 0; i < t->cap; i++) {
        if (t->at[i].key) {
            *written_slot(&bigger, t->at[i].key) = t->at[i];
        }
    }
    mem_free(t->at);
    *t = bigger;
    return true;
}

/* False: no room. */
static bool written_put(struct table *t, uint64_t key, uint64_t what)
{
    struct entry *e;

    if ((t->n + 1) * TABLE_LOAD > t->cap && (t->n >= META_KNOWN_MAX || !written_grow(t))) {
        e = written_slot(t, key);
        if (!e || e->key == 0) {
            return false;
        }
    }
    e = written_slot(t, key);
    t->n += e->key == 0;
    *e = (struct entry){key, what};
    return true;
}

static void written_clear(struct table *t)
{
    if (t->n) {
        memset(t->at, 0, t->cap * sizeof *t->at);
        t->n = 0;
    }
}

/* -- infos -- */

static uint64_t hash_str(struct str s, uint64_t seed)
{
    return hash_bytes(s.n ? s.p : "", s.n, seed);
}

static uint64_t key_of(const struct meta_written *r, const struct uuid *host,
                       const struct uuid *boot, struct proc_id id)
{
    struct {
        struct uuid host, boot;
        int64_t day;
        uint64_t pid, start;
    } k = {*host, *boot, r->day, id.pid, id.start};
    uint64_t key = hash_bytes(&k, sizeof k, r->seed);

    return key ? key : 1;
}

static uint64_t hash_info(const struct meta_written *r, const struct proc_info *i)
{
    const uint64_t plain[] = {
        i->have,       i->origin,    i->cpu_origin,          i->parent_pid,       i->parent_start,
        i->session_id, i->exit_code, (uint64_t)i->create_ns, (uint64_t)i->exit_ns};
    uint64_t h = hash_bytes(plain, sizeof plain, r->seed);

    h = hash_str(i->name, h);
    h = hash_str(i->image, h);
    h = hash_str(i->command_line, h);
    return hash_str(i->user, h);
}

bool meta_written_has(struct meta_written *r, const struct uuid *host, const struct uuid *boot,
                      const struct proc_info *info)
{
    uint64_t key = key_of(r, host, boot, info->id), what = hash_info(r, info), last;

    if ((written_find(&r->now, key, &last) || written_find(&r->young, key, &last) ||
         written_find(&r->old, key, &last)) &&
        last == what && !r->lost) {
        r->lost = !written_put(&r->now, key, what); /* also so that it stays young */
        return true;
    }
    r->lost = !written_put(&r->now, key, what) || r->lost;
    return false;
}

static void written_forget(struct meta_written *r)
{
    written_clear(&r->now);
    r->lost = false;
    r->n_accounts = 0;
    buf_reset(&r->packed);
}

void meta_written_begin(struct meta_written *r, int64_t window_ns)
{
    written_forget(r);
    r->day = window_ns / DAY_NS;
}

static void keep_one(struct meta_written *r, const struct entry *e)
{
    if (!written_put(&r->young, e->key, e->what)) {
        struct table t = r->old;

        r->old = r->young;
        r->young = t;
        written_clear(&r->young);
        if (!written_put(&r->young, e->key, e->what)) {
            r->lost = true;
        }
    }
}

void meta_written_keep(struct meta_written *r)
{
    for (size_t i = 0; i < r->now.cap; i++) {
        if (r->now.at[i].key) {
            keep_one(r, &r->now.at[i]);
        }
    }
    if (r->lost) { /* something older may stand where something newer was written */
        written_clear(&r->young);
        written_clear(&r->old);
    }
    written_forget(r);
}

/* -- accounts -- */

/* Keeps an account until meta_accounts_write. Errors: ERR_NOMEM */
static enum err meta_written_account(struct meta_written *r, struct packer *p, uint32_t host,
                                     uint8_t window, const struct buf *raw)
{
    struct written_account *a;
    enum err e = VEC_ROOM(&r->accounts, &r->cap, r->n_accounts + 1, SIZE_MAX);

    if (e) {
        return e;
    }
    a = &r->accounts[r->n_accounts];
    *a = (struct written_account){{SEG_PART_ACCOUNT, 0, window, host}, r->packed.n, 0};
    pack_put(p, &r->packed, raw->p, raw->n);
    if (r->packed.bad) {
        return r->packed.bad;
    }
    a->n = r->packed.n - a->from;
    r->n_accounts++;
    return ERR_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct written_account *x = a, *y = b;

    if (x->key.window != y->key.window) {
        return x->key.window < y->key.window ? -1 : 1;
    }
    return x->key.host < y->key.host ? -1 : x->key.host > y->key.host;
}

/* All of them, by window and host; a result other than ERR_OK ends it and is returned. */
static enum err meta_written_accounts(struct meta_written *r,
                                      enum err (*each)(void *ctx, struct seg_key key, const void *p,
                                                       size_t n),
                                      void *ctx)
{
    enum err e = ERR_OK;

    if (r->n_accounts) {
        qsort(r->accounts, r->n_accounts, sizeof *r->accounts, by_key);
    }
    for (size_t i = 0; !e && i < r->n_accounts; i++) {
        const struct written_account *a = &r->accounts[i];

        e = each(ctx, a->key, r->packed.p + a->from, a->n);
    }
    return e;
}

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
static int64_t encode_apart(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static void put_ticks(struct encoder *x, const struct batch *b)
{
    int64_t step = 0;

    buf_put_varint(&x->body, b->n_ticks);
    for (size_t i = 0; i < b->n_ticks; i++) {
        if (i == 0) {
            buf_put_svarint(&x->body, encode_apart(b->wall_ns[0], x->wall_ns));
            buf_put_svarint(&x->body, b->mono_ns[0]);
            x->wall_ns = b->wall_ns[0];
        } else {
            int64_t wall = encode_apart(b->wall_ns[i], b->wall_ns[i - 1]);

            buf_put_svarint(&x->body, encode_apart(wall, step));
            buf_put_svarint(&x->body,
                            encode_apart(encode_apart(b->mono_ns[i], b->mono_ns[i - 1]), wall));
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
        buf_put_svarint(&x->body, encode_apart(ev->wall_ns, wall_ns));
        buf_put_svarint(&x->body, encode_apart(ev->mono_ns, mono_ns));
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
    buf_put_svarint(b, encode_apart(r->received_ns, x->received_ns));
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

/* Reading rests: every count is checked against the bytes that are left before memory is taken for
 * it, so memory is in proportion to the bytes; stamps are such that sums with spans never wrap. */

/* The least bytes of one: */
#define META_BYTES   37u
#define INFO_BYTES   15u
#define EVENT_BYTES  (5u + INFO_BYTES)
#define LEDGER_BYTES 3u

static void decode_fail(struct meta_chunk *x, enum err e)
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
        decode_fail(x, arena_refused(x->memory, n * size));
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

static int64_t decode_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static bool stamp_ok(int64_t ns)
{
    return ns >= 0 && ns <= WINDOW_STAMP_MAX;
}

static void get_ticks(struct meta_chunk *x, struct batch *b)
{
    size_t n = get_count(x, 2);
    int64_t *wall = get_room(x, n, sizeof *wall), *mono = get_room(x, n, sizeof *mono), step = 0;

    for (size_t i = 0; i < n && !x->c.bad; i++) {
        if (i == 0) {
            x->wall_ns = wall[0] = decode_sum(x->wall_ns, cur_svarint(&x->c));
            mono[0] = cur_svarint(&x->c);
        } else {
            step = decode_sum(step, cur_svarint(&x->c));
            wall[i] = decode_sum(wall[i - 1], step);
            mono[i] = decode_sum(mono[i - 1], decode_sum(step, cur_svarint(&x->c)));
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
        wall_ns = decode_sum(wall_ns, cur_svarint(&x->c));
        mono_ns = decode_sum(mono_ns, cur_svarint(&x->c));
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
    x->received_ns = r->received_ns = decode_sum(x->received_ns, cur_svarint(&x->c));
    clock = cur_u8(&x->c);
    r->clock = (struct host_offset){clock & 1, clock >> 1 & 1, 0, 0};
    r->clock.offset_ns = cur_svarint(&x->c);
    r->clock.error_ns = cur_svarint(&x->c);
    get_ticks(x, &r->batch);
    get_infos(x, &r->batch);
    get_events(x, &r->batch);
    get_ledger(x, &r->batch);
}

static enum err decode_outcome(const struct meta_chunk *x)
{
    return x->bad ? x->bad : x->c.bad ? ERR_CORRUPT : ERR_OK;
}

/* Everything of it but the batches is in `memory`; all batches get `host`. *more: another chunk
 * follows. Errors: ERR_CORRUPT, ERR_VERSION, ERR_FULL (the arena's limit), ERR_NOMEM */
static enum err meta_chunk_open(struct meta_chunk *out, struct arena *memory, const uint8_t *raw,
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
    return decode_outcome(&x);
}

/* The next one, but for text in `memory`. Errors: ERR_END, and those of meta_chunk_open */
static enum err meta_chunk_next(struct meta_chunk *x, struct arena *memory, struct window_rest *out)
{
    if (x->left == 0) {
        return cur_left(&x->c) ? ERR_CORRUPT : ERR_END;
    }
    x->left--;
    x->memory = memory;
    *out = (struct window_rest){.received_ns = 0};
    get_rest(x, out);
    out->batch.head.host = x->host;
    return decode_outcome(x);
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

#define META_READ_MAX (256u << 20) /* a damaged chunk's lengths reach no further */

/* -- writing -- */

static enum err write_chunks(struct seg_writer *w, struct packer *p, struct seg_key key,
                             const struct host_window *hw, struct meta_written *written)
{
    struct buf raw, packed;
    enum err e = ERR_OK;
    unsigned chunk = 0;

    buf_init(&raw, META_RAW_MAX);
    buf_init(&packed, SEG_VALUE_MAX);
    for (size_t at = 0, n = 0; !e && at < hw->n_rests; at += n) {
        if (chunk == META_CHUNKS_MAX) {
            e = ERR_FULL;
            break;
        }
        buf_reset(&raw);
        buf_reset(&packed);
        key.metric = (uint8_t)chunk++;
        e = meta_encode(&raw, hw, at, written, &n);
        if (!e) {
            pack_put(p, &packed, raw.p, raw.n);
            e = packed.bad ? packed.bad : seg_writer_add(w, key, packed.p, packed.n);
        }
    }
    buf_fini(&raw);
    buf_fini(&packed);
    return e;
}

static enum err meta_account(struct packer *p, uint32_t host, uint8_t window,
                             const struct host_window *hw, struct meta_written *written)
{
    struct buf raw;
    enum err e;

    buf_init(&raw, META_ACCOUNT_MAX);
    e = loss_sum_encode(&raw, hw);
    if (!e) {
        e = meta_written_account(written, p, host, window, &raw);
    }
    buf_fini(&raw);
    return e;
}

enum err meta_value_write(struct seg_writer *w, struct packer *p, uint32_t host, uint8_t window,
                          const struct host_window *hw, struct meta_written *written,
                          uint64_t *events)
{
    const struct seg_key key = {SEG_PART_REST, 0, window, host};
    enum err e = write_chunks(w, p, key, hw, written);

    if (!e && hw->n_rests) {
        e = meta_account(p, host, window, hw, written);
    }
    for (size_t i = 0; !e && i < hw->n_rests; i++) {
        *events += hw->rests[i].batch.n_events + hw->rests[i].batch.n_ledger;
    }
    return e;
}

static enum err add_account(void *ctx, struct seg_key key, const void *p, size_t n)
{
    return seg_writer_add(ctx, key, p, n);
}

enum err meta_accounts_write(struct seg_writer *w, struct meta_written *written)
{
    return meta_written_accounts(written, add_account, w);
}

/* -- reading -- */

struct meta_reader {
    const struct seg *seg;
    struct packer *packer;
    struct seg_key key;
    unsigned chunks; /* read so far */
    bool more;       /* another one follows */
    struct arena unpacked, batch;
    struct meta_chunk chunk;
    struct window_rest rest;
};

enum err meta_reader_open(struct meta_reader **out, const struct seg *s, struct packer *p,
                          uint32_t host, uint8_t window)
{
    struct meta_reader *r = mem_zalloc(sizeof *r);

    if (!r) {
        return ERR_NOMEM;
    }
    r->seg = s;
    r->packer = p;
    r->key = (struct seg_key){SEG_PART_REST, 0, window, host};
    r->more = true;
    arena_init(&r->unpacked, META_READ_MAX);
    arena_init(&r->batch, META_READ_MAX);
    *out = r;
    return ERR_OK;
}

void meta_reader_close(struct meta_reader *r)
{
    if (r) {
        arena_fini(&r->unpacked);
        arena_fini(&r->batch);
        mem_free(r);
    }
}

size_t meta_reader_memory(const struct meta_reader *r)
{
    return r->unpacked.used + r->batch.used;
}

/* The bytes as they are on disk give way to the first batch. */
static enum err next_chunk(struct meta_reader *r)
{
    const uint8_t *value, *raw;
    size_t value_n, raw_n;
    enum err e;

    if (r->chunks == META_CHUNKS_MAX) {
        return ERR_CORRUPT;
    }
    arena_fini(&r->batch);
    arena_fini(&r->unpacked);
    r->key.metric = (uint8_t)r->chunks++;
    e = seg_read(r->seg, &r->batch, r->key, &value, &value_n);
    if (e == ERR_NOTFOUND && r->chunks > 1) {
        return ERR_CORRUPT; /* the one before said it is there */
    }
    e = e ? e : pack_open(r->packer, &r->unpacked, &raw, &raw_n, value, value_n, 2 * META_RAW_MAX);
    return e ? e
             : meta_chunk_open(&r->chunk, &r->unpacked, raw, raw_n,
                               &seg_host(r->seg, r->key.host)->id, &r->more);
}

static enum err next_batch(struct meta_reader *r)
{
    arena_reset(&r->batch);
    return meta_chunk_next(&r->chunk, &r->batch, &r->rest);
}

enum err meta_reader_next(struct meta_reader *r, const struct window_rest **out)
{
    enum err e = r->chunks ? next_batch(r) : ERR_END;

    while (e == ERR_END && r->more) {
        e = next_chunk(r);
        e = e ? e : next_batch(r);
    }
    if (e) {
        r->more = false;
        r->chunk.left = 0;
    }
    *out = &r->rest;
    return e;
}

enum err meta_account_read(const struct seg *s, struct packer *p, struct seg_readahead *ahead,
                           struct arena *memory, uint32_t host, uint8_t window,
                           struct loss_sum *out)
{
    const struct seg_key key = {SEG_PART_ACCOUNT, 0, window, host};
    const uint8_t *value, *raw;
    size_t value_n, raw_n;
    enum err e = seg_readahead_read(ahead, s, memory, &key, 1, &value, &value_n);

    if (!e && !value) {
        e = value_n == SEG_DAMAGED ? ERR_CORRUPT : ERR_NOTFOUND;
    }
    if (!e) {
        e = pack_open(p, memory, &raw, &raw_n, value, value_n, META_ACCOUNT_MAX);
    }
    return e ? e : loss_sum_decode(out, memory, raw, raw_n);
}
