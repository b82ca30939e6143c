#include "collector/store/compact/compact.h"

#include <stdlib.h>
#include <string.h>

#include "collector/store/compact/compact_impl.h"
#include "common/base/mem.h"

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

int64_t compact_hour_of(int64_t ns)
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

enum err compact_blame(struct compact_run *r, size_t i, enum err e)
{
    if (e == ERR_CORRUPT || e == ERR_VERSION || e == ERR_NOTFOUND) {
        r->damaged = manifest_segment(r->l, r->job->at[i])->number;
    }
    return e;
}

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

static enum err run(struct compact *c, struct compact_run *r)
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

static void skip(struct compact *c, uint64_t number)
{
    c->skips.numbers[c->skips.n++ % COMPACT_SKIPS_MAX] = number;
    c->stats.skipped++;
}

/* What can never be done is no reason to stop: a damaged segment is left out from now on, and so
 * are all of a job that is over a limit. */
static enum err run_or_skip(struct compact *c, struct compact_run *r)
{
    enum err e = run(c, r);

    if (e && r->damaged) {
        skip(c, r->damaged);
        return ERR_OK;
    }
    if (e == ERR_FULL || e == ERR_INVALID) {
        for (size_t i = 0; i < r->job->n; i++) {
            skip(c, manifest_segment(r->l, r->job->at[i])->number);
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
