#include "collector/store/dedup.h"

#include <assert.h>
#include <string.h>

#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/model/ledger.h"
#include "common/os/uuid.h"

struct stream {
    uint64_t id;
    int64_t used_ns;
    uint64_t closed; /* numbers in holes that were closed since the collector started */
    size_t n;
    struct seq_range ranges[DEDUP_RANGES_MAX]; /* rising, never touching */
};

struct host {
    struct uuid id;
    int64_t used_ns;
    struct dedup_counts *counts;
    size_t n;
    struct stream *streams[DEDUP_STREAMS_MAX];
};

struct dedup {
    uint32_t hosts_max;
    int64_t forget_ns;
    uint32_t n, cap;
    struct host **hosts; /* by id */
    uint64_t closed, forgotten;
    bool forgets;
};

static void host_destroy(struct host *h)
{
    if (h) {
        for (size_t i = 0; i < h->n; i++) {
            mem_free(h->streams[i]);
        }
        dedup_counts_unref(h->counts);
        mem_free(h);
    }
}

enum err dedup_create(struct dedup **out, uint32_t hosts_max, int64_t forget_ns)
{
    struct dedup *s = mem_zalloc(sizeof *s);

    if (!s) {
        return ERR_NOMEM;
    }
    s->hosts_max = hosts_max;
    s->forget_ns = forget_ns;
    *out = s;
    return ERR_OK;
}

void dedup_limit(struct dedup *s, uint32_t hosts_max)
{
    s->hosts_max = hosts_max;
}

void dedup_forgets(struct dedup *s)
{
    s->forgets = true;
}

void dedup_destroy(struct dedup *s)
{
    if (s) {
        for (uint32_t i = 0; i < s->n; i++) {
            host_destroy(s->hosts[i]);
        }
        mem_free(s->hosts);
        mem_free(s);
    }
}

static const struct uuid *host_id(const void *dedup, size_t i)
{
    return &((const struct dedup *)dedup)->hosts[i]->id;
}

static uint32_t host_index(const struct dedup *s, const struct uuid *id)
{
    return (uint32_t)uuid_search(id, s->n, host_id, s);
}

static struct host *host_find(const struct dedup *s, const struct uuid *id)
{
    uint32_t i = host_index(s, id);

    return i < s->n && memcmp(s->hosts[i]->id.b, id->b, sizeof id->b) == 0 ? s->hosts[i] : NULL;
}

static struct stream *stream_find(const struct host *h, uint64_t id)
{
    for (size_t i = 0; h && i < h->n; i++) {
        if (h->streams[i]->id == id) {
            return h->streams[i];
        }
    }
    return NULL;
}

/* Room for one host more: in the array, or in the place of one long unused. */
static enum err host_room(struct dedup *s, int64_t now_ns)
{
    struct host **grown;
    uint32_t oldest = 0, cap;

    if (s->n < s->cap && s->n < s->hosts_max) {
        return ERR_OK;
    }
    if (s->n < s->hosts_max) {
        cap = s->cap < 8 ? 8 : s->cap * 2;
        cap = cap < s->hosts_max ? cap : s->hosts_max;
        grown = mem_realloc_array(s->hosts, cap, sizeof *grown);
        if (!grown) {
            return ERR_NOMEM;
        }
        s->hosts = grown;
        s->cap = cap;
        return ERR_OK;
    }
    for (uint32_t i = 1; i < s->n; i++) {
        oldest = s->hosts[i]->used_ns < s->hosts[oldest]->used_ns ? i : oldest;
    }
    if (s->n == 0 || now_ns - s->forget_ns <= s->hosts[oldest]->used_ns) {
        return ERR_FULL;
    }
    s->forgotten += s->hosts[oldest]->n;
    host_destroy(s->hosts[oldest]);
    s->n--;
    memmove(s->hosts + oldest, s->hosts + oldest + 1, (s->n - oldest) * sizeof *s->hosts);
    return ERR_OK;
}

static enum err host_add(struct dedup *s, struct host **out, const struct uuid *id, int64_t now_ns)
{
    struct host *h;
    uint32_t at;
    enum err e = host_room(s, now_ns);

    if (e) {
        return e;
    }
    h = mem_zalloc(sizeof *h);
    if (!h) {
        return ERR_NOMEM;
    }
    h->counts = mem_zalloc(sizeof *h->counts);
    if (!h->counts) {
        host_destroy(h);
        return ERR_NOMEM;
    }
    atomic_init(&h->counts->refs, 1);
    h->id = *id;
    h->used_ns = now_ns;
    at = host_index(s, id);
    memmove(s->hosts + at + 1, s->hosts + at, (s->n - at) * sizeof *s->hosts);
    s->hosts[at] = h;
    s->n++;
    *out = h;
    return ERR_OK;
}

/* Numbers missing below the highest; before the first range and in closed holes too. */
static uint64_t stream_gaps(const struct stream *st)
{
    uint64_t gaps = st->closed, next = 1;

    for (size_t i = 0; i < st->n; i++) {
        gaps = ledger_add(gaps, st->ranges[i].first - next);
        next = st->ranges[i].last + 1;
    }
    return gaps;
}

static void host_count_gaps(struct host *h)
{
    uint64_t gaps = 0;

    for (size_t i = 0; i < h->n; i++) {
        gaps = ledger_add(gaps, stream_gaps(h->streams[i]));
    }
    atomic_store(&h->counts->gaps, gaps);
}

static void forget_oldest_stream(struct dedup *s, struct host *h)
{
    size_t oldest = 0;

    for (size_t i = 1; i < h->n; i++) {
        oldest = h->streams[i]->used_ns < h->streams[oldest]->used_ns ? i : oldest;
    }
    mem_free(h->streams[oldest]);
    h->streams[oldest] = h->streams[--h->n];
    s->forgotten++;
    host_count_gaps(h);
}

enum err dedup_open(struct dedup *s, const struct uuid *host, uint64_t stream, int64_t now_ns)
{
    struct host *h = host_find(s, host);
    struct stream *st = stream_find(h, stream);
    enum err e;

    if (!h) {
        e = host_add(s, &h, host, now_ns);
        if (e) {
            return e;
        }
    }
    if (!st) {
        st = mem_zalloc(sizeof *st);
        if (!st) {
            return ERR_NOMEM;
        }
        if (h->n == DEDUP_STREAMS_MAX) {
            forget_oldest_stream(s, h);
        }
        st->id = stream;
        h->streams[h->n++] = st;
    }
    st->used_ns = now_ns > st->used_ns ? now_ns : st->used_ns;
    h->used_ns = now_ns > h->used_ns ? now_ns : h->used_ns;
    return ERR_OK;
}

/* Index of the first range that ends at or after seq. */
static size_t range_index(const struct stream *st, uint64_t seq)
{
    size_t i;

    SEARCH_LOWER(i, st->n, st->ranges[i].last < seq);
    return i;
}

bool dedup_span(const struct dedup *s, const struct uuid *host, uint64_t stream, uint64_t seq,
                uint64_t *last)
{
    const struct stream *st = stream_find(host_find(s, host), stream);
    size_t i = st ? range_index(st, seq) : 0;

    *last = UINT64_MAX;
    if (!st || i == st->n) {
        return false;
    }
    if (st->ranges[i].first <= seq) {
        *last = st->ranges[i].last;
        return true;
    }
    *last = st->ranges[i].first - 1;
    return false;
}

bool dedup_has(const struct dedup *s, const struct uuid *host, uint64_t stream, uint64_t seq)
{
    uint64_t last;

    return dedup_span(s, host, stream, seq, &last);
}

static void close_lowest_hole(struct dedup *s, struct stream *st)
{
    uint64_t hole = st->ranges[1].first - st->ranges[0].last - 1;

    s->closed = ledger_add(s->closed, hole);
    st->closed = ledger_add(st->closed, hole);
    st->ranges[1].first = st->ranges[0].first;
    st->n--;
    memmove(st->ranges, st->ranges + 1, st->n * sizeof *st->ranges);
}

static void stream_add(struct dedup *s, struct stream *st, struct seq_range r)
{
    size_t i, end;

    /* A new range where none is free costs the lowest hole, which may be the one r lies in, or
     * the lowest range. */
    i = range_index(st, r.first - 1);
    if (st->n == DEDUP_RANGES_MAX && (i == st->n || st->ranges[i].first - 1 > r.last)) {
        if (s->forgets) {
            st->n--;
            memmove(st->ranges, st->ranges + 1, st->n * sizeof *st->ranges);
        } else {
            close_lowest_hole(s, st);
        }
        i = range_index(st, r.first - 1);
    }
    /* Ranges [i, end) overlap or touch r and become part of it. */
    for (end = i; end < st->n && st->ranges[end].first - 1 <= r.last; end++) {
        r.first = st->ranges[end].first < r.first ? st->ranges[end].first : r.first;
        r.last = st->ranges[end].last > r.last ? st->ranges[end].last : r.last;
    }
    memmove(st->ranges + i + 1, st->ranges + end, (st->n - end) * sizeof *st->ranges);
    st->ranges[i] = r;
    st->n = st->n + 1 - (end - i);
}

enum err dedup_add(struct dedup *s, const struct uuid *host, uint64_t stream, struct seq_range r)
{
    struct host *h = host_find(s, host);
    struct stream *st = stream_find(h, stream);

    assert(r.first >= 1 && r.first <= r.last);
    if (!st) {
        return ERR_NOTFOUND;
    }
    stream_add(s, st, r);
    host_count_gaps(h);
    return ERR_OK;
}

/* The part of range i that meets r; where a range too many would be left, its numbers are counted
 * only. */
static void stream_cut(struct stream *st, size_t i, struct seq_range r)
{
    struct seq_range *x = &st->ranges[i];
    bool before = x->first<r.first, after = x->last> r.last;

    if (before && after && st->n == DEDUP_RANGES_MAX) {
        st->closed = ledger_add(st->closed, r.last - r.first + 1);
    } else if (before && after) {
        memmove(x + 1, x, (st->n - i) * sizeof *x);
        st->n++;
        x[0].last = r.first - 1;
        x[1].first = r.last + 1;
    } else if (before) {
        x->last = r.first - 1;
    } else if (after) {
        x->first = r.last + 1;
    } else {
        st->n--;
        memmove(x, x + 1, (st->n - i) * sizeof *x);
    }
}

void dedup_remove(struct dedup *s, const struct uuid *host, uint64_t stream, struct seq_range r)
{
    struct host *h = host_find(s, host);
    struct stream *st = stream_find(h, stream);

    for (size_t i = st ? range_index(st, r.first) : 0; st && i < st->n;) {
        uint64_t first = st->ranges[i].first;

        if (first > r.last) {
            break;
        }
        stream_cut(st, i, r);
        i += i < st->n && st->ranges[i].first == first; /* something of it is left before r */
    }
    if (st) {
        host_count_gaps(h);
    }
}

enum err dedup_set(struct dedup *s, const struct uuid *host, uint64_t stream,
                   const struct seq_range *ranges, size_t n)
{
    struct host *h = host_find(s, host);
    struct stream *st = stream_find(h, stream);

    assert(n <= DEDUP_RANGES_MAX);
    if (!st) {
        return ERR_NOTFOUND;
    }
    memcpy(st->ranges, ranges, n * sizeof *ranges);
    st->n = n;
    host_count_gaps(h);
    return ERR_OK;
}

uint64_t dedup_last(const struct dedup *s, const struct uuid *host, uint64_t stream)
{
    const struct stream *st = stream_find(host_find(s, host), stream);

    return st && st->n > 0 && st->ranges[0].first == 1 ? st->ranges[0].last : 0;
}

struct dedup_counts *dedup_counts_ref(struct dedup *s, const struct uuid *host)
{
    struct host *h = host_find(s, host);

    if (!h) {
        return NULL;
    }
    atomic_fetch_add(&h->counts->refs, 1);
    return h->counts;
}

void dedup_counts_unref(struct dedup_counts *c)
{
    if (c && atomic_fetch_sub(&c->refs, 1) == 1) {
        mem_free(c);
    }
}

uint64_t dedup_closed(const struct dedup *s)
{
    return s->closed;
}

uint64_t dedup_forgotten(const struct dedup *s)
{
    return s->forgotten;
}

enum err dedup_each(const struct dedup *s,
                    enum err (*each)(void *ctx, const struct dedup_stream *stream), void *ctx)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct host *h = s->hosts[i];

        for (size_t k = 0; k < h->n; k++) {
            const struct stream *st = h->streams[k];
            struct dedup_stream out = {h->id, st->id, st->used_ns, st->ranges, st->n};
            enum err e = st->n > 0 ? each(ctx, &out) : ERR_OK;

            if (e) {
                return e;
            }
        }
    }
    return ERR_OK;
}

void dedup_encode(struct buf *out, const struct seq_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_put_u64le(out, ranges[i].first);
        buf_put_u64le(out, ranges[i].last);
    }
}

enum err dedup_decode(struct seq_range *ranges, size_t *n, const void *p, size_t bytes)
{
    struct cur c = cur_make(p, bytes);
    struct seq_range r[DEDUP_RANGES_MAX];
    size_t count = bytes / 16;

    if (bytes % 16 != 0 || count == 0 || count > DEDUP_RANGES_MAX) {
        return ERR_CORRUPT;
    }
    for (size_t i = 0; i < count; i++) {
        r[i].first = cur_u64le(&c);
        r[i].last = cur_u64le(&c);
        if (r[i].first == 0 || r[i].last < r[i].first ||
            (i > 0 && (r[i - 1].last == UINT64_MAX || r[i].first <= r[i - 1].last + 1))) {
            return ERR_CORRUPT;
        }
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    memcpy(ranges, r, count * sizeof *r);
    *n = count;
    return ERR_OK;
}
