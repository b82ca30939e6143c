#include "collector/store/segment/seg_file.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"

struct seg_pool {
    /* Guards all below and the open file of each seg_file; no I/O under it. */
    struct os_mutex *lock;
    unsigned files_max, n_open;
    struct seg_file *oldest, *newest; /* open and without users */
};

enum err seg_file_pool_create(struct seg_pool **out, unsigned files_max)
{
    struct seg_pool *p = mem_zalloc(sizeof *p);
    enum err e;

    if (!p) {
        return ERR_NOMEM;
    }
    p->files_max = files_max;
    e = os_mutex_create(&p->lock);
    if (e) {
        mem_free(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

void seg_file_pool_destroy(struct seg_pool *p)
{
    if (p) {
        assert(p->n_open == 0);
        os_mutex_destroy(p->lock);
        mem_free(p);
    }
}

/* -- files without users, the oldest first -- */

static void idle_remove(struct seg_pool *p, struct seg_file *sf)
{
    *(sf->older ? &sf->older->newer : &p->oldest) = sf->newer;
    *(sf->newer ? &sf->newer->older : &p->newest) = sf->older;
    sf->older = sf->newer = NULL;
}

static void idle_add(struct seg_pool *p, struct seg_file *sf)
{
    sf->older = p->newest;
    sf->newer = NULL;
    *(p->newest ? &p->newest->newer : &p->oldest) = sf;
    p->newest = sf;
}

/* One that is over the limit, taken out to be closed; NULL: none. */
static struct fio_file *take_one_over(struct seg_pool *p)
{
    struct seg_file *sf = p->oldest;
    struct fio_file *f;

    if (!sf || p->n_open <= p->files_max) {
        return NULL;
    }
    idle_remove(p, sf);
    f = sf->f;
    sf->f = NULL;
    p->n_open--;
    return f;
}

/* The open file, counted as used; NULL: it is closed. */
static struct fio_file *use_open(struct seg_file *sf)
{
    struct seg_pool *p = sf->pool;
    struct fio_file *f;

    os_mutex_lock(p->lock);
    f = sf->f;
    if (f) {
        if (sf->users == 0) {
            idle_remove(p, sf);
        }
        sf->users++;
    }
    os_mutex_unlock(p->lock);
    return f;
}

static enum err get(struct seg_file *sf, struct fio_file **out)
{
    struct seg_pool *p = sf->pool;
    struct fio_file *f, *extra = NULL, *over;
    enum err e;

    if (!p) {
        *out = sf->f;
        return ERR_OK;
    }
    *out = use_open(sf);
    if (*out) {
        return ERR_OK;
    }
    e = sf->fio->open(sf->fio->ctx, &f, sf->path);
    if (e) {
        return e;
    }
    os_mutex_lock(p->lock);
    if (sf->f) { /* another reader was faster */
        extra = f;
        if (sf->users == 0) {
            idle_remove(p, sf);
        }
    } else {
        sf->f = f;
        p->n_open++;
    }
    sf->users++;
    *out = sf->f;
    over = take_one_over(p);
    os_mutex_unlock(p->lock);
    sf->fio->close(sf->fio->ctx, extra);
    sf->fio->close(sf->fio->ctx, over);
    return ERR_OK;
}

static void put(struct seg_file *sf)
{
    struct seg_pool *p = sf->pool;
    struct fio_file *over;

    if (!p) {
        return;
    }
    os_mutex_lock(p->lock);
    if (--sf->users == 0) {
        idle_add(p, sf);
    }
    over = take_one_over(p);
    os_mutex_unlock(p->lock);
    sf->fio->close(sf->fio->ctx, over);
}

enum err seg_file_open(struct seg_file *sf, const struct fio *fio, struct seg_pool *pool,
                       const char *dir, const char *name)
{
    *sf = (struct seg_file){.fio = fio, .pool = pool};
    sf->path = os_path_join(dir, name);
    if (!sf->path) {
        return ERR_NOMEM;
    }
    return pool ? ERR_OK : fio->open(fio->ctx, &sf->f, sf->path);
}

void seg_file_close(struct seg_file *sf)
{
    struct seg_pool *p = sf->pool;

    if (p) {
        os_mutex_lock(p->lock);
        if (sf->f) {
            idle_remove(p, sf);
            p->n_open--;
        }
        os_mutex_unlock(p->lock);
    }
    if (sf->f) {
        sf->fio->close(sf->fio->ctx, sf->f);
    }
    mem_free(sf->path);
}

enum err seg_file_read(struct seg_file *sf, uint64_t at, void *p, size_t n)
{
    struct fio_file *f;
    size_t got = 0;
    enum err e = get(sf, &f);

    if (e) {
        return e;
    }
    e = sf->fio->read(sf->fio->ctx, f, at, p, n, &got);
    put(sf);
    return e ? e : got < n ? ERR_CORRUPT : ERR_OK;
}

enum err seg_file_size(struct seg_file *sf, uint64_t *bytes)
{
    struct fio_file *f;
    enum err e = get(sf, &f);

    if (!e) {
        e = sf->fio->size(sf->fio->ctx, f, bytes);
        put(sf);
    }
    return e;
}
