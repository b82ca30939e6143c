/* A damaged segment is written anew from what is sound in it, in one pass from its beginning: a
 * value's host stands before it. Header: the first or its copy at the end. Hosts and ranges: of the
 * end where that can be read, else those among the values. Of a value that the directory knows and
 * that is not sound an empty one is left, which no reader takes for what was there: what a repair
 * cannot save stays missing in answers, not forgotten. */
#include <stdlib.h>
#include <string.h>

#include "collector/store/segment/seg_impl.h"
#include "common/base/cur.h"
#include "common/base/mem.h"

#define UNKNOWN UINT32_MAX

/* A value that should be there. */
struct due {
    uint64_t at;
    struct seg_key key;
    bool kept;
};

struct salvage {
    const struct fio *fio;
    const char *dir;
    struct seg_file file;
    uint64_t bytes;
    struct seg_head head;
    struct seg *s;   /* when its end can be read; else NULL */
    bool has_ranges; /* they could be read there too */
    struct seg_writer *w;
    uint32_t *hosts; /* theirs in the new file by their index in the old one */
    size_t n_hosts;
    uint64_t kept, gaps;
    struct due *due; /* by place; as far as the directory can be read */
    size_t n_due;
};

/* -- the header -- */

static enum err copy_of_head(struct salvage *v)
{
    uint8_t p[SEG_HEAD_MAX];

    for (unsigned n = 1; n <= SEG_WINDOWS_MAX; n++) {
        size_t length = seg_head_bytes(n);

        if (v->bytes < length + SEG_FOOT_BYTES ||
            seg_file_read(&v->file, v->bytes - SEG_FOOT_BYTES - length, p, length) != ERR_OK) {
            return ERR_CORRUPT;
        }
        if (seg_head_parse(&v->head, p, length) == ERR_OK && v->head.info.n_windows == n) {
            return ERR_OK;
        }
    }
    return ERR_CORRUPT;
}

static enum err find_head(struct salvage *v)
{
    uint8_t p[SEG_HEAD_MAX];
    size_t n = v->bytes < sizeof p ? (size_t)v->bytes : sizeof p;
    enum err e = seg_file_read(&v->file, 0, p, n);

    if (!e) {
        e = seg_head_parse(&v->head, p, n);
    }
    return e && e != ERR_VERSION ? copy_of_head(v) : e;
}

/* Where the values end, as far as the footer can be read. */
static uint64_t end_of_values(const struct salvage *v, uint64_t *values)
{
    uint8_t p[SEG_FOOT_BYTES];
    struct seg_foot f;

    if (v->bytes > sizeof p &&
        seg_file_read((struct seg_file *)&v->file, v->bytes - sizeof p, p, sizeof p) == ERR_OK &&
        seg_foot_parse(&f, p, sizeof p, v->bytes - sizeof p, v->head.info.n_windows) == ERR_OK) {
        *values = f.values;
        return f.ranges_at;
    }
    return v->bytes;
}

/* -- hosts and ranges -- */

static enum err know_host(struct salvage *v, uint32_t old, uint32_t new)
{
    size_t n = v->n_hosts ? v->n_hosts : 64;
    uint32_t *grown;

    if (old >= SEG_HOSTS_MAX) {
        return ERR_CORRUPT;
    }
    while (n <= old) {
        n *= 2;
    }
    if (n > v->n_hosts) {
        grown = mem_realloc_array(v->hosts, n, sizeof *grown);
        if (!grown) {
            return ERR_NOMEM;
        }
        memset(grown + v->n_hosts, 0xff, (n - v->n_hosts) * sizeof *grown);
        v->hosts = grown;
        v->n_hosts = n;
    }
    v->hosts[old] = new;
    return ERR_OK;
}

static enum err add_ranges(void *ctx, const struct seqset_stream *st)
{
    struct salvage *v = ctx;

    return seg_writer_ranges(v->w, &st->host, st->stream, st->ranges, st->n_ranges);
}

/* From the end of the file. */
static enum err take_tables(struct salvage *v)
{
    enum err e = ERR_OK;

    for (size_t i = 0; v->s && i < seg_hosts(v->s) && !e; i++) {
        const struct seg_host *h = seg_host(v->s, i);

        for (uint8_t k = 0; k < v->head.info.n_windows && !e; k++) {
            uint32_t index;

            if (h->at[k].t1_ns >= h->at[k].t0_ns) {
                e = seg_writer_host(v->w, &index, &h->id, h->name, k, h->at[k].t0_ns,
                                    h->at[k].t1_ns);
                e = e ? e : know_host(v, (uint32_t)i, index);
            }
        }
    }
    if (v->s && !e) {
        e = seg_each_ranges(v->s, add_ranges, v);
        v->has_ranges = !e;
        e = e == ERR_CORRUPT || e == ERR_IO ? ERR_OK : e; /* those among the values remain */
    }
    return e;
}

static enum err take_host(struct salvage *v, const struct seg_record *r, const uint8_t *p)
{
    struct cur c = cur_make(p, r->length);
    const uint8_t *id = cur_bytes(&c, 16);
    int64_t t0 = (int64_t)cur_u64le(&c), t1 = (int64_t)cur_u64le(&c);
    char name[MODEL_HOST_NAME_MAX + 1] = "";
    struct uuid host;
    uint32_t index;
    enum err e;

    if (c.bad || cur_left(&c) >= sizeof name || r->key.window >= v->head.info.n_windows) {
        return ERR_CORRUPT;
    }
    memcpy(host.b, id, sizeof host.b);
    memcpy(name, c.p, cur_left(&c));
    e = seg_writer_host(v->w, &index, &host, name, r->key.window, t0, t1);
    return e ? e : know_host(v, r->key.host, index);
}

static enum err take_ranges(struct salvage *v, const struct seg_record *r, const uint8_t *p)
{
    struct cur c = cur_make(p, r->length);
    const uint8_t *id = cur_bytes(&c, 16);
    uint64_t stream = cur_u64le(&c);
    struct uuid host;
    enum err e = c.bad || cur_left(&c) % 16 ? ERR_CORRUPT : ERR_OK;

    if (!e) {
        memcpy(host.b, id, sizeof host.b);
    }
    while (!e && cur_left(&c) > 0) {
        struct seq_range range = {cur_u64le(&c), cur_u64le(&c)};

        e = seg_writer_ranges(v->w, &host, stream, &range, 1);
    }
    return e;
}

/* -- values -- */

static int by_place(const void *a, const void *b)
{
    const struct due *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

static enum err list_due(struct salvage *v)
{
    size_t n = v->s ? seg_values(v->s) : 0;
    enum err e = ERR_OK;

    v->due = mem_array(n + 1, sizeof *v->due);
    if (!v->due) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n && e != ERR_NOMEM; i++) {
        uint32_t length;
        struct due d = {.key = seg_key_at(v->s, i, &length)};
        struct seg_place place;

        e = d.key.part ? seg_find(v->s, d.key, &place) : ERR_CORRUPT;
        if (!e) {
            d.at = place.at;
            v->due[v->n_due++] = d;
        }
    }
    if (v->n_due > 1) {
        qsort(v->due, v->n_due, sizeof *v->due, by_place);
    }
    return e == ERR_NOMEM ? e : ERR_OK;
}

static void note_kept(struct salvage *v, uint64_t at)
{
    const struct due key = {.at = at};
    struct due *d = v->n_due ? bsearch(&key, v->due, v->n_due, sizeof *d, by_place) : NULL;

    if (d) {
        d->kept = true;
    }
}

/* An empty value for each that is lost. */
static enum err leave_marks(struct salvage *v)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < v->n_due && !e; i++) {
        struct seg_key key = v->due[i].key;

        if (!v->due[i].kept && key.host < v->n_hosts && v->hosts[key.host] != UNKNOWN) {
            key.host = v->hosts[key.host];
            e = seg_writer_add(v->w, key, "", 0);
            e = e == ERR_INVALID ? ERR_OK : e;
        }
    }
    return e;
}

static enum err take(struct salvage *v, struct seg_record *r, const uint8_t *p)
{
    bool known = r->key.host < v->n_hosts && v->hosts[r->key.host] != UNKNOWN;
    enum err e;

    if (r->key.part == SEG_PART_HOST) {
        return v->s && known ? ERR_OK : take_host(v, r, p);
    }
    if (r->key.part == SEG_PART_RANGES) {
        return v->has_ranges ? ERR_OK : take_ranges(v, r, p);
    }
    if (!known) {
        return ERR_CORRUPT;
    }
    r->key.host = v->hosts[r->key.host];
    e = seg_writer_add(v->w, r->key, p, r->length);
    v->kept += !e;
    return e == ERR_INVALID ? ERR_CORRUPT : e;
}

static enum err take_all(struct salvage *v, uint64_t end)
{
    struct seg_scan sc;
    enum err e = ERR_OK;

    seg_scan_init(&sc, &v->file, v->head.seed, seg_head_bytes(v->head.info.n_windows), end);
    while (!e && sc.at < sc.end) {
        struct seg_record r;
        const uint8_t *p;
        bool damaged = false;

        e = seg_scan_record(&sc, &r, &p);
        while (e == ERR_CORRUPT) {
            damaged = true;
            e = seg_scan_resync(&sc);
            e = e ? e : seg_scan_record(&sc, &r, &p);
        }
        v->gaps += damaged;
        if (!e) {
            uint64_t at = sc.at - r.length - SEG_RECORD_BYTES;

            e = take(v, &r, p);
            if (!e) {
                note_kept(v, at);
            }
            v->gaps += e == ERR_CORRUPT;
            e = e == ERR_CORRUPT ? ERR_OK : e;
        }
    }
    seg_scan_fini(&sc);
    return e == ERR_END ? ERR_OK : e;
}

static enum err write_anew(struct salvage *v, struct seg_info *info, struct errmsg *why)
{
    uint64_t values = info->values;
    uint64_t end = end_of_values(v, &values);
    enum err e = seg_writer_create(&v->w, v->fio, v->dir, &v->head.info, v->head.windows, why);

    if (e) {
        return e;
    }
    seg_writer_replaces(v->w);
    e = take_tables(v);
    e = e ? e : list_due(v);
    if (!e) {
        e = take_all(v, end);
    }
    e = e ? e : leave_marks(v);
    if (!e && v->kept == 0 && v->gaps > 0) {
        e = ERR_CORRUPT;
    }
    if (e) {
        seg_writer_abort(v->w);
        return errmsg_set(why, e, "nothing was saved: %s", err_text(e));
    }
    return seg_writer_finish(v->w, values, info, why);
}

enum err seg_name_own(char out[SEG_NAME_MAX], const struct fio *fio, const char *dir,
                      const char *file)
{
    struct salvage v = {.fio = fio, .dir = dir};
    enum err e = seg_file_open(&v.file, fio, NULL, dir, file);

    if (!e) {
        e = seg_file_size(&v.file, &v.bytes);
    }
    if (!e) {
        e = find_head(&v);
    }
    if (!e) {
        seg_name(out, &v.head.info);
    }
    seg_file_close(&v.file);
    return e;
}

enum err seg_salvage(const struct fio *fio, const char *dir, const char *file,
                     struct seg_info *info, uint64_t *kept, uint64_t *lost, struct errmsg *why)
{
    struct salvage v = {.fio = fio, .dir = dir};
    char own[SEG_NAME_MAX];
    enum err e = seg_file_open(&v.file, fio, NULL, dir, file);

    if (!e) {
        e = seg_file_size(&v.file, &v.bytes);
    }
    if (!e) {
        e = find_head(&v);
    }
    if (!e) { /* what is written goes by the header: it would take the place of another */
        seg_name(own, &v.head.info);
        e = strcmp(own, file) == 0 || !seg_name_is(file) ? ERR_OK : ERR_CORRUPT;
    }
    if (e) {
        errmsg_set(why, e, "cannot read the header of %s/%s: %s", dir, file, err_text(e));
    } else {
        e = seg_open_name(&v.s, fio, NULL, dir, file, NULL);
        e = e == ERR_NOMEM ? e : write_anew(&v, info, why);
    }
    if (!e) {
        *kept = v.kept;
        *lost = v.s ? seg_values(v.s) - v.kept : v.gaps;
    }
    seg_close(v.s);
    seg_file_close(&v.file);
    mem_free(v.hosts);
    mem_free(v.due);
    return e;
}
