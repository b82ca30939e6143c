#include "collector/store/segment/seg_scan.h"

#include <stdlib.h>
#include <string.h>

#include "collector/store/segment/seg_write.h"
#include "common/base/cur.h"
#include "common/base/mem.h"

/* The values of a file one after another, past damage. */
struct seg_scan {
    struct seg_file *file;
    uint64_t seed;
    uint64_t at, end; /* at: of the next record */
    uint64_t base;    /* of p[0] */
    uint8_t *p;
    size_t n, cap;
};

#define WINDOW_BYTES (1u << 20)
#define SECTOR       4096u /* skipped when it cannot be read */

static const uint8_t magic[2] = {'P', 'V'};

static void seg_scan_init(struct seg_scan *sc, struct seg_file *file, uint64_t seed, uint64_t begin,
                          uint64_t end)
{
    *sc = (struct seg_scan){.file = file, .seed = seed, .at = begin, .end = end};
}

static void seg_scan_fini(struct seg_scan *sc)
{
    mem_free(sc->p);
    sc->p = NULL;
}

static enum err make_room(struct seg_scan *sc, size_t want)
{
    size_t cap = want > WINDOW_BYTES ? want : WINDOW_BYTES;
    uint8_t *grown;

    if (cap <= sc->cap) {
        return ERR_OK;
    }
    grown = mem_realloc_array(sc->p, cap, 1);
    if (!grown) {
        return ERR_NOMEM;
    }
    sc->p = grown;
    sc->cap = cap;
    return ERR_OK;
}

/* n bytes from `at` on into the window; beyond a bad sector only as few as must be. */
static enum err scan_fill(struct seg_scan *sc, uint64_t at, size_t want)
{
    uint64_t left = sc->end - at;
    size_t n = left < sc->cap ? (size_t)left : sc->cap;
    enum err e = seg_file_read(sc->file, at, sc->p, n);

    if (e && e != ERR_NOMEM && want < n) {
        n = want;
        e = seg_file_read(sc->file, at, sc->p, n);
    }
    sc->base = at;
    sc->n = e ? 0 : n;
    return e == ERR_NOMEM || !e ? e : ERR_CORRUPT;
}

static enum err scan_need(struct seg_scan *sc, uint64_t at, size_t want, const uint8_t **p)
{
    enum err e = ERR_OK;

    if (at > sc->end || sc->end - at < want) {
        return ERR_CORRUPT;
    }
    if (at < sc->base || at + want > sc->base + sc->n) {
        e = make_room(sc, want);
        e = e ? e : scan_fill(sc, at, want);
    }
    if (!e) {
        *p = sc->p + (at - sc->base);
    }
    return e;
}

/* The record at sc->at; *p is its value, valid until the next call, and sc->at is behind it.
 * Errors: ERR_CORRUPT (not a sound record, or unreadable; sc->at stays), ERR_NOMEM */
static enum err seg_scan_record(struct seg_scan *sc, struct seg_record *r, const uint8_t **p)
{
    const uint8_t *at;
    enum err e = scan_need(sc, sc->at, SEG_RECORD_BYTES, &at);

    if (!e && !seg_format_record_parse(r, at, SEG_RECORD_BYTES)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        e = scan_need(sc, sc->at, SEG_RECORD_BYTES + (size_t)r->length, &at);
    }
    if (!e && !seg_format_record_sound(r, at, sc->seed)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *p = at + SEG_RECORD_BYTES;
        sc->at += SEG_RECORD_BYTES + (uint64_t)r->length;
    }
    return e;
}

/* Moves sc->at forward to what may be the next record; ERR_END: none. */
static enum err seg_scan_resync(struct seg_scan *sc)
{
    sc->at++;
    while (sc->end > sc->at && sc->end - sc->at >= SEG_RECORD_BYTES) {
        const uint8_t *p, *hit;
        size_t n;
        enum err e = scan_need(sc, sc->at, SEG_RECORD_BYTES, &p);

        if (e == ERR_CORRUPT) { /* unreadable there */
            sc->at += SECTOR - sc->at % SECTOR;
            continue;
        }
        if (e) {
            return e;
        }
        n = sc->n - (size_t)(sc->at - sc->base);
        hit = memmem(p, n, magic, sizeof magic);
        if (hit) {
            sc->at += (uint64_t)(hit - p);
            return ERR_OK;
        }
        sc->at += n - 1;
    }
    return ERR_END;
}

struct known {
    uint64_t at;
    uint64_t order; /* of its key */
};

static int by_at(const void *a, const void *b)
{
    const struct known *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

/* What the directory says, by place; groups that cannot be read are counted as damaged. */
static enum err verify_collect(const struct seg *s, struct known *known, size_t *n,
                               uint64_t *damaged)
{
    for (uint32_t i = 0; i < s->foot.n_groups; i++) {
        const struct seg_group *g = &s->groups[i];
        enum err e = seg_groups_load(s, i, i + 1u);
        const uint8_t *p = atomic_load(&g->entries);

        if (e == ERR_NOMEM) {
            return e;
        }
        if (!p) {
            *damaged += g->count;
            continue;
        }
        for (uint32_t k = 0; k < g->count; k++, p += SEG_ENTRY_BYTES) {
            struct seg_key key = {g->part, g->metric, g->window, cur_at32le(p)};

            known[(*n)++] = (struct known){cur_at64le(p + 8), seg_key_order(key)};
        }
    }
    if (*n > 1) {
        qsort(known, *n, sizeof *known, by_at);
    }
    return ERR_OK;
}

/* Goes through the file record by record; what the directory knows is looked for in its place. */
static enum err verify_scan(const struct seg *s, const struct known *known, size_t n,
                            uint64_t *damaged)
{
    struct seg_scan sc;
    size_t i = 0;
    enum err e = ERR_OK;

    seg_scan_init(&sc, s->file, s->head.seed, seg_format_head_bytes(s->head.info.n_windows),
                  s->end);
    while (sc.at < sc.end && e != ERR_NOMEM) {
        struct seg_record r;
        uint64_t at = sc.at;
        const uint8_t *p;

        e = seg_scan_record(&sc, &r, &p);
        while (i < n && known[i].at < at) { /* inside another */
            i++;
            (*damaged)++;
        }
        if (e || (i < n && known[i].at == at && known[i].order != seg_key_order(r.key))) {
            (*damaged)++;
        }
        i += i < n && known[i].at == at;
        if (e) {
            sc.at = i < n ? known[i].at : sc.end;
        }
    }
    seg_scan_fini(&sc);
    return e == ERR_NOMEM ? e : ERR_OK;
}

static enum err verify_nothing(void *ctx, const struct dedup_stream *st)
{
    (void)ctx;
    (void)st;
    return ERR_OK;
}

enum err seg_scan_verify(const struct seg *s, uint64_t *values, uint64_t *damaged)
{
    struct known *known = mem_array(s->foot.n_entries, sizeof *known);
    uint64_t bad = 0;
    size_t n = 0;
    enum err e = known ? verify_collect(s, known, &n, &bad) : ERR_NOMEM;

    if (!e) {
        e = verify_scan(s, known, n, &bad);
    }
    mem_free(known);
    if (!e) {
        e = seg_each_ranges(s, verify_nothing, NULL);
        bad += e && e != ERR_NOMEM;
        e = e == ERR_NOMEM ? e : ERR_OK;
    }
    if (!e) {
        *values = s->foot.n_entries;
        *damaged = bad;
    }
    return e;
}

/* A damaged segment is written anew from what is sound in it, in one pass from its beginning: a
 * value's host stands before it. Header: the first or its copy at the end. Hosts and ranges: of the
 * end where that can be read, else those among the values. Of a value that the directory knows and
 * that is not sound an empty one is left, which no reader takes for what was there: what a repair
 * cannot save stays missing in answers, not forgotten. */

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
        size_t length = seg_format_head_bytes(n);

        if (v->bytes < length + SEG_FOOT_BYTES ||
            seg_file_read(&v->file, v->bytes - SEG_FOOT_BYTES - length, p, length) != ERR_OK) {
            return ERR_CORRUPT;
        }
        if (seg_format_head_parse(&v->head, p, length) == ERR_OK && v->head.info.n_windows == n) {
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
        e = seg_format_head_parse(&v->head, p, n);
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
        seg_format_foot_parse(&f, p, sizeof p, v->bytes - sizeof p, v->head.info.n_windows) ==
            ERR_OK) {
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

static enum err add_ranges(void *ctx, const struct dedup_stream *st)
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

static enum err salvage_take(struct salvage *v, struct seg_record *r, const uint8_t *p)
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

    seg_scan_init(&sc, &v->file, v->head.seed, seg_format_head_bytes(v->head.info.n_windows), end);
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

            e = salvage_take(v, &r, p);
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

enum err seg_scan_name(char out[SEG_NAME_MAX], const struct fio *fio, const char *dir,
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

enum err seg_scan_salvage(const struct fio *fio, const char *dir, const char *file,
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
