/* The files of a spool: found at opening, read, made smaller, removed.
 *
 * Opening. Files are taken in order of their numbers; the newest one says which stream goes on and
 * with which number. Damage inside a file costs the records it is in.
 * The newest file may end in a commit that was cut off: what stands behind its last sound record
 * goes, and the rest is synced, since a killed process leaves in the page cache what is not durable
 * yet, and nothing leaves this host before it is. Nothing is appended to any of these files. */
#include "agent/spool/spool_files.h"

#include <stdlib.h>
#include <string.h>

#include "agent/spool/dead_letter.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define FLUSH_BYTES (1u << 20) /* of a rewritten file, written at once */

char *spool_files_path(const struct spool_disk *d, uint64_t number, const char *suffix)
{
    return fio_name_path(d->dir, SPOOL_PREFIX, number, suffix);
}

enum err spool_files_room(struct spool_disk *d)
{
    return VEC_ROOM(&d->files, &d->cap_files, d->n_files + 1, SIZE_MAX); /* max_bytes bounds them */
}

void spool_files_discard(struct spool_disk *d, const char *path)
{
    const struct fio *fio = d->conf.fio;

    err_ignore(fio->sync_dir(fio->ctx, d->dir));
    err_ignore(fio->remove(fio->ctx, path));
    err_ignore(fio->sync_dir(fio->ctx, d->dir));
}

void spool_files_unread(struct spool_disk *d)
{
    if (d->in) {
        d->conf.fio->close(d->conf.fio->ctx, d->in);
        d->in = NULL;
    }
}

enum err spool_files_view(struct spool_disk *d, const struct spool_file *f,
                          struct spool_segment *out)
{
    const struct fio *fio = d->conf.fio;
    char *path;
    enum err e;

    *out = (struct spool_segment){.fio = fio, .f = d->out.f, .end = f->bytes, .seed = f->seed};
    if (d->out.f && f == &d->files[d->n_files - 1]) {
        return ERR_OK;
    }
    if (!d->in || d->in_number != f->number) {
        spool_files_unread(d);
        path = spool_files_path(d, f->number, SPOOL_SUFFIX);
        e = path ? fio->open(fio->ctx, &d->in, path) : ERR_NOMEM;
        mem_free(path);
        if (e) {
            d->in = NULL;
            return e;
        }
        d->in_number = f->number;
    }
    out->f = d->in;
    return ERR_OK;
}

bool spool_files_is_done(const struct spool_disk *d, uint64_t stream, uint64_t seq)
{
    for (size_t i = 0; i < d->n_ranges; i++) {
        const struct spool_range *r = &d->ranges[i];

        if (r->stream == stream && r->first <= seq && seq <= r->last) {
            return true;
        }
    }
    return false;
}

void spool_files_remove(struct spool_disk *d, size_t i)
{
    const struct fio *fio = d->conf.fio;
    char *path = spool_files_path(d, d->files[i].number, SPOOL_SUFFIX);

    spool_files_unread(d);
    if (path) {
        err_ignore(fio->remove(fio->ctx, path)); /* should it stay, it is sent again */
    }
    mem_free(path);
    d->n_files--;
    memmove(d->files + i, d->files + i + 1, (d->n_files - i) * sizeof *d->files);
}

struct spool_inflight *spool_files_inflight(struct spool_disk *d, uint64_t stream, uint64_t seq)
{
    for (size_t i = 0; i < d->n_inflight; i++) {
        if (d->inflight[i].stream == stream && d->inflight[i].seq == seq) {
            return &d->inflight[i];
        }
    }
    return NULL;
}

/* -- opening -- */

static enum err recover_name(void *ctx, const char *name)
{
    struct spool_disk *d = ctx;
    uint64_t number;
    enum err e;

    if (fio_name_parse(&number, name, SPOOL_PREFIX, ".tmp")) {
        char *path = spool_files_path(d, number, ".tmp");

        if (path) {
            err_ignore(d->conf.fio->remove(d->conf.fio->ctx, path));
        }
        mem_free(path);
        return ERR_OK;
    }
    if (!fio_name_parse(&number, name, SPOOL_PREFIX, SPOOL_SUFFIX)) {
        d->stats.foreign += strcmp(name, "lock") != 0 && strcmp(name, "run") != 0 &&
                            strcmp(name, SPOOL_MARK_NAME) != 0 &&
                            strcmp(name, DEAD_LETTER_DIR) != 0;
        return ERR_OK;
    }
    e = spool_files_room(d);
    if (!e) {
        d->files[d->n_files++] = (struct spool_file){.number = number};
    }
    return e;
}

/* Out of the way but kept. */
static enum err recover_set_aside(struct spool_disk *d, uint64_t number)
{
    char *from = spool_files_path(d, number, SPOOL_SUFFIX),
         *to = spool_files_path(d, number, ".bad");
    enum err e = ERR_NOMEM;

    spool_files_unread(d);
    if (from && to) {
        e = d->conf.fio->rename(d->conf.fio->ctx, from, to);
    }
    mem_free(from);
    mem_free(to);
    return e;
}

/* Takes note of the file's records. `last`: *end is where the last sound one ends. */
static enum err recover_scan(struct spool_disk *d, struct spool_file *f, bool last, uint64_t *end)
{
    uint64_t at = f->begin;
    struct spool_segment view;
    struct spool_record r;
    enum err e = spool_files_view(d, f, &view);

    *end = f->begin;
    f->newest_ns = INT64_MAX; /* an empty one keeps stream and number */
    while (!e) {
        uint64_t damaged = 0;

        e = spool_segment_next(&view, &at, &r, &damaged);
        if (e) {
            break;
        }
        if (last) {
            e = spool_segment_read(&view, at, &r, &d->scratch);
        }
        at = spool_segment_end(at, &r);
        if (e == ERR_CORRUPT) {
            e = ERR_OK; /* counted when it is reached, unless it is part of the torn end */
            continue;
        }
        f->last_seq = r.seq;
        f->newest_ns = r.when_ns;
        *end = at;
        d->stats.held++;
        d->stats.held_bytes += r.n;
    }
    return e == ERR_END ? ERR_OK : e;
}

static enum err recover_header(struct spool_disk *d, struct spool_file *f)
{
    uint8_t bytes[SPOOL_HEADER_BYTES];
    const struct fio *fio = d->conf.fio;
    struct spool_segment view;
    struct spool_header h;
    size_t got;
    enum err e = spool_files_view(d, f, &view);

    if (!e) {
        e = fio->size(fio->ctx, view.f, &f->bytes);
    }
    if (!e) {
        e = fio->read(fio->ctx, view.f, 0, bytes, sizeof bytes, &got);
    }
    if (!e) {
        e = spool_segment_header(&h, f->number, bytes, got);
    }
    if (!e) {
        f->stream = h.stream;
        f->first_seq = h.first_seq;
        f->last_seq = h.first_seq - 1;
        f->seed = h.seed;
        f->begin = h.bytes;
        d->stats.damaged_headers += h.damaged;
        f->detail = (enum spool_detail)h.detail;
    }
    return e;
}

/* The newest file ends where its sound records end, durably. */
static enum err recover_end(struct spool_disk *d, struct spool_file *f, uint64_t end)
{
    uint64_t size = f->bytes;

    if (end < size) {
        d->stats.torn_bytes += size - end;
        f->bytes = end;
    }
    return reclog_cut(d->conf.fio, d->in, d->dir, size, end);
}

/* *gone: it holds nothing and is no part of the spool any more. */
static enum err recover_file(struct spool_disk *d, size_t i, bool *gone)
{
    struct spool_file *f = &d->files[i];
    bool last = i + 1 == d->n_files;
    uint64_t end;
    enum err e = recover_header(d, f);

    *gone = false;
    if (e == ERR_CORRUPT) {
        *gone = true;
        if (last && f->bytes < SPOOL_HEADER_BYTES) { /* its very first commit was cut off */
            d->stats.torn_bytes += f->bytes;
            return ERR_OK;
        }
        d->stats.unreadable++;
        return recover_set_aside(d, f->number);
    }
    if (!e) {
        e = recover_scan(d, f, last, &end);
    }
    if (!e && last) {
        e = recover_end(d, f, end);
    }
    return e;
}

static enum err recover_all(struct spool_disk *d, struct errmsg *why)
{
    for (size_t i = 0; i < d->n_files;) {
        uint64_t number = d->files[i].number;
        bool gone;
        enum err e = recover_file(d, i, &gone);

        if (e == ERR_VERSION) {
            return errmsg_set(why, e,
                              "the spool in %s was written by a newer version of the agent: use "
                              "that one, or set spool.dir to another directory",
                              d->dir);
        }
        if (e) {
            return errmsg_set(why, e, "cannot recover the spool in %s: %s", d->dir, err_text(e));
        }
        d->next_number = number + 1;
        if (!gone) {
            i++;
            continue;
        }
        spool_files_unread(d);
        spool_files_remove(d, i);
    }
    return ERR_OK;
}

enum err spool_files_recover(struct spool_disk *d, struct errmsg *why)
{
    enum err e = os_list_dir(d->dir, recover_name, d);

    d->next_number = 1;
    if (e) {
        return errmsg_set(why, e, "cannot list %s: %s", d->dir, err_text(e));
    }
    if (d->n_files > 0) {
        qsort(d->files, d->n_files, sizeof *d->files, reclog_by_number);
    }
    e = recover_all(d, why);
    for (size_t i = 0; i < d->n_files; i++) {
        int64_t ns = d->files[i].newest_ns; /* INT64_MAX: it is empty */

        d->stats.newest_ns = ns != INT64_MAX && ns > d->stats.newest_ns ? ns : d->stats.newest_ns;
    }
    if (!e && d->n_files > 0) {
        const struct spool_file *f = &d->files[d->n_files - 1];

        d->stream = f->stream;
        d->next_seq = f->last_seq + 1;
    }
    return e;
}

/* -- keeping below the limit: see spool_disk.h -- */

/* The copy under way. */
struct copy {
    struct spool_disk *d;
    struct spool_file file; /* as it will be */
    struct fio_file *to;
    struct buf pending; /* not written yet */
    struct spool_loss loss;
    uint64_t gone, smaller; /* records left out; bytes of content less */
};

/* Calls `each` for every record of the file that is not done, with its content in d->scratch.
 * What cannot be read is counted and left out. */
static enum err files_walk(struct spool_disk *d, const struct spool_file *f,
                           enum err (*each)(void *ctx, const struct spool_record *r), void *ctx)
{
    bool is_back = d->back.number == f->number && d->back.at >= f->begin;
    uint64_t at = is_back ? d->back.at : f->begin;
    struct spool_segment view;
    enum err e = spool_files_view(d, f, &view);

    while (!e) {
        struct spool_record r;

        e = spool_segment_next(&view, &at, &r, &d->stats.unreadable);
        if (e == ERR_END) {
            return ERR_OK;
        }
        if (!e && !spool_files_is_done(d, f->stream, r.seq)) {
            e = spool_segment_read(&view, at, &r, &d->scratch);
            if (!e) {
                e = each(ctx, &r);
            } else if (e == ERR_CORRUPT) {
                d->stats.unreadable++;
                e = ERR_OK;
            }
        }
        if (!e) {
            at = spool_segment_end(at, &r);
        }
    }
    return e;
}

/* -- dropping a whole file -- */

struct drop {
    struct spool_disk *d;
    struct spool_loss *loss;
    uint64_t stream;
};

static void drop_forget(struct spool_disk *d, size_t n)
{
    d->stats.held -= d->stats.held > 0;
    d->stats.held_bytes -= d->stats.held_bytes < n ? d->stats.held_bytes : n;
}

static enum err drop_count(void *ctx, const struct spool_record *r)
{
    struct drop *j = ctx;
    struct spool_inflight *hand = spool_files_inflight(j->d, j->stream, r->seq);

    if (hand) {
        hand->gone = true; /* counted when it does not arrive */
        return ERR_OK;
    }
    spool_batch_count(j->loss, j->d->scratch.p, r->n);
    drop_forget(j->d, r->n);
    return ERR_OK;
}

void spool_files_drop(struct spool_disk *d, size_t i, struct spool_loss *loss)
{
    struct drop job = {d, loss, d->files[i].stream};

    if (d->files[i].number >= d->back.number && files_walk(d, &d->files[i], drop_count, &job)) {
        d->stats.unreadable++;
    }
    spool_files_remove(d, i);
}

/* -- rewriting with less -- */

static enum err copy_flush(struct copy *c)
{
    const struct fio *fio = c->d->conf.fio;
    enum err e = fio->write(fio->ctx, c->to, c->file.bytes, c->pending.p, c->pending.n);

    c->file.bytes += c->pending.n;
    buf_reset(&c->pending);
    return e;
}

static enum err copy_one(void *ctx, const struct spool_record *r)
{
    struct copy *c = ctx;
    struct spool_disk *d = c->d;
    enum err e =
        spool_batch_reduce(d->encoder, &d->reduced, &c->loss, d->scratch.p, r->n, c->file.detail);

    if (e == ERR_NOMEM) {
        return e;
    }
    if (e) { /* not a batch of ours, or it cannot be packed: gone whole */
        spool_batch_count(&d->stats.dropped, d->scratch.p, r->n);
        c->gone++;
        c->smaller += r->n;
        return ERR_OK;
    }
    c->loss.batches++;
    spool_segment_put_record(&c->pending, c->file.seed, r->seq, r->when_ns, d->reduced.p,
                             d->reduced.n);
    c->smaller += r->n - d->reduced.n; /* may wrap, and back again */
    e = c->pending.bad;
    return !e && c->pending.n >= FLUSH_BYTES ? copy_flush(c) : e;
}

static enum err copy_write(struct copy *c, const struct spool_file *old)
{
    const struct fio *fio = c->d->conf.fio;
    enum err e;

    spool_segment_put_header(&c->pending, &(struct spool_header){.detail = c->file.detail,
                                                                 .number = old->number,
                                                                 .stream = old->stream,
                                                                 .first_seq = old->first_seq,
                                                                 .seed = old->seed});
    e = files_walk(c->d, old, copy_one, c);
    if (!e) {
        e = copy_flush(c);
    }
    if (!e) {
        e = fio->sync(fio->ctx, c->to);
    }
    fio->close(fio->ctx, c->to);
    return e ? e : fio->sync_dir(fio->ctx, c->d->dir);
}

/* The copy takes the old one's name. */
static enum err copy_put_in_place(struct spool_disk *d, const char *tmp, const char *path)
{
    const struct fio *fio = d->conf.fio;
    enum err e;

    spool_files_unread(d);
    e = fio->rename(fio->ctx, tmp, path);
    return e ? e : fio->sync_dir(fio->ctx, d->dir);
}

static void shrink_rewind(struct spool_cursor *c, uint64_t number)
{
    if (c->number == number) {
        c->at = 0; /* its first record */
    }
}

/* The file without what the next lower detail leaves out. */
static enum err shrink_file(struct spool_disk *d, size_t i)
{
    const struct fio *fio = d->conf.fio;
    struct spool_file *old = &d->files[i];
    struct copy c = {.d = d, .file = *old};
    char *tmp = spool_files_path(d, old->number, ".tmp");
    char *path = spool_files_path(d, old->number, SPOOL_SUFFIX);
    enum err e = tmp && path ? ERR_OK : ERR_NOMEM;

    c.file.detail = old->detail + 1;
    c.file.bytes = 0;
    c.file.begin = SPOOL_HEADER_BYTES;
    buf_init(&c.pending, FLUSH_BYTES + SPOOL_BATCH_MAX + SPOOL_HEADER_BYTES + SPOOL_RECORD_BYTES);
    if (!e) {
        e = fio->create(fio->ctx, &c.to, tmp);
    }
    if (!e) {
        e = copy_write(&c, old);
        if (!e) {
            e = copy_put_in_place(d, tmp, path);
        }
        if (e) {
            spool_files_discard(d, tmp);
        }
    }
    if (!e) {
        *old = c.file;
        d->stats.held -= c.gone;
        d->stats.held_bytes -= c.smaller;
        d->stats.reduced.batches += c.loss.batches;
        d->stats.reduced.rows += c.loss.rows;
        d->stats.reduced.events += c.loss.events;
        shrink_rewind(&d->back, old->number);
        shrink_rewind(&d->live, old->number);
        shrink_rewind(&d->newest, old->number);
    }
    buf_fini(&c.pending);
    mem_free(tmp);
    mem_free(path);
    return e;
}

static uint64_t files_bytes(const struct spool_disk *d)
{
    uint64_t n = 0;

    for (size_t i = 0; i < d->n_files; i++) {
        n += d->files[i].bytes;
    }
    return n;
}

void spool_files_shrink(struct spool_disk *d, uint64_t bytes)
{
    size_t n = d->fresh ? d->n_files : d->n_files - 1; /* the one appended to stays as it is */

    while (n > 0 && files_bytes(d) + bytes > d->conf.max_bytes) {
        size_t pick = 0;

        for (size_t i = 1; i < n; i++) {
            pick = d->files[i].detail < d->files[pick].detail ? i : pick;
        }
        if (d->files[pick].detail == SPOOL_LEDGER || shrink_file(d, pick)) {
            spool_files_drop(d, 0, &d->stats.dropped);
            n--;
        }
    }
}
