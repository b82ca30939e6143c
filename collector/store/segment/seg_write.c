/* Values go to the file as they come, through one buffer; what is needed of them for the directory
 * is kept: 24 bytes each. At the end: ranges, directory sorted by key, hosts, groups, a copy of the
 * header, footer; sync, rename, sync of the directory. */
#include "collector/store/segment/seg_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/segment/seg.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define BUFFER_BYTES (1u << 20)
#define SYNC_BYTES   (32u << 20) /* so that the last sync does not stall the disk */
#define FILE_MAX     (UINT64_C(1) << 46)
#define NONE         UINT32_MAX

struct entry {
    uint64_t order; /* seg_key_order */
    uint64_t at;
    uint32_t length;
};

struct host {
    struct uuid id;
    uint8_t name_n;
    size_t name; /* in names */
};

struct range {
    struct uuid host;
    uint64_t stream;
    struct seq_range r;
};

struct seg_writer {
    const struct fio *fio;
    char *dir, *path, *tmp;
    struct seg_head head;
    struct fio_file *f;
    bool renamed, replaces;
    struct buf out;   /* not yet written */
    uint64_t written; /* without it */
    uint64_t synced;

    struct entry *entries;
    size_t n_entries, cap_entries;
    struct host *hosts;
    size_t n_hosts, cap_hosts;
    uint32_t *slots;        /* of hosts by id, twice as many as cap_hosts; NONE = free */
    struct seg_span *spans; /* n_windows of each host */
    struct buf names;
    struct range *ranges;
    size_t n_ranges, cap_ranges;
    enum err bad; /* the first failure; everything after it is refused */
};

/* -- bytes -- */

static enum err flush(struct seg_writer *w)
{
    enum err e = ERR_OK;

    if (w->out.n > 0) {
        e = w->fio->write(w->fio->ctx, w->f, w->written, w->out.p, w->out.n);
        w->written += w->out.n;
        buf_reset(&w->out);
    }
    if (!e && w->written - w->synced >= SYNC_BYTES) {
        e = w->fio->sync(w->fio->ctx, w->f);
        w->synced = w->written;
    }
    return e;
}

static uint64_t position(const struct seg_writer *w)
{
    return w->written + w->out.n;
}

static enum err put(struct seg_writer *w, const void *p, size_t n)
{
    enum err e = ERR_OK;

    if (position(w) + n > FILE_MAX) {
        return ERR_FULL;
    }
    if (w->out.n + n > BUFFER_BYTES) {
        e = flush(w);
    }
    if (!e && n > BUFFER_BYTES) { /* not worth a copy */
        e = w->fio->write(w->fio->ctx, w->f, w->written, p, n);
        w->written += n;
    } else if (!e) {
        buf_put(&w->out, p, n);
        e = w->out.bad;
    }
    return e;
}

static enum err put_record(struct seg_writer *w, struct seg_key key, const void *p, size_t n)
{
    uint8_t head[SEG_RECORD_BYTES];
    enum err e;

    seg_format_record_put(head, key, p, n, w->head.seed);
    e = put(w, head, sizeof head);
    return e ? e : put(w, p, n);
}

/* -- creating -- */

static char *with(const char *path, const char *ending)
{
    size_t n = strlen(path) + strlen(ending) + 1;
    char *text = mem_alloc(n);

    if (text) {
        (void)snprintf(text, n, "%s%s", path, ending);
    }
    return text;
}

static enum err writer_names(struct seg_writer *w, const char *dir)
{
    char name[SEG_NAME_MAX];

    seg_name(name, &w->head.info);
    w->dir = mem_strdup(dir);
    w->path = os_path_join(dir, name);
    w->tmp = w->path ? with(w->path, ".tmp") : NULL;
    return w->dir && w->tmp ? ERR_OK : ERR_NOMEM;
}

static enum err writer_begin(struct seg_writer *w)
{
    enum err e = os_random(&w->head.seed, sizeof w->head.seed);

    if (e) {
        return e;
    }
    e = w->fio->create(w->fio->ctx, &w->f, w->tmp);
    if (e == ERR_EXISTS) { /* of a crash or a failure before */
        e = w->fio->remove(w->fio->ctx, w->tmp);
        e = e ? e : w->fio->create(w->fio->ctx, &w->f, w->tmp);
    }
    if (e) {
        return e;
    }
    seg_format_head_put(&w->out, &w->head);
    return w->out.bad;
}

static enum err complain(const struct seg_writer *w, enum err e, struct errmsg *why)
{
    if (e != ERR_NOSPACE && e != ERR_NOMEM && e != ERR_FULL && e != ERR_INVALID &&
        e != ERR_ACCESS && e != ERR_READONLY) {
        e = ERR_IO;
    }
    return errmsg_set(why, e, "cannot write %s: %s", w->tmp ? w->tmp : "a segment", err_text(e));
}

enum err seg_writer_create(struct seg_writer **out, const struct fio *fio, const char *dir,
                           const struct seg_info *info, const int64_t *windows_ns,
                           struct errmsg *why)
{
    struct seg_writer *w;
    enum err e;

    if (info->kind == 0 || info->kind >= SEG_KINDS || info->n_windows == 0 ||
        info->n_windows > SEG_WINDOWS_MAX) {
        return errmsg_set(why, ERR_INVALID, "no such segment");
    }
    w = mem_zalloc(sizeof *w);
    if (!w) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    w->fio = fio;
    w->head.info = *info;
    w->head.created_ns = os_utc_ns();
    memcpy(w->head.windows, windows_ns, info->n_windows * sizeof *windows_ns);
    buf_init(&w->out, BUFFER_BYTES);
    buf_init(&w->names, SEG_TABLE_MAX);
    e = writer_names(w, dir);
    if (!e) {
        e = writer_begin(w);
    }
    if (e) {
        e = complain(w, e, why);
        seg_writer_abort(w);
        return e;
    }
    *out = w;
    return ERR_OK;
}

/* -- hosts -- */

static uint32_t *slot_of(const struct seg_writer *w, const struct uuid *id)
{
    size_t mask = 2 * w->cap_hosts - 1;
    size_t i = (size_t)hash_bytes(id->b, sizeof id->b, w->head.seed) & mask;

    while (w->slots[i] != NONE && memcmp(w->hosts[w->slots[i]].id.b, id->b, sizeof id->b) != 0) {
        i = (i + 1) & mask;
    }
    return &w->slots[i];
}

static enum err grow_hosts(struct seg_writer *w)
{
    size_t cap = w->cap_hosts ? w->cap_hosts * 2 : 64;
    struct host *hosts = mem_realloc_array(w->hosts, cap, sizeof *hosts);
    struct seg_span *spans;
    uint32_t *slots;

    if (!hosts) {
        return ERR_NOMEM;
    }
    w->hosts = hosts;
    spans = mem_realloc_array(w->spans, cap, w->head.info.n_windows * sizeof *spans);
    if (!spans) {
        return ERR_NOMEM;
    }
    w->spans = spans;
    slots = mem_array(2 * cap, sizeof *slots);
    if (!slots) {
        return ERR_NOMEM;
    }
    mem_free(w->slots);
    w->slots = slots;
    w->cap_hosts = cap;
    memset(slots, 0xff, 2 * cap * sizeof *slots);
    for (size_t i = 0; i < w->n_hosts; i++) {
        *slot_of(w, &w->hosts[i].id) = (uint32_t)i;
    }
    return ERR_OK;
}

static enum err add_host(struct seg_writer *w, uint32_t *index, const struct uuid *id,
                         const char *name)
{
    size_t name_n = strlen(name);
    struct seg_span *spans;
    uint32_t *slot;
    enum err e = ERR_OK;

    if (w->n_hosts == SEG_HOSTS_MAX) {
        return ERR_FULL;
    }
    if (w->n_hosts == w->cap_hosts) {
        e = grow_hosts(w);
    }
    if (e) {
        return e;
    }
    slot = slot_of(w, id);
    if (*slot != NONE) {
        *index = *slot;
        return ERR_OK;
    }
    name_n = name_n < MODEL_HOST_NAME_MAX ? name_n : MODEL_HOST_NAME_MAX;
    w->hosts[w->n_hosts] = (struct host){*id, (uint8_t)name_n, w->names.n};
    buf_put(&w->names, name, name_n);
    if (w->names.bad) {
        return w->names.bad;
    }
    spans = w->spans + w->n_hosts * w->head.info.n_windows;
    for (unsigned i = 0; i < w->head.info.n_windows; i++) {
        spans[i] = (struct seg_span){INT64_MAX, INT64_MIN};
    }
    *slot = (uint32_t)w->n_hosts;
    *index = (uint32_t)w->n_hosts++;
    return ERR_OK;
}

static enum err put_host(struct seg_writer *w, uint32_t index, uint8_t window, int64_t t0_ns,
                         int64_t t1_ns)
{
    struct seg_span *span = &w->spans[index * (size_t)w->head.info.n_windows + window];
    const struct host *h = &w->hosts[index];
    uint8_t bytes[32 + MODEL_HOST_NAME_MAX + 1];
    struct buf b = {bytes, 0, sizeof bytes, sizeof bytes, ERR_OK};

    span->t0_ns = t0_ns < span->t0_ns ? t0_ns : span->t0_ns;
    span->t1_ns = t1_ns > span->t1_ns ? t1_ns : span->t1_ns;
    buf_put(&b, h->id.b, sizeof h->id.b);
    buf_put_u64le(&b, (uint64_t)t0_ns);
    buf_put_u64le(&b, (uint64_t)t1_ns);
    buf_put(&b, w->names.p + h->name, h->name_n);
    return put_record(w, (struct seg_key){SEG_PART_HOST, 0, window, index}, b.p, b.n);
}

enum err seg_writer_host(struct seg_writer *w, uint32_t *index, const struct uuid *host,
                         const char *name, uint8_t window, int64_t t0_ns, int64_t t1_ns)
{
    if (w->bad) {
        return w->bad;
    }
    if (window >= w->head.info.n_windows) {
        return ERR_INVALID;
    }
    w->bad = add_host(w, index, host, name);
    if (!w->bad) {
        w->bad = put_host(w, *index, window, t0_ns, t1_ns);
    }
    return w->bad;
}

/* -- ranges -- */

static enum err put_ranges(struct seg_writer *w, const struct uuid *host, uint64_t stream,
                           const struct seq_range *ranges, size_t n)
{
    struct buf b;
    enum err e;

    buf_init(&b, SEG_VALUE_MAX);
    buf_put(&b, host->b, sizeof host->b);
    buf_put_u64le(&b, stream);
    dedup_encode(&b, ranges, n);
    e = b.bad ? b.bad : put_record(w, (struct seg_key){SEG_PART_RANGES, 0, 0, 0}, b.p, b.n);
    buf_fini(&b);
    return e;
}

enum err seg_writer_ranges(struct seg_writer *w, const struct uuid *host, uint64_t stream,
                           const struct seq_range *ranges, size_t n)
{
    if (w->bad) {
        return w->bad;
    }
    w->bad = VEC_ROOM(&w->ranges, &w->cap_ranges, w->n_ranges + n, SEG_VALUES_MAX);
    if (w->bad) {
        return w->bad;
    }
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].last >= ranges[i].first) {
            w->ranges[w->n_ranges++] = (struct range){*host, stream, ranges[i]};
        }
    }
    w->bad = put_ranges(w, host, stream, ranges, n);
    return w->bad;
}

/* -- values -- */

static enum err add(struct seg_writer *w, struct seg_key key, const void *p, size_t n)
{
    enum err e = VEC_ROOM(&w->entries, &w->cap_entries, w->n_entries + 1, SEG_VALUES_MAX);

    if (e) {
        return e;
    }
    if (key.metric >= METRIC_PAGE && (key.part == SEG_PART_COLUMN || key.part == SEG_PART_SUM)) {
        w->head.wide = true;
    }
    w->entries[w->n_entries++] = (struct entry){seg_key_order(key), position(w), (uint32_t)n};
    return put_record(w, key, p, n);
}

enum err seg_writer_add(struct seg_writer *w, struct seg_key key, const void *p, size_t n)
{
    if (w->bad) {
        return w->bad;
    }
    if (key.part == 0 || key.part >= SEG_PART_HOST || key.window >= w->head.info.n_windows ||
        key.host >= w->n_hosts || n > SEG_VALUE_MAX) {
        return ERR_INVALID;
    }
    w->bad = add(w, key, p, n);
    return w->bad;
}

/* -- the end of the file -- */

static int by_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    return x->order < y->order ? -1 : x->order > y->order;
}

static int by_stream(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    int d = memcmp(x->host.b, y->host.b, sizeof x->host.b);

    if (d == 0 && x->stream != y->stream) {
        d = x->stream < y->stream ? -1 : 1;
    }
    return d ? d : x->r.first < y->r.first ? -1 : x->r.first > y->r.first;
}

static bool same_stream(const struct range *a, const struct range *b)
{
    return a->stream == b->stream && memcmp(a->host.b, b->host.b, sizeof a->host.b) == 0;
}

/* Sorted, those that touch or overlap joined. */
static void join_ranges(struct seg_writer *w)
{
    size_t kept = 0;

    if (w->n_ranges > 1) {
        qsort(w->ranges, w->n_ranges, sizeof *w->ranges, by_stream);
    }
    for (size_t i = 0; i < w->n_ranges; i++) {
        struct range *last = kept ? &w->ranges[kept - 1] : NULL;
        const struct range *r = &w->ranges[i];

        if (last && same_stream(last, r) &&
            (r->r.first <= last->r.last || r->r.first - 1 == last->r.last)) {
            last->r.last = r->r.last > last->r.last ? r->r.last : last->r.last;
        } else {
            w->ranges[kept++] = *r;
        }
    }
    w->n_ranges = kept;
}

/* A table is put together in memory and goes out with its checksum. */
static enum err put_table(struct seg_writer *w, struct buf *b, uint64_t *at, uint64_t *sum)
{
    enum err e = b->bad;

    if (!e) {
        *at = position(w);
        *sum = hash_bytes(b->p, b->n, w->head.seed);
        e = put(w, b->p, b->n);
    }
    buf_reset(b);
    return e;
}

static void collect_ranges(struct seg_writer *w, struct buf *b, struct seg_foot *f)
{
    join_ranges(w);
    for (size_t i = 0, end; i < w->n_ranges; i = end) {
        for (end = i + 1; end < w->n_ranges && same_stream(&w->ranges[i], &w->ranges[end]); end++) {
        }
        buf_put(b, w->ranges[i].host.b, sizeof w->ranges[i].host.b);
        buf_put_u64le(b, w->ranges[i].stream);
        buf_put_u32le(b, (uint32_t)(end - i));
        for (size_t k = i; k < end; k++) {
            buf_put_u64le(b, w->ranges[k].r.first);
            buf_put_u64le(b, w->ranges[k].r.last);
        }
        f->n_streams++;
    }
}

static void collect_hosts(const struct seg_writer *w, struct buf *b)
{
    unsigned n_windows = w->head.info.n_windows;

    for (size_t i = 0; i < w->n_hosts; i++) {
        const struct host *h = &w->hosts[i];

        buf_put(b, h->id.b, sizeof h->id.b);
        buf_put_u8(b, h->name_n);
        buf_put(b, w->names.p + h->name, h->name_n);
        for (unsigned k = 0; k < n_windows; k++) {
            buf_put_u64le(b, (uint64_t)w->spans[i * n_windows + k].t0_ns);
            buf_put_u64le(b, (uint64_t)w->spans[i * n_windows + k].t1_ns);
        }
    }
}

/* Writes the entries of one group and notes it in `groups`. */
static enum err put_group(struct seg_writer *w, size_t first, size_t end, struct buf *b,
                          struct buf *groups)
{
    uint64_t order = w->entries[first].order;
    enum err e;

    for (size_t i = first; i < end; i++) {
        buf_put_u32le(b, (uint32_t)w->entries[i].order);
        buf_put_u32le(b, w->entries[i].length);
        buf_put_u64le(b, w->entries[i].at);
    }
    buf_put_u8(groups, (uint8_t)(order >> 56));
    buf_put_u8(groups, (uint8_t)(order >> 48));
    buf_put_u8(groups, (uint8_t)(order >> 40));
    buf_put_u8(groups, 0);
    buf_put_u32le(groups, (uint32_t)(end - first));
    buf_put_u64le(groups, b->bad ? 0 : hash_bytes(b->p, b->n, w->head.seed));
    e = b->bad ? b->bad : put(w, b->p, b->n);
    buf_reset(b);
    return e;
}

static enum err put_directory(struct seg_writer *w, struct buf *b, struct buf *groups,
                              struct seg_foot *f)
{
    enum err e = ERR_OK;

    if (w->n_entries > 1) {
        qsort(w->entries, w->n_entries, sizeof *w->entries, by_order);
    }
    f->directory_at = position(w);
    f->n_entries = (uint32_t)w->n_entries;
    for (size_t i = 0, end; i < w->n_entries && !e; i = end) {
        for (end = i + 1;
             end < w->n_entries && w->entries[end].order >> 40 == w->entries[i].order >> 40;
             end++) {
            if (w->entries[end].order == w->entries[end - 1].order) {
                return ERR_INVALID; /* the same key twice */
            }
        }
        e = put_group(w, i, end, b, groups);
        f->n_groups++;
    }
    return e;
}

static enum err put_end(struct seg_writer *w, struct buf *b, struct buf *groups, uint64_t values)
{
    struct seg_foot f = {.values = values, .n_hosts = (uint32_t)w->n_hosts};
    enum err e;

    collect_ranges(w, b, &f);
    e = put_table(w, b, &f.ranges_at, &f.ranges_sum);
    if (!e) {
        e = put_directory(w, b, groups, &f);
    }
    if (!e) {
        collect_hosts(w, b);
        e = put_table(w, b, &f.hosts_at, &f.hosts_sum);
    }
    if (!e) {
        e = put_table(w, groups, &f.groups_at, &f.groups_sum);
    }
    if (!e) {
        seg_format_head_put(b, &w->head);
        seg_format_foot_put(b, &f);
        e = b->bad ? b->bad : put(w, b->p, b->n);
    }
    return e;
}

/* What was written first did not know yet what would come. */
static enum err put_head_anew(struct seg_writer *w)
{
    struct buf b;
    enum err e;

    buf_init(&b, SEG_HEAD_MAX);
    seg_format_head_put(&b, &w->head);
    e = b.bad ? b.bad : w->fio->write(w->fio->ctx, w->f, 0, b.p, b.n);
    buf_fini(&b);
    return e;
}

static enum err make_durable(struct seg_writer *w)
{
    const struct fio *fio = w->fio;
    enum err e = flush(w);

    if (!e && w->head.wide) {
        e = put_head_anew(w);
    }
    if (!e) {
        e = fio->sync(fio->ctx, w->f);
    }
    fio->close(fio->ctx, w->f);
    w->f = NULL;
    if (!e) {
        e = fio->rename(fio->ctx, w->tmp, w->path);
        w->renamed = !e;
    }
    return e ? e : fio->sync_dir(fio->ctx, w->dir);
}

enum err seg_writer_finish(struct seg_writer *w, uint64_t values, struct seg_info *info,
                           struct errmsg *why)
{
    enum err e = w->bad;
    struct buf b, groups;

    buf_init(&b, SEG_TABLE_MAX);
    buf_init(&groups, SEG_TABLE_MAX);
    if (!e) {
        e = put_end(w, &b, &groups, values);
    }
    buf_fini(&b);
    buf_fini(&groups);
    if (!e) {
        e = make_durable(w);
    }
    if (e) {
        e = complain(w, e, why);
        seg_writer_abort(w);
        return e;
    }
    *info = w->head.info;
    info->bytes = w->written;
    info->values = values;
    seg_format_span(info, w->spans, w->n_hosts * info->n_windows);
    w->renamed = false;
    mem_free(w->tmp); /* nothing to remove */
    w->tmp = NULL;
    seg_writer_abort(w);
    return ERR_OK;
}

void seg_writer_replaces(struct seg_writer *w)
{
    w->replaces = true;
}

void seg_writer_abort(struct seg_writer *w)
{
    if (!w) {
        return;
    }
    if (w->f) {
        w->fio->close(w->fio->ctx, w->f);
    }
    if (w->tmp && !(w->renamed && w->replaces)) { /* what stays is removed when the store opens */
        err_ignore(w->fio->remove(w->fio->ctx, w->renamed ? w->path : w->tmp));
    }
    buf_fini(&w->out);
    buf_fini(&w->names);
    mem_free(w->entries);
    mem_free(w->hosts);
    mem_free(w->slots);
    mem_free(w->spans);
    mem_free(w->ranges);
    mem_free(w->dir);
    mem_free(w->path);
    mem_free(w->tmp);
    mem_free(w);
}
