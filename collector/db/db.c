/* Only the database's file is summed. SQLite's journals have checksums of their own, and pages come
 * from them into the file through writes like all others. When it opens a file, SQLite reads the
 * first 100 bytes alone, for the size of pages; the whole page is compared before anything else in
 * it is believed. */
#include "collector/db/db.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>

#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"

#define PAGE    4096
#define SUM     8
#define HEADER  100
#define NAME    "procfleet"
#define NEW     ".new"
#define BUSY_MS 5000

static sqlite3_vfs layer;
static sqlite3_vfs *below;
static struct sqlite3_io_methods methods;              /* those below, but for two */
static const struct sqlite3_io_methods *below_methods; /* of all files; NULL: none was opened yet */

static uint64_t seed_of_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    size_t n = strlen(name), new = strlen(NEW);

    return hash_bytes(name, n > new &&strcmp(name + n - new, NEW) == 0 ? n - new : n, 0);
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

const char *db_layer(void)
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

enum err db_reserve(sqlite3 *db)
{
    int n = SUM;

    return sqlite3_file_control(db, NULL, SQLITE_FCNTL_RESERVE_BYTES, &n) == SQLITE_OK ? ERR_OK
                                                                                       : ERR_IO;
}

/* -- looking through a file -- */

/* A file of before there were sums: its header says that pages have no room for them. */
static bool is_unsummed(const uint8_t *page, uint8_t version)
{
    const uint8_t wanted[4] = {0, 0, 0, version};

    return version && page[20] == 0 && memcmp(page + 60, wanted, sizeof wanted) == 0;
}

enum err db_file_check(const struct fio *fio, const char *path, uint8_t unsummed, uint64_t *pages,
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
        if (!e && at == 0 && !sound && is_unsummed(page, unsummed)) {
            break;
        }
        ++*pages;
        *damaged += !sound;
    }
    fio->close(fio->ctx, f);
    return e;
}

/* -- errors -- */

static enum err db_system_error(struct db *d)
{
    switch (sqlite3_system_errno(d->sqlite)) {
    case EACCES:
    case EPERM:
        return ERR_ACCESS;
    case EROFS:
        return ERR_READONLY;
    case ENOSPC:
        return ERR_NOSPACE;
    case ENOENT:
        return ERR_NOTFOUND;
    default:
        return ERR_IO;
    }
}

enum err db_error(struct db *d, int rc)
{
    if (rc == SQLITE_IOERR_NOMEM) {
        return ERR_NOMEM;
    }
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return ERR_OK;
    case SQLITE_NOMEM:
        return ERR_NOMEM;
    case SQLITE_FULL:
        return ERR_NOSPACE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_BUSY;
    case SQLITE_CANTOPEN:
        return db_system_error(d);
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return ERR_ACCESS;
    case SQLITE_READONLY:
        return ERR_READONLY;
    case SQLITE_IOERR:
        return ERR_IO;
    default: /* damaged, or no file of ours: tables are missing */
        return ERR_CORRUPT;
    }
}

/* -- statements -- */

enum err db_run(struct db *d, const char *sql)
{
    return db_error(d, sqlite3_exec(d->sqlite, sql, NULL, NULL, NULL));
}

enum err db_row(struct db *d, sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);

    if (rc == SQLITE_ROW) {
        return ERR_OK;
    }
    (void)sqlite3_reset(st);
    return rc == SQLITE_DONE ? ERR_END : db_error(d, rc);
}

enum err db_change(struct db *d, sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);

    (void)sqlite3_reset(st);
    return db_error(d, rc);
}

enum err db_number(struct db *d, sqlite3_stmt *st, int64_t *v)
{
    enum err e = db_row(d, st);

    if (!e) {
        *v = sqlite3_column_int64(st, 0);
        (void)sqlite3_reset(st);
    }
    return e;
}

bool db_bytes(sqlite3_stmt *st, int column, void *out, size_t n)
{
    const void *p = sqlite3_column_blob(st, column);
    bool fits = p && sqlite3_column_bytes(st, column) == (int)n;

    if (fits) {
        memcpy(out, p, n);
    }
    return fits;
}

bool db_text(sqlite3_stmt *st, int column, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(st, column);
    size_t n = text ? (size_t)sqlite3_column_bytes(st, column) : 0;
    bool fits = text && n < size && !memchr(text, 0, n);

    if (fits) {
        memcpy(out, text, n + 1);
    }
    return fits;
}

void db_bind_text(sqlite3_stmt *st, int at, const char *text)
{
    (void)sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

void db_bind_bytes(sqlite3_stmt *st, int at, const void *p, size_t n)
{
    (void)sqlite3_bind_blob(st, at, p, (int)n, SQLITE_STATIC);
}

void db_bind_number(sqlite3_stmt *st, int at, int64_t v)
{
    (void)sqlite3_bind_int64(st, at, v);
}

/* -- opening -- */

/* The first column of the first row; 0: there is none. */
static enum err db_pragma(struct db *d, const char *sql, int64_t *v)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(d->sqlite, sql, -1, &st, NULL);

    *v = 0;
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(st);
        *v = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    }
    (void)sqlite3_finalize(st);
    return db_error(d, rc);
}

static enum err db_connect(struct db *d, const char *path)
{
    const char *name = db_layer();

    if (!name) {
        return ERR_NOMEM;
    }
    return db_error(
        d, sqlite3_open_v2(path, &d->sqlite, SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE, name));
}

static enum err db_settings(struct db *d, const struct db_format *format)
{
    (void)sqlite3_busy_timeout(d->sqlite, BUSY_MS);
    (void)sqlite3_extended_result_codes(d->sqlite, 1);
    return db_run(d, format->settings);
}

/* Tables and version change together, or neither does. */
static enum err db_upgrade(struct db *d, const struct db_format *format, uint32_t version)
{
    char text[64];
    enum err e = db_run(d, "BEGIN IMMEDIATE");

    if (e) {
        return e;
    }
    for (uint32_t v = version; !e && v < format->version; v++) {
        e = db_run(d, format->steps[v]);
    }
    (void)sqlite3_snprintf(sizeof text, text, "PRAGMA user_version = %u; COMMIT;", format->version);
    e = e ? e : db_run(d, text);
    if (e) {
        err_ignore(db_run(d, "ROLLBACK"));
    }
    return e;
}

static enum err db_check_format(struct db *d, const struct db_format *format)
{
    int64_t app = 0, version = 0;
    enum err e = db_pragma(d, "PRAGMA application_id", &app);

    if (!e) {
        e = db_pragma(d, "PRAGMA user_version", &version);
    }
    if (e) {
        return e;
    }
    return app != format->app_id        ? ERR_CORRUPT
           : version == format->version ? ERR_OK
           : version > format->version  ? ERR_VERSION
           : format->steps              ? db_upgrade(d, format, (uint32_t)version)
                                        : ERR_CORRUPT;
}

static enum err db_prepare(struct db *d, const struct db_format *format)
{
    d->st = mem_array(format->n_statements, sizeof *d->st);
    if (!d->st) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < format->n_statements; i++) {
        int rc = sqlite3_prepare_v3(d->sqlite, format->statements[i], -1, SQLITE_PREPARE_PERSISTENT,
                                    &d->st[i], NULL);

        if (rc != SQLITE_OK) {
            return db_error(d, rc);
        }
        d->n_st++;
    }
    return ERR_OK;
}

static enum err db_create(struct db *d, const struct db_format *format)
{
    char version[96];
    enum err e = db_run(d, "BEGIN IMMEDIATE");

    (void)sqlite3_snprintf(sizeof version, version,
                           "PRAGMA application_id = %u; PRAGMA user_version = %u; COMMIT;",
                           format->app_id, format->steps ? 0 : format->version);
    if (!e) {
        e = db_run(d, format->schema);
    }
    e = e ? e : db_run(d, version);
    return !e && format->steps ? db_upgrade(d, format, 0) : e;
}

enum err db_make(struct db *out, const char *path, const struct fio *fio,
                 const struct db_format *format)
{
    struct fio_file *f;
    enum err e = fio->create(fio->ctx, &f, path);

    *out = (struct db){.sqlite = NULL};
    if (e) {
        return e;
    }
    fio->close(fio->ctx, f);
    e = db_connect(out, path);
    if (!e) {
        e = db_reserve(out->sqlite);
    }
    if (!e) {
        e = db_settings(out, format);
    }
    if (!e) {
        e = db_create(out, format);
    }
    return e ? e : db_prepare(out, format);
}

enum err db_open(struct db *out, const char *path, const struct db_format *format)
{
    enum err e;

    *out = (struct db){.sqlite = NULL};
    e = db_connect(out, path);
    if (!e) {
        e = db_settings(out, format);
    }
    if (!e) {
        e = db_check_format(out, format);
    }
    return e ? e : db_prepare(out, format);
}

void db_close(struct db *d)
{
    for (size_t i = 0; i < d->n_st; i++) {
        (void)sqlite3_finalize(d->st[i]);
    }
    mem_free(d->st);
    (void)sqlite3_close(d->sqlite);
    *d = (struct db){.sqlite = NULL};
}

enum err db_check(struct db *d)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(d->sqlite, "PRAGMA integrity_check(1)", -1, &st, NULL);
    bool sound = false;

    if (rc == SQLITE_OK) {
        const char *text;

        rc = sqlite3_step(st);
        text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
        sound = text && strcmp(text, "ok") == 0;
    }
    (void)sqlite3_finalize(st);
    return rc == SQLITE_ROW && !sound ? ERR_CORRUPT : db_error(d, rc);
}

bool db_moved(struct db *d)
{
    int moved = 0;

    return sqlite3_file_control(d->sqlite, NULL, SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
           moved;
}
