/* Format 3 of the write-ahead log, little endian.
 *
 *   dir/wal-<number, 16 hex digits>.log, numbers rise, each file is
 *
 *   file header, twice   u8[8] magic, u32 version, u32 records of ranges it begins with,
 *                        u64 number, u64 seed, u64 XXH3-64 of these 32
 *   record               u32 magic, u16 kind, u16 name_n, u32 n, u32 flags, u8[16] host,
 *                        u64 stream, u64 seq, i64 t0, i64 t1, i64 received,
 *                        u64 XXH3-64 of these 72 with the file's seed,
 *                        name_n bytes host name, n bytes content,
 *                        flag 1: i64 offset of the host's clock, u64 its error (all ones: not
 *                        known), u64 XXH3-64 of all before, with the file's seed
 *   record ...
 *
 * Format 2 has one header, 0 in the place of the number of ranges, and no checksum of a record's
 * first part; format 1 is the same without any flag. Both are read; nothing is added to such files.
 *
 * A file begins with one WAL_RANGES record for each (host, stream) ever seen, so that older files
 * can go while their duplicates are still recognised. The whole first commit of a file - header,
 * checkpoint, first batches - is one write and one sync, then the directory is synced: a file
 * exists with its checkpoint or not at all, and older ones are removed only after that.
 *
 * Crashes. Only the end of the last file can be torn, since nothing is added to a file after a
 * newer one exists, and nothing is acknowledged before its sync. Torn is what no sound record
 * follows, if it begins as a record does or with zeros, as a write leaves it that was never
 * finished; other bytes are damage. Recovery cuts the last file there and syncs it together with
 * the directory: what a killed process had written but not synced is found in the page cache and
 * must not be called durable before it is. It never appends to an old file.
 *
 * Damage. A bad record with a sound one behind it is damage wherever it is: it is counted, and the
 * next sound record is looked for by magic and checksums. The seed is random, so that bytes inside
 * a batch, which a peer chooses, cannot pose as a record during that search, nor make it slow. All
 * checksums hang on the seed, so it is there twice, and a third time in the index. A file whose
 * seed is lost all the same is set aside under another name and kept, unless it has zeros or less
 * than a header: then it was never finished. Which batches are lost with a record says the
 * checkpoint of the file behind it (store_recover.c).
 *
 * Indexes. Beside a finished file stands what recovery needs of it (wal_index.h): ranges, and of
 * each batch its place and a note of the store's. It is written without a sync when the next file
 * begins and at a clean end; only synced records are in it, so a reader that finds it sound need
 * not read the file, not even the last one. Otherwise the file is read and the index made again,
 * unless a record is damaged.
 *
 * A removed file may come back after power loss, since removal is not synced: its batches are
 * sealed, and what segments list is left out (store_recover.c).
 *
 * No room. A commit that meets a full disk or a quota stays as it is; the file is cut back to its
 * last durable length, or removed when the commit began it, and all of the commit is written again
 * when it is tried again. That is no second sync of the same pages: those that a failed sync may
 * have called clean hold nothing durable but the first part of one page, which is written with
 * them.
 *
 * Rejected: preallocated files (a sync of size and data together costs the same here), one record
 * per write, retrying a failed sync (the kernel marks lost pages clean). After any other failed
 * write or sync the file is cut back to its last durable length, as well as that still goes, so
 * that batches reported as not stored do not appear after a restart. */
#include "collector/store/wal/wal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/wal/wal_index.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "common/reclog/reclog.h"

#define COMMIT_MAX  (1u << 30) /* a checkpoint of the largest fleet fits */
#define FILES_MAX   65536u
#define SOURCES_MAX 256u /* files that stay open; of further ones the batches are read */

struct wal_file {
    uint64_t number;
    uint64_t bytes, index_bytes;
    uint64_t held; /* batches in use */
};

struct wal {
    struct wal_conf conf;
    char *dir;
    struct wal_file *files; /* by number; the last one is durable and the newest */
    size_t n_files, cap_files;

    struct reclog_writer out; /* not open until the first commit */
    uint64_t out_seed;
    int64_t out_window;
    struct wal_index index; /* of it, with what waits; while opening, of the file that is read */

    struct buf commit;    /* what the next write holds */
    bool fresh;           /* it begins a new file: */
    uint64_t next_number; /* its number and seed */
    uint64_t next_seed;
    uint32_t next_ranges; /* records of its checkpoint */
    int64_t next_window;
    struct wal_index next_index;
    bool failed;
    struct wal_stats stats;

    const struct wal_record *replaying; /* while opening: what wal_note is about; NULL: nothing */
    size_t n_sources;                   /* files left open by recovery */
    bool damaged, based;                /* likewise: see wal_trust */
};

/* -- names -- */

static char *wal_path(const struct wal *w, uint64_t number, const char *suffix)
{
    return fio_name_path(w->dir, "wal-", number, suffix);
}

/* -- the list of files -- */

static enum err wal_file_add(struct wal *w, uint64_t number)
{
    enum err e = VEC_ROOM(&w->files, &w->cap_files, w->n_files + 1, FILES_MAX);

    if (!e) {
        w->files[w->n_files++] = (struct wal_file){.number = number};
    }
    return e;
}

static struct wal_file *wal_file_find(const struct wal *w, uint64_t number)
{
    for (size_t i = w->n_files; i > 0; i--) {
        if (w->files[i - 1].number == number) {
            return &w->files[i - 1];
        }
    }
    return NULL;
}

static void wal_file_drop(struct wal *w, size_t i)
{
    w->n_files--;
    memmove(w->files + i, w->files + i + 1, (w->n_files - i) * sizeof *w->files);
}

static void wal_file_unindex(const struct wal *w, uint64_t number)
{
    char *path = wal_path(w, number, WAL_INDEX_SUFFIX);

    if (path) {
        err_ignore(w->conf.fio->remove(w->conf.fio->ctx, path));
    }
    mem_free(path);
}

/* Without one the next opening takes longer. */
static void wal_file_index(struct wal *w, const struct wal_index *x, uint64_t number)
{
    struct wal_file *file = wal_file_find(w, number);
    char *path = wal_path(w, number, WAL_INDEX_SUFFIX);

    if (file && path && wal_index_write(x, w->conf.fio, path, number, file->bytes) == ERR_OK) {
        file->index_bytes = x->records.n;
    } else {
        w->stats.unindexed++;
    }
    mem_free(path);
}

/* -- recovery: every file in order, by its index where that is sound, else by reading it -- */

/* The last file ends at `end`, durably. */
static enum err recover_cut_last(struct wal *w, struct fio_file *f, struct wal_file *file,
                                 uint64_t end)
{
    uint64_t size = file->bytes;

    if (end < size) {
        w->stats.torn_bytes += size - end;
        file->bytes = end;
    }
    return reclog_cut(w->conf.fio, f, w->dir, size, end);
}

static void recover_report(struct wal *w, uint64_t number, const char *suffix, uint64_t spans,
                           bool aside)
{
    char name[64];

    (void)snprintf(name, sizeof name, "wal-%016" PRIx64 "%s", number, suffix);
    if (w->conf.damaged) {
        w->conf.damaged(w->conf.ctx, &(struct wal_damage){name, spans, aside});
    }
}

static void recover_note_aside(struct wal *w, uint64_t number)
{
    w->stats.aside++;
    w->damaged = true;
    recover_report(w, number, WAL_ASIDE_SUFFIX, 1, true);
}

/* Out of the way but kept: a file whose seed is lost. */
static enum err recover_set_aside(struct wal *w, const char *path, uint64_t number)
{
    char *aside = wal_path(w, number, WAL_ASIDE_SUFFIX);
    enum err e = ERR_NOMEM;

    if (aside) {
        e = w->conf.fio->rename(w->conf.fio->ctx, path, aside);
    }
    mem_free(aside);
    if (!e) {
        recover_note_aside(w, number);
    }
    return e;
}

/* A file under recovery, as the replay callback needs to know it. */
struct recovery {
    struct wal *w;
    uint64_t number;
};

static enum err recover_indexed(void *ctx, const struct wal_record *r)
{
    struct recovery *rec = ctx;
    enum err e = rec->w->conf.replay(rec->w->conf.ctx, rec->w, rec->number, r);

    rec->w->stats.bad_records += e == ERR_CORRUPT;
    return e == ERR_CORRUPT ? ERR_OK : e;
}

/* ERR_NOTFOUND: there is no sound index, the file has to be read. */
static enum err recover_by_index(struct wal *w, struct wal_file *file, struct wal_source *log)
{
    struct recovery rec = {w, file->number};
    char *path = wal_path(w, file->number, WAL_INDEX_SUFFIX);
    struct wal_index_job job = {.fio = w->conf.fio,
                                .path = path,
                                .number = file->number,
                                .log_bytes = file->bytes,
                                .log = log,
                                .each = recover_indexed,
                                .ctx = &rec};
    uint64_t bytes;
    enum err e = path ? wal_index_replay(&job, &bytes) : ERR_NOMEM;

    mem_free(path);
    if (e) {
        return e;
    }
    file->index_bytes = bytes;
    w->stats.replayed_bytes += bytes;
    w->n_sources += file->held > 0;
    return ERR_OK;
}

void wal_note(struct wal *w, const void *note, size_t n)
{
    if (w->replaying) {
        struct wal_record r = *w->replaying;

        r.note = note;
        r.note_n = n;
        wal_index_add(&w->index, &r);
        w->replaying = NULL;
    }
}

static enum err recover_record(void *ctx, const struct wal_record *r)
{
    struct recovery *rec = ctx;
    struct wal *w = rec->w;
    enum err e;

    w->replaying = r;
    e = w->conf.replay(w->conf.ctx, w, rec->number, r);
    if (w->replaying) { /* nothing was noted */
        wal_index_add(&w->index, r);
        w->replaying = NULL;
    }
    return e;
}

/* A file being recovered. */
struct opened {
    struct wal_file *file;
    struct fio_file *f;
    struct wal_source *source; /* owns f */
    bool last;
    uint64_t spans;   /* damaged ones */
    bool ranges_lost; /* of its checkpoint */
};

/* Without the index: read, cut where it is the last, and given an index. */
static enum err recover_by_reading(struct wal *w, struct opened *o)
{
    struct recovery rec = {w, o->file->number};
    const struct wal_header *header = wal_source_about(o->source);
    struct wal_replay job = {w->conf.fio, o->f, o->file->bytes, header, recover_record, &rec};
    struct wal_replayed done;
    enum err e;

    wal_index_begin(&w->index, header->seed, header->version);
    e = wal_source_replay(&done, &job);
    if (e) {
        return e;
    }
    w->stats.replayed_bytes += done.end;
    o->spans += done.bad_records + (done.strange_end || (!o->last && done.end < o->file->bytes));
    o->ranges_lost = done.ranges_lost;
    w->index.lacking = w->index.lacking || o->spans > 0; /* counted at every opening */
    e = o->last ? recover_cut_last(w, o->f, o->file, done.strange_end ? o->file->bytes : done.end)
                : ERR_OK;
    if (!e) {
        wal_file_index(w, &w->index, o->file->number);
    }
    return e;
}

static enum err recover_opened(struct wal *w, struct opened *o)
{
    uint64_t before = w->stats.bad_records;
    enum err e;

    w->index.lacking = true;
    e = w->n_sources < SOURCES_MAX ? recover_by_index(w, o->file, o->source) : ERR_NOTFOUND;
    if (e == ERR_NOTFOUND) {
        e = recover_by_reading(w, o);
    }
    if (e) {
        return e;
    }
    w->stats.bad_records += o->spans;
    w->based = w->based || !o->ranges_lost;
    if (w->stats.bad_records > before) {
        w->damaged = true;
        recover_report(w, o->file->number, ".log", w->stats.bad_records - before, false);
    }
    return ERR_OK;
}

/* By the file itself, else by its index. *cut: the index describes a longer file. */
static enum err recover_header(struct wal *w, struct fio_file *f, const struct wal_file *file,
                               struct wal_header *header, bool *cut)
{
    char *path = wal_path(w, file->number, WAL_INDEX_SUFFIX);
    struct wal_header told;
    uint64_t log_bytes = 0;
    enum err e = wal_source_header(header, w->conf.fio, f, file->number);
    enum err known =
        path ? wal_index_header(&told, &log_bytes, w->conf.fio, path, file->number) : ERR_NOMEM;

    mem_free(path);
    if (known == ERR_NOMEM) {
        return known;
    }
    if (e == ERR_CORRUPT && !known) {
        *header = told;
        e = ERR_OK;
    }
    *cut = !e && !known && told.seed == header->seed && log_bytes > file->bytes;
    return e;
}

/* Of a file whose header is lost: kept, unless it was never begun. */
static enum err recover_put_away(struct wal *w, struct opened *o, const char *path)
{
    const struct fio *fio = w->conf.fio;
    bool any = true;
    enum err e = o->last ? wal_source_any(&any, fio, o->f, o->file->bytes) : ERR_OK;

    if (e) {
        return e;
    }
    if (any) {
        return recover_set_aside(w, path, o->file->number);
    }
    w->stats.torn_bytes += o->file->bytes;
    return fio->remove(fio->ctx, path);
}

/* Recovers file i; *gone when nothing in it can be read and it was put away. */
static enum err recover_file(struct wal *w, size_t i, const char *path, bool *gone)
{
    const struct fio *fio = w->conf.fio;
    struct opened o = {.file = &w->files[i], .last = i + 1 == w->n_files};
    struct wal_header header;
    bool cut = false;
    enum err e = fio->open(fio->ctx, &o.f, path);

    if (e) {
        return e;
    }
    e = fio->size(fio->ctx, o.f, &o.file->bytes);
    if (!e) {
        e = recover_header(w, o.f, o.file, &header, &cut);
        *gone = e == ERR_CORRUPT;
    }
    if (!e) {
        e = wal_source_create(&o.source, fio, o.f, &header);
    }
    if (!e) {
        o.spans = header.damaged + cut;
        e = recover_opened(w, &o);
    } else if (*gone) {
        e = recover_put_away(w, &o, path);
    }
    if (o.source) {
        wal_source_unref(o.source);
    } else {
        fio->close(fio->ctx, o.f);
    }
    return e;
}

static enum err recover_name(void *ctx, const char *name)
{
    struct wal *w = ctx;
    uint64_t number;

    if (fio_name_parse(&number, name, "wal-", WAL_ASIDE_SUFFIX)) {
        w->next_number = number > w->next_number ? number : w->next_number;
        recover_note_aside(w, number);
    }
    return fio_name_parse(&number, name, "wal-", ".log") ? wal_file_add(w, number) : ERR_OK;
}

static uint64_t recover_bytes(struct wal *w)
{
    uint64_t total = 0;

    for (size_t i = 0; i < w->n_files; i++) {
        const struct fio *fio = w->conf.fio;
        char *path = wal_path(w, w->files[i].number, ".log");
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
    char *path = wal_path(w, w->files[i].number, ".log");
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

/* An index whose file is gone. */
static enum err recover_orphan(void *ctx, const char *name)
{
    struct wal *w = ctx;
    uint64_t number;

    if (fio_name_parse(&number, name, "wal-", WAL_INDEX_SUFFIX) && !wal_file_find(w, number)) {
        wal_file_unindex(w, number);
    }
    return ERR_OK;
}

static enum err recover_all(struct wal *w, struct errmsg *why)
{
    uint64_t done = 0, last, total;
    enum err e = os_list_dir(w->dir, recover_name, w);

    if (e) {
        return errmsg_set(why, e, "cannot list %s: %s", w->dir, err_text(e));
    }
    if (w->n_files > 0) {
        qsort(w->files, w->n_files, sizeof *w->files, reclog_by_number);
        last = w->files[w->n_files - 1].number;
        w->next_number = last > w->next_number ? last : w->next_number;
    }
    total = w->conf.progress ? recover_bytes(w) : 0;
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
            wal_file_drop(w, i);
        } else {
            i++;
        }
    }
    return ERR_OK;
}

static enum err recover_log(struct wal *w, struct errmsg *why)
{
    enum err e = recover_all(w, why);

    if (e) {
        return e;
    }
    e = os_list_dir(w->dir, recover_orphan, w);
    return e ? errmsg_set(why, e, "cannot list %s: %s", w->dir, err_text(e)) : ERR_OK;
}

/* -- opening and closing -- */

enum err wal_open(struct wal **out, const struct wal_conf *conf, struct errmsg *why)
{
    struct wal *w = mem_zalloc(sizeof *w);
    enum err e = ERR_NOMEM;

    if (!w) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    w->conf = *conf;
    buf_init(&w->commit, COMMIT_MAX);
    wal_index_init(&w->index);
    wal_index_init(&w->next_index);
    w->dir = mem_strdup(conf->dir);
    if (!w->dir) {
        errmsg_set(why, e, "out of memory");
        goto fail;
    }
    w->out =
        (struct reclog_writer){.fio = conf->fio, .dir = w->dir, .prefix = "wal-", .suffix = ".log"};
    e = recover_log(w, why);
    if (e) {
        goto fail;
    }
    *out = w;
    return ERR_OK;

fail:
    wal_close(w);
    return e;
}

enum wal_trust wal_trust(const struct wal *w)
{
    return !w->damaged ? WAL_WHOLE : w->based ? WAL_HOLES : WAL_BASELESS;
}

void wal_close(struct wal *w)
{
    if (w) {
        if (w->out.f && !w->failed && w->commit.n == 0) {
            wal_file_index(w, &w->index, w->out.number);
        }
        reclog_writer_close(&w->out);
        buf_fini(&w->commit);
        wal_index_fini(&w->index);
        wal_index_fini(&w->next_index);
        mem_free(w->files);
        mem_free(w->dir);
        mem_free(w);
    }
}

/* -- writing -- */

/* Says in the header that was put how many records of ranges follow it. */
static enum err commit_count_ranges(struct wal *w)
{
    struct buf header;
    enum err e;

    buf_init(&header, WAL_HEADER_BYTES);
    wal_source_header_put(&header, w->next_number, w->next_seed, w->next_ranges);
    e = header.bad;
    if (!e) {
        memcpy(w->commit.p, header.p, header.n);
    }
    buf_fini(&header);
    return e;
}

/* Starts a file in the commit buffer: header and checkpoint. Nothing is on disk yet. */
static enum err commit_begin_file(struct wal *w, int64_t now_ns)
{
    uint64_t number = w->next_number + 1;
    enum err e = wal_file_add(w, number);

    if (e) {
        return e;
    }
    e = os_random(&w->next_seed, sizeof w->next_seed);
    if (!e) {
        w->next_number = number;
        w->fresh = true;
        w->next_window = now_ns / w->conf.window_ns;
        w->next_ranges = 0;
        wal_index_begin(&w->next_index, w->next_seed, WAL_VERSION);
        wal_source_header_put(&w->commit, w->next_number, w->next_seed, 0);
        e = w->commit.bad ? w->commit.bad : w->conf.checkpoint(w->conf.ctx, w, now_ns);
    }
    if (!e) {
        e = commit_count_ranges(w);
    }
    if (e) {
        w->n_files--;
        w->next_number = number - 1;
        w->fresh = false;
        buf_reset(&w->commit);
    }
    return e;
}

static bool commit_file_is_over(const struct wal *w, int64_t now_ns)
{
    return !w->out.f || w->out.bytes >= w->conf.file_bytes ||
           now_ns / w->conf.window_ns != w->out_window;
}

/* What was just added, from `before` to the end of the commit. */
static void commit_index(struct wal *w, const struct wal_record *r, size_t before)
{
    struct wal_record placed = *r;

    placed.at = (w->fresh ? 0 : w->out.bytes) + before;
    placed.size = (uint32_t)(w->commit.n - before);
    wal_index_add(w->fresh ? &w->next_index : &w->index, &placed);
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
    if (w->commit.n == 0 && commit_file_is_over(w, now_ns)) {
        e = commit_begin_file(w, now_ns);
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
    commit_index(w, r, before);
    w->next_ranges += w->fresh && r->kind == WAL_RANGES;
    if (file) {
        *file = w->files[w->n_files - 1].number;
    }
    return ERR_OK;
}

/* What a failed commit left on the disk goes. */
static void commit_undo(struct wal *w)
{
    reclog_undo(&w->out);
    if (w->fresh && !w->failed) {
        reclog_discard(&w->out);
    }
}

enum err wal_commit(struct wal *w, struct errmsg *why)
{
    enum err e;

    if (w->failed) {
        return errmsg_set(why, ERR_IO, "the log failed before");
    }
    if (w->commit.n == 0) {
        return ERR_OK;
    }
    if (w->fresh && w->out.f) {
        wal_file_index(w, &w->index, w->out.number);
    }
    e = reclog_commit(&w->out, w->fresh ? w->next_number : 0, &w->commit);
    if (e) {
        w->failed = e != ERR_NOSPACE;
        commit_undo(w);
        return errmsg_set(why, w->failed ? ERR_IO : e, "cannot write to the log in %s: %s", w->dir,
                          err_text(e));
    }
    if (w->fresh) {
        wal_index_fini(&w->index); /* it is written: a busy window's memory is not kept */
        w->index = w->next_index;
        wal_index_init(&w->next_index);
        w->out_seed = w->next_seed;
        w->out_window = w->next_window;
        w->fresh = false;
    }
    assert(w->files[w->n_files - 1].number == w->out.number);
    w->out.bytes += w->commit.n;
    w->files[w->n_files - 1].bytes = w->out.bytes;
    w->stats.commits++;
    buf_reset(&w->commit);
    return ERR_OK;
}

/* -- use of files -- */

void wal_hold(struct wal *w, uint64_t file)
{
    struct wal_file *f = wal_file_find(w, file);

    if (f) {
        f->held++;
    }
}

void wal_release(struct wal *w, uint64_t file)
{
    struct wal_file *f = wal_file_find(w, file);

    if (f && f->held > 0) {
        f->held--;
    }
}

/* While a commit that begins a file waits, that file is in the list but not durable. */
void wal_trim(struct wal *w)
{
    size_t keep = w->fresh ? 2 : 1;

    for (size_t i = 0; i + keep < w->n_files && !w->failed;) {
        char *path = w->files[i].held == 0 ? wal_path(w, w->files[i].number, ".log") : NULL;

        if (path && w->conf.fio->remove(w->conf.fio->ctx, path) == ERR_OK) {
            wal_file_unindex(w, w->files[i].number);
            wal_file_drop(w, i);
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
    e = w->commit.n > 0 ? ERR_OK : commit_begin_file(w, now_ns);
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
        out->bytes += w->files[i].bytes + w->files[i].index_bytes;
    }
}
