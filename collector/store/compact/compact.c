#include "collector/store/compact/compact.h"

#include <stdlib.h>
#include <string.h>

#include "collector/store/rollup/tier.h"
#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

#define COMPACT_H_NS (3600 * INT64_C(1000000000))

/* One job at work. */
struct compact_run {
    const struct compact_conf *conf;
    const struct compact_job *job;
    const struct manifest_list *l;
    struct packer *packer;
    const struct seg *segs[COMPACT_SEGMENTS_MAX]; /* of job->at, all open */
    struct errmsg *why;
    uint64_t damaged; /* number of the segment that could not be read; 0 = none */
};

static inline bool compact_stopping(const struct compact_run *r)
{
    return r->conf->stopping && r->conf->stopping(r->conf->ctx);
}

/* Joining segments by copying values. Inside each of the old ones the order of the file is kept:
 * what a host's history reads lies host by host, summaries lie metric by metric. */

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

static enum err join_collect(void *ctx, const struct dedup_stream *st)
{
    struct range_rows *rows = ctx;
    enum err e = VEC_ROOM(&rows->p, &rows->cap, rows->n + st->n_ranges, SIZE_MAX);

    for (size_t i = 0; i < st->n_ranges && !e; i++) {
        rows->p[rows->n++] = (struct range_row){st->host, st->stream, st->ranges[i]};
    }
    return e;
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

/* Remembers that segs[i] is to blame when e says so; returns e. */
static enum err compact_blame(struct compact_run *r, size_t i, enum err e)
{
    if (e == ERR_CORRUPT || e == ERR_VERSION || e == ERR_NOTFOUND) {
        r->damaged = manifest_segment(r->l, r->job->at[i])->number;
    }
    return e;
}

/* Gives the writer the union of all ranges of the job's segments. Errors: ERR_NOMEM, … */
static enum err compact_ranges(struct compact_run *r, struct seg_writer *w)
{
    struct range_rows rows = {0};
    enum err e = ERR_OK;

    for (size_t i = 0; i < r->job->n && !e; i++) {
        e = compact_blame(r, i, seg_each_ranges(r->segs[i], join_collect, &rows));
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
static uint64_t join_rank(const struct seg_key *k)
{
    uint64_t value = (uint64_t)k->part << 8 | k->metric;
    bool summary =
        k->part == SEG_PART_SUMS || k->part == SEG_PART_SUM || k->part == SEG_PART_GROUPS;
    uint64_t in_window = summary ? value << 32 | k->host : (uint64_t)k->host << 16 | value;

    return (uint64_t)k->window << 56 | (uint64_t)summary << 55 | in_window;
}

static int in_file_order(const void *a, const void *b)
{
    uint64_t x = join_rank(a), y = join_rank(b);

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

/* Write one segment. *n = 0 when there is nothing to write. Nothing is left after an error. */
static enum err compact_join(struct compact_run *r, struct seg_info *out)
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

/* The hour's tier from its minutes, host by host. What a host's minutes take in memory is bounded:
 * beyond MEMORY_SOFT they are joined to hours (not folded yet: that needs all of an instance), and
 * the rest is joined to those.
 *
 * What a repair could not save of the minutes (seg_scan_salvage) cannot be saved here either: the
 * hour gets a second window for such hosts, with the stamps of what is lost and an empty table, so
 * that answers stay marked when the minutes are gone. */

#define MEMORY_SOFT (64u << 20)
#define MEMORY_MAX  (512u << 20)
#define TIERS_MAX   32u

/* A host in one of the segments. */
struct source {
    struct uuid id;
    uint32_t seg, host;
};

struct hour {
    struct compact_run *r;
    struct seg_info info;
    struct seg_writer *w;
    struct source *sources; /* by host, segment */
    size_t n_sources;
    struct arena memory[2];
    unsigned in; /* which of them the tiers are in */
    struct tier tiers[TIERS_MAX];
    size_t n_tiers;
    uint64_t points;
    size_t hosts;         /* written */
    bool marks;           /* there is a window for what is lost */
    struct seg_span lost; /* of the host */
};

static int by_host(const void *a, const void *b)
{
    const struct source *x = a, *y = b;
    int c = memcmp(x->id.b, y->id.b, sizeof x->id.b);

    return c != 0 ? c : (x->seg > y->seg) - (x->seg < y->seg);
}

static enum err list_sources(struct hour *h)
{
    const struct compact_run *r = h->r;
    size_t n = 0;

    for (size_t i = 0; i < r->job->n; i++) {
        n += seg_hosts(r->segs[i]);
    }
    h->sources = mem_array(n ? n : 1, sizeof *h->sources);
    if (!h->sources) {
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < r->job->n; i++) {
        for (uint32_t k = 0; k < seg_hosts(r->segs[i]); k++) {
            h->sources[h->n_sources++] = (struct source){seg_host(r->segs[i], k)->id, i, k};
        }
    }
    qsort(h->sources, h->n_sources, sizeof *h->sources, by_host);
    return ERR_OK;
}

/* Rows borrow their texts from what they were joined from, which is about to go. */
static enum err keep_texts(struct tier *t, struct arena *memory)
{
    struct tier_row *rows = arena_dup(memory, t->rows, t->n_rows * sizeof *rows);

    for (size_t i = 0; rows && i < t->n_rows; i++) {
        rows[i].name.p = arena_dup(memory, rows[i].name.p, rows[i].name.n);
        rows[i].user.p = arena_dup(memory, rows[i].user.p, rows[i].user.n);
        if (!rows[i].name.p || !rows[i].user.p) {
            return ERR_FULL;
        }
    }
    t->rows = rows;
    return rows ? ERR_OK : ERR_FULL;
}

/* Joins what was read so far, into the other memory. */
static enum err hour_join(struct hour *h)
{
    struct arena *to = &h->memory[!h->in];
    struct tier joined;
    enum err e = tier_join(&joined, to, h->tiers, h->n_tiers, TIER_1H_NS, false);

    if (!e) {
        e = keep_texts(&joined, to);
    }
    if (!e) {
        h->tiers[0] = joined;
        arena_reset(&h->memory[h->in]);
        h->in = !h->in;
        h->n_tiers = 1;
    }
    return e;
}

/* Whether a repair has lost something; of the host's window, or of any (host NULL). */
static bool has_lost(const struct seg *s, const uint32_t *host, unsigned window)
{
    for (size_t i = 0; i < seg_values(s); i++) {
        uint32_t length;
        struct seg_key key = seg_key_at(s, i, &length);

        if (key.part && !length && (!host || (key.host == *host && key.window == window))) {
            return true;
        }
    }
    return false;
}

/* The minutes cannot be read: lost for good, or to wait for a repair. */
static enum err hour_lose(struct hour *h, const struct source *s, unsigned window, enum err e)
{
    const struct seg *seg = h->r->segs[s->seg];
    struct seg_span at = seg_host(seg, s->host)->at[window];

    if (e != ERR_CORRUPT || !has_lost(seg, &s->host, window)) {
        return compact_blame(h->r, s->seg, e);
    }
    h->lost.t0_ns = at.t0_ns < h->lost.t0_ns ? at.t0_ns : h->lost.t0_ns;
    h->lost.t1_ns = at.t1_ns > h->lost.t1_ns ? at.t1_ns : h->lost.t1_ns;
    return ERR_OK;
}

static enum err read_window(struct hour *h, const struct source *s, unsigned window)
{
    struct compact_run *r = h->r;
    struct tier_ask ask = {s->host, (uint8_t)window, TIER_1MIN_NS, METRIC_ALL, true};
    enum err e = ERR_OK;

    if (h->n_tiers == TIERS_MAX || h->memory[h->in].used > MEMORY_SOFT) {
        e = hour_join(h);
    }
    if (!e) {
        e = tier_read(&h->tiers[h->n_tiers], r->segs[s->seg], r->packer, &h->memory[h->in], &ask);
        h->n_tiers += !e;
        e = !e || e == ERR_NOTFOUND ? ERR_OK : hour_lose(h, s, window, e);
    }
    return e;
}

/* All minutes of one host: its sources are [s, end). *t0 > *t1: it has none. */
static enum err read_host(struct hour *h, const struct source *s, const struct source *end,
                          int64_t *t0_ns, int64_t *t1_ns)
{
    enum err e = ERR_OK;

    for (; s < end && !e; s++) {
        const struct seg_host *host = seg_host(h->r->segs[s->seg], s->host);
        unsigned n = seg_info_of(h->r->segs[s->seg])->n_windows;

        for (unsigned w = 0; w < n && !e; w++) {
            if (host->at[w].t1_ns >= host->at[w].t0_ns) {
                *t0_ns = host->at[w].t0_ns < *t0_ns ? host->at[w].t0_ns : *t0_ns;
                *t1_ns = host->at[w].t1_ns > *t1_ns ? host->at[w].t1_ns : *t1_ns;
                e = read_window(h, s, w);
            }
        }
    }
    return e;
}

static enum err mark_host(struct hour *h, const struct seg_host *host)
{
    struct seg_key key = {.part = SEG_PART_ROWS, .window = 1};
    enum err e = seg_writer_host(h->w, &key.host, &host->id, host->name, key.window, h->lost.t0_ns,
                                 h->lost.t1_ns);

    h->hosts++;
    return e ? e : seg_writer_add(h->w, key, "", 0);
}

static enum err write_host(struct hour *h, const struct source *s, const struct source *end)
{
    const struct seg_host *host = seg_host(h->r->segs[s->seg], s->host);
    int64_t t0_ns = INT64_MAX, t1_ns = INT64_MIN;
    struct tier hour;
    uint32_t index;
    enum err e;

    arena_reset(&h->memory[0]);
    arena_reset(&h->memory[1]);
    h->n_tiers = 0;
    h->lost = (struct seg_span){INT64_MAX, INT64_MIN};
    e = read_host(h, s, end, &t0_ns, &t1_ns);
    if (!e && h->lost.t1_ns >= h->lost.t0_ns) {
        e = h->marks ? mark_host(h, host) : ERR_CORRUPT;
    }
    if (e || h->n_tiers == 0) {
        return e;
    }
    e = tier_join(&hour, &h->memory[!h->in], h->tiers, h->n_tiers, TIER_1H_NS, true);
    if (!e) {
        e = seg_writer_host(h->w, &index, &host->id, host->name, 0, t0_ns, t1_ns);
    }
    if (!e) {
        e = tier_write(h->w, h->r->packer, index, 0, &hour, &h->points);
        h->hosts++;
    }
    return e;
}

/* Arenas do not tell their limit from the machine's: far below the limit it was the machine, and a
 * later try may succeed. */
static enum err whose_limit(const struct hour *h, enum err e)
{
    bool ours = h->memory[0].used > MEMORY_MAX / 2 || h->memory[1].used > MEMORY_MAX / 2;

    return e == ERR_FULL && !ours ? ERR_NOMEM : e;
}

static enum err write_hosts(struct hour *h)
{
    const struct source *s = h->sources, *end = s + h->n_sources, *next;
    enum err e = ERR_OK;

    for (; s < end && !e; s = next) {
        for (next = s + 1; next < end && memcmp(&next->id, &s->id, sizeof s->id) == 0; next++) {
        }
        e = compact_stopping(h->r) ? ERR_CLOSED : whose_limit(h, write_host(h, s, next));
    }
    return e;
}

static enum err hour_finish(struct hour *h, struct seg_info *out, size_t *n)
{
    struct seg_writer *w = h->w;
    enum err e;

    if (h->hosts == 0) {
        return ERR_OK; /* minutes without a row: the writer is given up by the caller */
    }
    e = compact_ranges(h->r, w);
    if (e) {
        return e;
    }
    h->w = NULL; /* gone in any case */
    e = seg_writer_finish(w, h->points, &h->info, h->r->why);
    if (!e) {
        *out = h->info;
        *n = 1;
    }
    return e;
}

static enum err compact_make_hour(struct compact_run *r, bool patch, struct seg_info *out,
                                  size_t *n)
{
    struct hour h = {.r = r,
                     .info = {.number = manifest_number(r->conf->manifest),
                              .kind = SEG_1H,
                              .n_windows = 1,
                              .patch = patch,
                              .window_ns = r->job->hour_ns,
                              .span_ns = COMPACT_H_NS}};
    const int64_t windows[2] = {r->job->hour_ns, r->job->hour_ns};
    enum err e = ERR_OK;

    *n = 0;
    for (size_t i = 0; i < r->job->n && !e; i++) {
        e = compact_blame(r, i, seg_load_keys(r->segs[i]));
        h.marks = h.marks || (!e && has_lost(r->segs[i], NULL, 0));
    }
    h.info.n_windows = h.marks ? 2 : 1;
    arena_init(&h.memory[0], MEMORY_MAX);
    arena_init(&h.memory[1], MEMORY_MAX);
    e = e ? e : list_sources(&h);
    if (!e) {
        e = seg_writer_create(&h.w, r->conf->fio, r->conf->dir, &h.info, windows, r->why);
    }
    if (!e) {
        e = write_hosts(&h);
    }
    if (!e) {
        e = hour_finish(&h, out, n);
    }
    seg_writer_abort(h.w);
    mem_free(h.sources);
    arena_fini(&h.memory[0]);
    arena_fini(&h.memory[1]);
    return e ? errmsg_set(r->why, e, "cannot make an hour's tier: %s", err_text(e)) : ERR_OK;
}

#define HOUR_SLACK     (16u << 10) /* a tiny hour may be larger than its minutes */
#define CANDIDATES_MAX 256u /* of one hour and kind at a time; the others come in later jobs */

struct compact {
    struct compact_conf conf;
    struct packer *packer;
    struct compact_skips skips;
    struct compact_stats stats;
    void (*joined)(void *ctx, const uint64_t *old, size_t n, const struct seg_info *add);
    void *joined_ctx;
};

/* -- choosing -- */

static int64_t compact_hour_of(int64_t ns)
{
    return ns - ((ns % COMPACT_H_NS) + COMPACT_H_NS) % COMPACT_H_NS;
}

static bool is_skipped(const struct compact_skips *s, uint64_t number)
{
    size_t n = s->n < COMPACT_SKIPS_MAX ? (size_t)s->n : COMPACT_SKIPS_MAX;

    for (size_t i = 0; i < n; i++) {
        if (s->numbers[i] == number) {
            return true;
        }
    }
    return false;
}

static void job_add(struct compact_job *job, size_t at, const struct seg_info *s)
{
    job->at[job->n++] = at;
    job->bytes += s->bytes;
}

/* Minutes of [from, to) that their hour does not have. */
static bool pick_hour(struct compact_job *job, const struct manifest_list *l, size_t from,
                      size_t to, const struct compact_skips *skips)
{
    for (size_t i = from; i < to && job->n < COMPACT_SEGMENTS_MAX; i++) {
        const struct seg_info *s = manifest_segment(l, i);

        if (!s->in_hour && !is_skipped(skips, s->number)) {
            job_add(job, i, s);
        }
    }
    job->hour = true;
    job->bytes += HOUR_SLACK;
    return job->n > 0;
}

struct candidate {
    size_t at;
    const struct seg_info *info;
};

static int by_size(const void *a, const void *b)
{
    const struct seg_info *x = ((const struct candidate *)a)->info;
    const struct seg_info *y = ((const struct candidate *)b)->info;

    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number;
}

static int by_place(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static bool is_small(const struct seg_info *s)
{
    bool fine = s->kind == SEG_RAW || s->kind == SEG_10S;

    return s->bytes <= (fine ? COMPACT_SMALL_FINE : COMPACT_SMALL);
}

/* The smallest ones of [from, to) that are worth joining. */
static bool pick_join(struct compact_job *job, const struct manifest_list *l, size_t from,
                      size_t to, const struct compact_skips *skips)
{
    struct candidate c[CANDIDATES_MAX];
    unsigned windows = 0;
    size_t n = 0;

    for (size_t i = from; i < to && n < CANDIDATES_MAX; i++) {
        const struct seg_info *s = manifest_segment(l, i);

        if (is_small(s) && (s->kind != SEG_1MIN || s->in_hour) && !is_skipped(skips, s->number)) {
            c[n++] = (struct candidate){i, s};
        }
    }
    qsort(c, n, sizeof *c, by_size);
    for (size_t i = 0; i < n && job->n < COMPACT_SEGMENTS_MAX; i++) {
        if (windows + c[i].info->n_windows > SEG_WINDOWS_MAX ||
            (job->n > 0 && c[i].info->bytes > job->bytes * COMPACT_GROWTH)) {
            break; /* the ones behind are larger still */
        }
        windows += c[i].info->n_windows;
        job_add(job, c[i].at, c[i].info);
    }
    qsort(job->at, job->n, sizeof *job->at, by_place); /* what was there first is first */
    return job->n > 1;
}

bool compact_next(struct compact_job *out, const struct manifest_list *l, int64_t now_ns,
                  int64_t settle_ns, const struct compact_skips *skips)
{
    size_t n = manifest_segments(l), to;

    for (size_t from = 0; from < n; from = to) {
        const struct seg_info *s = manifest_segment(l, from);
        struct compact_job job = {.kind = s->kind, .hour_ns = compact_hour_of(s->window_ns)};

        for (to = from + 1; to < n; to++) {
            const struct seg_info *next = manifest_segment(l, to);

            if (next->kind != job.kind || compact_hour_of(next->window_ns) != job.hour_ns) {
                break;
            }
        }
        if (job.hour_ns > now_ns - settle_ns - COMPACT_H_NS) {
            continue;
        }
        if (job.kind == SEG_1MIN && pick_hour(&job, l, from, to, skips)) {
            *out = job;
            return true;
        }
        job.hour = false;
        job.bytes = 0;
        if (pick_join(&job, l, from, to, skips)) {
            *out = job;
            return true;
        }
    }
    return false;
}

/* -- doing -- */

static enum err open_all(struct compact_run *r)
{
    for (size_t i = 0; i < r->job->n; i++) {
        enum err e = manifest_seg(r->l, r->job->at[i], &r->segs[i]);

        if (e) {
            errmsg_set(r->why, e, "cannot open a segment to compact: %s", err_text(e));
            return compact_blame(r, i, e);
        }
    }
    return ERR_OK;
}

static bool hour_exists(const struct compact_run *r)
{
    size_t i = manifest_lower(r->l, SEG_1H, r->job->hour_ns);
    const struct seg_info *s = i < manifest_segments(r->l) ? manifest_segment(r->l, i) : NULL;

    return s && s->kind == SEG_1H && s->window_ns < r->job->hour_ns + COMPACT_H_NS;
}

/* The change that the job is, from its new segments on: *n counts them when called, then all. */
static void change_of(const struct compact_run *r, struct seg_info *add, size_t *n, uint64_t *drop)
{
    for (size_t i = 0; i < r->job->n; i++) {
        const struct seg_info *s = manifest_segment(r->l, r->job->at[i]);

        drop[i] = s->number;
        if (r->job->hour) {
            add[*n] = *s;
            add[*n].in_hour = true;
            ++*n;
        }
    }
}

static enum err write_new(struct compact_run *r, struct seg_info *add, size_t *n)
{
    enum err e = open_all(r);

    if (!e && r->job->hour) {
        return compact_make_hour(r, hour_exists(r), add, n);
    }
    if (!e) {
        e = compact_join(r, add);
        *n = e ? 0 : 1;
    }
    return e;
}

static enum err compact_run(struct compact *c, struct compact_run *r)
{
    struct manifest *m = c->conf.manifest;
    struct seg_info add[1 + COMPACT_SEGMENTS_MAX], made;
    uint64_t drop[COMPACT_SEGMENTS_MAX];
    size_t n = 0, n_made;
    enum err e = write_new(r, add, &n);

    if (e) {
        return e;
    }
    n_made = n;
    made = n ? add[0] : (struct seg_info){0};
    change_of(r, add, &n, drop);
    e = manifest_change(m, add, n, drop, r->job->n, r->why);
    if (e) {
        if (n_made) {
            manifest_discard(m, &made);
        }
        return e;
    }
    if (c->joined && !r->job->hour) {
        c->joined(c->joined_ctx, drop, r->job->n, &made);
    }
    manifest_publish(m);
    c->stats.written += made.bytes;
    c->stats.read += r->job->bytes;
    c->stats.hours += r->job->hour;
    c->stats.joins += !r->job->hour;
    return ERR_OK;
}

static void compact_skip(struct compact *c, uint64_t number)
{
    c->skips.numbers[c->skips.n++ % COMPACT_SKIPS_MAX] = number;
    c->stats.skipped++;
}

/* What can never be done is no reason to stop: a damaged segment is left out from now on, and so
 * are all of a job that is over a limit. */
static enum err run_or_skip(struct compact *c, struct compact_run *r)
{
    enum err e = compact_run(c, r);

    if (e && r->damaged) {
        compact_skip(c, r->damaged);
        return ERR_OK;
    }
    if (e == ERR_FULL || e == ERR_INVALID) {
        for (size_t i = 0; i < r->job->n; i++) {
            compact_skip(c, manifest_segment(r->l, r->job->at[i])->number);
        }
        return ERR_OK;
    }
    return e;
}

uint64_t compact_wants(const struct compact *c, int64_t now_ns)
{
    struct manifest_list *l = manifest_view(c->conf.manifest);
    struct compact_job job = {.bytes = 0};

    if (l && !compact_next(&job, l, now_ns, c->conf.settle_ns, &c->skips)) {
        job.bytes = 0;
    }
    manifest_list_release(l);
    return job.bytes;
}

enum err compact_step(struct compact *c, int64_t now_ns, uint64_t spare_bytes, bool *worked,
                      struct errmsg *why)
{
    struct manifest_list *l = manifest_view(c->conf.manifest);
    struct compact_job job;
    struct compact_run r = {.conf = &c->conf, .job = &job, .l = l, .packer = c->packer, .why = why};
    enum err e = ERR_OK;
    bool found;

    *worked = false;
    if (!l) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    found = compact_next(&job, l, now_ns, c->conf.settle_ns, &c->skips);
    if (found && job.bytes > spare_bytes) {
        c->stats.postponed++;
    } else if (found) {
        e = run_or_skip(c, &r);
        *worked = !e;
    }
    manifest_list_release(l);
    return e;
}

enum err compact_create(struct compact **out, const struct compact_conf *conf)
{
    struct compact *c = mem_zalloc(sizeof *c);
    enum err e;

    if (!c) {
        return ERR_NOMEM;
    }
    c->conf = *conf;
    e = packer_create(&c->packer);
    if (e) {
        compact_destroy(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void compact_destroy(struct compact *c)
{
    if (c) {
        packer_destroy(c->packer);
        mem_free(c);
    }
}

void compact_on_join(struct compact *c,
                     void (*joined)(void *ctx, const uint64_t *old, size_t n,
                                    const struct seg_info *add),
                     void *ctx)
{
    c->joined = joined;
    c->joined_ctx = ctx;
}

void compact_stats(const struct compact *c, struct compact_stats *out)
{
    *out = c->stats;
}
