#include "collector/store/check/check_beside.h"

#include <stdio.h>
#include <string.h>

#include "collector/store/catalogue/catalogue_file.h"
#include "collector/store/hosts.h"
#include "collector/store/wal/wal_index.h"
#include "common/base/mem.h"
#include "common/os/fio_name.h"
#include "common/os/os.h"

#define NAME_MAX_BYTES 64u /* of a file of ours, with its directory */

/* -- all of them -- */

/* Bytes of a file; those that cannot be opened have none. */
static enum err size_of(const struct fio *fio, const char *path, uint64_t *bytes)
{
    struct fio_file *f;
    enum err e = fio->open(fio->ctx, &f, path);

    if (!e) {
        e = fio->size(fio->ctx, f, bytes);
        fio->close(fio->ctx, f);
    }
    return e;
}

/* e: that of removing it, when that was tried. */
static enum err told(const struct check_beside *b, struct check_count *count, struct check_file *f,
                     enum err e)
{
    bool gone = b->conf->repair && (!e || e == ERR_NOTFOUND);

    f->state = gone ? CHECK_MENDED : CHECK_DAMAGED;
    b->tell(b->ctx, count, f);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* -- hosts -- */

static enum err decode_hosts(const struct fio *fio, const char *path, size_t *n, uint64_t *bytes)
{
    struct head_record *list = NULL;
    struct fio_file *f;
    uint8_t *p = NULL;
    uint64_t number;
    size_t got = 0;
    enum err e = fio->open(fio->ctx, &f, path);

    if (e) {
        return e;
    }
    e = fio->size(fio->ctx, f, bytes);
    if (!e && *bytes > HOSTS_BYTES_MAX) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        p = mem_alloc((size_t)*bytes + 1);
        e = p ? fio->read(fio->ctx, f, 0, p, (size_t)*bytes, &got) : ERR_NOMEM;
    }
    e = e ? e : hosts_decode(p, got, &number, &list, n);
    fio->close(fio->ctx, f);
    mem_free(list);
    mem_free(p);
    return e;
}

enum err check_hosts(const struct check_beside *b, struct check_count *count)
{
    struct check_file f = {.name = "hosts", .damaged = 1};
    char *path = os_path_join(b->conf->data_dir, f.name);
    uint64_t bytes = 0;
    size_t n = 0;
    enum err e = path ? decode_hosts(b->conf->fio, path, &n, &bytes) : ERR_NOMEM;

    if (!e || e == ERR_CORRUPT || e == ERR_IO) {
        count->files++;
        count->bytes += bytes;
        count->values += n;
    }
    if (e == ERR_CORRUPT || e == ERR_IO) {
        e = b->conf->repair ? b->conf->fio->remove(b->conf->fio->ctx, path) : ERR_OK;
        e = told(b, count, &f, e);
    }
    mem_free(path);
    return e == ERR_NOTFOUND || e == ERR_VERSION ? ERR_OK : e;
}

/* -- files of a directory -- */

struct looking {
    const struct check_beside *b;
    struct check_count *count;
    char *dir;
    const char *sub; /* its name in data_dir */
    enum err (*look)(struct looking *x, const char *name, const char *path, struct check_file *f);
    const char *suffix;
};

static enum err look_at(void *ctx, const char *name)
{
    struct looking *x = ctx;
    const struct fio *fio = x->b->conf->fio;
    size_t n = strlen(name), k = strlen(x->suffix);
    char shown[NAME_MAX_BYTES];
    struct check_file f = {.name = shown};
    uint64_t bytes = 0;
    char *path;
    enum err e = ERR_NOMEM;

    if (n <= k || strcmp(name + n - k, x->suffix) != 0) {
        return ERR_OK;
    }
    (void)snprintf(shown, sizeof shown, "%s/%s", x->sub, name);
    path = os_path_join(x->dir, name);
    if (path) {
        e = size_of(fio, path, &bytes);
        e = e ? e : x->look(x, name, path, &f);
    }
    if (!e) {
        x->count->files++;
        x->count->bytes += bytes;
        x->count->values += f.values;
    }
    if (!e && f.damaged) {
        e = told(x->b, x->count, &f, x->b->conf->repair ? fio->remove(fio->ctx, path) : ERR_OK);
    }
    mem_free(path);
    return e == ERR_NOTFOUND ? ERR_OK : e; /* it went meanwhile */
}

static enum err look_in(struct looking *x)
{
    enum err e = ERR_OK;

    x->dir = os_path_join(x->b->conf->data_dir, x->sub);
    if (!x->dir) {
        return ERR_NOMEM;
    }
    if (os_exists(x->dir)) {
        e = os_list_dir(x->dir, look_at, x);
    }
    mem_free(x->dir);
    return e;
}

/* -- catalogue -- */

static enum err look_at_day(struct looking *x, const char *name, const char *path,
                            struct check_file *f)
{
    const struct fio *fio = x->b->conf->fio;
    static const char *const beside[] = {"-wal", "-shm"};
    enum err e = catalogue_file_check(fio, path, &f->values, &f->damaged);

    (void)name;
    for (size_t i = 0; !e && f->damaged && x->b->conf->repair && i < 2; i++) {
        char *other = mem_alloc(strlen(path) + 8);

        if (!other) {
            return ERR_NOMEM;
        }
        (void)snprintf(other, strlen(path) + 8, "%s%s", path, beside[i]);
        e = fio->remove(fio->ctx, other);
        e = e == ERR_NOTFOUND ? ERR_OK : e;
        mem_free(other);
    }
    return e;
}

enum err check_catalogue(const struct check_beside *b, struct check_count *count)
{
    struct looking x = {b, count, NULL, "catalogue", look_at_day, ".db"};

    return look_in(&x);
}

/* -- indexes of the log -- */

static enum err count_record(void *ctx, const struct wal_record *r)
{
    (void)r;
    ++*(uint64_t *)ctx;
    return ERR_OK;
}

/* One whose file of the log is gone says nothing; one whose file's header is, may be all that still
 * says how that can be read. */
static enum err look_at_index(struct looking *x, const char *name, const char *path,
                              struct check_file *f)
{
    const struct fio *fio = x->b->conf->fio;
    struct wal_index_job job = {.fio = fio, .path = path, .each = count_record, .ctx = &f->values};
    struct wal_header header;
    struct wal_source *log = NULL;
    struct fio_file *file;
    uint64_t bytes;
    char *of;
    enum err e;

    if (!fio_name_parse(&job.number, name, "wal-", WAL_INDEX_SUFFIX)) {
        return ERR_OK;
    }
    of = fio_name_path(x->dir, "wal-", job.number, ".log");
    e = of ? fio->open(fio->ctx, &file, of) : ERR_NOMEM;
    mem_free(of);
    if (e) {
        return e;
    }
    e = fio->size(fio->ctx, file, &job.log_bytes);
    e = e ? e : wal_source_header(&header, fio, file, job.number);
    e = e ? e : wal_source_create(&log, fio, file, &header);
    if (e) {
        fio->close(fio->ctx, file);
        return e == ERR_CORRUPT || e == ERR_VERSION ? ERR_OK : e;
    }
    job.log = log;
    e = wal_index_replay(&job, &bytes);
    f->damaged = e == ERR_NOTFOUND && !wal_index_is_torn(fio, path);
    wal_source_unref(log);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

enum err check_indexes(const struct check_beside *b, struct check_count *count)
{
    struct looking x = {b, count, NULL, "wal", look_at_index, WAL_INDEX_SUFFIX};

    return look_in(&x);
}
