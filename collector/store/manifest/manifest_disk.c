/* The manifest on disk: one file, `manifest`, header and records, everything twice: one damaged
 * copy of anything loses nothing.
 *
 * A change is added to the end and synced. Once the file is several times as long as what it says
 * it is written anew, as manifest.tmp, synced and renamed: first a checkpoint of all before, then
 * the change as a record of its own.
 *
 * Behind the records there is room, written as zeros: what retention wants to drop can be noted
 * even when somebody else has filled the disk.
 *
 * Crashes. Only the last record can be torn: it was not acknowledged, and whoever asked for it
 * never went on, so what it would have added is a leftover and what it would have dropped is still
 * there. After a failed write or sync nobody knows which of it a later crash will show: the file is
 * cut back as well as that goes, never added to again, and written anew with the next change. If
 * the record survives all that, its caller has removed the added files meanwhile; hence a last
 * record some of whose added files are missing did not happen. A segment on disk that nothing names
 * is a leftover of one of these and is removed; but without any manifest segments are never
 * removed: an empty store makes its manifest before its first segment. */
#include "collector/store/manifest/manifest_impl.h"

#include <stdlib.h>
#include <string.h>

#include "collector/store/manifest/manifest_log.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

#define COMPACT_SLACK (1u << 20)
#define ROOM_BYTES    (64u << 10) /* zeros behind the records */
#define ROOM_LEAST    (16u << 10)

/* -- the directory -- */

/* Names of segments and of unfinished files. */
struct listing {
    struct manifest *m;
    size_t n, cap;
    char (*names)[SEG_NAME_MAX]; /* sorted */
};

static enum err listing_add(struct listing *l, const char *name)
{
    enum err e = VEC_ROOM(&l->names, &l->cap, l->n + 1, (size_t)4 * MANIFEST_SEGMENTS_MAX);

    if (!e) {
        memcpy(l->names[l->n++], name, strlen(name) + 1);
    }
    return e;
}

static bool is_unfinished(const char *name)
{
    size_t n = strlen(name);

    return strcmp(name, MANIFEST_FILE ".tmp") == 0 ||
           (n > 8 && strcmp(name + n - 8, ".seg.tmp") == 0);
}

static enum err remove_file(struct manifest *m, const char *name)
{
    char *path = os_path_join(m->dir, name);
    enum err e = path ? m->conf.fio->remove(m->conf.fio->ctx, path) : ERR_NOMEM;

    mem_free(path);
    return e;
}

static enum err list_one(void *ctx, const char *name)
{
    struct listing *l = ctx;

    if (is_unfinished(name) && l->m->read_only) {
        return ERR_OK;
    }
    if (is_unfinished(name)) {
        l->m->stats.leftovers += remove_file(l->m, name) == ERR_OK;
        return ERR_OK;
    }
    return seg_name_is(name) ? listing_add(l, name) : ERR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static char *listing_find(const struct listing *l, const struct seg_info *info)
{
    char name[SEG_NAME_MAX];

    seg_name(name, info);
    return l->n ? bsearch(name, l->names, l->n, sizeof *l->names, by_name) : NULL;
}

static bool is_there(void *ctx, const struct seg_info *info)
{
    return listing_find(ctx, info) != NULL;
}

/* -- opening -- */

/* Leaves out of *loaded what has no file, marks the names it uses, removes the other files. */
static enum err settle(struct manifest *m, struct listing *l, struct manifest_loaded *loaded)
{
    bool *used = mem_array(l->n + 1, sizeof *used);
    size_t kept = 0;

    if (!used) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < loaded->n; i++) {
        char *name = listing_find(l, &loaded->segments[i]);

        if (name) {
            used[(size_t)(name - l->names[0]) / SEG_NAME_MAX] = true;
            loaded->segments[kept++] = loaded->segments[i];
        } else {
            m->stats.missing++;
        }
    }
    loaded->n = kept;
    m->disk.rewrite = m->disk.rewrite || m->stats.missing > 0;
    for (size_t i = 0; i < l->n && !m->read_only; i++) {
        if (!used[i]) {
            m->stats.leftovers += remove_file(m, l->names[i]) == ERR_OK;
        }
    }
    mem_free(used);
    return ERR_OK;
}

/* Numbers in names of leftovers count too: one that cannot be removed must not be met again. */
static uint64_t number_of(const char *name)
{
    const char *last = strrchr(name, '-');
    uint64_t v = 0;

    for (const char *p = last ? last + 1 : ""; *p >= '0' && *p <= '9' && v < UINT64_MAX / 10; p++) {
        v = v * 10 + (uint64_t)(*p - '0');
    }
    return v < UINT64_MAX / 10 ? v : 0;
}

static enum err read_file(struct manifest *m, uint8_t **p, size_t *n)
{
    const struct fio *fio = m->conf.fio;
    uint64_t bytes = 0;
    enum err e = fio->size(fio->ctx, m->disk.f, &bytes);

    if (!e && bytes > MANIFEST_BYTES_MAX) {
        e = ERR_FULL;
    }
    if (e) {
        return e;
    }
    *p = mem_alloc((size_t)bytes);
    if (!*p) {
        return ERR_NOMEM;
    }
    e = fio->read(fio->ctx, m->disk.f, 0, *p, (size_t)bytes, n);
    if (e) {
        mem_free(*p);
        *p = NULL;
    }
    return e;
}

/* What is not zero behind the last record. */
static uint64_t torn_bytes(const uint8_t *p, uint64_t end, size_t n)
{
    while (n > end && p[n - 1] == 0) {
        n--;
    }
    return n - end;
}

/* The torn record is made room again. */
static enum err clear_end(struct manifest *m)
{
    const struct fio *fio = m->conf.fio;
    size_t n = (size_t)(m->disk.room - m->disk.bytes);
    uint8_t *zeros = mem_zalloc(n);
    enum err e = zeros ? fio->write(fio->ctx, m->disk.f, m->disk.bytes, zeros, n) : ERR_NOMEM;

    mem_free(zeros);
    return e ? e : fio->sync(fio->ctx, m->disk.f);
}

static enum err load(struct manifest *m, struct manifest_loaded *loaded, struct listing *l,
                     struct errmsg *why)
{
    uint8_t *p = NULL;
    size_t n = 0;
    enum err e = read_file(m, &p, &n);

    if (!e) {
        e = manifest_load(loaded, p, n, m->read_only ? NULL : is_there, l);
    }
    if (!e) {
        uint64_t torn = torn_bytes(p, loaded->end, n);

        m->disk.bytes = loaded->end;
        m->disk.room = n;
        m->disk.compact = loaded->end; /* as far as is known; only decides when it is made anew */
        m->disk.seed = loaded->seed;
        m->disk.seq = loaded->seq;
        m->disk.rewrite = loaded->damaged || loaded->undone || loaded->single ||
                          (torn && !m->read_only && clear_end(m) != ERR_OK);
        m->stats.torn_bytes = torn;
        m->stats.damaged_records = loaded->damaged;
    } else if (e == ERR_VERSION) {
        errmsg_set(why, e, "%s/%s was written by a newer version of the collector: use that one",
                   m->dir, MANIFEST_FILE);
    } else if (e == ERR_CORRUPT) {
        errmsg_set(why, e,
                   "%s/%s is damaged: 'procfleet-collector store check --repair' makes it anew "
                   "from the segments",
                   m->dir, MANIFEST_FILE);
    }
    mem_free(p);
    return e;
}

static enum err open_file(struct manifest *m, struct fio_file **f)
{
    char *path = os_path_join(m->dir, MANIFEST_FILE);
    enum err e = path ? m->conf.fio->open(m->conf.fio->ctx, f, path) : ERR_NOMEM;

    mem_free(path);
    return e;
}

/* The first opening: there is no file. */
static enum err begin(struct manifest *m, const struct listing *l, struct manifest_loaded *loaded,
                      struct errmsg *why)
{
    enum err e;

    if (l->n > 0) {
        return errmsg_set(why, ERR_CORRUPT,
                          "%s has segments but no manifest: 'procfleet-collector store check "
                          "--repair' makes it anew from them",
                          m->dir);
    }
    atomic_store(&m->next_number, 1);
    e = m->read_only ? ERR_OK : manifest_disk_replace(m, NULL, 0, why);
    loaded->next_number = 1;
    return e;
}

static enum err read_dir(struct manifest *m, struct listing *l)
{
    enum err e = os_list_dir(m->dir, list_one, l);

    if (!e && l->n > 0) {
        qsort(l->names, l->n, sizeof *l->names, by_name);
    }
    return e;
}

/* Whoever only reads may do so beside the owner. What is added meanwhile has its file before it is
 * in the manifest, what is dropped loses it afterwards: so the directory is read last. */
static enum err read_both(struct manifest *m, struct manifest_loaded *loaded, struct listing *l,
                          struct errmsg *why)
{
    bool late = m->read_only;
    enum err e = late ? ERR_OK : read_dir(m, l);

    if (!e) {
        e = open_file(m, &m->disk.f);
    }
    if (e == ERR_NOTFOUND) {
        e = late ? read_dir(m, l) : ERR_OK;
        return e ? e : begin(m, l, loaded, why);
    }
    if (!e) {
        e = load(m, loaded, l, why);
    }
    return !e && late ? read_dir(m, l) : e;
}

enum err manifest_disk_open(struct manifest *m, struct seg_info **segments, size_t *n,
                            struct errmsg *why)
{
    struct manifest_loaded loaded = {0};
    struct listing l = {.m = m};
    uint64_t next;
    enum err e = read_both(m, &loaded, &l, why);

    if (!e) {
        e = settle(m, &l, &loaded);
    }
    next = loaded.next_number;
    for (size_t i = 0; i < l.n; i++) {
        uint64_t number = number_of(l.names[i]);

        next = number >= next ? number + 1 : next;
    }
    mem_free(l.names);
    if (e) {
        mem_free(loaded.segments);
        if (why && !why->text[0]) {
            errmsg_set(why, e, "cannot read the list of segments in %s: %s", m->dir, err_text(e));
        }
        return e;
    }
    atomic_store(&m->next_number, next);
    *segments = loaded.segments;
    *n = loaded.n;
    return ERR_OK;
}

void manifest_disk_close(struct manifest *m)
{
    if (m->disk.f) {
        m->conf.fio->close(m->conf.fio->ctx, m->disk.f);
        m->disk.f = NULL;
    }
}

/* -- changing -- */

static void put_room(struct buf *b)
{
    uint8_t *p = buf_grow(b, ROOM_BYTES);

    if (p) {
        memset(p, 0, ROOM_BYTES);
    }
}

/* The records, and room behind them if there is any; b becomes as long as what was written. */
static enum err write_with_room(struct manifest *m, struct fio_file *f, struct buf *b)
{
    const struct fio *fio = m->conf.fio;
    size_t n = b->n;

    put_room(b);
    if (b->bad || fio->write(fio->ctx, f, 0, b->p, b->n) != ERR_OK) {
        b->n = n;
        b->bad = ERR_OK;
        err_ignore(fio->truncate(fio->ctx, f, 0));
        return fio->write(fio->ctx, f, 0, b->p, b->n);
    }
    return ERR_OK;
}

/* Writes b as a new file, durable under its temporary name. */
static enum err write_new(struct manifest *m, const char *path, struct buf *b,
                          struct fio_file **out)
{
    const struct fio *fio = m->conf.fio;
    struct fio_file *f;
    enum err e;

    err_ignore(fio->remove(fio->ctx, path)); /* of a failure before */
    e = fio->create(fio->ctx, &f, path);
    if (e) {
        return e;
    }
    e = write_with_room(m, f, b);
    if (!e) {
        e = fio->sync(fio->ctx, f);
    }
    if (e) {
        fio->close(fio->ctx, f);
        err_ignore(fio->remove(fio->ctx, path));
        return e;
    }
    *out = f;
    return ERR_OK;
}

/* The new file takes the old one's place; *doubt: it is not known which of them a crash shows. */
static enum err put_in_place(struct manifest *m, struct buf *b, struct fio_file **f, bool *doubt)
{
    const struct fio *fio = m->conf.fio;
    char *from = os_path_join(m->dir, MANIFEST_FILE ".tmp");
    char *to = os_path_join(m->dir, MANIFEST_FILE);
    enum err e = from && to ? write_new(m, from, b, f) : ERR_NOMEM;

    if (!e) {
        e = fio->rename(fio->ctx, from, to);
        *doubt = !e;
        if (!e) {
            e = fio->sync_dir(fio->ctx, m->dir);
        }
        if (e) {
            fio->close(fio->ctx, *f);
            err_ignore(fio->remove(fio->ctx, from));
        }
    }
    mem_free(from);
    mem_free(to);
    return e;
}

static enum err failed(const struct manifest *m, enum err e, struct errmsg *why)
{
    if (e != ERR_NOSPACE && e != ERR_NOMEM && e != ERR_FULL && e != ERR_ACCESS &&
        e != ERR_READONLY) {
        e = ERR_IO;
    }
    return errmsg_set(why, e, "cannot write %s/%s: %s", m->dir, MANIFEST_FILE, err_text(e));
}

/* A file with a checkpoint of `all`, and behind it the change if there is one. */
static enum err write_anew(struct manifest *m, const struct seg_info *all, size_t n,
                           const struct manifest_record *change, struct errmsg *why)
{
    struct manifest_record r = {.checkpoint = true, .seq = m->disk.seq, .add = all, .n_add = n};
    struct fio_file *f = NULL;
    bool doubt = false;
    uint64_t seed;
    size_t compact, end;
    struct buf b;
    enum err e = os_random(&seed, sizeof seed);

    if (e) {
        return failed(m, e, why);
    }
    buf_init(&b, MANIFEST_BYTES_MAX);
    r.next_number = atomic_load(&m->next_number);
    manifest_header_put(&b, seed);
    manifest_record_put(&b, &r, seed);
    compact = b.n;
    if (change) {
        manifest_record_put(&b, change, seed);
    }
    end = b.n;
    e = b.bad ? b.bad : put_in_place(m, &b, &f, &doubt);
    if (!e) {
        manifest_disk_close(m);
        m->disk = (struct manifest_disk){.f = f,
                                         .bytes = end,
                                         .room = b.n,
                                         .compact = compact,
                                         .seed = seed,
                                         .seq = m->disk.seq};
    } else if (doubt) {
        m->disk.rewrite = true;
    }
    buf_fini(&b);
    return e ? failed(m, e, why) : ERR_OK;
}

enum err manifest_disk_replace(struct manifest *m, const struct seg_info *all, size_t n,
                               struct errmsg *why)
{
    return write_anew(m, all, n, NULL, why);
}

/* Without room, for which there is time as long as some is left, only this record is written. */
static enum err write_end(struct manifest *m, struct buf *b)
{
    const struct fio *fio = m->conf.fio;
    struct manifest_disk *d = &m->disk;
    size_t n = b->n;
    enum err e = ERR_FULL;

    if (d->bytes + n + ROOM_LEAST > d->room) {
        put_room(b);
        e = b->bad ? b->bad : fio->write(fio->ctx, d->f, d->bytes, b->p, b->n);
    }
    if (!e) {
        d->room = d->bytes + b->n;
    } else {
        if (e != ERR_FULL) {
            err_ignore(fio->truncate(fio->ctx, d->f, d->room));
        }
        e = fio->write(fio->ctx, d->f, d->bytes, b->p, n);
        d->room = d->bytes + n > d->room ? d->bytes + n : d->room;
    }
    b->n = n;
    return e ? e : fio->sync(fio->ctx, d->f);
}

static enum err append(struct manifest *m, const struct manifest_record *r, struct errmsg *why)
{
    const struct fio *fio = m->conf.fio;
    struct buf b;
    enum err e;

    buf_init(&b, MANIFEST_BYTES_MAX);
    manifest_record_put(&b, r, m->disk.seed);
    e = b.bad;
    if (!e) {
        e = write_end(m, &b);
        if (e) {
            m->disk.rewrite = true;
            err_ignore(fio->truncate(fio->ctx, m->disk.f, m->disk.bytes));
        }
    }
    if (!e) {
        m->disk.bytes += b.n;
    }
    buf_fini(&b);
    return e ? failed(m, e, why) : ERR_OK;
}

static enum err change_anew(struct manifest *m, const struct manifest_set *before,
                            const struct manifest_record *r, struct errmsg *why)
{
    struct seg_info *all = mem_array(before->n + 1, sizeof *all);
    enum err e;

    if (!all) {
        return failed(m, ERR_NOMEM, why);
    }
    for (size_t i = 0; i < before->n; i++) {
        all[i] = before->items[i].info;
    }
    e = write_anew(m, all, before->n, r, why);
    mem_free(all);
    return e;
}

enum err manifest_disk_change(struct manifest *m, const struct manifest_set *before,
                              const struct seg_info *add, size_t n_add, const uint64_t *drop,
                              size_t n_drop, struct errmsg *why)
{
    struct manifest_record r = {.seq = m->disk.seq + 1,
                                .next_number = atomic_load(&m->next_number),
                                .add = add,
                                .n_add = n_add,
                                .drop = drop,
                                .n_drop = n_drop};
    bool must = m->disk.rewrite;
    enum err e = ERR_FULL;

    if (must || m->disk.bytes >= 4 * m->disk.compact + COMPACT_SLACK) {
        e = change_anew(m, before, &r, why);
    }
    if (e && !must && !m->disk.rewrite) { /* as a rule; or there is no room for a new file */
        e = append(m, &r, why);
    }
    if (!e) {
        m->disk.seq++;
    }
    return e;
}
