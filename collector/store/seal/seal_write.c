/* For each host and window: decode its batches, join them, write rows, tiers and rests. One file of
 * each kind is open at a time; what has no values (a window without ticks) leaves no file. */
#include "collector/store/seal/seal_write.h"

#include <stdlib.h>
#include <string.h>

#include "collector/store/meta/meta.h"
#include "collector/store/meta/prov_value.h"
#include "collector/store/rollup/group_sums.h"
#include "collector/store/rollup/tier.h"
#include "collector/store/segment/pack.h"
#include "collector/store/segment/raw.h"
#include "collector/store/segment/seg_write.h"
#include "collector/store/segment/window.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

/* Sealings in a row that fail because the disk does not give a batch of the log: ten minutes. */
#define READ_TRIES 120u

/* One file under way. */
struct file {
    struct seg_writer *w; /* NULL: none */
    struct seg_info info;
    uint64_t values;
    bool used;
};

struct seal_writer {
    struct seal_writer_conf conf;
    struct packer *packer;
    struct wire_decoder *decoder;
    struct meta_written *written;
    struct tier_later *later;
    struct arena memory;
    unsigned refused; /* sealings in a row that failed for what the disk did not give */
    /* of the job: */
    const struct seal_job *job;
    struct file files[SEG_KINDS];
    unsigned has; /* the kinds, as bits, that have the host at hand */
    struct seal_made made;
    struct seal_lost *lost;      /* of `made` */
    size_t cap_lost, first_lost; /* those of the host at hand begin there */
};

void seal_writer_destroy(struct seal_writer *w)
{
    if (w) {
        arena_fini(&w->memory);
        tier_later_destroy(w->later);
        meta_written_destroy(w->written);
        wire_batch_decoder_destroy(w->decoder);
        packer_destroy(w->packer);
        mem_free(w->lost);
        mem_free(w);
    }
}

enum err seal_writer_create(struct seal_writer **out, const struct seal_writer_conf *conf)
{
    struct seal_writer *w = mem_zalloc(sizeof *w);
    enum err e;

    if (!w) {
        return ERR_NOMEM;
    }
    w->conf = *conf;
    arena_init(&w->memory, SEAL_MEMORY);
    e = packer_create(&w->packer);
    if (!e) {
        e = wire_batch_decoder_create(&w->decoder);
    }
    if (!e) {
        e = meta_written_create(&w->written);
    }
    if (e) {
        seal_writer_destroy(w);
        return e;
    }
    *out = w;
    return ERR_OK;
}

/* -- files -- */

static const uint8_t kinds[] = {SEG_REST, SEG_RAW, SEG_10S, SEG_1MIN, SEG_PROVIDER};

#define N_KINDS (sizeof kinds / sizeof *kinds)

static enum err open_file(struct seal_writer *w, uint8_t kind, struct errmsg *why)
{
    const struct seal_job *job = w->job;
    struct file *f = &w->files[kind];

    *f = (struct file){
        .info = {.number = manifest_number(w->conf.manifest),
                 .kind = kind,
                 .n_windows = job->n_windows,
                 .patch = job->patch,
                 .window_ns = job->windows_ns[0],
                 .span_ns = job->windows_ns[job->n_windows - 1] + WINDOW_NS - job->windows_ns[0]}};
    return seg_writer_create(&f->w, w->conf.fio, w->conf.dir, &f->info, job->windows_ns, why);
}

static void abort_files(struct seal_writer *w)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        seg_writer_abort(w->files[kinds[i]].w);
        w->files[kinds[i]].w = NULL;
    }
    seal_write_discard(w, &w->made);
}

static enum err finish_file(struct seal_writer *w, uint8_t kind, struct errmsg *why)
{
    struct file *f = &w->files[kind];
    struct seg_writer *writer = f->w;
    enum err e;

    f->w = NULL;
    if (!f->used) {
        seg_writer_abort(writer);
        return ERR_OK;
    }
    f->info.values = f->values;
    e = seg_writer_finish(writer, f->values, &f->info, why);
    if (!e) {
        w->made.info[w->made.n++] = f->info;
    }
    return e;
}

void seal_write_discard(struct seal_writer *w, const struct seal_made *made)
{
    for (size_t i = 0; i < made->n; i++) {
        manifest_discard(w->conf.manifest, &made->info[i]);
    }
}

void seal_write_keep(struct seal_writer *w)
{
    meta_written_keep(w->written);
}

/* -- one host and window -- */

/* Its batches, decoded. */
struct group {
    const struct head_taken_host *host;
    uint8_t window; /* index */
    size_t n;
    struct window_batch *batches;
    int64_t t0_ns, t1_ns;
};

static void group_fini(struct group *g)
{
    for (size_t i = 0; i < g->n; i++) {
        wire_batch_free((struct batch *)g->batches[i].batch);
    }
    mem_free(g->batches);
}

/* Whether a batch that cannot be decoded is left out: it is damaged, or the disk never gives it,
 * though it takes files (they are begun first). One bad sector must not keep all that comes later
 * from being sealed, until the head is full. */
static bool is_lost(const struct seal_writer *w, enum err e)
{
    return e == ERR_CORRUPT || e == ERR_FULL || e == ERR_VERSION ||
           (e != ERR_NOMEM && w->refused >= READ_TRIES);
}

static enum err lost_add(struct seal_writer *w, const struct uuid *host, const struct head_batch *b)
{
    enum err e = VEC_ROOM(&w->lost, &w->cap_lost, w->made.n_lost + 1, SIZE_MAX);

    if (!e) {
        w->lost[w->made.n_lost++] = (struct seal_lost){*host, b->stream, b->seq};
    }
    return e;
}

static bool is_left_out(const struct seal_writer *w, const struct head_batch *b)
{
    for (size_t i = w->first_lost; i < w->made.n_lost; i++) {
        if (w->lost[i].stream == b->stream && w->lost[i].seq == b->seq) {
            return true;
        }
    }
    return false;
}

static enum err group_decode(struct seal_writer *w, struct group *g,
                             const struct head_batch *const *batches, size_t n)
{
    g->batches = mem_array(n, sizeof *g->batches);
    if (!g->batches) {
        return ERR_NOMEM;
    }
    g->t0_ns = INT64_MAX;
    g->t1_ns = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        struct batch *b;
        enum err e = head_batch_decode(batches[i], w->decoder, METRIC_ALL, &b);

        if (e && !is_lost(w, e)) {
            w->refused += e != ERR_NOMEM;
            return e; /* what cannot be read now may be later */
        }
        if (e) { /* it was decoded when it came: memory, log or disk are damaged */
            e = lost_add(w, &g->host->id, batches[i]);
            if (e) {
                return e;
            }
            continue;
        }
        g->batches[g->n++] = (struct window_batch){b, batches[i]->clock, batches[i]->received_ns};
        g->t0_ns = batches[i]->t0_ns < g->t0_ns ? batches[i]->t0_ns : g->t0_ns;
        g->t1_ns = batches[i]->t1_ns > g->t1_ns ? batches[i]->t1_ns : g->t1_ns;
    }
    return ERR_OK;
}

static enum err file_host(struct seal_writer *w, uint8_t kind, const struct group *g,
                          uint32_t *index)
{
    w->files[kind].used = true;
    w->has |= 1u << kind;
    return seg_writer_host(w->files[kind].w, index, &g->host->id, g->host->name, g->window,
                           g->t0_ns, g->t1_ns);
}

static bool find_name(void *ctx, const struct uuid *boot, struct proc_id id, struct proc_info *out)
{
    return head_infos_find(ctx, boot, id, out);
}

static enum err write_tier(struct seal_writer *w, uint8_t kind, const struct group *g,
                           const struct tier *t)
{
    uint32_t host;
    enum err e = file_host(w, kind, g, &host);

    return e ? e
             : tier_write(w->files[kind].w, w->packer, host, g->window, t, &w->files[kind].values);
}

/* The host's summary of the window before, as it was sealed, and its stamps. Errors: ERR_NOTFOUND
 * (there is none, or late data beside it), and those of reading */
static enum err read_before(struct seal_writer *w, const struct group *g,
                            struct manifest_list *segments, struct tier *out, struct seg_span *span)
{
    const int64_t before_ns = w->job->windows_ns[g->window] - WINDOW_NS;
    struct tier_ask ask = {.metrics = GROUP_SUMS_METRICS, .names = true};
    const struct seg *found = NULL;
    enum err e = ERR_OK;

    for (size_t i = manifest_lower(segments, SEG_RAW, before_ns - TIER_1H_NS);
         !e && i < manifest_segments(segments); i++) {
        const struct seg_info *info = manifest_segment(segments, i);
        const struct seg *s;
        size_t host;

        if (info->kind != SEG_RAW || info->window_ns > before_ns) {
            break;
        }
        if (info->window_ns + info->span_ns <= before_ns) {
            continue;
        }
        e = manifest_seg(segments, i, &s);
        host = e ? 0 : seg_find_host(s, &g->host->id);
        for (unsigned k = 0; !e && host < seg_hosts(s) && k < info->n_windows; k++) {
            const struct seg_span *at = &seg_host(s, host)->at[k];

            if (seg_window(s, k) == before_ns && at->t1_ns >= at->t0_ns) {
                e = found ? ERR_NOTFOUND : ERR_OK;
                found = s;
                ask.host = (uint32_t)host;
                ask.window = (uint8_t)k;
                *span = *at;
            }
        }
    }
    e = e ? e : found ? ERR_OK : ERR_NOTFOUND;
    return e ? e : tier_read(out, found, w->packer, &w->memory, &ask);
}

/* Sums by image and user, where they can be had: nothing hangs on them. */
static enum err write_sums(struct seal_writer *w, const struct group *g, uint32_t raw_host,
                           const struct tier *now)
{
    const struct seg_key key = {SEG_PART_GROUPS, 0, g->window, raw_host};
    struct manifest_list *segments = w->job->patch ? NULL : manifest_view(w->conf.manifest);
    struct group_sums sums;
    struct tier before;
    struct seg_span span;
    struct buf b;
    enum err e = segments ? read_before(w, g, segments, &before, &span) : ERR_NOTFOUND;

    if (!e) {
        e = group_sums_make(&sums, &w->memory, now, &before, (int64_t[]){span.t0_ns, span.t1_ns});
    }
    manifest_list_release(segments);
    if (e) {
        return ERR_OK;
    }
    buf_init(&b, SEG_VALUE_MAX);
    group_sums_put(&b, &sums);
    e = b.bad ? b.bad : tier_later_put(w->later, key, b.p, b.n);
    buf_fini(&b);
    return e;
}

/* The finest tier is added up from the rows, the others from it. */
static enum err write_tiers(struct seal_writer *w, const struct group *g,
                            const struct host_window *hw, uint32_t raw_host)
{
    const struct tier_names names = {find_name, g->host->infos};
    struct tier fine, minutes, sums;
    enum err e = tier_make(&fine, &w->memory, hw, TIER_10S_NS, false, &names);

    if (!e) {
        e = write_tier(w, SEG_10S, g, &fine);
    }
    if (!e) {
        e = tier_join(&minutes, &w->memory, &fine, 1, TIER_1MIN_NS, true);
    }
    if (!e) {
        e = write_tier(w, SEG_1MIN, g, &minutes);
    }
    if (!e) {
        e = tier_join(&sums, &w->memory, &fine, 1, TIER_WINDOW_NS, false);
    }
    e = e ? e : tier_later_add(w->later, w->packer, raw_host, g->window, &sums);
    return e ? e : write_sums(w, g, raw_host, &sums);
}

static enum err write_rows(struct seal_writer *w, const struct group *g,
                           const struct host_window *hw)
{
    uint32_t host;
    enum err e = file_host(w, SEG_RAW, g, &host);

    if (!e) {
        e = raw_value_write(w->files[SEG_RAW].w, w->packer, host, g->window, hw,
                            &w->files[SEG_RAW].values);
    }
    return e ? e : write_tiers(w, g, hw, host);
}

/* Events of providers have a file of their own. */
static enum err write_providers(struct seal_writer *w, const struct group *g,
                                struct host_window *hw)
{
    uint32_t host;
    enum err e;

    if (!prov_value_has(hw)) {
        return ERR_OK;
    }
    e = file_host(w, SEG_PROVIDER, g, &host);
    if (!e) {
        e = prov_value_write(w->files[SEG_PROVIDER].w, w->packer, host, g->window, hw, &w->memory,
                             &w->files[SEG_PROVIDER].values);
    }
    return e ? e : prov_value_strip(hw, &w->memory);
}

static enum err write_group(struct seal_writer *w, const struct group *g)
{
    struct host_window hw;
    uint32_t host;
    enum err e = window_join(&hw, &w->memory, g->batches, g->n, g->host->name);

    if (!e) {
        e = write_providers(w, g, &hw);
    }
    if (!e) {
        e = file_host(w, SEG_REST, g, &host);
    }
    if (!e) {
        e = meta_value_write(w->files[SEG_REST].w, w->packer, host, g->window, &hw, w->written,
                             &w->files[SEG_REST].values);
    }
    if (!e && hw.n_parts > 0) {
        e = write_rows(w, g, &hw);
    }
    return e;
}

static enum err seal_group(struct seal_writer *w, const struct head_taken_host *host,
                           const struct head_batch *const *batches, size_t n)
{
    struct group g = {.host = host};
    enum err e;

    while (w->job->windows_ns[g.window] != batches[0]->window_ns) {
        g.window++;
    }
    e = group_decode(w, &g, batches, n);
    if (!e && g.n > 0) {
        e = write_group(w, &g);
    }
    w->made.batches += g.n;
    group_fini(&g);
    arena_reset(&w->memory);
    return e;
}

/* -- numbers -- */

struct number {
    uint64_t stream, seq;
};

static int by_number(const void *a, const void *b)
{
    const struct number *x = a, *y = b;

    if (x->stream != y->stream) {
        return x->stream < y->stream ? -1 : 1;
    }
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Into every file that has the host. */
static enum err put_ranges(struct seal_writer *w, const struct uuid *host, uint64_t stream,
                           const struct seq_range *ranges, size_t n)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < N_KINDS && !e; i++) {
        if (w->has & 1u << kinds[i]) {
            e = seg_writer_ranges(w->files[kinds[i]].w, host, stream, ranges, n);
        }
    }
    return e;
}

static enum err seal_ranges(struct seal_writer *w, const struct head_taken_host *host)
{
    struct number *all = arena_array(&w->memory, host->n, sizeof *all);
    struct seq_range *ranges = arena_array(&w->memory, host->n, sizeof *ranges);
    size_t k = 0, n = 0;
    enum err e = all && ranges ? ERR_OK : ERR_NOMEM;

    if (e) {
        return e;
    }
    for (size_t i = 0; i < host->n; i++) {
        if (!is_left_out(w, host->batches[i])) {
            all[n++] = (struct number){host->batches[i]->stream, host->batches[i]->seq};
        }
    }
    qsort(all, n, sizeof *all, by_number);
    for (size_t i = 0; i < n && !e; i++) {
        if (k > 0 && ranges[k - 1].last + 1 == all[i].seq) {
            ranges[k - 1].last = all[i].seq;
        } else {
            ranges[k++] = (struct seq_range){all[i].seq, all[i].seq};
        }
        if (i + 1 == n || all[i + 1].stream != all[i].stream) {
            e = put_ranges(w, &host->id, all[i].stream, ranges, k);
            k = 0;
        }
    }
    return e;
}

/* -- all of them -- */

static enum err seal_host(struct seal_writer *w, const struct head_taken_host *host)
{
    enum err e = ERR_OK;

    w->has = 0;
    w->first_lost = w->made.n_lost;
    for (size_t i = 0, n; i < host->n && !e; i += n) {
        for (n = 1;
             i + n < host->n && host->batches[i + n]->window_ns == host->batches[i]->window_ns;
             n++) {
        }
        e = seal_group(w, host, host->batches + i, n);
    }
    if (!e) {
        e = seal_ranges(w, host);
        arena_reset(&w->memory);
    }
    return e;
}

static enum err write_all(struct seal_writer *w, struct errmsg *why)
{
    const struct head_taken *taken = w->job->taken;
    enum err e = ERR_OK;

    for (size_t i = 0; i < N_KINDS && !e; i++) {
        e = open_file(w, kinds[i], why);
    }
    if (e) {
        return e;
    }
    for (size_t i = 0; i < head_taken_hosts(taken) && !e; i++) {
        e = w->conf.stopping(w->conf.ctx) ? ERR_CLOSED : seal_host(w, head_taken_host(taken, i));
    }
    if (!e) {
        e = meta_accounts_write(w->files[SEG_REST].w, w->written);
    }
    if (!e) {
        e = tier_later_write(w->later, w->files[SEG_RAW].w);
    }
    if (e) {
        return errmsg_set(why, e, "cannot seal: %s", err_text(e));
    }
    for (size_t i = 0; i < N_KINDS && !e; i++) {
        e = finish_file(w, kinds[i], why);
    }
    return e;
}

enum err seal_write(struct seal_writer *w, struct seal_made *out, const struct seal_job *job,
                    struct errmsg *why)
{
    enum err e = tier_later_create(&w->later);

    if (e) {
        return errmsg_set(why, e, "out of memory");
    }
    w->job = job;
    w->made = (struct seal_made){0};
    memset(w->files, 0, sizeof w->files);
    meta_written_begin(w->written, job->windows_ns[0]);
    e = write_all(w, why);
    tier_later_destroy(w->later);
    w->later = NULL;
    if (e) {
        abort_files(w);
        return e;
    }
    w->refused = 0;
    for (size_t i = 0; i < w->made.n; i++) {
        w->made.values += w->made.info[i].kind == SEG_RAW ? w->made.info[i].values : 0;
    }
    w->made.lost = w->lost;
    *out = w->made;
    return ERR_OK;
}
