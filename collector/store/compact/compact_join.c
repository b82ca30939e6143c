/* Joining segments by copying values. Inside each of the old ones the order of the file is kept:
 * what a host's history reads lies host by host, summaries lie metric by metric. */
#include <stdlib.h>
#include <string.h>

#include "collector/store/compact/compact_impl.h"
#include "common/base/mem.h"

#define STOP_EVERY 256u /* values */
#define NO_HOST    UINT32_MAX

/* -- ranges -- */

struct range_row {
    struct uuid host;
    uint64_t stream;
    struct seq_range r;
};

struct range_rows {
    struct range_row *p;
    size_t n, cap;
};

static enum err collect(void *ctx, const struct seqset_stream *st)
{
    struct range_rows *rows = ctx;

    if (rows->n + st->n_ranges > rows->cap) {
        size_t cap = (rows->n + st->n_ranges) * 2;
        struct range_row *grown = mem_realloc_array(rows->p, cap, sizeof *grown);

        if (!grown) {
            return ERR_NOMEM;
        }
        rows->p = grown;
        rows->cap = cap;
    }
    for (size_t i = 0; i < st->n_ranges; i++) {
        rows->p[rows->n++] = (struct range_row){st->host, st->stream, st->ranges[i]};
    }
    return ERR_OK;
}

static int by_stream(const struct range_row *x, const struct range_row *y)
{
    int c = memcmp(x->host.b, y->host.b, sizeof x->host.b);

    if (c == 0 && x->stream != y->stream) {
        c = x->stream < y->stream ? -1 : 1;
    }
    return c;
}

static int by_range(const void *a, const void *b)
{
    const struct range_row *x = a, *y = b;
    int c = by_stream(x, y);

    if (c == 0 && x->r.first != y->r.first) {
        c = x->r.first < y->r.first ? -1 : 1;
    }
    return c;
}

/* Rows [from, to) are of one stream and sorted; merged they go to the writer. */
static enum err write_stream(struct seg_writer *w, const struct range_row *rows, size_t n,
                             struct seq_range *merged)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        const struct seq_range *r = &rows[i].r;

        if (m > 0 && r->first - 1 <= merged[m - 1].last) {
            merged[m - 1].last = r->last > merged[m - 1].last ? r->last : merged[m - 1].last;
        } else {
            merged[m++] = *r;
        }
    }
    return seg_writer_ranges(w, &rows->host, rows->stream, merged, m);
}

static enum err write_ranges(struct seg_writer *w, struct range_rows *rows)
{
    struct seq_range *merged = mem_array(rows->n ? rows->n : 1, sizeof *merged);
    enum err e = merged ? ERR_OK : ERR_NOMEM;
    size_t to;

    if (rows->n > 1) {
        qsort(rows->p, rows->n, sizeof *rows->p, by_range);
    }
    for (size_t from = 0; from < rows->n && !e; from = to) {
        for (to = from + 1; to < rows->n && by_stream(&rows->p[from], &rows->p[to]) == 0; to++) {
        }
        e = write_stream(w, rows->p + from, to - from, merged);
    }
    mem_free(merged);
    return e;
}

enum err compact_ranges(struct compact_run *r, struct seg_writer *w)
{
    struct range_rows rows = {0};
    enum err e = ERR_OK;

    for (size_t i = 0; i < r->job->n && !e; i++) {
        e = compact_blame(r, i, seg_each_ranges(r->segs[i], collect, &rows));
    }
    if (!e) {
        e = write_ranges(w, &rows);
    }
    mem_free(rows.p);
    return e;
}

/* -- windows -- */

struct window_row {
    int64_t start_ns;
    uint8_t seg, window;
};

static int by_start(const void *a, const void *b)
{
    const struct window_row *x = a, *y = b;

    if (x->start_ns != y->start_ns) {
        return x->start_ns < y->start_ns ? -1 : 1;
    }
    if (x->seg != y->seg) {
        return x->seg < y->seg ? -1 : 1;
    }
    return x->window < y->window ? -1 : x->window > y->window;
}

/* Where the windows of the old segments are in the new one. */
struct joined {
    struct seg_info info;
    int64_t starts[SEG_WINDOWS_MAX];
    uint8_t place[COMPACT_SEGMENTS_MAX][SEG_WINDOWS_MAX]; /* by old segment and window */
};

static void join_windows(struct joined *j, const struct compact_run *r)
{
    struct window_row rows[SEG_WINDOWS_MAX];
    unsigned n = 0;

    for (size_t i = 0; i < r->job->n; i++) {
        const struct seg_info *s = seg_info_of(r->segs[i]);

        for (unsigned w = 0; w < s->n_windows && n < SEG_WINDOWS_MAX; w++) {
            rows[n++] = (struct window_row){seg_window(r->segs[i], w), (uint8_t)i, (uint8_t)w};
        }
    }
    qsort(rows, n, sizeof *rows, by_start);
    for (unsigned i = 0; i < n; i++) {
        j->starts[i] = rows[i].start_ns;
        j->place[rows[i].seg][rows[i].window] = (uint8_t)i;
    }
    j->info.n_windows = (uint8_t)n;
}

static void join_infos(struct joined *j, const struct compact_run *r)
{
    struct seg_info *info = &j->info;
    int64_t end = INT64_MIN;

    *info = (struct seg_info){.number = manifest_number(r->conf->manifest),
                              .kind = (uint8_t)r->job->kind,
                              .window_ns = INT64_MAX,
                              .in_hour = r->job->kind == SEG_1MIN};
    for (size_t i = 0; i < r->job->n; i++) {
        const struct seg_info *s = manifest_segment(r->l, r->job->at[i]);

        info->window_ns = s->window_ns < info->window_ns ? s->window_ns : info->window_ns;
        end = s->window_ns + s->span_ns > end ? s->window_ns + s->span_ns : end;
        info->values += s->values;
        info->patch = info->patch || s->patch; /* of which windows is not told any more */
    }
    info->span_ns = end - info->window_ns;
    join_windows(j, r);
}

/* -- values -- */

/* Where a value is in the file: hosts one by one, then the summaries metric by metric. */
static uint64_t rank(const struct seg_key *k)
{
    uint64_t value = (uint64_t)k->part << 8 | k->metric;
    bool summary = k->part == SEG_PART_SUMS || k->part == SEG_PART_SUM;
    uint64_t in_window = summary ? value << 32 | k->host : (uint64_t)k->host << 16 | value;

    return (uint64_t)k->window << 56 | (uint64_t)summary << 55 | in_window;
}

static int in_file_order(const void *a, const void *b)
{
    uint64_t x = rank(a), y = rank(b);

    return x < y ? -1 : x > y;
}

static enum err copy_hosts(struct compact_run *r, struct joined *j, size_t i, uint32_t *to,
                           struct seg_writer *w)
{
    const struct seg *s = r->segs[i];
    enum err e = ERR_OK;

    for (size_t h = 0; h < seg_hosts(s) && !e; h++) {
        const struct seg_host *host = seg_host(s, h);

        to[h] = NO_HOST;
        for (unsigned win = 0; win < seg_info_of(s)->n_windows && !e; win++) {
            const struct seg_span *at = &host->at[win];

            if (at->t1_ns >= at->t0_ns) {
                e = seg_writer_host(w, &to[h], &host->id, host->name, j->place[i][win], at->t0_ns,
                                    at->t1_ns);
            }
        }
    }
    return e;
}

static enum err copy_value(struct compact_run *r, const struct joined *j, size_t i,
                           struct seg_key key, const uint32_t *to, struct arena *memory,
                           struct seg_writer *w)
{
    const uint8_t *p;
    size_t n;
    enum err e;

    arena_reset(memory);
    e = seg_read(r->segs[i], memory, key, &p, &n);
    if (!e && to[key.host] == NO_HOST) {
        e = ERR_CORRUPT;
    }
    if (e) {
        return compact_blame(r, i, e);
    }
    key.window = j->place[i][key.window];
    key.host = to[key.host];
    return seg_writer_add(w, key, p, n);
}

static enum err copy_values(struct compact_run *r, struct joined *j, size_t i, const uint32_t *to,
                            struct seg_writer *w)
{
    const struct seg *s = r->segs[i];
    size_t n = seg_values(s);
    struct seg_key *keys = mem_array(n ? n : 1, sizeof *keys);
    struct arena memory;
    enum err e = keys ? compact_blame(r, i, seg_load_keys(s)) : ERR_NOMEM;

    arena_init(&memory, 2 * (size_t)SEG_VALUE_MAX);
    for (size_t k = 0; k < n && !e; k++) {
        uint32_t length;

        keys[k] = seg_key_at(s, k, &length);
    }
    if (!e && n > 1) {
        qsort(keys, n, sizeof *keys, in_file_order);
    }
    for (size_t k = 0; k < n && !e; k++) {
        e = k % STOP_EVERY == 0 && compact_stopping(r)
                ? ERR_CLOSED
                : copy_value(r, j, i, keys[k], to, &memory, w);
    }
    arena_fini(&memory);
    mem_free(keys);
    return e;
}

static enum err copy_segment(struct compact_run *r, struct joined *j, size_t i,
                             struct seg_writer *w)
{
    size_t n = seg_hosts(r->segs[i]);
    uint32_t *to = mem_array(n ? n : 1, sizeof *to);
    enum err e = to ? copy_hosts(r, j, i, to, w) : ERR_NOMEM;

    if (!e) {
        e = copy_values(r, j, i, to, w);
    }
    mem_free(to);
    return e;
}

enum err compact_join(struct compact_run *r, struct seg_info *out)
{
    struct joined j;
    struct seg_writer *w;
    enum err e;

    join_infos(&j, r);
    e = seg_writer_create(&w, r->conf->fio, r->conf->dir, &j.info, j.starts, r->why);
    if (e) {
        return e;
    }
    for (size_t i = 0; i < r->job->n && !e; i++) {
        e = copy_segment(r, &j, i, w);
    }
    if (!e) {
        e = compact_ranges(r, w);
    }
    if (e) {
        seg_writer_abort(w);
        return errmsg_set(r->why, e, "cannot compact: %s", err_text(e));
    }
    e = seg_writer_finish(w, j.info.values, &j.info, r->why);
    if (!e) {
        *out = j.info;
    }
    return e;
}
