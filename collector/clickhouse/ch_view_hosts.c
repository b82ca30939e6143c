/* What is newest of a host its newest batch says, as in the head of the local store: the one made
 * last, then with the newest stamp. The scan tells which batches that may be, by number;
 * their rows are read by key.
 *
 * Of a batch that may be in the ledger twice, `again` says so, or there are two collectors. Such
 * hosts are counted exactly, number by number, which costs memory at the server: few at a time. */
#include "collector/clickhouse/ch_view_hosts.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collector/clickhouse/ch_view_ask.h"
#include "collector/store/batch_time.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/os/uuid.h"

#define HOSTS_MAX ((size_t)1 << 30) /* bytes */
#define KEYS_EACH 500u              /* hosts in one statement: servers take 256 KiB of SQL */
#define ROWS_EACH 8000000u          /* of the ledger, counted one by one */
#define PAGE_BITS 12u

struct ch_view_hosts {
    atomic_uint refs;
    struct arena memory; /* hosts and their texts */
    size_t n, cap;
    struct store_host *at;
};

/* A stream: whether it has the host's newest batch, and which numbers that may have. */
struct newest {
    size_t host;
    uint64_t stream;
    uint64_t seq[3];
    int64_t made_ns;
    bool twice;             /* batches of it are in the ledger more than once, perhaps */
    uint64_t span;          /* numbers from the first to the last */
    uint64_t batches, lost; /* lost: events */
};

struct listing {
    struct ch_view *v;
    struct ch_view_hosts *h;
    struct arena memory; /* of what follows */
    size_t n, cap;
    struct newest *streams;
    int64_t *made_ns, *t1_ns; /* of the newest batch, by host */
    struct buf reply;
    unsigned page_bits, page; /* hosts of a statement: whose hashes begin with these bits */
};

struct ch_view_hosts *ch_view_hosts_ref(struct ch_view_hosts *h)
{
    atomic_fetch_add(&h->refs, 1);
    return h;
}

void ch_view_hosts_unref(struct ch_view_hosts *h)
{
    if (h && atomic_fetch_sub(&h->refs, 1) == 1) {
        arena_fini(&h->memory);
        mem_free(h);
    }
}

const struct store_host *ch_view_hosts_list(const struct ch_view_hosts *h, size_t *n)
{
    *n = h->n;
    return h->at;
}

static const char *text_keep(struct ch_view_hosts *h, struct str s)
{
    char *p = arena_array(&h->memory, s.n + 1, 1);

    if (p && s.n) {
        memcpy(p, s.p, s.n);
    }
    return p;
}

static int by_id(const void *a, const void *b)
{
    return memcmp(((const struct store_host *)a)->id.b, ((const struct store_host *)b)->id.b,
                  sizeof(struct uuid));
}

static int by_name(const void *a, const void *b)
{
    const struct store_host *x = a, *y = b;
    int d = strcmp(x->name, y->name);

    return d ? d : by_id(a, b);
}

/* n: none. */
static size_t host_index(const struct ch_view_hosts *h, const struct uuid *id)
{
    size_t i;

    SEARCH_LOWER(i, h->n, memcmp(h->at[i].id.b, id->b, sizeof id->b) < 0);
    return i < h->n && memcmp(h->at[i].id.b, id->b, sizeof id->b) == 0 ? i : h->n;
}

/* " AND …": those of the page at hand. */
static void put_page(struct listing *l)
{
    if (l->page_bits) {
        buf_printf(&l->v->sql, " AND bitShiftRight(sipHash64(toString(host_id)), %u) = %u",
                   64 - l->page_bits, l->page);
    }
}

/* Page by page: one that does not fit, of which nothing was taken then, is divided by four. `ask`
 * puts the statement. */
static enum err pages_ask(struct listing *l, size_t columns, void (*ask)(struct listing *l),
                          enum err (*take)(void *ctx, const struct ch_in *in, size_t i))
{
    enum err e = ERR_OK;

    l->page_bits = l->page = 0;
    do {
        ask(l);
        e = ch_view_ask_rows(l->v, &l->reply, columns, NULL, take, l);
        if (e == ERR_FULL && l->v->too_large && l->page_bits < PAGE_BITS) {
            l->page_bits += 2;
            l->page *= 4;
            e = ERR_OK;
        } else {
            l->page++;
        }
    } while (!e && l->page < 1u << l->page_bits);
    return e;
}

/* -- names -- */

enum { HOST_ID, HOST_NAME, HOST_COLUMNS };

static enum err name_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct ch_view_hosts *h = ((struct listing *)ctx)->h;
    struct store_host *more;

    if (h->n == CH_VIEW_HOSTS_MAX) {
        return ERR_FULL;
    }
    if (h->n == h->cap) {
        h->cap = h->cap ? h->cap * 2 : 64;
        more = arena_array(&h->memory, h->cap, sizeof *more);
        if (!more) {
            return arena_refused(&h->memory, h->cap * sizeof *more);
        }
        if (h->n) {
            memcpy(more, h->at, h->n * sizeof *more);
        }
        h->at = more;
    }
    h->at[h->n] = (struct store_host){
        .id = ch_native_get_uuid(&in->columns[HOST_ID], i),
        .name = text_keep(h, ch_native_get_str(&in->columns[HOST_NAME], i)),
        .source = "",
    };
    return h->at[h->n++].name ? ERR_OK : arena_refused(&h->memory, 1);
}

/* The host's name is that of the newest row. */
static void names_ask(struct listing *l)
{
    buf_put_str(ch_view_ask_begin(l->v), "SELECT host_id, argMax(name, seen) AS name_last");
    ch_view_ask_from(l->v, CH_HOST, false);
    buf_put_str(&l->v->sql, " WHERE 1 = 1");
    put_page(l);
    buf_put_str(&l->v->sql, " GROUP BY host_id");
}

/* -- one scan of the ledger -- */

enum {
    SUM_ID,
    SUM_STREAM,
    SUM_BATCHES,
    SUM_FIRST,
    SUM_RECEIVED,
    SUM_LOST,
    SUM_SEQ_FIRST,
    SUM_SEQ_LAST,
    SUM_TWICE,
    SUM_MADE,
    SUM_SEQ_MADE,
    SUM_SEQ_T1,
    SUM_COLUMNS
};

/* When a batch was made, by the collector's clock (batch_time.h). */
static void put_made(struct ch_view *v)
{
    buf_put_str(&v->sql, "least(");
    ch_schema_ns(&v->sql, v->conf.dialect, "t1");
    buf_put_str(&v->sql, " + if(bitAnd(clock, 1) = 1, clock_offset, toInt64(0)), ");
    ch_schema_ns(&v->sql, v->conf.dialect, "received");
    buf_put_str(&v->sql, ")");
}

static void sums_ask(struct listing *l)
{
    struct ch_view *v = l->v;

    buf_put_str(ch_view_ask_begin(v), "SELECT host_id, stream, count() AS n, min(");
    ch_schema_ns(&v->sql, v->conf.dialect, "t0");
    buf_put_str(&v->sql, ") AS first, max(");
    ch_schema_ns(&v->sql, v->conf.dialect, "received");
    buf_put_str(&v->sql, ") AS last, sum(lost) AS lost_sum, min(seq) AS seq_min, max(seq) AS "
                         "seq_max, (max(again) > 0 OR min(collector) != max(collector)) AS twice, "
                         "max(");
    put_made(v);
    buf_put_str(&v->sql, ") AS made, argMax(seq, ");
    put_made(v);
    buf_put_str(&v->sql, ") AS seq_made, argMax(seq, t1) AS seq_t1");
    ch_view_ask_from(v, CH_BATCH, false);
    buf_printf(&v->sql, " WHERE kind = %d", CH_STORED);
    put_page(l);
    buf_put_str(&v->sql, " GROUP BY host_id, stream");
}

static enum err stream_add(struct listing *l, const struct newest *s)
{
    struct newest *more;

    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 256;
        more = arena_array(&l->memory, l->cap, sizeof *more);
        if (!more) {
            return arena_refused(&l->memory, l->cap * sizeof *more);
        }
        if (l->n) {
            memcpy(more, l->streams, l->n * sizeof *more);
        }
        l->streams = more;
    }
    l->streams[l->n++] = *s;
    return ERR_OK;
}

static enum err sum_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct listing *l = ctx;
    const struct ch_in_column *c = in->columns;
    struct uuid id = ch_native_get_uuid(&c[SUM_ID], i);
    size_t at = host_index(l->h, &id);
    uint64_t first = ch_native_get(&c[SUM_SEQ_FIRST], i), last = ch_native_get(&c[SUM_SEQ_LAST], i);
    int64_t first_ns = (int64_t)ch_native_get(&c[SUM_FIRST], i),
            received_ns = (int64_t)ch_native_get(&c[SUM_RECEIVED], i);
    struct newest s = {
        .host = at,
        .stream = ch_native_get(&c[SUM_STREAM], i),
        .seq = {ch_native_get(&c[SUM_SEQ_MADE], i), ch_native_get(&c[SUM_SEQ_T1], i), last},
        .made_ns = (int64_t)ch_native_get(&c[SUM_MADE], i),
        .twice = ch_native_get(&c[SUM_TWICE], i) != 0,
        .span = last - first + 1,
        .batches = ch_native_get(&c[SUM_BATCHES], i),
        .lost = ch_native_get(&c[SUM_LOST], i)};
    struct store_host *h;

    if (at == l->h->n) {
        return ERR_OK; /* its name comes later */
    }
    h = &l->h->at[at];
    if (l->made_ns[at] == INT64_MIN || first_ns < h->first_ns) {
        h->first_ns = first_ns;
    }
    if (l->made_ns[at] == INT64_MIN || received_ns > h->received_ns) {
        h->received_ns = received_ns;
    }
    l->made_ns[at] = s.made_ns > l->made_ns[at] ? s.made_ns : l->made_ns[at];
    return stream_add(l, &s);
}

/* Numbers between a stream's first and its last that no collector has are gaps; what lies below the
 * first may have been deleted for its age. */
static void sums_end(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct newest *s = &l->streams[i];
        struct store_host *h = &l->h->at[s->host];

        h->batches += s->batches;
        h->lost_events += s->lost;
        h->gaps += s->batches < s->span ? s->span - s->batches : 0;
    }
}

/* -- what may be there twice -- */

enum { EXACT_ID, EXACT_STREAM, EXACT_BATCHES, EXACT_LOST, EXACT_COLUMNS };

static int by_stream(const void *a, const void *b)
{
    const struct newest *x = a, *y = b;

    if (x->host != y->host) {
        return x->host < y->host ? -1 : 1;
    }
    return x->stream < y->stream ? -1 : x->stream > y->stream;
}

static enum err exact_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct listing *l = ctx;
    const struct ch_in_column *c = in->columns;
    struct uuid id = ch_native_get_uuid(&c[EXACT_ID], i);
    struct newest key = {.host = host_index(l->h, &id),
                         .stream = ch_native_get(&c[EXACT_STREAM], i)};
    struct newest *s = l->n ? bsearch(&key, l->streams, l->n, sizeof *s, by_stream) : NULL;

    if (s) {
        s->batches = ch_native_get(&c[EXACT_BATCHES], i);
        s->lost = ch_native_get(&c[EXACT_LOST], i);
    }
    return ERR_OK;
}

static void put_host(struct ch_view *v, const struct ch_view_hosts *h, size_t host)
{
    char text[UUID_TEXT];

    buf_printf(&v->sql, "toUUID('%s')", uuid_format(text, &h->at[host].id));
}

static enum err list_exact(struct listing *l)
{
    struct ch_view *v = l->v;
    size_t i = 0;
    enum err e = ERR_OK;

    while (!e && i < l->n) {
        uint64_t rows = 0;
        size_t n = 0;

        buf_printf(ch_view_ask_begin(v),
                   "SELECT host_id, stream, count() AS n, sum(lost_one) AS lost_sum FROM (SELECT "
                   "host_id, stream, seq, max(lost) AS lost_one");
        ch_view_ask_from(v, CH_BATCH, false);
        buf_printf(&v->sql, " WHERE kind = %d AND host_id IN (", CH_STORED);
        for (; i < l->n && n < KEYS_EACH && rows < ROWS_EACH; i++) {
            if (l->streams[i].twice) {
                buf_put_str(&v->sql, n ? ", " : "");
                put_host(v, l->h, l->streams[i].host);
                rows += l->streams[i].batches;
                n++;
            }
        }
        buf_put_str(&v->sql, ") GROUP BY host_id, stream, seq) GROUP BY host_id, stream");
        e = n ? ch_view_ask_rows(v, &l->reply, EXACT_COLUMNS, NULL, exact_take, l) : ERR_OK;
    }
    return e;
}

/* -- the newest batch -- */

enum {
    NEW_ID,
    NEW_T1,
    NEW_RECEIVED,
    NEW_CLOCK,
    NEW_OFFSET,
    NEW_ERROR,
    NEW_BOOT,
    NEW_FLAGS,
    NEW_CPUS,
    NEW_SOURCE,
    NEW_ALIVE,
    NEW_REST,
    NEW_COLUMNS
};

/* Whether the batch has a tick at its newest stamp: then `alive` is of that moment. */
static bool has_tick(struct str rest, int64_t t1_ns)
{
    struct batch *b;
    bool has = false;

    if (!wire_batch_unpack(&b, rest.p, rest.n)) {
        has = b->n_ticks > 0 && b->wall_ns[b->n_ticks - 1] == t1_ns;
        wire_batch_free(b);
    }
    return has;
}

static enum err newest_take(void *ctx, const struct ch_in *in, size_t i)
{
    struct listing *l = ctx;
    const struct ch_in_column *c = in->columns;
    struct uuid id = ch_native_get_uuid(&c[NEW_ID], i);
    size_t at = host_index(l->h, &id);
    struct store_host *h;
    uint8_t clock = (uint8_t)ch_native_get(&c[NEW_CLOCK], i);
    int64_t t1_ns = (int64_t)ch_native_get(&c[NEW_T1], i), made_ns;
    struct host_offset offset = {.known = clock & 1,
                                 .bounded = clock >> 1 & 1,
                                 .offset_ns = (int64_t)ch_native_get(&c[NEW_OFFSET], i),
                                 .error_ns = (int64_t)ch_native_get(&c[NEW_ERROR], i)};

    if (at == l->h->n) {
        return ERR_OK;
    }
    h = &l->h->at[at];
    made_ns = batch_time_made(t1_ns, &offset, (int64_t)ch_native_get(&c[NEW_RECEIVED], i));
    if (made_ns < l->made_ns[at] || (made_ns == l->made_ns[at] && t1_ns < l->t1_ns[at])) {
        return ERR_OK;
    }
    l->made_ns[at] = made_ns;
    l->t1_ns[at] = t1_ns;
    h->last_ns = t1_ns;
    h->clock = offset;
    h->boot = ch_native_get_uuid(&c[NEW_BOOT], i);
    h->flags = (uint32_t)ch_native_get(&c[NEW_FLAGS], i);
    h->cpus = (uint32_t)ch_native_get(&c[NEW_CPUS], i);
    h->has_alive = has_tick(ch_native_get_str(&c[NEW_REST], i), t1_ns);
    h->alive = h->has_alive ? (uint32_t)ch_native_get(&c[NEW_ALIVE], i) : 0;
    h->source = text_keep(l->h, ch_native_get_str(&c[NEW_SOURCE], i));
    return h->source ? ERR_OK : arena_refused(&l->h->memory, 1);
}

static void newest_begin(struct ch_view *v)
{
    buf_put_str(ch_view_ask_begin(v), "SELECT host_id, ");
    ch_view_ask_ns(v, "t1");
    buf_put_str(&v->sql, ", ");
    ch_view_ask_ns(v, "received");
    buf_put_str(&v->sql, ", clock, clock_offset, clock_error, boot, flags, cpus, source, "
                         "alive, rest");
    ch_view_ask_from(v, CH_BATCH, false);
    buf_printf(&v->sql, " WHERE kind = %d AND (host_id, stream, seq) IN (", CH_STORED);
}

static enum err list_newest(struct listing *l)
{
    struct ch_view *v = l->v;
    size_t i = 0;
    enum err e = ERR_OK;

    while (!e && i < l->n) {
        size_t n = 0;

        newest_begin(v);
        for (; i < l->n && n < KEYS_EACH; i++) {
            const struct newest *s = &l->streams[i];

            for (size_t k = 0; k < 3 && s->made_ns >= l->made_ns[s->host]; k++) {
                if ((k && s->seq[k] == s->seq[0]) || (k == 2 && s->seq[2] == s->seq[1])) {
                    continue;
                }
                buf_put_str(&v->sql, n++ ? ", (" : "(");
                put_host(v, l->h, s->host);
                buf_printf(&v->sql, ", toUInt64(%" PRIu64 "), toUInt64(%" PRIu64 "))", s->stream,
                           s->seq[k]);
            }
        }
        buf_put_str(&v->sql, ")");
        e = n ? ch_view_ask_rows(v, &l->reply, NEW_COLUMNS, NULL, newest_take, l) : ERR_OK;
    }
    return e;
}

/* -- the list -- */

static enum err list_make(struct listing *l)
{
    struct ch_view_hosts *h = l->h;
    size_t n = 0;
    enum err e = pages_ask(l, HOST_COLUMNS, names_ask, name_take);

    if (e) {
        return e;
    }
    if (h->n) {
        qsort(h->at, h->n, sizeof *h->at, by_id);
    }
    l->made_ns = arena_array(&l->memory, h->n + 1, sizeof *l->made_ns);
    l->t1_ns = arena_array(&l->memory, h->n + 1, sizeof *l->t1_ns);
    if (!l->made_ns || !l->t1_ns) {
        return arena_refused(&l->memory, h->n * sizeof *l->made_ns);
    }
    for (size_t i = 0; i < h->n; i++) {
        l->made_ns[i] = l->t1_ns[i] = INT64_MIN;
    }
    e = pages_ask(l, SUM_COLUMNS, sums_ask, sum_take);
    if (!e && l->n) {
        qsort(l->streams, l->n, sizeof *l->streams, by_stream);
    }
    e = e ? e : list_exact(l);
    if (e) {
        return e;
    }
    sums_end(l);
    e = list_newest(l);
    if (e) {
        return e;
    }
    for (size_t i = 0; i < h->n; i++) { /* without a batch there is no host yet */
        if (h->at[i].batches && l->t1_ns[i] != INT64_MIN) {
            h->at[n] = h->at[i];
            h->at[n].held = h->at[n].batches;
            n++;
        }
    }
    h->n = n;
    if (n) {
        qsort(h->at, n, sizeof *h->at, by_name);
    }
    return ERR_OK;
}

enum err ch_view_hosts_read(struct ch_view_hosts **out, struct ch_view *v)
{
    struct listing l = {.v = v, .h = mem_zalloc(sizeof *l.h)};
    enum err e;

    if (!l.h) {
        return ERR_NOMEM;
    }
    atomic_init(&l.h->refs, 1);
    arena_init(&l.h->memory, HOSTS_MAX);
    arena_init(&l.memory, HOSTS_MAX);
    buf_init(&l.reply, CH_VIEW_REPLY_MAX);
    e = list_make(&l);
    buf_fini(&l.reply);
    arena_fini(&l.memory);
    if (e) {
        ch_view_hosts_unref(l.h);
        return e;
    }
    *out = l.h;
    return ERR_OK;
}
