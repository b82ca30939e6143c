/* The account of a host's window: what query_ledger.h would make of its batches, as far as nothing
 * was lost in it. Where something was, or where batches without data come first (they are told as
 * of the data before them, which is in another window), or there is more than the limits hold, the
 * account is not plain, and readers take the rests.
 *
 * Bytes, one pack: u8 format, u8 plain; then numbers as in meta.c. */
#include "collector/store/meta/loss_sum.h"

#include "collector/store/batch_time.h"
#include "collector/store/segment/window.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/model/ledger.h"

#define FORMAT 1u

#define COUNT_BYTES  5u /* the least of one */
#define STREAM_BYTES 12u
#define PLAIN_AT     1u /* its place */
#define PLAIN_MOST   (UINT64_C(1) << 40)

struct sums {
    struct loss_sum a;
    struct rest_count counts[LOSS_SUM_COUNTS_MAX];
    struct rest_stream streams[LOSS_SUM_STREAMS_MAX];
};

/* -- adding up -- */

static void add_count(struct sums *s, const struct ledger_row *row, const struct ledger_kind *kind,
                      size_t *at, const int64_t span_ns[2])
{
    struct rest_count *c = NULL;

    for (size_t k = 0; k < s->a.n_counts && !c; k++) {
        size_t i = (*at + k) % s->a.n_counts;

        if (str_eq(s->counts[i].reason, row->reason) && str_eq(s->counts[i].stage, row->stage)) {
            c = &s->counts[i];
            *at = i + 1;
        }
    }
    if (!c && s->a.n_counts == LOSS_SUM_COUNTS_MAX) {
        s->a.plain = false;
        return;
    }
    if (!c) {
        c = &s->counts[s->a.n_counts++];
        *c = (struct rest_count){row->stage, row->reason, 0, span_ns[0], span_ns[1]};
        *at = s->a.n_counts;
    }
    c->count = ledger_add(kind->role == LEDGER_HELD ? 0 : c->count, row->count);
    c->first_ns = span_ns[0] < c->first_ns ? span_ns[0] : c->first_ns;
    c->last_ns = span_ns[1] > c->last_ns ? span_ns[1] : c->last_ns;
}

static bool is_ticks_lost(const struct ledger_kind *k)
{
    return k->unit == LEDGER_TICKS && (k->role == LEDGER_DROPPED || k->role == LEDGER_LOST);
}

/* Whether the row says more than a sum can. */
static bool is_special(const struct ledger_row *row, const struct ledger_kind *k)
{
    return (row->count > 0 && (k->loss || k->at_most || is_ticks_lost(k))) ||
           (is_ticks_lost(k) && str_eq(row->stage, str_make("spool"))) ||
           (k->unit == LEDGER_TICKS && str_eq(row->stage, str_make("agent")));
}

static void add_rows(struct sums *s, const struct batch *b, const int64_t span_ns[2])
{
    const struct ledger_kind *before = NULL;
    size_t at = 0;

    for (size_t i = 0; i < b->n_ledger; i++) {
        const struct ledger_row *row = &b->ledger[i];
        const struct ledger_kind *kind = ledger_kind_after(before, row);

        before = kind;
        s->a.plain = s->a.plain && !is_special(row, kind);
        if (kind->role == LEDGER_OUT && str_eq(row->stage, str_make("source"))) {
            s->a.events = ledger_add(s->a.events, row->count);
        }
        add_count(s, row, kind, &at, span_ns);
    }
}

/* Joins it with every range that it touches. */
static void add_number(struct sums *s, const struct batch_head *h, const int64_t span_ns[2])
{
    struct rest_stream seen = {h->stream, h->seq, h->seq, span_ns[0], span_ns[1]};
    size_t i = 0;

    while (i < s->a.n_streams) {
        struct rest_stream *r = &s->streams[i];

        if (r->stream != seen.stream || (seen.first > r->last && seen.first - r->last > 1) ||
            (r->first > seen.last && r->first - seen.last > 1)) {
            i++;
            continue;
        }
        if (r->first < seen.first) {
            seen.first = r->first;
            seen.first_ns = r->first_ns;
        }
        if (r->last > seen.last) {
            seen.last = r->last;
            seen.last_ns = r->last_ns;
        }
        *r = s->streams[--s->a.n_streams];
        i = 0; /* it may touch another one now */
    }
    if (s->a.n_streams == LOSS_SUM_STREAMS_MAX) {
        s->a.plain = false;
        return;
    }
    s->streams[s->a.n_streams++] = seen;
}

static void add_batch(struct sums *s, const struct batch *b)
{
    bool bare = !b->n_ticks && !b->n_events; /* the last words of an agent: as of its last data */
    int64_t span_ns[2] = {s->a.last_ns, s->a.last_ns};
    int64_t n = (int64_t)b->n_ticks - 1;

    if (bare && !s->a.batches) {
        s->a.plain = false;
        return;
    }
    if (!bare) {
        batch_time_span(b, 0, &span_ns[0], &span_ns[1]);
        s->a.first_ns = !s->a.batches || span_ns[0] < s->a.first_ns ? span_ns[0] : s->a.first_ns;
        s->a.last_ns = span_ns[1] > s->a.last_ns ? span_ns[1] : s->a.last_ns;
    }
    if (n > 0 && clk_sub(b->mono_ns[n], b->mono_ns[0]) >= n) {
        s->a.period_ns = clk_sub(b->mono_ns[n], b->mono_ns[0]) / n;
    }
    s->a.batches += !bare;
    s->a.flags |= b->head.flags;
    s->a.ticks += b->n_ticks;
    add_number(s, &b->head, span_ns);
    add_rows(s, b, span_ns);
}

bool loss_sum_plain(const struct batch *b)
{
    const struct ledger_kind *before = NULL;
    bool plain = (b->n_ticks || b->n_events) && b->n_ledger <= LOSS_SUM_COUNTS_MAX;

    for (size_t i = 0; i < b->n_ledger && plain; i++) {
        before = ledger_kind_after(before, &b->ledger[i]);
        plain = !is_special(&b->ledger[i], before) && b->ledger[i].count < PLAIN_MOST;
    }
    return plain;
}

/* -- bytes -- */

static int64_t apart(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static void put_str(struct buf *b, struct str s)
{
    buf_put_varint(b, s.n);
    buf_put(b, s.p, s.n);
}

static void put_sums(struct buf *b, const struct sums *s)
{
    const struct loss_sum *a = &s->a;

    buf_put_u8(b, FORMAT);
    buf_put_u8(b, a->plain);
    buf_put_varint(b, a->batches);
    buf_put_varint(b, a->ticks);
    buf_put_varint(b, a->events);
    buf_put_varint(b, a->flags);
    buf_put_svarint(b, a->first_ns);
    buf_put_svarint(b, apart(a->last_ns, a->first_ns));
    buf_put_svarint(b, a->period_ns);
    buf_put_varint(b, a->n_counts);
    for (size_t i = 0; i < a->n_counts; i++) {
        put_str(b, s->counts[i].stage);
        put_str(b, s->counts[i].reason);
        buf_put_varint(b, s->counts[i].count);
        buf_put_svarint(b, apart(s->counts[i].first_ns, a->first_ns));
        buf_put_svarint(b, apart(s->counts[i].last_ns, a->last_ns));
    }
    buf_put_varint(b, a->n_streams);
    for (size_t i = 0; i < a->n_streams; i++) {
        buf_put_u64le(b, s->streams[i].stream);
        buf_put_varint(b, s->streams[i].first);
        buf_put_varint(b, s->streams[i].last - s->streams[i].first);
        buf_put_svarint(b, apart(s->streams[i].first_ns, a->first_ns));
        buf_put_svarint(b, apart(s->streams[i].last_ns, a->last_ns));
    }
}

enum err loss_sum_encode(struct buf *out, const struct host_window *hw)
{
    struct sums *s = mem_zalloc(sizeof *s);

    if (!s) {
        return ERR_NOMEM;
    }
    s->a.plain = true;
    for (size_t i = 0; i < hw->n_rests; i++) {
        add_batch(s, &hw->rests[i].batch);
    }
    put_sums(out, s);
    mem_free(s);
    return out->bad;
}

enum err loss_sum_told_make(void **told, size_t *n, const struct batch *b)
{
    struct window_rest rest = {.batch = *b};
    const struct host_window hw = {.n_rests = 1, .rests = &rest};
    struct buf raw;
    enum err e;

    *told = NULL;
    buf_init(&raw, LOSS_SUM_TOLD_MAX);
    e = loss_sum_encode(&raw, &hw);
    if (!e && raw.p[PLAIN_AT]) {
        *told = mem_dup(raw.p, raw.n);
        *n = raw.n;
        e = *told ? ERR_OK : ERR_NOMEM;
    }
    buf_fini(&raw);
    return e == ERR_FULL ? ERR_OK : e;
}

/* -- and back -- */

static int64_t sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t get_stamp(struct cur *c, int64_t base_ns)
{
    int64_t ns = sum(base_ns, cur_svarint(c));

    if (ns < 0 || ns > WINDOW_STAMP_MAX) {
        c->bad = true;
        return 0;
    }
    return ns;
}

static struct str get_str(struct cur *c)
{
    uint64_t n = cur_varint(c);
    struct str s = {"", 0};

    if (n > MODEL_TEXT_MAX) {
        c->bad = true;
    } else {
        s.p = (const char *)cur_bytes(c, (size_t)n);
        s.n = s.p ? (size_t)n : 0;
    }
    return s;
}

/* How many things of `least` bytes each follow; they get room. NULL: none, see c->bad and *e. */
static void *get_list(struct cur *c, struct arena *memory, size_t least, size_t size, size_t *n,
                      enum err *e)
{
    uint64_t count = cur_varint(c);
    void *p;

    *n = 0;
    if (c->bad || count > cur_left(c) / least) {
        c->bad = true;
        return NULL;
    }
    p = arena_array(memory, (size_t)count, size);
    if (!p) {
        *e = arena_refused(memory, (size_t)count * size);
        c->bad = true;
        return NULL;
    }
    *n = (size_t)count;
    return p;
}

static void get_counts(struct loss_sum *a, struct cur *c, struct arena *memory, enum err *e)
{
    struct rest_count *counts = get_list(c, memory, COUNT_BYTES, sizeof *counts, &a->n_counts, e);

    for (size_t i = 0; i < a->n_counts && !c->bad; i++) {
        counts[i].stage = get_str(c);
        counts[i].reason = get_str(c);
        counts[i].count = cur_varint(c);
        counts[i].first_ns = get_stamp(c, a->first_ns);
        counts[i].last_ns = get_stamp(c, a->last_ns);
    }
    a->counts = counts;
}

static void get_streams(struct loss_sum *a, struct cur *c, struct arena *memory, enum err *e)
{
    struct rest_stream *streams =
        get_list(c, memory, STREAM_BYTES, sizeof *streams, &a->n_streams, e);

    for (size_t i = 0; i < a->n_streams && !c->bad; i++) {
        uint64_t more;

        streams[i].stream = cur_u64le(c);
        streams[i].first = cur_varint(c);
        more = cur_varint(c);
        c->bad = c->bad || streams[i].first == 0 || more > UINT64_MAX - streams[i].first;
        streams[i].last = streams[i].first + (c->bad ? 0 : more);
        streams[i].first_ns = get_stamp(c, a->first_ns);
        streams[i].last_ns = get_stamp(c, a->last_ns);
    }
    a->streams = streams;
}

enum err loss_sum_decode(struct loss_sum *out, struct arena *memory, const uint8_t *raw,
                         size_t raw_n)
{
    struct cur c = cur_make(raw, raw_n);
    uint8_t format = cur_u8(&c);
    struct loss_sum a = {.plain = cur_u8(&c) == 1};
    enum err e = ERR_OK;
    uint64_t flags;

    if (!c.bad && format != FORMAT) {
        return ERR_VERSION;
    }
    a.batches = cur_varint(&c);
    a.ticks = cur_varint(&c);
    a.events = cur_varint(&c);
    flags = cur_varint(&c);
    a.flags = (uint32_t)flags;
    a.first_ns = get_stamp(&c, 0);
    a.last_ns = get_stamp(&c, a.first_ns);
    a.period_ns = cur_svarint(&c);
    get_counts(&a, &c, memory, &e);
    get_streams(&a, &c, memory, &e);
    if (e || c.bad || cur_left(&c) || flags > UINT32_MAX || a.last_ns < a.first_ns ||
        a.period_ns < 0) {
        return e ? e : ERR_CORRUPT;
    }
    *out = a;
    return ERR_OK;
}

enum err loss_sum_told_read(const void *told, size_t n, struct arena *memory, struct loss_sum *out)
{
    return loss_sum_decode(out, memory, told, n);
}
