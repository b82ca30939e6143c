/* Opening the log: every file in order, by its index where that is sound, else by reading it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "collector/store/wal/wal_impl.h"
#include "collector/store/wal/wal_replay.h"
#include "common/base/mem.h"
#include "common/os/fio_name.h"
#include "common/os/os.h"

#define SOURCES_MAX 256u /* files that stay open; of further ones the batches are read */

/* The last file ends at `end`, durably. */
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

static void tell_damage(struct wal *w, uint64_t number, const char *suffix, uint64_t spans,
                        bool aside)
{
    char name[64];

    (void)snprintf(name, sizeof name, "wal-%016" PRIx64 "%s", number, suffix);
    if (w->conf.damaged) {
        w->conf.damaged(w->conf.ctx, &(struct wal_damage){name, spans, aside});
    }
}

static void note_aside(struct wal *w, uint64_t number)
{
    w->stats.aside++;
    w->damaged = true;
    tell_damage(w, number, WAL_ASIDE_SUFFIX, 1, true);
}

/* Out of the way but kept: a file whose seed is lost. */
static enum err set_aside(struct wal *w, const char *path, uint64_t number)
{
    char *aside = wal_path(w, number, WAL_ASIDE_SUFFIX);
    enum err e = ERR_NOMEM;

    if (aside) {
        e = w->conf.fio->rename(w->conf.fio->ctx, path, aside);
    }
    mem_free(aside);
    if (!e) {
        note_aside(w, number);
    }
    return e;
}

/* A file under recovery, as the replay callback needs to know it. */
struct recovery {
    struct wal *w;
    uint64_t number;
};

static enum err replay_indexed(void *ctx, const struct wal_record *r)
{
    struct recovery *rec = ctx;
    enum err e = rec->w->conf.replay(rec->w->conf.ctx, rec->w, rec->number, r);

    rec->w->stats.bad_records += e == ERR_CORRUPT;
    return e == ERR_CORRUPT ? ERR_OK : e;
}

/* ERR_NOTFOUND: there is no sound index, the file has to be read. */
static enum err replay_index(struct wal *w, struct wal_file *file, struct wal_source *log)
{
    struct recovery rec = {w, file->number};
    char *path = wal_path(w, file->number, WAL_INDEX_SUFFIX);
    struct wal_index_job job = {.fio = w->conf.fio,
                                .path = path,
                                .number = file->number,
                                .log_bytes = file->bytes,
                                .log = log,
                                .each = replay_indexed,
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

static enum err replay_record(void *ctx, const struct wal_record *r)
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
    struct wal_replay job = {w->conf.fio, o->f, o->file->bytes, header, replay_record, &rec};
    struct wal_replayed done;
    enum err e;

    wal_index_begin(&w->index, header->seed, header->version);
    e = wal_replay(&done, &job);
    if (e) {
        return e;
    }
    w->stats.replayed_bytes += done.end;
    o->spans += done.bad_records + (done.strange_end || (!o->last && done.end < o->file->bytes));
    o->ranges_lost = done.ranges_lost;
    w->index.lacking = w->index.lacking || o->spans > 0; /* counted at every opening */
    e = o->last ? repair_last(w, o->f, o->file, done.strange_end ? o->file->bytes : done.end)
                : ERR_OK;
    if (!e) {
        wal_finish_index(w, &w->index, o->file->number);
    }
    return e;
}

static enum err recover_opened(struct wal *w, struct opened *o)
{
    uint64_t before = w->stats.bad_records;
    enum err e;

    w->index.lacking = true;
    e = w->n_sources < SOURCES_MAX ? replay_index(w, o->file, o->source) : ERR_NOTFOUND;
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
        tell_damage(w, o->file->number, ".log", w->stats.bad_records - before, false);
    }
    return ERR_OK;
}

/* By the file itself, else by its index. *cut: the index tells of a longer file. */
static enum err read_header(struct wal *w, struct fio_file *f, const struct wal_file *file,
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
static enum err put_away(struct wal *w, struct opened *o, const char *path)
{
    const struct fio *fio = w->conf.fio;
    bool any = true;
    enum err e = o->last ? wal_replay_any(&any, fio, o->f, o->file->bytes) : ERR_OK;

    if (e) {
        return e;
    }
    if (any) {
        return set_aside(w, path, o->file->number);
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
        e = read_header(w, o.f, o.file, &header, &cut);
        *gone = e == ERR_CORRUPT;
    }
    if (!e) {
        e = wal_source_create(&o.source, fio, o.f, &header);
    }
    if (!e) {
        o.spans = header.damaged + cut;
        e = recover_opened(w, &o);
    } else if (*gone) {
        e = put_away(w, &o, path);
    }
    if (o.source) {
        wal_source_unref(o.source);
    } else {
        fio->close(fio->ctx, o.f);
    }
    return e;
}

static enum err collect_name(void *ctx, const char *name)
{
    struct wal *w = ctx;
    uint64_t number;

    if (fio_name_parse(&number, name, "wal-", WAL_ASIDE_SUFFIX)) {
        w->next_number = number > w->next_number ? number : w->next_number;
        note_aside(w, number);
    }
    return fio_name_parse(&number, name, "wal-", ".log") ? wal_file_add(w, number) : ERR_OK;
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
static enum err drop_orphan(void *ctx, const char *name)
{
    struct wal *w = ctx;
    uint64_t number;

    if (fio_name_parse(&number, name, "wal-", WAL_INDEX_SUFFIX) && !wal_file_find(w, number)) {
        wal_remove_index(w, number);
    }
    return ERR_OK;
}

static enum err recover_all(struct wal *w, struct errmsg *why)
{
    uint64_t done = 0, last, total;
    enum err e = os_list_dir(w->dir, collect_name, w);

    if (e) {
        return errmsg_set(why, e, "cannot list %s: %s", w->dir, err_text(e));
    }
    if (w->n_files > 0) {
        qsort(w->files, w->n_files, sizeof *w->files, by_number);
        last = w->files[w->n_files - 1].number;
        w->next_number = last > w->next_number ? last : w->next_number;
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
            wal_file_drop(w, i);
        } else {
            i++;
        }
    }
    return ERR_OK;
}

enum err wal_recover(struct wal *w, struct errmsg *why)
{
    enum err e = recover_all(w, why);

    if (e) {
        return e;
    }
    e = os_list_dir(w->dir, drop_orphan, w);
    return e ? errmsg_set(why, e, "cannot list %s: %s", w->dir, err_text(e)) : ERR_OK;
}
