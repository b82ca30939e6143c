#include "tests/support/fio_meter.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"

/* A name and how long its file is. An open file keeps its own copy of the name: what was renamed or
 * removed while open is not written any more. */
struct entry {
    char *path; /* NULL = free */
    uint64_t bytes;
};

struct fio_file {
    struct fio_file *below;
    char *path;
};

struct fio_meter {
    struct fio fio;
    const struct fio *below;
    struct os_mutex *lock; /* guards what follows */
    struct entry entries[FIO_METER_FILES];
    uint64_t bytes, most;
};

static struct entry *find(struct fio_meter *m, const char *path)
{
    struct entry *free_one = NULL;

    for (size_t i = 0; i < FIO_METER_FILES; i++) {
        struct entry *e = &m->entries[i];

        if (e->path && strcmp(e->path, path) == 0) {
            return e;
        }
        free_one = e->path || free_one ? free_one : e;
    }
    assert(free_one);
    return free_one;
}

static void set(struct fio_meter *m, const char *path, uint64_t bytes)
{
    struct entry *e;

    os_mutex_lock(m->lock);
    e = find(m, path);
    if (!e->path) {
        e->path = mem_strdup(path);
        assert(e->path);
        e->bytes = 0;
    }
    m->bytes = m->bytes - e->bytes + bytes;
    e->bytes = bytes;
    m->most = m->bytes > m->most ? m->bytes : m->most;
    os_mutex_unlock(m->lock);
}

static uint64_t forget(struct fio_meter *m, const char *path)
{
    uint64_t bytes = 0;
    struct entry *e;

    os_mutex_lock(m->lock);
    e = find(m, path);
    if (e->path) {
        bytes = e->bytes;
        m->bytes -= bytes;
        mem_free(e->path);
        e->path = NULL;
    }
    os_mutex_unlock(m->lock);
    return bytes;
}

/* The file's length now, under its name. */
static void look(struct fio_meter *m, struct fio_file *f)
{
    uint64_t bytes;

    if (m->below->size(m->below->ctx, f->below, &bytes) == ERR_OK) {
        set(m, f->path, bytes);
    }
}

static enum err wrap(struct fio_meter *m, struct fio_file **out, struct fio_file *below,
                     const char *path)
{
    struct fio_file *f = mem_zalloc(sizeof *f);

    if (f) {
        f->path = mem_strdup(path);
    }
    if (!f || !f->path) {
        mem_free(f);
        m->below->close(m->below->ctx, below);
        return ERR_NOMEM;
    }
    f->below = below;
    look(m, f);
    *out = f;
    return ERR_OK;
}

static enum err meter_create(void *ctx, struct fio_file **out, const char *path)
{
    struct fio_meter *m = ctx;
    struct fio_file *below;
    enum err e = m->below->create(m->below->ctx, &below, path);

    return e ? e : wrap(m, out, below, path);
}

static enum err meter_open(void *ctx, struct fio_file **out, const char *path)
{
    struct fio_meter *m = ctx;
    struct fio_file *below;
    enum err e = m->below->open(m->below->ctx, &below, path);

    return e ? e : wrap(m, out, below, path);
}

static enum err meter_size(void *ctx, struct fio_file *f, uint64_t *bytes)
{
    struct fio_meter *m = ctx;

    return m->below->size(m->below->ctx, f->below, bytes);
}

static enum err meter_read(void *ctx, struct fio_file *f, uint64_t offset, void *p, size_t n,
                           size_t *got)
{
    struct fio_meter *m = ctx;

    return m->below->read(m->below->ctx, f->below, offset, p, n, got);
}

static enum err meter_write(void *ctx, struct fio_file *f, uint64_t offset, const void *p, size_t n)
{
    struct fio_meter *m = ctx;
    enum err e = m->below->write(m->below->ctx, f->below, offset, p, n);

    look(m, f);
    return e;
}

static enum err meter_sync(void *ctx, struct fio_file *f)
{
    struct fio_meter *m = ctx;

    return m->below->sync(m->below->ctx, f->below);
}

static enum err meter_truncate(void *ctx, struct fio_file *f, uint64_t bytes)
{
    struct fio_meter *m = ctx;
    enum err e = m->below->truncate(m->below->ctx, f->below, bytes);

    look(m, f);
    return e;
}

static void meter_close(void *ctx, struct fio_file *f)
{
    struct fio_meter *m = ctx;

    if (f) {
        m->below->close(m->below->ctx, f->below);
        mem_free(f->path);
        mem_free(f);
    }
}

static enum err meter_rename(void *ctx, const char *from, const char *to)
{
    struct fio_meter *m = ctx;
    enum err e = m->below->rename(m->below->ctx, from, to);

    if (!e) {
        set(m, to, forget(m, from));
    }
    return e;
}

static enum err meter_remove(void *ctx, const char *path)
{
    struct fio_meter *m = ctx;
    enum err e = m->below->remove(m->below->ctx, path);

    if (!e) {
        forget(m, path);
    }
    return e;
}

static enum err meter_sync_dir(void *ctx, const char *dir)
{
    struct fio_meter *m = ctx;

    return m->below->sync_dir(m->below->ctx, dir);
}

enum err fio_meter_create(struct fio_meter **out, const struct fio *below)
{
    struct fio_meter *m = mem_zalloc(sizeof *m);
    enum err e = m ? os_mutex_create(&m->lock) : ERR_NOMEM;

    if (e) {
        mem_free(m);
        return e;
    }
    m->below = below;
    m->fio = (struct fio){m,           meter_create, meter_open,   meter_size,
                          meter_read,  meter_write,  meter_sync,   meter_truncate,
                          meter_close, meter_rename, meter_remove, meter_sync_dir};
    *out = m;
    return ERR_OK;
}

void fio_meter_destroy(struct fio_meter *m)
{
    if (m) {
        for (size_t i = 0; i < FIO_METER_FILES; i++) {
            mem_free(m->entries[i].path);
        }
        os_mutex_destroy(m->lock);
        mem_free(m);
    }
}

const struct fio *fio_meter_fio(struct fio_meter *m)
{
    return &m->fio;
}

uint64_t fio_meter_bytes(struct fio_meter *m)
{
    uint64_t bytes;

    os_mutex_lock(m->lock);
    bytes = m->bytes;
    os_mutex_unlock(m->lock);
    return bytes;
}

uint64_t fio_meter_most(struct fio_meter *m)
{
    uint64_t most;

    os_mutex_lock(m->lock);
    most = m->most;
    m->most = m->bytes;
    os_mutex_unlock(m->lock);
    return most;
}
