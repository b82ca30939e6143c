#include "tests/support/sqlite_fault.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fio_fault.h"

#define KINDS_MAX 8

/* Tables of functions: of the layer below, and ours in front. All of the layer's own tables have
 * the same functions for what is changed here. */
static struct kind {
    struct sqlite3_io_methods ours;
    const struct sqlite3_io_methods *below;
} kinds[KINDS_MAX];

static sqlite3_vfs layer, *below;
static struct fio files;
static _Atomic enum sqlite_fault fault;
static atomic_long after = -1, count; /* other threads may change files, too */

void sqlite_fault_arm(enum sqlite_fault what, long when)
{
    fault = what;
    after = when;
    count = 0;
}

/* Whether this change is to fail. */
static bool change(bool writes)
{
    long at = atomic_fetch_add(&count, 1), from = after;
    bool now = from >= 0 && at >= from;

    if (now && fault == SQLITE_FAULT_KILL) {
        _exit(9);
    }
    return now && (fault == SQLITE_FAULT_EIO || writes);
}

/* -- SQLite -- */

static int on_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    if (change(true)) {
        return fault == SQLITE_FAULT_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    }
    return kinds[0].below->xWrite(f, p, n, at);
}

static int on_truncate(sqlite3_file *f, sqlite3_int64 bytes)
{
    return change(false) ? SQLITE_IOERR_TRUNCATE : kinds[0].below->xTruncate(f, bytes);
}

static int on_sync(sqlite3_file *f, int flags)
{
    (void)f;
    (void)flags;
    return change(false) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static const struct sqlite3_io_methods *in_front_of(const struct sqlite3_io_methods *m)
{
    size_t i = 0;

    while (i < KINDS_MAX && kinds[i].below && kinds[i].below != m) {
        i++;
    }
    if (i == KINDS_MAX) {
        abort();
    }
    if (!kinds[i].below) {
        kinds[i].ours = *m;
        kinds[i].ours.xWrite = on_write;
        kinds[i].ours.xTruncate = on_truncate;
        kinds[i].ours.xSync = on_sync;
        kinds[i].below = m;
        if (m->xWrite != kinds[0].below->xWrite || m->xTruncate != kinds[0].below->xTruncate) {
            abort();
        }
    }
    return &kinds[i].ours;
}

static int on_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
    int rc = below->xOpen(below, name, f, flags, out);

    (void)v;
    if (rc == SQLITE_OK) {
        f->pMethods = in_front_of(f->pMethods);
    }
    return rc;
}

static int on_delete(sqlite3_vfs *v, const char *name, int sync)
{
    (void)v;
    (void)sync;
    return change(false) ? SQLITE_IOERR_DELETE : below->xDelete(below, name, 0);
}

void sqlite_fault_install(void)
{
    if (sqlite3_initialize() != SQLITE_OK) {
        abort();
    }
    below = sqlite3_vfs_find(NULL);
    layer = *below;
    layer.zName = "procfleet-test";
    layer.pNext = NULL;
    layer.xOpen = on_open;
    layer.xDelete = on_delete;
    if (sqlite3_vfs_register(&layer, 1) != SQLITE_OK) {
        abort();
    }
}

/* -- files -- */

static enum err on_create(void *ctx, struct fio_file **out, const char *path)
{
    return change(false) ? ERR_IO : fio_unsynced()->create(ctx, out, path);
}

static enum err on_rename(void *ctx, const char *from, const char *to)
{
    return change(false) ? ERR_IO : fio_unsynced()->rename(ctx, from, to);
}

static enum err on_remove(void *ctx, const char *path)
{
    return change(false) ? ERR_IO : fio_unsynced()->remove(ctx, path);
}

static enum err on_sync_dir(void *ctx, const char *dir)
{
    return change(false) ? ERR_IO : fio_unsynced()->sync_dir(ctx, dir);
}

const struct fio *sqlite_fault_fio(void)
{
    files = *fio_unsynced();
    files.create = on_create;
    files.rename = on_rename;
    files.remove = on_remove;
    files.sync_dir = on_sync_dir;
    return &files;
}
