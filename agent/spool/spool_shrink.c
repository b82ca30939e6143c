/* How the spool keeps below its limit: see spool_disk.h. */
#include "agent/spool/spool_disk_impl.h"

#include "common/base/mem.h"

#define FLUSH_BYTES (1u << 20) /* of a rewritten file, written at once */

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
static enum err walk(struct spool_disk *d, const struct spool_file *f,
                     enum err (*each)(void *ctx, const struct spool_record *r), void *ctx)
{
    bool is_back = d->back.number == f->number && d->back.at >= f->begin;
    uint64_t at = is_back ? d->back.at : f->begin;
    struct spool_segment view;
    enum err e = spool_disk_view(d, f, &view);

    while (!e) {
        struct spool_record r;

        e = spool_segment_next(&view, &at, &r, &d->stats.unreadable);
        if (e == ERR_END) {
            return ERR_OK;
        }
        if (!e && !spool_disk_is_done(d, f->stream, r.seq)) {
            e = spool_segment_read(&view, at, &r, &d->scratch);
            if (!e) {
                e = each(ctx, &r);
            } else if (e == ERR_CORRUPT) {
                d->stats.unreadable++;
                e = ERR_OK;
            }
        }
        if (!e) {
            at = spool_record_end(at, &r);
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

static void forget(struct spool_disk *d, size_t n)
{
    d->stats.held -= d->stats.held > 0;
    d->stats.held_bytes -= d->stats.held_bytes < n ? d->stats.held_bytes : n;
}

static enum err count_one(void *ctx, const struct spool_record *r)
{
    struct drop *j = ctx;
    struct spool_inflight *hand = spool_disk_inflight(j->d, j->stream, r->seq);

    if (hand) {
        hand->gone = true; /* counted when it does not arrive */
        return ERR_OK;
    }
    spool_batch_count(j->loss, j->d->scratch.p, r->n);
    forget(j->d, r->n);
    return ERR_OK;
}

void spool_shrink_drop(struct spool_disk *d, size_t i, struct spool_loss *loss)
{
    struct drop job = {d, loss, d->files[i].stream};

    if (d->files[i].number >= d->back.number && walk(d, &d->files[i], count_one, &job)) {
        d->stats.unreadable++;
    }
    spool_disk_remove(d, i);
}

/* -- rewriting with less -- */

static enum err flush(struct copy *c)
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
    spool_record_put(&c->pending, c->file.seed, r->seq, r->when_ns, d->reduced.p, d->reduced.n);
    c->smaller += r->n - d->reduced.n; /* may wrap, and back again */
    e = c->pending.bad;
    return !e && c->pending.n >= FLUSH_BYTES ? flush(c) : e;
}

static enum err write_copy(struct copy *c, const struct spool_file *old)
{
    const struct fio *fio = c->d->conf.fio;
    enum err e;

    spool_header_put(&c->pending, &(struct spool_header){.detail = c->file.detail,
                                                         .number = old->number,
                                                         .stream = old->stream,
                                                         .first_seq = old->first_seq,
                                                         .seed = old->seed});
    e = walk(c->d, old, copy_one, c);
    if (!e) {
        e = flush(c);
    }
    if (!e) {
        e = fio->sync(fio->ctx, c->to);
    }
    fio->close(fio->ctx, c->to);
    return e ? e : fio->sync_dir(fio->ctx, c->d->dir);
}

/* The copy takes the old one's name. */
static enum err replace(struct spool_disk *d, const char *tmp, const char *path)
{
    const struct fio *fio = d->conf.fio;
    enum err e;

    spool_disk_unread(d);
    e = fio->rename(fio->ctx, tmp, path);
    return e ? e : fio->sync_dir(fio->ctx, d->dir);
}

static void rewind_cursor(struct spool_cursor *c, uint64_t number)
{
    if (c->number == number) {
        c->at = 0; /* its first record */
    }
}

/* The file without what the next lower detail leaves out. */
static enum err reduce(struct spool_disk *d, size_t i)
{
    const struct fio *fio = d->conf.fio;
    struct spool_file *old = &d->files[i];
    struct copy c = {.d = d, .file = *old};
    char *tmp = spool_disk_path(d, old->number, ".tmp");
    char *path = spool_disk_path(d, old->number, SPOOL_SUFFIX);
    enum err e = tmp && path ? ERR_OK : ERR_NOMEM;

    c.file.detail = old->detail + 1;
    c.file.bytes = 0;
    c.file.begin = SPOOL_HEADER_BYTES;
    buf_init(&c.pending, FLUSH_BYTES + SPOOL_BATCH_MAX + SPOOL_HEADER_BYTES + SPOOL_RECORD_BYTES);
    if (!e) {
        e = fio->create(fio->ctx, &c.to, tmp);
    }
    if (!e) {
        e = write_copy(&c, old);
        if (!e) {
            e = replace(d, tmp, path);
        }
        if (e) {
            spool_disk_discard(d, tmp);
        }
    }
    if (!e) {
        *old = c.file;
        d->stats.held -= c.gone;
        d->stats.held_bytes -= c.smaller;
        d->stats.reduced.batches += c.loss.batches;
        d->stats.reduced.rows += c.loss.rows;
        d->stats.reduced.events += c.loss.events;
        rewind_cursor(&d->back, old->number);
        rewind_cursor(&d->live, old->number);
        rewind_cursor(&d->newest, old->number);
    }
    buf_fini(&c.pending);
    mem_free(tmp);
    mem_free(path);
    return e;
}

static uint64_t on_disk(const struct spool_disk *d)
{
    uint64_t n = 0;

    for (size_t i = 0; i < d->n_files; i++) {
        n += d->files[i].bytes;
    }
    return n;
}

void spool_shrink(struct spool_disk *d, uint64_t bytes)
{
    size_t n = d->fresh ? d->n_files : d->n_files - 1; /* the one appended to stays as it is */

    while (n > 0 && on_disk(d) + bytes > d->conf.max_bytes) {
        size_t pick = 0;

        for (size_t i = 1; i < n; i++) {
            pick = d->files[i].detail < d->files[pick].detail ? i : pick;
        }
        if (d->files[pick].detail == SPOOL_LEDGER || reduce(d, pick)) {
            spool_shrink_drop(d, 0, &d->stats.dropped);
            n--;
        }
    }
}
