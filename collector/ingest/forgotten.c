/* Format 1, little endian: u8[8] magic, u32 version, u32 hosts, hosts × u8[16] id in rising order,
 * u64 XXH3-64 of all before. Written as forgotten.new, synced, and renamed.
 *
 * Two locks: `file` for changes of the file, `lock` for the table in memory, which is held
 * across no I/O; `file` is taken first. */
#include "collector/ingest/forgotten.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define MAGIC     "PFforgo\n"
#define VERSION   1u
#define SUM_BYTES 8u
#define FIXED     (8u + 4 + 4)
#define BYTES_MAX (FIXED + 16u * FORGOTTEN_MAX + SUM_BYTES)

struct forgotten {
    const struct fio *fio;
    char *dir, *path, *fresh, *bad;
    struct os_mutex *file, *lock;
    _Atomic size_t n;  /* changed under both locks */
    struct uuid *list; /* by id; replaced under both locks */
};

static const struct uuid *id_at(const void *list, size_t i)
{
    return &((const struct uuid *)list)[i];
}

static bool is_at(const struct uuid *list, size_t n, size_t i, const struct uuid *host)
{
    return i < n && memcmp(list[i].b, host->b, sizeof host->b) == 0;
}

/* -- bytes -- */

static void encode(struct buf *out, const struct uuid *list, size_t n)
{
    buf_put_str(out, MAGIC);
    buf_put_u32le(out, VERSION);
    buf_put_u32le(out, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        buf_put(out, list[i].b, sizeof list[i].b);
    }
    if (!out->bad) {
        buf_put_u64le(out, hash_bytes(out->p, out->n, 0));
    }
}

static enum err decode(const uint8_t *p, size_t bytes, struct uuid **list, size_t *n)
{
    struct cur c = cur_make(p, bytes > SUM_BYTES ? bytes - SUM_BYTES : 0);
    const uint8_t *magic = cur_bytes(&c, 8);
    uint32_t version = cur_u32le(&c), hosts = cur_u32le(&c);
    struct uuid *found;

    if (c.bad || memcmp(magic, MAGIC, 8) != 0 ||
        hash_bytes(p, bytes - SUM_BYTES, 0) != cur_at64le(p + bytes - SUM_BYTES)) {
        return ERR_CORRUPT;
    }
    if (version != VERSION) {
        return ERR_VERSION;
    }
    if (hosts > FORGOTTEN_MAX || cur_left(&c) != hosts * sizeof found->b) {
        return ERR_CORRUPT;
    }
    found = mem_array(hosts, sizeof *found);
    if (!found) {
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < hosts; i++) {
        const uint8_t *id = cur_bytes(&c, sizeof found->b);

        memcpy(found[i].b, id, sizeof found->b);
        if (i > 0 && memcmp(found[i - 1].b, id, sizeof found->b) >= 0) {
            mem_free(found);
            return ERR_CORRUPT;
        }
    }
    *list = found;
    *n = hosts;
    return ERR_OK;
}

/* -- the file -- */

static enum err write_list(const struct forgotten *f, const struct uuid *list, size_t n)
{
    struct buf b;
    enum err e;

    buf_init(&b, BYTES_MAX);
    encode(&b, list, n);
    e = b.bad;
    if (!e) {
        e = fio_write_whole(f->fio, f->fresh, b.p, b.n);
    }
    if (!e) {
        e = f->fio->rename(f->fio->ctx, f->fresh, f->path);
    }
    if (!e) {
        e = f->fio->sync_dir(f->fio->ctx, f->dir);
    }
    buf_fini(&b);
    return e;
}

enum err forgotten_check(const struct fio *fio, const char *dir, uint64_t *bytes, size_t *n)
{
    struct forgotten f = {.fio = fio, .path = os_path_join(dir, "forgotten")};
    struct buf b;
    enum err e;

    *bytes = *n = 0;
    buf_init(&b, BYTES_MAX);
    e = f.path ? fio_read_whole(fio, f.path, &b) : ERR_NOMEM;
    *bytes = b.n;
    e = e ? e : decode(b.p, b.n, &f.list, n);
    buf_fini(&b);
    mem_free(f.list);
    mem_free(f.path);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

static enum err read_list(struct forgotten *f, struct errmsg *why)
{
    size_t n = 0;
    struct buf b;
    char quoted[320];
    enum err e;

    buf_init(&b, BYTES_MAX);
    e = fio_read_whole(f->fio, f->path, &b);
    if (!e) {
        e = decode(b.p, b.n, &f->list, &n);
    }
    buf_fini(&b);
    atomic_store(&f->n, n);
    if (e == ERR_CORRUPT) {
        log_line(LOG_WARN, "session", "forgotten_unreadable", "file=%s remedy=%s",
                 log_str(quoted, sizeof quoted, f->path),
                 "\"all hosts are shown again: 'procfleet hosts forget' those that are gone\"");
        err_ignore(f->fio->rename(f->fio->ctx, f->path, f->bad));
        return ERR_OK;
    }
    if (e && e != ERR_NOTFOUND) {
        return errmsg_set(why, e, "cannot read %s: %s", f->path, err_text(e));
    }
    return ERR_OK;
}

/* -- changes -- */

/* Moves the list; `file` is held. */
static void publish(struct forgotten *f, struct uuid *list, size_t n)
{
    struct uuid *old;

    os_mutex_lock(f->lock);
    old = f->list;
    f->list = list;
    atomic_store(&f->n, n);
    os_mutex_unlock(f->lock);
    mem_free(old);
}

enum err forgotten_add(struct forgotten *f, const struct uuid *host)
{
    struct uuid *list = NULL;
    size_t n, at;
    enum err e = ERR_OK;

    os_mutex_lock(f->file);
    n = atomic_load(&f->n);
    at = uuid_search(host, n, id_at, f->list);
    if (is_at(f->list, n, at, host)) {
        os_mutex_unlock(f->file);
        return ERR_OK;
    }
    e = n < FORGOTTEN_MAX ? ERR_OK : ERR_FULL;
    if (!e) {
        list = mem_array(n + 1, sizeof *list);
        e = list ? ERR_OK : ERR_NOMEM;
    }
    if (!e) {
        list[at] = *host;
        for (size_t i = 0; i < n; i++) {
            list[i + (i >= at)] = f->list[i];
        }
        e = write_list(f, list, n + 1);
    }
    if (e) {
        mem_free(list);
    } else {
        publish(f, list, n + 1);
    }
    os_mutex_unlock(f->file);
    return e;
}

/* `file` is held. It is here again whatever the disk says. */
static void take_out(struct forgotten *f, size_t at)
{
    size_t n = atomic_load(&f->n) - 1;
    enum err e;

    os_mutex_lock(f->lock);
    memmove(f->list + at, f->list + at + 1, (n - at) * sizeof *f->list);
    atomic_store(&f->n, n);
    os_mutex_unlock(f->lock);
    e = write_list(f, f->list, n);
    if (e) {
        log_line(LOG_WARN, "session", "forgotten_unwritten", "error=%s", err_name(e));
    }
}

bool forgotten_heard(struct forgotten *f, const struct uuid *host)
{
    bool was;
    size_t at;

    if (!forgotten_has(f, host)) {
        return false;
    }
    os_mutex_lock(f->file);
    at = uuid_search(host, atomic_load(&f->n), id_at, f->list);
    was = is_at(f->list, atomic_load(&f->n), at, host);
    if (was) {
        take_out(f, at);
    }
    os_mutex_unlock(f->file);
    return was;
}

bool forgotten_has(struct forgotten *f, const struct uuid *host)
{
    bool found;
    size_t n;

    if (atomic_load(&f->n) == 0) {
        return false;
    }
    os_mutex_lock(f->lock);
    n = atomic_load(&f->n);
    found = is_at(f->list, n, uuid_search(host, n, id_at, f->list), host);
    os_mutex_unlock(f->lock);
    return found;
}

/* -- life -- */

enum err forgotten_open(struct forgotten **out, const struct fio *fio, const char *dir,
                        struct errmsg *why)
{
    struct forgotten *f = mem_zalloc(sizeof *f);
    enum err e = ERR_NOMEM;

    if (!f) {
        return ERR_NOMEM;
    }
    f->fio = fio;
    f->dir = mem_strdup(dir);
    f->path = os_path_join(dir, "forgotten");
    f->fresh = os_path_join(dir, "forgotten.new");
    f->bad = os_path_join(dir, "forgotten.bad");
    if (f->dir && f->path && f->fresh && f->bad) {
        e = os_mutex_create(&f->file);
    }
    if (!e) {
        e = os_mutex_create(&f->lock);
    }
    if (!e) {
        e = read_list(f, why);
    }
    if (e) {
        forgotten_close(f);
        return e;
    }
    *out = f;
    return ERR_OK;
}

void forgotten_close(struct forgotten *f)
{
    if (!f) {
        return;
    }
    os_mutex_destroy(f->lock);
    os_mutex_destroy(f->file);
    mem_free(f->list);
    mem_free(f->dir);
    mem_free(f->path);
    mem_free(f->fresh);
    mem_free(f->bad);
    mem_free(f);
}
