/* SQLite has no checksums of its own: a flipped bit in a name is another name. So a day's file is
 * read and written through SQLite's own file layer with one thing more: the last eight bytes of
 * every page, which SQLite leaves free when it is told so at the making of a file, are the XXH3-64
 * of the others, seeded with the file's name and the page's number. A page that does not fit is
 * SQLITE_CORRUPT, whatever it was read for: the day is made anew.
 *
 * Only the file itself is looked at. SQLite's log (-wal) has checksums of its own, which it looks
 * at when it recovers, and is emptied after every change; pages come from it into the file through
 * writes like all others. At opening SQLite reads the first 100 bytes alone, for the page's size;
 * the whole page comes before anything else is believed. */
#include "collector/store/catalogue/catalogue_file.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"

#define PAGE   4096
#define SUM    8
#define HEADER 100
#define NAME   "procfleet"

static sqlite3_vfs layer;
static sqlite3_vfs *below;
static struct sqlite3_io_methods methods;              /* those below, but for two */
static const struct sqlite3_io_methods *below_methods; /* of all files; NULL: none was opened yet */

static uint64_t seed_of_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return hash_bytes(name, strlen(name), 0);
}

static uint64_t sum_of(const uint8_t *page, uint64_t seed, int64_t at)
{
    return hash_bytes(page, PAGE - SUM, seed + (uint64_t)(at / PAGE));
}

static bool is_sound(const uint8_t *page, uint64_t seed, int64_t at)
{
    return cur_at64le(page + PAGE - SUM) == sum_of(page, seed, at);
}

/* -- SQLite's side -- */

/* Behind what the layer below keeps of the file. */
static uint64_t *seed_in(sqlite3_file *f)
{
    return (uint64_t *)(void *)((char *)f + layer.szOsFile - (int)sizeof(uint64_t));
}

static int read_page(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    int rc = below_methods->xRead(f, p, n, at);

    if (rc != SQLITE_OK || (n <= HEADER && at <= HEADER - n)) {
        return rc;
    }
    return n == PAGE && at % PAGE == 0 && is_sound(p, *seed_in(f), at) ? SQLITE_OK : SQLITE_CORRUPT;
}

static int write_page(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    uint8_t page[PAGE];
    uint64_t sum;

    if (n != PAGE || at % PAGE != 0) {
        return SQLITE_IOERR_WRITE;
    }
    memcpy(page, p, PAGE - SUM);
    sum = sum_of(page, *seed_in(f), at);
    for (unsigned i = 0; i < SUM; i++) {
        page[PAGE - SUM + i] = (uint8_t)(sum >> 8 * i);
    }
    return below_methods->xWrite(f, page, n, at);
}

/* Files of the layer below have one table of functions; the first one shows it. */
static bool take_methods(const struct sqlite3_io_methods *of)
{
    sqlite3_mutex *lock = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1);
    bool same;

    sqlite3_mutex_enter(lock);
    if (!below_methods) {
        methods = *of;
        methods.iVersion = of->iVersion < 2 ? of->iVersion : 2; /* without mapping */
        methods.xRead = read_page;
        methods.xWrite = write_page;
        below_methods = of;
    }
    same = below_methods == of;
    sqlite3_mutex_leave(lock);
    return same;
}

static int open_file(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
    int rc = below->xOpen(below, name, f, flags, out);

    (void)v;
    if (rc != SQLITE_OK || !(flags & SQLITE_OPEN_MAIN_DB)) {
        return rc;
    }
    if (!take_methods(f->pMethods)) {
        (void)f->pMethods->xClose(f);
        f->pMethods = NULL;
        return SQLITE_CANTOPEN;
    }
    *seed_in(f) = seed_of_name(name);
    f->pMethods = &methods;
    return SQLITE_OK;
}

const char *catalogue_layer(void)
{
    sqlite3_mutex *lock;
    const char *name = NAME;

    if (sqlite3_initialize() != SQLITE_OK) {
        return NULL;
    }
    lock = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP2);
    sqlite3_mutex_enter(lock);
    if (!below) {
        below = sqlite3_vfs_find(NULL);
        layer = *below;
        layer.zName = NAME;
        layer.pNext = NULL;
        layer.szOsFile = (below->szOsFile + 7) / 8 * 8 + (int)sizeof(uint64_t);
        layer.xOpen = open_file;
        name = sqlite3_vfs_register(&layer, 0) == SQLITE_OK ? NAME : NULL;
        below = name ? below : NULL;
    }
    sqlite3_mutex_leave(lock);
    return name;
}

enum err catalogue_reserve(sqlite3 *db)
{
    int n = SUM;

    return sqlite3_file_control(db, NULL, SQLITE_FCNTL_RESERVE_BYTES, &n) == SQLITE_OK ? ERR_OK
                                                                                       : ERR_IO;
}

/* -- looking through one -- */

/* One of before there were sums: it is made anew by itself. */
static bool is_of_format_1(const uint8_t *page)
{
    static const uint8_t version[4] = {0, 0, 0, 1};

    return page[20] == 0 && memcmp(page + 60, version, sizeof version) == 0;
}

enum err catalogue_file_check(const struct fio *fio, const char *path, uint64_t *pages,
                              uint64_t *damaged)
{
    uint64_t seed = seed_of_name(path), size = 0;
    uint8_t page[PAGE];
    struct fio_file *f;
    enum err e = fio->open(fio->ctx, &f, path);

    *pages = *damaged = 0;
    if (e) {
        return e;
    }
    e = fio->size(fio->ctx, f, &size);
    for (uint64_t at = 0; !e && at + PAGE <= size; at += PAGE) {
        bool sound = false;
        size_t n = 0;

        for (int i = 0; !e && i < 2 && !sound; i++) { /* a collector may be writing it */
            e = fio->read(fio->ctx, f, at, page, PAGE, &n);
            sound = !e && n == PAGE && is_sound(page, seed, (int64_t)at);
        }
        if (e == ERR_IO) { /* this page cannot be read, others may */
            e = ERR_OK;
            memset(page, 0, sizeof page);
        }
        if (!e && at == 0 && !sound && is_of_format_1(page)) {
            break;
        }
        ++*pages;
        *damaged += !sound;
    }
    fio->close(fio->ctx, f);
    return e;
}
