/* The manifest on disk: one file, `manifest`, header and records, everything twice: one damaged
 * copy of anything loses nothing.
 *
 * A change is added to the end and synced. Once the file is several times as long as what it says
 * it is written anew, as manifest.tmp, synced and renamed: first a checkpoint of all before, then
 * the change as a record of its own.
 *
 * Behind the records there is room, written as zeros: what retention wants to drop can be noted
 * even when another program has filled the disk.
 *
 * Crashes. Only the last record can be torn: it was not acknowledged, and the caller
 * never went on, so what it would have added is a leftover and what it would have dropped is still
 * there. After a failed write or sync it is unknown which of it a later crash will show: the file
 * is cut back as well as that goes, never added to again, and written anew with the next change. If
 * the record survives all that, its caller has removed the added files meanwhile; hence a last
 * record some of whose added files are missing did not happen. A segment on disk that nothing names
 * is a leftover of one of these and is removed; but without any manifest segments are never
 * removed: an empty store makes its manifest before its first segment. */
#include "collector/store/manifest/manifest_disk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define MANIFEST_FILE "manifest"

#define COMPACT_SLACK (1u << 20)
#define ROOM_BYTES    (64u << 10) /* zeros behind the records */
#define ROOM_LEAST    (16u << 10)

/* -- the directory -- */

/* Names of segments and of unfinished files. */
struct listing {
    struct manifest_disk *d;
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

static enum err remove_file(struct manifest_disk *d, const char *name)
{
    char *path = os_path_join(d->dir, name);
    enum err e = path ? d->fio->remove(d->fio->ctx, path) : ERR_NOMEM;

    mem_free(path);
    return e;
}

static enum err list_one(void *ctx, const char *name)
{
    struct listing *l = ctx;

    if (is_unfinished(name) && l->d->read_only) {
        return ERR_OK;
    }
    if (is_unfinished(name)) {
        l->d->found.leftovers += remove_file(l->d, name) == ERR_OK;
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
static enum err settle(struct manifest_disk *d, struct listing *l, struct manifest_loaded *loaded)
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
            d->found.missing++;
        }
    }
    loaded->n = kept;
    d->rewrite = d->rewrite || d->found.missing > 0;
    for (size_t i = 0; i < l->n && !d->read_only; i++) {
        if (!used[i]) {
            d->found.leftovers += remove_file(d, l->names[i]) == ERR_OK;
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

static enum err read_file(struct manifest_disk *d, uint8_t **p, size_t *n)
{
    const struct fio *fio = d->fio;
    uint64_t bytes = 0;
    enum err e = fio->size(fio->ctx, d->f, &bytes);

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
    e = fio->read(fio->ctx, d->f, 0, *p, (size_t)bytes, n);
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
static enum err clear_end(struct manifest_disk *d)
{
    const struct fio *fio = d->fio;
    size_t n = (size_t)(d->room - d->bytes);
    uint8_t *zeros = mem_zalloc(n);
    enum err e = zeros ? fio->write(fio->ctx, d->f, d->bytes, zeros, n) : ERR_NOMEM;

    mem_free(zeros);
    return e ? e : fio->sync(fio->ctx, d->f);
}

static enum err load(struct manifest_disk *d, struct manifest_loaded *loaded, struct listing *l,
                     struct errmsg *why)
{
    uint8_t *p = NULL;
    size_t n = 0;
    enum err e = read_file(d, &p, &n);

    if (!e) {
        e = manifest_log_read(loaded, p, n, d->read_only ? NULL : is_there, l);
    }
    if (!e) {
        uint64_t torn = torn_bytes(p, loaded->end, n);

        d->bytes = loaded->end;
        d->room = n;
        d->compact = loaded->end; /* as far as is known; only decides when it is made anew */
        d->seed = loaded->seed;
        d->seq = loaded->seq;
        d->rewrite = loaded->damaged || loaded->undone || loaded->single ||
                     (torn && !d->read_only && clear_end(d) != ERR_OK);
        d->found.torn_bytes = torn;
        d->found.damaged_records = loaded->damaged;
    } else if (e == ERR_VERSION) {
        errmsg_set(why, e, "%s/%s was written by a newer version of the collector: use that one",
                   d->dir, MANIFEST_FILE);
    } else if (e == ERR_CORRUPT) {
        errmsg_set(why, e,
                   "%s/%s is damaged: 'procfleet-collector store check --repair' makes it anew "
                   "from the segments",
                   d->dir, MANIFEST_FILE);
    }
    mem_free(p);
    return e;
}

static enum err open_file(struct manifest_disk *d, struct fio_file **f)
{
    char *path = os_path_join(d->dir, MANIFEST_FILE);
    enum err e = path ? d->fio->open(d->fio->ctx, f, path) : ERR_NOMEM;

    mem_free(path);
    return e;
}

/* The first opening: there is no file. */
static enum err begin(struct manifest_disk *d, const struct listing *l,
                      struct manifest_loaded *loaded, struct errmsg *why)
{
    enum err e;

    if (l->n > 0) {
        return errmsg_set(why, ERR_CORRUPT,
                          "%s has segments but no manifest: 'procfleet-collector store check "
                          "--repair' makes it anew from them",
                          d->dir);
    }
    e = d->read_only ? ERR_OK : manifest_disk_replace(d, NULL, 0, 1, why);
    loaded->next_number = 1;
    return e;
}

static enum err read_dir(struct manifest_disk *d, struct listing *l)
{
    enum err e = os_list_dir(d->dir, list_one, l);

    if (!e && l->n > 0) {
        qsort(l->names, l->n, sizeof *l->names, by_name);
    }
    return e;
}

/* A reader may open it beside the owner. What is added meanwhile has its file before it is
 * in the manifest, what is dropped loses it afterwards: so the directory is read last. */
static enum err read_both(struct manifest_disk *d, struct manifest_loaded *loaded,
                          struct listing *l, struct errmsg *why)
{
    bool late = d->read_only;
    enum err e = late ? ERR_OK : read_dir(d, l);

    if (!e) {
        e = open_file(d, &d->f);
    }
    if (e == ERR_NOTFOUND) {
        e = late ? read_dir(d, l) : ERR_OK;
        return e ? e : begin(d, l, loaded, why);
    }
    if (!e) {
        e = load(d, loaded, l, why);
    }
    return !e && late ? read_dir(d, l) : e;
}

enum err manifest_disk_open(struct manifest_disk *d, struct seg_info **segments, size_t *n,
                            uint64_t *next_number, struct errmsg *why)
{
    struct manifest_loaded loaded = {0};
    struct listing l = {.d = d};
    uint64_t next;
    enum err e = read_both(d, &loaded, &l, why);

    if (!e) {
        e = settle(d, &l, &loaded);
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
            errmsg_set(why, e, "cannot read the list of segments in %s: %s", d->dir, err_text(e));
        }
        return e;
    }
    *next_number = next;
    *segments = loaded.segments;
    *n = loaded.n;
    return ERR_OK;
}

void manifest_disk_close(struct manifest_disk *d)
{
    if (d->f) {
        d->fio->close(d->fio->ctx, d->f);
        d->f = NULL;
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
static enum err write_with_room(struct manifest_disk *d, struct fio_file *f, struct buf *b)
{
    const struct fio *fio = d->fio;
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
static enum err write_new(struct manifest_disk *d, const char *path, struct buf *b,
                          struct fio_file **out)
{
    const struct fio *fio = d->fio;
    struct fio_file *f;
    enum err e;

    err_ignore(fio->remove(fio->ctx, path)); /* of a failure before */
    e = fio->create(fio->ctx, &f, path);
    if (e) {
        return e;
    }
    e = write_with_room(d, f, b);
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
static enum err put_in_place(struct manifest_disk *d, struct buf *b, struct fio_file **f,
                             bool *doubt)
{
    const struct fio *fio = d->fio;
    char *from = os_path_join(d->dir, MANIFEST_FILE ".tmp");
    char *to = os_path_join(d->dir, MANIFEST_FILE);
    enum err e = from && to ? write_new(d, from, b, f) : ERR_NOMEM;

    if (!e) {
        e = fio->rename(fio->ctx, from, to);
        *doubt = !e;
        if (!e) {
            e = fio->sync_dir(fio->ctx, d->dir);
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

static enum err failed(const struct manifest_disk *d, enum err e, struct errmsg *why)
{
    if (e != ERR_NOSPACE && e != ERR_NOMEM && e != ERR_FULL && e != ERR_ACCESS &&
        e != ERR_READONLY) {
        e = ERR_IO;
    }
    return errmsg_set(why, e, "cannot write %s/%s: %s", d->dir, MANIFEST_FILE, err_text(e));
}

/* A file with a checkpoint of `all`, and behind it the change if there is one. */
static enum err write_anew(struct manifest_disk *d, const struct seg_info *all, size_t n,
                           uint64_t next_number, const struct manifest_record *change,
                           struct errmsg *why)
{
    struct manifest_record r = {
        .checkpoint = true, .seq = d->seq, .next_number = next_number, .add = all, .n_add = n};
    struct fio_file *f = NULL;
    bool doubt = false;
    uint64_t seed;
    size_t compact, end;
    struct buf b;
    enum err e = os_random(&seed, sizeof seed);

    if (e) {
        return failed(d, e, why);
    }
    buf_init(&b, MANIFEST_BYTES_MAX);
    manifest_log_header(&b, seed);
    manifest_log_record(&b, &r, seed);
    compact = b.n;
    if (change) {
        manifest_log_record(&b, change, seed);
    }
    end = b.n;
    e = b.bad ? b.bad : put_in_place(d, &b, &f, &doubt);
    if (!e) {
        manifest_disk_close(d);
        d->f = f;
        d->bytes = end;
        d->room = b.n;
        d->compact = compact;
        d->seed = seed;
        d->rewrite = false;
    } else if (doubt) {
        d->rewrite = true;
    }
    buf_fini(&b);
    return e ? failed(d, e, why) : ERR_OK;
}

enum err manifest_disk_replace(struct manifest_disk *d, const struct seg_info *all, size_t n,
                               uint64_t next_number, struct errmsg *why)
{
    return write_anew(d, all, n, next_number, NULL, why);
}

/* Without room, for which there is time as long as some is left, only this record is written. */
static enum err write_end(struct manifest_disk *d, struct buf *b)
{
    const struct fio *fio = d->fio;
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

static enum err append(struct manifest_disk *d, const struct manifest_record *r, struct errmsg *why)
{
    const struct fio *fio = d->fio;
    struct buf b;
    enum err e;

    assert(d->f && !d->rewrite && d->bytes <= d->room && r->seq == d->seq + 1);
    buf_init(&b, MANIFEST_BYTES_MAX);
    manifest_log_record(&b, r, d->seed);
    e = b.bad;
    if (!e) {
        e = write_end(d, &b);
        if (e) {
            d->rewrite = true;
            err_ignore(fio->truncate(fio->ctx, d->f, d->bytes));
        }
    }
    if (!e) {
        d->bytes += b.n;
    }
    buf_fini(&b);
    return e ? failed(d, e, why) : ERR_OK;
}

bool manifest_disk_is_long(const struct manifest_disk *d)
{
    return d->rewrite || d->bytes >= 4 * d->compact + COMPACT_SLACK;
}

enum err manifest_disk_change(struct manifest_disk *d, const struct seg_info *all, size_t n,
                              struct manifest_record *change, struct errmsg *why)
{
    bool must = d->rewrite;
    enum err e = ERR_FULL;

    change->seq = d->seq + 1;
    if (manifest_disk_is_long(d)) {
        e = all ? write_anew(d, all, n, change->next_number, change, why)
                : failed(d, ERR_NOMEM, why);
    }
    if (e && !must && !d->rewrite) { /* as a rule; or there is no room for a new file */
        e = append(d, change, why);
    }
    if (!e) {
        d->seq++;
    }
    return e;
}
