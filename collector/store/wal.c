/* Format 2 of the write-ahead log, little endian.
 *
 *   dir/wal-<number, 16 hex digits>.log, numbers rise, each file is
 *
 *   file header  u8[8] magic, u32 version, u32 0, u64 number, u64 seed, u64 XXH3-64 of these 32
 *   record       u32 magic, u16 kind, u16 name_n, u32 n, u32 flags, u8[16] host, u64 stream, u64
 * seq, i64 t0, i64 t1, i64 received, name_n bytes host name, n bytes content, flag 1: i64 offset of
 * the host's clock, u64 its error (all ones: not known), u64 XXH3-64 of all before, with the file's
 * seed record ...
 *
 * Format 1 is the same without any flag and is read; nothing is added to such a file.
 *
 * A file begins with one WAL_RANGES record for each (host, stream) ever seen, so that older files
 * can go while their duplicates are still recognised. The whole first commit of a file - header,
 * checkpoint, first batches - is one write and one sync, then the directory is synced: a file
 * exists with its checkpoint or not at all, and older ones are removed only after that.
 *
 * Crashes. Only the end of the last file can be torn, since nothing is added to a file after a
 * newer one exists, and nothing is acknowledged before its sync. Recovery cuts the last file at the
 * first bad record and syncs it together with the directory: what a killed process had written but
 * not synced is found in the page cache and must not be called durable before it is. It never
 * appends to an old file. A bad record in an older file is damage: it is counted, and the next
 * sound record is looked for by magic and checksum. The seed is random, so that bytes inside
 * a batch, which a peer chooses, cannot pose as a record during that search.
 *
 * A removed file may come back after power loss, since removal is not synced: its batches are
 * sealed, and what segments list is left out (store_recover.c).
 *
 * Rejected: preallocated files (a sync of size and data together costs the same here), one record
 * per write, retrying a failed sync (the kernel marks lost pages clean). After a failed write
 * or sync the file is cut back to its last durable length, as well as that still goes, so that
 * batches reported as not stored do not appear after a restart. */
#include "collector/store/wal.h"

#include <stdlib.h>
#include <string.h>

#include "collector/store/wal_replay.h"
#include "common/buf.h"
#include "common/fio_name.h"
#include "common/mem.h"
#include "common/os.h"

#define COMMIT_MAX (1u << 30) /* a checkpoint of the largest fleet fits */
#define FILES_MAX  65536u

struct wal_file {
    uint64_t number;
    uint64_t bytes;
    uint64_t held; /* batches in use */
};

struct wal {
    struct wal_conf conf;
    char *dir;
    struct wal_file *files; /* by number; the last one is durable and the newest */
    size_t n_files, cap_files;

    struct fio_file *out; /* the file written to; NULL until the first commit */
    uint64_t out_bytes;   /* durable length of it */
    uint64_t out_seed;
    int64_t out_window;

    struct buf commit;    /* what the next write holds */
    bool fresh;           /* it begins a new file: */
    uint64_t next_number; /* its number and seed */
    uint64_t next_seed;
    int64_t next_window;
    bool failed;
    struct wal_stats stats;
};

/* -- names -- */

static char *file_path(const struct wal *w, uint64_t number, const char *suffix)
{
    return fio_name_path(w->dir, "wal-", number, suffix);
}

/* -- the list of files -- */

static enum err files_add(struct wal *w, uint64_t number)
{
    if (w->n_files == FILES_MAX) {
        return ERR_FULL;
    }
    if (w->n_files == w->cap_files) {
        size_t cap = w->cap_files ? w->cap_files * 2 : 16;
        struct wal_file *grown = mem_realloc_array(w->files, cap, sizeof *grown);

        if (!grown) {
            return ERR_NOMEM;
        }
        w->files = grown;
        w->cap_files = cap;
    }
    w->files[w->n_files++] = (struct wal_file){.number = number};
    return ERR_OK;
}

static struct wal_file *files_find(const struct wal *w, uint64_t number)
{
    for (size_t i = w->n_files; i > 0; i--) {
        if (w->files[i - 1].number == number) {
            return &w->files[i - 1];
        }
    }
    return NULL;
}

static void files_drop(struct wal *w, size_t i)
{
    w->n_files--;
    memmove(w->files + i, w->files + i + 1, (w->n_files - i) * sizeof *w->files);
}

/* -- recovery -- */

/* The last file ends where its sound records end, durably. */
static enum err repair_last(struct wal *w, struct fio_file *f, struct wal_file *file, uint64_t end)
{
    const struct fio *fio = w->conf.fio;
    enum err e = ERR_OK;

    if (end < file->bytes) {
        w->stats.torn_bytes += file->bytes - end;
        e = fio->truncate(fio->ctx, f, end);
        file->bytes = end;
    }
    if (!e) {
        e = fio->sync(fio->ctx, f);
    }
    return e ? e : fio->sync_dir(fio->ctx, w->dir);
}

/* Out of the way but kept: an older file whose header is unreadable. */
static enum err set_aside(struct wal *w, const char *path, uint64_t number)
{
    char *aside = file_path(w, number, ".bad");
    enum err e = ERR_NOMEM;

    w->stats.bad_records++;
    if (aside) {
        e = w->conf.fio->rename(w->conf.fio->ctx, path, aside);
    }
    mem_free(aside);
    return e;
}

/* A file under recovery, as the replay callback needs to know it. */
struct recovery {
    struct wal *w;
    uint64_t number;
};

static enum err replay_record(void *ctx, const struct wal_record *r)
{
    struct recovery *rec = ctx;

    return rec->w->conf.replay(rec->w->conf.ctx, rec->w, rec->number, r);
}

static enum err replay_file(struct wal *w, struct fio_file *f, const struct wal_file *file,
                            bool last, uint64_t *end)
{
    struct recovery rec = {w, file->number};
    struct wal_replay job = {w->conf.fio, f, file->bytes, last, replay_record, &rec};
    struct wal_replayed done;
    enum err e = wal_replay(&done, &job);

    if (e) {
        return e;
    }
    *end = done.end;
    w->stats.bad_records += done.bad_records;
    w->stats.replayed_bytes += done.end;
    return ERR_OK;
}

/* Replays file i; *gone when nothing in it can be read and it was put away. */
static enum err recover_file(struct wal *w, size_t i, const char *path, bool *gone)
{
    const struct fio *fio = w->conf.fio;
    struct wal_file *file = &w->files[i];
    bool last = i + 1 == w->n_files;
    struct fio_file *f;
    uint64_t end = 0;
    enum err e = fio->open(fio->ctx, &f, path);

    if (e) {
        return e;
    }
    e = fio->size(fio->ctx, f, &file->bytes);
    if (!e) {
        e = replay_file(w, f, file, last, &end);
    }
    *gone = !e && end == 0;
    if (!e && last && !*gone) {
        e = repair_last(w, f, file, end);
    }
    fio->close(fio->ctx, f);
    if (!e && *gone) {
        w->stats.torn_bytes += last ? file->bytes : 0;
        e = last ? fio->remove(fio->ctx, path) : set_aside(w, path, file->number);
    }
    return e;
}

static enum err collect_name(void *ctx, const char *name)
{
    struct wal *w = ctx;
    uint64_t number;

    return fio_name_parse(&number, name, "wal-", ".log") ? files_add(w, number) : ERR_OK;
}

static int by_number(const void *a, const void *b)
{
    const struct wal_file *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

static uint64_t total_bytes(struct wal *w)
{
    uint64_t total = 0;

    for (size_t i = 0; i < w->n_files; i++) {
        const struct fio *fio = w->conf.fio;
        char *path = file_path(w, w->files[i].number, ".log");
        struct fio_file *f;
        uint64_t bytes = 0;

        if (path && fio->open(fio->ctx, &f, path) == ERR_OK) {
            err_ignore(fio->size(fio->ctx, f, &bytes));
            fio->close(fio->ctx, f);
        }
        total += bytes;
        mem_free(path);
    }
    return total;
}

static enum err recover_one(struct wal *w, size_t i, bool *gone, struct errmsg *why)
{
    char *path = file_path(w, w->files[i].number, ".log");
    enum err e = path ? recover_file(w, i, path, gone) : ERR_NOMEM;

    if (e == ERR_VERSION) {
        errmsg_set(why, e, "%s was written by a newer version of the collector: use that one",
                   path);
    } else if (e) {
        errmsg_set(why, e, "cannot recover %s: %s", path ? path : w->dir, err_text(e));
    }
    mem_free(path);
    return e;
}

static enum err recover(struct wal *w, struct errmsg *why)
{
    uint64_t done = 0, total;
    enum err e = os_list_dir(w->dir, collect_name, w);

    if (e) {
        return errmsg_set(why, e, "cannot list %s: %s", w->dir, err_text(e));
    }
    if (w->n_files > 0) {
        qsort(w->files, w->n_files, sizeof *w->files, by_number);
        w->next_number = w->files[w->n_files - 1].number;
    }
    total = w->conf.progress ? total_bytes(w) : 0;
    for (size_t i = 0; i < w->n_files;) {
        bool gone = false;

        e = recover_one(w, i, &gone, why);
        if (e) {
            return e;
        }
        done += w->files[i].bytes;
        if (w->conf.progress) {
            w->conf.progress(w->conf.ctx, done, total);
        }
        if (gone) {
            files_drop(w, i);
        } else {
            i++;
        }
    }
    return ERR_OK;
}

enum err wal_open(struct wal **out, const struct wal_conf *conf, struct errmsg *why)
{
    struct wal *w = mem_zalloc(sizeof *w);
    enum err e = ERR_NOMEM;

    if (!w) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    w->conf = *conf;
    buf_init(&w->commit, COMMIT_MAX);
    w->dir = mem_strdup(conf->dir);
    if (!w->dir) {
        errmsg_set(why, e, "out of memory");
        goto fail;
    }
    e = recover(w, why);
    if (e) {
        goto fail;
    }
    *out = w;
    return ERR_OK;

fail:
    wal_close(w);
    return e;
}

void wal_close(struct wal *w)
{
    if (w) {
        if (w->out) {
            w->conf.fio->close(w->conf.fio->ctx, w->out);
        }
        buf_fini(&w->commit);
        mem_free(w->files);
        mem_free(w->dir);
        mem_free(w);
    }
}

/* -- writing -- */

/* Starts a file in the commit buffer: header and checkpoint. Nothing is on disk yet. */
static enum err begin_file(struct wal *w, int64_t now_ns)
{
    uint64_t number = w->next_number + 1;
    enum err e = files_add(w, number);

    if (e) {
        return e;
    }
    e = os_random(&w->next_seed, sizeof w->next_seed);
    if (!e) {
        w->next_number = number;
        w->fresh = true;
        w->next_window = now_ns / w->conf.window_ns;
        wal_header_put(&w->commit, w->next_number, w->next_seed);
        e = w->commit.bad ? w->commit.bad : w->conf.checkpoint(w->conf.ctx, w, now_ns);
    }
    if (e) {
        w->n_files--;
        w->next_number = number - 1;
        w->fresh = false;
        buf_reset(&w->commit);
    }
    return e;
}

static bool file_is_over(const struct wal *w, int64_t now_ns)
{
    return !w->out || w->out_bytes >= w->conf.file_bytes ||
           now_ns / w->conf.window_ns != w->out_window;
}

enum err wal_add(struct wal *w, const struct wal_record *r, int64_t now_ns, uint64_t *file)
{
    size_t before;
    enum err e;

    if (w->failed) {
        return ERR_IO;
    }
    if (r->n > WAL_BYTES_MAX || r->host_name.n > MODEL_HOST_NAME_MAX) {
        return ERR_INVALID;
    }
    if (w->commit.n == 0 && file_is_over(w, now_ns)) {
        e = begin_file(w, now_ns);
        if (e) {
            return e;
        }
    }
    before = w->commit.n;
    wal_record_put(&w->commit, r, w->fresh ? w->next_seed : w->out_seed);
    if (w->commit.bad) {
        e = w->commit.bad;
        w->commit.n = before;
        w->commit.bad = ERR_OK;
        return e;
    }
    if (file) {
        *file = w->files[w->n_files - 1].number;
    }
    return ERR_OK;
}

size_t wal_waiting(const struct wal *w)
{
    return w->commit.n;
}

/* Closes the file before and opens the one that the commit begins. */
static enum err create_file(struct wal *w)
{
    const struct fio *fio = w->conf.fio;
    char *path = file_path(w, w->next_number, ".log");
    enum err e;

    if (!path) {
        return ERR_NOMEM;
    }
    if (w->out) {
        fio->close(fio->ctx, w->out);
        w->out = NULL;
    }
    w->out_bytes = 0;
    e = fio->create(fio->ctx, &w->out, path);
    mem_free(path);
    return e;
}

static enum err write_commit(struct wal *w)
{
    const struct fio *fio = w->conf.fio;
    enum err e = w->fresh ? create_file(w) : ERR_OK;

    if (!e) {
        e = fio->write(fio->ctx, w->out, w->out_bytes, w->commit.p, w->commit.n);
    }
    if (!e) {
        e = fio->sync(fio->ctx, w->out);
    }
    if (!e && w->fresh) {
        e = fio->sync_dir(fio->ctx, w->dir);
    }
    return e;
}

enum err wal_commit(struct wal *w, struct errmsg *why)
{
    const struct fio *fio = w->conf.fio;
    enum err e;

    if (w->failed) {
        return errmsg_set(why, ERR_IO, "the log failed before");
    }
    if (w->commit.n == 0) {
        return ERR_OK;
    }
    e = write_commit(w);
    if (e) {
        w->failed = true;
        if (w->out) {
            err_ignore(fio->truncate(fio->ctx, w->out, w->out_bytes));
        }
        return errmsg_set(why, ERR_IO, "cannot write to the log in %s: %s", w->dir, err_text(e));
    }
    if (w->fresh) {
        w->out_seed = w->next_seed;
        w->out_window = w->next_window;
        w->fresh = false;
    }
    w->out_bytes += w->commit.n;
    w->files[w->n_files - 1].bytes = w->out_bytes;
    w->stats.commits++;
    buf_reset(&w->commit);
    return ERR_OK;
}

/* -- use of files -- */

void wal_hold(struct wal *w, uint64_t file)
{
    struct wal_file *f = files_find(w, file);

    if (f) {
        f->held++;
    }
}

void wal_release(struct wal *w, uint64_t file)
{
    struct wal_file *f = files_find(w, file);

    if (f && f->held > 0) {
        f->held--;
    }
}

/* While a commit that begins a file waits, that file is in the list but not durable. */
void wal_trim(struct wal *w)
{
    size_t keep = w->fresh ? 2 : 1;

    for (size_t i = 0; i + keep < w->n_files && !w->failed;) {
        char *path = w->files[i].held == 0 ? file_path(w, w->files[i].number, ".log") : NULL;

        if (path && w->conf.fio->remove(w->conf.fio->ctx, path) == ERR_OK) {
            files_drop(w, i);
        } else {
            i++;
        }
        mem_free(path);
    }
}

enum err wal_turn(struct wal *w, int64_t now_ns, struct errmsg *why)
{
    enum err e;

    if (w->failed) {
        return errmsg_set(why, ERR_IO, "the log failed before");
    }
    e = begin_file(w, now_ns);
    return e ? errmsg_set(why, e, "cannot begin a file of the log: %s", err_text(e))
             : wal_commit(w, why);
}

enum err wal_settle(struct wal *w)
{
    return w->conf.fio->sync_dir(w->conf.fio->ctx, w->dir);
}

void wal_stats(const struct wal *w, struct wal_stats *out)
{
    *out = w->stats;
    out->files = w->n_files;
    out->oldest = w->n_files ? w->files[0].number : 0;
    out->newest = w->n_files ? w->files[w->n_files - 1].number : 0;
    for (size_t i = 0; i < w->n_files; i++) {
        out->bytes += w->files[i].bytes;
    }
}
