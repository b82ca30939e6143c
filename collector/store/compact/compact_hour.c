/* The hour's tier from its minutes, host by host. What a host's minutes take in memory is bounded:
 * beyond MEMORY_SOFT they are joined to hours (not folded yet: that needs all of an instance), and
 * the rest is joined to those.
 *
 * What a repair could not save of the minutes (seg_salvage) cannot be saved here either: the hour
 * gets a second window for such hosts, with the stamps of what is lost and an empty table, so that
 * answers stay marked when the minutes are gone. */
#include <stdlib.h>
#include <string.h>

#include "collector/store/compact/compact_impl.h"
#include "collector/store/rollup/tier.h"
#include "common/base/mem.h"

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
static enum err join(struct hour *h)
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
static enum err lose(struct hour *h, const struct source *s, unsigned window, enum err e)
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
    struct tier_ask ask = {s->host, (uint8_t)window, TIER_1MIN_NS, UINT64_MAX, true};
    enum err e = ERR_OK;

    if (h->n_tiers == TIERS_MAX || h->memory[h->in].used > MEMORY_SOFT) {
        e = join(h);
    }
    if (!e) {
        e = tier_read(&h->tiers[h->n_tiers], r->segs[s->seg], r->packer, &h->memory[h->in], &ask);
        h->n_tiers += !e;
        e = !e || e == ERR_NOTFOUND ? ERR_OK : lose(h, s, window, e);
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

static enum err finish(struct hour *h, struct seg_info *out, size_t *n)
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

enum err compact_make_hour(struct compact_run *r, bool patch, struct seg_info *out, size_t *n)
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
        e = finish(&h, out, n);
    }
    seg_writer_abort(h.w);
    mem_free(h.sources);
    arena_fini(&h.memory[0]);
    arena_fini(&h.memory[1]);
    return e ? errmsg_set(r->why, e, "cannot make an hour's tier: %s", err_text(e)) : ERR_OK;
}
