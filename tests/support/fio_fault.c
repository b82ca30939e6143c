#include "tests/support/fio_fault.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"

/* Bytes written at an offset and not synced; n = 0: a truncation to `at`. */
struct change {
    struct change *next;
    uint64_t at;
    size_t n;
    bool truncate;
    uint8_t bytes[];
};

struct fio_file {
    struct fio_file *next;
    struct fio_file *real;
    struct change *first, **end;
    uint64_t size; /* as the writer sees it */
};

/* A name that is not durable yet: created as path.unsynced, or removed. */
struct name {
    struct name *next;
    char *path;
    bool removed;
};

struct fio_fault {
    struct fio fio;
    struct os_mutex *lock;
    struct fio_file *files;
    struct name *names;
    unsigned fail_ops;
    long fail_after;
    enum err fail_with;
    bool fail_for_good;
    bool full;
    uint64_t bytes_left;
    bool cut;
    uint64_t random;
    long counts[9];
};

static const struct fio *os(void)
{
    return fio_os();
}

static uint64_t next_random(struct fio_fault *f)
{
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return f->random;
}

/* Counts an operation and says whether it must fail. */
static enum err enter(struct fio_fault *f, unsigned op)
{
    for (unsigned i = 0; i < 9; i++) {
        f->counts[i] += op == 1u << i;
    }
    if (f->cut) {
        return ERR_IO;
    }
    if (!(f->fail_ops & op) || f->fail_after < 0) {
        return ERR_OK;
    }
    if (f->fail_after > 0) {
        f->fail_after--;
        return ERR_OK;
    }
    if (!f->fail_for_good) {
        f->fail_after = -1;
    }
    return f->fail_with;
}

static void unsynced_path(char *text, size_t size, const char *path)
{
    snprintf(text, size, "%s.unsynced", path);
}

static struct name *find_name(struct fio_fault *f, const char *path, bool removed)
{
    for (struct name *n = f->names; n; n = n->next) {
        if (n->removed == removed && strcmp(n->path, path) == 0) {
            return n;
        }
    }
    return NULL;
}

static enum err add_name(struct fio_fault *f, const char *path, bool removed)
{
    struct name *n = mem_zalloc(sizeof *n);

    if (n) {
        n->path = mem_strdup(path);
    }
    if (!n || !n->path) {
        mem_free(n);
        return ERR_NOMEM;
    }
    n->removed = removed;
    n->next = f->names;
    f->names = n;
    return ERR_OK;
}

static void drop_name(struct fio_fault *f, struct name *n)
{
    struct name **at = &f->names;

    while (*at != n) {
        at = &(*at)->next;
    }
    *at = n->next;
    mem_free(n->path);
    mem_free(n);
}

static enum err track(struct fio_fault *f, struct fio_file **out, struct fio_file *real)
{
    struct fio_file *file = mem_zalloc(sizeof *file);
    enum err e = file ? os()->size(NULL, real, &file->size) : ERR_NOMEM;

    if (e) {
        os()->close(NULL, real);
        mem_free(file);
        return e;
    }
    file->real = real;
    file->end = &file->first;
    file->next = f->files;
    f->files = file;
    *out = file;
    return ERR_OK;
}

static enum err create_locked(struct fio_fault *f, struct fio_file **out, const char *path)
{
    char hidden[1024];
    struct fio_file *real;
    enum err e = enter(f, FIO_CREATE);

    unsynced_path(hidden, sizeof hidden, path);
    if (!e && find_name(f, path, true)) { /* removed before: for good now */
        drop_name(f, find_name(f, path, true));
        err_ignore(os_remove(path));
    }
    if (!e && (find_name(f, path, false) || os_exists(path))) {
        e = ERR_EXISTS;
    }
    if (!e) {
        err_ignore(os_remove(hidden)); /* of an earlier power cut */
        e = os()->create(NULL, &real, hidden);
    }
    if (!e) {
        e = track(f, out, real);
    }
    return e ? e : add_name(f, path, false);
}

static enum err fault_create(void *ctx, struct fio_file **out, const char *path)
{
    struct fio_fault *f = ctx;
    enum err e;

    os_mutex_lock(f->lock);
    e = create_locked(f, out, path);
    os_mutex_unlock(f->lock);
    return e;
}

static enum err fault_open(void *ctx, struct fio_file **out, const char *path)
{
    struct fio_fault *f = ctx;
    char hidden[1024];
    struct fio_file *real;
    enum err e;

    os_mutex_lock(f->lock);
    unsynced_path(hidden, sizeof hidden, path);
    e = enter(f, FIO_OPEN);
    if (!e && find_name(f, path, true)) {
        e = ERR_NOTFOUND;
    }
    if (!e) {
        e = os()->open(NULL, &real, find_name(f, path, false) ? hidden : path);
    }
    if (!e) {
        e = track(f, out, real);
    }
    os_mutex_unlock(f->lock);
    return e;
}

static enum err fault_size(void *ctx, struct fio_file *file, uint64_t *bytes)
{
    (void)ctx;
    *bytes = file->size;
    return ERR_OK;
}

static enum err apply(struct fio_file *file, const struct change *c, size_t n)
{
    return c->truncate ? os()->truncate(NULL, file->real, c->at)
                       : os()->write(NULL, file->real, c->at, c->bytes, n);
}

/* Everything held becomes real. */
static enum err flush(struct fio_file *file)
{
    while (file->first) {
        struct change *c = file->first;
        enum err e = apply(file, c, c->n);

        if (e) {
            return e;
        }
        file->first = c->next;
        mem_free(c);
    }
    file->end = &file->first;
    return ERR_OK;
}

static void overlay(uint8_t *p, uint64_t offset, size_t n, const struct change *c)
{
    uint64_t from = c->at > offset ? c->at : offset;
    uint64_t to = c->at + c->n < offset + n ? c->at + c->n : offset + n;

    if (!c->truncate && from < to) {
        memcpy(p + (from - offset), c->bytes + (from - c->at), (size_t)(to - from));
    }
}

static enum err fault_read(void *ctx, struct fio_file *file, uint64_t offset, void *p, size_t n,
                           size_t *got)
{
    struct fio_fault *f = ctx;
    uint64_t left = offset < file->size ? file->size - offset : 0;
    size_t real_got;
    enum err e;

    os_mutex_lock(f->lock);
    n = n < left ? n : (size_t)left;
    e = enter(f, FIO_READ);
    if (!e && n > 0) {
        memset(p, 0, n);
        e = os()->read(NULL, file->real, offset, p, n, &real_got);
    }
    for (const struct change *c = file->first; c && !e; c = c->next) {
        overlay(p, offset, n, c);
    }
    if (!e) {
        *got = n;
    }
    os_mutex_unlock(f->lock);
    return e;
}

static enum err hold(struct fio_file *file, uint64_t at, const void *p, size_t n, bool truncate)
{
    struct change *c = mem_alloc(sizeof *c + n);

    if (!c) {
        return ERR_NOMEM;
    }
    *c = (struct change){.at = at, .n = n, .truncate = truncate};
    if (n) {
        memcpy(c->bytes, p, n);
    }
    *file->end = c;
    file->end = &c->next;
    file->size = truncate || at + n > file->size ? at + n : file->size;
    return ERR_OK;
}

static enum err write_locked(struct fio_fault *f, struct fio_file *file, uint64_t offset,
                             const void *p, size_t n)
{
    enum err failed = enter(f, FIO_WRITE);
    size_t part = failed ? n / 2 : n;
    uint64_t end = offset + part, from = offset > file->size ? offset : file->size;
    uint64_t more = end > from ? end - from : 0; /* what is written over has its room */
    enum err e;

    if (f->cut) {
        return ERR_IO;
    }
    if (f->full && more > f->bytes_left) {
        part -= (size_t)(more - f->bytes_left);
        more = f->bytes_left;
        failed = ERR_NOSPACE;
    }
    f->bytes_left -= f->full ? more : 0;
    e = hold(file, offset, p, part, false);
    return e ? e : failed;
}

static enum err fault_write(void *ctx, struct fio_file *file, uint64_t offset, const void *p,
                            size_t n)
{
    struct fio_fault *f = ctx;
    enum err e;

    os_mutex_lock(f->lock);
    e = write_locked(f, file, offset, p, n);
    os_mutex_unlock(f->lock);
    return e;
}

static enum err fault_sync(void *ctx, struct fio_file *file)
{
    struct fio_fault *f = ctx;
    enum err e;

    os_mutex_lock(f->lock);
    e = enter(f, FIO_SYNC);
    if (!e) {
        e = flush(file);
    }
    os_mutex_unlock(f->lock);
    return e;
}

static enum err fault_truncate(void *ctx, struct fio_file *file, uint64_t bytes)
{
    struct fio_fault *f = ctx;
    enum err e;

    os_mutex_lock(f->lock);
    e = enter(f, FIO_TRUNCATE);
    if (!e) {
        f->bytes_left += f->full && bytes < file->size ? file->size - bytes : 0;
        e = hold(file, bytes, NULL, 0, true);
    }
    os_mutex_unlock(f->lock);
    return e;
}

static void fault_close(void *ctx, struct fio_file *file)
{
    struct fio_fault *f = ctx;
    struct fio_file **at;

    if (!file) {
        return;
    }
    os_mutex_lock(f->lock);
    for (at = &f->files; *at != file; at = &(*at)->next) {
    }
    *at = file->next;
    os_mutex_unlock(f->lock);
    while (file->first) {
        struct change *c = file->first;

        file->first = c->next;
        mem_free(c);
    }
    os()->close(NULL, file->real);
    mem_free(file);
}

/* A file whose name is not durable yet has its new one with the directory's next sync; until then
 * what was there before survives. */
static enum err rename_new(struct fio_fault *f, struct name *n, const char *to)
{
    char hidden_from[1024], hidden_to[1024];
    char *path = mem_strdup(to);
    struct name *other;
    enum err e;

    unsynced_path(hidden_from, sizeof hidden_from, n->path);
    unsynced_path(hidden_to, sizeof hidden_to, to);
    e = path ? os()->rename(NULL, hidden_from, hidden_to) : ERR_NOMEM;
    if (e) {
        mem_free(path);
        return e;
    }
    while ((other = find_name(f, to, true)) || (other = find_name(f, to, false))) {
        drop_name(f, other);
    }
    mem_free(n->path);
    n->path = path;
    return ERR_OK;
}

/* Of other files it is durable at once. */
static enum err fault_rename(void *ctx, const char *from, const char *to)
{
    struct fio_fault *f = ctx;
    struct name *n;
    enum err e;

    os_mutex_lock(f->lock);
    e = enter(f, FIO_RENAME);
    if (!e) {
        n = find_name(f, from, false);
        e = n ? rename_new(f, n, to) : os()->rename(NULL, from, to);
    }
    os_mutex_unlock(f->lock);
    return e;
}

static enum err remove_locked(struct fio_fault *f, const char *path)
{
    char hidden[1024];
    struct name *n = find_name(f, path, false);

    if (n) {
        unsynced_path(hidden, sizeof hidden, path);
        drop_name(f, n);
        err_ignore(os_remove(hidden));
        return os_exists(path) ? add_name(f, path, true) : ERR_OK; /* what it had replaced */
    }
    if (find_name(f, path, true) || !os_exists(path)) {
        return ERR_NOTFOUND;
    }
    return add_name(f, path, true);
}

static enum err fault_remove(void *ctx, const char *path)
{
    struct fio_fault *f = ctx;
    enum err e;

    os_mutex_lock(f->lock);
    e = enter(f, FIO_REMOVE);
    if (!e) {
        e = remove_locked(f, path);
    }
    os_mutex_unlock(f->lock);
    return e;
}

static bool is_separator(char c)
{
    return c == '/' || c == '\\';
}

static bool is_in(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    n -= n > 1 && is_separator(dir[n - 1]);
    return !dir[0] ||
           (strncmp(path, dir, n) == 0 && is_separator(path[n]) && !strpbrk(path + n + 1, "/\\"));
}

/* Names in `dir` become durable; "": in every directory. */
static enum err settle_names(struct fio_fault *f, const char *dir)
{
    struct name *next;

    for (struct name *n = f->names; n; n = next) {
        char hidden[1024];
        enum err e;

        next = n->next;
        if (!is_in(n->path, dir)) {
            continue;
        }
        unsynced_path(hidden, sizeof hidden, n->path);
        e = n->removed ? os()->remove(NULL, n->path) : os()->rename(NULL, hidden, n->path);
        if (e) {
            return e;
        }
        drop_name(f, n);
    }
    return ERR_OK;
}

static enum err fault_sync_dir(void *ctx, const char *dir)
{
    struct fio_fault *f = ctx;
    enum err e;

    os_mutex_lock(f->lock);
    e = enter(f, FIO_SYNC_DIR);
    if (!e) {
        e = settle_names(f, dir);
    }
    os_mutex_unlock(f->lock);
    return e;
}

enum err fio_fault_create(struct fio_fault **out)
{
    struct fio_fault *f = mem_zalloc(sizeof *f);
    enum err e;

    if (!f) {
        return ERR_NOMEM;
    }
    e = os_mutex_create(&f->lock);
    if (e) {
        mem_free(f);
        return e;
    }
    f->fail_after = -1;
    f->fio = (struct fio){f,           fault_create, fault_open,   fault_size,
                          fault_read,  fault_write,  fault_sync,   fault_truncate,
                          fault_close, fault_rename, fault_remove, fault_sync_dir};
    *out = f;
    return ERR_OK;
}

void fio_fault_destroy(struct fio_fault *f)
{
    if (f) {
        while (f->names) {
            drop_name(f, f->names);
        }
        os_mutex_destroy(f->lock);
        mem_free(f);
    }
}

const struct fio *fio_fault_fio(struct fio_fault *f)
{
    return &f->fio;
}

void fio_fault_fail(struct fio_fault *f, unsigned ops, long after, enum err e, bool for_good)
{
    os_mutex_lock(f->lock);
    f->fail_ops = ops;
    f->fail_after = after;
    f->fail_with = e;
    f->fail_for_good = for_good;
    os_mutex_unlock(f->lock);
}

void fio_fault_disk_full(struct fio_fault *f, uint64_t bytes_left)
{
    os_mutex_lock(f->lock);
    f->full = true;
    f->bytes_left = bytes_left;
    os_mutex_unlock(f->lock);
}

/* The sectors of one lost write that reached the disk all the same; holes hold garbage. */
static void keep_sectors(struct fio_fault *f, struct fio_file *file, const struct change *c)
{
    uint8_t garbage[512];

    memset(garbage, 0xa5, sizeof garbage);
    for (size_t at = 0; at < c->n; at += 512) {
        size_t n = c->n - at < 512 ? c->n - at : 512;
        const void *from = next_random(f) % 2 ? c->bytes + at : garbage;

        err_ignore(os()->write(NULL, file->real, c->at + at, from, n));
    }
}

void fio_fault_power_cut(struct fio_fault *f, enum fio_fault_keep keep, uint64_t seed)
{
    os_mutex_lock(f->lock);
    f->cut = true;
    f->random = seed | 1;
    for (struct fio_file *file = f->files; file; file = file->next) {
        for (const struct change *c = file->first; c; c = c->next) {
            if (keep == FIO_KEEP_PREFIX && !c->truncate) {
                err_ignore(apply(file, c, c->n ? (size_t)(next_random(f) % c->n) : 0));
            } else if (keep == FIO_KEEP_SECTORS && !c->truncate) {
                keep_sectors(f, file, c);
            }
        }
    }
    /* The name of a new file may survive without its directory's sync. */
    if (keep != FIO_KEEP_NOTHING && next_random(f) % 2) {
        err_ignore(settle_names(f, ""));
    }
    os_mutex_unlock(f->lock);
}

long fio_fault_count(const struct fio_fault *f, unsigned ops)
{
    long n = 0;

    os_mutex_lock(f->lock);
    for (unsigned i = 0; i < 9; i++) {
        n += ops & 1u << i ? f->counts[i] : 0;
    }
    os_mutex_unlock(f->lock);
    return n;
}

static enum err no_sync(void *ctx, struct fio_file *f)
{
    (void)ctx;
    (void)f;
    return ERR_OK;
}

static enum err no_sync_dir(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return ERR_OK;
}

const struct fio *fio_unsynced(void)
{
    static struct fio layer;

    if (!layer.create) {
        layer = *fio_os();
        layer.sync = no_sync;
        layer.sync_dir = no_sync_dir;
    }
    return &layer;
}
